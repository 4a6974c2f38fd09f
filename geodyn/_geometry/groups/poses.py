"""SPACE: poses of rigid bodies by their place and their turn."""

import jax.numpy as jnp

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Row
from geodyn._geometry.groups.rigid import SE2, SE3


@checked
def pose(group: SE2 | SE3, coordinates: Row) -> Float[Array, "d d"]:
    """The pose of a body at a place and with a turn: (x, y, θ) in the plane, (x, y, z, rotation vector) in space.

    These are not the exponential coordinates of `group.exp`, which moves and turns at the same time. Differentiable.

    Args:
        group: `gd.groups.SE2()` or `gd.groups.SE3()`.
        coordinates: the place [2] or [3], then the angle, or axis times angle [3]; radians.

    Returns:
        The group element, a matrix [3, 3] or [4, 4], as `gd.holonomy` gives it.

    Raises:
        ValueError: unless there are 3 or 6 numbers.

    Example:
        >>> group = gd.groups.SE2()
        >>> g = gd.groups.pose(group, [1.0, 2.0, np.pi / 2])
        >>> print((g @ jnp.array([1.0, 0.0, 1.0])).round(6), gd.groups.place_and_turn(group, g).round(6))
        [1. 3. 1.] [1.       2.       1.570796]
    """
    x = jnp.asarray(coordinates, float)
    if x.shape != (group.dim,):
        raise ValueError(
            f"coordinates must be {group.dim} numbers, the place and the turn of a pose in {type(group).__name__}; got"
            f" shape {x.shape}"
        )
    n = group.translations
    turned = group.exp(jnp.concatenate([jnp.zeros_like(x[:n]), x[n:]]))
    return turned.at[:n, -1].set(x[:n])


@checked
def place_and_turn(group: SE2 | SE3, g: Float[Array, "d d"]) -> Float[Array, " k"]:
    """The place and the turn of a pose, from which `gd.groups.pose` makes it: (x, y, θ), or (x, y, z, rotation vector).

    Args:
        group: `gd.groups.SE2()` or `gd.groups.SE3()`.
        g: the group element, a matrix [3, 3] or [4, 4], such as one of `gd.path`.

    Returns:
        The place [2] or [3], then the angle in (−π, π], or axis times angle [3].

    Raises:
        ValueError: for a matrix of another size.

    Example:
        Where a car is that has driven half of a circle of radius 1 to the left.

        >>> car = gd.swimmers.KinematicCar(wheelbase=1.0, radius=1.0)
        >>> g = gd.holonomy(car, lambda t: jnp.stack([jnp.pi * t, jnp.pi / 4 + 0 * t]))
        >>> x, y, _ = gd.groups.place_and_turn(car.group, g)
        >>> print(f"{abs(x):.6f} {y:.6f}")
        0.000000 2.000000
    """
    if g.shape != (group.translations + 1,) * 2:
        raise ValueError(f"g must be a pose in {type(group).__name__}, a square matrix, got shape {g.shape}")
    n = group.translations
    return jnp.concatenate([g[:n, -1], group.log(g.at[:n, -1].set(0.0))[n:]])
