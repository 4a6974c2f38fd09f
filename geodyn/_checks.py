"""Checks of a user's arguments: of numbers, and of the arguments and results of functions. Errors name the argument."""

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Scalar

UNTRACEABLE = jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError


def numbers(name: str, value, wanted: str = "real numbers") -> Array:
    """`value` as an array; ValueError for strings, other objects, complex numbers and rows of different lengths."""
    return jnp.asarray(array_of(name, value, wanted))


def array_of(name: str, value, wanted: str) -> Array | np.ndarray:
    """What `numbers` returns, but of numpy where the numbers are plain or numpy's: an array of JAX takes longer to
    make, and of a list JAX would compile a program for it."""
    try:
        leaves = [] if isinstance(value, jax.Array | np.ndarray) else jax.tree.leaves(value)
        if any(isinstance(x, str) for x in leaves):
            raise TypeError
        plain = isinstance(value, list | tuple) and all(type(x) in (float, int) for x in leaves)
        array = np.asarray(value) if plain or isinstance(value, np.ndarray) else jnp.asarray(value)
        jnp.result_type(array.dtype)  # TypeError for numbers that JAX does not have.
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {wanted}, rows of equal length, got {value!r}") from None
    if value is None or jnp.iscomplexobj(array):
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    return array


def floats(name: str, value, wanted: str = "real numbers") -> Array:
    """`numbers`, as floating-point numbers of the working precision."""
    value = np.asarray(float(value)) if isinstance(value, float | int) else value
    return numbers(name, value, wanted).astype(float)


def require(name: str, value, kind: type, wanted: str) -> None:
    """Raises ValueError unless `value` is an instance of `kind`, which `wanted` describes in the message."""
    if not isinstance(value, kind):
        given = f"the class {value.__name__}: call it" if isinstance(value, type) else type(value).__name__
        raise ValueError(f"{name} must be {wanted}; got {given}")


def check_arguments(name: str, function, *wanted: str, named: tuple[str, ...] = ("t",)) -> None:
    """Raises ValueError unless the function takes the arguments `wanted`. It may also have parameters with the names in
    `named`, but without defaults: with a default, a parameter of the same name might mean something else."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    asked = {key: p for key, p in signature.parameters.items() if key in named and key not in wanted}
    try:
        signature.bind(*wanted, **dict.fromkeys(asked))
        error = next((f"{key} has a default" for key, p in asked.items() if p.default is not p.empty), None)
    except TypeError as failure:
        error = failure
    if error is not None:
        also = " and ".join(f"{key!r}" for key in named)
        raise ValueError(
            f"{name} must be a function ({', '.join(wanted)}), which may name {also} besides, without a default; this "
            f"one is {signature} ({error})"
        )


def returned(name: str, function, *args) -> Array:
    """The value of a user's function as an array of real numbers; else ValueError."""
    try:
        value = function(*args)
    except UNTRACEABLE as error:
        raise ValueError(
            f"{name} cannot be traced ({type(error).__name__}): write it with jax.numpy (jnp.sin, jnp.stack) instead "
            "of math, numpy, float() or an `if` on its arguments"
        ) from None
    if isinstance(value, list | tuple | dict) or value is None:
        raise ValueError(f"{name} must return an array, got {type(value).__name__}: join its parts with jnp.stack")
    value = numbers(f"what {name} returns", value)
    return value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(jnp.result_type(float))


def one_number(name: str, value: Array) -> Scalar:
    """`value` if it is a scalar; else ValueError."""
    if jnp.shape(value) != ():
        raise ValueError(f"{name} must return a scalar, got shape {jnp.shape(value)}")
    return value


def row(name: str, value: Array) -> Array:
    """`value`, a scalar or a row, as a row [c]; else ValueError."""
    if jnp.ndim(value) > 1:
        raise ValueError(f"{name} must return one row [c], got shape {jnp.shape(value)}: ravel it")
    return jnp.atleast_1d(value)


def shaped(q: Array, shape: tuple[int, ...], what: str) -> Array:
    """A flat configuration, velocity or momentum, reshaped to `shape`, whose axes `what` describes; else ValueError."""
    if q.size != math.prod(shape):
        raise ValueError(f"q, and v or p, must have shape {shape} ({what}), got {q.size} numbers")
    return q.reshape(shape)


def a_number(name: str, value) -> None:
    """Raises ValueError unless `value` is one real number."""
    if not isinstance(value, float | int) and np.shape(numbers(name, value, "a number")) != ():
        raise ValueError(f"{name} must be a number, got shape {np.shape(value)}")
