"""The stage equations of one step with the batch axes last, whose physics is traced once.

They are the equations of `collocation.py`, with the same unknowns w = (u, ℓ, μ) of a stage. The physics of one stage is
split into two functions: `inner` gives the forces f, and, if v differs from u, the velocities v, at Q = q + hA u;
`outer` gives the residual r, which depends on P = p + hA f as well. All arrays are [own, *B]: stage values [m, s, *B],
matrices [m, m, *B].
"""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile.split import Split
from geodyn.integrators.contract.tableau import ButcherTableau
from geodyn.integrators.step.collocation import Formulation, spectrum


def mixed(matrix, x):
    """The product of a constant matrix with x[n, s, *B] along the axis of the stages, written as a sum: for a matrix
    product XLA would call a library."""
    columns = [column(c, x) for c in np.asarray(matrix).T]
    total = columns[0] * x[:, :1]
    for j, c in enumerate(columns[1:], start=1):
        total = total + c * x[:, j : j + 1]
    return total


def summed(weights, x):
    """Σ weights · x over the stages of x[n, s, *B]."""
    return mixed(np.asarray(weights)[None], x)[:, 0]


def coupled(tableau: ButcherTableau, h, x):
    """hA x, rounded as `Problem.positions` rounds it."""
    m, weights = tableau.couplings
    return mixed(m, h * (column(weights, x) * x))


def column(weights, x):
    """One number per stage, as an array that broadcasts against x[n, s, *B]."""
    return jnp.asarray(weights, x.dtype).reshape(1, -1, *[1] * (x.ndim - 2))


def top(x, axes: int = 2):
    """The largest absolute value over the first `axes` axes, by pairwise maxima: for a reduction XLA would call a
    library."""
    x = jnp.abs(x).reshape(-1, *x.shape[axes:])
    if not x.shape[0]:
        return jnp.zeros(x.shape[1:], x.dtype)
    while (n := x.shape[0]) > 1:  # The two halves of an odd number of rows overlap in the middle one.
        x = jnp.maximum(x[: (n + 1) // 2], x[n // 2 :])
    return x[0]


def like(x):
    """The shape and data type of an array."""
    return jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x))


class Stages:
    """The physics of one stage, as functions of arrays: t, h, positions q, momenta p, stage values w and the parameters
    `theta`, which are the array leaves of the system. `inner(t, h, q, p, w, *theta)` is [f], or [f, v] if
    `has_velocities`, with p at the start of the step. `outer(t, h, q, p, v, w, *theta)` is [r], with p at the stage."""

    def __init__(self, system, q, p, width: int, formulation: Formulation):
        arrays, static = eqx.partition(system, eqx.is_array)
        self.numbers, structure = jax.tree.flatten(arrays)
        self.system = lambda theta: eqx.combine(structure.unflatten(theta), static)
        self.formulation, self.count = formulation, system.count_constraints(q)
        self.has_velocities = width > q.shape[0] + self.count
        self.t, self.q, self.p = jax.ShapeDtypeStruct((), q.dtype), like(q), like(p)
        self.w, self.theta = jax.ShapeDtypeStruct((width,), q.dtype), tuple(map(like, self.numbers))
        self.before = (self.t, self.t, self.q, self.p, self.w, *self.theta)
        self.after = (self.t, self.t, self.q, self.p, self.q, self.w, *self.theta)

    def inner(self, t, h, q, p, w, *theta):
        system, n = self.system(theta), q.shape[0]
        u, lam, mu = w[:n], w[n : n + self.count] / h, w[n + self.count :]
        if not mu.size:
            return [system.force(t, q, u, lam)]
        normal = jax.vjp(lambda q: system.constraint(t, q), q)[1](mu)[0]
        v = u - jax.jvp(lambda p: system.velocity(t, q, p, u), (p,), (normal,))[1]
        return [system.force(t, q, v, lam), v]

    def outer(self, t, h, q, p, v, w, *theta):
        system, n = self.system(theta), q.shape[0]
        lam = w[n : n + self.count] / h
        rows = [level(system, h, t, q, v, p, lam) for level in self.formulation.levels]
        # The corrected velocity does not depend on the v from which the correction starts.
        return [jnp.concatenate([v - system.velocity(t, q, p, jax.lax.stop_gradient(v)), *rows])]

    def velocities(self, w, found):
        """The velocities of the stages, given the stage values and `found`, the result of `inner`."""
        return found[1] if self.has_velocities else w[: self.q.shape[0]]


