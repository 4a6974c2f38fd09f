"""`ensemble`: a function of one member for all members of a batch of any size."""

import functools
import hashlib
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from geodyn._checks import UNTRACEABLE
from geodyn._compile.jit import as_pytree, jit, static_count
from geodyn._gate import checked
from geodyn._progress import compiling
from geodyn._typing import Count, Int, PyTree
from geodyn.integrators.contract.results import RESULTS
from geodyn.integrators.saving.inputs import fingerprint
from geodyn.integrators.trajectory import Trajectory
from geodyn.scale.chunks import Workers, bytes_of, in_order, is_shape, shapes_of, total_of
from geodyn.scale.reductions import AbstractReduction
from geodyn.scale.store import MISSING, in_memory, on_disk

# The axes of a trajectory's arrays in a data set.
_CONFIGURATION = ("point", "coordinate")
_AXES = {
    **dict.fromkeys(("t", "local_error"), ("time",)),
    **dict.fromkeys(("q", "v", "p"), ("time", *_CONFIGURATION)),
    **dict.fromkeys(("q0", "v0"), _CONFIGURATION),
    "multipliers": ("time", "constraint"),
}
SECONDS = 0.5


class Ensemble(eqx.Module):
    """The members of `gd.ensemble` and how each of them ended.

    `len(ensemble)` is their number N, `ensemble[i]` the value of a member, and `ensemble.failed` [F] lists those that
    failed.

    Args:
        values: what the function returned, each array with the axis [N] before its own: numpy arrays, or, with a
            `folder`, arrays of zarr, which are read where they are sliced. None if members are not kept.
        status: how each member ended [N], one of `gd.RESULTS`: as its trajectory or its search says, else whether its
            numbers are finite.
        reduced: the result of `reduce`, or None.
        folder: the folder with the results, or None.

    Example:
        >>> found = gd.ensemble(lambda x: 1 / x, jnp.arange(4.0))
        >>> print(found.values, found.failed, gd.RESULTS(found.status[0]).name)
        [       inf 1.         0.5        0.33333333] [0] not_finite
    """

    values: PyTree
    status: Int[np.ndarray, " N"]
    reduced: Any = None
    folder: Path | None = eqx.field(static=True, default=None)

    def __len__(self):
        return len(self.status)

    def __getitem__(self, i):
        if self.values is None:
            raise ValueError("the members were not kept: gd.ensemble(…, keep=True)")
        return jax.tree.map(lambda x: x[i], self.values)

    @property
    def failed(self) -> Int[np.ndarray, " F"]:
        """The members that failed or were not computed."""
        return np.flatnonzero(self.status != RESULTS.successful)

    @property
    def dataset(self):
        """The members as an `xarray.Dataset` with the dimension `member`; from a folder it is read where it is used.
        Without geodyn it is `xarray.open_zarr(folder, consolidated=False)`."""
        try:
            import xarray
        except ImportError:
            raise ImportError("dataset needs xarray: pip install 'geodyn[ensemble]'") from None
        if self.folder is not None:
            return xarray.open_zarr(self.folder, consolidated=False, chunks=None)
        named = _named(self.values)
        axes = {name: ("member", *_axes(self.values, name, x.shape[1:])) for name, x in named.items()}
        arrays = {name: (axes[name], x) for name, x in named.items()}
        return xarray.Dataset(arrays | {"status": ("member", self.status)})


