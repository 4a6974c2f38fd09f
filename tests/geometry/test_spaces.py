"""The spaces with a name: distances, isometries and embeddings obey their laws in every chart."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd
from geodyn._geometry.models.charts import squared_arc

ROUND = {
    "E1": gd.spaces.Euclidean(1),
    "E3": gd.spaces.Euclidean(3),
    "E2 polar": gd.spaces.Euclidean(2, "polar"),
    "E3 polar": gd.spaces.Euclidean(3, "polar"),
    "S1": gd.spaces.Sphere(1),
    "S3": gd.spaces.Sphere(3),
    "S2 polar": gd.spaces.Sphere(2, "polar"),
    "S3 polar": gd.spaces.Sphere(3, "polar"),
    "S4 polar": gd.spaces.Sphere(4, "polar"),
    "S3 pair": gd.spaces.Sphere(3, "stereographic pair"),
    "H1": gd.spaces.Hyperbolic(1),
    "H3": gd.spaces.Hyperbolic(3),
    "H3 polar": gd.spaces.Hyperbolic(3, "polar"),
    "H3 halfspace": gd.spaces.Hyperbolic(3, "halfspace"),
}
ZOO = ROUND | {
    "IH2": gd.spaces.Inhomogeneous(2),
    "IH3": gd.spaces.Inhomogeneous(3),
    "H2xE": gd.spaces.Product(gd.spaces.Hyperbolic(2, "polar"), gd.spaces.Euclidean(1)),
    "S2xIH": gd.spaces.Product(gd.spaces.Sphere(2), gd.spaces.Inhomogeneous(2)),
}


def points(n):
    """Two points that lie in every chart, their angles in range."""
    return jnp.array([0.5, 0.4, 0.3, 0.7])[4 - n :], jnp.array([0.2, 0.6, 0.25, 0.4])[4 - n :]


@eqx.filter_jit
def facts(space, x, y):
    """Everything that the laws below compare, compiled once a space."""

    def half(x, y):
        return gd.squared_distance(space, x, y) / 2

    def length(x, y):
        return gd.distance(space, x, y)

    count = space.killing_fields(x).shape[0]
    return {
        "metric": (space.metric(x), space.metric(y)),
        "embedded": (space.embed(x), space.embed(y), jax.jacfwd(space.embed)(x)),
        "round_trip": space.coordinates(space.embed(x)) - x,
        "length": (length(x, y), length(y, x)),
        "slopes": jax.grad(length, (0, 1))(x, y),
        "forward": jax.jvp(length, (x, y), (y, x))[1],
        "here": (half(x, x), jax.grad(half, (0, 1))(x, x), jax.hessian(half, (0, 1))(x, x)),
        "here_length": (length(x, x), jax.grad(length)(x, x), jax.jvp(length, (x, x), (x, y))[1]),
        "killing": (space.killing_fields(x), space.killing_fields(y)),
        "defects": jax.vmap(lambda k: gd.killing_defect(space, lambda x: space.killing_fields(x)[k], x))(
            jnp.arange(count)
        ),
    }


FACTS = {}


@pytest.fixture(params=ZOO)
def known(request):
    name = request.param
    if name not in FACTS:
        x, y = points(ZOO[name].dim)
        FACTS[name] = facts(ZOO[name], x, y)
    return ZOO[name], FACTS[name]


@pytest.mark.weekly
@pytest.mark.long
def test_distance_solves_the_eikonal_equation(known):
    """|grad dist| = 1 at both ends, in both modes, and dist(x, y) = dist(y, x); measured ≤ 5e-16. Any error in a
    distance or in its metric breaks it."""
    space, fact = known
    np.testing.assert_allclose(fact["length"][0], fact["length"][1], rtol=1e-15)
    for slope, g in zip(fact["slopes"], fact["metric"]):
        np.testing.assert_allclose(slope @ np.linalg.solve(g, slope), 1, rtol=1e-13)
    x, y = points(space.dim)
    np.testing.assert_allclose(fact["forward"], fact["slopes"][0] @ y + fact["slopes"][1] @ x, rtol=1e-12, atol=1e-14)


def test_coincident_points_are_regular(known):
    """½ dist² has derivative 0 and Hessian ±g there, dist the documented derivative 0; no NaN in any mode."""
    _, fact = known
    energy, slopes, hessian = fact["here"]
    g = fact["metric"][0]
    assert energy == 0
    np.testing.assert_array_equal(jnp.stack(slopes), 0)
    for i, row in enumerate(hessian):
        for j, block in enumerate(row):
            np.testing.assert_allclose(block, g if i == j else -g, rtol=1e-13, atol=1e-14)
    for number in fact["here_length"]:
        np.testing.assert_array_equal(number, 0)


def test_killing_fields_are_isometries(known):
    """L_K g = 0 (measured ≤ 1e-15 of g) and distances do not change along them (≤ 1e-15)."""
    _, fact = known
    size = jnp.max(fact["metric"][0])
    for k, defect in enumerate(fact["defects"]):
        assert jnp.max(jnp.abs(defect)) < 1e-13 * size
        change = sum(slope @ fields[k] for slope, fields in zip(fact["slopes"], fact["killing"]))
        assert abs(change) < 1e-13


def test_coordinates_undo_embed(known):
    assert jnp.max(jnp.abs(known[1]["round_trip"])) < 1e-15


@pytest.mark.parametrize("name", ROUND)
def test_chart_is_the_pull_back_of_its_embedding(name):
    """g = JᵀηJ, X on its quadric, dist by arccos and arccosh (this far apart they keep 13 digits), and every isometry:
    K = n(n+1)/2, with the rotations and translations independent; measured ≤ 2e-15."""
    space = ROUND[name]
    x, y = points(space.dim)
    fact = FACTS.setdefault(name, facts(space, x, y))
    curvature = space.chart.curvature
    X, Y, J = fact["embedded"]
    eta = np.ones(X.size)
    eta[-1] = curvature if curvature else 1
    np.testing.assert_allclose(J.T @ (eta[:, None] * J) - fact["metric"][0], 0, atol=1e-13 * np.max(J**2))
    if curvature:
        np.testing.assert_allclose(X @ (eta * X), curvature, rtol=1e-13)
    exact = {1: lambda: np.arccos(X @ Y), 0: lambda: np.linalg.norm(X - Y), -1: lambda: np.arccosh(-X @ (eta * Y))}
    np.testing.assert_allclose(fact["length"][0], exact[curvature](), rtol=1e-12)
    n = space.dim
    assert fact["killing"][0].shape == (n * (n + 1) // 2, n)
    assert np.linalg.matrix_rank(np.concatenate(fact["killing"], axis=1)) >= min(2 * n - 1, n * (n + 1) // 2)
    if name in ("S3", "H3", "H3 halfspace"):
        plane = jnp.eye(n)[0], jnp.ones(n)
        np.testing.assert_allclose(gd.sectional_curvature(space, x, *plane), curvature, atol=1e-13)


def test_killing_fields_are_ordered_as_documented():
    """At the origin the first n point along the axes; the rotation of X_0 into X_1 takes e_0 to e_1."""
    origin, e0 = jnp.zeros(3), jnp.array([0.1, 0.0, 0.0])
    for space, scale in ((gd.spaces.Euclidean(3), 1.0), (gd.spaces.Sphere(3), 0.5), (gd.spaces.Hyperbolic(3), 0.5)):
        np.testing.assert_allclose(space.killing_fields(origin)[:3], scale * jnp.eye(3), atol=1e-16)
        np.testing.assert_allclose(space.killing_fields(e0)[3], [0, 0.1, 0], atol=1e-16)


def floats(strings):
    return jnp.asarray(np.array(strings, dtype=float))


IN_POLAR = {"S3": gd.spaces.Sphere(3, "polar"), "H3": gd.spaces.Hyperbolic(3, "polar")}
slope_of = eqx.filter_jit(jax.value_and_grad(gd.distance, 2))


# (curvature, z, [s, s′, …, s⁗]) of the squared distance s = 4 arcsin²√z or 4 arcsinh²√z as a function of the haversine
# z, by mpmath with 60 digits, on both sides of where its power series ends, and near the ends of its range.
ARCS = [
    (1, 0.001, [0.0040013340449019127, 4.0026688018301983, 2.6709388255566027, 4.2776576295936422, 11.010526917190818]),
    (1, 0.0399, [0.16176904315729256, 4.109916715755312, 2.8460725577348476, 4.7374650644396082, 12.680170643149682]),
    (1, 0.0401, [0.16259108342821224, 4.1104860250330702, 2.8470203044137492, 4.7400020376556374, 12.689562999103413]),
    (1, 0.3, [1.3439289144356101, 5.0595104495642378, 4.7052281432721543, 10.649397921909263, 38.911974529425495]),
    (1, 0.999, [9.4761559440924605, 194.78851696830725, 99298.76873592115, 148994039.35399613, 372509833096.25996]),
    (
        -1,
        0.001,
        [0.0039986673773209598, 3.9973354648397192, -2.6624054792200784, 4.255714713345339, -10.932507542218318],
    ),
    (
        -1,
        0.0399,
        [0.1575213639145175, 3.8968841103901647, -2.5047649222018876, 3.8581797820889502, -9.5463351363689249],
    ),
    (
        -1,
        0.0401,
        [0.15830069064644069, 3.8963832345565937, -2.5039934771286444, 3.8562711679351002, -9.5398073534115007],
    ),
    (
        -1,
        2.0,
        [5.2552429596070486, 1.8717626202071402, -0.44656775841964176, 0.24624926132336216, -0.21530745547724333],
    ),
    (
        -1,
        1e12,
        [
            842.00459749458388,
            5.803463095406886e-11,
            -5.6034630954041843e-23,
            1.1006926190803065e-34,
            -3.2620778572393485e-46,
        ],
    ),
]


@pytest.mark.parametrize("row", ARCS, ids=str)
def test_derivatives_of_squared_distances(row):
    curvature, z, wanted = row

    def of(z):
        return squared_arc(curvature, z, 1 - z)

    functions = [of]
    for _ in wanted[1:]:
        functions.append(jax.grad(functions[-1]))
    found = np.array([f(jnp.array(z)) for f in functions])
    # Each derivative loses a factor of 1/z = 25 of its digits where the series ends.
    assert np.all(np.abs(found / np.array(wanted) - 1) < [1e-15, 1e-15, 3e-14, 1e-12, 2e-11])


@pytest.mark.parametrize("row", case("G13")["reference"]["rows"], ids=lambda row: f"{row['space']} {row['name']}")
def test_distance_far_and_near_in_polar_coordinates(row):
    """Case G13: 1e-12, near-antipodal too; measured ≤ 2e-16. arccosh loses every digit at a = 17, arccos half
    of them at 1e-6."""
    space, x, y = IN_POLAR[row["space"]], floats(row["p"]), floats(row["q"])
    length, slope = slope_of(space, x, y)
    np.testing.assert_allclose(length, float(row["dist"]), rtol=1e-12)
    np.testing.assert_allclose(slope @ (slope / jnp.diag(space.metric(y))), 1, rtol=1e-12)


REGULAR = [(gd.spaces.Sphere(3), "S3"), (gd.spaces.Hyperbolic(3), "H3"), (gd.spaces.Hyperbolic(3, "halfspace"), "H3")]


@pytest.mark.parametrize("space, model", REGULAR, ids=["stereographic", "ball", "halfspace"])
def test_distance_in_the_regular_charts(space, model):
    """Case G13 through `embed` and `coordinates`, as far as rounding of the coordinates themselves allows: they are
    wrong by eps/(unit length there); measured 4e-16 to 2e-8 (a = 17 in the ball)."""
    for row in case("G13")["reference"]["rows"]:
        if row["space"] != model:
            continue
        embed = IN_POLAR[model].embed
        x, y = (space.coordinates(embed(floats(row[key]))) for key in "pq")
        length, unit = float(row["dist"]), jnp.sqrt(jnp.max(space.metric(y)))
        size = jnp.maximum(jnp.max(jnp.abs(x)), jnp.max(jnp.abs(y)))
        allowed = 1e-12 + 16 * np.finfo(float).eps * float(unit * size) / length
        np.testing.assert_allclose(slope_of(space, x, y)[0], length, rtol=allowed)


def test_antipodal_points():
    """π exactly, with derivatives that are finite (0 where there is none); 1e-9 away still 1e-15. Without its own sum
    for cos²(d/2) the distance would be off by 1e-8."""
    x = jnp.array([0.3, -0.4, 0.2])
    space, away = gd.spaces.Sphere(3), -x / (x @ x)
    length, slope = slope_of(space, x, away)
    np.testing.assert_allclose(length, np.pi, rtol=1e-15)
    assert jnp.all(jnp.isfinite(slope))
    near = away + jnp.array([0.0, 1e-9, 0.0])
    np.testing.assert_allclose(np.pi - slope_of(space, x, near)[0], 2e-9 / (1 + away @ away), rtol=1e-6)
    polar = gd.spaces.Sphere(2, "polar")
    length, slope = slope_of(polar, jnp.array([1.0, 0.0]), jnp.array([np.pi - 1.0, np.pi]))
    np.testing.assert_allclose(length, np.pi, rtol=1e-15)
    assert jnp.all(jnp.isfinite(slope))


def test_inhomogeneous_distance():
    """Case G08, distance 1e-12 and gradient 1e-8; measured 3e-13 in row 4, whose inputs are no binary numbers and lie
    1e-3 apart, else ≤ 2e-16. The near row has the cancellation of C − 1, rows 1 and 2 that of C + x·y."""
    given, space = case("G08"), gd.spaces.Inhomogeneous(3)
    for pair, wanted in zip(given["inputs"]["pairs"], given["reference"]["rows"], strict=True):
        length, slope = slope_of(space, floats(pair["p"]), floats(pair["q"]))
        np.testing.assert_allclose(length, float(wanted["dist"]), rtol=1e-12)
        exact = floats(wanted["grad_q"])
        np.testing.assert_allclose(slope, exact, rtol=1e-12, atol=1e-13 * float(jnp.max(jnp.abs(exact))))


@eqx.filter_jit
def bent(space, x, y):
    """Hessian of ½ dist² in y, and its central difference from the gradient."""
    slope = jax.grad(lambda y: gd.squared_distance(space, x, y) / 2)
    step = 1e-5 * jnp.eye(3)
    rise = jax.vmap(slope)(y[None, :] + step) - jax.vmap(slope)(y[None, :] - step)
    return jax.jacfwd(slope)(y), rise / 2e-5


def test_inhomogeneous_distance_across_the_origin():
    """As the class has it, T + sinh T (C + x·y), for points on opposite sides: x·y < −2."""
    x, y = np.array([2.0, 0.3]), np.array([-1.9, 0.4])
    C = (-x @ y + np.sqrt((x @ y) ** 2 + 2 * (x @ x + y @ y + 2))) / 2
    wanted = np.arccosh(C) + np.sinh(np.arccosh(C)) * (C + x @ y)
    np.testing.assert_allclose(gd.distance(gd.spaces.Inhomogeneous(2), x, y), wanted, rtol=1e-13)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ZOO if ZOO[name].dim == 3])
def test_second_derivatives_of_distances(name):
    """Against differences of the gradient, apart and at 1e-3: measured ≤ 2e-9. The series near 0 and the closed form
    beyond it must agree to the second derivative."""
    x, y = points(3)
    for scale in (1.0, 1e-3):
        hessian, difference = bent(ZOO[name], x, x + scale * (y - x))
        np.testing.assert_allclose(hessian, difference, rtol=1e-7, atol=1e-7)


def test_products_add():
    a, b = gd.spaces.Hyperbolic(2), gd.spaces.Sphere(1)
    x, y = points(3)
    space = gd.spaces.Product(a, b)
    squares = gd.squared_distance(a, x[:2], y[:2]) + gd.squared_distance(b, x[2:], y[2:])
    np.testing.assert_allclose(gd.squared_distance(space, x, y), squares, rtol=1e-15)
    assert space.embed(x).shape == (5,)
    np.testing.assert_array_equal(space.metric(x)[:2, 2:], 0)


class RoundSphere(eqx.Module):
    radius: float

    def __call__(self, x):
        return self.radius * gd.spaces.Sphere(2, "polar").embed(x)


@pytest.mark.long
def test_surfaces():
    """A sphere of radius 2 has K = 1/4 and dK/dr = −2/r³; Clifford's torus in S³ is flat, which no torus in E³ is;
    S² in H³ at distance a has K = 1/sinh² a (Gauss equation)."""
    x = jnp.array([0.7, 0.3])

    def bend(r):
        return gd.scalar_curvature(gd.spaces.Embedded(RoundSphere(r), 3, 2), x) / 2

    np.testing.assert_allclose([bend(2.0), jax.grad(bend)(2.0)], [0.25, -0.25], rtol=1e-12)
    stereographic = gd.spaces.Sphere(3).coordinates

    def clifford(x):
        return stereographic(jnp.stack([f(a) for a in x for f in (jnp.cos, jnp.sin)]) / np.sqrt(2))

    flat = gd.spaces.Embedded(clifford, gd.spaces.Sphere(3), 2)
    np.testing.assert_allclose(flat.metric(x), 0.5 * jnp.eye(2), atol=1e-14)
    assert abs(gd.scalar_curvature(flat, x)) < 1e-13
    shell = gd.spaces.Embedded(lambda x: jnp.append(1.5, x), gd.spaces.Hyperbolic(3, "polar"), 2)
    np.testing.assert_allclose(gd.scalar_curvature(shell, x) / 2, 1 / np.sinh(1.5) ** 2, rtol=1e-12)
    np.testing.assert_array_equal(shell.embed(x), [1.5, 0.7, 0.3])


def test_conformal():
    """Poincaré's ball is conformal to E³."""
    x, _ = points(3)
    space = gd.spaces.Conformal(lambda x: 4 / (1 - x @ x) ** 2, gd.spaces.Euclidean(3))
    np.testing.assert_allclose(space.metric(x), gd.spaces.Hyperbolic(3).metric(x), rtol=1e-15)


