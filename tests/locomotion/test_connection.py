"""Connections, shape metrics and curvatures over the zoo of swimmers."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd
from geodyn._locomotion.connections.connection import reduction

CASE = case("H06")["reference"]


class Snake(gd.AbstractSlenderSwimmer):
    lengths: jax.Array
    drag_ratio: float = 2.0
    group: gd.groups.SE2 = gd.groups.SE2()

    def links(self, r):
        angle = jnp.cumsum(jnp.concatenate([jnp.zeros(1), r]))
        step = self.lengths[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
        return jnp.concatenate([jnp.cumsum(step, axis=0) - step / 2, angle[:, None]], axis=1)


class Heisenberg(gd.AbstractConnection):
    group: gd.groups.Translation = gd.groups.Translation(1)

    def form(self, r):
        return jnp.stack([r[1], -r[0]])[None] / 2


SWIMMERS = {
    "PushMePullYou": (gd.swimmers.PushMePullYou(viscosity=0.7), jnp.array([7.0, 3.0])),
    "Purcell": (gd.swimmers.Purcell(lengths=(0.8, 1.2, 1.0), drag_ratio=1.7), jnp.array([0.4, -0.9])),
    "PushMePullYou, finite size": (gd.swimmers.PushMePullYou(finite_size=True), jnp.array([7.0, 3.0])),
    "ThreeSphere": (gd.swimmers.ThreeSphere((1.0, 0.8, 1.2), finite_size=True), jnp.array([6.0, 8.0])),
    "NLink(5)": (gd.swimmers.NLink([1.0, 0.7, 1.1, 0.9, 1.2]), jnp.array([0.3, -0.5, 0.8, 0.4])),
    "Modes of NLink(4)": (
        gd.swimmers.Modes(
            gd.swimmers.NLink([1.0, 0.7, 1.1, 0.9]), [[1.0, 0.2], [0.3, -1.0], [-0.5, 0.4]], [0.1, -0.2, 0.3]
        ),
        jnp.array([0.4, -0.6]),
    ),
    "Passive Purcell": (
        gd.swimmers.Passive(gd.swimmers.Purcell(drag_ratio=1.7), [1], 0.5, damping=0.3),
        jnp.array([0.4, -0.9]),
    ),
    "SymmetricPurcell": (gd.swimmers.SymmetricPurcell(1.0, 1.3), jnp.array([0.7, 1.1])),
    "Serpenoid": (gd.swimmers.Serpenoid(2.0, drag_ratio=1.6), jnp.array([2.0, 1.5])),
    "Serpenoid, two waves": (gd.swimmers.Serpenoid(waves=(1.0, 2.0)), jnp.array([2.0, 1.5, -1.0, 0.7])),
    "ConstantCurvature": (gd.swimmers.ConstantCurvature(2.0, 1.6, pieces=3), jnp.array([2.0, 1.5, -1.0])),
    "TriangleWave": (gd.swimmers.TriangleWave(2.0, 1.6, sharpness=5), jnp.array([2.0, 1.5])),
    "NLink(3) about its centre": (gd.swimmers.NLink([1.0, 0.7, 1.1], centred=True), jnp.array([0.3, -0.5])),
    "Snake(4)": (Snake(jnp.array([1.0, 0.7, 1.1, 0.9])), jnp.array([0.3, -0.5, 0.8])),
}
zoo = pytest.mark.parametrize("swimmer, r", SWIMMERS.values(), ids=SWIMMERS)


@pytest.mark.long
@zoo
def test_the_connection_minimises_the_power_and_the_metric_is_the_minimum(swimmer, r):
    rdot = jnp.arange(1.0, 1.0 + r.size)
    xi = -gd.connection(swimmer, r) @ rdot
    power, slope = jax.value_and_grad(swimmer.dissipation, 1)(r, xi, rdot)
    np.testing.assert_allclose(slope, 0.0, atol=1e-13 * power)  # measured 4e-16; a wrong sign of A gives O(1)
    np.testing.assert_allclose(rdot @ gd.shape_metric(swimmer, r) @ rdot, power, rtol=1e-14)
    assert np.all(np.linalg.eigvalsh(gd.shape_metric(swimmer, r)) > 0)


@zoo
def test_a_swimmer_says_how_many_shapes_it_has(swimmer, r):
    """The shape to start from, where there is one, has as many variables as are named."""
    assert swimmer.shape_count in (None, r.size)
    if swimmer.first_shape is not None:
        np.testing.assert_array_equal(swimmer.first_shape, jnp.zeros(r.size))
        np.testing.assert_array_equal(jnp.stack(swimmer.shape_region), [[-np.pi] * r.size, [np.pi] * r.size])


@pytest.mark.long
def test_an_ellipse_chain_begins_straight():
    """Around the straight shape small strokes move it along itself, so that a best one is found without a guess."""
    chain = gd.swimmers.FluidLinks()
    assert abs(gd.curvature(chain, chain.first_shape)[0, 0, 1]) > 0.5
    found = gd.optimal_stroke(chain, displacement=0.05)
    guessed = gd.optimal_stroke(chain, displacement=0.05, guess=jnp.zeros(2))
    np.testing.assert_allclose(found.cost, guessed.cost, rtol=1e-10)


@pytest.mark.long
@zoo
def test_small_loops_have_the_holonomy_of_the_curvature(swimmer, r):
    """log g = −F area + O(size³): measured 3e-5 of F at size 1e-3; the sign of the bracket alone changes 5–50 %."""
    flux, size = gd.curvature(swimmer, r), 1e-3
    loop = gd.FourierStroke(r, jnp.zeros((r.size, 1)).at[0, 0].set(size), jnp.zeros((r.size, 1)).at[1, 0].set(size))
    moved = swimmer.group.log(gd.holonomy(swimmer, loop, steps=8)) / (np.pi * size**2)
    np.testing.assert_allclose(moved, -flux[:, 0, 1], atol=1e-3 * np.max(np.abs(flux[:, 0, 1])))
    np.testing.assert_allclose(flux, -jnp.swapaxes(flux, 1, 2), atol=1e-15)


def test_a_body_made_of_another_says_what_the_other_does():
    car, body = gd.swimmers.KinematicCar(), gd.swimmers.Purcell()
    slopes = jnp.array([[[0.0, 0.0, -0.5], [0.0, 0.5, 0.0]]])
    box = jnp.array([-1.0, 0.0]), jnp.array([1.0, 3.0])
    measured = gd.bundles.MeasuredConnection(gd.groups.Translation(1), slopes, *box, ((0, 0), (1, 0), (0, 1)), 0.0)
    assert (
        gd.bundles.KaluzaKlein(car).shape_names == car.shape_names and gd.bundles.KaluzaKlein(car).first_shape is None
    )
    for made in (
        gd.bundles.Heading(body),
        gd.bundles.Reframed(body, lambda r: jnp.eye(3)),
        gd.bundles.KaluzaKlein(body),
    ):
        assert made.shape_names == body.shape_names and made.shape_count == 2
        np.testing.assert_array_equal(made.first_shape, jnp.zeros(2))
        np.testing.assert_array_equal(jnp.stack(made.shape_region), jnp.stack(body.shape_region))
    for reached in (lambda r: 2 * r, lambda r: jnp.sin(r[::-1])):
        made = gd.bundles.Reshaped(body, reached, body.shape_names)
        np.testing.assert_array_equal(made.first_shape, jnp.zeros(2))
    for other in (lambda r: r + 0.1, lambda r: r**2, lambda r: r[0] * jnp.stack([jnp.cos(r[1]), jnp.sin(r[1])])):
        assert gd.bundles.Reshaped(body, other, body.shape_names).first_shape is None
    assert gd.bundles.Reshaped(body, lambda r: 2 * r).first_shape is None  # It has no number of variables.
    spheres = gd.swimmers.ThreeSphere()
    assert gd.bundles.Reshaped(spheres, lambda r: r, spheres.shape_names).first_shape is None
    np.testing.assert_array_equal(gd.swimmers.fluid_waves(4).first_shape, jnp.zeros(2))
    assert gd.bundles.KaluzaKlein(gd.swimmers.PushMePullYou()).needs_bounds is None  # The metric is another.
    np.testing.assert_array_equal(gd.bundles.KaluzaKlein(measured).first_shape, [0.0, 1.5])
    np.testing.assert_array_equal(jnp.stack(gd.bundles.KaluzaKlein(measured).shape_region), jnp.stack(box))


def test_modes_are_a_part_of_the_hinges(as_users_run):
    """Connection and metric are those of the base along the modes, the outline is that of the bent body; what does not
    fit is refused."""
    base, matrix = gd.swimmers.NLink([1.0, 0.7, 1.1, 0.9]), jnp.array([[1.0, 0.2], [0.3, -1.0], [-0.5, 0.4]])
    rest, r = jnp.array([0.1, -0.2, 0.3]), jnp.array([0.4, -0.6])
    modes, hinges = gd.swimmers.Modes(base, matrix, rest), rest + matrix @ r
    np.testing.assert_allclose(gd.connection(modes, r), gd.connection(base, hinges) @ matrix, rtol=1e-13)
    np.testing.assert_allclose(gd.shape_metric(modes, r), matrix.T @ gd.shape_metric(base, hinges) @ matrix, rtol=1e-13)
    np.testing.assert_allclose(modes.outline(r), base.outline(hinges), rtol=1e-15)
    for wrong, message in (
        (lambda: gd.swimmers.Modes(base, [1.0, 0.0, 0.0]), r"matrix must be \[h, m\]"),
        (lambda: gd.swimmers.Modes(base, matrix, [0.1]), "rest"),
        (lambda: gd.swimmers.Modes(3, matrix), "base must be a LinkSwimmer"),
        (lambda: gd.connection(modes, [0.1, 0.2, 0.3]), "the shape r"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


@pytest.mark.weekly
@pytest.mark.long
def test_modes_are_optimised():
    """Without a guess, and with the efficiency: fewer modes do not swim for less than all of them."""
    base = gd.swimmers.NLink([1.0] * 3)
    together = gd.swimmers.Modes(base, jnp.eye(2))
    best, free = (gd.optimal_stroke(swimmer, displacement=0.1) for swimmer in (together, base))
    np.testing.assert_allclose(best.cost, free.cost, rtol=1e-9)
    four = gd.swimmers.NLink([1.0] * 4)
    waves = gd.swimmers.Modes(four, jnp.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]))
    few, many = (gd.optimal_stroke(swimmer, displacement=0.1) for swimmer in (waves, four))
    assert few.cost > many.cost and 0 < gd.efficiency(waves, few.stroke) < gd.efficiency(four, many.stroke)


def test_a_connection_can_be_written_down():
    swimmer, r = Heisenberg(), jnp.array([0.3, 0.4])
    np.testing.assert_allclose(gd.curvature(swimmer, r)[0], [[0.0, -1.0], [1.0, 0.0]], atol=1e-16)
    area = gd.holonomy(swimmer, gd.FourierStroke.circle(2.0), steps=32)[0, 1]
    np.testing.assert_allclose(area, 4 * np.pi, rtol=1e-14)


def test_purcell_at_a_point():
    """Measured 1e-15. Values at (0.5, −0.8): 25-digit integration; at (0.4, −0.9): recomputed from link velocities."""
    form, metric = jax.jit(reduction)(gd.swimmers.Purcell(), jnp.array([0.5, -0.8]))
    np.testing.assert_allclose(-form, np.array(CASE["B"], float), atol=1e-13)
    np.testing.assert_allclose(metric, np.array(CASE["D"], float), atol=1e-13)
    form, metric = jax.jit(reduction)(gd.swimmers.Purcell(), jnp.array([0.4, -0.9]))
    j = [
        [-0.109455514393843, -0.150373992666348],
        [-0.129096506756487, -0.120036002573076],
        [0.287912601622769, -0.252447540379612],
    ]
    g = [[0.180602656925954, 0.115439280694337], [0.115439280694337, 0.227498781916440]]
    np.testing.assert_allclose(-form, j, atol=2e-15)
    np.testing.assert_allclose(metric, g, atol=2e-15)


def test_pmpy_formulas():
    """Avron, Kenneth & Oaknin's closed forms; measured 3e-16."""
    swimmer, (l, v) = gd.swimmers.PushMePullYou(volume=9.0, viscosity=0.3), (7.0, 2.5)
    a1, a2 = np.cbrt(3 * np.array([v, 9.0 - v]) / (4 * np.pi))
    form, metric = jax.jit(reduction)(swimmer, jnp.array([l, v]))
    np.testing.assert_allclose(-form[0], [0.5 * (a1 - a2) / (a1 + a2), 1 / (4 * np.pi * l**2)], rtol=1e-14)
    exact = [6 * np.pi * 0.3 * a1 * a2 / (a1 + a2), 4 / 3 * 0.3 * (1 / v + 1 / (9.0 - v))]
    np.testing.assert_allclose(metric, np.diag(exact), atol=1e-14)


