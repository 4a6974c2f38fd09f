"""Whatever a user's function closes over is differentiable, through every transformation, in every public name that
takes a function: they are found by their annotations, so that a new one cannot be left out."""

import functools
import inspect
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._engine.jit import with_time

Q, V = jnp.array([1.0, 0.5]), jnp.array([0.2, 0.3])
Q3 = jnp.array([0.3, 0.5, 0.2])
LINE = jnp.linspace(0.0, 1.0, 3)
PLANE = gd.spaces.Euclidean(2)


def end(system, v=V, q=Q, **options):
    last = gd.integrate(system, q, v, t1=0.5, steps=3, method=options.pop("method", gd.Gauss(2)), **options)
    return jnp.sum(last.q[-1] ** 2)


def kinetic(q, v):
    return 0.5 * v @ v


def circle(k):
    return lambda t: jnp.stack([0.5 + k * jnp.cos(2 * jnp.pi * t), jnp.sin(2 * jnp.pi * t)])


def bumpy(k):
    return gd.Manifold(lambda x: (1 + k * x @ x) * jnp.eye(2), 2)


def particle(space, *elements):
    return gd.System(space, [1.0], *elements)


def turning(load):
    body = gd.rigid.RigidBodies([1.0, 2.0, 3.0], 1.0, load)
    q, v = body.state(angular_velocity=[0.2, 1.0, 0.3])
    return end(body, v, q, method=gd.RadauIIA(2))


def pair(k):
    return lambda r: jnp.stack([jnp.stack([k * r[0], r[0]]), jnp.stack([r[0], -r[0]])])


def on_ellipsoid(k):
    return jnp.stack([0.6 * jnp.ones(()), 0.48 / jnp.sqrt(k), 0.64 * jnp.ones(())])


SWIMMER = gd.swimmers.Purcell()
FREE = gd.Lagrangian(kinetic)
MEASURED = gd.bundles.MeasuredConnection(
    gd.groups.Translation(1), jnp.ones((1, 2, 1)), -jnp.ones(2), jnp.ones(2), ((0, 0),), 0.0, 0.1 * jnp.eye(2)
)

