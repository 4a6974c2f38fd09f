"""Strokes of every kind: laws that hold for all of them, corners that cost no accuracy, closed forms of each."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import BSpline, make_interp_spline

import geodyn as gd
from geodyn._locomotion.strokes.stroke import shape_and_rate

STEPS = 40
FOURIER = gd.FourierStroke([0.2, -0.3], [[0.5, 0.1], [0.2, -0.1]], [[0.3, 0.0], [-0.6, 0.2]])
CORNERS = [[0.0, 0.2], [0.9, 0.1], [0.4, 1.0], [-0.5, 0.3], [0.1, -0.6], [-0.3, -0.9], [-0.2, -0.1]]


class Rolling(gd.AbstractConnection):
    """A connection without symmetry on a group that does not commute, cheap to compile."""

    group: gd.groups.SE2 = gd.groups.SE2()

    def form(self, r):
        return jnp.array([[1.0, 0.3], [-0.2, 0.5], [0.4, 1.0]]) * jnp.stack([r[1] + r[0] ** 2, 1.0 + r[0]])[None]


class Plane(gd.AbstractSwimmer):
    """A metric of shapes, and nothing that moves."""

    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        return xi[0] ** 2 + (1.0 + r[1] ** 2) * rdot[0] ** 2 + rdot[1] ** 2


STROKES = {
    "polygon": gd.strokes.PolygonStroke(CORNERS),
    "open polygon": gd.strokes.PolygonStroke(CORNERS[:3], closed=False),
    "spline": gd.strokes.SplineStroke(CORNERS),
    "clamped spline": gd.strokes.SplineStroke(CORNERS, closed=False),
    "open": gd.strokes.OpenStroke(CORNERS[0], CORNERS[1], [[0.1, 0.2], [-0.3, 0.1]]),
    "shifted": gd.strokes.shift(gd.strokes.LegendreStroke([0.2, -0.3], [[0.5, 0.1, 0.0], [0.2, -0.4, 0.1]]), 0.13),
    "joined": gd.strokes.join(
        gd.strokes.segment(FOURIER, 0.1, 0.6), gd.strokes.reverse(gd.strokes.segment(FOURIER, 0.3, 0.6))
    ),
}
zoo = pytest.mark.parametrize("stroke", STROKES.values(), ids=STROKES)


@jax.jit
def moved(stroke):
    """The holonomy; compiled once for each kind of stroke."""
    return gd.holonomy(Rolling(), stroke, steps=STEPS)


@pytest.mark.long
@zoo
def test_backwards_is_the_inverse(stroke):
    """Measured 2e-15: the nodes of the way back are those of the way there, corners included."""

    @jax.jit
    def both(stroke):
        back, times = gd.strokes.reverse(stroke), jnp.linspace(0.0, 1.0, 9)
        return jax.vmap(back)(times) - jax.vmap(stroke)(1 - times), moved(stroke) @ moved(back)

    apart, product = both(stroke)
    np.testing.assert_allclose(apart, 0.0, atol=1e-15)
    np.testing.assert_allclose(product, np.eye(3), atol=1e-13)


def test_scallops_do_not_swim():
    """There and back again, measured 2e-15; and from any other moment on."""
    there_and_back = gd.strokes.join(STROKES["polygon"], gd.strokes.reverse(STROKES["polygon"]))
    np.testing.assert_allclose(moved(there_and_back), np.eye(3), atol=1e-13)
    np.testing.assert_allclose(moved(gd.strokes.shift(there_and_back, 0.37)), np.eye(3), atol=1e-6)


@pytest.mark.long
def test_corners_cost_no_accuracy():
    """Seven sides in forty steps, against the seven sides each by itself: measured 3e-13; 2e-2 without `breaks`."""
    sides = jax.vmap(moved)(jax.vmap(gd.strokes.OpenStroke, (0, 0, None))(*ends(CORNERS), jnp.zeros((2, 1))))
    product = np.linalg.multi_dot(np.asarray(sides))
    np.testing.assert_allclose(moved(STROKES["polygon"]), product, atol=1e-10)
    polygon = STROKES["polygon"]
    lengths = jnp.linalg.norm(ends(CORNERS)[1] - ends(CORNERS)[0], axis=1)

    def squares(swimmer, r, rdot):
        return rdot @ rdot

    def taken(stroke):
        return gd.cost(Plane(), stroke, density=squares, steps=5)

    np.testing.assert_allclose(taken(polygon), 7 * jnp.sum(lengths**2), rtol=1e-13)
    np.testing.assert_allclose(taken(gd.strokes.join(polygon, polygon)), 4 * taken(polygon), rtol=1e-13)
    loop = gd.strokes.LegendreStroke([0.1, 0.2], [[0.3, 0.1], [-0.2, 0.4]])  # Its corner is where it begins.
    np.testing.assert_allclose(taken(gd.strokes.shift(loop, 0.33)), taken(loop), rtol=1e-13)


def ends(corners):
    """Where the sides of a closed polygon begin and end."""
    corners = jnp.asarray(corners)
    return corners, jnp.roll(corners, -1, axis=0)


@pytest.mark.parametrize("name", ["polygon", "shifted"])
def test_a_later_start_is_another_frame(name):
    """The first steps of a stroke, one round later: g₀(0.3) h' = h g₀(0.3)."""
    g = gd.path(Rolling(), STROKES[name], steps=STEPS)
    assert g.shape == (STEPS + 1, 3, 3)
    np.testing.assert_allclose(g[12] @ moved(gd.strokes.shift(STROKES[name], 0.3)), g[-1] @ g[12], atol=2e-6)


