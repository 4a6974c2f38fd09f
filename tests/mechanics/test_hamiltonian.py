"""The Hamiltonian view: Legendre transforms, brackets, symmetries, and volumes of phase space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

CHARGE, FIELD, MASS = 0.7, 1.3, 1.6
Q, V = jnp.array([0.4, -0.7]), jnp.array([0.3, 0.5])


def turned(q):
    """The field of rotations about the origin."""
    return jnp.stack([-q[1], q[0]])


def central(q):
    return 0.5 * q @ q + 0.1 * (q @ q) ** 2


PENDULUM = gd.hamilton.Hamiltonian(lambda q, p: jnp.sqrt(1 + p @ p) - jnp.cos(q[0]))
START, SHORT = (jnp.array([0.4]), jnp.array([2.0])), {"t1": 0.9, "steps": 4, "method": gd.Gauss(2)}

# L(q, v) and, by hand, H(q, p) of the same motion.
ZOO = {
    "central force": (lambda q, v: 0.5 * MASS * v @ v - central(q), lambda q, p: p @ p / (2 * MASS) + central(q)),
    "polar chart": (
        lambda q, v: 0.5 * (v[0] ** 2 + q[0] ** 2 * v[1] ** 2) + 1 / q[0],
        lambda q, p: 0.5 * (p[0] ** 2 + p[1] ** 2 / q[0] ** 2) - 1 / q[0],
    ),
    "charge in a field": (
        lambda q, v: 0.5 * MASS * v @ v + 0.5 * CHARGE * FIELD * turned(q) @ v,
        lambda q, p: jnp.sum((p - 0.5 * CHARGE * FIELD * turned(q)) ** 2) / (2 * MASS),
    ),
    "relativistic": (
        lambda q, v: -jnp.sqrt(1 - v @ v) - central(q),
        lambda q, p: jnp.sqrt(1 + p @ p) + central(q),
    ),
}


@pytest.mark.parametrize("L, H", ZOO.values(), ids=ZOO)
def test_legendre_both_ways(L, H):
    """H of L and L of H are those by hand. Measured: 3e-16. Far out too, where a whole Newton step leaves the domain of
    L; there to the condition of the root."""
    t, far = jnp.zeros(()), jnp.array([1.2, 9.0])
    p = jax.grad(L, 1)(Q, V)
    hamiltonian, lagrangian = gd.hamilton.legendre(gd.Lagrangian(L)), gd.hamilton.legendre(gd.hamilton.Hamiltonian(H))
    at = jax.jit(hamiltonian.hamiltonian_at)
    np.testing.assert_allclose(at(t, Q, p), H(Q, p), rtol=1e-14)
    np.testing.assert_allclose(at(t, Q, far), H(Q, far), rtol=1e-13)
    np.testing.assert_allclose(jax.jit(lagrangian.lagrangian_at)(t, Q, V), L(Q, V), rtol=1e-14)


@pytest.mark.long
def test_legendre_twice():
    """The transform of the transform is the same function. Measured: 0."""
    twice = gd.hamilton.legendre(gd.hamilton.legendre(PENDULUM))
    np.testing.assert_allclose(
        jax.jit(twice.hamiltonian_at)(jnp.zeros(()), *START), PENDULUM.hamiltonian(*START), rtol=1e-14
    )


def test_of_a_body_in_space():
    """A System's Hamiltonian is the one that gd.hamilton.hamiltonian evaluates."""
    body = gd.System(gd.spaces.Sphere(2), [1.0, 2.0], gd.Spring([(0, 1)], 3.0, 0.5))
    q, p = jnp.array([[0.1, 0.2], [0.5, -0.3]]), jnp.array([[0.3, -0.1], [0.2, 0.6]])
    H = gd.hamilton.legendre(body).hamiltonian_at(jnp.zeros(()), q.reshape(-1), p.reshape(-1))
    np.testing.assert_allclose(H, gd.hamilton.hamiltonian(body, q, p), rtol=1e-15)