CASES = {
    "Lagrangian": lambda k: end(gd.Lagrangian(lambda q, v: 0.5 * v @ v - k * q @ q)),
    "Lagrangian: dissipation": lambda k: end(
        gd.Lagrangian(lambda q, v: 0.5 * v @ v, dissipation=lambda q, v: k * v @ v)
    ),
    "Lagrangian: constraint": lambda k: end(
        gd.Lagrangian(lambda q, v: 0.5 * v @ v - q[1], constraint=lambda q: q[1] - 0.5 - k * (q[0] - 1)),
        jnp.stack([jnp.array(0.2), 0.2 * k]),
        method=gd.RadauIIA(2),
    ),
    "Contacts": lambda k: end(
        gd.Lagrangian(kinetic, contacts=gd.systems.Contacts(lambda q: q - 0.6 * k, restitution=k)), -V
    ),
    "Charts": lambda k: end(  # The motion is the same in units that are k times larger.
        gd.Lagrangian(
            lambda q, v: v @ v / (q @ q),
            charts=gd.systems.Charts(lambda q: jnp.where(q[0] > Q[0] + 0.05, 1.0, 0.0)[None], lambda switch, q: k * q),
        ),
    ),
    "Lagrangian: nonholonomic": lambda k: end(
        gd.Lagrangian(lambda q, v: 0.5 * v @ v - q[1], nonholonomic=lambda q, v: v[1] - k * v[0]),
        jnp.stack([jnp.array(0.2), 0.2 * k]),
        method=gd.RadauIIA(2),
    ),
    "ODE": lambda k: end(gd.ODE(lambda t, y: -k * y + jnp.sin(k * t)), None),
    "Hamiltonian": lambda k: end(gd.hamilton.Hamiltonian(lambda q, p: 0.5 * p @ p + k * q @ q)),
    "hamiltonian_field": lambda k: end(gd.ODE(gd.hamilton.hamiltonian_field(lambda q, p: p @ p + k * q @ q)), None),
    "Manifold": lambda k: end(particle(bumpy(k)), V[None], Q[None]) + gd.scalar_curvature(bumpy(k), Q),
    "Manifold: distance": lambda k: gd.distance(bumpy(k), Q, Q + V),
    "Conformal": lambda k: gd.distance(gd.spaces.Conformal(lambda x: 1 + k * x @ x, PLANE), Q, Q + V),
    "Embedded": lambda k: gd.scalar_curvature(
        gd.spaces.Embedded(lambda x: jnp.stack([x[0], x[1], k * x[0] * x[1]]), gd.spaces.Euclidean(3), 2), Q
    ),
    "KaluzaKlein": lambda k: jnp.sum(
        gd.bundles.KaluzaKlein(gd.swimmers.FallingCat(), lambda r: (1 + k * r @ r) * jnp.eye(2)).metric(
            jnp.full(5, 0.3)
        )
    ),
    "LevelSet": lambda k: jnp.sum(
        gd.riemann(gd.surfaces.LevelSet(3, lambda q: q[:1] ** 2 + k * q[1:2] ** 2 + q[2:] ** 2 - 1), on_ellipsoid(k))
        ** 2
    ),
    "PointLoad": lambda k: end(particle(PLANE, gd.loads.PointLoad(lambda t: k * t * V[None])), V[None], Q[None]),
    "Load": lambda k: turning(gd.rigid.Load(0, lambda t: k * t * Q3, lambda t: k * Q3, frame="body")),
    "Wall": lambda k: end(
        particle(PLANE, gd.Wall(lambda x: x[1] - k + 0.8)), jnp.array([[0.2, -2.0]]), Q[None], max_impacts=2
    ),
    "CapsulesOnWall": lambda k: end(
        gd.System(PLANE, [1.0, 1.0], gd.contact.CapsulesOnWall([(0, 1)], lambda x: x[1] + x[0] ** 2 - k + 0.8)),
        jnp.array([[0.2, -2.0], [0.2, -2.0]]),
        jnp.stack([Q - 0.5, Q + 0.5]),
        max_impacts=2,
    ),
    "QuasiVelocities": lambda k: end(
        gd.nonholonomic.QuasiVelocities(
            gd.Lagrangian(lambda q, v: 0.5 * v @ v - q[1], nonholonomic=lambda q, v: v[1] - k * v[0]),
            lambda q: jnp.stack([jnp.ones(1), k * jnp.ones(1)]),
        ),
        jnp.stack([jnp.array(0.2), 0.2 * k]),
    ),
    "bracket": lambda k: jnp.sum(gd.nonholonomic.bracket(lambda x: k * x**2, lambda x: x[::-1], Q)),
    "poisson_bracket": lambda k: gd.hamilton.poisson_bracket(lambda q, p: k * q @ q, lambda q, p: p @ p)(Q, V),
    "noether_momentum": lambda k: gd.hamilton.noether_momentum(FREE, lambda q: k * q, Q, V),
    "killing_defect": lambda k: jnp.sum(gd.killing_defect(PLANE, lambda x: k * x**2, Q) ** 2),
    "parallel_transport": lambda k: jnp.sum(
        gd.parallel_transport(gd.spaces.Sphere(2), lambda t: jnp.stack([k * t, t**2]), V, LINE)[-1] ** 2 * LINE[1:]
    ),
    "holonomy": lambda k: jnp.sum(gd.holonomy(SWIMMER, circle(k), steps=8) ** 3),
    "cost": lambda k: gd.cost(SWIMMER, circle(k), density=lambda s, r, rdot: k * rdot @ rdot),
    "cost of accelerations": lambda k: gd.cost(SWIMMER, circle(k), density=lambda s, r, u, a: k * a @ a + u @ u),
    "efficiency": lambda k: gd.efficiency(SWIMMER, circle(k)),
    "power": lambda k: gd.bundles.power(SWIMMER, circle(k), LINE[1]),
    "covariant_derivative": lambda k: jnp.sum(
        gd.bundles.covariant_derivative(SWIMMER, lambda r: jnp.stack([k * r[0], r[1], k]), jnp.array([0.3, 0.4])) ** 2
    ),
    "standard_errors": lambda k: jnp.sum(
        gd.bundles.standard_errors(MEASURED, lambda body: jnp.stack([k, k**2]) * body.form(Q)[0]) ** 2
    ),
    "integrability_defect": lambda k: gd.nonholonomic.integrability_defect(
        lambda q: jnp.array([[1.0, 0.0, k * q[1]]]) + 0 * k, Q3
    ),
    "Driven": lambda k: end(
        gd.System(
            PLANE, [1.0, 1.0], gd.loads.Driven(0, lambda t: jnp.stack([k * t, 0 * t])), gd.Spring([(0, 1)], 1.0, 1.0)
        ),
        jnp.stack([jnp.stack([k, 0 * k]), jnp.zeros(2)]),
        jnp.array([[0.0, 0.0], [1.0, 0.5]]),
        method=gd.RadauIIA(2),
    ),
    "Reframed": lambda k: jnp.sum(
        gd.connection(gd.bundles.Reframed(SWIMMER, lambda r: gd.groups.SE2().exp(k * jnp.stack([r[0], r[1], r[0]]))), Q)
        ** 2
    ),
    "Reshaped": lambda k: jnp.sum(
        gd.connection(gd.bundles.Reshaped(SWIMMER, lambda r: jnp.stack([k * r[0], r[0] - k * r[1]])), Q)
    ),
    "flux": lambda k: jnp.sum(gd.bundles.flux(SWIMMER, circle(k), steps=8, rings=2) ** 2),
    "principal_plane": lambda k: (
        gd.strokes.principal_plane(
            lambda t: jnp.stack([*circle(k)(t), k**2 * jnp.sin(2 * jnp.pi * t) + 0.1 * jnp.cos(4 * jnp.pi * t)])
        )[1][0, 2]
        ** 2
    ),
    "velocities": lambda k: jnp.sum(gd.builders.velocities(PLANE, lambda x: k * x**2, Q[None])),
    "sphere_quadrature": lambda k: jnp.sum(
        gd.surfaces.sphere_quadrature(lambda X: k * X, gd.spaces.Euclidean(3), nodes=4)[1]
    ),
    "symmetry_defect": lambda k: gd.hamilton.symmetry_defect(FREE, lambda q: k * q**2, Q, V),
    "Serpenoid": lambda k: jnp.sum(
        gd.connection(gd.swimmers.Serpenoid(modes=lambda s: jnp.stack([jnp.cos(k * s), jnp.sin(k * s)]), nodes=6), Q)
        ** 2
    ),
    "PointMasses": lambda k: jnp.sum(
        gd.connection(gd.swimmers.PointMasses(gd.spaces.Sphere(2), (1.0, 2.0), pair(k)), 0.3 * jnp.ones(1)) ** 2
    ),
}
ELSEWHERE = {
    "the strokes of holonomy": (
        "check_closed",
        "dense_path",
        "drifting_path",
        "join",
        "path",
        "reverse",
        "segment",
        "shift",
    ),
    "the frame along a stroke (tests/locomotion/test_along.py)": ("minimum_perturbation_along",),
    "a periodic motion in all numbers of its body and drive (tests/locomotion/test_passive.py, test_inertial.py)": (
        *("periodic_motion", "InertialSwimmer", "PeriodicStroke"),
    ),
    "methods of a class, whose numbers are fields (tests/locomotion/test_force_balance.py, test_granular.py)": (
        *("AbstractForceBalance", "CarreauLinks", "DryLinks", "GranularLinks", "PowerLawLinks"),
    ),
    "a search by scipy, or checks of numbers, which no transformation goes through": (
        *("by_arclength", "optimal_design", "optimal_stroke", "stroke_family", "free_rotation"),
    ),
    "a host loop, which says so (tests/scale/test_ensemble.py)": (*("ensemble", "Histogram", "Mean", "Quantiles"),),
    "what a plan's obstacles close over, by a guess (tests/control/test_plans.py)": ("plan",),
    "a search on the host over many demands (tests/control/test_maps.py)": ("stroke_map",),
}
LONG = (
    *(
        "CapsulesOnWall",
        "Charts",
        "Contacts",
        "Driven",
        "Hamiltonian",
        "Lagrangian: constraint",
        "Lagrangian: dissipation",
        "Lagrangian: nonholonomic",
        "Load",
    ),
    *("Manifold", "Manifold: distance", "PointLoad", "QuasiVelocities", "Reframed", "Wall", "efficiency", "flux"),
    *("Conformal", "LevelSet", "Reshaped", "holonomy", "power"),
)
CHEAP = ("poisson_bracket", "cost", "killing_defect")


