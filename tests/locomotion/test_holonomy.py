"""Strokes, where they lead and what they cost: against closed forms, 25-digit integrations, and themselves."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd
from geodyn._locomotion.motion.holonomy import magnus
from geodyn._locomotion.strokes.stroke import shape_and_rate

H05 = case("H05")["reference"]
H06 = case("H06")["reference"]
STROKES = {
    "fourier": gd.FourierStroke([0.2, -0.3], [[0.5, 0.1], [0.2, -0.1]], [[0.3, 0.0], [-0.6, 0.2]]),
    "legendre": gd.strokes.LegendreStroke([0.2, -0.3], [[0.5, 0.1, 0.0], [0.2, -0.4, 0.1]]),
    "function": lambda t: jnp.stack([jnp.sin(2 * jnp.pi * t), jnp.exp(jnp.cos(2 * jnp.pi * t))]),
}
zoo = pytest.mark.parametrize("stroke", STROKES.values(), ids=STROKES)


def run(swimmer, stroke):
    return (gd.holonomy(swimmer, stroke), gd.cost(swimmer, stroke))


def displacement(swimmer, stroke):
    return swimmer.group.log(gd.holonomy(swimmer, stroke))


def test_purcell_circle():
    """Case H06; measured 3e-13 and 3e-15. The rate of the thesis's turning drag: only the last link drags differ."""
    g, energy = run(gd.swimmers.Purcell(), gd.FourierStroke.circle(1.0))
    exact = np.array([H06[name] for name in ("x", "y", "theta")], float)
    np.testing.assert_allclose(gd.groups.SE2().log(g), exact, atol=2e-12)
    np.testing.assert_allclose(energy / (2 * np.pi), float(H06["dissipation"]), rtol=1e-13)
    g, energy = run(gd.swimmers.Purcell(rotational_drag=1.0), gd.FourierStroke.circle(1.0))
    np.testing.assert_allclose(g[:2, 2], [-0.14282492262446, 0.03773482407376], atol=2e-12)
    np.testing.assert_allclose(energy / (2 * np.pi), 0.8298772267603, rtol=1e-13)


def test_purcell_best_circle():
    """Case H06: the gradient of the displacement vanishes at its amplitude; forward = reverse = differences."""

    @jax.jit
    def moved(a):
        far, push = jax.linearize(
            lambda a: jnp.linalg.norm(displacement(gd.swimmers.Purcell(), gd.FourierStroke.circle(a))[:2]), a
        )
        return far, push(jnp.ones_like(a)), jax.linear_transpose(push, a)(jnp.ones_like(a))[0]

    far, slope, _ = moved(float(H06["A_star"]))
    np.testing.assert_allclose(far, float(H06["displacement_star"]), rtol=1e-10)
    assert abs(slope) < 1e-8  # measured 3e-11; 0.3 at amplitude 1
    _, forward, reverse = moved(1.0)
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)
    np.testing.assert_allclose(reverse, (moved(1 + 1e-5)[0] - moved(1 - 1e-5)[0]) / 2e-5, rtol=1e-7)


def test_gradient_with_respect_to_lengths():
    stroke = STROKES["fourier"]

    def value(lengths):
        return jnp.sum(displacement(gd.swimmers.Purcell(lengths), stroke)) + gd.cost(
            gd.swimmers.Purcell(lengths), stroke
        )

    both, lengths, h = jax.jit(jax.value_and_grad(value)), jnp.array([1.0, 0.8, 1.2]), 1e-5
    differences = [(both(lengths + e)[0] - both(lengths - e)[0]) / (2 * h) for e in h * np.eye(3)]
    np.testing.assert_allclose(both(lengths)[1], differences, rtol=1e-7)  # measured 2e-10


def test_purcell_squares():
    """Corners at the ends of steps cost no accuracy: X = −(20/81) ε² (1 − 0.287426 ε²); 79.676° goes farthest."""

    @jax.jit
    def move(e):
        x, dx = jax.jvp(
            lambda e: displacement(gd.swimmers.Purcell(), gd.strokes.PolygonStroke.square(e)), (e,), (jnp.ones_like(e),)
        )
        return x, jnp.dot(x[:2], dx[:2]) / jnp.linalg.norm(x[:2])

    x, y, turn = move(0.1)[0]
    np.testing.assert_allclose(x, -20 / 81 * 0.01 * (1 - 0.287426 * 0.01), rtol=1e-5)  # next term: measured 3e-6
    np.testing.assert_allclose([y, turn], 0.0, atol=1e-14)
    best = float(np.radians(79.676))
    far, slope = move(best)
    np.testing.assert_allclose(np.linalg.norm(far[:2]), 0.2347825, atol=5e-8)
    assert abs(slope) < 1e-4  # measured 1e-6, the angle being rounded; 0.2 at 60°
    assert abs(far[2]) < 1e-13