def pushed(function: Callable, likes, places, early=(), *, scalar: bool) -> Split:
    """The tangent (Jacobian–vector product) of `function` with respect to its arguments at `places`, as a `Split` of
    (*arguments, *tangents). The tangents at the places `early` come first, and are known early."""
    places = (*early, *(i for i in places if i not in early))

    def push(*args):
        of_these, these = only_at(function, args[: len(likes)], places)
        return jax.jvp(of_these, these, args[len(likes) :])[1]

    return Split(push, (*likes, *(likes[i] for i in places)), len(likes) + len(early), scalar)


def only_at(function: Callable, args, places):
    """`function` as a function of its arguments at these places, the others being fixed, and those arguments."""

    def of_these(*x):
        moved = dict(zip(places, x, strict=True))
        return function(*(moved.get(i, y) for i, y in enumerate(args)))

    return of_these, tuple(args[i] for i in places)


class Newton:
    """Simplified Newton's method for stages with constraints. Its matrix is one Jacobian for all stages, at their mean,
    split by the eigenvalues of A (Butcher 1976; Hairer & Wanner, IV.8), or else the `whole` matrix."""

    def __init__(self, stages: Stages, tableau: ButcherTableau, whole: bool, scalar: bool):
        self.stages, self.tableau, self.whole = stages, tableau, whole
        self.inner = pushed(stages.inner, stages.before, (2, 4), scalar=scalar)
        self.outer = pushed(stages.outer, stages.after, (2, 3, 4, 5), scalar=scalar)

    def inverses(self, known, w, found):
        """The inverse matrices near w[m, s, *B] that `corrected` takes, for a step `known` as in `Step`."""
        t, h, q, p, theta = known
        at = q[:, None] + coupled(self.tableau, h, w[: q.shape[0]])
        momenta = p[:, None] + coupled(self.tableau, h, found[0])
        v = self.stages.velocities(w, found)
        return (self._inverse if self.whole else self._inverses)(t, h, at, p[:, None], momenta, v, w, theta)

    def _images(self, t, h, at, p, momenta, v, w, theta, moves):
        """The tangents (∂f, ∂r) along many directions, on an axis behind that of the stages. `moves(h)` gives the
        directions (dq, dw) and the function from ∂f to dp."""

        def behind(x):
            return jnp.expand_dims(x, x.ndim - (h.ndim - 1))

        t, h, at, p, momenta, v, w, *theta = map(behind, (t, h, at, p, momenta, v, w, *theta))
        dq, dw, dp = moves(h)
        often = h.ndim > 2
        of_inner = self.inner(t, h, at, p, w, *theta, dq, dw, often=often)
        changes = (dq, dp(of_inner[0]), self.stages.velocities(dw, of_inner), dw)
        (r,) = self.outer(t, h, at, momenta, v, w, *theta, *changes, often=often)
        return of_inner[0], r

    def _inverse(self, t, h, at, p, momenta, v, w, theta):
        m, s, *batch = w.shape
        units = jnp.eye(m * s, dtype=w.dtype).reshape(m, s, m * s, *[1] * len(batch))

        def moves(h):
            dq = coupled(self.tableau, h, units[: at.shape[0]])
            return dq, units, partial(coupled, self.tableau, h)

        _, r = self._images(t, h, at, p, momenta, v, w, theta, moves)
        return inverse(r.reshape(m * s, m * s, *batch))

    def _inverses(self, t, h, at, p, momenta, v, w, theta):
        def mean(x):
            return jnp.mean(x, axis=1, keepdims=True)

        t, at, v, w = jnp.mean(t, axis=0, keepdims=True), mean(at), mean(v), mean(w)
        n, k, m = at.shape[0], p.shape[0], w.shape[0]
        units = jnp.eye(n + k + m, dtype=w.dtype).reshape(n + k + m, 1, -1, *[1] * (w.ndim - 2))
        dq, dp, dw = jnp.split(units, (n, n + k))
        images = self._images(t, h, at, p, p, v, w, theta, lambda _: (dq, dw, lambda _: dp))
        (f_q, _, f_w), (r_q, r_p, r_w) = (jnp.split(x[:, 0], (n, n + k), axis=1) for x in images)

        def of_w(x):
            return jnp.concatenate([x, jnp.zeros((m, m - n, *x.shape[2:]), x.dtype)], axis=1)

        first, second = of_w(r_q) + product(r_p, f_w), of_w(product(r_p, f_q))
        values = spectrum(self.tableau)[0]
        shifts = h * jnp.asarray(values, jnp.result_type(w.dtype, complex)).reshape(-1, *[1] * (w.ndim - 2))
        r_w, first, second = (x[:, :, None] for x in (r_w, first, second))
        return inverse(r_w + shifts * first + shifts**2 * second)

    def corrected(self, inverses, r):
        """J⁻¹ r for r[m, s, *B]."""
        if self.whole:
            return product(inverses, r.reshape(-1, 1, *r.shape[2:])).reshape(r.shape)
        _, basis, dual, weight = spectrum(self.tableau)
        x = jnp.sum(inverses * mixed(dual, r + 0j)[None], axis=1)
        return jnp.real(mixed(basis * weight, x)).astype(r.dtype)

    def transposed(self, inverses, w):
        """J⁻ᵀ w for w[m, s, *B]."""
        if self.whole:
            return product(jnp.swapaxes(inverses, 0, 1), w.reshape(-1, 1, *w.shape[2:])).reshape(w.shape)
        _, basis, dual, weight = spectrum(self.tableau)
        x = jnp.sum(inverses * mixed((basis * weight).T, w + 0j)[:, None], axis=0)
        return jnp.real(mixed(dual.T, x)).astype(w.dtype)


