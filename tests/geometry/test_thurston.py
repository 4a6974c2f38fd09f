"""The eight geometries by name. References: curvatures by sympy (S05), distances and a motion in Nil computed with 30
digits (S03, S04), and the general solver for geodesics, which knows only the metric."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case
from helpers.marks import slow

import geodyn as gd

DIMENSIONS = {"E3": 6, "S3": 6, "H3": 6, "S2xE": 4, "H2xE": 4, "Nil": 4, "Sol": 3, "SL2": 4}
X = np.array([0.2, 0.6, 0.3])
# The curvatures of the others are those of their charts at other points.
SAME_CHART = "Nil", "Sol", "SL2"


@pytest.mark.parametrize("name", slow("E3", "S3", "H3", "H2xE", "SL2", "Sol", "S2xE", quick="Nil"))
def test_the_known_fields_are_all(name):
    """As many independent ones as the metric has."""
    space = gd.spaces.THURSTON[name]
    fields = space.killing_fields
    points = X + 0.1 * np.random.default_rng(0).normal(size=(6, 3))
    rank = np.linalg.matrix_rank(np.concatenate([fields(x).T for x in jnp.asarray(points)]), tol=1e-10)
    assert rank == len(fields(jnp.asarray(X))) == DIMENSIONS[name] == gd.symmetries(space, X).dim
    for k in range(DIMENSIONS[name]):
        np.testing.assert_allclose(gd.killing_defect(space, lambda x, k=k: fields(x)[k], X), 0, atol=1e-13)


@pytest.mark.parametrize("name", SAME_CHART)
def test_curvatures(name):
    given = case("S05")["value"][name]
    space, at = gd.spaces.THURSTON[name], np.array(given["at"], float)
    vectors = {f"∂{'₁₂₃'[k]}": unit for k, unit in enumerate(np.eye(3))}
    for plane, curvature in given["planes"].items():
        pair = [vectors[plane[:2]], vectors[plane[2:]]] if plane[0] == "∂" else [[1, 2, -1], [0.5, -1, 3]]
        assert float(gd.sectional_curvature(space, at, *pair)) == pytest.approx(float(curvature), abs=1e-13)
    assert float(gd.scalar_curvature(space, at)) == pytest.approx(float(given["scalar"]), abs=1e-12)


def test_distances_in_nil():
    """Turns of both signs, on the axis below and above the conjugate point. Seen: 1e-15."""
    for row in case("S04")["value"]:
        x, y = (np.array(row[end], float) for end in "xy")
        for pair in ((x, y), (y, x)):
            assert float(gd.distance(gd.spaces.Nil(), *pair)) == pytest.approx(float(row["distance"]), rel=1e-14)


def test_distances_in_nil_are_those_of_the_metric():
    """Those that the solver for geodesics finds."""
    space = gd.spaces.Nil()
    gd.check_manifold(space, X)
    metric_alone = gd.Manifold(space.metric, 3)
    for x, y in 1.5 * np.random.default_rng(1).normal(size=(4, 2, 3)):
        wanted = float(gd.distance(metric_alone, x, y))
        assert float(gd.distance(space, x, y)) == pytest.approx(wanted, rel=1e-12)
        np.testing.assert_allclose(gd.log(space, x, y), gd.log(metric_alone, x, y), atol=1e-11)


@pytest.mark.long
def test_distances_in_nil_where_they_are_delicate():
    """Its derivative by the height is twice the turn, everywhere; on the ridge of the distance there is none by the
    distance from the axis. Both branches agree where they meet."""
    square = gd.spaces.Nil().squared_distance
    slope = jax.jit(jax.grad(lambda y: square(jnp.zeros(3), y)))
    np.testing.assert_allclose(slope(jnp.array([0.0, 0.0, 1e-9])), [0, 0, 2e-9], rtol=1e-12)
    np.testing.assert_allclose(slope(jnp.array([1e-9, 0.0, 0.0])), [2e-9, 0, 0], rtol=1e-12)
    np.testing.assert_allclose(slope(jnp.zeros(3)), 0)
    np.testing.assert_allclose(slope(jnp.array([1e-7, 0.0, 9.0]))[2], 4 * np.pi, rtol=1e-6)
    assert np.isnan(slope(jnp.array([0.0, 0.0, 9.0]))).all()
    for across in (1e-12, 1e-6, 1e-2, 1.0, 3.0):
        meeting = max(2 * np.pi, 1.5 * np.pi + across**2 * (1.5 * np.pi + 1) / 4)
        below, above = (square(jnp.zeros(3), jnp.array([across, 0.0, meeting * (1 + e)])) for e in (-1e-13, 1e-13))
        assert float(above - below) == pytest.approx(0, abs=1e-10)
    second = jax.hessian(lambda y: square(jnp.zeros(3), y))(jnp.zeros(3))
    np.testing.assert_allclose(second, 2 * np.eye(3), atol=1e-12)


ORIGIN = jnp.array([0.1, -0.2, 0.05])


def half_square_in_nil(y):
    return gd.spaces.Nil().squared_distance(ORIGIN, y) / 2


@jax.jit
def orders_in_nil(y):
    """The half squared distance and its first three derivatives."""
    second = jax.hessian(half_square_in_nil)
    return half_square_in_nil(y), jax.grad(half_square_in_nil)(y), second(y), jax.jacfwd(second)(y)


@pytest.mark.parametrize("y", [(0.3, 0.2, 0.1), (1.0, -2.0, 1.5), (0.4, 0.1, 5.0), (0.02, 0.01, 9.0), (0.5, 0.3, -9.0)])
def test_derivatives_of_distances_in_nil(y):
    """Up to the third, against differences of the lower ones."""
    space, x, y = gd.spaces.Nil(), ORIGIN, jnp.array(y)
    along, h = jnp.array([0.6, -0.3, 0.74]), 1e-5
    here, ahead, behind = (orders_in_nil(y + step * along) for step in (0.0, h, -h))
    for k in range(3):
        difference = (ahead[k] - behind[k]) / (2 * h)
        found = here[k + 1] @ along
        np.testing.assert_allclose(found, difference, rtol=1e-6, atol=1e-7 * float(jnp.max(jnp.abs(found))))
    end = gd.exp(space, x, gd.log(space, x, y))
    np.testing.assert_allclose(end, y, atol=1e-11)


def test_a_spring_in_nil():
    """Seen: 2e-13. The momenta are those of the fields in the order of `killing_fields`."""
    given = case("S03")
    start, end = given["input"], given["value"]
    spring = gd.Spring([(0, 1)], float(start["stiffness"]), float(start["length"]))
    body = gd.System(gd.spaces.Nil(), start["masses"], spring)
    q0, v0 = np.array(start["x0"], float), np.array(start["v0"], float)
    motion = gd.integrate(body, q0, v0, t1=float(start["t"]), steps=100)
    np.testing.assert_allclose(motion.q[-1], np.array(end["x"], float), atol=given["tolerance"])
    for k in (0, -1):
        momenta = gd.hamilton.killing_momentum(body, motion.q[k], motion.v[k])
        np.testing.assert_allclose(momenta, np.array(end["momenta"], float), atol=1e-12)


def test_the_half_plane_of_sl2_ends():
    with pytest.raises(ValueError, match=r"x = \[0.0, -1.0, 0.0\] is no point of SL2: this chart has y > 0"):
        gd.norm(gd.spaces.SL2(), [0.0, -1.0, 0.0], [1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "name, x, v",
    [
        ("SL2", [0.3, 0.8, 0.2], [0.7, 0.5, -0.6]),
        *(
            pytest.param(*given, marks=pytest.mark.long)
            for given in (
                ("Nil", [0.3, -0.4, 0.2], [0.7, 0.5, -0.6]),
                ("Nil", [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
                ("Nil", [1.0, 2.0, 0.5], [1.0, 3.0, 9.0]),
                ("SL2", [0.3, 0.8, 0.2], [-0.7, -0.5, -3.5]),
                ("SL2", [0.0, 1.0, 0.0], [0.0, 1.5, 0.0]),
                ("SL2", [0.0, 1.0, 0.0], [0.6, 0.8, 0.4]),
                ("SL2", [0.5, 2.0, 0.5], [1.0, 3.0, 9.0]),
                ("SL2", [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]),
            )
        ),
    ],
)
def test_geodesics_in_closed_form_are_those_of_the_metric(name, x, v):
    """Over several turns and none, over circles, horocycles and lines, from any point; and their derivatives."""

    def known_of(space):
        ends = gd.geodesic(space, x, v, ts=[0.0, -0.7, 1.0])
        return (*ends, jax.jacfwd(lambda v: gd.exp(space, x, v))(jnp.array(v)))

    space = gd.spaces.THURSTON[name]
    for found, wanted in zip(known_of(space), known_of(gd.Manifold(space.metric, 3)), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-11)


def test_long_geodesics_of_sl2():
    """Up and down by 30, where the matrices have numbers of the size e^15; and two halves of a way are the whole."""
    space = gd.spaces.SL2()
    for height in (30.0, -30.0):
        end = gd.exp(space, [0.5, 1.0, 0.0], [0.0, height, 0.0])
        np.testing.assert_allclose(end, [0.5, np.exp(height), 0.0], rtol=1e-13)
    start, velocity = jnp.array([0.2, 0.7, 0.1]), jnp.array([3.0, 6.0, -5.0])
    (_, half, whole), (_, there, _) = gd.geodesic(space, start, velocity, [0.0, 0.5, 1.0])
    np.testing.assert_allclose(gd.exp(space, half, there / 2), whole, rtol=1e-11)


def test_a_geodesic_of_nil():
    """One that was computed elsewhere with 34 digits."""
    given, known = case("S07")["input"], case("S07")["value"]
    start, velocity = np.array(given["x0"], float), np.array(given["v0"], float)
    ends = gd.geodesic(gd.spaces.Nil(), start, velocity, ts=[float(given["t"])])
    for found, wanted in zip(ends, (known["x"], known["v"]), strict=True):
        np.testing.assert_allclose(found[0], np.array(wanted, float), rtol=1e-14)