REFUSED = {
    "chart": (lambda: gd.spaces.Sphere(2, "ball"), "chart must be one of 'stereographic', .*, 'polar'; got 'ball'"),
    "dim": (lambda: gd.spaces.Hyperbolic(2.5), "n must be a positive whole number, got 2.5"),
    "polar line": (lambda: gd.spaces.Euclidean(1, "polar"), ">= 2, got 1"),
    "factor": (lambda: gd.spaces.Product(gd.spaces.Sphere(2), 3), "b must be a Manifold"),
    "embedding": (
        lambda: gd.spaces.Embedded(lambda x: x, 3, 2),
        r"embedding must map .* shape \(3,\); it returned shape \(2,\)",
    ),
    "numpy": (lambda: gd.spaces.Embedded(lambda x: np.append(x, np.sin(x[0])), 3, 2), "jax.numpy"),
    "ambient": (lambda: gd.spaces.Embedded(lambda x: x, "E3", 2), "ambient must be .* a Manifold, got 'E3'"),
    "conformal": (lambda: gd.spaces.Conformal(lambda x: x, gd.spaces.Sphere(2)), r"factor must map .* shape \(\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_spaces_are_refused(name, as_users_run):
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        make()


single = eqx.filter_jit(lambda *args: (gd.distance(*args), jax.hessian(gd.squared_distance, 2)(*args)))


@pytest.mark.float32
@pytest.mark.parametrize("row", case("G13")["reference"]["rows"], ids=lambda row: f"{row['space']} {row['name']}")
def test_distance_in_single_precision(row):
    """Case G13 with rounding of the inputs allowed for: 32 eps of the coordinates over the distance; measured 2 eps."""
    space = IN_POLAR[row["space"]]
    x, y = (floats(row[key]).astype(jnp.float32) for key in "pq")
    length, bending = single(space, x, y)
    assert length.dtype == jnp.float32
    wanted, eps = float(row["dist"]), np.finfo(np.float32).eps
    if row["name"] != "close 1e-9":  # the points coincide in single precision
        np.testing.assert_allclose(length, wanted, rtol=float(32 * eps + 2 * eps / wanted))
    assert jnp.all(jnp.isfinite(bending))
