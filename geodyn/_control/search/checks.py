"""PURPOSE: checks of the arguments of a search for a stroke, before it begins."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._control.methods.extremal import Wong
from geodyn._control.methods.method import AbstractStrokeMethod, Direct
from geodyn._engine.jit import unwrapped
from geodyn._foundations.typing import Array, ArrayLike, Float, PyTree, Scalar
from geodyn._locomotion.connections.connection import shape_metric
from geodyn._locomotion.connections.force_balance import AbstractForceBalance, metric_of
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.motion.costs import Costly, derivatives_taken, is_energy, length, value_of
from geodyn._locomotion.motion.passive import AbstractPassiveSwimmer
from geodyn._locomotion.strokes.stroke import Stroke, check_closed, floating


@contextmanager
def told_by(name: str) -> Iterator[None]:
    """Errors of the checks below begin with `optimal_stroke:`; in this context they begin with `name:`, for another
    function that has its arguments checked by them."""
    try:
        yield
    except ValueError as error:
        raise ValueError(re.sub(r"^optimal_strokes?: ", f"{name}: ", str(error))) from error.__cause__


def known(tree: PyTree) -> bool:
    """Whether no number in the tree is traced, so that values can be checked: inside jit, vmap and grad they cannot."""
    return not any(isinstance(x, Tracer) for x in jax.tree.leaves(tree))


def numbers(value: Any) -> Array:
    """`value` as an array of numbers; if it is none, an empty array [0, 0], which the checks of its shape refuse."""
    try:
        return floating(value)
    except (TypeError, ValueError):
        return jnp.zeros((0, 0))


def without_free(displacement: Any) -> tuple[object, tuple[int, ...]]:
    """A displacement with 0 for the components that are None, and their indices."""
    if not isinstance(displacement, list | tuple):
        return displacement, ()
    free = tuple(i for i, component in enumerate(displacement) if component is None)
    return [0.0 if component is None else component for component in displacement], free


def checked_displacement(swimmer: AbstractLocomotion, displacement: Any) -> Float[Array, "..."]:
    """The target displacement as an array; ValueError if it does not fit the group of the swimmer."""
    target = numbers(displacement)
    k = swimmer.group.dim
    translations = swimmer.group.translations
    name = type(swimmer.group).__name__
    # Traced values are not known: ones in their place pass all checks but that of their shape.
    values = np.asarray(target) if known(target) else np.ones(target.shape)
    if values.shape not in ((), (k,)) or not (np.all(np.isfinite(values)) and np.any(values != 0)):
        raise ValueError(
            f"optimal_stroke: displacement must be a number or {k} coordinates, not all zero, got {displacement}."
        )
    # A number is the length of the translation, unless there is one translation or one coordinate: then it is that.
    is_length = values.ndim == 0 and translations != 1 and k > 1
    if is_length and (translations == 0 or values < 0):
        wanted = (
            "a positive length" if translations else f"a vector of {k} coordinates, since {name} has no translations"
        )
        raise ValueError(
            f"optimal_stroke: the displacement of a swimmer in {name} must be {wanted}, got {displacement}."
        )
    return target


def checked_limits(
    bounds: Any, rates: Any, m: int
) -> tuple[tuple[Float[Array, " b"], Float[Array, " b"]], tuple[int, ...]]:
    """((lower, upper), indices) of the components of (r, r') that have bounds; ValueError for bounds that are wrong."""
    shape_bounds = np.tile([[-np.inf], [np.inf]], m) if bounds is None else np.asarray(numbers(bounds))
    if shape_bounds.shape != (2, m) or not np.all(shape_bounds[0] < shape_bounds[1]):
        raise ValueError(f"optimal_stroke: bounds must be (lower[{m}], upper[{m}]) with lower < upper, got {bounds}.")
    if np.any(np.isfinite(shape_bounds[0]) != np.isfinite(shape_bounds[1])):
        raise ValueError(f"optimal_stroke: bound a shape variable on both sides or leave both infinite, got {bounds}.")
    largest = np.full(m, np.inf) if rates is None else np.asarray(numbers(rates))
    if largest.shape != (m,) or not np.all(largest > 0):
        raise ValueError(
            f"optimal_stroke: rates must be {m} positive numbers, the largest |r'| of each shape variable, got {rates}."
        )
    lower, upper = np.concatenate([shape_bounds, [-largest, largest]], axis=1)
    bounded = np.isfinite(lower)
    return (floating(lower[bounded]), floating(upper[bounded])), tuple(np.flatnonzero(bounded).tolist())


def checked_shape(name: str, value: Any, m: int | None = None) -> Float[Array, " m"]:
    """The argument `name` as a shape, of m variables unless m is None; else ValueError."""
    shape = numbers(value)
    if shape.ndim != 1 or (m is not None and shape.size != m) or (known(shape) and not np.isfinite(shape).all()):
        raise ValueError(f"optimal_stroke: {name} must be a shape, {m or 'm'} finite numbers, got {value}.")
    return shape


def check_guess(
    swimmer: AbstractLocomotion,
    guess: Stroke,
    m: int,
    bounds: Any,
    base: Float[Array, " m"] | None,
    end: Float[Array, " m"] | None,
) -> None:
    """Raise ValueError unless the guess is a stroke of m shape variables that moves, enters the bounds, and is closed
    or has the given ends."""
    start = np.asarray(guess(floating(0.0)))
    last = np.asarray(guess(floating(1.0)))
    if start.shape != (m,):
        raise ValueError(f"optimal_stroke: guess must be a stroke of {m} shape variables, got shapes {start.shape}.")
    r = np.asarray(jax.vmap(guess)(jnp.linspace(0.0, 1.0, 65)))
    if np.all(r == r[:1]):
        raise ValueError(f"optimal_stroke: the guess stands still at {start}; give a loop or a shape.")
    lower, upper = (-np.inf, np.inf) if bounds is None else bounds
    is_inside = np.all((np.asarray(lower) < r) & (r < np.asarray(upper)), axis=1)
    if bounds is not None and not np.any(is_inside):
        where = where_outside(swimmer, r, lower, upper)
        raise ValueError(
            f"optimal_stroke: the guess lies outside of the bounds all the way: {where}."
            " Give a guess that passes through shapes inside of them, such as a smaller one around their middle, or a"
            " shape there, or widen the bounds."
        )
    if end is None:
        check_closed(guess)
    elif not np.allclose(start, cast(Array, base), atol=1e-6) or not np.allclose(last, end, atol=1e-6):
        raise ValueError(
            f"optimal_stroke: guess leads from {start} to {last}, but ends= asks for {np.asarray(base)} to"
            f" {np.asarray(end)}; give it these ends, or leave it out."
        )


def where_outside(swimmer: AbstractLocomotion, shapes: Any, lower: Any, upper: Any) -> str:
    """For a message: which shape variable of shapes [T, m] is farthest beyond its bounds, where and by how much. Of
    more than one shape these are those of a stroke at evenly spaced times from 0 to 1."""
    shapes = np.asarray(shapes)
    lower = np.asarray(lower)
    upper = np.asarray(upper)
    beyond = np.maximum(shapes - upper, lower - shapes)
    farthest = np.unravel_index(np.argmax(beyond), beyond.shape)
    place = int(farthest[0])
    variable = int(farthest[1])
    value = shapes[farthest]
    names = getattr(swimmer, "shape_names", None)
    named = f"r[{variable}]" if names is None else f"r[{variable}] ({names[variable]})"
    when = "" if len(shapes) == 1 else f" at t = {place / (len(shapes) - 1):.3g}"
    if beyond[farthest] == 0:
        return f"{named} is {value:.6g}{when}, on its bound"
    side = f"above {upper[variable]:.6g}" if value > upper[variable] else f"below {lower[variable]:.6g}"
    return f"{named} is {value:.6g}{when}, {beyond[farthest]:.3g} {side}"


def check_shapes(swimmer: Costly, bounds: Any, **shapes) -> None:
    """Raise ValueError if one of the arguments `shapes`, by name, lies outside of the bounds, or if the shape metric is
    singular there; None is passed over."""
    for name, shape in shapes.items():
        if shape is None:
            continue
        if bounds is not None and not np.all((np.asarray(bounds[0]) < shape) & (shape < np.asarray(bounds[1]))):
            raise ValueError(
                f"optimal_stroke: {name} lies at the shape {np.asarray(shape)}, outside of the bounds:"
                f" {where_outside(swimmer, np.asarray(shape)[None], *bounds)}; move it inside, or widen the bounds."
            )
        metric = np.asarray(shape_metric(metric_of(swimmer), shape))
        if not np.all(np.isfinite(metric)) or np.linalg.eigvalsh(metric)[0] <= 0:
            raise ValueError(
                f"optimal_stroke: the shape metric of {type(swimmer).__name__} at the shape {np.asarray(shape)}"
                f" ({name}) is not positive definite: {metric.tolist()}; give every part of the body a size and a drag,"
                " and keep away from shapes where it is not defined."
            )


def shape_ends(base: Any, ends: Any) -> tuple[Float[Array, " m"] | None, Float[Array, " m"] | None]:
    """(first shape, last shape) of the stroke from `base` or `ends`; the first is None if it is free, the last None
    for a closed stroke."""
    if ends is None and base is None:
        return None, None
    if ends is None:
        return checked_shape("base", base), None
    if base is not None or not isinstance(ends, tuple | list) or len(ends) != 2:
        raise ValueError(f"optimal_stroke: ends must be (first shape, last shape), without base=; got {ends}.")
    first = checked_shape("ends", ends[0])
    last = checked_shape("ends", ends[1], first.size)
    if known((first, last)) and jnp.all(first == last):
        raise ValueError(f"optimal_stroke: ends are the same shape {np.asarray(first)}; that is base=.")
    return first, last


def check_moves(swimmer: AbstractLocomotion, displacement: Float[ArrayLike, "..."]) -> None:
    """Raise ValueError if a body is to be displaced without a turn that says that no stroke can."""
    if not known((swimmer, displacement)):
        return
    why = swimmer._why_it_stays
    # A displacement that is a number is a length, without a turn.
    turn = np.asarray(displacement)[swimmer.group.translations :] if np.ndim(displacement) else np.zeros(1)
    if why is not None and np.all(turn == 0):
        raise ValueError(
            f"optimal_stroke: no stroke of {type(swimmer).__name__} leads to {np.asarray(displacement)}: {why}."
        )


def check_needs_bounds(swimmer: AbstractLocomotion, bounds: Any, base: Any, ends: Any) -> None:
    """Raise ValueError for a body of which no stroke is best among all, as its `needs_bounds` explains, unless bounds,
    a base or ends keep strokes in place."""
    if swimmer.needs_bounds is None or not (bounds is None and base is None and ends is None):
        return
    raise ValueError(
        f"optimal_stroke: {type(swimmer).__name__} has no optimal stroke with a free shape: {swimmer.needs_bounds}."
        f" Pass bounds=(lower, upper) of its shape{_names_of_shape(swimmer)}, or base=, a shape that the stroke passes."
    )


def check_count(swimmer: AbstractLocomotion, m: int, closed: bool) -> None:
    """Raise ValueError unless shapes have as many variables as the body says, and a closed stroke at least two."""
    name = type(swimmer).__name__
    count = swimmer.shape_count
    if count is not None and m != count:
        raise ValueError(
            f"optimal_stroke: {name} has {count} shape variable{'s' * (count > 1)}{_names_of_shape(swimmer)}, got"
            f" shapes of {m} (guess, base, ends, bounds); give {count} numbers each."
        )
    if m == 1 and closed:
        raise ValueError(
            f"optimal_stroke: {name} has one shape variable (by guess, base or bounds) and goes back the way that it"
            " came: no closed stroke moves it. ends= asks for a change of shape that stays."
        )


def _names_of_shape(swimmer: AbstractLocomotion) -> str:
    """The names of the shape variables in brackets, where the body names them, for a message."""
    names = getattr(swimmer, "shape_names", None)
    return f" ({', '.join(names)})" if names else ""


def check_density(swimmer: AbstractLocomotion, density: Any, m: int) -> None:
    """Raise ValueError for a density of which no stroke is the only best one, since its cost is the same at any pace,
    and for one that gives no number at m shape variables."""
    if unwrapped(density) is length:
        raise ValueError(
            "optimal_stroke: density=length is the same at any pace, so that no stroke is the only best one; leave it"
            " out: the stroke of least energy is also a shortest, at constant power."
        )
    if is_energy(density) and _has_any_pace(swimmer, m):
        raise ValueError(
            f"optimal_stroke: the energy of {type(swimmer).__name__} is the same at any pace, since its forces do"
            " not depend on the speed, so that no stroke is the only best one. Pass another density=, such as"
            " lambda swimmer, r, rdot: gd.costs.energy(swimmer, r, rdot) ** 2, which is least at a constant power."
        )
    # Energies give numbers; others are traced, which finds out the shape of what they give without computing it.
    if not is_energy(density):
        shape = jax.ShapeDtypeStruct((m,), jnp.result_type(float))
        state = (shape,) * (1 + derivatives_taken(density))
        jax.eval_shape(lambda *state: value_of(density, cast(Costly, swimmer), state), *state)


def check_acceleration(density: Any, method: AbstractStrokeMethod, base: Any, ends: Any) -> None:
    """Raise ValueError if a density takes accelerations, and strokes may turn corners or the method is gd.Wong."""
    if derivatives_taken(density) == 1:
        return
    corners = isinstance(method, Direct) and method.corners is not None
    asked = {"base=": base is not None, "ends=": ends is not None, "corners=": corners}
    for name, is_given in asked.items():
        if is_given:
            raise ValueError(
                "optimal_stroke: density takes accelerations, which are infinite where a stroke turns a corner, as it"
                f" may with {name}; leave that out, or take a density (swimmer, r, r') of rates alone."
            )
    if isinstance(method, Wong):
        raise ValueError(
            "optimal_stroke: method=gd.Wong solves equations of second order in time, and this density takes"
            " accelerations, for which they are of fourth order: take gd.Direct(…)."
        )


def check_pace(swimmer: AbstractLocomotion, m: int) -> None:
    """Raise ValueError, in a search that knows no other cost, if the energy of strokes is the same at any pace."""
    if _has_any_pace(swimmer, m):
        raise ValueError(
            f"optimal_stroke: the energy of {type(swimmer).__name__} is the same at any pace, since its forces do not"
            " depend on the speed, so that no stroke is the only best one. Seek one stroke after the other by"
            " gd.optimal_stroke(swimmer, guess, displacement=…, density=…), each from the one before as its guess, with"
            " density=lambda swimmer, r, rdot: gd.costs.energy(swimmer, r, rdot) ** 2."
        )


def _has_any_pace(swimmer: AbstractLocomotion, m: int) -> bool:
    """Whether a body of m shape variables is known to dissipate a power of degree one in the velocities."""
    if not isinstance(swimmer, AbstractForceBalance) or not known(swimmer):
        return False
    shape = jnp.zeros(m) if swimmer.first_shape is None else swimmer.first_shape
    degree = float(swimmer.degree(shape))
    return abs(degree - 1) < 1e-6


def check_kinds(swimmer: Any, method: Any, density: Any) -> None:
    """Raise ValueError for a swimmer, method or density of the wrong kind, and for too few harmonics or steps."""
    if not isinstance(swimmer, AbstractLocomotion):
        kind = f"the class {swimmer.__name__}: call it" if isinstance(swimmer, type) else type(swimmer).__name__
        raise ValueError(f"optimal_stroke: want a swimmer, such as gd.swimmers.Purcell(), got {kind}.")
    if not isinstance(method, AbstractStrokeMethod):
        raise ValueError(f"optimal_stroke: method must be gd.Direct(…), gd.Wong(…) or gd.Descent(…), got {method!r}.")
    if isinstance(swimmer, AbstractForceBalance) and not isinstance(method, Direct):
        raise ValueError(
            f"optimal_stroke: method must be gd.Direct(…) for {type(swimmer).__name__}, which has no connection, got"
            f" {type(method).__name__}."
        )
    if not callable(density):
        raise ValueError(f"optimal_stroke: density must be a function (swimmer, r, r') → number, got {density!r}.")
    are_integers = isinstance(method.harmonics, int) and isinstance(method.steps, int)
    if not are_integers or method.harmonics < 1 or method.steps < 2 * method.harmonics:
        raise ValueError(
            f"optimal_stroke: {method.harmonics} harmonics and {method.steps} steps of the method: want at least 1, and"
            " two steps for each; six are well resolved."
        )


def check_corners(method: Any, base: Any, ends: Any, rates: Any, period: Any) -> None:
    """Raise ValueError unless the corners of the method are None or an integer from 2 on, and for an argument that goes
    only with strokes without corners."""
    corners = method.corners if isinstance(method, Direct) else None
    if corners is None:
        return
    if not isinstance(corners, int) or corners < 2:
        raise ValueError(f"optimal_stroke: corners of the method must be at least 2, got {corners}.")
    given = {"base": base, "ends": ends, "rates": rates, "period": period}
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise ValueError(
            f"optimal_stroke: {named[0]}= goes with a stroke without other corners; leave it out, or the corners of"
            " gd.Direct."
        )


def check_smooth(name: str, method: Any) -> None:
    """Raise ValueError for a method with corners in a search for smooth strokes."""
    if isinstance(method, Direct) and method.corners is not None:
        raise ValueError(
            f"{name}: method has {method.corners} corners, and such strokes are sought one by one, by"
            " gd.optimal_stroke; take gd.Direct without corners."
        )


def checked_period(swimmer: AbstractLocomotion, period: Any, base: Any, ends: Any, method: Any) -> Scalar | None:
    """How long a stroke takes, as a number; None where all shapes are driven. ValueError for a body without passive
    hinges, and for arguments that cannot be met where springs move some of the hinges."""
    if period is None:
        return None
    name = type(swimmer).__name__
    if not isinstance(swimmer, AbstractPassiveSwimmer):
        raise ValueError(
            f"optimal_stroke: period is how long a stroke takes of a body with passive hinges, and {name} has none:"
            " leave it out, or take gd.swimmers.Passive(body, hinges, stiffness)."
        )
    value = numbers(period)
    if value.shape != () or (known(value) and not (np.isfinite(value) and value > 0)):
        raise ValueError(f"optimal_stroke: period must be a positive number, got {period}.")
    if base is not None or ends is not None:
        raise ValueError(
            f"optimal_stroke: base and ends hold all shapes of {name}, of which springs move those of the hinges"
            f" {swimmer.hinges}: leave them out, or leave period= out to drive all shapes."
        )
    if not isinstance(method, Direct):
        raise ValueError(f"optimal_stroke: method must be gd.Direct(…) with period=, got {type(method).__name__}.")
    return value