def bursting(t):
    """A way along a line of the length 1, of which 0.9 pass within 0.04 of the time."""
    burst = (jnp.tanh(50 * (t - 0.5)) / jnp.tanh(25.0) + 1) / 2
    return (0.9 * burst + 0.1 * t) * jnp.array([0.6, 0.8])


class Metres(gd.AbstractSwimmer):
    """The cost of a shape is the square of its Euclidean rate."""

    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        return jnp.sum(rdot**2) + xi[0] ** 2


def test_an_uneven_stroke_needs_more_steps():
    """The line at a constant rate, or a refusal: with 32 steps, whose lengths have an error of 8e-4, inside jit NaN.
    What lengths are is known: those of the line."""

    def at(t, steps):
        return gd.strokes.by_arclength(Metres(), bursting, steps=steps)(t)

    t = np.linspace(0.0, 1.0, 7)
    even = jax.vmap(gd.strokes.by_arclength(Metres(), bursting, steps=128))(t)
    np.testing.assert_allclose(even, t[:, None] * [0.6, 0.8], atol=1e-6)
    assert np.isnan(jax.jit(lambda t: at(t, 32))(0.3)).all()
    np.testing.assert_allclose(jax.jit(lambda t: at(t, 128))(0.3), [0.18, 0.24], atol=1e-6)
    halting = jax.jit(lambda t: gd.strokes.by_arclength(Metres(), lambda t: jnp.stack([t**2, t**3]), steps=8)(t))
    assert np.isnan(halting(0.3)).all()


@pytest.mark.long
def test_constant_power():
    """At constant power E = S²; the holonomy is that of any pace. Measured 1e-12 relative (E)."""
    stroke = gd.strokes.PolygonStroke(CORNERS)

    @jax.jit
    def both(even):
        energies = [gd.cost(Plane(), s, steps=STEPS) for s in (even, stroke)]
        length = gd.cost(Plane(), stroke, density=gd.costs.length, steps=STEPS)
        powers = jax.vmap(lambda t: gd.bundles.power(Plane(), even, t))((jnp.arange(29) + 0.5) / 29)
        return energies, length, powers, gd.holonomy(Rolling(), even, steps=STEPS)

    even = gd.strokes.by_arclength(Plane(), stroke, steps=STEPS)
    (energy, more), length, powers, g = both(even)
    assert more > 1.01 * length**2
    np.testing.assert_allclose(energy, length**2, rtol=1e-10)
    np.testing.assert_allclose(powers, length**2, rtol=1e-10)
    np.testing.assert_allclose(g, moved(stroke), atol=1e-10)
    np.testing.assert_allclose(even(1.0), stroke(1.0), atol=1e-14)


def test_gradients_go_through_the_pace():
    """The shape at half the length of a way, with respect to its coefficients and the metric: against differences."""

    @jax.jit
    def half(x):
        even = gd.strokes.by_arclength(Plane(), gd.strokes.OpenStroke(x[:2], x[2:4], x[4:].reshape(2, 1)), steps=16)
        return jnp.sum(even(0.5) * jnp.array([1.0, 2.0]))

    x, h = jnp.array([0.1, 0.2, 1.0, -0.5, 0.2, 0.1]), 1e-5
    differences = jnp.stack([half(x + h * e) - half(x - h * e) for e in jnp.eye(6)]) / (2 * h)
    np.testing.assert_allclose(jax.jit(jax.grad(half))(x), differences, rtol=1e-7)


