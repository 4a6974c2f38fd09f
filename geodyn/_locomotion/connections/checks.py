"""MOTION: checks of the numbers of a body when it is constructed, and of the values at its shapes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike
from jaxtyping import Shaped

from geodyn._foundations.checks import is_finite
from geodyn._foundations.typing import Array, ArrayLike, Bool, Float


def require_positive(owner: str, **numbers: ArrayLike) -> None:
    """Raise ValueError unless every number that is not traced is finite and positive."""
    for name, value in numbers.items():
        if isinstance(value, Tracer):
            continue
        if not np.all(np.isfinite(value) & (np.asarray(value) > 0)):
            raise ValueError(f"{owner}: {name} must be positive and finite, got {value}.")


def require_shape(owner: str, name: str, value: ArrayLike, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless an array has this shape."""
    if np.shape(value) != shape:
        raise ValueError(f"{owner}: {name} must have the shape {shape}, got {np.shape(value)}.")


def require_defined(
    owner: str,
    body: Any,
    check_law: Callable[[Any, Float[Array, " m"]], object],
    r: Shaped[ArrayLike, " m"],
    value: Float[Array, "..."],
) -> Float[Array, "..."]:
    """The value; ValueError if it is not traced and not finite: the law of the body is wrong, as `check_law(body, r)`
    says, or the body cannot have the shape r."""
    if isinstance(value, Tracer) or is_finite(np.asarray(value)):
        return value
    check_law(body, jnp.asarray(r, float))
    raise ValueError(
        f"{owner}: {type(body).__name__} is singular at the shape {np.asarray(r)}: its docstring says which shapes"
        " it can have."
    )


def rounding(dtype: DTypeLike) -> float:
    """The relative error that a body's own numerics may leave in its law: 5e-7 in double precision."""
    return float(jnp.finfo(dtype).eps) ** 0.4


def trial_velocity(size: int, dtype: DTypeLike) -> Float[Array, " n"]:
    """A velocity (ξ, r') in no particular direction, opposite to the basis vectors and longer."""
    golden_ratio = np.sqrt(5) / 2 + 0.5
    # The fractional parts of its multiples are all different and evenly spread.
    fractions = golden_ratio * np.arange(1, size + 1) % 1
    return jnp.asarray(-1 - fractions, dtype)


def basis_and_trial(size: int, dtype: DTypeLike) -> Float[Array, "rows n"]:
    """The basis vectors of velocities (ξ, r'), and the trial velocity after them."""
    basis = jnp.eye(size, dtype=dtype)
    return jnp.concatenate([basis, trial_velocity(size, dtype)[None]])


def same_to_rounding(found: Array, wanted: Array, size: Array) -> Bool[Array, ""]:
    """Whether numbers agree, relative to a `size`."""
    return jnp.all(jnp.abs(found - wanted) <= rounding(wanted.dtype) * size)


def one_if(good: Bool[Array, ""]) -> Float[Array, ""]:
    """The factor 1, or NaN, which makes NaN of what it multiplies and of its derivatives."""
    return jax.lax.stop_gradient(jnp.where(good, 1.0, jnp.nan))


def check_homogeneous(
    name: str,
    what: str,
    function: Callable[[Float[Array, " m"], Float[Array, " k"], Float[Array, " m"]], Float[Array, "..."]],
    k: int,
    r: Float[Array, " m"],
    degree: int,
) -> None:
    """Raise ValueError unless f(u + v) + f(u − v) has the value of a linear (degree 1) or quadratic (2) form f, at
    random velocities u, v = (ξ[k], r'), where its values are finite."""
    u, v = jnp.asarray(np.random.default_rng(0).normal(size=(2, k + r.size)), r.dtype)

    def of_velocity(u: Float[Array, " n"]) -> Float[Array, "..."]:
        return function(r, u[:k], u[k:])

    values = np.asarray(jax.jit(jax.vmap(of_velocity))(jnp.stack([u + v, u - v, u, v])))
    if not np.all(np.isfinite(values)):
        return
    of_sum, of_difference, of_u, of_v = values
    found = of_sum + of_difference
    wanted = 2 * of_u + 2 * of_v if degree == 2 else 2 * of_u
    tolerance = 1e5 * np.finfo(found.dtype).eps
    if not np.allclose(found, wanted, rtol=tolerance, atol=tolerance):
        kind = "a quadratic form in" if degree == 2 else "linear in"
        raise ValueError(f"{name}: {what} must be {kind} (ξ, r'), but f(u+v) + f(u−v) is {found} instead of {wanted}.")
