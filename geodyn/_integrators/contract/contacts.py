"""Unilateral contacts of a system, as functions of time and state."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import with_time
from geodyn._foundations.checks import numbers, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Int, Number, Numbers, Scalar


class Neighbours(NamedTuple):
    """The contacts that are watched, of many.

    None of the others can close before two points have together travelled further than `room`. By the triangle
    inequality such lists hold for any distance.

    Args:
        which: the numbers of the contacts that are watched [K].
        room: the distance, one number.

    Example:
        Of the 190 pairs of 20 discs in a row, 160 are watched. The nearest of the others are 12 apart,
        less two radii.

        >>> q = jnp.stack([jnp.arange(20.0), jnp.zeros(20)], axis=1)
        >>> discs = gd.System(gd.spaces.Euclidean(2), jnp.ones(20), gd.Contact(0.1))
        >>> near = discs.contacts.neighbours(jnp.array(0.0), q.reshape(-1))
        >>> print(near.which.shape, f"{near.room:.6f}")
        (160,) 11.800000

    Source:
        Verlet, *Phys. Rev.* 159 (1967) 98.
    """

    which: Int[Array, " K"]
    room: Scalar


class Contacts(eqx.Module):
    """The unilateral contacts of a system, gap(q) ≥ 0, at which it is reflected in its kinetic metric.

    A system of one's own hands it over, as the property `contacts` or as an argument of `gd.Lagrangian`. Functions may
    name a parameter `t` and are then given the time. g is the number of contacts.

    Args:
        gap: function q[n] -> [g], the room left at each contact, with a gradient that does not vanish at zero.
        restitution: Newton's coefficient, rate of separation over rate of approach, from 0 to 1: a number, [g], or a
            function q -> [g].
        friction: Coulomb's coefficient ≥ 0: a number, [g], or a function q -> [g]; None where no contact has friction.
        slip: function (q[n], v[n]) -> [g, s], with friction: the velocities along the contacts, affine in v,
            orthonormal in the units of the gaps' rates.
        elastic: True if all restitutions are known to be 1, so that no contact is followed to rest, in a smaller
            program; then `with_rest` must be given.
        jumping: True if gaps jump, so that no root of one is the moment of an impact.
        among: function which[K] -> Contacts, those of these numbers, where it is cheaper than to choose from all.
        neighbours: function (t, q) -> `gd.systems.Neighbours` or None: of many contacts those that are near.
        closing: function (q, v) -> a bound of the rate at which the room of the neighbours is used up; given together
            with `neighbours`.
        without_idle: function (q, p) -> (q, p), the same state, where coordinates on which nothing depends are put back
            and have no momentum.
        with_rest: function () -> system, the same system with contacts that may be at rest; needed where `elastic`.

    Raises:
        ValueError: where `gap` is no function, for a restitution outside [0, 1] and a friction below 0, for friction
            without slip or slip without friction, and for `elastic` without `with_rest`.

    Example:
        A ball that falls from the height 1 strikes the floor after √(2/9.81).

        >>> ball = gd.Lagrangian(
        ...     lambda q, v: v @ v / 2 - 9.81 * q[1],
        ...     contacts=gd.systems.Contacts(lambda q: q[1:], restitution=0.8),
        ... )
        >>> fall = gd.integrate(ball, jnp.array([0.0, 1.0]), t1=0.6, steps=60)
        >>> print(f"{fall.impacts.count} impact at t = {fall.impacts.t[0]:.6f}")
        1 impact at t = 0.451524
    """

    gaps: Callable
    restitutions: Callable | Numbers
    frictions: Callable | Numbers | None
    slips: Callable | None
    among: Callable | None
    watched: Callable | None
    closing: Callable | None
    without_idle: Callable
    with_rest: Callable | None
    elastic: bool = eqx.field(static=True)
    jumping: bool = eqx.field(static=True)

    @checked
    def __init__(
        self,
        gap: Callable,
        restitution: Callable | Numbers = 1.0,
        friction: Callable | Numbers | None = None,
        slip: Callable | None = None,
        *,
        elastic: bool = False,
        jumping: bool = False,
        among: Callable | None = None,
        neighbours: Callable | None = None,
        closing: Callable | None = None,
        without_idle: Callable = lambda q, p: (q, p),
        with_rest: Callable | None = None,
    ):
        if (friction is None) != (slip is None):
            raise ValueError("friction and slip must be given together: friction acts against the slip")
        for name, value, most in (("restitution", restitution, 1.0), ("friction", friction, jnp.inf)):
            if not callable(value) and value is not None and np.size(value) == 0:
                raise ValueError(f"{name} must be one number or [g], got {value!r}; None where no contact has friction")
            _check_coefficient(name, value, most)
        if elastic and with_rest is None:
            raise ValueError("elastic contacts need with_rest, which makes the system whose contacts may be at rest")
        self.gaps, self.restitutions, self.frictions, self.slips = gap, restitution, friction, slip
        self.among, self.watched, self.closing = among, neighbours, closing
        self.without_idle, self.with_rest, self.elastic, self.jumping = without_idle, with_rest, elastic, jumping

    @checked
    def gap(self, t: Scalar, q: Float[Array, " n"], which: Int[Array, " K"] | None = None) -> Float[Array, " g"]:
        """The gap at every contact, or at the contacts with the numbers `which`."""
        self._check_numbers(q, which)
        if which is not None and self.among is not None:
            return self.among(which).gap(t, q)
        return pick(jnp.atleast_1d(returned("gap", with_time(self.gaps, 1), t, q)), which)

    @checked
    def restitution(self, q: Float[Array, " n"], which: Int[Array, " K"] | None = None) -> Float[Array, " g"]:
        """Newton's coefficient of restitution of these contacts."""
        return self._of_each(self.restitutions, q, which)

    @checked
    def friction(self, q: Float[Array, " n"], which: Int[Array, " K"] | None = None) -> Float[Array, " g"]:
        """Coulomb's coefficient of friction of these contacts; only for contacts that are `frictional`."""
        return self._of_each(self.frictions, q, which)

    @checked
    def slip(
        self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"], which: Int[Array, " K"] | None = None
    ) -> Float[Array, "g s"]:
        """The slip velocities [g, s] along these contacts; only for contacts that are `frictional`."""
        assert self.slips is not None, "only contacts with friction have slips"
        self._check_numbers(q, which)
        q, v = (x.astype(jnp.result_type(q, v)) for x in (q, v))
        if which is not None and self.among is not None:
            return self.among(which).slip(t, q, v)
        return pick(returned("slip", with_time(self.slips, 2), t, q, v), which)

    @property
    def frictional(self) -> bool:
        """Whether any contact has friction."""
        return self.frictions is not None

    @checked
    def neighbours(self, t: Scalar, q: Float[Array, " n"]) -> Neighbours | None:
        """The contacts that are near, out of many; None if there are so few that all are watched."""
        return None if self.watched is None else self.watched(t, q)

    def _check_numbers(self, q: Float[Array, " n"], which: Int[Array, " K"] | None):
        """Raises ValueError unless `which`, where it is known, are numbers of contacts."""
        if which is None or isinstance(which, Tracer):
            return
        count = jax.eval_shape(self.gap, jnp.zeros((), q.dtype), q).size
        if which.size and not (int(which.min()) >= 0 and int(which.max()) < count):
            raise ValueError(f"which must be numbers of contacts, from 0 to {count - 1}; got {which.tolist()}")

    def _of_each(
        self, value: Numbers | Callable | None, q: Float[Array, " n"], which: Int[Array, " K"] | None
    ) -> Float[Array, " g"]:
        self._check_numbers(q, which)
        if callable(value):
            return pick(value(q), which)
        size = jax.eval_shape(self.gap, jnp.zeros((), q.dtype), q).size
        return pick(jnp.broadcast_to(jnp.asarray(value, q.dtype), size), which)


