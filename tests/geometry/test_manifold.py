"""Curvature and its laws, over metrics of every kind; bad metrics are refused with a remedy."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd
from geodyn._geometry.manifold.manifold import check_metric

CASE = case("C01")


def numbers(strings):
    return np.array(strings, dtype=float)


def torus(x):
    return jnp.diag(jnp.stack([jnp.ones_like(x[0]), (2 + jnp.cos(x[0])) ** 2]))


def skew(x):
    a, b, c = x
    rows = [[2 + jnp.sin(b), a * c / 3, jnp.cos(c) / 5], [a * c / 3, 1 + a**2, b * c / 4]]
    rows.append([jnp.cos(c) / 5, b * c / 4, jnp.exp(a) + b**2])
    return jnp.stack([jnp.stack(row) for row in rows])


def schwarzschild(x):
    """Mass 1, coordinates (t, r, θ, φ)."""
    lapse = 1 - 2 / x[1]
    return jnp.diag(jnp.stack([-lapse, 1 / lapse, x[1] ** 2, (x[1] * jnp.sin(x[2])) ** 2]))


class Wormhole(gd.AbstractManifold):
    throat: float = 1.0
    dim: int = eqx.field(static=True, default=2)

    def metric(self, x):
        return jnp.diag(jnp.stack([jnp.ones_like(x[0]), self.throat**2 + x[0] ** 2]))


polar = {"chart": "polar"}
SPACES = {
    "S3": gd.spaces.Sphere(3, **polar),
    "H3": gd.spaces.Hyperbolic(3, **polar),
    "H2xE": gd.spaces.Product(gd.spaces.Hyperbolic(2, **polar), gd.spaces.Euclidean(1)),
    "IH": gd.spaces.Inhomogeneous(3),
    "torus R=2 r=1 in E3": gd.Manifold(torus, 2),
    "paraboloid-like graph z=x^2*y/3+y^2/2, induced": gd.spaces.Embedded(
        lambda x: jnp.stack([x[0], x[1], x[0] ** 2 * x[1] / 3 + x[1] ** 2 / 2]), 3, 2
    ),
    "non-diagonal 3D metric": gd.Manifold(skew, 3),
}
POINTS = {row["metric"]: numbers(row["point"]) for row in CASE["inputs"]["rows"]}
ZOO = SPACES | {
    "schwarzschild": gd.Manifold(schwarzschild, 4, signature=(3, 1)),
    "wormhole": Wormhole(),
    "E4 polar": gd.spaces.Euclidean(4, **polar),
}
POINTS |= {"schwarzschild": [0.3, 5.0, 1.1, 0.4], "wormhole": [0.7, 0.2], "E4 polar": [0.9, 1.1, 0.7, 0.3]}
POINTS = {name: jnp.asarray(point) for name, point in POINTS.items()}
curvature = eqx.filter_jit(
    lambda space, x: (space.metric(x), gd.christoffel(space, x), gd.riemann(space, x), gd.ricci(space, x))
)


@pytest.mark.parametrize("row", range(7))
def test_curvature_against_computer_algebra(row):
    """Case C01, tolerance 1e-11; measured ≤ 2e-15. A transposed index or a sign moves the first digit."""
    given, wanted = CASE["inputs"]["rows"][row], CASE["reference"]["rows"][row]
    space, x = SPACES[given["metric"]], POINTS[given["metric"]]
    g, gamma, riemann, ricci = curvature(space, x)
    u, v = jnp.asarray(numbers(given["u"])), jnp.asarray(numbers(given["v"]))
    found = [gamma[0], jnp.einsum("ae,ebcd->abcd", g, riemann)[0, 1, 0, 1], ricci]
    found += [gd.scalar_curvature(space, x), gd.sectional_curvature(space, x, u, v)]
    for value, key in zip(found, ["Gamma_first", "R_0101_low", "Ricci", "scalar", "sectional_uv"], strict=True):
        np.testing.assert_allclose(value, numbers(wanted[key]), rtol=1e-11, atol=1e-13)


@pytest.mark.long
@pytest.mark.parametrize("name", ZOO)
def test_connection_and_curvature_laws(name):
    """∇g = 0, no torsion, and the symmetries of R: 1e-12 of the largest term; measured ≤ 3e-15. Each fails if one of
    the three terms of Γ, or one of the four of R, is lost or has the wrong sign."""
    space, x = ZOO[name], POINTS[name]
    g, gamma, riemann, ricci = curvature(space, x)
    parallel = jax.jacfwd(space.metric)(x) - jnp.einsum("lci,lj->ijc", gamma, g) - jnp.einsum("lcj,il->ijc", gamma, g)
    low = jnp.einsum("ae,ebcd->abcd", g, riemann)
    laws = [
        (parallel, g),
        (gamma - gamma.swapaxes(1, 2), gamma),
        (low + low.swapaxes(0, 1), low),
        (low + low.swapaxes(2, 3), low),
        (low - low.transpose(2, 3, 0, 1), low),
        (low + low.transpose(0, 2, 3, 1) + low.transpose(0, 3, 1, 2), low),
        (ricci - ricci.T, ricci),
    ]
    for defect, size in laws:
        assert jnp.max(jnp.abs(defect)) <= 1e-12 * jnp.maximum(jnp.max(jnp.abs(size)), 1.0)


def test_a_point_of_a_product_is_in_both_charts():
    space = gd.spaces.Product(gd.spaces.Hyperbolic(2), gd.spaces.Euclidean(1))
    check_metric(space, [0.5, 0.0, 7.0])
    with pytest.raises(ValueError, match="is no point of Product"):
        check_metric(space, [2.0, 0.0, 0.1])


def test_sectional_curvature_is_that_of_the_plane():
    """Whichever vectors span it: 1 on the sphere, for oblique ones too."""
    x, u, v = np.array([[0.3, -0.2, 0.5], [1.0, 0.4, 0.0], [0.9, 0.7, -0.2]])
    np.testing.assert_allclose(gd.sectional_curvature(gd.spaces.Sphere(3), x, u, v), 1.0, rtol=1e-12)


def test_lorentzian_metric():
    """Schwarzschild: no Ricci curvature (measured 4e-17), Kretschmann scalar 48 m²/r⁶ (MTW 31.7)."""
    g, _, riemann, ricci = curvature(ZOO["schwarzschild"], POINTS["schwarzschild"])
    inverse = jnp.linalg.inv(g)
    low = jnp.einsum("ae,ebcd->abcd", g, riemann)
    kretschmann = jnp.einsum("abcd,efgh,ae,bf,cg,dh", low, low, inverse, inverse, inverse, inverse)
    assert jnp.max(jnp.abs(ricci)) < 1e-14
    np.testing.assert_allclose(kretschmann, 48 / 5.0**6, rtol=1e-12)


def test_wormhole_and_the_derivative_in_its_throat():
    """K = −b²/(b² + l²)² (Ellis 1973) for a subclass with one method, and dK/db; measured 2e-16."""
    x, b = POINTS["wormhole"], 1.3

    def curvature_of(b):
        return gd.scalar_curvature(Wormhole(b), x) / 2

    def exact(b):
        return -(b**2) / (b**2 + x[0] ** 2) ** 2

    np.testing.assert_allclose(curvature_of(b), exact(b), rtol=1e-12)
    np.testing.assert_allclose(jax.grad(curvature_of)(b), jax.grad(exact)(b), rtol=1e-12)
    np.testing.assert_allclose(jax.jacfwd(curvature_of)(b), jax.grad(exact)(b), rtol=1e-12)


def test_a_metric_may_be_a_module_or_close_over_what_is_differentiated():
    """d/ds of |v| in s² I is |v|."""

    class Scaled(eqx.Module):
        s: jax.Array

        def __call__(self, x):
            return self.s**2 * jnp.eye(2)

    x, v = jnp.zeros(2), jnp.array([3.0, 4.0])
    grad = eqx.filter_grad(lambda metric: gd.norm(gd.Manifold(metric, 2), x, v))(Scaled(jnp.array(2.0)))
    np.testing.assert_allclose(grad.s, 5.0)
    closed = jax.jit(jax.grad(lambda s: gd.norm(gd.Manifold(lambda x: s**2 * jnp.eye(2), 2), x, v)))(2.0)
    np.testing.assert_allclose(closed, 5.0)
    assert jax.jit(lambda space: gd.inner(space, x, v, 2 * v))(gd.Manifold(lambda x: jnp.eye(2), 2)) == 50


def test_norm_of_the_zero_vector_has_a_finite_derivative():
    """0, not the NaN of √ at 0."""
    space, x = ZOO["wormhole"], POINTS["wormhole"]
    for derivative in (jax.grad, jax.jacfwd):
        np.testing.assert_array_equal(derivative(gd.norm, 2)(space, x, jnp.zeros(2)), 0)


def test_killing_defect():
    """A dilation stretches g by 2 per unit; a rotation does nothing; a shear gives its symmetric part."""
    space, x = gd.spaces.Euclidean(2), jnp.array([0.3, 0.7])
    shear = jnp.array([[0.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(gd.killing_defect(space, lambda x: x, x), 2 * jnp.eye(2))
    np.testing.assert_allclose(gd.killing_defect(space, lambda x: (shear - shear.T) @ x, x), 0)
    np.testing.assert_allclose(gd.killing_defect(space, lambda x: shear @ x, x), shear + shear.T)
    turn = gd.killing_defect(ZOO["wormhole"], lambda x: jnp.array([1.0, 0.0]), POINTS["wormhole"])
    np.testing.assert_allclose(turn, jnp.diag(jnp.array([0.0, 1.4])))  # ∂_l (b² + l²) = 2 l


def filled(x):
    g = np.zeros((2, 2))
    g[0, 0], g[1, 1] = 1.0, x[0]
    return g


FLAT = {"metric": lambda x: jnp.eye(2), "dim": 2}
REFUSED = {
    "no function": ({"metric": 3.0}, "metric must be a function"),
    "math": ({"metric": lambda x: jnp.diag(jnp.array([1.0, math.sin(x[0])]))}, "jax.numpy"),
    "numpy": ({"metric": lambda x: np.diag([1.0, np.sin(x[0])])}, "jax.numpy"),
    "filled": ({"metric": filled}, "jax.numpy"),
    "branch": ({"metric": lambda x: jnp.eye(2) if x[0] > 0 else 2 * jnp.eye(2)}, "jax.numpy"),
    "list": ({"metric": lambda x: [[1.0, 0.0], [0.0, x[0]]]}, "returned a list"),
    "shape": ({"metric": lambda x: jnp.eye(3)}, r"shape \(2, 2\); it returned shape \(3, 3\)"),
    "whole numbers": ({"metric": lambda x: jnp.eye(2, dtype=int)}, "floating"),
    "dim": ({"dim": 0}, "dim must be a positive whole number, got 0"),
    "signature": ({"signature": (1, 2)}, r"p \+ q = dim = 2; got \(1, 2\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_manifolds_are_refused(name, as_users_run):
    changes, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as info:
        gd.Manifold(**(FLAT | changes))
    assert len(str(info.value)) < 300, "the message must be short"


def test_bad_metrics_are_refused_at_a_point():
    def refuse(metric, x, message, **kwargs):
        with pytest.raises(ValueError, match=message):
            check_metric(gd.Manifold(metric, 2, **kwargs), x)

    refuse(lambda x: jnp.log(x[0]) * jnp.eye(2), [-1.0, 0.0], "not finite")
    refuse(lambda x: jnp.eye(2), [math.nan, 0.0], "finite")
    refuse(lambda x: jnp.array([[1.0, 0.0], [0.1, 1.0]]), [1.0, 0.0], "symmetric")
    refuse(lambda x: jnp.diag(jnp.array([-1.0, 1.0])), [1.0, 0.0], "positive definite.*declare it")
    refuse(lambda x: jnp.diag(jnp.stack([x[0], 1.0])), [0.0, 0.0], "singular point")
    refuse(lambda x: jnp.eye(2), [1.0, 0.0, 0.0], r"x must have shape \(..., 2\)")
    lorentzian = gd.Manifold(lambda x: jnp.diag(jnp.array([-1.0, 1.0])), 2, signature=(1, 1))
    refuse(lorentzian.metric, [1.0, 0.0], "positive definite")
    check_metric(lorentzian, [1.0, 0.0], signature=(1, 1))
    check_metric(gd.spaces.Hyperbolic(3, "polar"), [[15.0, 1.0, 0.2], [0.1, 2.0, 3.0]])  # g from 1 to 1e12


@pytest.mark.float32
def test_curvature_in_single_precision():
    """Case C01 asks for 1e-4; measured 2e-6."""
    x = jnp.asarray(POINTS["non-diagonal 3D metric"], jnp.float32)
    curvature = gd.scalar_curvature(ZOO["non-diagonal 3D metric"], x)
    assert curvature.dtype == jnp.float32
    np.testing.assert_allclose(curvature, float(CASE["reference"]["rows"][6]["scalar"]), rtol=1e-4)


VERBS = {
    "christoffel": gd.christoffel,
    "riemann": gd.riemann,
    "ricci": gd.ricci,
    "scalar": gd.scalar_curvature,
    "gaussian": gd.surfaces.gaussian_curvature,
    "sectional": lambda space, x: gd.sectional_curvature(space, x, [1, 0], [0, 1]),
    "inner": lambda space, x: gd.inner(space, x, [1, 0], [0, 1]),
    "norm": lambda space, x: gd.norm(space, x, [1, 0]),
    "killing": lambda space, x: gd.killing_defect(space, lambda x: x, x),
}


@pytest.mark.parametrize("name", VERBS)
def test_points_of_any_form_and_no_other_shape(name):
    """Lists of ints are points as in `integrate`; a point of another shape, and a metric that is not symmetric, are
    errors that say so."""
    verb, sphere = VERBS[name], gd.spaces.Sphere(2)
    np.testing.assert_array_equal(verb(sphere, [0, 1]), verb(sphere, jnp.array([0.0, 1.0])))
    with pytest.raises(
        ValueError,
        match=r"x must have shape (\(2,\) in this space of dim 2, got \(3,\)|\[n\] with n = 2 as space has it)",
    ):
        verb(sphere, jnp.zeros(3))
    if name not in ("inner", "norm", "killing"):
        skew = gd.Manifold(lambda x: jnp.array([[1.0, 0.3], [0.0, 1.0]]), 2)
        with pytest.raises(ValueError, match=r"the metric at x = \[0.0, 1.0\] must be symmetric"):
            verb(skew, [0, 1])
