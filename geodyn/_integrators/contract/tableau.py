"""Butcher tableaux, derived from their nodes in exact arithmetic and rounded once."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import comb, factorial
from typing import Any

import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Count, Float, Numbers, Stages


class ButcherTableau:
    """The coefficients (a, b, c) of a Runge–Kutta method.

    Two tableaux with equal numbers are equal and hash alike, so neither recompiles. The properties `is_symplectic`,
    `is_symmetric`, `is_stiffly_accurate`, `is_explicit` and `is_collocation` say what the method is.

    Args:
        a: the matrix a[s, s].
        b: the weights b[s].
        c: the nodes c[s], by default the row sums of a.
        order: the classical order, which is checked against the order conditions up to 4.

    Raises:
        ValueError: where the shapes, the row sums or the stated order do not fit.

    Example:
        Ralston's method of order 2: one step of y' = y with h = 1 gives 1 + 1 + 1/2.

        >>> ralston = gd.methods.ButcherTableau([[0, 0], [2 / 3, 0]], [1 / 4, 3 / 4], order=2)
        >>> method, growth = gd.methods.Collocation(ralston), gd.ODE(lambda t, y: y)
        >>> print(ralston.is_explicit, f"{gd.integrate(growth, [1.0], t1=1.0, steps=1, method=method).q[-1, 0]:.6f}")
        True 2.500000

    Source:
        Hairer, Lubich & Wanner, *Geometric Numerical Integration*, II.1.
    """

    @checked
    def __init__(self, a: Numbers, b: Numbers, c: Numbers | None = None, *, order: Count):
        a, b = np.array(a, float), np.array(b, float)
        nodes = a.sum(axis=1) if c is None else np.array(c, float)
        if a.ndim != 2 or a.shape[0] != a.shape[1] or b.shape != a.shape[:1] or nodes.shape != a.shape[:1]:
            raise ValueError(f"ButcherTableau wants a[s, s], b[s], c[s]; got {a.shape}, {b.shape}, {nodes.shape}")
        if not np.allclose(a.sum(axis=1), nodes, atol=1e-12):
            raise ValueError(f"c must be the row sums of a, {a.sum(axis=1)}; got {nodes}")
        for array in (a, b, nodes):
            array.setflags(write=False)
        self.a, self.b, self.c, self.order = a, b, nodes, int(order)
        for p, defect in enumerate(_order_defects(a, b, nodes)[: self.order], start=1):
            if defect > 1e-12:
                raise ValueError(
                    f"order={order} was stated, but a, b and c fail the conditions of order {p} by {defect:.1e}"
                )

    @property
    def stages(self) -> int:
        """Number of stages s."""
        return len(self.b)

    @property
    def is_symplectic(self) -> bool:
        """Whether b_i a_ij + b_j a_ji = b_i b_j (Sanz-Serna 1988; Hairer, Lubich & Wanner VI.4.3)."""
        ba = self.b[:, None] * self.a
        return bool(np.allclose(ba + ba.T, np.outer(self.b, self.b), atol=1e-14))

    @property
    def is_stiffly_accurate(self) -> bool:
        """Whether the last stage is the end of the step, a_sj = b_j, as holonomic constraints require."""
        return bool(np.allclose(self.a[-1], self.b, atol=1e-14))

    @property
    def is_symmetric(self) -> bool:
        """Whether a_{s+1−i,s+1−j} + a_ij = b_j: the method is its own adjoint (Hairer, Lubich & Wanner V.2.3)."""
        return bool(np.allclose(self.a[::-1, ::-1] + self.a, self.b[None, :], atol=1e-14))

    @property
    def is_explicit(self) -> bool:
        """Whether a is strictly lower triangular."""
        return bool(np.all(np.triu(self.a) == 0))

    @property
    def couplings(self) -> tuple[np.ndarray, np.ndarray]:
        """(m[s, s], weights[s]) with a = m · diag(weights). For a symplectic tableau the weights are b, and
        m_ij + m_ji = 1 holds exactly in floating point: then the rounding of the coefficients leaves the method
        symplectic, and causes no drift of the energy (Antoñana, Makazaga & Murua 2017). Else the weights are 1."""
        if not self.is_symplectic or np.any(self.b == 0):
            return self.a, np.ones_like(self.b)
        m = self.a / self.b
        return np.where(m > m.T, m, np.where(m < m.T, 1 - m.T, 0.5)), self.b

    @property
    def has_distinct_nodes(self) -> bool:
        """Whether no two nodes c are equal, so that one polynomial interpolates the velocities of the stages."""
        return len(np.unique(np.round(self.c, 12))) == self.stages

    @property
    def is_collocation(self) -> bool:
        """Whether the nodes are distinct and a integrates their Lagrange polynomials, so that the stages lie on one
        polynomial."""
        powers = np.arange(1, self.stages + 1)
        simplifying = self.a @ self.c[:, None] ** (powers - 1) - self.c[:, None] ** powers / powers
        return self.has_distinct_nodes and bool(np.all(np.abs(simplifying) < 1e-12))

    @property
    def defect(self) -> np.ndarray | None:
        """The weights [3s] of an estimate of the local error: h |Σ weights · velocities| over the stage velocities of
        this step and the two before it, oldest first, estimates the local error of the positions. It is None for a
        method that is not a collocation. The sum is a divided difference in place of the derivative in the error term,
        with the factor from the error of y' = λy, which is larger than that of a quadrature (Hairer & Wanner, Solving
        ODEs II, IV.3). Since stages are less accurate than the ends of steps, the estimate falls only like h^(s + 2):
        with small steps it is an upper bound."""
        p, s = self.order, self.stages
        nodes = np.concatenate([self.c - 2, self.c - 1, self.c])
        distinct = [i for i, x in enumerate(nodes) if np.all(np.abs(nodes[i + 1 :] - x) > 1e-12)][-p - 1 :]
        if not self.is_collocation or len(distinct) <= p:
            return None
        apart = nodes[distinct, None] - nodes[distinct] + np.eye(p + 1)
        factor = self.b @ np.linalg.matrix_power(self.a, p) @ np.ones(s) - 1 / factorial(p + 1)
        weights = np.zeros(3 * s)
        weights[distinct] = factor * factorial(p) / np.prod(apart, axis=1)
        return weights

    @property
    def last_mode(self) -> np.ndarray:
        """The weights [s] of the last Legendre coefficient of the stage velocities of one step, which is small where
        the polynomial resolves the motion; zeros for fewer than three stages, which have no small one."""
        if self.stages < 3 or not self.is_collocation:
            return np.zeros(self.stages)
        return np.linalg.inv(np.polynomial.legendre.legvander(2 * self.c - 1, self.stages - 1))[-1]

    @property
    def trapezoid_defect(self) -> np.ndarray | None:
        """The weights [3s] of the difference between the displacement in the last step and the trapezoidal rule for it,
        divided by h, as in `defect`; None unless the first stage of the method is the start of a step. The difference
        exceeds the displacement where an explicit method is unstable."""
        if not self.is_explicit or self.c[0] != 0:
            return None
        start = np.eye(self.stages)[0]
        return np.concatenate([0 * self.b, self.b - start / 2, -start / 2])

    def _key(self) -> tuple:
        return self.a.tobytes(), self.b.tobytes(), self.c.tobytes(), self.order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ButcherTableau) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"ButcherTableau(stages={self.stages}, order={self.order})"


def _order_defects(a: Float[np.ndarray, "s s"], b: Float[np.ndarray, " s"], c: Float[np.ndarray, " s"]) -> list[float]:
    """Largest defect of the order conditions of order 1, 2, 3, 4 (rooted trees; Hairer, Lubich & Wanner III.1)."""
    trees = [
        [(b.sum(), 1)],
        [(b @ c, 1 / 2)],
        [(b @ c**2, 1 / 3), (b @ a @ c, 1 / 6)],
        [(b @ c**3, 1 / 4), (b @ (c * (a @ c)), 1 / 8), (b @ a @ c**2, 1 / 12), (b @ a @ a @ c, 1 / 24)],
    ]
    return [max(abs(value - wanted) for value, wanted in order) for order in trees]


@checked
@cache
def gauss(stages: Stages) -> ButcherTableau:
    """Gauss collocation with s stages, of order 2s: symplectic in (q, p) and symmetric.

    Its nodes are the roots of the shifted Legendre polynomial P_s(2x − 1).

    Args:
        stages: the number s of stages, a positive whole number.

    Returns:
        The tableau; `gd.Gauss(s)` is its method.

    Raises:
        ValueError: unless `stages` is a positive whole number.

    Example:
        The nodes of two stages are ½ ∓ √3/6.

        >>> tableau = gd.tableaus.gauss(2)
        >>> print(tableau.order, tableau.is_symplectic, f"{tableau.c[0]:.6f} {0.5 - np.sqrt(3) / 6:.6f}")
        4 True 0.211325 0.211325
    """
    stages = _count(stages, 1)
    return _collocation(_roots(_legendre(stages)), 2 * stages)


@checked
@cache
def radau_iia(stages: Stages) -> ButcherTableau:
    """Radau IIA collocation with s stages, of order 2s − 1: stiffly accurate, and damping.

    Its nodes, the end of the step among them, are the roots of P_s − P_{s−1}, P_s being shifted Legendre polynomials.

    Args:
        stages: the number s of stages, a positive whole number.

    Returns:
        The tableau; `gd.RadauIIA(s)` is its method.

    Raises:
        ValueError: unless `stages` is a positive whole number.

    Example:
        The nodes of two stages are 1/3 and 1.

        >>> tableau = gd.tableaus.radau_iia(2)
        >>> print(tableau.order, tableau.is_stiffly_accurate, [f"{c:.6f}" for c in tableau.c])
        3 True ['0.333333', '1.000000']
    """
    stages = _count(stages, 1)
    high, low = _legendre(stages), _legendre(stages - 1)
    return _collocation(_roots([h - low_k for h, low_k in zip(high, [*low, 0], strict=True)]), 2 * stages - 1)


@checked
@cache
def lobatto_iiia(stages: Stages) -> ButcherTableau:
    """Lobatto IIIA collocation with s stages, of order 2s − 2: symmetric and stiffly accurate.

    Its nodes, the ends of the step among them, are the roots of P_s − P_{s−2}, P_s being shifted Legendre polynomials.

    Args:
        stages: the number s ≥ 2 of stages.

    Returns:
        The tableau, for `gd.methods.Collocation`.

    Raises:
        ValueError: unless `stages` is a whole number ≥ 2.

    Example:
        With three stages its weights are those of Simpson's rule.

        >>> tableau = gd.tableaus.lobatto_iiia(3)
        >>> print(tableau.order, [f"{6 * b:.6f}" for b in tableau.b])
        4 ['1.000000', '4.000000', '1.000000']
    """
    stages = _count(stages, 2)
    high, low = _legendre(stages), _legendre(stages - 2)
    return _collocation(_roots([h - low_k for h, low_k in zip(high, [*low, 0, 0], strict=True)]), 2 * stages - 2)


def _count(stages: Any, least: int) -> int:
    if not isinstance(stages, int | np.integer) or stages < least:
        raise ValueError(f"stages must be an integer ≥ {least}, got {stages!r}")
    return int(stages)


def _legendre(s: int) -> list[int]:
    """Coefficients, lowest first, of the Legendre polynomial shifted to [0, 1]."""
    return [(-1) ** (s + k) * comb(s, k) * comb(s + k, k) for k in range(s + 1)]


def _roots(coefficients: list[int]) -> list[Fraction]:
    """Real roots to 40 digits: floats polished by exact Newton steps."""
    derivative = [k * c for k, c in enumerate(coefficients)][1:]
    roots = []
    for start in sorted(np.roots(coefficients[::-1]).real):
        x = Fraction(float(start))
        for _ in range(3):
            x = (x - _value(coefficients, x) / _value(derivative, x)).limit_denominator(10**40)
        roots.append(x)
    return roots


def _value(coefficients: Sequence[Fraction | int], x: Fraction) -> Fraction:
    total = Fraction(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def lagrange_integrals(nodes: list[Fraction], ends: list[Fraction]) -> np.ndarray:
    """The integrals [e, s] from 0 to each end of the Lagrange polynomials of the nodes. They are the matrix a for
    ends = nodes, and the weights b for the end 1."""
    rows = []
    for end in ends:
        row = []
        for j, node in enumerate(nodes):
            polynomial = [Fraction(1)]
            for other in nodes[:j] + nodes[j + 1 :]:
                shifted = [Fraction(0), *polynomial]
                polynomial = [s - other * p for s, p in zip(shifted, [*polynomial, Fraction(0)], strict=True)]
                polynomial = [p / (node - other) for p in polynomial]
            row.append(end * _value([p / (k + 1) for k, p in enumerate(polynomial)], end))
        rows.append(row)
    return np.array([[float(x) for x in row] for row in rows])


def _collocation(nodes: list[Fraction], order: int) -> ButcherTableau:
    a, b = lagrange_integrals(nodes, nodes), lagrange_integrals(nodes, [Fraction(1)])[0]
    return ButcherTableau(a, b, [float(x) for x in nodes], order=order)


def _explicit(rows: list, b: list, order: int) -> ButcherTableau:
    """An explicit tableau from the rows of a below its diagonal."""
    a = np.zeros((len(b), len(b)))
    for i, row in enumerate(rows, start=1):
        a[i, : len(row)] = row
    return ButcherTableau(a, b, order=order)


@checked
@cache
def explicit_euler() -> ButcherTableau:
    """Euler's explicit method, y⁺ = y + h f(y), of order 1.

    Returns:
        The tableau, for `gd.methods.Collocation`.

    Example:
        One step of y' = y with h = 1 gives 2.

        >>> method = gd.methods.Collocation(gd.tableaus.explicit_euler())
        >>> trajectory = gd.integrate(gd.ODE(lambda t, y: y), [1.0], t1=1.0, steps=1, method=method)
        >>> print(f"{trajectory.q[-1, 0]:.6f}")
        2.000000
    """
    return _explicit([], [1], 1)


@checked
@cache
def explicit_midpoint() -> ButcherTableau:
    """The explicit midpoint rule, y⁺ = y + h f(y + ½h f(y)), of order 2.

    Returns:
        The tableau, for `gd.methods.Collocation`.

    Example:
        One step of y' = y with h = 1 gives 1 + 1 + 1/2.

        >>> method = gd.methods.Collocation(gd.tableaus.explicit_midpoint())
        >>> trajectory = gd.integrate(gd.ODE(lambda t, y: y), [1.0], t1=1.0, steps=1, method=method)
        >>> print(f"{trajectory.q[-1, 0]:.6f}")
        2.500000

    Source:
        Runge, *Math. Ann.* 46 (1895) 167.
    """
    return _explicit([[1 / 2]], [0, 1], 2)


@checked
@cache
def heun() -> ButcherTableau:
    """Heun's method, the explicit trapezoidal rule, of order 2.

    Returns:
        The tableau, for `gd.methods.Collocation`.

    Example:
        One step of y' = y with h = 1 gives 1 + 1 + 1/2.

        >>> method = gd.methods.Collocation(gd.tableaus.heun())
        >>> trajectory = gd.integrate(gd.ODE(lambda t, y: y), [1.0], t1=1.0, steps=1, method=method)
        >>> print(f"{trajectory.q[-1, 0]:.6f}")
        2.500000

    Source:
        Heun, *Z. Math. Phys.* 45 (1900) 23.
    """
    return _explicit([[1]], [1 / 2, 1 / 2], 2)


@checked
@cache
def rk4() -> ButcherTableau:
    """The classical Runge–Kutta method, of order 4.

    Returns:
        The tableau, for `gd.methods.Collocation`.

    Example:
        One step of y' = y with h = 1 gives 1 + 1 + 1/2 + 1/6 + 1/24.

        >>> method = gd.methods.Collocation(gd.tableaus.rk4())
        >>> trajectory = gd.integrate(gd.ODE(lambda t, y: y), [1.0], t1=1.0, steps=1, method=method)
        >>> print(f"{trajectory.q[-1, 0]:.6f} {65 / 24:.6f}")
        2.708333 2.708333

    Source:
        Kutta, *Z. Math. Phys.* 46 (1901) 435.
    """
    return _explicit([[1 / 2], [0, 1 / 2], [0, 0, 1]], [1 / 6, 1 / 3, 1 / 3, 1 / 6], 4)
