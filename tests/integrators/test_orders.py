"""Orders of Radau IIA in position, velocity and multiplier of a rod in curved space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd
from geodyn.geometry.models.spaces import Hyperbolic, Sphere

PIECE = 10


def ends(system, method, q0, v0, t1, pieces):
    """(q, v, λ) at t1 for each number of pieces; one compiled piece of ten steps serves all."""

    @jax.jit
    def piece(q, v, h):
        run = gd.integrate(system, q, v, t1=PIECE * h, steps=PIECE, save_every=PIECE, method=method)
        return run.q[-1], run.v[-1], run.multipliers[-1]

    found = []
    for count in pieces:
        q, v = q0, v0
        for _ in range(count):
            q, v, lam = piece(q, v, t1 / count / PIECE)
        found.append((q, v, lam))
    return found


def orders(found, end):
    """Orders of q, v, λ from the errors of two runs, the second at half the step."""
    coarse, fine = ([np.max(np.abs(a - b)) for a, b in zip(x, end, strict=True)] for x in found[-2:])
    return np.log2(np.divide(coarse, fine))


CASE = case("B04")


RODS = {("index2", 2): ("H3", (3, 3, 2)), ("ggl", 3): ("S3", (5, 5, 3)), ("rs3", 3): ("H3", (5, 5, 5))}


@pytest.mark.long
@pytest.mark.parametrize("formulation, stages", RODS)
def test_orders_of_a_rod(formulation, stages):
    """Generic motion of unequal masses against case B04 b, 20 digits from the embedding space. Seen: within 0.05 of the
    integers. benchmarks/orders.py has the other formulations, and triangles."""
    name, wanted = RODS[formulation, stages]
    space, data = {"S3": Sphere(3), "H3": Hyperbolic(3)}[name], CASE
    reference = {key: np.array(value, float) for key, value in data["reference"][name].items()}
    chart = jax.vmap(lambda X, V: jax.jvp(space.coordinates, (X,), (V,)))
    polar = jnp.array(data["inputs"]["q"], float)
    q0, v0 = chart(jax.vmap(type(space)(3, "polar").embed)(polar), reference["V0_projected"])
    system = gd.System(space, np.array(data["inputs"]["m"], float), gd.Rod([(0, 1)], reference["length"]))
    found = ends(system, gd.RadauIIA(stages, formulation), q0, v0, 4.0, (8, 16))
    end = *chart(reference["X_T"], reference["V_T"]), -reference["lambda_T"]
    np.testing.assert_allclose(orders(found, end), wanted, atol=0.1)
