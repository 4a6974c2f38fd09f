"""Laws of velocities by a balance of forces that do not grow linearly with the speed."""

import jax
import numpy as np


def check_balance_of_degree_one(body, shape, rate, change):
    """The velocity is of degree one and odd in r', and at rest with the shape, where it has no derivative; elsewhere
    its derivatives in both modes are differences by ± `change` of one number of the shape, or of its rate."""
    xi = body.velocity(shape, rate)
    np.testing.assert_allclose(body.velocity(shape, 3 * rate), 3 * xi, rtol=1e-12)
    np.testing.assert_allclose(body.velocity(shape, -rate), -xi, rtol=1e-12)
    assert np.all(body.velocity(shape, 0 * rate) == 0)
    assert np.isnan(jax.jacfwd(body.velocity, 1)(shape, 0 * rate)).all()
    for argument in (0, 1):
        forwards = jax.jacfwd(body.velocity, argument)(shape, rate)
        np.testing.assert_allclose(forwards, jax.jacrev(body.velocity, argument)(shape, rate), rtol=1e-9, atol=1e-12)
        for j, step in enumerate(change * np.eye(len(shape))):
            ends = [
                body.velocity(*(x + sign * step if i == argument else x for i, x in enumerate((shape, rate))))
                for sign in (1, -1)
            ]
            difference = (ends[0] - ends[1]) / (2 * change)
            np.testing.assert_allclose(forwards[:, j], difference, rtol=1e-6, atol=1e-8)