@pytest.fixture(scope="module")
def run():
    """The motion of a relativistic pendulum from a momentum, as a function of (q0, p0)."""
    return jax.jit(lambda q, p: gd.integrate(PENDULUM, q, p0=p, **SHORT))


def test_motion_of_a_hamiltonian(run):
    """The same steps as Gauss makes on y = (q, p). Measured: 2e-16; energy drift 6e-7."""
    trajectory = run(*START)
    np.testing.assert_allclose(trajectory.p[0], START[1], rtol=1e-15)
    y = gd.integrate(gd.ODE(gd.hamilton.hamiltonian_field(PENDULUM.hamiltonian)), jnp.concatenate(START), **SHORT).q
    np.testing.assert_allclose(jnp.concatenate([trajectory.q, trajectory.p], axis=1), y, atol=1e-14)
    assert np.ptp(trajectory.energy) < 1e-5
    assert np.abs(trajectory.v).max() < 1


def test_flow_derivative(run):
    """∂(q, p)/∂(q0, p0) against central differences. Measured: 2e-11 apart."""

    def end(y):
        found = run(y[:1], y[1:])
        return jnp.concatenate([found.q[-1], found.p[-1]])

    y = jnp.concatenate(START)
    differences = np.stack([(end(y + e) - end(y - e)) / 2e-5 for e in 1e-5 * np.eye(2)], axis=1)
    np.testing.assert_allclose(gd.hamilton.flow_derivative(PENDULUM, *START, **SHORT), differences, atol=1e-9)


def test_liouville():
    """Gauss keeps volumes and the symplectic form (2e-16); friction c shrinks both by exp(−c t) for each degree of
    freedom of unit mass."""
    assert abs(gd.hamilton.liouville_defect(PENDULUM, *START, **SHORT)) < 1e-14
    assert gd.hamilton.symplectic_defect(PENDULUM, *START, **SHORT) < 1e-14
    damped = gd.Lagrangian(lambda q, v: 0.5 * v @ v + jnp.cos(q[0]), dissipation=lambda q, v: 0.2 * v @ v)
    shrunk = np.exp(-0.4 * 0.9) - 1
    np.testing.assert_allclose(gd.hamilton.liouville_defect(damped, *START, **SHORT), shrunk, rtol=1e-5)
    np.testing.assert_allclose(gd.hamilton.symplectic_defect(damped, *START, **SHORT), -shrunk, rtol=1e-5)


def test_poisson_brackets():
    """{q_i, p_j} = δ_ij, {L_x, L_y} = L_z, Jacobi's identity, and {f, H} is the rate of f along the motion."""
    q, p = jnp.array([0.3, -0.5, 0.9]), jnp.array([1.1, 0.2, -0.4])

    def H(q, p):
        return jnp.sqrt(1 + p @ p) + jnp.sin(q[0]) * q[1]

    f, g = lambda q, p: q[0] * p[1] ** 2 + q[2], lambda q, p: jnp.exp(q[1]) * p @ q
    turn = [lambda q, p, i=i: jnp.cross(q, p)[i] for i in range(3)]
    assert gd.hamilton.poisson_bracket(lambda q, p: q[1], lambda q, p: p[1])(q, p) == 1
    assert gd.hamilton.poisson_bracket(lambda q, p: q[1], lambda q, p: p[0])(q, p) == 0
    np.testing.assert_allclose(gd.hamilton.poisson_bracket(turn[0], turn[1])(q, p), turn[2](q, p), rtol=1e-14)
    of = gd.hamilton.poisson_bracket
    jacobi = sum(of(a, of(b, c))(q, p) for a, b, c in ((f, g, H), (g, H, f), (H, f, g)))
    np.testing.assert_allclose(jacobi, 0, atol=1e-14)
    dq, dp = jnp.split(gd.hamilton.hamiltonian_field(H)(0.0, jnp.concatenate([q, p])), 2)
    np.testing.assert_allclose(of(f, H)(q, p), jax.jvp(f, (q, p), (dq, dp))[1], rtol=1e-14)


