"""Solids in pictures: ellipsoids of inertia of rigid bodies, spheres of contacts, and the points that impacts meet."""

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._foundations.typing import Array, Float, Scalar
from geodyn._geometry.geodesics.geodesic import exp
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.models.spaces import AbstractConstantCurvature, Product
from geodyn._integrators.trajectory import Trajectory
from geodyn._mechanics.elements.contact import AbstractContact
from geodyn._mechanics.elements.parts import ContactOn
from geodyn._mechanics.elements.poses import AbstractOnBodies
from geodyn._mechanics.points.body import AbstractBody, elements_of
from geodyn._mechanics.rigid.bodies import RigidBodies
from geodyn._plot.scene.models import Model, places_of

TURN = np.linspace(0, 2 * np.pi, 25)
"""The angles of the points of an ellipse that is drawn."""
MOST_FLASHES = 2000
"""The most impacts that are shown: of more, each in the page, the page would become large."""


class Ellipsoids(NamedTuple):
    """Ellipsoids of the `bodies` that carry no points: the `tips` [T, B, 3] of their longest axes, and three ellipses
    of each as `outlines` [T, 3B, K, 3]."""

    bodies: list[int]
    tips: np.ndarray
    outlines: np.ndarray


class Spheres(NamedTuple):
    """The indices of the `points` that are centres of spheres, and the centres [T, S, 2 or 3] and radii [T, S] of their
    pictures."""

    points: list[int]
    centres: np.ndarray
    radii: np.ndarray


def ellipsoids(bodies: RigidBodies, q: np.ndarray) -> Ellipsoids:
    """The uniform ellipsoids with the inertia of the bodies, a_k² = 5 (I_i + I_j − I_k)/2m, at configurations
    q[T, B, d]."""
    count = len(bodies.masses)
    carriers_of_points = bodies.carriers[count:]
    bare = [b for b in range(count) if b not in carriers_of_points]
    poses = jax.jit(jax.vmap(bodies.poses))(jnp.asarray(q.reshape(len(q), -1)))
    x, R = (np.asarray(a)[:, bare] for a in poses)
    moments, axes = np.linalg.eigh(np.asarray(bodies.inertia)[bare])
    masses = np.asarray(bodies.masses)[bare]
    # I_i + I_j − I_k is the sum of all moments less 2 I_k. Rounding may make it negative for a flat body.
    squares = 2.5 * (moments.sum(axis=1, keepdims=True) - 2 * moments) / masses[:, None]
    lengths = np.sqrt(np.maximum(squares, 0))
    # The semi-axes in space, [T, B, axis, component]. The moments ascend, so that the first axis is the longest.
    semi_axes = np.einsum("tbij,bjk,bk->tbki", R, axes, lengths)
    cos = np.cos(TURN)[:, None]
    sin = np.sin(TURN)[:, None]
    outlines = []
    for i, j in ((0, 1), (1, 2), (2, 0)):
        ellipse = cos * semi_axes[:, :, None, i] + sin * semi_axes[:, :, None, j]
        outlines.append(x[:, :, None] + ellipse)
    return Ellipsoids(bare, x + semi_axes[:, :, 0], np.concatenate(outlines, axis=1))


def spheres(body: AbstractBody, model: Model, q: np.ndarray, points: np.ndarray) -> Spheres:
    """The spheres of the contacts of a body, around the points q[T, N, n] of the space, which are drawn at `points`.
    There are none if the axes of the model have different scales."""
    radii = _radii(body, q.shape[1]) if model.equal else np.zeros(q.shape[1])
    which = np.flatnonzero(radii).tolist()
    around = np.asarray(_around(body.space, jnp.asarray(q[:, which]), jnp.asarray(radii[which])))
    ends = places_of(model.place, around)
    centres = points[:, which]
    if ends.shape[-1] == q.shape[-1] > 1:
        # Conformal models map spheres to spheres with other centres c: fit |p|² = 2 c·p + const to points p of each.
        coefficients = np.concatenate([2 * ends, np.ones_like(ends[..., :1])], axis=-1)
        squares = np.sum(ends**2, axis=-1)
        centres_and_const = np.einsum("...ij,...j->...i", np.linalg.pinv(coefficients), squares)
        centres = centres_and_const[..., :-1]
    radii_drawn = np.linalg.norm(ends - centres[:, :, None], axis=-1).mean(axis=-1)
    return Spheres(which, centres, radii_drawn)


def flashes(trajectory: Trajectory, body: AbstractBody, q: np.ndarray) -> list:
    """[t, indices of the points that meet] for every impact; all points of an element whose contacts do not tell."""
    contacts = elements_of(body, AbstractContact)
    if trajectory.impacts is None or not contacts:
        return []
    seen = [body.seen_by(e, jnp.asarray(trajectory.q[0]).reshape(-1)) for e in contacts]
    counts = [contact._count_at(body.space, x) for contact, x in zip(contacts, seen, strict=True)]
    # The points of every contact, in the order in which impacts count the contacts.
    meeting = []
    for element, size in zip(contacts, counts, strict=True):
        meeting += _meeting_points(body, element, size, q.shape[1])
    count = min(int(trajectory.impacts.count), MOST_FLASHES)
    times = np.asarray(trajectory.impacts.t)[:count]
    struck = np.asarray(trajectory.impacts.contact)[:count]
    return [[float(t), meeting[int(k)]] for t, k in zip(times, struck, strict=True)]


def _radii(body: AbstractBody, count: int) -> np.ndarray:
    """The radius of the sphere around every point; 0 if there is none."""
    radii = np.zeros(count)
    for element in elements_of(body, AbstractContact):
        start, stop, element = _place(body, element, count)
        own = element._radii_at(stop - start)
        # An element without radii leaves those that others have given.
        if own is not None:
            radii[start:stop] = own
    return radii


def _place(body: AbstractBody, element: AbstractContact, count: int) -> tuple[int, int, AbstractContact]:
    """(start and stop of the point indices of an element, the element itself without the wrapper `ContactOn`)."""
    start = 0
    stop = len(cast(RigidBodies, body).masses) if isinstance(element, AbstractOnBodies) else count
    while isinstance(element, ContactOn):
        stop = start + element.stop
        start = start + element.start
        element = element.element
    return start, stop, element


def _meeting_points(body: AbstractBody, element: AbstractContact, size: int, count: int) -> list[list[int]]:
    """The point indices of each of the `size` contacts of an element."""
    start, stop, element = _place(body, element, count)
    return [[start + i for i in points] for points in element._points_at(stop - start, size)]


@jit
def _around(space: AbstractManifold, x: Float[Array, "T S n"], radii: Float[Array, " S"]) -> Float[Array, "T S m n"]:
    """The ends of geodesics of length `radii` from the points x[T, S, n], in both directions of each vector of an
    orthonormal frame: [T, S, 2n, n]."""
    exact = isinstance(space, AbstractConstantCurvature | Product)

    def ends(x: Float[Array, " n"], radius: Scalar) -> Float[Array, "m n"]:
        # With g = L Lᵀ the rows of L⁻¹ are orthonormal vectors.
        frame = radius * jnp.linalg.inv(jnp.linalg.cholesky(space.metric(x)))
        steps = jnp.concatenate([frame, -frame])
        return jax.vmap(lambda v: exp(space, x, v))(steps) if exact else x[None] + steps

    return jax.vmap(jax.vmap(ends), (0, None))(x, radii)
