"""Wrong inputs: each error names the argument, what it got and what was wanted, before anything is compiled."""

import math
import subprocess
import sys

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import geodyn as gd

FLAT = gd.spaces.Euclidean(2)
PAIR = gd.System(FLAT, [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 1.0))
RIGID = gd.System(FLAT, [1.0, 1.0], gd.Rod([(0, 1)], 1.0))
Q, V = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 0.5]])
TRIANGLE = gd.System(FLAT, [1.0] * 3, gd.Rod([(0, 1), (1, 2), (0, 2)], [1.0, 1.0, 2.0]))


def run(system=PAIR, q0=Q, v0=V, **options):
    return gd.integrate(system, q0, v0, **{"t1": 1.0, "steps": 10, **options})


def stroke(swimmer=None, **options):
    return gd.optimal_stroke(swimmer or gd.swimmers.Purcell(), **{"displacement": 0.1, **options})


def indefinite():
    space = gd.Manifold(lambda x: jnp.diag(jnp.array([1.0, -1.0])), 2, signature=(1, 1))
    return run(gd.System(space, [1.0, 1.0]))


def asymmetric():
    return run(gd.System(gd.Manifold(lambda x: jnp.array([[1.0, 0.5], [0.0, 1.0]]), 2), [1.0, 1.0]))


def singular():
    return run(gd.System(gd.Manifold(lambda x: jnp.diag(jnp.stack([1 / x[0], 1.0])), 2), [1.0, 1.0]))


def off(space, x):
    return run(gd.System(space, [1.0]), [x], [[0.0, 1.0]])


