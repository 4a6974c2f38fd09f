"""How far a body is stretched: its edges in the colours of their change of length."""

from collections.abc import Callable

import jax
import numpy as np

from geodyn._engine.jit import jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Axes, Each, Float
from geodyn._geometry.geodesics.distances import distance
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.trajectory import Trajectory
from geodyn._plot.scene.scene import Scene, scene
from geodyn._plot.space.bodies import moments, stage
from geodyn._plot.style import PLAIN, Labels

# Its middle is grey, and so is seen on white.
COLOURS_OF_STRAIN = "coolwarm"
WIDTH = 2.2


@checked
def strain(
    trajectory: Trajectory,
    times: Each | None = None,
    ax: Axes = None,
    *,
    model: str | Callable | None = None,
    system: AbstractSystem | None = None,
    labels: Labels = PLAIN,
):
    """The body at one time or at several, each of its edges in the colour of its strain: the change of its length since
    the start of the trajectory, in parts of that length. Red edges are stretched, blue ones compressed.

    Lengths are those of geodesics, so that in any space what moves with a symmetry is grey. The strain of cells is
    `gd.cells.strain`.

    Args:
        trajectory: what `gd.integrate` returns, of a body with edges.
        times: a time, or several; by default as in `body`.
        ax: the Axes; by default a new one.
        model: the name of a model of the space, or a function x[n] -> [2 or 3]; by default the first that fits.
        system: the system, for a trajectory that was read from a file.
        labels: names of the coordinates and units, a `gd.plot.Labels`.

    Returns:
        The Axes, with a bar of the colours beside it.

    Raises:
        ValueError: for a body without edges, such as free points, or with an edge of no length at the start, and for
            times outside of the trajectory.

    Example:
        A rod whose ends part at the rate 0.5, for a short time, is stretched by 5 percent.

        >>> rod = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], gd.Spring([(0, 1)], 1e-6, 1.0))
        >>> motion = gd.integrate(rod, [[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.5, 0.0]], t1=0.1, steps=4)
        >>> bar = gd.plot.strain(motion, 0.1).figure.axes[1]
        >>> print(f"{bar.get_ylim()[1]:.4f}")
        0.0500
    """
    from matplotlib.collections import LineCollection

    drawn = scene(trajectory, model, system, labels)
    if not len(drawn.edges):
        raise ValueError("the strain of a body is that of its edges, and this body has none: give it springs or rods")
    frames = moments(drawn, times)
    strains = _strains(drawn, frames)
    largest = float(np.max(np.abs(strains)))
    bound = largest if largest > 0 else 1.0
    ax = stage(drawn, ax)
    if ax.name == "3d":
        from mpl_toolkits.mplot3d.art3d import Line3DCollection as LineCollection
    # In three dimensions as well nothing is paler than its strain.
    lines = [curve for curves in drawn.geodesics(frames) for curve in curves]
    edges = LineCollection(lines, cmap=COLOURS_OF_STRAIN, linewidths=WIDTH, capstyle="round")
    edges.set_array(np.ravel(strains))
    edges.set_clim(-bound, bound)
    ax.add_collection(edges, autolim=False)
    ax.figure.colorbar(edges, ax=ax, shrink=0.7, label="relative change of length")
    return ax


def _strains(drawn: Scene, frames: np.ndarray) -> Float[np.ndarray, "frames E"]:
    """The changes of the lengths of the edges since the start, in parts of these."""
    q = drawn.q[np.append(0, frames)]
    first, second = drawn.edges.T
    lengths = np.asarray(_lengths(drawn.space, q[:, first], q[:, second]))
    for edge in drawn.edges[lengths[0] == 0]:
        raise ValueError(
            f"the strain of the edge between points {tuple(edge.tolist())} is relative to its length at the start of "
            "the trajectory, which is 0: plot a trajectory that starts with another length"
        )
    return lengths[1:] / lengths[0] - 1


@jit
def _lengths(space: AbstractManifold, x: Float[Array, "T E n"], y: Float[Array, "T E n"]) -> Float[Array, "T E"]:
    return jax.vmap(jax.vmap(lambda x, y: distance(space, x, y)))(x, y)