def test_frames_do_not_matter():
    """The frame of Snake rides on its first link, Purcell's on the middle one: same power, same shape metric."""
    r = jnp.array([0.3, 0.8])
    snake = gd.shape_metric(Snake(jnp.ones(3)), r)
    np.testing.assert_allclose(snake, gd.shape_metric(gd.swimmers.Purcell(), r), atol=1e-15)


@pytest.mark.long
@pytest.mark.float32
def test_derivatives_with_respect_to_lengths_and_drags():
    """Against central differences: measured 3e-11 relative in double precision."""
    r, eps = jnp.array([0.4, -0.9]), float(jnp.finfo(jnp.zeros(()).dtype).eps)

    def value(numbers):
        swimmer = gd.swimmers.Purcell(
            lengths=numbers[:3], drag_ratio=numbers[3], drag=numbers[4], rotational_drag=numbers[5]
        )
        return jnp.sum(gd.connection(swimmer, r)) + jnp.sum(gd.shape_metric(swimmer, r))

    numbers, h = jnp.array([1.0, 0.8, 1.1, 1.9, 1.2, 2.1]), eps ** (1 / 3)
    value = jax.jit(value)
    steps = h * jnp.eye(6)
    differences = jnp.stack([value(numbers + s) - value(numbers - s) for s in steps]) / (2 * h)
    np.testing.assert_allclose(jax.jit(jax.grad(value))(numbers), differences, atol=20 * eps ** (2 / 3))


