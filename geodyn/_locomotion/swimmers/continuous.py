"""MOTION: a continuously bending slender body (serpenoid), under resistive-force theory."""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import legendre

from geodyn._engine.jit import as_pytree
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Number, Scalar
from geodyn._geometry.groups.rigid import SE2
from geodyn._locomotion.connections.checks import require_positive
from geodyn._locomotion.connections.connection import AbstractSwimmer, resistive_power
from geodyn._locomotion.strokes.stroke import floating


def waves(s: Scalar) -> Float[Array, "2"]:
    """One wave on the body, `(cos 2πs, sin 2πs)`: the curvature of Hirose's serpenoid curve."""
    return jnp.stack([jnp.cos(2 * jnp.pi * s), jnp.sin(2 * jnp.pi * s)])


@checked
class Serpenoid(AbstractSwimmer):
    """A slender body that bends everywhere, with the curvature `κ = Σ_i r_i φ_i(s)/length`.

    Here s goes from 0 (tail) to 1 (head). The modes φ are any smooth functions; the default is one wave,
    `(cos 2πs, sin 2πs)`, that of Hirose's serpenoid curve. The shape r is in radians over the length of the body.
    The frame sits at the middle of the body, along it. Drag follows resistive-force theory. The centreline is
    integrated with Gauss–Legendre nodes, which converges exponentially. Any consistent units.

    Args:
        length: of the body.
        drag_ratio: drag across over that along.
        drag: drag per length along.
        modes: function s -> φ[m].
        nodes: number of nodes.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless all numbers are positive, and for a shape that has not as many numbers as there are modes.

    Example:
        A wave that travels from head to tail drives the body ahead.

        >>> snake = gd.swimmers.Serpenoid(drag_ratio=2.0)
        >>> wave = gd.strokes.reverse(gd.FourierStroke.circle(3.0))
        >>> moved = [snake.group.log(gd.holonomy(snake, s, steps=64)) for s in (wave, gd.strokes.reverse(wave))]
        >>> print([f"{x[0]:.4f}" for x in moved])
        ['0.0662', '-0.0662']

    Source:
        Hirose, *Biologically Inspired Robots* (1993), chapter 2; Gray & Hancock, *J. Exp. Biol.* 32 (1955) 802.
    """

    length: Number = eqx.field(default=1.0, converter=floating)
    drag_ratio: Number = eqx.field(default=2.0, converter=floating)
    drag: Number = eqx.field(default=1.0, converter=floating)
    modes: Callable[[Scalar], Float[Array, " m"]] = eqx.field(default=waves, converter=as_pytree)
    nodes: Count = eqx.field(static=True, default=24)
    group: SE2 = SE2()

    def __check_init__(self):
        require_positive("Serpenoid", length=self.length, drag_ratio=self.drag_ratio, drag=self.drag, nodes=self.nodes)

    @checked
    def centreline(self, r: Float[Array, " m"], s: Float[np.ndarray, " S"]) -> Float[Array, "S 3"]:
        """Positions and headings (x, y, angle) of the points s in [0, 1] of the body, in its frame."""
        nodes = _gauss(self.nodes)[0]
        shapes = jax.vmap(self.modes)(jnp.asarray(nodes, r.dtype))
        if shapes.shape[1:] != r.shape:
            raise ValueError(f"Serpenoid: modes gives {shapes.shape[1:]} numbers, but the shape r has {r.shape}.")
        bend = shapes @ r
        angle = jnp.asarray(_from_the_middle(self.nodes, tuple(nodes)), r.dtype) @ bend
        integral = jnp.asarray(_from_the_middle(self.nodes, tuple(s)), r.dtype)
        place = self.length * integral @ jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
        return jnp.concatenate([place, (integral @ bend)[:, None]], axis=1)

    def dissipation(self, r, xi, rdot):
        nodes, weights = _gauss(self.nodes)
        drag = self.drag * self.length * jnp.asarray(weights, r.dtype)
        poses, rates = jax.jvp(lambda r: self.centreline(r, nodes), (r,), (rdot,))
        return resistive_power(poses, rates, jnp.stack([drag, self.drag_ratio * drag, 0 * drag], axis=1), xi)

    @checked
    def outline(self, r: Float[Array, " m"]) -> Float[Array, "1 65 2"]:
        """The centreline."""
        return self.centreline(r, np.linspace(0, 1, 65))[None, :, :2]


@functools.cache
def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights of [0, 1]."""
    nodes, weights = legendre.leggauss(count)
    return (1 + nodes) / 2, weights / 2


@functools.cache
def _from_the_middle(count: int, s: tuple[float, ...]) -> np.ndarray:
    """The matrix of `∫_{1/2}^s f` from the values of f at the nodes, exact for polynomials up to degree count − 1."""
    x = 2 * np.array(s) - 1
    integrals = np.stack([legendre.legval(x, legendre.legint(p, lbnd=0)) for p in np.eye(count)], axis=1) / 2
    return integrals @ np.linalg.inv(legendre.legvander(2 * _gauss(count)[0] - 1, count - 1))