def test_splines_are_those_of_scipy():
    """Values, rates and what passes through given points; measured 1e-15."""
    t, x = np.linspace(0.0, 1.0, 23), np.asarray(CORNERS)
    knots = np.concatenate([[0] * 3, np.linspace(0, 1, 5), [1] * 3])
    other = BSpline(knots, x, 3)
    r, rdot = jax.jit(jax.vmap(lambda t: shape_and_rate(STROKES["clamped spline"], t)))(t)
    np.testing.assert_allclose(r, other(t), atol=1e-14)
    np.testing.assert_allclose(rdot, other(t, 1), atol=1e-12)
    through = gd.strokes.SplineStroke.through(x)
    periodic = make_interp_spline(np.arange(8) / 7, np.concatenate([x, x[:1]]), bc_type="periodic")
    np.testing.assert_allclose(jax.jit(jax.vmap(through))(t), periodic(t), atol=1e-13)
    there = gd.strokes.SplineStroke.through(x, closed=False)
    np.testing.assert_allclose(jax.jit(jax.vmap(there))(jnp.arange(7) / 6), x, atol=1e-13)
    again = gd.strokes.SplineStroke.fit(through, 7)
    np.testing.assert_allclose(again.controls, through.controls, atol=1e-13)


def test_open_strokes_lead_from_start_to_end():
    stroke = STROKES["open"]
    np.testing.assert_allclose([stroke(0.0), stroke(1.0)], CORNERS[:2], atol=1e-15)
    polygon = STROKES["open polygon"]
    np.testing.assert_allclose([polygon(0.0), polygon(0.5), polygon(1.0)], CORNERS[:3], atol=1e-15)
    np.testing.assert_allclose(gd.strokes.segment(polygon, 0.25, 0.5)(1.0), CORNERS[1], atol=1e-15)


@pytest.mark.float32
def test_precision_is_that_of_jax():
    """Of every kind of stroke, its shapes and what they cost."""
    working = jnp.zeros(()).dtype

    def even(t):
        return gd.strokes.by_arclength(Plane(), STROKES["polygon"], steps=4)(t)

    for stroke in (*STROKES.values(), even):
        assert jax.eval_shape(stroke, jnp.zeros(())).dtype == working, stroke
    assert jax.eval_shape(lambda: gd.cost(Plane(), STROKES["spline"], steps=4)).dtype == working


REFUSED = {
    "not closed": (lambda: gd.strokes.check_closed(STROKES["open"]), r"not closed: it starts at the shape \[0.  0.2\]"),
    "shift of an open one": (lambda: gd.strokes.shift(STROKES["clamped spline"], 0.1), "not closed"),
    "gap": (
        lambda: gd.strokes.join(STROKES["open"], FOURIER),
        r"join: stroke 0 ends at the shape \[0.9 0.1\], but stroke 1",
    ),
    "shapes": (
        lambda: gd.strokes.join(lambda t: jnp.ones(1) * t, FOURIER),
        r"strokes\[0\] has 1 shape variables, strokes\[1\] 2",
    ),
    "segment": (lambda: gd.strokes.segment(FOURIER, 0.5, 0.5), "0 ≤ start < end ≤ 1, got start 0.5"),
    "corners": (
        lambda: gd.strokes.PolygonStroke([0.0, 1.0]),
        r"corners must be an array of shape \[N, m\], got shape \(2,\)",
    ),
    "controls": (lambda: gd.strokes.SplineStroke(CORNERS[:3], closed=False), "N ≥ 4 for an open one"),
    "open": (
        lambda: gd.strokes.OpenStroke([0.0], [0.0, 1.0], jnp.zeros((1, 1))),
        r"end must have shape \[m\] with m = 1",
    ),
    "density": (
        lambda: gd.cost(Plane(), STROKES["open"], density=lambda swimmer, r, rdot: jnp.log(-rdot @ rdot), steps=4),
        "cost: not a finite number; check the shapes and rates of the stroke, and the density",
    ),
    "numpy": (lambda: gd.cost(Plane(), lambda t: np.sin([t, t])), "written with jax.numpy.* cannot be traced"),
    "a number": (lambda: gd.cost(Plane(), lambda t: t), r"gives an array of shape \(\)"),
    "uneven": (lambda: gd.strokes.by_arclength(Plane(), bursting, steps=32), r"by 32 steps have .* use steps=128"),
    "still": (lambda: gd.strokes.by_arclength(Plane(), lambda t: jnp.stack([t**2, t**3]), steps=8), "stands still"),
}


@pytest.mark.parametrize("stroke, message", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(stroke, message):
    with pytest.raises(ValueError, match=message):
        stroke()


@zoo
def test_closed_strokes_are_known(stroke):
    if np.allclose(stroke(0.0), stroke(1.0)):
        gd.strokes.check_closed(stroke)
    else:
        with pytest.raises(ValueError, match="not closed"):
            gd.strokes.check_closed(stroke)
