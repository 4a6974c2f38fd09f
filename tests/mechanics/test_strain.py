"""Strain of cells: against the deformation gradient in flat space, and zero in rigid motions of curved ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

TETRAHEDRA = np.array([[0, 1, 2, 3], [3, 1, 2, 4]])
POINTS = np.random.default_rng(0).normal(size=(5, 3))


def test_strain_is_that_of_the_deformation_gradient():
    """E = ½ (FᵀF − 1) in the frame of the edges, of a linear map F."""
    space = gd.spaces.Euclidean(3)
    F = np.eye(3) + 0.3 * np.random.default_rng(1).normal(size=(3, 3))
    after = POINTS @ F.T
    found = gd.cells.strain(space, POINTS, after, TETRAHEDRA)
    wanted = (F.T @ F - np.eye(3)) / 2
    for cell, strain in zip(TETRAHEDRA, found, strict=True):
        edges = (POINTS[cell[1:]] - POINTS[cell[0]]).T
        frame = np.linalg.qr(edges)[0]
        frame = frame * np.sign(np.sum(frame * edges, axis=0))
        np.testing.assert_allclose(strain, frame.T @ wanted @ frame, atol=1e-13)
    stretches = gd.cells.stretches(space, POINTS, after, TETRAHEDRA)
    np.testing.assert_allclose(stretches, np.tile(np.linalg.svd(F)[1][::-1], (2, 1)), rtol=1e-12)


def test_fewer_corners_have_smaller_strains():
    """Of an edge it is ½ (λ² − 1), of a triangle in space that of its plane."""
    space, after = gd.spaces.Euclidean(3), 1.5 * POINTS
    edge = gd.cells.strain(space, POINTS, after, [[0, 1]])
    np.testing.assert_allclose(edge, [[[0.5 * (1.5**2 - 1)]]], rtol=1e-13)
    np.testing.assert_allclose(gd.cells.stretches(space, POINTS, after, [[0, 1, 2]]), [[1.5, 1.5]], rtol=1e-12)


@pytest.mark.long
def test_a_rigid_motion_of_a_curved_space_strains_nothing():
    """In Nil, moved by the flow of its Killing fields. Seen: 1e-15."""
    nil = gd.spaces.Nil()
    found = gd.symmetries(nil, np.zeros(3))
    moved = np.stack([found.flow([0.7, -0.4, 0.3, 1.1], x, t=2.0) for x in POINTS])
    np.testing.assert_allclose(gd.cells.strain(nil, POINTS, moved, TETRAHEDRA), 0, atol=1e-10)


def test_strain_can_be_differentiated():
    space = gd.spaces.Hyperbolic(3)
    points = 0.2 * POINTS

    def energy(after):
        return jnp.sum(gd.cells.strain(space, points, after, TETRAHEDRA) ** 2)

    slope, h = jax.grad(energy)(jnp.asarray(1.1 * points)), 1e-6
    for at in ((0, 0), (3, 2)):
        step = np.zeros_like(points)
        step[at] = h
        difference = (energy(1.1 * points + step) - energy(1.1 * points - step)) / (2 * h)
        assert float(slope[at]) == pytest.approx(float(difference), rel=1e-6)
    flat = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    assert np.isnan(gd.cells.strain(gd.spaces.Euclidean(3), flat, flat, [[0, 1, 2]])).any()


FLAT = gd.spaces.Euclidean(3)
WRONG = {
    "points": (
        lambda: gd.cells.strain(FLAT, POINTS, POINTS[:4], TETRAHEDRA),
        "before and after must have the same shape",
    ),
    "cells": (lambda: gd.cells.strain(FLAT, POINTS, POINTS, [[0]]), "cells must be rows of 2, 3 or 4"),
    "indices": (lambda: gd.cells.strain(FLAT, POINTS, POINTS, [[0, 9]]), "cells name points 0 to 4"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        call()
