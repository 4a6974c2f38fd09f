"""MOTION: connections from measured data, of forms at some shapes, or of one long motion.

Between two samples of a motion the body moves by `log(g_i⁻¹ g_{i+1})`, which is `−∫ A dr` up to brackets of A with
itself. So the coefficients of A follow by linear least squares; the brackets are those of the last A that was found,
which converges within a few iterations. The shapes between the samples are those of a spline of degree five, so that
the error is of order six in the time between samples. Source: Bittner, Hatton & Revzen, *Nonlinear Dyn.* 94 (2018)
1933, for connections from recorded motions.
"""

import csv
import io
import re
from collections.abc import Callable
from contextlib import nullcontext
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from scipy.interpolate import make_interp_spline, make_smoothing_spline
from scipy.linalg import cho_factor, cho_solve

from geodyn._engine.jit import jit, static_count
from geodyn._foundations.checks import numbers, shown
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Float, Index, Number, Numbers, PyTree
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._geometry.groups.magnus import NODES, WEIGHTS, increment
from geodyn._geometry.groups.rigid import SE2, SO2, Translation
from geodyn._locomotion.connections.connection import AbstractConnection
from geodyn._locomotion.connections.coordinates import element
from geodyn._locomotion.connections.errorbars import covariance_of_motion, covariance_of_rows
from geodyn._locomotion.connections.polynomials import chebyshev, exponents

_HIGHEST = 10
_ITERATIONS = 30
_BLOCKS = 25


@checked
class MeasuredConnection(AbstractConnection):
    """A connection whose form is a polynomial of the shape, as `gd.bundles.fit_connection` finds it from data.

    Entry [i, j] of the form is the sum over p of `coefficients[i, j, p]` times the product of Chebyshev polynomials of
    the degrees `powers[p]`, one for each shape variable, in the box of shapes from `lower` to `upper`. Polynomials soon
    go astray outside of the shapes that were measured: give `bounds=(body.lower, body.upper)` to `gd.optimal_stroke`.

    Args:
        group: where the body moves, one of `gd.groups`.
        coefficients: [k, m, P]: lengths or angles per unit of shape.
        lower, upper: shapes [m], the corners of the box.
        powers: P tuples of m whole numbers.
        error: relative rms error on data that were held out; see `gd.bundles.fit_connection`.
        covariance: [C, C] of the C = k m P coefficients, in their order, as noise of the data makes them; None where it
            is not known. `gd.bundles.standard_errors` makes error bars of it.

    Example:
        A planimeter, which moves by minus the area that a stroke encloses: A = (−r₂, r₁)/2.

        >>> slopes = jnp.array([[[0.0, 0.0, -0.5], [0.0, 0.5, 0.0]]])
        >>> box = jnp.array([-1.0, -1.0]), jnp.array([1.0, 1.0])
        >>> powers = ((0, 0), (1, 0), (0, 1))
        >>> body = gd.bundles.MeasuredConnection(gd.groups.Translation(1), slopes, *box, powers, 0.0)
        >>> print(body.degree, gd.curvature(body, [0.3, 0.2])[0, 0, 1])
        1 1.0
    """

    group: AbstractLieGroup
    coefficients: Float[Array, "k m P"]
    lower: Float[Array, " m"]
    upper: Float[Array, " m"]
    powers: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    error: Number
    covariance: Float[Array, "C C"] | None = None

    def __check_init__(self):
        k, m, count = self.coefficients.shape
        if k != self.group.dim:
            raise ValueError(
                f"coefficients must have {self.group.dim} rows, the dim of the group; got shape {(k, m, count)}"
            )
        if len(self.powers) != count or any(len(row) != m or min(row) < 0 for row in self.powers):
            raise ValueError(
                f"powers must be {count} rows of {m} whole numbers ≥ 0, as coefficients; got {self.powers}"
            )
        if self.covariance is not None and self.covariance.shape != (k * m * count, k * m * count):
            raise ValueError(
                f"covariance must be [C, C] with C = {k * m * count} coefficients, got {self.covariance.shape}"
            )
        known = not isinstance(self.lower, Tracer) and not isinstance(self.upper, Tracer)
        if known and not np.all(np.asarray(self.lower) < np.asarray(self.upper)):
            raise ValueError(f"lower must be below upper, got {self.lower.tolist()} and {self.upper.tolist()}")

    @property
    def degree(self) -> int:
        """The total degree of the polynomial."""
        return max(map(sum, self.powers))

    @property
    def first_shape(self) -> Float[Array, " m"]:
        """The middle of the box of shapes that were measured."""
        return (self.lower + self.upper) / 2

    @property
    def shape_region(self) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """The box of shapes that were measured."""
        return self.lower, self.upper

    def form(self, r: Float[Array, " m"]) -> Float[Array, "k m"]:
        return self.coefficients @ chebyshev(self.lower, self.upper, self.powers, r)


