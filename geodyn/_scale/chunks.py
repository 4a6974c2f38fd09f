"""Chunks of an ensemble: the program that computes one, on all devices of this process, several at a time on a CPU."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from geodyn._engine.jit import traced_numbers
from geodyn._engine.tracing import undisturbed
from geodyn._foundations.results import RESULTS, AbstractOutcome
from geodyn._foundations.typing import Array, Int, Number, PyTree
from geodyn._scale.reductions import AbstractReduction

# The members that one program computes at once: on a CPU their states should stay in its cache; an accelerator has
# thousands of lanes.
MOST_ON_CPU = 2**10
MOST_ELSEWHERE = 2**16
# The part of the memory that the values of all chunks under way may take.
SHARE = 1 / 8


class Done(NamedTuple):
    """A chunk that was computed: the members' values (None if they are not kept), their status and their total."""

    values: PyTree
    status: Array
    total: PyTree


class Workers:
    """What computes the chunks of one ensemble: one program for all devices of this process. If that is a single CPU,
    each of its cores runs the program in a thread, since XLA runs the loops of a program on one core."""

    def __init__(self, function: Callable, members: PyTree, reduce: AbstractReduction | None, keep: bool):
        self.function, self.reduce = traced_numbers((function, reduce))
        self.members = members
        self.keep = keep
        self.devices = jax.local_devices()
        self.on_cpu = self.devices[0].platform == "cpu"
        self.threads = _cores() if self.on_cpu and len(self.devices) == 1 else 1
        self.mesh = Mesh(np.array(self.devices), "member", axis_types=(AxisType.Auto,))

    def chunk(self, count: int, size: int) -> int:
        """How many of `count` members a chunk has, if the values of each have `size` bytes: a multiple of the devices,
        and all threads get equally many chunks."""
        most = (MOST_ON_CPU if self.on_cpu else MOST_ELSEWHERE) * len(self.devices)
        fits = SHARE * _memory(self.devices) / (2 * self.threads * max(size, 1))
        at_once = self.threads * jax.process_count()
        rounds = math.ceil(count / (at_once * max(1, min(most, fits))))
        return len(self.devices) * math.ceil(count / (rounds * at_once * len(self.devices)))

    def compile(self, chunk: int) -> None:
        """Compiles the program for chunks of this many members, before any thread runs it."""
        self.size = chunk
        with undisturbed():
            self.program = _chunk.lower(*self._arguments(0, 1)).compile()

    def run(self, begin: int, end: int) -> Done:
        """Computes the members from `begin` to before `end`."""
        return jax.block_until_ready(self.program(*self._arguments(begin, end)))

    def _arguments(self, begin: int, end: int):
        """The arguments of `_chunk`. A short chunk is filled up with its last member."""
        places = np.minimum(np.arange(begin, begin + self.size), end - 1)
        spread = NamedSharding(self.mesh, PartitionSpec("member"))
        members = jax.tree.map(lambda x: jax.device_put(x[places], spread), self.members)
        return self.function, members, np.asarray(end - begin), self.reduce, self.mesh, self.keep


def in_order(run: Callable, chunks: list, threads: int) -> Iterator:
    """(chunk, run(*chunk)) for each chunk, in their order, computed in threads; few are under way at a time."""
    with ThreadPoolExecutor(threads) as pool:
        waiting = [(chunk, pool.submit(run, *chunk)) for chunk in chunks[: 2 * threads]]
        try:
            for following in [*chunks[2 * threads :], *[None] * len(waiting)]:
                chunk, future = waiting.pop(0)
                yield chunk, future.result()
                waiting += [] if following is None else [(following, pool.submit(run, *following))]
        finally:
            for _, future in waiting:
                future.cancel()


@eqx.filter_jit
def _one(function: Callable[[PyTree], PyTree], member: PyTree) -> PyTree:
    """The value of one member, with arrays in place of numbers; jitted, so that the function is traced once."""

    def as_array(x: Any) -> Any:
        return jnp.asarray(x) if isinstance(x, int | float | complex) else x

    return jax.tree.map(as_array, function(member))


@eqx.filter_jit
def _chunk(
    function: Callable[[PyTree], PyTree], members: PyTree, count: Number, reduce: Any, mesh: Mesh, keep: bool
) -> Done:
    """The members of a chunk, of which the first `count` are meant."""
    each = jax.vmap(partial(_one, function))
    if mesh.size > 1:  # Each device runs its own loops.
        each = jax.shard_map(
            each, mesh=mesh, in_specs=PartitionSpec("member"), out_specs=PartitionSpec("member"), check_vma=False
        )
    values = each(members)
    status = _status(values, len(jax.tree.leaves(members)[0]))
    good = (status == RESULTS.successful) & (jnp.arange(len(status)) < count)
    return Done(values if keep else None, status, reduce and reduce.total(values, good))


def _status(values: PyTree, count: int) -> Int[Array, " N"]:
    """How each member ended: as its trajectories and searches say, or, if there are none, whether its numbers are
    finite."""
    parts = jax.tree.leaves(values, is_leaf=lambda x: isinstance(x, AbstractOutcome))
    outcomes = [x for x in parts if isinstance(x, AbstractOutcome)]
    status = jnp.zeros(count, int)
    for outcome in outcomes:
        status = jnp.where(status == 0, outcome.result, status)
    if not outcomes:
        for x in parts:
            finite = jnp.all(jnp.isfinite(x.reshape(count, -1)), axis=1)
            status = jnp.where((status == 0) & ~finite, RESULTS.not_finite, status)
    return status


def _cores() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on macOS and Windows.
        return os.cpu_count() or 1


def _memory(devices: Sequence[Any]) -> float:
    """The memory in bytes for chunks: of the devices, or of the machine."""
    stats = [device.memory_stats() or {} for device in devices]
    if all("bytes_limit" in x for x in stats):
        return sum(x["bytes_limit"] for x in stats)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError):
        return 2.0**32


def shapes_of(function: Callable, members: PyTree) -> PyTree:
    """What the function returns for one member, with shapes in place of arrays."""
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), members)
    return eqx.filter_eval_shape(_one, traced_numbers(function), one)


def total_of(reduce: AbstractReduction | None, shapes: PyTree) -> PyTree:
    """The total of a chunk, with shapes in place of arrays."""
    if reduce is None:
        return None
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape), x.dtype) if is_shape(x) else x, shapes)
    return eqx.filter_eval_shape(reduce.total, one, jax.ShapeDtypeStruct((1,), bool))


def bytes_of(shapes: PyTree) -> int:
    """The size of one member's values."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(eqx.filter(shapes, is_shape)))


def is_shape(x: Any) -> bool:
    """Whether x stands for an array."""
    return isinstance(x, jax.ShapeDtypeStruct)
