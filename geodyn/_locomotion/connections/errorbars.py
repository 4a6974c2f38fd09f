"""MOTION: the covariance of the coefficients of a form that was fitted to measured data.

Least squares with the design X [n, P] and the data y [n, K] gives c = G⁻¹ Xᵀ y, G = XᵀX, so that errors ε of the data
shift c by G⁻¹ Xᵀ ε. The covariance of Xᵀ ε is estimated from the residuals u = y − X c. The errors of the numbers in a
row may be correlated.
"""

import numpy as np
from scipy.fft import dst

from geodyn._foundations.typing import Bool, Float

# The spectrum of the errors of a motion is taken to be even within this factor of a frequency, up and down, which is an
# octave together, and over at least so many modes: the mean of so many squares is known to √(2/24), some 30 %.
OCTAVE = 1.4
MODES = 24
# The least eigenvalue of 1 − X_g G⁻¹ X_gᵀ is the share that the other trials have in some combination of the
# coefficients. It is 0 where they say nothing, but for rounding, some 1e-16 times the condition of G.
ALONE = 1e-9


def covariance_of_rows(
    design: Float[np.ndarray, "n P"], residuals: Float[np.ndarray, "n K"], trials: np.ndarray
) -> Float[np.ndarray, "P K P K"]:
    """The covariance of c where rows of one trial share their errors and those of different trials are independent, of
    any sizes: the jackknife over the G trials, (G − 1)/G Σ (c₍g₎ − c)(c₍g₎ − c)ᵀ with c₍g₎ from all trials but g, for
    which c₍g₎ − c = −G⁻¹ X_gᵀ (1 − X_g G⁻¹ X_gᵀ)⁻¹ u_g. It is NaN where one trial alone determines a coefficient.

    Source:
        MacKinnon & White, *J. Econometrics* 29 (1985) 305; Bell & McCaffrey, *Survey Methodology* 28 (2002) 169.
    """
    inverse = np.linalg.inv(design.T @ design)

    def shift(rows: Bool[np.ndarray, " n"]) -> Float[np.ndarray, "P K"]:
        """c₍g₎ − c for the trial g of these rows."""
        own = design[rows]
        others = np.eye(len(own)) - own @ inverse @ own.T
        if np.linalg.eigvalsh(others)[0] < ALONE:
            return np.full((len(inverse), residuals.shape[1]), np.nan)
        return inverse @ own.T @ np.linalg.solve(others, residuals[rows])

    shifts = np.array([shift(trials == trial) for trial in np.unique(trials)])
    count = len(shifts)
    squares = np.einsum("gpa,gqb->paqb", shifts, shifts, optimize=True)
    return (count - 1) / count * squares


def covariance_of_motion(
    design: Float[np.ndarray, "n P"], residuals: Float[np.ndarray, "n K"]
) -> Float[np.ndarray, "P K P K"]:
    """The covariance of c where the errors are a stationary process of any spectrum along the motion, as independent
    errors of the poses, whose differences are the data, disturbances of the motion itself, and what noise of the shapes
    is left after smoothing.

    In the basis of discrete sines, x̃ = sin-transform of x, the errors are independent, with the covariances f_j [K, K];
    for independent errors of poses and disturbances this is exact. f_j is the mean of ũ ũᵀ over the modes near j, where
    1 − h_j of each is not taken up by the fit (h = the diagonal of X̃ G⁻¹ X̃ᵀ): cov(Xᵀ ε) = Σ_j x̃_j x̃_jᵀ ⊗ f_j.

    Source:
        Hannan, *Multiple Time Series* (1970), chapter VII, for regression with errors of an unknown spectrum.
    """
    n = len(design)
    inverse = np.linalg.inv(design.T @ design)
    # x̃ and ũ, and 1 − h.
    x: np.ndarray = dst(design, type=1, norm="ortho", axis=0)
    u: np.ndarray = dst(residuals, type=1, norm="ortho", axis=0)
    left = 1 - np.einsum("jp,pq,jq->j", x, inverse, x, optimize=True)
    # The modes near j: within a factor of its frequency, and at least so many.
    mode = np.arange(n)
    least = min(MODES, n)
    lower = np.minimum(mode / OCTAVE, mode - least // 2)
    upper = np.maximum(mode * OCTAVE, mode + least // 2)
    first = np.clip(lower.astype(int), 0, n - least)
    end = np.clip(upper.astype(int) + 1, least, n)
    power = _sums_between(first, end, np.einsum("ja,jb->jab", u, u))
    degrees_of_freedom = _sums_between(first, end, left[:, None, None])
    spectrum = power / degrees_of_freedom
    scores = np.einsum("jp,jq,jab->paqb", x, x, spectrum, optimize=True)
    return np.einsum("pr,raqb,qs->pasb", inverse, scores, inverse, optimize=True)


def _sums_between(first: np.ndarray, end: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The sums of y[first : end], as differences of the sums from the beginning."""
    sums = np.concatenate([np.zeros((1, *y.shape[1:])), np.cumsum(y, axis=0)])
    return sums[end] - sums[first]
