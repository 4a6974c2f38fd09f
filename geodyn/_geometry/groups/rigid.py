"""Translations, rotations and rigid motions of flat space.

Every formula is even in the angle and written in its square, so that it is exact to rounding and smooth at the
identity (Stumpff functions; Battin, *Astrodynamics* (1999), section 4.5).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Numbers, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup, algebra_vector, dexp_of, element, inverse_of
from geodyn._geometry.manifold.manifold import as_floats
from geodyn._geometry.models.stumpff import sine_ratio, stumpff


def _homogeneous(rotation: Float[Array, "n n"], translation: Float[Array, " n"]) -> Float[Array, "d d"]:
    """The matrix `[[rotation, translation], [0, 1]]`."""
    n = translation.shape[0]
    last = jnp.eye(n + 1, dtype=translation.dtype)[n:]
    return jnp.concatenate([jnp.concatenate([rotation, translation[:, None]], axis=1), last])


def rigid_inverse(g: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Inverse of a rotation followed by a translation, `[[Rᵀ, −Rᵀt], [0, 1]]`."""
    rotation = g[:-1, :-1].T
    return _homogeneous(rotation, -rotation @ g[:-1, -1])


class Translation(AbstractLieGroup):
    """Translations of n-dimensional space, as matrices [[1, x], [0, 1]].

    Args:
        n: the dimension, at least 1.

    Raises:
        ValueError: unless n ≥ 1.

    Example:
        >>> group = gd.groups.Translation(2)
        >>> g = group.compose(group.exp(jnp.array([1.0, 2.0])), group.exp(jnp.array([0.5, 0.0])))
        >>> print(g.shape, group.log(g).tolist())
        (3, 3) [1.5, 2.0]
    """

    dim: int = eqx.field(static=True)
    translations: int = eqx.field(static=True)

    @checked
    def __init__(self, n: Count = 1):
        if n < 1:
            raise ValueError(f"Translation: n must be at least 1, got {n}; pass the dimension of the space.")
        self.dim = self.translations = int(n)

    @property
    def generators(self):
        # The i-th is e_i e_nᵀ, with n the last index: the velocity e_i in the last column, where translations stand.
        unit = np.eye(self.dim + 1)
        return unit[:-1, :, None] * unit[-1]

    @checked
    def exp(self, xi: Float[Array, " k"]):
        xi = algebra_vector(self, xi)
        return _homogeneous(jnp.eye(self.dim, dtype=xi.dtype), xi)

    @checked
    def log(self, g: Float[Array, "d d"]):
        g = element(self, g)
        return g[:-1, -1]

    @checked
    def inverse(self, g: Float[Array, "d d"]):
        return inverse_of(self, g, lambda g: _homogeneous(jnp.eye(self.dim, dtype=g.dtype), -g[:-1, -1]))

    @property
    def _plane(self) -> int | None:
        # A line is drawn as the first axis of the plane.
        return 0 if self.dim <= 2 else None

    def _on_plane(self, g: Float[np.ndarray, "*T d d"]) -> Float[np.ndarray, "*T 3 3"]:
        moved = _unmoved(g)
        moved[..., : self.dim, 2] = g[..., :-1, -1]
        return moved


def _unmoved(g: Float[np.ndarray, "*T d d"]) -> Float[np.ndarray, "*T 3 3"]:
    """Maps of the plane that leave everything where it is, as many as there are elements."""
    return np.broadcast_to(np.eye(3), (*g.shape[:-2], 3, 3)).copy()


