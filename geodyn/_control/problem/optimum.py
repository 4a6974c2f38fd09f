"""PURPOSE: optimal strokes with the evidence of their optimality; saving and loading them."""

import dataclasses
import functools
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.tree_util import Partial

from geodyn._control.problem.problem import StrokeProblem, wong_residual
from geodyn._control.problem.variation import second_variation
from geodyn._engine.jit import traced_numbers
from geodyn._foundations.files.archive import differences, named_arrays, read_archive, write_archive
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS, AbstractOutcome
from geodyn._foundations.typing import Array, File, Float, Int, PyTree, Scalar
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.strokes.pieces import SequenceStroke
from geodyn._locomotion.strokes.stroke import FourierStroke, LegendreStroke, OpenStroke

_FORMAT = "geodyn stroke 3"
# Files say by its name how the search ended; earlier ones by these words.
_EARLIER_WORDS = {
    "converged": RESULTS.successful,
    "the limit of iterations was reached before the KKT residual fell below the tolerance": RESULTS.too_many_iterations,
    "no step along the search direction lowers the merit function": RESULTS.stalled,
    "the objective or a constraint is not finite": RESULTS.cost_not_finite,
    "Wong's equations were solved, but too few harmonics= and steps= leave a KKT residual beyond tolerance=": (
        RESULTS.too_few_harmonics
    ),
    "converged on the steps of the search, but the stroke leads elsewhere on twice as many": RESULTS.astray,
}


class Evidence(eqx.Module):
    """The data from which the evidence for a stroke is computed: the problem, the unknowns x of its solution, and the
    Hessian of the Lagrangian and the jacobian of the constraints there."""

    problem: StrokeProblem
    x: PyTree
    hessian: Float[Array, "n n"]
    jacobian: Float[Array, "p n"]


def when_asked_for(function: Callable[[Any], Any]) -> property:
    """A property that is computed at its first use and kept; for a batch of strokes it is mapped over the members."""
    name = f"_{function.__name__}"

    @functools.wraps(function)
    def of_members(optimum: Any) -> Any:
        return jax.vmap(of_members)(optimum) if optimum.cost.ndim else function(optimum)

    def get(optimum: Any) -> Any:
        if isinstance(optimum.evidence, dict):
            return optimum.evidence[function.__name__]
        if name in vars(optimum):
            return vars(optimum)[name]
        value = of_members(optimum)
        if not any(isinstance(x, Tracer) for x in jax.tree.leaves(value)):
            vars(optimum)[name] = value
        return value

    return property(get, doc=function.__doc__)


