"""Variations of strokes in closed form: they are those of autodiff, to rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._control.problem.minimise import by_autodiff
from geodyn._control.problem.problem import Between, StrokeProblem, clock_of
from geodyn._control.problem.variation import variations
from geodyn._engine.jit import jit
from geodyn._locomotion.motion import costs


def _discs(g, r):
    """Gaps that depend on the pose and on the shape."""
    places = jnp.array([[0.3, 0.4], [-0.2, 0.5]])
    apart = places - g[None, :2, -1] - jnp.sin(r)[None] * g[None, 0, :2]
    return jnp.sum(apart**2, axis=1) - 0.1


CASES = {
    "length, bounds": (gd.swimmers.Purcell(), 0.3, [0.2, -0.1], {"bounded": (0, 1, 3)}),
    "base, torque": (gd.swimmers.Purcell(), 0.3, None, {"base": jnp.array([0.2, -0.1]), "density": costs.torque}),
    "accelerations": (gd.swimmers.Satellite(), 0.3, [0.1, 0.2], {"density": costs.inertial_torque, "bounded": (1, 2)}),
    "vector": (gd.swimmers.Satellite(), [0.3, 0.1, 0.2], [0.1, 0.2], {}),
    "line": (gd.swimmers.PushMePullYou(), 0.2, [4.0, 4.0], {}),
    "obstacles": (gd.swimmers.Purcell(), [0.3, 0.1, 0.2], [0.2, -0.1], {"obstacles": _discs}),
    "pieces, obstacles in space": (
        gd.swimmers.Satellite(),
        [0.3, 0.1, 0.2],
        None,
        {"base": jnp.array([0.2, -0.1]), "end": jnp.array([0.3, 0.4]), "bounded": (1, 2), "obstacles": _discs},
    ),
    "pose": (
        gd.swimmers.Purcell(),
        [0.3, 0.1, 3.1],
        [0.2, -0.1],
        {"back": gd.groups.SE2().exp(-jnp.array([0.3, 0.1, 3.1]))},
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(("swimmer", "displacement", "mean", "options"), CASES.values(), ids=CASES)
def test_variations_are_the_derivatives(swimmer, displacement, mean, options):
    """Measured 2e-15; without the area that ζ sweeps the Hessian is off by 0.1 (length), by 4e-3 (vector)."""
    random = np.random.default_rng(3)
    waves = 0.2 * random.normal(size=(2, 2, 2))
    if mean is not None:
        x = gd.FourierStroke(mean, *waves)
    elif "end" in options:
        x = Between(jnp.array([[0.5, 0.1]]), jnp.asarray(waves))
    else:
        x = jnp.asarray(waves.reshape(2, 4))
    options = {"base": None, "bounded": (), "density": costs.energy} | options
    b = len(options["bounded"])
    problem = StrokeProblem(
        swimmer,
        jnp.asarray(displacement),
        jnp.asarray(2.0),
        bounds=(jnp.full(b, -3.0), jnp.full(b, 4.0)),
        steps=4,
        clock=clock_of(x, options["bounded"]),
        **options,
    )
    sizes = [np.size(v) for v in jax.eval_shape(problem, x)]
    weights = jnp.asarray(random.normal(size=sum(sizes)))
    exact, found = (jit(by)(problem, x, weights) for by in (by_autodiff, variations))
    for old, new in zip(exact, found, strict=True):
        np.testing.assert_allclose(new, old, atol=1e-13 * float(jnp.max(jnp.abs(old))))
