"""MOTION: checks of the numbers of a body when it is constructed, and of the values at its shapes."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Shaped

from geodyn._foundations.checks import is_finite
from geodyn._foundations.typing import Array, ArrayLike, Bool, Float


def require_positive(owner: str, **numbers) -> None:
    """Raise ValueError unless every number that is not traced is finite and positive."""
    for name, value in numbers.items():
        if not isinstance(value, Tracer) and not np.all(np.isfinite(value) & (np.asarray(value) > 0)):
            raise ValueError(f"{owner}: {name} must be positive and finite, got {value}.")


def require_shape(owner: str, name: str, value, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless an array has this shape."""
    if np.shape(value) != shape:
        raise ValueError(f"{owner}: {name} must have the shape {shape}, got {np.shape(value)}.")


def require_defined(
    owner: str, body, check_law: Callable, r: Shaped[ArrayLike, " m"], value: Float[Array, "..."]
) -> Float[Array, "..."]:
    """The value; ValueError if it is not traced and not finite: the law of the body is wrong, as `check_law(body, r)`
    says, or the body cannot have the shape r."""
    if not isinstance(value, Tracer) and not is_finite(np.asarray(value)):
        check_law(body, jnp.asarray(r, float))
        raise ValueError(
            f"{owner}: {type(body).__name__} is singular at the shape {np.asarray(r)}: its docstring says which shapes"
            " it can have."
        )
    return value


def rounding(dtype) -> float:
    """The relative error that a body's own numerics may leave in its law: 5e-7 in double precision."""
    return float(jnp.finfo(dtype).eps) ** 0.4


def trial_velocity(size: int, dtype) -> Float[Array, " n"]:
    """A velocity (ξ, r') in no particular direction, opposite to the basis vectors and longer."""
    return jnp.asarray(-1 - (np.sqrt(5) / 2 + 0.5) * np.arange(1, size + 1) % 1, dtype)


def basis_and_trial(size: int, dtype) -> Float[Array, "rows n"]:
    """The basis vectors of velocities (ξ, r'), and the trial velocity after them."""
    return jnp.concatenate([jnp.eye(size, dtype=dtype), trial_velocity(size, dtype)[None]])


def same_to_rounding(found: Array, wanted: Array, size: Array) -> Bool[Array, ""]:
    """Whether numbers agree, relative to a `size`."""
    return jnp.all(jnp.abs(found - wanted) <= rounding(wanted.dtype) * size)


def one_if(good: Bool[Array, ""]) -> Float[Array, ""]:
    """The factor 1, or NaN, which makes NaN of what it multiplies and of its derivatives."""
    return jax.lax.stop_gradient(jnp.where(good, 1.0, jnp.nan))


def check_homogeneous(name: str, what: str, function: Callable, k: int, r: Float[Array, " m"], degree: int) -> None:
    """Raise ValueError unless f(u + v) + f(u − v) has the value of a linear (degree 1) or quadratic (2) form f, at
    random velocities u, v = (ξ[k], r'), where its values are finite."""
    u, v = jnp.asarray(np.random.default_rng(0).normal(size=(2, k + r.size)), r.dtype)
    values = jax.jit(jax.vmap(lambda u: function(r, u[:k], u[k:])))(jnp.stack([u + v, u - v, u, v]))
    both, apart, first, second = np.asarray(values)
    found, wanted = both + apart, 2 * first + (2 * second if degree == 2 else 0)
    close = np.allclose(found, wanted, rtol=1e5 * np.finfo(found.dtype).eps, atol=1e5 * np.finfo(found.dtype).eps)
    if np.all(np.isfinite(values)) and not close:
        kind = "a quadratic form in" if degree == 2 else "linear in"
        raise ValueError(f"{name}: {what} must be {kind} (ξ, r'), but f(u+v) + f(u−v) is {found} instead of {wanted}.")