def is_function(annotation) -> bool:
    return re.search(r"\bCallable\b|\bStroke\b|\bDensity\b", str(annotation)) is not None


def takes_a_function(thing) -> bool:
    """By the annotations of its parameters, or of its fields."""
    if inspect.isclass(thing):
        fields = {name: x for c in thing.__mro__ for name, x in vars(c).get("__annotations__", {}).items()}
        return any(is_function(x) for x in fields.values()) and not inspect.isabstract(thing)
    return callable(thing) and any(is_function(p.annotation) for p in inspect.signature(thing).parameters.values())


def test_no_name_is_left_out():
    rooms = [gd, *(x for name in gd.__all__ if inspect.ismodule(x := getattr(gd, name)) and name != "plot")]
    public = {f"{room.__name__}.{name}": getattr(room, name) for room in rooms for name in room.__all__}
    found = {name.split(".")[-1] for name, x in public.items() if not inspect.ismodule(x) and takes_a_function(x)}
    covered = {name.split(":")[0] for name in CASES} | {name for names in ELSEWHERE.values() for name in names}
    assert found <= covered, f"give CASES a case of {sorted(found - covered)}"


def some(quick):
    """All names; those that are not `quick` take long."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.long) for name in CASES]


@pytest.mark.parametrize("name", some(set(CASES) - set(LONG)))
def test_every_transformation(name):
    """Against central differences (seen: a few 1e-10), and the modes against each other."""
    f, k, h = CASES[name], jnp.array(0.7), 1e-5
    value = jax.jit(f)
    difference = (value(k + h) - value(k - h)) / (2 * h)

    @jax.jit
    def derivatives(k):
        return jax.grad(f)(k), jax.vmap(jax.jacfwd(f))(k[None])[0]

    backwards, forwards = derivatives(k)
    assert difference != 0
    np.testing.assert_allclose(backwards, difference, rtol=1e-6)
    np.testing.assert_allclose(forwards, backwards, rtol=1e-10)


@pytest.mark.weekly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", some(CHEAP))
def test_within_loops_and_twice(name):
    """The second derivative, and the first inside of other transformations."""
    f, k, h = CASES[name], jnp.array(0.7), 1e-5
    slope = jax.jit(jax.grad(eqx.filter_jit(f)))

    def in_scan(k):
        return jax.lax.scan(lambda c, _: (c + jax.checkpoint(f)(k), None), 0.0 * k, None, length=2)[0]

    np.testing.assert_allclose(jax.vmap(jax.grad(in_scan))(k[None])[0] / 2, slope(k), rtol=1e-10)
    np.testing.assert_allclose(jax.hessian(f)(k), (slope(k + h) - slope(k - h)) / (2 * h), rtol=1e-5, atol=1e-8)


@pytest.mark.long
def test_a_batch_that_is_not_compiled():
    """What is closed over is then a batch of numbers that no derivative is taken by; and one that has ended when a
    derivative of the compiled program is asked for."""
    f, k = CASES["Lagrangian"], jnp.array([0.7, 0.9])
    together = jax.jit(jax.vmap(f))
    np.testing.assert_allclose(jax.vmap(f)(k), together(k), rtol=1e-14)
    each = jax.jit(jax.vmap(jax.grad(f)))(k)
    np.testing.assert_allclose(jax.grad(lambda k: jnp.sum(together(k)))(k), each, rtol=1e-12)


class Held:
    """An object that is no pytree, whose method is the function."""

    def __init__(self, k):
        self.k = k

    def field(self, t, y):
        return -self.k * y

    __call__ = field


class WithFunction(eqx.Module):
    rate: object = eqx.field(static=True)

    def __call__(self, t, y):
        return -self.rate() * y


def decorated(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


def by_default(k):
    def field(t, y, k=k):
        return -k * y

    return field


def by_keyword(k):
    def field(t, y, *, k=k):
        return -k * y

    return field


KINDS = {
    "partial inside, by keyword": lambda k: decorated(functools.partial(lambda t, y, k: -k * y, k=k)),
    "default of a keyword": by_keyword,
    "partial": lambda k: functools.partial(lambda k, t, y: -k * y, k),
    "bound method": lambda k: Held(k).field,
    "object": lambda k: Held(k),
    "static field": lambda k: WithFunction(lambda: k),
    "decorated": lambda k: decorated(lambda t, y: -k * y),
    "jitted": lambda k: jax.jit(lambda t, y: -k * y),
    "nested, in a dictionary": lambda k: (lambda numbers: lambda t, y: -numbers["k"][0] * y)({"k": [k]}),
    "default": by_default,
}


@pytest.mark.long
@pytest.mark.newest
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_function(kind):
    """y' = −ky in all of them: d/dk of y(t) is −t y."""

    def last(k):
        return gd.integrate(gd.ODE(KINDS[kind](k)), Q, t1=0.5, steps=2).q[-1, 0]

    value, slope = jax.jit(jax.value_and_grad(last))(0.7)
    np.testing.assert_allclose([value, slope], [np.exp(-0.35), -0.5 * np.exp(-0.35)], rtol=1e-8)


