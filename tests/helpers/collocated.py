"""What the tests of loops compare with: steps computed apart, member by member, by Newton's method on the stages in
NumPy, and their derivatives by a step of 1e-30 in the imaginary direction."""

import jax
import jax.numpy as jnp
import numpy as np

import geodyn as gd

STEPS, METHOD = 6, gd.Gauss(2)
TIMES = jnp.array([0.2, 0.1])  # The first, and the length of a step.


def collocated(rate, x, times=TIMES, steps=STEPS):
    """x after so many steps of x' = rate(t, x), and x' at the stages of the last."""
    t0, h = np.asarray(times)
    a, b, c = METHOD.tableau.a, METHOD.tableau.b, METHOD.tableau.c
    x = np.asarray(x, complex)
    for k in range(steps):
        slopes, t = np.zeros((c.size, x.size), complex), t0 + h * (k + c)
        for _ in range(12):
            at = x + h * a @ slopes
            off = 1e-6 * (1 + np.abs(at).max()) * np.eye(x.size)
            moved = [[(rate(s, y + d) - rate(s, y)).real / d.max() for d in off] for s, y in zip(t, at)]
            blocks = np.einsum("ij,jcr->jrci", -h.real * a.T, np.array(moved)).transpose(0, 1, 3, 2)
            matrix = np.eye(slopes.size) + blocks.reshape(slopes.size, slopes.size)
            off_root = slopes - [rate(s, y) for s, y in zip(t, at)]
            slopes = slopes - np.linalg.solve(matrix, off_root.ravel()).reshape(slopes.shape)
        x = x + h * b @ slopes
    return x, slopes


def slope(function, *args):
    """The derivatives of a function of numbers and arrays by each of them."""
    args, found = [np.asarray(x, complex) for x in args], []
    for i, x in enumerate(args):
        by = np.zeros(x.shape)
        for place in np.ndindex(*x.shape):
            moved = x.copy()
            moved[place] += 1e-30j
            by[place] = np.imag(function(*args[:i], moved, *args[i + 1 :])) / 1e-30
        found.append(by)
    return found


def assert_close(got, want, rtol=1e-10):
    """All arrays of two trees, in shapes and values."""
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-14)