def product(a, b):
    """The matrix products of a[i, k, *B] and b[k, j, *B]."""
    return jnp.sum(a[:, :, None] * b[None], axis=1)


def inverse(a):
    """The inverses of matrices a[n, n, *B], by Gauss–Jordan in place with partial pivoting."""
    n, batch = a.shape[0], a.shape[2:]
    index = jnp.arange(n).reshape(n, *[1] * len(batch))

    def eliminate(k, state):
        a, order = state
        here = index == k
        pivot = index == jnp.argmax(jnp.where(index >= k, jnp.abs(a[:, k]), -1.0), axis=0)
        row, old = jnp.sum(jnp.where(pivot[:, None], a, 0), axis=0), a[k]
        a, place = jnp.where(pivot[:, None], old[None], a), jnp.sum(jnp.where(pivot, order, 0), axis=0)
        order = jnp.where(here, place, jnp.where(pivot, order[k], order))
        row = jnp.where(here, 1, row) / row[k]
        rest = jnp.where(here[None], 0, a) - a[:, k][:, None] * row[None]
        return jnp.where(here[:, None], row[None], rest), order

    order = jnp.broadcast_to(index, (n, *batch))
    a, order = jax.lax.fori_loop(0, n, eliminate, (a, order))
    # The matrix inverted has the rows of a in this order, and so its inverse has the columns in this order.
    back = jnp.argmax(order[:, None] == index[None], axis=0)
    return jnp.take_along_axis(a, jnp.broadcast_to(back[None], a.shape), axis=1)