class _Data(NamedTuple):
    """What is fitted, for shapes that fill the box from −1 to 1: `design[n, P u] @ c[P u, K] ≈ targets[n, K]`.

    The columns of `design` belong to the polynomials `powers`, of the lowest degree first, with u columns for each.
    """

    powers: tuple[tuple[int, ...], ...]
    design: np.ndarray
    targets: np.ndarray
    covariance: Callable  # (design, residuals) -> that of c, [P u, K, P u, K]
    predicted: Callable  # c -> targets[n, K], where c may have fewer rows: those of a lower degree
    misses: Callable  # (predicted targets, first of its block[n]) -> (errors[n, k, …], what was measured[n, k, …])

    def columns(self, degree: int) -> int:
        """How many columns belong to polynomials of this degree."""
        m = len(self.powers[0])
        return comb(degree + m, m) * (self.design.shape[1] // len(self.powers))


@checked(gaps=("shapes", "forms", "poses", "times", "trials"))
def fit_connection(
    group: AbstractLieGroup,
    shapes: Numbers,
    *,
    forms: Numbers | None = None,
    poses: Numbers | None = None,
    times: Numbers | None = None,
    trials: Numbers | None = None,
    degree: Index | None = None,
) -> MeasuredConnection:
    """The connection of a body from measured data: from its forms at some shapes, or from the record of one motion.

    The form is a polynomial of the shape, found by least squares over all the data. A motion tells the form only along
    the changes of shape that it makes: let it pass everywhere that strokes will go, in more than one direction. Its
    error is then O(h⁶) in the time h between samples, 20 or more of which should belong to one stroke. Noise averages
    out: that of the poses in the least squares, that of the shapes by splines as smooth as generalised cross-validation
    wants them.

    Every fifth of 25 blocks of successive samples is held out: its error decides on the degree and becomes `error` of
    the body. It is relative to what was measured, which for a motion is how far the body has come since the start
    of its block; translations and rotations count alike, so that no unit enters.

    From the residuals follows the `covariance` of the coefficients, and from that the error bars of everything that is
    computed with the body: `gd.bundles.standard_errors`. Errors of forms are taken to be independent from row to row,
    or from trial to trial where `trials` are given, and their covariance is that of the jackknife over rows or trials,
    (G − 1)/G Σ (c₍g₎ − c)(c₍g₎ − c)ᵀ, c₍g₎ being fitted without the trial g. Errors of a motion are taken to be a
    stationary process along it: independent errors of the poses, disturbances of the motion, what smoothing leaves of
    the noise of the shapes; their spectrum f is that of the residuals, and the covariance G⁻¹ [Σ_j x̃_j x̃_jᵀ ⊗ f_j] G⁻¹,
    with the design in the basis of discrete sines x̃ and G = XᵀX. What a polynomial of this degree cannot express is not
    in them (see `error`), nor how much smaller noise of the shapes makes the form in spite of the smoothing.

    Args:
        group: where the body moves, one of `gd.groups`.
        shapes: [N, m], any consistent units; at least two shape variables.
        forms: A [N, k, m] measured at these shapes, by the convention `ξ = −A(r) r'` of `gd.connection`; lengths or
            angles per unit of shape.
        poses: group elements [N, d, d] in the same order as the shapes, samples of one continuous motion.
        times: of the samples of a motion [N], increasing; None: at equal intervals.
        trials: a number for each row of `forms` [N]: rows with the same one were measured together and may share their
            errors, such as that of one calibration; None: each row is one by itself.
        degree: total degree of the polynomial; None: the one up to 10 that predicts the held-out data best.

    Returns:
        The body, a `gd.bundles.MeasuredConnection`.

    Raises:
        ValueError: unless exactly one of forms and poses is given; for numbers that are not finite, shapes of arrays
            that do not fit and poses that are not in the group; where the data do not determine a polynomial of degree
            1, or of the given one; and where a motion is sampled too coarsely.

    Example:
        A record of Purcell's swimmer while its hinges swing in many ways, and the displacement of the fitted body and
        of the true one by another stroke.

        >>> swimmer = gd.swimmers.Purcell()
        >>> def wander(t):
        ...     return jnp.stack([jnp.sin(26 * jnp.pi * t + 0.3), jnp.sin(22 * jnp.pi * t)])
        >>> shapes, poses = jax.vmap(wander)(jnp.linspace(0, 1, 401)), gd.path(swimmer, wander, steps=400)
        >>> body = gd.bundles.fit_connection(swimmer.group, shapes, poses=poses, degree=6)
        >>> stroke = gd.FourierStroke.circle(0.6)
        >>> for each in (body, swimmer):
        ...     print(swimmer.group.log(gd.holonomy(each, stroke))[:2].round(4))
        [-0.0637  0.0101]
        [-0.0637  0.0101]

    Source:
        Bittner, Hatton & Revzen, *Nonlinear Dyn.* 94 (2018) 1933, for connections from recorded motions; for the
        covariance Bell & McCaffrey, *Survey Methodology* 28 (2002) 169, and Hannan, *Multiple Time Series* (1970),
        chapter VII.
    """
    if (forms is None) == (poses is None):
        given = "neither" if forms is None else "both"
        raise ValueError(f"fit_connection: want either forms[N, k, m] or poses[N, d, d], got {given}")
    if times is not None and poses is None:
        raise ValueError("fit_connection: times belong to poses; leave them out with forms")
    if trials is not None and forms is None:
        raise ValueError("fit_connection: trials belong to forms; leave them out with poses, which are one motion")
    wanted = None if degree is None else static_count("degree", degree)
    r = _check_measured("shapes", shapes, (None, None))
    n, m = r.shape
    if m < 2:
        raise ValueError(
            f"fit_connection: shapes must have at least 2 variables, got {m}: with one, every stroke leads back to its"
            " start"
        )
    powers = _powers(m, n, 1, wanted) if poses is None else _powers(m, max(n - 1, 0), m, wanted)
    lower, upper = r.min(axis=0), r.max(axis=0)
    for j in np.flatnonzero(lower == upper):
        raise ValueError(
            f"fit_connection: the shape variable {j + 1} of {m} is {lower[j]} in all {n} rows: vary it, or leave it out"
        )
    half = (upper - lower) / 2
    x = (r - lower) / half - 1
    if forms is not None:
        each = np.arange(n) if trials is None else _check_measured("trials", trials, (n,))
        if len(np.unique(each)) < 2:
            raise ValueError("fit_connection: trials must be at least two: of a single one no errors can be told")
        data = _of_forms(group, x, half * _check_measured("forms", forms, (n, group.dim, m)), powers, each)
    else:
        d = group.identity().shape[0]
        at = np.arange(n) if times is None else _check_measured("times", times, (n,))
        data = _of_motion(group, x, _check_measured("poses", poses, (n, d, d)), at, powers)
    c, powers, error, covariance = _fit(group, data, wanted)
    coefficients = c.reshape(len(powers), m, group.dim).T / half[:, None]
    unit = np.broadcast_to(half[:, None], coefficients.shape).ravel()
    order = np.arange(c.size).reshape(len(powers), m, group.dim).T.ravel()
    covariance = covariance.reshape(c.size, c.size)[np.ix_(order, order)] / unit[:, None] / unit
    coefficients, lower, upper, covariance = (jnp.asarray(y, float) for y in (coefficients, lower, upper, covariance))
    return MeasuredConnection(group, coefficients, lower, upper, powers, error, covariance)


@checked
def standard_errors(body: MeasuredConnection, function: Callable[[MeasuredConnection], PyTree]) -> PyTree:
    """The standard errors of anything that is computed with a measured body: of its form, of a displacement, of an
    optimum.

    They are linearised, √diag(J V Jᵀ), with the derivative J of the function with respect to the coefficients of the
    body and their covariance V, so that small errors are assumed; intervals of ±1.96 of them cover in 95 % of cases.
    Of few trials G take the quantile of Student's t with G − 1 degrees of freedom in place of 1.96.

    Args:
        body: from `gd.bundles.fit_connection` or `read_connection`.
        function: (body) -> a number, an array or a pytree of them, written with jax.numpy.

    Returns:
        The standard errors, in the form of what the function returns; NaN where the data do not tell them, or where the
        function has no derivative.

    Raises:
        ValueError: for a body without a covariance.

    Example:
        The displacement of a planimeter, A = (−r₂, r₁)/2, from forms with errors of 0.01.

        >>> random = np.random.default_rng(0)
        >>> shapes = random.uniform(-1, 1, (100, 2))
        >>> forms = np.stack([-shapes[:, 1:], shapes[:, :1]], axis=2) / 2 + 0.01 * random.normal(size=(100, 1, 2))
        >>> body = gd.bundles.fit_connection(gd.groups.Translation(1), shapes, forms=forms, degree=1)
        >>> def moved(body):
        ...     return body.group.log(gd.holonomy(body, gd.FourierStroke.circle(0.5)))[0]
        >>> print(f"{moved(body):.4f} ± {gd.bundles.standard_errors(body, moved):.4f}; true {-np.pi * 0.5**2:.4f}")
        -0.7875 ± 0.0018; true -0.7854

    Source:
        Oehlert, *Am. Stat.* 46 (1992) 27, for the delta method.
    """
    if body.covariance is None:
        raise ValueError("body must know the covariance of its coefficients: one of gd.bundles.fit_connection does")

    def values(coefficients: Float[Array, "..."]) -> PyTree:
        found = function(eqx.tree_at(lambda body: body.coefficients, body, coefficients))
        if not jax.tree.leaves(found):
            raise ValueError(f"function must return a number, an array or a pytree of them, got {shown(found)}")
        return jax.tree.map(lambda x: numbers("what function returns", x).astype(float), found)

    slopes = jax.tree.map(lambda J: J.reshape(*J.shape[: J.ndim - 3], -1), jax.jacrev(values)(body.coefficients))
    # A variance that is zero up to rounding may come out negative.
    squares = jax.tree.map(lambda J: jnp.einsum("...a,ab,...b->...", J, body.covariance, J), slopes)
    return jax.tree.map(lambda square: jnp.sqrt(jnp.maximum(square, 0.0)), squares)


def _check_measured(name: str, values: Numbers | None, shape: tuple[int | None, ...]) -> np.ndarray:
    """The values as finite numbers of this shape, in which None is any length."""
    array = numbers(f"fit_connection: {name}", values)
    if isinstance(array, Tracer):
        raise ValueError(f"fit_connection: {name} must be known numbers, got traced ones: fit outside of jit and grad")
    array = np.asarray(array, float)
    if array.ndim != len(shape) or any(want not in (None, got) for want, got in zip(shape, array.shape)):
        want = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"fit_connection: {name} must have the shape ({want}), got {array.shape}")
    for row in np.flatnonzero(~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))):
        raise ValueError(
            f"fit_connection: {name} must be finite, but {name}[{row}] is {array[row].tolist()}: leave out this row"
        )
    return array


