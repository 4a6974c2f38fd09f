"""The boundary to `jax.jit`: which parts of a user's arguments are traced, and which are static."""

import contextlib
import functools
import inspect
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import get_abstract_mesh, use_abstract_mesh
from jax.tree_util import PyTreeDef

from geodyn._engine import internals
from geodyn._engine.devices import may_be_shared, placed_anywhere
from geodyn._engine.tracing import undisturbed
from geodyn._foundations.typing import PyTree

_Tree = TypeVar("_Tree")
# The fewest members in a part of a batch: a machine may report more cores than it provides, and parts should stay long
# enough to gain from batching.
_FEWEST_MEMBERS = 8
# A motion in a metric or with a Lagrangian of one's own has some 12 MB of programs.
KEPT = 32
NUMBERS = float, complex, np.ndarray, np.generic
# What `jax.jit` traces as it is: to make an array of a number takes longer than many a program runs.
TRACED = jax.Array, np.ndarray, float, complex


@functools.cache  # Else `jit(function)(…)` would compile again in every call.
def jit(function: Callable, level: int | None = None) -> Callable:
    """`jax.jit` for pytrees of arrays, numbers and functions. Numbers are traced, so that a new value does not
    recompile. Functions, shapes and integers, numpy's included, are static; for the last KEPT of them the programs are
    kept. With a `level` of LLVM's optimisation it is compiled in less time, to run longer.

    It is `eqx.filter_jit` with less work in each call, which does not wait for the results."""

    known = {} if level is None else internals.quick_options()
    options = {name: level if name == internals.LEVEL else value for name, value in known.items()} or None

    # JAX keeps what it compiled for a static argument for ever, and with it a function that nobody has any more.
    @functools.lru_cache(KEPT)
    def program_for(static: tuple) -> Callable:
        form, others = static

        def run(arrays: list) -> tuple:
            rest = iter(arrays)
            args, kwargs = jax.tree.unflatten(form, [next(rest) if x is _ARRAY else x for x in others])
            values, constants = eqx.partition(function(*args, **kwargs), eqx.is_array)
            return values, _Constants(constants if jax.tree.leaves(constants) else None)

        run.__name__ = run.__qualname__ = getattr(function, "__name__", "function")
        return jax.jit(run, compiler_options=options)

    def run(leaves: list, form: PyTreeDef) -> PyTree:
        leaves = [x if isinstance(x, TRACED) else _as_traced(x) for x in leaves]
        arrays = [x for x in leaves if isinstance(x, TRACED)]
        static = form, tuple([_ARRAY if isinstance(x, TRACED) else x for x in leaves])
        # JAX distinguishes no mesh from an empty one, which it sets when it differentiates: with the same mesh always,
        # what was traced before is found again.
        with short_errors(), use_abstract_mesh(get_abstract_mesh()), undisturbed():
            values, constants = program_for(static)(arrays)
        return values if constants.value is None else eqx.combine(values, constants.value)

    run_anywhere = placed_anywhere(lambda *args, **kwargs: run(*jax.tree.flatten((args, kwargs))))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> PyTree:
        # To flatten a body takes as long as a small program runs, so that it is done once where that is possible.
        leaves, form = jax.tree.flatten((args, kwargs))
        return run_anywhere(*args, **kwargs) if any(map(may_be_shared, leaves)) else run(leaves, form)

    return call


@contextlib.contextmanager
def short_errors() -> Iterator[None]:
    """An error that comes from a user's `eqx.error_if` is raised as the short one of equinox with the user's message.
    On a GPU it comes where results are read."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        _report(error)


@eqx.filter_jit
def _report(failure: Exception) -> NoReturn:
    """Raises the failure again, so that the jit of equinox replaces it."""
    raise failure


# It stands for an array among the static values of a call.
_ARRAY = object()


@jax.tree_util.register_static
class _Constants:
    """The results of a compiled function that are no arrays."""

    def __init__(self, value: PyTree):
        self.value = value


def for_few_runs(function: Callable, level: int = 1) -> Callable:
    """`jit` for programs that run a few times: compiled in 0.6 of the time where no other program contains them; long
    loops of scalars would be slower with less optimisation."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> PyTree:
        if not any(isinstance(x, Tracer) for x in jax.tree.leaves((args, kwargs))):
            try:
                return jit(function, level)(*args, **kwargs)
            except ValueError as error:  # JAX is tracing, and only whole programs have options.
                if "compiler_options" not in str(error):
                    raise
        return jit(function)(*args, **kwargs)

    return call