@checked
def ensemble(
    function: Callable[[PyTree], PyTree],
    members: PyTree,
    *,
    folder: str | os.PathLike | None = None,
    reduce: AbstractReduction | None = None,
    keep: bool | None = None,
    chunk: Count | None = None,
    progress: bool = False,
) -> Ensemble:
    """Computes a function of one member for every member of a batch of any size, on all cores and devices.

    The members are computed in chunks, each by `jax.vmap` of the function in one compiled program: on a CPU by one
    thread for each core, else on all devices of this process. In a run of several processes (`jax.distributed`) each
    takes a part of the chunks; they meet in the `folder`.

    Args:
        function: (member) -> a pytree of arrays, such as `gd.integrate(…).q[-1]` or a whole trajectory. It is traced,
            so use jax.numpy in it. A failed member does not disturb the others.
        members: a pytree of arrays with the axis of the N members before their own: initial data, parameters, keys of
            `jax.random`.
        folder: where to keep the members on the disk, so that they need not fit into memory: a zarr group, which xarray
            opens. Every finished chunk stays: after a crash or Ctrl-C the same call goes on from there, bit for bit
            (with the same versions on the same machine). Needs `pip install 'geodyn[ensemble]'`.
        reduce: a statistic of all members that did not fail, such as `gd.ensembles.Mean()`.
        keep: whether the values of the members are kept; default: unless there is a `reduce`.
        chunk: members computed at once; default: on a CPU some 1000, and no more than fit into the memory.
        progress: True shows the members done, the rate and the time left.

    Returns:
        An `Ensemble`: values, status of each member, `reduced`. With `progress` or `folder`, Ctrl-C returns what was
        computed so far.

    Raises:
        ValueError: for members of different lengths, a folder of another ensemble, a function that cannot be traced.
        OSError: where the folder cannot be written, as on a full disk; what is in it stays whole.

    Example:
        A thousand pendulums, from which amplitude each of them was let go.

        >>> pendulum = gd.Lagrangian(lambda q, v: 0.5 * v[0] ** 2 + jnp.cos(q[0]))
        >>> def swing(angle):
        ...     return gd.integrate(pendulum, angle[None], t1=6.283185307179586, steps=50).q[-1, 0]
        >>> found = gd.ensemble(swing, jnp.linspace(0.1, 2.0, 1000))
        >>> print(len(found), len(found.failed), found.values[[0, -1]].round(3))
        1000 0 [0.1   0.035]
    """
    if not callable(function):
        raise ValueError(f"function must be a function of one member, got {type(function).__name__}")
    members, count = _members(members)
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((members, as_pytree(function), reduce))):
        raise ValueError(
            "gd.ensemble runs on the host and has no place inside of jit, vmap or grad: differentiate the function of "
            "one member, as gd.ensemble(jax.grad(function), …, reduce=gd.ensembles.Mean()) does"
        )
    keep = reduce is None if keep is None else keep
    if jax.process_count() > 1 and folder is None:
        raise ValueError("folder must be given in a run of several processes: it is where their results meet")
    try:
        shapes = shapes_of(function, members)
    except UNTRACEABLE as error:
        raise ValueError(
            f"function cannot be traced ({type(error).__name__}): write it with jax.numpy instead of math, numpy, "
            "float() or an `if` on its arguments"
        ) from None
    workers = Workers(function, members, reduce, keep)
    size = workers.chunk(count, bytes_of(shapes)) if chunk is None else static_count("chunk", chunk)
    if size % len(workers.devices):
        raise ValueError(f"chunk must be a multiple of the {len(workers.devices)} devices, got {size}")
    totals = total_of(reduce, shapes)
    kept = {name: (x, _axes(shapes, name, x.shape)) for name, x in _named(shapes if keep else None).items()}
    if folder is None:
        store = in_memory(count, size, kept, _named(totals))
    else:
        store = on_disk(folder, _inputs(function, members, reduce, keep), count, size, kept, _named(totals))
    done = store.status() != MISSING
    places = [(begin, min(begin + store.chunk, count)) for begin in range(0, count, store.chunk)]
    chunks = [(begin, end) for begin, end in places if not all(done[begin:end])]
    own = chunks[jax.process_index() :: jax.process_count()]
    try:
        if own:
            with compiling(progress):
                workers.compile(store.chunk)

        def written(begin: int, end: int):
            found = workers.run(begin, end)
            store.write(begin, end, _named(found.values), _named(found.total), found.status)

        shown = {"total": count, "initial": int(done.sum()), "unit": " members", "unit_scale": True}
        with tqdm(**shown, disable=not progress) as bar:
            for (begin, end), _ in in_order(written, own, workers.threads):
                bar.update(end - begin)
            while len(own) < len(chunks) and np.any(store.status() == MISSING):
                time.sleep(SECONDS)  # The other processes have not finished.
                bar.update(int(np.sum(store.status() != MISSING)) - bar.n)
    except KeyboardInterrupt:
        if not progress and folder is None:
            raise
    status = store.status()
    values = _like(shapes, store.values) if keep else None
    reduced = None if reduce is None else _reduced(reduce, store, totals)
    return Ensemble(values, np.where(status == MISSING, RESULTS.interrupted, status), reduced, store.folder)


