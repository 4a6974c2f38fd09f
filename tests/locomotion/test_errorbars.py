"""Error bars of measured connections: intervals of ±1.96 standard errors cover the truth in 95 % of simulated data."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.marks import slow

import geodyn as gd
from geodyn._locomotion.connections.errorbars import covariance_of_motion, covariance_of_rows
from geodyn._locomotion.connections.polynomials import exponents

SETS = 200
GROUP = gd.groups.SE2()
STROKE = gd.FourierStroke([0.1, 0.4], [[0.5], [0.2]], [[0.0], [0.8]])
BOX = np.array([-1.0, -2.0]), np.array([1.0, 3.0])


def truth(degree=2, seed=0):
    """A body whose form is a polynomial in a box that is no square."""
    powers = exponents(degree, 2)
    coefficients = 0.2 * np.random.default_rng(seed).normal(size=(3, 2, len(powers)))
    return gd.bundles.MeasuredConnection(GROUP, jnp.asarray(coefficients), *map(jnp.asarray, BOX), powers, 0.0)


def numbers(body):
    """A displacement, and the form at a shape."""
    return GROUP.log(gd.holonomy(body, STROKE, steps=32)), body.form(jnp.array([0.3, -0.4]))


@eqx.filter_jit
def told(bodies):
    """The numbers of a batch of bodies with their standard errors, in rows."""

    def rows(tree):
        return jnp.concatenate([x.reshape(len(x), -1) for x in jax.tree.leaves(tree)], axis=1)

    each = jax.vmap(lambda body: (numbers(body), gd.bundles.standard_errors(body, numbers)))(bodies)
    return tuple(map(rows, each))


def coverage(bodies, true):
    """In what part of the data sets the interval of each number contains the truth."""
    values, errors = told(jax.tree.map(lambda *x: jnp.stack(x), *bodies))
    wanted = np.concatenate([np.ravel(x) for x in numbers(true)])
    return np.mean(np.abs(np.asarray(values) - wanted) < 1.96 * np.asarray(errors), axis=0)


@pytest.mark.long
def test_forms_with_noise():
    """Errors of different sizes in different rows, correlated within each. The covariance of the coefficients is that
    of the fits, in their order."""
    random, true = np.random.default_rng(1), truth()
    shapes = random.uniform(*BOX, (60, 2))
    forms = np.asarray(jax.vmap(true.form)(jnp.asarray(shapes)))
    mixed = random.normal(size=(6, 6))
    sizes = 0.01 * (1 + np.abs(shapes[:, :1]))

    def fit():
        noise = (sizes * (random.normal(size=(60, 6)) @ mixed)).reshape(60, 3, 2)
        return gd.bundles.fit_connection(GROUP, shapes, forms=forms + noise, degree=2)

    bodies = [fit() for _ in range(SETS)]
    covered = coverage(bodies, true)
    assert np.all((covered > 0.9) & (covered < 0.99)), covered
    # The corners of the box are those of the shapes, in all data sets.
    found = np.cov(np.array([body.coefficients.ravel() for body in bodies]).T)
    said = np.mean([body.covariance for body in bodies], axis=0)
    np.testing.assert_allclose(np.sqrt(np.diag(said) / np.diag(found)), 1, atol=0.2)
    assert np.linalg.norm(said - found) < 0.35 * np.linalg.norm(found)


@pytest.mark.long
def test_trials_that_share_their_errors():
    """50 trials of 6 rows, each with an offset of its own. As if the rows were independent, intervals are too short."""
    random, true = np.random.default_rng(2), truth(1)
    trials = np.repeat(np.arange(50), 6)
    shapes = random.uniform(*BOX, (50, 2))[trials] + 0.1 * random.uniform(-1, 1, (300, 2))
    forms = np.asarray(jax.vmap(true.form)(jnp.asarray(shapes)))

    def fit(**given):
        noise = 0.02 * random.normal(size=(50, 3, 2))[trials] + 0.005 * random.normal(size=(300, 3, 2))
        return gd.bundles.fit_connection(GROUP, shapes, forms=forms + noise, degree=1, **given)

    covered = coverage([fit(trials=trials) for _ in range(SETS)], true)
    assert np.all((covered > 0.9) & (covered < 0.99)), covered
    assert coverage([fit() for _ in range(SETS)], true).mean() < 0.85


def design_of_motion(n, degree):
    """Minus the integrals of polynomials along a motion that fills a square, [n, P m]."""
    t = np.arange(n) + 0.5
    angle = 2 * np.pi * np.outer(t, [13, 11]) / n + [0.3, 0.0]
    r, dr = np.sin(angle), 2 * np.pi * np.array([13, 11]) / n * np.cos(angle)
    basis = np.stack([np.prod(r**p, axis=1) for p in exponents(degree, 2)], axis=1)
    return -(basis[:, :, None] * dr[:, None]).reshape(n, -1)


NOISE = {
    "poses": lambda random, n: np.diff(random.normal(size=(n + 1, 2)), axis=0),
    "disturbances": lambda random, n: random.normal(size=(n, 2)),
    "both": lambda random, n: np.diff(random.normal(size=(n + 1, 2)), axis=0) + 0.2 * random.normal(size=(n, 2)),
}


@pytest.mark.parametrize("name", slow("poses", "disturbances", quick="both"))
def test_motions_with_noise(name):
    """Errors of poses, whose differences are correlated, and disturbances of the motion, in the least squares of a
    record. As if rows were independent, errors of poses would have bars of more than twice the size."""
    random, n = np.random.default_rng(3), 400
    design = design_of_motion(n, 3)
    pinned, some = np.linalg.pinv(design), random.normal(size=(10, design.shape[1] * 2))
    inside = []
    for _ in range(SETS):
        noise = NOISE[name](random, n) @ np.array([[1.0, 0.5], [0.0, 1.0]])
        c = pinned @ noise
        spread = covariance_of_motion(design, noise - design @ c).reshape(c.size, c.size)
        inside.append(np.abs(some @ c.ravel()) < 1.96 * np.sqrt(np.einsum("ia,ab,ib->i", some, spread, some)))
    covered = np.mean(inside, axis=0)
    assert np.all(covered > 0.9) and 0.92 < covered.mean() < 0.985, covered
    if name == "poses":
        plain = covariance_of_rows(design, noise - design @ c, np.arange(n)).reshape(c.size, c.size)
        assert np.trace(plain) > 4 * np.trace(spread)


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(1e-3, 0.0), (1e-3, 1e-3)], ids=["poses", "poses and shapes"])
def test_records_with_noise(sizes):
    """From the record to the displacement: 100 records of 480 samples. (Noise of the shapes of 3e-3 shifts the form by
    up to one standard error, and intervals cover in 85 % at least.)"""
    random, true = np.random.default_rng(4), truth(3)

    def wander(t):
        a = 2 * jnp.pi * t
        return jnp.stack([0.9 * jnp.sin(13 * a + 0.3), 0.5 + 2 * jnp.sin(11 * a)])

    shapes, poses = np.asarray(jax.vmap(wander)(jnp.linspace(0, 1, 481))), gd.path(true, wander, steps=480)
    kicked = jax.jit(jax.vmap(lambda g, xi: GROUP.compose(g, GROUP.exp(xi))))

    def fit():
        seen = kicked(poses, sizes[0] * random.normal(size=(481, 3)))
        given = shapes + sizes[1] * random.normal(size=shapes.shape)
        return gd.bundles.fit_connection(GROUP, given, poses=seen, degree=3)

    covered = coverage([fit() for _ in range(100)], true)
    assert np.all((covered > 0.88) & (covered <= 1.0)) and 0.9 < covered.mean() < 0.99, covered


@pytest.mark.long
def test_an_optimum_has_an_error_bar():
    """Of A with a constant curvature F the best loop for the displacement d is a circle with the energy 4π d/F, whose
    error is 4π d/F² times that of F; both through the search."""
    random = np.random.default_rng(5)
    shapes = random.uniform(-1, 1, (100, 2))
    forms = np.stack([-shapes[:, 1:], shapes[:, :1]], axis=2) / 2 + 0.02 * random.normal(size=(100, 1, 2))
    body = gd.bundles.fit_connection(gd.groups.Translation(1), shapes, forms=forms, degree=1)

    def energy(body):
        method = gd.Direct(harmonics=2, steps=16)
        return gd.optimal_stroke(gd.bundles.KaluzaKlein(body), [0.4, 0.4], displacement=-0.3, method=method).cost

    def curving(body):
        return gd.curvature(body, [0.0, 0.0])[0, 0, 1]

    F, bar = curving(body), gd.bundles.standard_errors(body, curving)
    np.testing.assert_allclose(energy(body), 4 * np.pi * 0.3 / abs(F), rtol=1e-6)
    found = gd.bundles.standard_errors(body, energy)
    np.testing.assert_allclose(found, 4 * np.pi * 0.3 / F**2 * bar, rtol=1e-5)


def test_what_is_not_known():
    """Data without noise have errors of rounding; what one row alone determines, NaN; and what is refused."""
    true, shapes = truth(1), np.random.default_rng(6).uniform(*BOX, (30, 2))
    forms = np.asarray(jax.vmap(true.form)(jnp.asarray(shapes)))
    exact = gd.bundles.fit_connection(GROUP, shapes, forms=forms, degree=1)
    assert np.max(np.asarray(told(jax.tree.map(lambda x: jnp.asarray(x)[None], exact))[1])) < 1e-13
    lonely = covariance_of_rows(np.diag([1.0, 1.0, 1.0])[:, [0, 1, 2]], np.zeros((3, 1)), np.arange(3))
    assert np.isnan(lonely).all()
    with pytest.raises(ValueError, match=r"body must know the covariance"):
        gd.bundles.standard_errors(true, numbers)
    with pytest.raises(ValueError, match=r"trials belong to forms"):
        gd.bundles.fit_connection(GROUP, shapes, poses=np.tile(np.eye(3), (30, 1, 1)), trials=np.arange(30))
    with pytest.raises(ValueError, match=r"trials must be at least two"):
        gd.bundles.fit_connection(GROUP, shapes, forms=forms, trials=np.zeros(30))
    with pytest.raises(ValueError, match=r"covariance must be \[C, C\] with C = 18"):
        gd.bundles.MeasuredConnection(GROUP, true.coefficients, *map(jnp.asarray, BOX), true.powers, 0.0, jnp.eye(3))