@pytest.mark.parametrize("name", ["central force", "charge in a field", "relativistic"])
def test_noether(name):
    """Rotations leave L alone; translations do not, and their momentum grows at the rate that the defect says. For
    every view of the system alike. Measured: 1e-16."""
    L, H = ZOO[name]

    def shift(q):
        return jnp.array([1.0, 0.0])

    for system in (gd.Lagrangian(L), gd.hamilton.Hamiltonian(H)):
        p, kept, same, other = jax.jit(lambda q, v, system=system: noether(system, (turned, shift), q, v))(Q, V)
        np.testing.assert_allclose(kept, Q[0] * p[1] - Q[1] * p[0], rtol=1e-14)
        np.testing.assert_allclose(same, 0, atol=1e-14)
        np.testing.assert_allclose(other, -jax.grad(H, 0)(Q, p)[0], rtol=1e-13)


def noether(system, fields, q, v):
    """The momentum, that of the first field, and the defects of all."""
    defects = [gd.hamilton.symmetry_defect(system, field, q, v) for field in fields]
    return gd.momentum(system, q, v), gd.hamilton.noether_momentum(system, fields[0], q, v), *defects


def test_noether_of_a_body():
    """The fields of all isometries of the sphere, on all points of a body at once, against killing_momentum."""
    body = gd.System(gd.spaces.Sphere(2), [1.0, 2.0], gd.Spring([(0, 1)], 3.0, 0.5))
    q, v = jnp.array([[0.1, 0.2], [0.5, -0.3]]), jnp.array([[0.3, -0.1], [0.2, 0.6]])
    fields = [lambda q, i=i: jax.vmap(body.space.killing_fields)(q)[:, i] for i in range(3)]

    @jax.jit
    def found(q, v):
        momenta = jnp.stack([gd.hamilton.noether_momentum(body, field, q, v) for field in fields])
        defects = jnp.stack([gd.hamilton.symmetry_defect(body, field, q, v) for field in fields])
        return momenta, defects, gd.hamilton.killing_momentum(body, q, v)

    momenta, defects, wanted = found(q, v)
    np.testing.assert_allclose(momenta, wanted, rtol=1e-13)
    np.testing.assert_allclose(defects, 0, atol=1e-13)


WRONG = {
    "no function": (lambda: gd.hamilton.Hamiltonian(1.0), "hamiltonian must be a function"),
    "not scalar": (lambda: moved(lambda q, p: p), "hamiltonian must return a scalar"),
    "linear in p": (lambda: moved(lambda q, p: p @ q), r"degenerate integrate y = \(q, p\): gd.ODE"),
    "homogeneous in p": (lambda: moved(lambda q, p: jnp.sqrt(p @ p)), "∂²H/∂p² is singular"),
    "no such velocity": (lambda: moved(ZOO["relativistic"][1], p0=None, v0=[0.9, 0.9]), "gives no momentum for"),
    "nothing to start from": (lambda: moved(p0=None), "starts from a momentum, p0=..., or from a velocity v0"),
    "both": (lambda: moved(v0=[1.0, 0.0]), "either v0 or p0, not both"),
    "shape of p0": (lambda: moved(p0=[1.0]), r"p0 must have the shape of q0, \(2,\); got \(1,\)"),
    "legendre of an ODE": (
        lambda: gd.hamilton.legendre(gd.ODE(lambda t, y: y)),
        "must be a Lagrangian, System or Hamil",
    ),
    "legendre with friction": (
        lambda: gd.hamilton.legendre(gd.Lagrangian(lambda q, v: v @ v, dissipation=lambda q, v: v @ v)),
        "nothing but an energy, got dissipation: leave them out",
    ),
}


def moved(H=ZOO["central force"][1], p0=(1.0, 0.3), **options):
    return gd.integrate(gd.hamilton.Hamiltonian(H), Q, **{"p0": p0, **SHORT, **options})


@pytest.mark.parametrize("call, message", WRONG.values(), ids=WRONG)
def test_wrong_input(call, message, as_users_run):
    with pytest.raises(ValueError, match=message):
        call()
