"""MOTION: swimmers of spheres on a line that interact through the flow (Stokes mobility); any consistent units."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Float, Number, Scalar
from geodyn._geometry.groups.rigid import Translation
from geodyn._locomotion.connections.checks import one_if, require_positive, require_shape
from geodyn._locomotion.connections.connection import AbstractSwimmer
from geodyn._locomotion.strokes.stroke import floating


@checked
class PushMePullYou(AbstractSwimmer):
    """Two spheres in a viscous fluid that exchange volume and change their distance; they swim along their line.

    Its shape is r = (distance l, volume v₁ of the first sphere), its position X = (x₁ + x₂)/2 with x₂ = x₁ + l. Each
    sphere is dragged through the source flow of the other, and a sphere that swells dissipates as well, to leading
    order in radius/distance. With `finite_size` it is right up to the third order: Stokeslets with their finite-size
    corrections, and a source's flow thrown back by the stresslet (20/3)πμa³E of the other sphere in its strain E.
    Shapes must have 0 < v₁ < volume and spheres that do not overlap; elsewhere it is NaN. Any consistent units.

    Args:
        volume: of both spheres together.
        viscosity: of the fluid.
        finite_size: whether to take the terms up to the third order in radius/distance.
        group: `gd.groups.Translation(1)`.

    Raises:
        ValueError: unless volume and viscosity are positive.

    Example:
        Two equal spheres at a changing distance keep their middle; a volume that moves to the first moves it too.

        >>> swimmer = gd.swimmers.PushMePullYou()
        >>> print(gd.connection(swimmer, [6.0, 4 * np.pi / 3]).round(6) + 0.0, f"{-1 / (4 * np.pi * 6**2):.6f}")
        [[ 0.      -0.00221]] -0.002210

    Source:
        Avron, Kenneth & Oaknin, *New J. Phys.* 7 (2005) 234, equations 3–8; Rotne & Prager, *J. Chem. Phys.* 50 (1969)
        4831; Kim & Karrila, *Microhydrodynamics* (1991), section 8.3.
    """

    shape_names = ("distance", "volume of the first sphere")
    needs_bounds = "ever smaller distances and volumes cost ever less"

    volume: Number = eqx.field(default=8 * np.pi / 3, converter=floating)
    viscosity: Number = eqx.field(default=1.0, converter=floating)
    finite_size: bool = eqx.field(static=True, default=False)
    group: Translation = Translation(1)

    def __check_init__(self):
        require_positive("PushMePullYou", volume=self.volume, viscosity=self.viscosity)

    def dissipation(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        x, volumes, radii = self._spheres(r)
        # What the other sphere throws back of a sphere's own source flow, in units of the other's source flow. At the
        # distance d the flow q/(4πd²) has the strain E = q/(2πd³). The other sphere, of the radius a, answers it by the
        # stresslet S = (20/3)πμa³E, whose flow at the distance d is 3S/(8πμd²).
        if self.finite_size:
            reflected = 5 * (radii[::-1] / r[0]) ** 3
        else:
            reflected = jnp.zeros(2)
        # The first sphere, on the left, swells by v₁', the second by −v₁': both sources drive to the right.
        flow = rdot[1] / (4 * jnp.pi * r[0] ** 2) * (1 - reflected)
        slip = xi[0] - flow + jnp.stack([-rdot[0], rdot[0]]) / 2
        # In units of 6πμ.
        forces = solve(_mobility(x, radii, True), slip) if self.finite_size else radii * slip
        dragging = 6 * jnp.pi * slip @ forces
        # A sphere of the radius a that swells dissipates 16πμ a a'² = (4/3) μ v'²/v.
        swelling = 4 / 3 * jnp.sum(rdot[1] ** 2 / volumes)
        power: Scalar = self.viscosity * (dragging + swelling)
        return _nan_unless_possible(power, _are_apart(x, radii) & jnp.all(volumes > 0))

    @checked
    def outline(self, r: Float[Array, "2"]) -> Float[Array, "2 points 2"]:
        """The outlines of the spheres, as circles."""
        x, _, radii = self._spheres(r)
        return _circles(x, radii)

    def _spheres(self, r: Float[Array, " m"]) -> tuple[Array, Array, Array]:
        """(positions on the line, volumes, radii) of the two spheres."""
        require_shape("PushMePullYou", "the shape r", r, (2,))
        volumes = jnp.stack([r[1], self.volume - r[1]])
        x = jnp.stack([-r[0], r[0]]) / 2
        radii = jnp.cbrt(3 * volumes / (4 * jnp.pi))
        return x, volumes, radii


@checked
class ThreeSphere(AbstractSwimmer):
    """Three spheres on a line in a viscous fluid that change their two distances (Najafi and Golestanian).

    Its shape is r = (x₂ − x₁, x₃ − x₂), its position X = x₂. Forces push the spheres through each other's Stokeslet
    flow; with `finite_size` Rotne and Prager's corrections make it right up to the third order in radius/distance.
    Spheres that overlap give NaN. Without `finite_size`, equal spheres swim ever more cheaply until they touch, so that
    a best stroke needs bounds or a base. Any consistent units.

    Args:
        radii: of the spheres [3].
        viscosity: of the fluid.
        finite_size: whether to take Rotne and Prager's corrections.
        group: `gd.groups.Translation(1)`.

    Raises:
        ValueError: unless there are three radii and all numbers are positive.

    Example:
        A small stroke of equal spheres, beside Golestanian and Ajdari's formula: for arms l with amplitudes d in
        quadrature it moves by (7/12) (a/l²) π d² to leading order in a/l.

        >>> swimmer = gd.swimmers.ThreeSphere(radii=(0.01, 0.01, 0.01))
        >>> stroke = gd.FourierStroke.circle(0.1, centre=(1.0, 1.0))
        >>> moved = swimmer.group.log(gd.holonomy(swimmer, stroke))[0]
        >>> print(f"{abs(moved):.2e} {7 / 12 * 0.01 * np.pi * 0.1**2:.2e}")
        1.86e-04 1.83e-04

    Source:
        Najafi & Golestanian, *PRE* 69 (2004) 062901; Golestanian & Ajdari, *PRE* 77 (2008) 036308.
    """

    shape_names = ("first distance", "second distance")

    radii: Float[Array, "3"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    viscosity: Number = eqx.field(default=1.0, converter=floating)
    finite_size: bool = eqx.field(static=True, default=False)
    group: Translation = Translation(1)

    def __check_init__(self):
        if jnp.shape(self.radii) != (3,):
            raise ValueError(f"ThreeSphere: radii must be three numbers, got shape {jnp.shape(self.radii)}.")
        require_positive("ThreeSphere", radii=self.radii, viscosity=self.viscosity)

    def dissipation(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        require_shape("ThreeSphere", "the shape r", r, (2,))
        x = _from_the_middle(r)
        slip = xi[0] + _from_the_middle(rdot)
        # The mobility is in units of 1/(6πμ), so the forces are in units of 6πμ.
        forces = solve(_mobility(x, self.radii, self.finite_size), slip)
        power: Scalar = 6 * jnp.pi * self.viscosity * slip @ forces
        return _nan_unless_possible(power, _are_apart(x, self.radii))

    @checked
    def outline(self, r: Float[Array, "2"]) -> Float[Array, "3 points 2"]:
        """The outlines of the spheres, as circles."""
        return _circles(_from_the_middle(r), self.radii)


def _from_the_middle(arms: Float[Array, "2"]) -> Float[Array, "3"]:
    """The positions of three spheres relative to the middle one, from the two distances; or their velocities."""
    return jnp.stack([-arms[0], 0 * arms[0], arms[1]])


def _mobility(x: Float[Array, " N"], radii: Float[Array, " N"], finite_size: bool) -> Float[Array, "N N"]:
    """The mobility matrix of spheres on a line, times 6πμ: Oseen's, or Rotne and Prager's if `finite_size`."""
    own = jnp.eye(x.shape[0])
    # On the diagonal 1 instead of 0, so that nothing is divided by 0.
    distances = jnp.abs(x[:, None] - x[None]) + own
    # A Stokeslet F moves the fluid at the distance d on the line of the force by F/(4πμd), which is 3/2 F/(6πμd).
    pairs = 1.5 / distances
    # Rotne and Prager's tensor on the line of the centres, for radii a and b: the factor 1 − (a² + b²)/(3d²).
    if finite_size:
        correction = (radii[:, None] ** 2 + radii[None] ** 2) / (3 * distances**2)
        pairs = pairs * (1 - correction)
    return jnp.where(own > 0, own / radii[None], pairs)


def _are_apart(x: Float[Array, " N"], radii: Float[Array, " N"]) -> Bool[Array, ""]:
    """Whether spheres at x, given from left to right, do not overlap."""
    return jnp.all(x[1:] - x[:-1] > radii[1:] + radii[:-1])


def _nan_unless_possible(power: Scalar, possible: Bool[Array, ""]) -> Scalar:
    """The power, or NaN for a shape that the body cannot have."""
    return one_if(possible) * power


def _circles(x: Float[Array, " N"], radii: Float[Array, " N"]) -> Float[Array, "N 61 2"]:
    """Circles of these radii around the points x of the line, in a plane through it."""
    angle = jnp.linspace(0.0, 2 * jnp.pi, 61)
    circle = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    centres = jnp.stack([x, 0 * x], axis=1)
    return radii[:, None, None] * circle[None] + centres[:, None]