def _reduced(reduce, store, like):
    """The result of all chunks that were computed, joined in their order, so that it does not depend on the threads."""
    places = range(0, len(store.status()), store.chunk)
    known = [store.total(i) for i, begin in enumerate(places) if store.status()[begin] != MISSING]
    joined = functools.reduce(partial(_joined, reduce), (_like(like, total) for total in known))
    return jax.tree.map(np.asarray, reduce.result(joined))


@jit
def _joined(reduce, first, second):
    return reduce.joined(first, second)


def _like(shapes, named: dict):
    """The tree with arrays in place of their shapes."""
    arrays = iter([named[name] for name in _named(shapes)])
    return jax.tree.map(lambda x: next(arrays) if is_shape(x) else x, shapes)


def _members(members) -> tuple[PyTree, int]:
    """(the members as arrays, their number)."""
    named = jax.tree_util.tree_leaves_with_path(members)
    lengths = {
        jax.tree_util.keystr(path, simple=True, separator=".") or "members": np.shape(x)[:1] for path, x in named
    }
    if not lengths or () in lengths.values() or len(set(lengths.values())) > 1 or (0,) in lengths.values():
        given = ", ".join(f"{name}: {x[0] if x else 'a scalar'}" for name, x in lengths.items()) or "no arrays"
        raise ValueError(
            "members must be arrays whose first axis is that of the members, of one length, at least 1; their lengths "
            f"are {given}"
        )
    on_host = jax.tree.map(lambda x: x if _is_key(x) or isinstance(x, jax.core.Tracer) else np.asarray(x), members)
    return on_host, next(iter(lengths.values()))[0]


def _is_key(x) -> bool:
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _inputs(function, members, reduce, keep: bool) -> dict:
    """Everything on which the results depend bit for bit, as texts and numbers."""
    leaves = [np.asarray(jax.random.key_data(x) if _is_key(x) else x) for x in jax.tree.leaves(members)]
    numbers = hashlib.sha256(b"".join(x.tobytes() for x in leaves)).hexdigest()[:16]
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), members)

    def program(member):
        values = function(member)
        total = None if reduce is None else reduce.total(jax.tree.map(lambda x: x[None], values), np.ones(1, bool))
        return eqx.filter((values, total), eqx.is_array)

    return {
        "members (hash)": numbers,
        "function and reduce (hash of their program)": fingerprint(jax.make_jaxpr(program)(one)),
        "members are kept": keep,
        "jax": jax.__version__,
        "device": jax.default_backend(),
    }


def _named(tree) -> dict:
    """The arrays of the tree, or their shapes, by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    named = {jax.tree_util.keystr(path, simple=True, separator="."): x for path, x in leaves}
    return {name or "value": x for name, x in named.items() if is_shape(x) or eqx.is_array(x)}


def _axes(values, name: str, shape) -> tuple[str, ...]:
    """The names of the axes of one member's array: those of a trajectory's data set where it is one."""
    known = _AXES.get(name.removeprefix("inputs."), ()) if isinstance(values, Trajectory) else ()
    known = tuple(axis for axis in known if axis != "point" or len(shape) == len(known))
    return known if len(known) == len(shape) else tuple(f"{name}_{i}" for i in range(len(shape)))
