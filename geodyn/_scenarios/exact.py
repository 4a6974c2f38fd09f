"""Exact reference solutions: the elastic rods of `geodyn demo`."""

from math import cos, cosh, sin, sinh

import numpy as np

from geodyn._foundations.typing import Float

# For each rod the sign σ and the functions S and C of `exact_half_separation`.
RODS = {"elastic_rod_h3": (1, sinh, cosh), "elastic_rod_s3": (-1, sin, cos)}


def exact_half_separation(
    name: str, t: Float[np.ndarray, " T"], *, half_length: float = 1.0, stiffness: float = 1.0, substeps: int = 100
) -> Float[np.ndarray, " T"]:
    """Half the separation l(t) [T] of two unit masses on a spring that move side by side, on both sides of a geodesic.

    `l'' = σ C(l₀)⁴ S(l)/C(l)³ − 2k(l − l₀)` with S, C = sinh, cosh and σ = 1 in H³, and sin, cos and σ = −1 in S³, at
    unit Killing speed on the axis. The equation is integrated by the classical Runge–Kutta method, independently of
    geodyn's methods, with `substeps` steps between the times t.
    """
    sigma, S, C = RODS[name]

    def rate(y: np.ndarray) -> np.ndarray:
        """(l', l'') of y = (l, l')."""
        l = y[0]
        l_rate = y[1]
        of_curvature = sigma * C(half_length) ** 4 * S(l) / C(l) ** 3
        of_spring = 2 * stiffness * (l - half_length)
        return np.asarray([l_rate, of_curvature - of_spring])

    y = np.asarray([half_length, 0.0])
    result = [half_length]
    for h in np.repeat(np.diff(t) / substeps, substeps):
        k1 = rate(y)
        k2 = rate(y + h / 2 * k1)
        k3 = rate(y + h / 2 * k2)
        k4 = rate(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        result.append(y[0])
    # Only those at the times t.
    return np.asarray(result[::substeps])
