"""`ensemble`: a function of one member for all members of a batch of any size."""

import functools
import hashlib
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer
from tqdm import tqdm

from geodyn._engine.jit import as_pytree, jit, static_count
from geodyn._foundations.checks import UNTRACEABLE
from geodyn._foundations.gate import checked
from geodyn._foundations.progress import compiling
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Count, Int, PyTree, Tree
from geodyn._integrators.saving.dataset import table
from geodyn._integrators.saving.inputs import fingerprint
from geodyn._scale.chunks import Workers, bytes_of, in_order, is_shape, shapes_of, total_of
from geodyn._scale.names import MEMBER, STATUS, as_numbers, axes_of, by_name, is_key, notes_of, parameters_of, times_of
from geodyn._scale.reductions import AbstractReduction
from geodyn._scale.store import MISSING, Store, in_memory, on_disk

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
        parameters: the members by name, each with the axis [N]: a field or a key of theirs, or the argument of the
            function.

    Example:
        >>> found = gd.ensemble(lambda x: 1 / x, jnp.arange(4.0))
        >>> print(found.values, found.failed, gd.RESULTS(found.status[0]).name)
        [       inf 1.         0.5        0.33333333] [0] not_finite
        >>> print(found.parameters["x"][found.failed])
        [0.]
    """

    values: PyTree
    status: Int[np.ndarray, " N"]
    reduced: Any = None
    folder: Path | None = eqx.field(static=True, default=None)
    parameters: dict[str, np.ndarray] = eqx.field(default_factory=dict)

    def __len__(self):
        return len(self.status)

    def __getitem__(self, i: Any) -> PyTree:
        if self.values is None:
            raise ValueError("the members were not kept: gd.ensemble(…, keep=True)")
        return jax.tree.map(lambda x: x[i], self.values)

    @property
    def failed(self) -> Int[np.ndarray, " F"]:
        """The members that failed or were not computed."""
        return np.flatnonzero(self.status != RESULTS.successful)

    @property
    def dataset(self):
        """The members as an `xarray.Dataset` with the dimension `member`, and their parameters as coordinates. Arrays
        have the names of fields and keys of what the function returned, as `q` and `v` of a trajectory, whose
        dimensions are `time`, `point` and `coordinate`; `time` has a coordinate where all members share their times,
        and each has its own in `t`. From a folder it is read where it is used; without geodyn it is
        `xarray.open_zarr(folder, consolidated=False)`."""
        try:
            import xarray
        except ImportError:
            raise ImportError("dataset needs xarray: pip install 'geodyn[ensemble]'") from None
        if self.folder is not None:
            return xarray.open_zarr(self.folder, consolidated=False, chunks=None)
        axes = {name: (MEMBER, *inner) for name, inner in axes_of(jax.tree.map(_of_one, self.values)).items()}
        arrays = {name: (axes[name], x) for name, x in by_name(self.values).items() if x.size}
        times = {name: arrays.pop(name) for name in times_of(self.values)}
        shared = {axes[-1]: (axes[-1], _common_row([x])) for axes, x in times.values()}
        known = {name: found for name, found in shared.items() if found[1] is not None}
        parameters = {name: (_parameter_axes(name, x), x) for name, x in self.parameters.items()}
        return xarray.Dataset(arrays | {STATUS: (MEMBER, self.status)}, parameters | times | known)

    def to_dataframe(self):
        """The members as a long table of pandas: of trajectories a row for each member, time and point, which are its
        index, and of other results a row for each member. Columns are the parameters and the components of the results,
        as `q0`, `q1`, `v0` of a point's coordinates; what belongs to a member as a whole stands in each of its rows.
        Inputs, statistics, impacts and the system's numbers are in `dataset` alone. It is read into memory."""
        data, times = self.dataset, times_of(self.values)
        told = [name for name in times if data.variables[name].dims[-1] in data.variables]
        left_out = {*notes_of(self.values), *told}
        columns = [*self.parameters, *times, *by_name(self.values), STATUS]
        kept = [name for name in dict.fromkeys(columns) if name in data.variables and name not in left_out]
        return table(data, kept, (MEMBER, "time", "point"))