def test_bad_numbers_are_named():
    with pytest.raises(ValueError, match="lengths must be positive"):
        gd.swimmers.Purcell(lengths=(1.0, -1.0, 1.0))
    with pytest.raises(ValueError, match="lengths must be an array of shape"):
        gd.swimmers.Purcell(lengths=(1.0, 1.0))
    with pytest.raises(ValueError, match="rotational_drag must be positive"):
        gd.swimmers.Purcell(rotational_drag=0.0)
    with pytest.raises(ValueError, match="viscosity must be finite, got nan"):
        gd.swimmers.PushMePullYou(viscosity=float("nan"))


def test_elimination_of_one_and_of_no_rotation():
    """A swimmer that only turns: the beanie, inertia in the place of drag; θ = −2π I₂/(I₁+I₂) for one turn of ψ."""

    class Beanie(gd.AbstractConnection):
        group: gd.groups.SO2 = gd.groups.SO2()

        def form(self, r):
            return jnp.full((1, 1), 0.4 / 1.7)

    turn = gd.holonomy(Beanie(), lambda t: 2 * jnp.pi * jnp.atleast_1d(t), steps=4)
    np.testing.assert_allclose(gd.groups.SO2().log(turn), -2 * np.pi * 0.4 / 1.7, rtol=1e-14)