class OptimalStroke(AbstractOutcome):
    """A stroke of least cost for its displacement, with the evidence that it is one; the result of `gd.optimal_stroke`.

    Further properties are `second_order`, the smallest eigenvalue of the second variation at fixed displacement,
    positive at a minimum; `second_variation`, that eigenvalue and the number of flat directions; `wong_residual`,
    the largest defect of Wong's equations along the stroke, away from bounds, over the largest force, both measured
    by the metric of shapes, which says how well the coefficients resolve the stroke (where forces vanish, as along
    a shortest way through shapes, over what would stop the motion in the time of the stroke; where the stroke is on
    its bounds all the way NaN; where hinges are passive it is the largest force that is left over at these, over
    their drag); and `stats`, the numbers of `iterations` and of `flat` directions, those of symmetries such as a
    shift of time. What takes long (`wong_residual`, `second_variation`) is computed when it is first asked for.

    Inside jit, vmap and grad, where nothing can be raised, the search may have failed: then `cost`, `multiplier`,
    `charge`, `second_order` and `wong_residual` are NaN, and with the default `throw` the stroke too. `result`,
    `kkt_residual`, `displacement`, `room` and `power_variation` say where the search stood. The derivatives of what a
    search that failed has found are NaN.

    `optimum.save(path)` writes one `.npz` file that `gd.strokes.load_stroke` reads. Of a batch, under `jax.vmap`, all
    fields have a leading axis.

    Args:
        swimmer: the body.
        stroke: the stroke, a FourierStroke; with `base` a LegendreStroke, with `ends` an OpenStroke, with corners a
            SequenceStroke.
        cost: the cost E, by default the energy `∫₀¹ r'ᵀ G r' dt`.
        displacement: the displacement that is reached, a length or exponential coordinates [k], as it was asked for.
        multiplier: dE/d(displacement), a number or [k].
        kkt_residual: relative residual of the conditions for an optimum of the coefficients, bounds included; zero at
            an exact optimum.
        power_variation: largest relative deviation of the power from its mean; zero at an exact optimum of the energy.
        charge: μ₀ [k], what Wong's equations conserve: half of dE/d(displacement), as a covector at the start.
        room: least distance from the bounds, in parts of their width; infinite where there are none.
        result: how the search ended, a member of `gd.RESULTS`.
        iterations: number of iterations.
        evidence: what the evidence is computed from.
        period: how long the stroke takes, where springs move some of the shapes; else None.

    Example:
        The isoperimetric problem: the energy 4π D of the displacement D is least for a circle.

        >>> class Planimeter(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def form(self, r):
        ...         return jnp.stack([-r[1], r[0]])[None] / 2
        >>> body, settings = gd.bundles.KaluzaKlein(Planimeter()), gd.Direct(harmonics=2, steps=8)
        >>> best = gd.optimal_stroke(body, [0.0, 0.0], displacement=0.5, method=settings)
        >>> print(f"E = {best.cost:.6f}, dE/dD = {best.multiplier:.6f}, minimum: {best.second_order > 0}")
        E = 6.283185, dE/dD = 12.566371, minimum: True
        >>> print(best.kkt_residual < 1e-9, best.power_variation < 1e-9, best.wong_residual < 1e-9)
        True True True

    Source:
        Alouges, DeSimone & Lefebvre, *J. Nonlinear Sci.* 18 (2008) 277, for the problem; Montgomery, *Commun. Math.
        Phys.* 128 (1990) 565, for Wong's equations.
    """

    swimmer: Costly
    stroke: FourierStroke | LegendreStroke | OpenStroke | SequenceStroke
    cost: Scalar
    displacement: Float[Array, "..."]
    multiplier: Float[Array, "..."]
    kkt_residual: Scalar
    power_variation: Scalar
    charge: Float[Array, " k"]
    room: Scalar
    result: Int[Array, ""]
    iterations: Int[Array, ""]
    evidence: Evidence | dict[str, Array]
    period: Scalar | None = None

    @when_asked_for
    def wong_residual(self) -> Scalar:
        """The largest defect of Wong's equations along the stroke, over the largest force; see above."""
        known = cast(Evidence, self.evidence)
        return wong_residual(known.problem, known.x, self.charge)

    @when_asked_for
    def second_variation(self) -> tuple[Scalar, Int[Array, ""]]:
        """The smallest eigenvalue of the second variation, and the number of flat directions."""
        known = cast(Evidence, self.evidence)
        return second_variation(known.problem, known.x, known.hessian, known.jacobian)

    @property
    def second_order(self) -> Float[Array, "..."]:
        """The smallest eigenvalue of the second variation at fixed displacement, positive at a minimum."""
        return self.second_variation[0]

    @property
    def stats(self) -> dict[str, Int[Array, "..."]]:
        """Counts of `iterations` and `flat` directions."""
        return {"iterations": self.iterations, "flat": self.second_variation[1]}

    @checked
    def save(self, path: File) -> None:
        """Write everything to one `.npz` file that `load_stroke` reads; the file appears whole or not at all."""
        write_optimum(path, self, _FORMAT)


@checked
def load_stroke(path: File, swimmer: Costly | None = None) -> OptimalStroke:
    """Read the optimal stroke that `OptimalStroke.save` wrote.

    A file holds no code: a swimmer of geodyn is built again; if it is one of your own, or holds a function of yours,
    pass the instance.

    Args:
        path: the `.npz` file.
        swimmer: the body of the stroke, if it is one of your own.

    Returns:
        The OptimalStroke.

    Raises:
        ValueError: if the file is not such a file, is damaged, holds a stroke of another swimmer or of one that has to
            be passed, or holds double precision while JAX works in single.

    Example:
        >>> import tempfile
        >>> swimmer, settings = gd.swimmers.SymmetricPurcell(), gd.Direct(harmonics=2, steps=8)
        >>> best = gd.optimal_stroke(swimmer, [0.5, 0.5], displacement=0.01, method=settings)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     best.save(f"{folder}/best.npz")
        ...     again = gd.strokes.load_stroke(f"{folder}/best.npz")
        >>> print(type(again.swimmer).__name__, bool(again.cost == best.cost))
        SymmetricPurcell True
    """
    return OptimalStroke(**read_optimum("stroke", path, _FORMAT, swimmer))


def write_optimum(path: File, optimum: Any, form: str) -> None:
    """Write the fields of an optimal stroke or of a plan to a file of the format `form`, with the evidence as numbers:
    what it is computed from may hold functions."""
    # All arrays of the swimmer by their paths, also those of foreign classes, which `_unpack` cannot rebuild.
    arrays = {f"swimmer.{name}": x for name, x in named_arrays(optimum.swimmer).items()}
    values = {f.name: getattr(optimum, f.name) for f in dataclasses.fields(optimum) if f.name != "result"}
    values["evidence"] = {"wong_residual": optimum.wong_residual, "second_variation": optimum.second_variation}
    about = {name: pack(value, name, arrays) for name, value in values.items()}
    write_archive(path, arrays, {"format": form, "optimum": about, "result": RESULTS(int(optimum.result)).name})


