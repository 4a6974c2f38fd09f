"""Bodies that roll and bodies on blades, against closed forms; quasi-velocities; distributions and their brackets."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd
from geodyn import nonholonomic

CASE = case("N01")
STEPS = 600


def numbers(group, name):
    return {key: np.array(value, float) for key, value in CASE[group][name].items()}


def penny():
    given, found = numbers("inputs", "penny"), numbers("reference", "penny")
    body = nonholonomic.Penny(given["m"], given["R"], given["I"], given["J"])
    q0 = jnp.stack([given["x0"], given["y0"], given["heading0"], 0.0])
    u0 = jnp.stack([given["yaw"], given["roll"]])
    wanted = [found["x"], found["y"], found["heading"], found["roll"]]
    return body, (2, 3), q0, body.basis(q0) @ u0, given["t"], lambda q: q, wanted


def sleigh():
    given, found = numbers("inputs", "sleigh"), numbers("reference", "sleigh")
    body, q0 = nonholonomic.Sleigh(given["m"], given["I"], given["a"]), jnp.zeros(3)
    wanted = [found["blade_x"], found["blade_y"], found["heading"]]
    return body, body.basis, q0, body.basis(q0) @ jnp.stack([given["v0"], given["w0"]]), given["t"], lambda q: q, wanted


def knife_edge():
    given, found = numbers("inputs", "knife"), numbers("reference", "knife")
    body, q0 = nonholonomic.Sleigh(downhill=given["g"] * np.sin(given["slope"])), jnp.zeros(3)
    v0 = body.basis(q0) @ jnp.stack([0.0, given["spin"]])
    return body, body.basis, q0, v0, given["t"], lambda q: q[:2], [found["x"], found["y"]]


class Skewed(gd.nonholonomic.AbstractPfaffian):
    """z' = y x'."""

    size: int = 1

    def rate(self, space, x, v):
        return v[:, 2] - x[:, 1] * v[:, 0]


def particle():
    given, found = numbers("inputs", "particle"), numbers("reference", "particle")
    body, y, vx, vy = gd.System(gd.spaces.Euclidean(3), [1.0], Skewed()), given["y0"], given["vx0"], given["vy0"]
    q0, v0 = jnp.array([[0.0, y, 0.0]]), jnp.array([[vx, vy, y * vx]])
    return body, (0, 1), q0, v0, given["t"], lambda q: q[0], [found["x"], found["y"], found["z"]]


def ball():
    given, found = numbers("inputs", "turntable"), numbers("reference", "turntable")
    body = gd.rigid.RigidBodies([0.4, 0.4, 0.4], 1.0, nonholonomic.Rolling(turntable=given["Omega"]))
    (x, y), (vx, vy), turn = given["r0"], given["v0"], given["Omega"]
    q0, v0 = body.state(
        position=[x, y, 1.0], velocity=[vx, vy, 0.0], angular_velocity=[turn * x - vy, vx + turn * y, 0.0]
    )
    return body, (3, 4, 5, 6), q0, v0, given["t"], lambda q: q[0, :2], found["r"]


ZOO = {f.__name__: f for f in (penny, sleigh, knife_edge, particle, ball)}
WAYS = [(name, "multipliers") for name in ZOO if name != "penny"] + [(name, "quasi") for name in ("penny", "sleigh")]


@pytest.mark.long
@pytest.mark.parametrize(("name", "way"), WAYS)
def test_closed_forms(name, way):
    """Case N01. Seen, by multipliers and Radau IIA: 1e-14 (particle; the penny too), 3e-13 (sleigh, ball), 2e-11
    (knife edge); by quasi-velocities and Gauss 2e-15. |Av| 1e-14 and 3e-15. A vakonomic sleigh is elsewhere."""
    body, basis, q0, v0, t1, seen, wanted = ZOO[name]()
    system = gd.nonholonomic.QuasiVelocities(body, basis) if way == "quasi" else body
    trajectory = gd.integrate(system, q0, v0, t1=t1, steps=STEPS)
    exact = way == "quasi" or name == "particle"
    np.testing.assert_allclose(seen(trajectory.q[-1]), wanted, rtol=0, atol=1e-13 if exact else 1e-10)
    flat = trajectory.q.reshape(STEPS + 1, -1), trajectory.v.reshape(STEPS + 1, -1)
    slip = jax.vmap(lambda t, q, v: body.pfaffian(t, q, v))(trajectory.t, *flat)
    assert np.max(np.abs(slip)) < (2e-14 if exact else 1e-12)
    if name != "ball":  # The table does work.
        np.testing.assert_allclose(trajectory.energy, trajectory.energy[0], rtol=1e-13 if exact else 1e-10)


@pytest.mark.long
def test_the_sleigh_turns_around_by_a_known_angle_and_comes_back():
    """The whole turn from t = −∞ to ∞; and Gauss with quasi-velocities is time-reversible: back it comes, to 4e-15,
    from where the way forwards is not stable. The multiplier is the force of the blade, m(a ω' + v ω)."""
    body, basis, q0, v0, t1, *_ = sleigh()
    system = gd.nonholonomic.QuasiVelocities(body, basis)
    there = gd.integrate(system, q0, v0, t1=t1, steps=STEPS)
    back = gd.integrate(system, there.q[-1], -there.v[-1], t1=t1, steps=STEPS)
    np.testing.assert_allclose(back.q[-1], q0, atol=1e-13)
    far = [gd.integrate(system, q0, sign * v0, t1=60.0, steps=STEPS).q[-1, 2] for sign in (1, -1)]
    turned = float(CASE["reference"]["sleigh"]["total_heading_change_from_minus_to_plus_infinity"])
    assert abs(far[0] - far[1] - turned) < 1e-9
    held = gd.integrate(body, q0, v0, t1=t1, steps=STEPS)
    speed, spin = jax.vmap(lambda q, v: body.basis(q).T @ v)(held.q, held.v).T
    a, m, inertia = body.offset, body.mass, body.inertia
    force = m * speed * spin * (1 - m * a**2 / (inertia + m * a**2))
    np.testing.assert_allclose(held.multipliers[1:, 0], force[1:], rtol=1e-5)


@pytest.mark.long
def test_gradients_through_a_sleigh():
    """End point with respect to offset, speed and spin: backwards through the multipliers, forwards through
    quasi-velocities, and by differences. Seen: they agree to 5e-10."""

    def end(p, way):
        body, q0 = nonholonomic.Sleigh(1.2, 0.3, p[0]), jnp.zeros(3)
        system = gd.nonholonomic.QuasiVelocities(body, body.basis) if way else body
        return gd.integrate(system, q0, body.basis(q0) @ p[1:], t1=1.0, steps=50).q[-1, 0]

    p, along = jnp.array([0.25, 0.4, 2.5]), jnp.array([1.0, 2.0, -1.0])
    held, reduced = (eqx.filter_jit(lambda p, way=way: end(p, way)) for way in (False, True))
    slopes = jax.grad(held)(p)
    differences = [(reduced(p + 1e-5 * e) - reduced(p - 1e-5 * e)) / 2e-5 for e in np.eye(3)]
    np.testing.assert_allclose(slopes, differences, atol=1e-8)
    assert abs(jax.jvp(reduced, (p,), (along,))[1] - along @ slopes) < 1e-8


@pytest.mark.long
def test_parallel_parking_is_a_holonomy():
    """A car whose wheels are driven along a loop (rheonomic holonomic constraints beside the nonholonomic ones, all in
    one multiplier vector) ends where the connection of the kinematic car says; it has gone sideways. Seen: 4e-12."""
    stroke = gd.FourierStroke([0.0, 0.0], [[0.4], [0.0]], [[0.0], [0.5]])
    car, kinematic = nonholonomic.Car(wheelbase=0.8, radius=0.5), gd.swimmers.KinematicCar(0.8, 0.5)
    driven = gd.Lagrangian(
        lambda q, v: car.lagrangian_at(0.0, q, v),
        constraint=lambda q, t: q[3:] - stroke(t),
        nonholonomic=lambda q, v: car.pfaffian(0.0, q, v),
    )
    shape, rate = jax.jvp(stroke, (jnp.zeros(()),), (jnp.ones(()),))
    q0 = jnp.concatenate([jnp.zeros(3), shape])
    trajectory = gd.integrate(driven, q0, car.basis(q0) @ rate, t1=1.0, steps=100, method=gd.RadauIIA(3, "index2"))
    x, y, turn = trajectory.q[-1, :3]
    there = gd.holonomy(kinematic, stroke, steps=100)
    np.testing.assert_allclose([x, y, jnp.sin(turn)], [there[0, 2], there[1, 2], there[1, 0]], atol=1e-10)
    assert trajectory.multipliers.shape == (101, 5) and abs(turn) > 0.1


def test_brackets_and_integrability():
    """The contact form dz − y dx leaves no surface: its defect is 1/(1 + y²), and [X, Y] of its kernel points out of
    it; multiplied by a function it is the same distribution. A gradient is one, and so is what it is multiplied by. For
    a car: steering and driving do not commute, and wriggle, the bracket with driving again, is to go sideways."""
    q = jnp.array([0.1, 0.7, 0.2])

    def contact(q):
        return jnp.stack([-q[1], 0.0 * q[1], 1.0 + 0.0 * q[1]])

    assert abs(gd.nonholonomic.integrability_defect(contact, q) - 1 / 1.49) < 1e-15

    def scaled(q):
        return jnp.exp(q[0] * q[2]) * contact(q)

    assert abs(gd.nonholonomic.integrability_defect(scaled, q) - 1 / 1.49) < 1e-15
    exact = jax.grad(lambda q: jnp.sin(q[0] * q[1]) + q[2] ** 2)
    assert gd.nonholonomic.integrability_defect(exact, q) < 1e-16
    assert gd.nonholonomic.integrability_defect(lambda q: jnp.exp(q[1]) * exact(q), q) < 1e-15

    def X(q):
        return jnp.stack([1.0 + 0.0 * q[1], 0.0 * q[1], q[1]])

    np.testing.assert_allclose(gd.nonholonomic.bracket(X, lambda q: jnp.array([0.0, 1.0, 0.0]), q), [0, 0, -1])
    car, q = nonholonomic.Car(wheelbase=0.8, radius=0.5), jnp.array([0.0, 0.0, 0.0, 0.0, 0.3])
    drive, steer = (lambda q, i=i: car.basis(q)[:, i] for i in range(2))

    def wriggle(q):
        return gd.nonholonomic.bracket(steer, drive, q)

    secant = 1 / jnp.cos(0.3) ** 2
    np.testing.assert_allclose(wriggle(q), [0, 0, 0.5 * secant / 0.8, 0, 0], atol=1e-15)
    np.testing.assert_allclose(
        gd.nonholonomic.bracket(wriggle, drive, q), [0, 0.25 * secant / 0.8, 0, 0, 0], atol=1e-15
    )

    def rows(q):
        return jax.jacfwd(lambda v: car.pfaffian(0.0, q, v))(jnp.zeros(5))

    assert gd.nonholonomic.integrability_defect(rows, q) > 0.1


BODY = nonholonomic.Sleigh(1.2, 0.3, 0.25)
Q, V = np.zeros(3), np.array([0.4, 0.0, 2.5])


def run(system=BODY, v0=V, **options):
    return gd.integrate(system, Q, v0, t1=1.0, steps=10, **options)


def blade(q, v):
    return BODY.pfaffian(0.0, q, v)


def bound(nonholonomic):
    return gd.Lagrangian(lambda q, v: v @ v / 2, nonholonomic=nonholonomic)


WRONG = {
    "v0": (lambda: run(v0=[0.4, 1.0, 2.5]), r"v0 violates the constraint nonholonomic\[0\] by 1; .*project"),
    "redundant": (
        lambda: run(bound(lambda q, v: jnp.concatenate([blade(q, v), 2 * blade(q, v)]))),
        r"redundant .* nonholonomic\[0\], nonholonomic\[1\]; remove one of them, or start where",
    ),
    "redundant in project": (
        lambda: gd.project(bound(lambda q, v: jnp.concatenate([blade(q, v), 2 * blade(q, v)])), Q, V),
        r"dependent on each other are φ\[0\], φ\[1\]",
    ),
    "not affine": (lambda: run(bound(lambda q, v: v[1] * (1 + v[0]))), r"nonholonomic\[0\] must be affine in v"),
    "gauss": (lambda: run(method=gd.Gauss(2)), r"cannot hold .* 1 constraint\(s\).*gd.nonholonomic.QuasiVelocities"),
    "rs3": (lambda: run(method=gd.RadauIIA(3, "rs3")), "formulation='rs3' bounds only the end"),
    "function": (lambda: bound(3.0), "nonholonomic must be a function"),
    "mass": (lambda: nonholonomic.Car(mass=0.0), "mass must be positive"),
    "radii": (lambda: nonholonomic.Rolling(2, radii=[1.0, 1.0, 1.0]), "radii must be one number or one for each of 2"),
    "basis kind": (lambda: gd.nonholonomic.QuasiVelocities(BODY, 2.0), "basis must be a function"),
    "basis shape": (
        lambda: run(gd.nonholonomic.QuasiVelocities(BODY, lambda q: jnp.eye(3))),
        r"basis must have shape \(3, 2\)",
    ),
    "basis slips": (
        lambda: run(gd.nonholonomic.QuasiVelocities(BODY, lambda q: jnp.eye(3)[:, 1:])),
        "violate them by 1",
    ),
    "basis singular": (
        lambda: run(gd.nonholonomic.QuasiVelocities(BODY, lambda q: jnp.zeros((3, 2)).at[0].set(1.0))),
        "dependent columns at q0: rank 1 of 2",
    ),
    "no coordinates": (lambda: run(gd.nonholonomic.QuasiVelocities(BODY, (1, 2))), "NaN: the other coordinates"),
    "contacts": (
        lambda: gd.System(gd.spaces.Euclidean(3), [1.0], Skewed(), gd.Wall(lambda x: x[2])),
        "must not hold contacts .Wall. and nonholonomic constraints .Skewed. together",
    ),
    "quasi contacts": (
        lambda: gd.nonholonomic.QuasiVelocities(
            gd.System(gd.spaces.Euclidean(3), [1.0], gd.Wall(lambda x: x[2])), (0, 1)
        ),
        "QuasiVelocities knows no contacts",
    ),
    "quasi friction": (
        lambda: gd.nonholonomic.QuasiVelocities(
            gd.System(gd.spaces.Euclidean(3), [1.0], Skewed(), gd.friction.DryFriction(1.0)), (0, 1)
        ),
        "QuasiVelocities knows no dry friction",
    ),
    "form": (
        lambda: gd.nonholonomic.integrability_defect(lambda q: jnp.ones((2, 3)), Q),
        "form must have independent rows",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs_are_named(name, as_users_run):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_energy_of_a_car():
    """By hand: the whole without its front axle, the wheels, and the axle, which turns at θ' + δ'."""
    car = nonholonomic.Car(mass=1.5, inertia=0.9, offset=0.4, wheel_inertia=0.2, steering_inertia=0.3)
    q, v = jnp.array([0.1, 0.2, 0.7, 0.0, 0.3]), jnp.array([0.5, -0.4, 0.8, 1.1, 0.6])
    centre = v[:2] + 0.4 * v[2] * jnp.array([-jnp.sin(q[2]), jnp.cos(q[2])])
    axle, rest = 0.3 * (v[2] + v[4]) ** 2, (0.9 - 0.3) * v[2] ** 2 + 0.2 * v[3] ** 2
    np.testing.assert_allclose(gd.energy(car, q, v), (1.5 * centre @ centre + axle + rest) / 2, rtol=1e-14)


def test_a_basis_may_change_with_time():
    """A blade that is turned at unit rate glides at constant speed in a circle, whatever the length of its basis."""

    def ahead(t):
        return jnp.stack([jnp.cos(t), jnp.sin(t)])

    blade = gd.Lagrangian(
        lambda q, v: v @ v / 2, nonholonomic=lambda q, v, t: (ahead(t)[0] * v[1] - ahead(t)[1] * v[0])[None]
    )
    body = gd.nonholonomic.QuasiVelocities(blade, lambda q, t: (1 + t) * ahead(t)[:, None])
    t = gd.integrate(body, [0.0, 0.0], [1.0, 0.0], t1=2.0, steps=20)
    np.testing.assert_allclose(t.q, np.stack([np.sin(t.t), 1 - np.cos(t.t)], axis=1), atol=1e-9)


def test_project_makes_velocities_roll():
    """Orthogonally in the kinetic metric: what is taken away is normal to all that the blade admits. Seen: 2e-16."""
    q, v = gd.project(BODY, [0.1, 0.2, 0.3], [1.0, 2.0, 3.0])
    assert np.max(np.abs(BODY.pfaffian(0.0, q, v))) < 1e-15
    lost = gd.momentum(BODY, q, jnp.array([1.0, 2.0, 3.0])) - gd.momentum(BODY, q, v)
    assert np.max(np.abs(BODY.basis(q).T @ lost)) < 1e-14