# `for_few_runs` for programs that run once: in half of that time, to run twice as long.
for_one_run = functools.partial(for_few_runs, level=0)


def jit_over_cores(function: Callable) -> Callable:
    """`jit` of a function whose last argument is a batch of independent members. On a CPU equal parts of the batch run
    in parallel threads, since XLA runs the loops of a program on one core."""
    compiled = eqx.filter_jit(lambda part, batch, *args: function(*args, batch[part]))

    @functools.wraps(function)
    def call(*args: Any) -> PyTree:
        *args, batch = traced_numbers(args)
        count = max(1, min(_cores(), len(batch) // _FEWEST_MEMBERS))
        size = -(-len(batch) // count)
        parts = [jnp.asarray(part) for part in np.arange(count * size).reshape(count, size) % len(batch)]
        if count == 1:
            return compiled(parts[0], batch, *args)
        # It is compiled before the threads start, since otherwise each thread would compile it.
        with undisturbed():
            run = compiled.lower(parts[0], batch, *args).compile()
        with ThreadPoolExecutor(count) as pool:
            done = list(pool.map(lambda part: jax.block_until_ready(run(part, batch, *args)), parts))
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[: len(batch)], *done)

    return call


def _cores() -> int:
    return (os.cpu_count() or 1) if jax.default_backend() == "cpu" else 1


def traced_numbers(tree: _Tree) -> _Tree:
    """The tree with every Python or numpy float replaced by an array, so that it is traced and not compiled into the
    program, and with every numpy integer replaced by a Python int, which is static."""
    # Most trees have no such numbers, and rebuilding a tree takes longer than looking at its leaves.
    return jax.tree.map(_as_traced, tree) if any(isinstance(x, NUMBERS) for x in jax.tree.leaves(tree)) else tree


def _as_traced(x: Any) -> Any:
    if isinstance(x, np.integer):
        return int(x)
    return jnp.asarray(x) if isinstance(x, NUMBERS) else x


def static_count(name: str, count: Any) -> int:
    """`count` as a Python int, since one of numpy would be traced. Raises ValueError unless it is a positive whole
    number."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count <= 0:
        given = "a float, or a number that is traced" if isinstance(count, Tracer) else repr(count)
        raise ValueError(f"{name} must be a positive whole number, got {given}")
    return int(count)


def as_pytree(function: Callable) -> Callable:
    """The function as a pytree, which passes through any JAX transformation. A plain function is static, and the traced
    arrays that it closes over are leaves."""
    tree = jax.tree_util.Partial(function) if jax.tree_util.all_leaves([function]) else function
    hidden = closed_over(tree, function)
    return Closure(tree, hidden) if hidden else tree


def unwrapped(function: Callable) -> Callable:
    """The function that `as_pytree` was given."""
    inner = function.function if isinstance(function, Closure) else function
    if not isinstance(inner, jax.tree_util.Partial):
        return inner
    return getattr(inner.func, "fun", inner.func)  # JAX wraps a functools.partial once more.


class Closure(eqx.Module):
    """A function and the traced `values` that it closes over. A transformation may replace the values: the function is
    then evaluated with the new ones in place of those that it was `made_with`. Its traced `programs` are kept, since a
    derivative may need them after the trace in which the function was made has ended."""

    function: Callable
    values: list
    made_with: tuple = eqx.field(static=True)
    programs: "_Same" = eqx.field(static=True)

    def __init__(self, function: Callable, values: list):
        self.function, self.values = function, values
        self.made_with, self.programs = tuple(map(_Same, values)), _Same({})

    def __call__(self, *args: Any, **kwargs: Any) -> PyTree:
        arrays, static = eqx.partition((args, kwargs), eqx.is_array_like)
        leaves, form = jax.tree.flatten(arrays)
        key = (form, jax.tree.structure(static), *map(jax.typeof, leaves), *jax.tree.leaves(static))
        if key not in self.programs.value:
            self.programs.value[key] = self._program(arrays, static)
        program, consts, like, rest = self.programs.value[key]
        replaced = {id(same.value): x for x, same in zip(self.values, self.made_with, strict=True)}
        values = internals.jaxpr_as_fun(program.replace(consts=[replaced.get(id(x), x) for x in consts]))(*leaves)
        return eqx.combine(jax.tree.unflatten(like, values), rest)

    def _program(self, arrays: PyTree, static: PyTree) -> tuple:
        """(the program, its constants, the tree structure of its values, the values that are not arrays)."""
        out = []

        def function(arrays: PyTree) -> PyTree:
            args, kwargs = eqx.combine(arrays, static)
            dynamic, rest = eqx.partition(self.function(*args, **kwargs), eqx.is_array_like)
            out.append(rest)
            return dynamic

        if any(jax.typeof(x.value).sharding.mesh.explicit_axes for x in self.made_with):
            raise ValueError(
                "a function of the system uses an array that was computed outside of it on a mesh with explicit axes "
                "(jax.set_mesh). Make the mesh with automatic axes, jax.make_mesh(…, axis_types=(jax.sharding.AxisType."
                "Auto,)), or leave out jax.set_mesh"
            )
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(arrays)
        return closed, closed.consts, jax.tree.structure(shapes), out[0]


class _Same:
    """A value that is compared by identity, so that it can stand in the static part of a pytree."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def closed_over(tree: PyTree, *functions: Callable) -> list:
    """The traced arrays that these functions, and the functions in the tree, use without being given them: those in
    their closures and defaults, in the objects whose methods they are, and in classes that are defined inside of
    functions. The leaves of the tree are not among them."""
    seen, found = {id(x) for x in jax.tree.leaves(tree)}, []
    stack = [*functions, tree, *jax.tree.leaves(tree)]
    while stack:
        x = stack.pop()
        if isinstance(x, Tracer):
            found += [x] if id(x) not in seen else []
        elif id(x) not in seen or callable(x):
            stack += [y for y in _parts_of(x) if id(y) not in seen]
        seen.add(id(x))
    return found


def _parts_of(x: Any) -> list:
    """The parts of an object in which a traced array may be found."""
    if isinstance(x, Closure):
        return []
    if isinstance(x, list | tuple | set | frozenset):
        return list(x)
    if isinstance(x, dict):
        return list(x.values())
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, types.MethodType):
        return [x.__self__, x.__func__]
    if isinstance(x, types.FunctionType):
        cells = [cell.cell_contents for cell in x.__closure__ or () if _is_filled(cell)]
        return [*cells, *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
    if isinstance(x, type):
        return list(vars(x).values()) if "<locals>" in x.__qualname__ else []
    if isinstance(x, property):
        return [x.fget]
    if getattr(x, "__wrapped__", None) is not None:
        return [x.__wrapped__]
    is_anyones = not type(x).__module__.startswith(("jax", "numpy", "builtins"))
    return [type(x), *getattr(x, "__dict__", {}).values()] if is_anyones else []


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


@jax.tree_util.register_pytree_with_keys_class
class Carried:
    """A pytree that a result keeps for later use, such as the system of a trajectory. Its concrete arrays are static
    and not leaves of the result, so that `vmap` does not copy them for each member of a batch. Its traced arrays are
    leaves."""

    def __init__(self, tree: PyTree):
        leaves, self.form = jax.tree.flatten(tree)
        self.known = _Equal([None if isinstance(x, Tracer) else x for x in leaves])
        self.traced = [x for x in leaves if isinstance(x, Tracer)]

    @property
    def tree(self) -> PyTree:
        """The tree itself."""
        traced = iter(self.traced)
        return jax.tree.unflatten(self.form, [next(traced) if x is None else x for x in self.known.values])

    def tree_flatten(self) -> tuple[list, tuple]:
        """(the traced leaves, the static rest), as JAX requires."""
        return self.traced, (self.form, self.known)

    def tree_flatten_with_keys(self) -> tuple[list, tuple]:
        """`tree_flatten`, each leaf with its path in the tree."""
        known = jax.tree.unflatten(self.form, [_ARRAY if x is None else x for x in self.known.values])
        paths = [path for path, x in jax.tree_util.tree_leaves_with_path(known) if x is _ARRAY]
        names = [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths]
        keys = map(jax.tree_util.GetAttrKey, names)
        return list(zip(keys, self.traced, strict=True)), (self.form, self.known)

    @classmethod
    def tree_unflatten(cls, rest: tuple, traced: Iterable) -> "Carried":
        """The inverse of `tree_flatten`."""
        self = object.__new__(cls)
        self.form, self.known, self.traced = *rest, list(traced)
        return self

    def __reduce__(self) -> tuple:  # JAX does not pickle the structure of a tree.
        return Carried, (self.tree,)

    def __repr__(self) -> str:
        return eqx.tree_pformat(self.tree)


class _Equal:
    """Values that are compared by content: arrays by their numbers, other things by `==`."""

    def __init__(self, values: list):
        self.values = values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Equal) or len(self.values) != len(other.values):
            return False
        return all(map(_same, self.values, other.values))

    def __hash__(self) -> int:
        return hash(tuple((x.shape, x.dtype) if eqx.is_array(x) else type(x) for x in self.values))


def _same(x: Any, y: Any) -> bool:
    if x is y or not (eqx.is_array(x) and eqx.is_array(y)):
        return x is y or bool(type(x) is type(y) and x == y)
    return x.dtype == y.dtype and np.array_equal(x, y)


class custom_jvp:
    """`eqx.filter_custom_jvp` that refuses hidden traced arrays. Its rule covers the leaves of the arguments only. The
    derivative with respect to a traced array that only a method of a class refers to would silently be zero."""

    def __init__(self, function: Callable):
        self.function = eqx.filter_custom_jvp(function)
        functools.update_wrapper(self, function)

    def def_jvp(self, rule: Callable) -> Callable:
        """Sets the rule (primals, tangents, **static) -> (values, tangents of the values)."""
        self.function.def_jvp(rule)
        return rule

    def __call__(self, *args: Any, **kwargs: Any) -> PyTree:
        if hidden := closed_over(args):
            raise ValueError(
                f"a class that is defined inside of a function uses a traced array of shape {hidden[0].shape} from "
                "outside of the class, whose derivative would be lost: make it a field of the class"
            )
        return self.function(*args, **kwargs)


def change_of(function: Callable[..., _Tree], primals: tuple, tangents: tuple) -> tuple[_Tree, _Tree]:
    """`eqx.filter_jvp`: the values of a function of pytrees, and how they change with its arguments, of which a tangent
    of None does not change. The changes of values that depend on nothing that changes are zero instead of None."""
    values, changes = eqx.filter_jvp(function, primals, tangents)
    zeros = jax.tree.map(jnp.zeros_like, eqx.filter(values, eqx.is_inexact_array))
    return values, eqx.combine(changes, zeros)


def with_time(function: Callable, count: int) -> Callable:
    """`function` of `count` arguments, and of the time if it has a parameter `t`, as a function of (t, *arguments)."""
    if "t" in _parameters(function):
        return lambda t, *args: function(*args[:count], t=t)
    return lambda t, *args: function(*args[:count])


def _parameters(function: Callable) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(_innermost(function)).parameters
    except (TypeError, ValueError):
        return {}


def _innermost(function: Callable) -> Callable:
    return _innermost(function.function) if isinstance(function, Closure) else function
