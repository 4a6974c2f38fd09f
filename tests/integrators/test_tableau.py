"""Tableaux: the closed forms of the reference, order conditions, predicates."""

import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd

CASE = case("I01")["reference"]
ZOO = {
    **{f"gauss{s}": gd.tableaus.gauss(s) for s in range(1, 7)},
    **{f"radauIIA{s}": gd.tableaus.radau_iia(s) for s in range(1, 6)},
    **{f"lobattoIIIA{s}": gd.tableaus.lobatto_iiia(s) for s in range(2, 6)},
}


@pytest.mark.parametrize("name", CASE)
def test_coefficients_equal_the_closed_forms(name):
    """Measured 0; catches a wrong node or a rounded intermediate."""
    tableau = ZOO[name]
    for letter, value in (("A", tableau.a), ("b", tableau.b), ("c", tableau.c)):
        wanted = np.array(CASE[name][letter], float).reshape(value.shape)
        np.testing.assert_allclose(value, wanted, rtol=0, atol=4e-16)


@pytest.mark.parametrize("name", ZOO)
def test_order_conditions(name):
    """B(p): Σ b c^(k−1) = 1/k up to the order and not beyond; C(s): Σ a_ij c_j^(k−1) = c_i^k/k. To rounding."""
    t = ZOO[name]
    defect = [abs(t.b @ t.c ** (k - 1) - 1 / k) for k in range(1, t.order + 2)]
    assert max(defect[:-1]) < 2e-15 and defect[-1] > 1e-9
    for k in range(1, t.stages + 1):
        np.testing.assert_allclose(t.a @ t.c ** (k - 1), t.c**k / k, rtol=0, atol=2e-15)


@pytest.mark.parametrize("name", ZOO)
def test_predicates(name):
    t = ZOO[name]
    assert t.is_symplectic == name.startswith("gauss")
    assert t.is_symmetric == (name.startswith(("gauss", "lobatto")))
    assert t.is_stiffly_accurate == (not name.startswith("gauss"))
    assert not t.is_explicit


@pytest.mark.parametrize("name", ZOO)
def test_couplings(name):
    """They are the tableau, and of a symplectic one symplectic bit for bit, which a and b are not (3e-17 off)."""
    t = ZOO[name]
    m, weights = t.couplings
    np.testing.assert_allclose(m * weights, t.a, rtol=0, atol=3e-16)
    if t.is_symplectic:
        np.testing.assert_array_equal(m + m.T, np.ones_like(m))
        np.testing.assert_array_equal(weights, t.b)


def test_equal_numbers_are_one_tableau():
    assert gd.methods.ButcherTableau([[0.5]], [1], order=2) == gd.tableaus.gauss(1)
    assert len({gd.methods.ButcherTableau([[0.5]], [1], order=2), gd.tableaus.gauss(1), gd.tableaus.gauss(2)}) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[0.5, 0]], [1], None, 1), "a\\[s, s\\]"),
        (([[0.5]], [1], [0.4], 1), "row sums"),
        (([[0.0]], [1], None, 2), "order=2"),
    ],
)
def test_wrong_tableaux_are_refused(arguments, words):
    a, b, c, order = arguments
    with pytest.raises(ValueError, match=words):
        gd.methods.ButcherTableau(a, b, c, order=order)