def test_purcell_small_circles():
    small = jnp.linalg.norm(displacement(gd.swimmers.Purcell(), gd.FourierStroke.circle(0.1))[:2])
    np.testing.assert_allclose(small, 5 * np.pi / 81 * 0.01 * (1 - 0.215569 * 0.01), rtol=1e-5)


def test_pmpy_strokes():
    """Case H05: a rectangle and an ellipse; measured 1e-16 and 3e-13."""
    swimmer = gd.swimmers.PushMePullYou()
    moved = displacement(swimmer, gd.strokes.PolygonStroke([(6.0, 2.5), (9.0, 2.5), (9.0, 5.5), (6.0, 5.5)]))
    np.testing.assert_allclose(moved[0], float(H05["rectangle"]), atol=1e-10)
    ellipse = gd.FourierStroke([7.0, 4.0], [[1.5], [0.0]], [[0.0], [1.2]])
    np.testing.assert_allclose(displacement(swimmer, ellipse)[0], float(H05["ellipse"]), atol=1e-12)
    # Avron, Kenneth & Oaknin's swimmer in water on another ellipse, over 2π, by quadrature of their formulas.
    volume = 815.3
    water = gd.swimmers.PushMePullYou(volume, 0.95e-6)
    g, energy = run(water, gd.FourierStroke([32.4, 0.75 * volume], [[10.0], [0.0]], [[0.0], [100.0]]))
    np.testing.assert_allclose(g[0, 1], -1.746558707440519, rtol=1e-12)
    np.testing.assert_allclose(energy / (2 * np.pi), 0.012120897982318, rtol=1e-12)


@eqx.filter_jit
def led(stroke, start, pace, sway):
    """Where a stroke at other times leads Purcell's swimmer, and what it costs."""
    return run(gd.swimmers.Purcell(), lambda t: stroke(start + pace * t + sway * jnp.sin(2 * jnp.pi * t)))


