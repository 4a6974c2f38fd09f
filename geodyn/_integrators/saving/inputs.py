"""The inputs of a run as named arrays and texts, which files store and checkpoints compare."""

import hashlib
import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.internals import ClosedJaxpr
from geodyn._foundations.files.archive import named_arrays
from geodyn._foundations.typing import Array, Float, Number, PyTree, Scalar
from geodyn._integrators.contract.system import AbstractSystem, pfaffian
from geodyn._integrators.saving.schema import structure
from geodyn._integrators.step.methods import AbstractCollocation, AbstractMethod
from geodyn._version import __version__


def description(method: AbstractMethod) -> dict:
    """A method as plain numbers and names."""
    name = {"name": type(method).__name__}
    if isinstance(method, AbstractCollocation):
        tableau = method.tableau
        about = name | {"formulation": method.formulation, "order": tableau.order}
        return about | {"a": tableau.a.tolist(), "b": tableau.b.tolist(), "c": tableau.c.tolist()}

    def plain(x: Any) -> Any:
        return x.tolist() if eqx.is_array(x) else x

    return name | {field: plain(value) for field, value in vars(method).items()}


def named_inputs(system: AbstractSystem, method: AbstractMethod, **given: Any) -> dict[str, np.ndarray]:
    """Everything on which the results of a run depend bit for bit, by name: the `given` arguments, the numbers of the
    system, its structure and its equations, the method, the versions and the device."""
    texts = {
        "system": structure(system),
        "the system's equations (hash of their program)": program(system, given["t0"], given["q0"]),
        **{f"method.{name}": str(value) for name, value in description(method).items()},
        "geodyn": __version__,
        "jax": jax.__version__,
        "device": jax.default_backend(),
    }
    given = {name: x if x is None else np.asarray(x) for name, x in given.items()}
    return named_arrays({"system": system, **given}) | {name: np.array(text) for name, text in texts.items()}


def program(system: AbstractSystem, t: Number, q: Array | np.ndarray) -> str:
    """A hash of the program that JAX traces from the system's equations, since the name of a function does not show
    what it computes."""
    n, c = q.size, system.count_constraints(q)
    arrays, static = eqx.partition(system, eqx.is_array)

    def equations(
        arrays: PyTree, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"], p: Array, lam: Float[Array, " c"]
    ) -> tuple:
        system = eqx.combine(arrays, static)
        watched = (system.contacts.gap(t, q), system.contacts.restitution(q)) if system.contacts is not None else ()
        velocity = system.velocity(t, q, p)
        held = system.constraint(t, q), pfaffian(system, t, q, v)
        return system.momentum(t, q, v), velocity, system.force(t, q, v, lam), held, watched

    def zeros(n: int) -> Array:
        return jnp.zeros(n, q.dtype)

    p = jax.eval_shape(system.momentum, t, zeros(n), zeros(n))
    return fingerprint(jax.make_jaxpr(equations)(arrays, t, zeros(n), zeros(n), p, zeros(c)))


def fingerprint(closed: ClosedJaxpr) -> str:
    """A hash of a traced program and of the arrays in it."""
    constants = b"".join(np.asarray(x).tobytes() for x in closed.consts)
    text = re.sub("0x[0-9a-f]+", "", str(closed.jaxpr))  # Without the addresses of objects.
    return hashlib.sha256(text.encode() + constants).hexdigest()[:16]