def _check_coefficient(name: str, value: Any, most: float) -> None:
    """Raises ValueError unless a coefficient is a function, or numbers from 0 to `most`, as far as they are known."""
    if value is None or callable(value):
        return
    given = numbers(name, value)
    known = not isinstance(given, Tracer)
    if given.ndim > 1 or (known and not bool(jnp.all((given >= 0) & (given <= most) & jnp.isfinite(given)))):
        wanted = "from 0 to 1" if most == 1 else "0 or more"
        raise ValueError(f"{name} must be {wanted}, one number or one for each contact [g], or a function; got {value}")


def check_contacts(contacts: Contacts, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> None:
    """Raises ValueError unless the functions of contacts return arrays of the shapes that their number g asks for."""
    gap = jax.eval_shape(with_time(contacts.gaps, 1), t, q)
    if gap.ndim > 1 or not jnp.issubdtype(gap.dtype, jnp.floating):
        raise ValueError(f"gap must return floats [g], one for each contact; got shape {gap.shape} of {gap.dtype}")
    count = gap.size
    for name, value in (("restitution", contacts.restitutions), ("friction", contacts.frictions)):
        shape = () if value is None else jax.eval_shape(value, q).shape if callable(value) else np.shape(value)
        if shape not in ((), (count,)) or (callable(value) and shape != (count,)):
            raise ValueError(f"{name} must be one number or [{count}], one for each contact of gap; got shape {shape}")
    if contacts.slips is not None:
        slip = jax.eval_shape(with_time(contacts.slips, 2), t, q, v).shape
        if len(slip) != 2 or slip[0] != count:
            raise ValueError(f"slip must return [{count}, s], a row for each contact of gap; got shape {slip}")


def pick(x: Array, which: Int[Array, " K"] | None) -> Array:
    """x[which], or x itself if that is all of it: the derivative of an index is a scatter."""
    return x if which is None or which.size == x.shape[0] else x[which]