def _powers(m: int, rows: int, each: int, wanted: int | None) -> tuple[tuple[int, ...], ...]:
    """Those of the highest degree for which there is data, with `each` unknown columns for each polynomial."""
    known = np.sum(~_held_out(rows)[0])
    fits = [d for d in ([wanted] if wanted else range(1, _HIGHEST + 1)) if each * comb(d + m, m) <= known]
    if not fits:
        count = each * comb((wanted or 1) + m, m)
        raise ValueError(
            f"fit_connection: {rows} {'forms' if each == 1 else 'changes of the pose'}, a fifth of which is held out,"
            f" are too few for the {count} unknown numbers of a polynomial of degree {wanted or 1} in {m} shape"
            f" variables: want at least {count * 3 // 2}" + (", or a lower degree" if wanted else "")
        )
    return exponents(fits[-1], m)


def _held_out(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(which rows are held out, which are the first of their block): of successive blocks every fifth."""
    block = np.arange(rows) * min(_BLOCKS, rows) // max(rows, 1)
    return block % 5 == 2, np.diff(block, prepend=-1) > 0


def _of_forms(
    group: AbstractLieGroup, x: np.ndarray, forms: np.ndarray, powers: tuple[tuple[int, ...], ...], trials: np.ndarray
) -> _Data:
    design, targets = _polynomials(x, powers), forms.swapaxes(1, 2)

    def misses(predicted: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (predicted.reshape(targets.shape) - targets).swapaxes(1, 2), forms

    def covariance(design: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        return covariance_of_rows(design, residuals, trials)

    return _Data(powers, design, targets.reshape(len(x), -1), covariance, lambda c: design[:, : len(c)] @ c, misses)


def _of_motion(
    group: AbstractLieGroup, x: np.ndarray, poses: np.ndarray, times: np.ndarray, powers: tuple[tuple[int, ...], ...]
) -> _Data:
    steps = np.diff(times)
    for row in np.flatnonzero(steps <= 0):
        raise ValueError(
            f"fit_connection: times must increase, but times[{row}] is {times[row]} and times[{row + 1}] is"
            f" {times[row + 1]}: sort the rows, and leave out repeated ones"
        )
    off = np.max(np.abs(_again(group, poses) - poses), axis=(1, 2))
    for row in np.flatnonzero(~(off <= 1e-3 * (1 + np.max(np.abs(poses))))):
        raise ValueError(
            f"fit_connection: poses[{row}] is {poses[row].tolist()}, no element of {type(group).__name__}: make poses"
            " by group.exp, or read x, y, theta by gd.bundles.read_connection"
        )
    increments = np.asarray(_increments(group, poses))
    turns = np.linalg.norm(increments[:, group.translations :], axis=1)
    for row in np.flatnonzero(turns > 0.9 * np.pi):
        raise ValueError(
            f"fit_connection: between poses[{row}] and poses[{row + 1}] the body turns by {turns[row]:.2f}, so near π"
            " that the direction is not sure: sample the motion more densely, or leave out poses that are wrong"
        )
    # Noise of the shapes would make each of their changes look larger, and so the form smaller: they are smoothed as
    # much as generalised cross-validation asks for, which moves shapes without noise by 1e-8 and less.
    times, steps = (times - times[0]) / np.mean(steps), steps / np.mean(steps)
    smooth = np.stack([make_smoothing_spline(times, variable)(times) for variable in x.T], axis=1)
    curve = make_interp_spline(times, smooth, k=5)
    nodes = times[:-1, None] + steps[:, None] * NODES
    basis, rates = _polynomials(curve(nodes), powers), curve(nodes, 1) * steps[:, None, None]
    design = -np.einsum("q,nqp,nqm->npm", WEIGHTS, basis, rates, optimize=True).reshape(len(steps), -1)

    def predict(c: np.ndarray) -> np.ndarray:
        count, m = len(c) // x.shape[1], x.shape[1]
        forms = (basis[..., :count] @ c.reshape(count, -1)).reshape(*nodes.shape, m, group.dim)
        return np.asarray(_magnus(group, -np.einsum("nqmk,nqm->nqk", forms, rates)))

    def misses(guess: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(y) for y in _since(group, guess, increments, first))

    return _Data(powers, design, increments, covariance_of_motion, predict, misses)


@jit
def _again(group: AbstractLieGroup, poses: Array) -> Array:
    return jax.vmap(lambda g: group.exp(group.log(g)))(poses)


@jit
def _increments(group: AbstractLieGroup, poses: Array) -> Array:
    return jax.vmap(lambda g, h: group.log(group.compose(group.inverse(g), h)))(poses[:-1], poses[1:])


@jit
def _magnus(group: AbstractLieGroup, xi: Float[Array, "N 3 k"]) -> Float[Array, "N k"]:
    return jax.vmap(lambda x: increment(group, x, 1.0))(xi)


@jit
def _since(group: AbstractLieGroup, guess: Array, increments: Array, first: Array) -> tuple[Array, Array]:
    """How far the guess is off in the motion since the start of each block, and that motion."""

    def follow(
        state: Float[Array, "2 d d"], step: tuple[Float[Array, " k"], Float[Array, " k"], Bool[Array, ""]]
    ) -> tuple[Float[Array, "2 d d"], tuple[Float[Array, " k"], Float[Array, " k"]]]:
        xi, eta, starts = step
        state = jnp.where(starts, group.identity()[None], state)
        state = jnp.stack([group.compose(state[0], group.exp(xi)), group.compose(state[1], group.exp(eta))])
        return state, (group.log(group.compose(group.inverse(state[0]), state[1])), group.log(state[1]))

    start = jnp.stack([group.identity()] * 2)
    return jax.lax.scan(follow, start, (guess, increments, first))[1]


def _polynomials(x: np.ndarray, powers: tuple[tuple[int, ...], ...]) -> np.ndarray:
    return np.asarray(_basis(jnp.asarray(x.reshape(-1, x.shape[-1]), float), powers)).reshape(*x.shape[:-1], -1)


@jit
def _basis(x: Float[Array, "N m"], powers: tuple[tuple[int, ...], ...]) -> Float[Array, "N q"]:
    ones = jnp.ones(x.shape[1], x.dtype)
    return jax.vmap(lambda at: chebyshev(-ones, ones, powers, at))(x)


def _fit(group: AbstractLieGroup, data: _Data, wanted: int | None):
    """(the coefficients, their powers, the error on data held out, the covariance of the coefficients)."""
    held, first = _held_out(len(data.targets))
    errors = {}
    for degree in [wanted] if wanted else range(1, sum(data.powers[-1]) + 1):
        c, is_determined = _solve(data, degree, ~held)
        if not is_determined:
            break
        guess = data.predicted(c)
        errors[degree] = _relative(group, *(y[held] for y in data.misses(guess, first)))
    if not errors:
        raise ValueError(
            f"fit_connection: these shapes do not determine a form of degree {wanted or 1}, as where they stay near one"
            " curve: let every shape variable change on its own, and pass the same shapes in different directions"
            + (", or lower the degree" if wanted else "")
        )
    # Of degrees that are as good as the best, the lowest: noise, or the sampling, may be all that is left.
    degree = next(d for d in errors if errors[d] <= 1.001 * min(errors.values()) + 1e-12)
    c, _ = _solve(data, degree, slice(None))
    covariance = data.covariance(data.design[:, : len(c)], data.targets - data.predicted(c))
    return c, exponents(degree, len(data.powers[0])), errors[degree], covariance


def _is_determined(gram: np.ndarray, degree: int) -> bool:
    """Whether the columns of a design, with these scalar products, are far enough from dependent.

    Where shapes fill a region and are passed in all directions, the smallest singular value falls with the degree like
    this bound, or more slowly. Around and around one curve it falls by a factor of 20 and more for each degree: there
    are forms then that hardly move the body along this curve, and so are not seen.
    """
    lengths = np.sqrt(np.diag(gram))
    if not lengths.all():
        return False
    squares = np.linalg.eigvalsh(gram / lengths[:, None] / lengths)
    return bool(squares[0] > (0.125 * 0.4**degree) ** 2 * squares[-1])


def _solve(data: _Data, degree: int, rows: Any) -> tuple[np.ndarray, bool]:
    """(the coefficients of least squares over these rows, whether the rows determine them)."""
    design = data.design[rows, : data.columns(degree)]
    gram, c = design.T @ design, np.zeros((design.shape[1], data.targets.shape[1]))
    if not _is_determined(gram, degree):
        return c, False
    factor = cho_factor(gram)
    for _ in range(_ITERATIONS):
        step = cho_solve(factor, design.T @ (data.targets - data.predicted(c))[rows])
        c = c + step
        if np.linalg.norm(step) <= 1e-11 * np.linalg.norm(c):
            break
    if not np.linalg.norm(step) <= 1e-3 * np.linalg.norm(c):
        raise ValueError(
            "fit_connection: no form was found that moves the body like this: sample the motion more densely, or lower"
            " the degree"
        )
    return c, True


def _relative(group: AbstractLieGroup, wrong: np.ndarray, measured: np.ndarray) -> float:
    """The rms of errors relative to what was measured, on average over translations and rotations, so that no unit of
    length enters; without those of the two that are zero to rounding."""
    errors, sizes = (
        np.array([np.sum(part**2) for part in np.split(y, [group.translations], axis=1)]) for y in (wrong, measured)
    )
    moves = sizes > 1e-20 * np.max(sizes)
    return float(np.sqrt(np.mean(errors[moves] / sizes[moves]))) if np.any(moves) else 0.0


_POSES = {
    ("x",): Translation(1),
    ("x", "y"): Translation(2),
    ("theta",): SO2(),
    ("x", "y", "theta"): SE2(),
}


@checked
def read_connection(source: str | Path | Any, *, degree: Index | None = None) -> MeasuredConnection:
    """The connection of a body from a file of measurements, by `gd.bundles.fit_connection`.

    The file is a table (CSV) under one line of names, with angles in radians. Its columns `r1`, `r2`, … are the
    shape. Either the others are the form at these shapes, `Ax1` for the row of x and the shape variable 1: `Ax1`,
    `Ax2`, …, `Ay1`, …, `Atheta1`, …; or they are the poses `x`, `y`, `theta` of the body, samples of one motion, at
    the times `t` if there is such a column and else at equal intervals. The names of the poses tell the group: x, y and
    theta `gd.groups.SE2`, x and y `gd.groups.Translation(2)`, x alone `gd.groups.Translation(1)`, theta alone
    `gd.groups.SO2`. Capitals do not matter, θ is theta, and commas, semicolons or tabs separate.

    Args:
        source: path of the file, or an open text stream.
        degree: total degree of the polynomial; None: chosen by data that are held out.

    Returns:
        The body, a `gd.bundles.MeasuredConnection`.

    Raises:
        ValueError: for a file that cannot be read, columns that are missing or not known, cells that are not finite
            numbers and rows of another length; and for what `gd.bundles.fit_connection` refuses.

    Example:
        A planimeter, which moves by minus the area that a stroke encloses.

        >>> import io
        >>> places = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)]
        >>> table = "r1,r2,Ax1,Ax2\\n" + "\\n".join(f"{x},{y},{-y / 2},{x / 2}" for x, y in places)
        >>> body = gd.bundles.read_connection(io.StringIO(table))
        >>> print(f"{body.group.log(gd.holonomy(body, gd.FourierStroke.circle(0.5)))[0]:.6f} {-np.pi * 0.5**2:.6f}")
        -0.785398 -0.785398
    """
    where = f"read_connection: {source if isinstance(source, str | Path) else 'the stream'}"
    if not isinstance(source, str | Path) and not isinstance(source, io.TextIOBase):
        raise ValueError(
            "read_connection: source must be the path of a file or an open stream of text, such as open(path); got"
            f" {type(source).__name__}"
        )
    try:
        with open(source, encoding="utf-8-sig") if isinstance(source, str | Path) else nullcontext(source) as stream:
            lines = "".join(stream).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{where}: {error}; source must be a table as text, in UTF-8") from None
    separator = next((s for s in ";\t" if lines and s in lines[0]), ",")
    reader = csv.reader(lines, delimiter=separator)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
        return _read(rows, degree)
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{where}: {error}") from None


def _read(rows: list[tuple[int, list[str]]], degree: Index | None) -> MeasuredConnection:
    if not rows:
        raise ValueError("there is nothing in it; want a line of names, such as r1,r2,x,y,theta, and numbers under it")
    given = ", ".join(rows[0][1])
    names = [name.strip("\ufeff").casefold().replace("θ", "theta") for name in rows[0][1]]
    m = max(sum(bool(re.fullmatch(r"r\d+", name)) for name in names), 2)
    has_forms = any(re.fullmatch(r"a(x|y|theta)\d+", name) for name in names)
    pattern = r"a(x|y|theta)\d+" if has_forms else r"(x|y|theta)"
    found = {match[1] for name in names if (match := re.fullmatch(pattern, name))}
    coordinates = next((each for each in _POSES if set(each) == found), None)
    if coordinates is None:
        raise ValueError(
            f"its columns are {given}; want poses x, or x and y, or theta, or x, y and theta, or forms of the same"
            " coordinates, such as Ax1, Ax2"
        )
    shape = [f"r{j + 1}" for j in range(m)]
    others = [f"a{name}{j + 1}" for name in coordinates for j in range(m)] if has_forms else list(coordinates)
    wanted = [*shape, *others, *(["t"] if "t" in names and not has_forms else [])]
    if sorted(names) != sorted(wanted):
        missing = [name for name in wanted if name not in names]
        strange = sorted({name for name in names if name not in wanted or names.count(name) > 1})
        remedies = [f"{do} {', '.join(some)}" for do, some in (("add", missing), ("leave out", strange)) if some]
        raise ValueError(f"its columns are {given}; want {', '.join(wanted)}, each once: {' and '.join(remedies)}")
    table = np.array([_cells(line, names, row) for line, row in rows[1:]]).reshape(-1, len(names))
    columns = dict(zip(names, table.T))
    shapes, values = (np.stack([columns[name] for name in some], axis=1) for some in (shape, others))
    group = _POSES[coordinates]
    if has_forms:
        return fit_connection(group, shapes, forms=values.reshape(len(values), -1, m), degree=degree)
    poses = _elements_of(group, jnp.asarray(values, float))
    return fit_connection(group, shapes, poses=poses, times=columns.get("t"), degree=degree)


@jit
def _elements_of(group: AbstractLieGroup, values: Array) -> Array:
    return jax.vmap(lambda x: element(group, x))(values)


def _cells(line: int, names: list[str], row: list[str]) -> list[float]:
    if len(row) != len(names):
        raise ValueError(f"line {line} has {len(row)} cells; want {len(names)}, one under each name")
    values = []
    for name, cell in zip(names, row):
        try:
            values.append(float(cell))
        except ValueError:
            values.append(np.nan)
        if not np.isfinite(values[-1]):
            raise ValueError(
                f"line {line}, column {name}: want a finite number, got {cell!r}; mend it, or leave out the line"
            )
    return values