@zoo
def test_backwards_is_the_inverse_and_costs_the_same(stroke):
    (g, energy), (back, same) = led(stroke, *np.array([0.0, 1.0, 0.0])), led(stroke, *np.array([1.0, -1.0, 0.0]))
    np.testing.assert_allclose(g @ back, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(same, energy, rtol=1e-13)


@zoo
def test_scallops_do_not_swim(stroke):
    """There and back again along the same curve: measured 2e-16."""
    g, _ = led(stroke, *np.array([0.3, 0.0, 0.2]))
    np.testing.assert_allclose(gd.groups.SE2().log(g), 0.0, atol=1e-14)


@pytest.mark.long
def test_order_six():
    """Slope of the error over steps on two logarithmic scales: measured 5.9 to 6.1 (4 without the last bracket)."""
    stroke, steps = STROKES["fourier"], np.array([12, 18, 27])
    exact = gd.holonomy(gd.swimmers.Purcell(), stroke, steps=256)
    errors = [float(jnp.max(jnp.abs(gd.holonomy(gd.swimmers.Purcell(), stroke, steps=int(n)) - exact))) for n in steps]
    assert -6.4 < np.polyfit(np.log(steps), np.log(errors), 1)[0] < -5.6


def test_order_six_on_rotations():
    """A connection on SO(3) written by hand, against 4000 small steps of the exponential midpoint rule."""

    class Rolling(gd.AbstractConnection):
        group: gd.groups.SO3 = gd.groups.SO3()

        def form(self, r):
            return jnp.stack([jnp.stack([0.0 * r[0], r[0] * 0.0 + 1.0]), jnp.stack([-jnp.ones(()), r[0]]), r])

    stroke, group = STROKES["fourier"], gd.groups.SO3()

    def midpoint(g, t):
        r, rdot = shape_and_rate(stroke, t)
        return g @ group.exp(-Rolling().form(r) @ rdot / 4000), None

    exact = jax.lax.scan(midpoint, jnp.eye(3), (jnp.arange(4000) + 0.5) / 4000)[0]
    np.testing.assert_allclose(gd.holonomy(Rolling(), stroke), exact, atol=2e-6)  # measured 3e-7, the midpoint rule's
    few, more, fine = (gd.holonomy(Rolling(), stroke, steps=steps) for steps in (16, 32, 256))
    assert np.max(np.abs(few - fine)) > 40 * np.max(np.abs(more - fine))  # 64 for the order 6, 16 for 4


def test_path_ends_at_the_holonomy_and_composes():
    swimmer, stroke = gd.swimmers.Purcell(), STROKES["fourier"]
    g = gd.path(swimmer, stroke, steps=64)
    assert g.shape == (65, 3, 3)
    np.testing.assert_array_equal(g[0], np.eye(3))
    np.testing.assert_allclose(g[-1], gd.holonomy(swimmer, stroke), atol=1e-9)
    rest = gd.holonomy(swimmer, lambda t: stroke(0.5 + t / 2))
    np.testing.assert_allclose(g[32] @ rest, g[-1], atol=1e-9)
    constant = magnus(gd.groups.SE2(), jnp.tile(jnp.array([0.3, -0.2, 2.0]), (30, 1)))
    np.testing.assert_allclose(constant[-1], gd.groups.SE2().exp(jnp.array([0.3, -0.2, 2.0])), atol=1e-14)


def test_the_torque_is_the_size_of_the_forces():
    swimmer, r, rdot = gd.swimmers.Purcell(), jnp.array([0.4, -0.7]), jnp.array([1.0, 0.3])
    metric, found = jax.jit(lambda r, rdot: (gd.shape_metric(swimmer, r), gd.costs.torque(swimmer, r, rdot)))(r, rdot)
    forces = metric @ rdot
    np.testing.assert_allclose(found, forces @ forces, rtol=1e-14)


def test_efficiency():
    """Not a matter of units; links are compared with the straight body, 3 c_t l; other swimmers must name the drag."""
    stroke = STROKES["fourier"]
    plain = gd.efficiency(gd.swimmers.Purcell(), stroke)
    moved = displacement(gd.swimmers.Purcell(), stroke)
    np.testing.assert_allclose(
        plain, 3 * (moved[0] ** 2 + moved[1] ** 2) / gd.cost(gd.swimmers.Purcell(), stroke), rtol=1e-13
    )
    scaled = gd.swimmers.Purcell(lengths=(0.01, 0.01, 0.01), drag=7.0)
    np.testing.assert_allclose(gd.efficiency(scaled, stroke), plain, rtol=1e-12)
    with pytest.raises(ValueError, match="PushMePullYou needs drag="):
        gd.efficiency(gd.swimmers.PushMePullYou(), stroke)


def test_series_fit_what_they_can_hold():
    fourier, legendre = STROKES["fourier"], STROKES["legendre"]
    again = gd.FourierStroke.fit(fourier, 4)
    np.testing.assert_allclose(again.cosine[:, :2], fourier.cosine, atol=1e-15)
    np.testing.assert_allclose(again.sine[:, 2:], 0.0, atol=1e-15)
    fitted = gd.strokes.LegendreStroke.fit(legendre, legendre.base, 5)
    np.testing.assert_allclose(fitted.coefficients[:, :3], legendre.coefficients, atol=1e-14)
    np.testing.assert_allclose(legendre(0.0), legendre.base, atol=1e-15)
    np.testing.assert_allclose(legendre(1.0), legendre(0.0), atol=1e-15)


@pytest.mark.float32
def test_single_precision_keeps_its_digits():
    """Measured 4 eps; an array made in double precision inside would raise under x64 off or change the type."""
    eps = float(jnp.finfo(jnp.zeros(()).dtype).eps)
    g, energy = run(gd.swimmers.Purcell(), gd.FourierStroke.circle(1.0))
    assert g.dtype == energy.dtype == jnp.zeros(()).dtype
    np.testing.assert_allclose(g[:2, 2], [-0.14849706430455, 0.04020109910623], atol=max(20 * eps, 2e-12))
    np.testing.assert_allclose(energy / (2 * np.pi), 1.18629694300849, rtol=20 * eps)


def test_shapes_are_checked():
    with pytest.raises(
        ValueError, match=r"sine must have shape \[m, K\] with K = 3 as cosine has it, got shape \(2, 2\)"
    ):
        gd.FourierStroke(jnp.zeros(2), jnp.zeros((2, 3)), jnp.zeros((2, 2)))
    with pytest.raises(ValueError, match="coefficients must have shape"):
        gd.strokes.LegendreStroke(jnp.zeros(2), jnp.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"steps must be .*, got 0"):
        gd.holonomy(gd.swimmers.Purcell(), gd.FourierStroke.circle(1.0), steps=0)