class Odd(gd.AbstractSwimmer):
    """Displacement the area that the shape goes round, with something else in the power: a function of the body's
    velocity against the frame that does not move, and of the rate of the shape."""

    extra: Callable = eqx.field(static=True)
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        slip = xi[0] + (r[0] * rdot[1] - r[1] * rdot[0]) / 2
        return slip**2 + rdot @ rdot + self.extra(slip, rdot)


class Slips(gd.bundles.AbstractKinematicBody):
    group: gd.groups.Translation = gd.groups.Translation(1)

    def constraints(self, r, xi, rdot):
        return xi - rdot[:1] ** 2 - r[1] * rdot[1:]


NO_LAWS = {
    "Coulomb": (Odd(lambda slip, rdot: 1e-3 * jnp.abs(slip)), "must be a quadratic form"),
    "drag of one direction": (Odd(lambda slip, rdot: jnp.maximum(slip, 0.0) ** 2), "must be a quadratic form"),
    "thinning": (Odd(lambda slip, rdot: jnp.abs(rdot[0]) ** 1.5), "must be a quadratic form"),
    "a power at rest": (Odd(lambda slip, rdot: 0.1), "must be a quadratic form"),
    "driven": (Odd(lambda slip, rdot: -3 * slip**2), "must be positive definite"),
    "driven shape": (Odd(lambda slip, rdot: -3 * rdot[0] ** 2), "must be positive definite"),
    "no metric": (
        gd.bundles.KaluzaKlein(Odd(lambda slip, rdot: 0.0), lambda r: jnp.array([[1.0, 0.5], [0.0, 1.0]])),
        "symmetric",
    ),
    "in another": (gd.bundles.KaluzaKlein(Odd(lambda slip, rdot: slip**4)), "must be a quadratic form"),
    "rates": (Slips(), "must be linear"),
}


QUICK = ("Coulomb", "no metric")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in NO_LAWS]
)
def test_what_has_no_connection_gives_none(name):
    """Of no velocity it is least power, or none without slip: a form was given all the same. Inside jit it is NaN, with
    its derivative; outside the reason is said."""
    (body, reason), r, stroke = NO_LAWS[name], jnp.array([0.3, 0.4]), gd.FourierStroke.circle(0.5)
    with pytest.raises(ValueError, match=reason):
        gd.connection(body, r)
    with pytest.raises(ValueError, match=reason):
        gd.holonomy(body, stroke, steps=4)

    def along(scale):
        return gd.connection(body, r * scale), gd.holonomy(body, gd.FourierStroke.circle(scale), steps=4)[0, 1]

    for values in jax.jit(lambda scale: jax.jvp(along, (scale,), (1.0,)))(1.0):
        assert all(jnp.isnan(x).all() for x in values)


def test_what_has_a_connection_keeps_it():
    """A power whose shape and motion are mixed, and one that costs nothing in one direction."""
    for extra in (lambda slip, rdot: slip * rdot[0], lambda slip, rdot: -(rdot[0] ** 2)):
        np.testing.assert_allclose(gd.connection(Odd(extra), [0.3, 0.4])[0, 1], 0.15, rtol=1e-12)