def test_a_class_that_knows_a_traced_number_is_refused():
    """Its derivative would be zero: nothing in it is an argument of the program."""

    def last(k):
        class Pull(gd.AbstractPotential):
            def energy(self, space, x):
                return k * jnp.sum(x**2)

        return jnp.sum(gd.integrate(particle(PLANE, Pull()), Q[None], V[None], t1=0.5, steps=2).q[-1])

    assert jnp.isfinite(last(0.7))
    with pytest.raises(ValueError, match="make it a field of the class"):
        jax.jit(jax.grad(last))(0.7)


def test_time_is_told_by_its_name_and_checked_by_the_arguments():
    """A parameter t without a default; what is called in another way, or might mean another t, says the rule."""
    takes = {
        "not": lambda q, v: 0,
        "last": lambda q, v, t: t,
        "by name": lambda q, v, *, t: t,
        "not, with a default": lambda q, v, mass=0: mass,
        "in a partial": functools.partial(lambda m, q, v, t: t, 1.0),
        "in what is decorated": decorated(lambda q, v, t: t),
        "not, with any number": lambda *args: len(args) - 2,
    }
    for name, function in takes.items():
        gd.Lagrangian(function)
        assert with_time(function, 2)(3.0, 0, 0) == (0 if name.startswith("not") else 3.0), name
    wrong = lambda q: 0, lambda t, q, v: 0, lambda q, v, time: 0, lambda q, v, t=1.0: 0, lambda q, v, *, mass: 0
    for function in wrong:
        with pytest.raises(
            ValueError, match=r"lagrangian must be a function .q, v., which may name 't' besides, without"
        ):
            gd.Lagrangian(function)
