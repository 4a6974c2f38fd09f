"""Isometries of a space with symmetries, as what they do to a frame.

An isometry φ is known from the image (φ(o), dφ) of one point o and the vectors there. Two equations follow from that,
without a formula for any φ. Along a motion with the constant velocity Σ ξ_a K_a, seen from the body, the derivative
α = ∇K is constant in the frame F that is carried along:

    x' = F k,    ∇F = F α.

And an isometry takes a curve x' = E u, in a frame E that is carried by parallel transport, to the curve y' = G u with
the same components u in a frame G that is carried by parallel transport as well: so it is known at any other point.

Frames are matrices [d, d] with d = n + 1: the vectors, in the coordinates of the chart, in the first n columns, the
point in the last column, and (0, …, 0, 1) in the last row.

Source: Kobayashi & Nomizu, *Foundations of Differential Geometry I* (1963), VI.1–3.
"""

import jax
import jax.numpy as jnp

from geodyn._engine.numerics.failure import nan_unless
from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.typing import Array, Float, PyTree, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold, within
from geodyn._geometry.manifold.tensors import christoffel_at
from geodyn._geometry.manifold.ways import STEPS, follow

# A frame is the image of another by an isometry if its scalar products are the same, to this relative error. Seen are
# up to 60 rounding errors, 1e-14, where the image is right, and all of the product where the way has left the space.
SAME = 1e-10
# The same in rounding errors, for single precision, in which those of all steps alone exceed SAME. Seen are 3 to 8, and
# the rest is margin.
MOST_ROUNDINGS = 2**10


def frame_at(x: Float[Array, " n"]) -> Float[Array, "d d"]:
    """The frame at x whose vectors are those of the coordinates, ∂/∂xⁱ."""
    return pack(x, jnp.eye(x.size, dtype=x.dtype))


def pack(x: Float[Array, " n"], vectors: Float[Array, "n n"]) -> Float[Array, "d d"]:
    """The frame of these vectors (columns) at x."""
    last_row = jnp.eye(x.size + 1, dtype=x.dtype)[-1:]
    other_rows = jnp.concatenate([vectors, x[:, None]], axis=1)
    return jnp.concatenate([other_rows, last_row])


def unpack(frame: Float[Array, "d d"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """(the point, the vectors) of a frame."""
    return frame[:-1, -1], frame[:-1, :-1]


def turning(
    space: AbstractManifold, x: Float[Array, " n"], u: Float[Array, " n"], vectors: Float[Array, "n n"]
) -> Float[Array, "n n"]:
    """The rate −Γ(u, vectors) of the components of vectors that are carried from x with the velocity u."""
    return -jnp.einsum("kij,i,jb->kb", christoffel_at(space, x), u, vectors)


def carry_frame(
    space: AbstractManifold, frame: Float[Array, "d d"], k: Float[Array, " n"], alpha: Float[Array, "n n"]
) -> Float[Array, "d d"]:
    """Where a frame is after unit time that moves along a Killing field; k and α are the field and its covariant
    derivative in units of the frame. NaN where it is not found."""
    begin, vectors = unpack(frame)
    n = begin.size

    def rate(t: Scalar, y: Float[Array, " y"]) -> Float[Array, " y"]:
        x, F = split(y)
        u = F @ k
        # ∇F = F α, so in coordinates F' = F α − Γ(u, F).
        change = F @ alpha + turning(space, x, u, F)
        return jnp.concatenate([u, change.reshape(-1)])

    def split(y: Float[Array, " y"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
        return y[:n], y[n:].reshape(n, n)

    start = jnp.concatenate([begin, vectors.reshape(-1)])
    end = follow(lambda t: t, rate, start, STEPS)
    x, F = split(end)
    return _unless_wrong(space, frame, pack(x, F), (space, frame, k, alpha))


def develop(
    space: AbstractManifold, start: Float[Array, "d d"], image: Float[Array, "d d"], frame: Float[Array, "d d"]
) -> Float[Array, "d d"]:
    """Where the isometry that takes the frame `start` to `image` takes another `frame`, to which the straight way in
    the chart must lead. NaN where it is not found."""
    here, E_here = unpack(start)
    there, G_there = unpack(image)
    goal, vectors = unpack(frame)
    n = here.size
    way = goal - here

    def known(t: Scalar) -> Float[Array, "n n"]:
        """The matrix −Γ(way, ·) of parallel transport at the time t on the way, which E does not change."""
        return turning(space, here + t * way, way, jnp.eye(n, dtype=way.dtype))

    def rate(transport: Float[Array, "n n"], y: Float[Array, " y"]) -> Float[Array, " y"]:
        E, x, G = split(y)
        # The image moves with the same components in G that the way has in E.
        u = G @ solve(E, way)
        rate_of_E = transport @ E
        rate_of_G = turning(space, x, u, G)
        return jnp.concatenate([rate_of_E.reshape(-1), u, rate_of_G.reshape(-1)])

    def split(y: Float[Array, " y"]) -> tuple[Float[Array, "n n"], Float[Array, " n"], Float[Array, "n n"]]:
        E, x, G = jnp.split(y, [n * n, n * n + n])
        return E.reshape(n, n), x, G.reshape(n, n)

    begin = jnp.concatenate([E_here.reshape(-1), there, G_there.reshape(-1)])
    end = follow(known, rate, begin, STEPS)
    E, x, G = split(end)
    # The isometry keeps the components of the vectors: those in E at the goal are those in G at its image.
    components = jax.vmap(lambda v: solve(E, v), 1, 1)(vectors)
    return _unless_wrong(space, frame, pack(x, G @ components), (space, begin, image, frame))


def _unless_wrong(
    space: AbstractManifold, frame: Float[Array, "d d"], found: Float[Array, "d d"], sources: PyTree
) -> Float[Array, "d d"]:
    """The frame that was found to be the image of another, NaN unless lengths and angles are the same."""
    x, vectors = unpack(frame)
    y, images = unpack(found)
    products = vectors.T @ space.metric(x) @ vectors
    products_of_images = images.T @ space.metric(y) @ images
    tolerance = max(SAME, MOST_ROUNDINGS * float(jnp.finfo(x.dtype).eps))
    deviation = jnp.max(jnp.abs(products_of_images - products))
    same = deviation <= tolerance * jnp.max(jnp.abs(products))
    good = same & jnp.all(jnp.isfinite(within(space, y)))
    return nan_unless(jnp.broadcast_to(good, found.shape), found, sources)