WRONG = {
    "steps zero": (lambda: run(steps=0), "steps must be a positive whole number, got 0"),
    "t1 zero": (lambda: run(t1=0.0), "t1 must be finite and later than t0=0.0, got 0.0"),
    "t1 nan": (lambda: run(t1=math.nan), "t1 must be finite"),
    "save_every": (lambda: run(save_every=3), "save_every must divide steps=10, got 3"),
    "q0 shape": (lambda: run(q0=np.zeros((3, 2)), v0=np.zeros((3, 2))), r"q0 must have shape \(2, 2\).*got \(3, 2\)"),
    "v0 shape": (lambda: run(v0=np.zeros(2)), r"v0 must have the shape of q0, \(2, 2\); got \(2,\)"),
    "v0 missing": (lambda: run(v0=None), "v0 must have shape"),
    "q0 nan": (lambda: run(q0=Q * np.nan), "q0 must be finite"),
    "q0 complex": (lambda: run(q0=Q * 1j), "q0 must be real numbers"),
    "q0 none": (lambda: run(q0=None), "q0 must be real numbers"),
    "off the ball": (lambda: off(gd.spaces.Hyperbolic(2), [1.2, 0.0]), r"no point of Hyperbolic.*\|x\| < 1"),
    "below the halfspace": (
        lambda: off(gd.spaces.Hyperbolic(2, "halfspace"), [0.0, -1.0]),
        "a last coordinate above 0",
    ),
    "off the product": (
        lambda: off(gd.spaces.Product(gd.spaces.Hyperbolic(1), gd.spaces.Euclidean(1)), [-1.2, 0.0]),
        r"no point of Product.*\(\|x\| < 1, any x\)",
    ),
    "off the sphere": (lambda: gd.four_rod_configuration(3.0, jnp.array([0.0, 0.0, 2.0])), "point of the unit sphere"),
    "configuration not in a row": (
        lambda: gd.gaussian_curvature(gd.LevelSet(3, lambda x: x @ x - 1), jnp.eye(3)),
        r"x must have shape \(3,\), the coordinates in one row; got \(3, 3\)",
    ),
    "method": (lambda: run(method="gauss"), "method must be gd.Gauss"),
    "masses negative": (lambda: gd.System(FLAT, [1.0, -1.0]), r"masses must be positive and finite; masses\[1\] is -1"),
    "masses nan": (lambda: gd.System(FLAT, [np.nan]), "masses must be positive"),
    "space": (lambda: gd.System("sphere", [1.0]), "space must be a manifold"),
    "element": (lambda: gd.System(FLAT, [1.0], 3.0), "elements must be potentials"),
    "edges out of range": (lambda: gd.System(FLAT, [1.0, 1.0], gd.Spring([(0, 2)], 1.0, 1.0)), "name point 2"),
    "edges shape": (lambda: gd.Spring([0, 1], 1.0, 1.0), "edges must be pairs"),
    "edge to itself": (lambda: gd.Spring([(1, 1)], 1.0, 1.0), "two different points"),
    "stiffness": (lambda: gd.Spring([(0, 1)], -1.0, 1.0), "stiffness must be ≥ 0"),
    "stiffness count": (lambda: gd.Spring([(0, 1)], [1.0, 2.0], 1.0), "one per edge"),
    "rod length": (lambda: gd.Rod([(0, 1)], 0.0), "length must be positive"),
    "rod off q0": (
        lambda: run(RIGID, q0=2 * Q),
        r"q0 violates the constraint Rod between points \(0, 1\) by 1;.*project",
    ),
    "rod off v0": (lambda: run(RIGID, v0=V[:, ::-1]), "v0 violates the constraint.*project"),
    "redundant rods": (
        lambda: run(TRIANGLE, q0=[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], v0=np.zeros((3, 2))),
        "redundant or contradictory.*Rod between points",
    ),
    "contradictory rods": (
        lambda: gd.project(
            gd.System(FLAT, [1.0] * 3, gd.Rod([(0, 1), (1, 2), (0, 2)], [1.0, 1.0, 9.0])),
            np.eye(3, 2),
            np.zeros((3, 2)),
        ),
        "contradict",
    ),
    "Gauss with constraints": (lambda: run(RIGID, method=gd.Gauss(3)), "cannot hold.*RadauIIA"),
    "formulation": (lambda: gd.RadauIIA(3, "index4"), "formulation must be one of"),
    "rs2 with 3 stages": (lambda: gd.RadauIIA(3, "rs2"), "2 stages"),
    "stages": (lambda: gd.Gauss(0), "stages must be an integer"),
    "metric not a function": (lambda: gd.Manifold(np.eye(2), 2), "metric must be a function"),
    "metric shape": (lambda: gd.Manifold(lambda x: jnp.eye(3), 2), r"\(2, 2\)"),
    "metric with math": (lambda: gd.Manifold(lambda x: jnp.eye(2) * math.sin(x[0]), 2), "jax.numpy"),
    "metric with numpy": (lambda: gd.Manifold(lambda x: jnp.eye(2) * np.sin(x[0]), 2), "jax.numpy"),
    "metric asymmetric": (asymmetric, "symmetric"),
    "metric indefinite": (indefinite, "positive definite"),
    "metric infinite": (singular, "not finite"),
    "lagrangian": (lambda: gd.Lagrangian(3.0), "lagrangian must be a function"),
    "ODE shape": (lambda: run(gd.ODE(lambda t, y: y[:1]), q0=np.ones(2), v0=None), "vector_field must return shape"),
    "stroke of numbers": (
        lambda: gd.holonomy(gd.swimmers.Purcell(), [0.0, 1.0]),
        "a stroke is a function .*; got list",
    ),
    "stroke of a class": (lambda: stroke(gd.swimmers.Purcell), "want a swimmer, .*, got the class Purcell: call it"),
    "displacement": (lambda: stroke(displacement="far"), "must be a number or 3 coordinates, not all zero, got far"),
    "guess": (lambda: stroke(guess="circle"), "guess must be a shape, m finite numbers, got circle"),
    "one bound": (lambda: stroke(bounds=((-1.0, -1.0),)), r"bounds must be \(lower\[2\], upper\[2\]\)"),
    "method of strokes": (lambda: stroke(method=gd.Direct), r"method must be gd\.Direct\(…\), gd\.Wong\(…\) or"),
    "density": (lambda: stroke(density="torque"), "density must be a function .*, got 'torque'"),
    "ODE with v0": (lambda: run(gd.ODE(lambda t, y: y), q0=np.ones(2), v0=np.ones(2)), "v0 of an ODE must be None"),
}


@pytest.fixture
def as_users_run():
    """Without the type checks of the test suite, which would speak first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("name", WRONG)
def test_is_named(name, as_users_run):
    call, words = WRONG[name]
    with pytest.raises(ValueError, match=words):
        call()


def test_projection_mends_what_is_off_the_constraints():
    """The remedy that the error offers works: lengths to rounding, and nothing is left for the check to refuse."""
    q0, v0 = gd.project(RIGID, 2 * Q, V[:, ::-1])
    assert abs(np.linalg.norm(q0[0] - q0[1]) - 1) < 1e-15
    run(RIGID, q0=q0, v0=v0)


def test_double_precision_file_in_single(tmp_path):
    run().save(tmp_path / "run.npz")
    code = f"import geodyn as gd; gd.load({str(tmp_path / 'run.npz')!r})"
    environment = {"JAX_ENABLE_X64": "0", "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode and "jax_enable_x64" in done.stderr and "double precision" in done.stderr