def _turn(angle: Scalar) -> Float[Array, "2 2"]:
    """The matrix of a rotation of the plane."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])])


@checked
class SO2(AbstractLieGroup):
    """Rotations of the plane, as matrices [2, 2], with the exponential coordinate ξ = (θ).

    Example:
        >>> group = gd.groups.SO2()
        >>> g = group.exp(jnp.array([np.pi / 2]))
        >>> print(f"{g[1, 0]:.6f} {group.log(g)[0] / np.pi:.6f}")
        1.000000 0.500000
    """

    dim: int = eqx.field(static=True, default=1, init=False)
    translations: int = eqx.field(static=True, default=0, init=False)

    @property
    def generators(self):
        return np.array([[[0.0, -1.0], [1.0, 0.0]]])

    @checked
    def exp(self, xi: Float[Array, " k"]):
        xi = algebra_vector(self, xi)
        return _turn(xi[0])

    @checked
    def log(self, g: Float[Array, "d d"]):
        g = element(self, g)
        return jnp.arctan2(g[1, :1], g[0, :1])

    @checked
    def inverse(self, g: Float[Array, "d d"]):
        return inverse_of(self, g, jnp.transpose)

    @property
    def _plane(self) -> int:
        return 0

    def _on_plane(self, g: Float[np.ndarray, "*T 2 2"]) -> Float[np.ndarray, "*T 3 3"]:
        moved = _unmoved(g)
        moved[..., :2, :2] = g
        return moved


@checked
class SE2(AbstractLieGroup):
    """Rigid motions of the plane, as homogeneous matrices [3, 3], with the exponential coordinates ξ = (x, y, θ).

    With constant velocity ξ the origin moves along an arc; the translation that is reached is the chord of the arc,
    which is turned by half of its angle θ.

    Example:
        Half a turn to the left at speed π: a half circle of radius 1, so that the origin arrives at (0, 2).

        >>> group = gd.groups.SE2()
        >>> g = group.exp(jnp.array([np.pi, 0.0, np.pi]))
        >>> print(f"{abs(g[0, 2]):.6f} {g[1, 2]:.6f}")
        0.000000 2.000000
    """

    dim: int = eqx.field(static=True, default=3, init=False)
    translations: int = eqx.field(static=True, default=2, init=False)

    @property
    def generators(self):
        # [i] takes a point (x, y, 1) to its velocity for the unit of ξᵢ: along x, along y, and the turn (−y, x).
        generators = np.zeros((3, 3, 3))
        generators[0, 0, 2] = 1
        generators[1, 1, 2] = 1
        generators[2] = [[0, -1, 0], [1, 0, 0], [0, 0, 0]]
        return generators

    @checked
    def exp(self, xi: Float[Array, " k"]):
        xi = algebra_vector(self, xi)
        half = xi[2] / 2
        return _homogeneous(_turn(xi[2]), sine_ratio(half**2) * (_turn(half) @ xi[:2]))

    @checked
    def log(self, g: Float[Array, "d d"]):
        g = element(self, g)
        angle = jnp.arctan2(g[1, 0], g[0, 0])
        half = angle / 2
        return jnp.append(_turn(-half) @ g[:2, 2] / sine_ratio(half**2), angle)

    @checked
    def inverse(self, g: Float[Array, "d d"]):
        return inverse_of(self, g, rigid_inverse)

    @property
    def _plane(self) -> int:
        return 0

    @property
    def _is_posed(self) -> bool:
        return True

    def _posed(self, q: Float[Array, " 3"]) -> Float[Array, "3 3"]:
        """The place (x, y), and the angle by which a body there is turned."""
        x, y, angle = q
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        zero, one = jnp.zeros_like(x), jnp.ones_like(x)
        return jnp.stack([jnp.stack([cos, -sin, x]), jnp.stack([sin, cos, y]), jnp.stack([zero, zero, one])])

    def _posed_velocity(self, q: Float[Array, " 3"], rate: Float[Array, " 3"]) -> Float[Array, " 3"]:
        cos, sin = jnp.cos(q[2]), jnp.sin(q[2])
        return jnp.stack([cos * rate[0] + sin * rate[1], cos * rate[1] - sin * rate[0], rate[2]])


# The largest error of R Rᵀ = 1 in what is taken for a rotation.
ROTATION = 1e-2
# ε[i, j, k]: row [i, j] is e_i × e_j.
LEVI_CIVITA = np.cross(np.eye(3)[:, None], np.eye(3)[None])


@checked
def quaternion(rotation: Numbers) -> Float[Array, "4"]:
    """The unit quaternion (w, x, y, z), w ≥ 0, of a rotation.

    It is read off the largest column of 4 q qᵀ, which loses no digits at any angle.

    Args:
        rotation: the rotation matrix [3, 3].

    Returns:
        The quaternion [4]; w is the cosine of half the angle. Inside jit it is NaN for a matrix that is no rotation.

    Raises:
        ValueError: for a matrix that is no rotation.

    Example:
        A quarter of a turn about the z-axis.

        >>> q = gd.groups.quaternion(gd.groups.SO3().exp(jnp.array([0.0, 0.0, np.pi / 2])))
        >>> print([f"{x:.6f}" for x in q])
        ['0.707107', '0.000000', '0.000000', '0.707107']

    Source:
        Shepperd (1978).
    """
    return quaternion_of(checked_rotation("rotation", rotation))


def quaternion_of(rotation: Float[Array, "3 3"]) -> Float[Array, "4"]:
    """`quaternion` of what is known to be a rotation."""
    w = jnp.stack([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    trace = jnp.trace(rotation)
    vectors = rotation + rotation.T + (1 - trace) * jnp.eye(3, dtype=rotation.dtype)
    columns = jnp.concatenate(
        [jnp.concatenate([(1 + trace)[None], w])[None], jnp.concatenate([w[:, None], vectors], 1)]
    )
    column = columns[jnp.argmax(jnp.diagonal(columns))]
    q = column / jnp.sqrt(jnp.sum(column**2))
    return jnp.where(q[0] < 0, -q, q)


def checked_rotation(name: str, rotation: Any) -> Float[Array, "3 3"]:
    """The rotation matrix as an array. For what is none, such as a reflection, it is a ValueError, or NaN if traced."""
    rotation = as_floats(rotation)
    if rotation.shape != (3, 3):
        raise ValueError(f"{name} must be a rotation matrix [3, 3], got shape {rotation.shape}")
    traced = isinstance(rotation, Tracer)
    R = rotation if traced else np.asarray(rotation)
    off = R @ R.T - np.eye(3, dtype=R.dtype)
    volume = sum(R[0, i] * (R[1, i - 2] * R[2, i - 1] - R[1, i - 1] * R[2, i - 2]) for i in range(3))
    proper = (abs(off).max() < ROTATION) & (volume > 0)
    if traced:
        return rotation * jnp.where(proper, 1, jnp.nan).astype(rotation.dtype)
    if not proper:
        raise ValueError(
            f"{name} must be a rotation: a matrix with R Rᵀ = 1 and determinant 1; got {rotation.tolist()}"
        )
    return rotation


def _rotation_vector(rotation: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """The rotation vector, axis times angle, of a rotation matrix."""
    q = quaternion_of(rotation)
    square = jnp.sum(q[1:] ** 2)
    small = square < 0.05
    low, high = jnp.where(small, square / q[0] ** 2, 0.0), jnp.where(small, 1.0, square)
    series = sum((-low) ** n / (2 * n + 1) for n in range(15)) / jnp.where(small, q[0], 1.0)
    closed = jnp.arctan2(jnp.sqrt(high), q[0]) / jnp.sqrt(high)
    return 2 * jnp.where(small, series, closed) * q[1:]


@checked
class SO3(AbstractLieGroup):
    """Rotations of space, as matrices [3, 3], with the exponential coordinates ξ = axis times angle.

    Example:
        >>> group = gd.groups.SO3()
        >>> g = group.exp(jnp.array([0.0, 0.0, np.pi / 2]))
        >>> print(bool(jnp.allclose(g @ jnp.array([1.0, 0, 0]), jnp.array([0, 1.0, 0]))), f"{group.log(g)[2]:.6f}")
        True 1.570796
    """

    dim: int = eqx.field(static=True, default=3, init=False)
    translations: int = eqx.field(static=True, default=0, init=False)

    @property
    def generators(self):
        # [i] is the matrix of x ↦ e_i × x, whose component j is ε_jik x_k = −ε_ijk x_k.
        return -LEVI_CIVITA

    @checked
    def exp(self, xi: Float[Array, " k"]):
        xi = algebra_vector(self, xi)
        s, half, _, _ = stumpff(jnp.sum(xi**2))
        w = self.hat(xi)
        return jnp.eye(3, dtype=xi.dtype) + s * w + half * w @ w

    @checked
    def log(self, g: Float[Array, "d d"]):
        return _rotation_vector(checked_rotation("g", g))

    @checked
    def inverse(self, g: Float[Array, "d d"]):
        return inverse_of(self, g, jnp.transpose)


@dexp_of.register
def _(group: SE2 | SO3, xi: Float[Array, " k"]) -> Float[Array, "k k"]:
    """`Σ adⁿ/(n+1)!`, where `ad³ = −θ² ad`, so that nothing is differentiated."""
    _, second, third, _ = stumpff(jnp.sum(xi[group.translations :] ** 2))
    unit = jnp.eye(group.dim, dtype=xi.dtype)
    ad = jax.vmap(lambda e: group.bracket(xi, e), out_axes=1)(unit)
    return unit + second * ad + third * ad @ ad


@checked
class SE3(AbstractLieGroup):
    """Rigid motions of space, as homogeneous matrices [4, 4], with ξ = (x, y, z, axis times angle).

    Example:
        A screw: a full turn about the z-axis while moving 3 along it.

        >>> group = gd.groups.SE3()
        >>> g = group.exp(jnp.array([0.0, 0.0, 3.0, 0.0, 0.0, 2 * np.pi]))
        >>> print(bool(jnp.allclose(g[:3, :3], jnp.eye(3))), f"{g[2, 3]:.6f}")
        True 3.000000
    """

    dim: int = eqx.field(static=True, default=6, init=False)
    translations: int = eqx.field(static=True, default=3, init=False)

    @property
    def generators(self):
        generators = np.zeros((6, 4, 4))
        # Translations stand in the last column, rotations as those of SO3 in the block before it.
        generators[:3, :3, 3] = np.eye(3)
        generators[3:, :3, :3] = -LEVI_CIVITA
        return generators

    @checked
    def exp(self, xi: Float[Array, " k"]):
        xi = algebra_vector(self, xi)
        s, half, third, _ = stumpff(jnp.sum(xi[3:] ** 2))
        w, unit = SO3().hat(xi[3:]), jnp.eye(3, dtype=xi.dtype)
        return _homogeneous(unit + s * w + half * w @ w, (unit + half * w + third * w @ w) @ xi[:3])

    @checked
    def log(self, g: Float[Array, "d d"]):
        g = element(self, g)
        angle = _rotation_vector(checked_rotation("g", g[:3, :3]))
        _, c2, c3, c4 = stumpff(jnp.sum(angle**2))
        w = SO3().hat(angle)
        inverse = jnp.eye(3, dtype=g.dtype) - w / 2 + (c3 - 2 * c4) / (2 * c2) * w @ w
        return jnp.concatenate([inverse @ g[:3, 3], angle])

    @checked
    def inverse(self, g: Float[Array, "d d"]):
        return inverse_of(self, g, rigid_inverse)