def read_optimum(kind: str, path: File, form: str, swimmer: Costly | None) -> dict[str, Any]:
    """The fields that `write_optimum` wrote; ValueErrors of the function `load_{kind}`."""
    arrays, about = read_archive(path, form)
    held = about["optimum"]
    fields = {name: _unpack(value, arrays) for name, value in held.items() if name != "swimmer"}
    fields["swimmer"] = swimmer_of_file(kind, path, held["swimmer"], arrays, swimmer)
    ended = about["result"]
    fields["result"] = jnp.array(_EARLIER_WORDS[ended] if ended in _EARLIER_WORDS else RESULTS[ended])
    return fields


def swimmer_of_file(kind: str, path: File, told: dict, arrays: dict, swimmer: Costly | None) -> Costly:
    """The swimmer of a file, or the given one if it has the same numbers; ValueErrors of the function `load_{kind}`."""
    if swimmer is None:
        swimmer = _unpacked_swimmer(kind, path, told, arrays)
    swimmer = cast(Costly, traced_numbers(swimmer))
    saved = {name.removeprefix("swimmer."): x for name, x in arrays.items() if name.startswith("swimmer.")}
    found = differences(saved, named_arrays(swimmer))
    if found:
        raise ValueError(f"load_{kind}: {path} holds a {kind} of another swimmer: {'; '.join(found)}")
    return swimmer


def _unpacked_swimmer(kind: str, path: File, told: dict, arrays: dict) -> Costly:
    """The swimmer of a file; ValueError where it is no part of geodyn."""
    try:
        return _unpack(told, arrays)
    except _ForeignError as foreign:
        name = told["type"].split(":")[1]
        held = "" if str(foreign) == told["type"] else f", which holds {foreign}"
        raise ValueError(f"load_{kind}: {path} holds a {kind} of {name}{held}; pass swimmer=, an instance.") from None


class _ForeignError(Exception):
    """A class or function in a file is not part of geodyn, so that the value cannot be rebuilt: files hold no code."""


def pack(value: Any, name: str, arrays: dict) -> Any:
    """A value as JSON data, with its arrays put into `arrays` under their paths. A module becomes its type and its
    fields, a `jax.tree_util.Partial` its function and the bound arguments."""
    if isinstance(value, eqx.Module):
        own = [f.name for f in dataclasses.fields(value) if f.name in vars(value)]  # others are class defaults
        fields = {field: pack(vars(value)[field], f"{name}.{field}", arrays) for field in own}
        return {"type": _name_of(type(value)), "fields": fields}
    if isinstance(value, Partial):
        bound = [pack(x, f"{name}.{i}", arrays) for i, x in enumerate((value.args, value.keywords))]
        return {"function": _name_of(value.func), "bound": bound}
    if isinstance(value, dict):
        return {"items": {key: pack(x, f"{name}.{key}", arrays) for key, x in value.items()}}
    if isinstance(value, tuple):
        return [pack(x, f"{name}.{i}", arrays) for i, x in enumerate(value)]
    if eqx.is_array(value):
        arrays[name] = np.asarray(value)
        return {"array": name}
    return value if value is None or isinstance(value, bool | int | float | str) else {"type": f"builtins:{value!r}"}


def _name_of(value: Any) -> str:
    """The name of a class or function, "module:name": that of the door through which users reach it, so that files can
    be read when a room has moved; else that of the place where it stands."""
    name = getattr(value, "__qualname__", repr(value))
    root = import_module("geodyn")
    doors = [root, *(getattr(root, x) for x in root.__all__ if isinstance(getattr(root, x), ModuleType))]
    for door in doors:
        if name in door.__all__ and getattr(door, name) is value:
            return f"{door.__name__}:{name}"
    return f"{getattr(value, '__module__', '')}:{name}"


def _unpack(packed: Any, arrays: dict) -> Any:
    """The value from the data of `pack`. Raises _ForeignError for a class or function that is not of geodyn."""
    if isinstance(packed, list):
        return tuple(_unpack(x, arrays) for x in packed)
    if not isinstance(packed, dict):
        return packed
    if "array" in packed:
        return jnp.asarray(arrays[packed["array"]])
    if "items" in packed:
        return {key: _unpack(x, arrays) for key, x in packed["items"].items()}
    if "function" in packed:
        args, keywords = (_unpack(x, arrays) for x in packed["bound"])
        return Partial(_find_object(packed["function"]), *args, **keywords)
    kind = _find_object(packed["type"])
    # Rebuild the module as JAX does from leaves: without its __init__, which may take other arguments.
    again = object.__new__(kind)
    for key, value in packed["fields"].items():
        object.__setattr__(again, key, _unpack(value, arrays))
    return again


def _find_object(where: str):
    """The object of the name "module:name". Raises _ForeignError unless it is part of geodyn."""
    module, name = where.split(":", 1)
    found = getattr(import_module(module), name, None) if module.split(".")[0] == "geodyn" else None
    if found is None:
        raise _ForeignError(where)
    return found