@checked
def ensemble(
    function: Callable[[PyTree], PyTree],
    members: Tree,
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
        OSError: where the folder cannot be compute_and_write, as on a full disk; what is in it stays whole.

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
    if any(isinstance(x, Tracer) for x in jax.tree.leaves((members, as_pytree(function), reduce))):
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
    stored = shapes if keep else None
    axes = axes_of(stored)
    kept = {name: (x, axes[name]) for name, x in by_name(stored).items() if x.size}
    taken = {MEMBER, STATUS, *axes, *(axis for inner in axes.values() for axis in inner)}
    parameters = parameters_of(function, members, taken)
    if folder is None:
        store = in_memory(count, size, kept, by_name(totals))
    else:
        beside = {name: (x, _parameter_axes(name, x)) for name, x in parameters.items()}
        inputs = _inputs(function, members, reduce, keep)
        store = on_disk(folder, inputs, count, size, kept, by_name(totals), beside, times_of(stored))
    done = store.status() != MISSING
    places = [(begin, min(begin + store.chunk, count)) for begin in range(0, count, store.chunk)]
    chunks = [(begin, end) for begin, end in places if not all(done[begin:end])]
    own = chunks[jax.process_index() :: jax.process_count()]
    try:
        if own:
            with compiling(progress):
                workers.compile(store.chunk)

        def compute_and_write(begin: int, end: int):
            found = workers.run(begin, end)
            values = {name: x for name, x in by_name(found.values).items() if name in kept}
            store.write(begin, end, values, by_name(found.total), found.status)

        shown = {"total": count, "initial": int(done.sum()), "unit": " members", "unit_scale": True}
        with tqdm(**shown, disable=not progress) as bar:
            for (begin, end), _ in in_order(compute_and_write, own, workers.threads):
                bar.update(end - begin)
            while len(own) < len(chunks) and np.any(store.status() == MISSING):
                time.sleep(SECONDS)  # The other processes have not finished.
                bar.update(int(np.sum(store.status() != MISSING)) - bar.n)
    except KeyboardInterrupt:
        if not progress and folder is None:
            raise
    status = store.status()
    empty = {name: np.zeros((count, *x.shape), x.dtype) for name, x in by_name(stored).items() if not x.size}
    values = _like(shapes, store.arrays | empty) if keep else None
    reduced = None if reduce is None else _reduce_all(reduce, store, totals)
    if folder is not None and jax.process_index() == 0:
        for name in times_of(stored):
            store.put_axis(axes[name][0], _common_row(_parts_of(store, name)))
    ended = np.where(status == MISSING, RESULTS.interrupted, status)
    return Ensemble(values, ended, reduced, store.folder, parameters)


def _parts_of(store: Store, name: str):
    """An array of the members that were computed, in parts that fit into memory."""
    known = store.status() != MISSING
    for begin in range(0, len(known), store.chunk):
        part = slice(begin, begin + store.chunk)
        yield np.asarray(store.arrays[name][part])[known[part]]


def _common_row(parts: Iterable[np.ndarray]) -> np.ndarray | None:
    """The row that all rows of all parts are; None if they differ, or if there are none."""
    first = None
    for part in parts:
        if first is None and len(part):
            first = part[0]
        if len(part) and not np.all(part == first):
            return None
    return first


def _of_one(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape[1:], x.dtype)


def _parameter_axes(name: str, x: Any) -> tuple[str, ...]:
    return MEMBER, *(f"{name}_{i}" for i in range(x.ndim - 1))


def _reduce_all(reduce: AbstractReduction, store: Store, like: PyTree) -> PyTree:
    """The result of all chunks that were computed, joined in their order, so that it does not depend on the threads."""
    places = range(0, len(store.status()), store.chunk)
    status = store.status()
    totals = []
    for i, begin in enumerate(places):
        if status[begin] != MISSING:
            totals.append(_like(like, store.total(i)))
    joined = functools.reduce(partial(_join, reduce), totals)
    return jax.tree.map(np.asarray, reduce.result(joined))


@jit
def _join(reduce: AbstractReduction, first: PyTree, second: PyTree) -> PyTree:
    return reduce.joined(first, second)


def _like(shapes: PyTree, arrays: dict) -> PyTree:
    """The tree with arrays in place of their shapes."""
    given = iter([arrays[name] for name in by_name(shapes)])
    return jax.tree.map(lambda x: next(given) if is_shape(x) else x, shapes)


def _members(members: PyTree) -> tuple[PyTree, int]:
    """(the members as arrays, their number)."""
    lengths = {}
    for path, x in jax.tree_util.tree_leaves_with_path(members):
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "members"
        lengths[name] = np.shape(x)[:1]
    different = set(lengths.values())
    if len(different) != 1 or () in different or (0,) in different:
        given = ", ".join(f"{name}: {x[0] if x else 'a scalar'}" for name, x in lengths.items()) or "no arrays"
        raise ValueError(
            "members must be arrays whose first axis is that of the members, of one length, at least 1; their lengths "
            f"are {given}"
        )
    on_host = jax.tree.map(lambda x: x if is_key(x) or isinstance(x, Tracer) else np.asarray(x), members)
    return on_host, next(iter(lengths.values()))[0]


def _inputs(
    function: Callable[[PyTree], PyTree], members: PyTree, reduce: AbstractReduction | None, keep: bool
) -> dict:
    """Everything on which the results depend bit for bit, as texts and numbers."""
    leaves = [as_numbers(x) for x in jax.tree.leaves(members)]
    numbers = hashlib.sha256(b"".join(x.tobytes() for x in leaves)).hexdigest()[:16]
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), members)

    def program(member: PyTree) -> PyTree:
        values = function(member)
        total = None if reduce is None else reduce.total(jax.tree.map(lambda x: x[None], values), np.ones(1, bool))
        return eqx.filter((values, total), eqx.is_array)

    # The program has the numbers that the function closes over as constants, so that these are in its hash.
    return {
        "members (hash)": numbers,
        "function and reduce (hash of their program)": fingerprint(jax.make_jaxpr(program)(one)),
        "members are kept": keep,
        "jax": jax.__version__,
        "device": jax.default_backend(),
    }
