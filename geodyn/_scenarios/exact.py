"""Exact reference solutions: the elastic rods of `geodyn demo`."""

from math import cos, cosh, sin, sinh

import numpy as np

from geodyn._foundations.typing import Float

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
        return np.asarray(
            [y[1], sigma * C(half_length) ** 4 * S(y[0]) / C(y[0]) ** 3 - 2 * stiffness * (y[0] - half_length)]
        )

    y, result = np.asarray([half_length, 0.0]), [half_length]
    for h in np.repeat(np.diff(t) / substeps, substeps):
        a = rate(y)
        b = rate(y + h / 2 * a)
        c = rate(y + h / 2 * b)
        y = y + h / 6 * (a + 2 * b + 2 * c + rate(y + h * c))
        result.append(y[0])
    return np.asarray(result[::substeps])
