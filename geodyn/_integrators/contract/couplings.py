"""The structure of Newton matrices, dense or banded, from the sparsity of a body."""

from functools import lru_cache
from itertools import combinations

import numpy as np

from geodyn._engine.numerics.bands import Banded, Full
from geodyn._integrators.contract.system import Couplings

# As many evaluations as three blocks have columns make a banded matrix: with eight blocks these are three eighths of
# those of a dense one, and with fewer blocks that saves little.
FEWEST_BLOCKS = 8
# Of so few unknowns a dense matrix costs less.
MOST_DENSE = 64


@lru_cache
def form_of(couplings: Couplings | None, stages: int, n: int, sets: int, far: bool) -> Full | Banded:
    """The structure of matrices on n coordinates and `sets` sets of multipliers for each of the `stages`: `Banded` if
    there are many points and few of them in a band, else `Full`. `far` says that the constraints depend on the
    forces."""
    if couplings is None or stages * (n + sets * len(couplings.rows)) <= MOST_DENSE:
        return Full()
    place, width = placed_in_line(couplings)
    # Coupled points are in one block, or in two neighbouring ones, if a block is as wide as the band. A constraint that
    # depends on the forces on its points also depends on the neighbours of these points: then it is twice as wide.
    reaches_neighbours = far or (sets > 1 and couplings.by_velocity)
    block = place // (2 * width if reaches_neighbours else width)
    if block.max() + 1 < FEWEST_BLOCKS:
        return Full()
    # The columns of a point's coordinates are in its block, those of a constraint in the last block of its points.
    of_coordinates = np.repeat(block, n // couplings.points)
    of_constraints = [max(block[list(points)]) for points in couplings.rows]
    of_column = np.concatenate([of_coordinates, *[of_constraints] * sets]).astype(int)
    return Banded(_columns_of_blocks(of_column), len(of_column))


def _columns_of_blocks(block: np.ndarray) -> np.ndarray:
    """The columns [b, w] of each of the b blocks, from the block of each column. Places that are left hold the number
    of all columns, which is no column."""
    counts = np.bincount(block)
    order = np.argsort(block, kind="stable")
    firsts = np.cumsum(counts) - counts
    within = np.arange(len(order)) - np.repeat(firsts, counts)
    columns = np.full((len(counts), counts.max()), len(block))
    columns[block[order], within] = order
    return columns


def placed_in_line(couplings: Couplings) -> tuple[np.ndarray, int]:
    """The places of the points in an order that keeps coupled points near one another, and the largest distance of
    coupled points in it (the bandwidth). It is their own order or that of Cuthill & McKee (Proc. 24th ACM Nat. Conf.
    (1969) 157), whichever has the smaller bandwidth."""
    # Loaded here, since few bodies need it, and it takes almost a tenth of a second.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    pairs = [pair for points in {*couplings.joined, *couplings.rows} for pair in combinations(points, 2)]
    i, j = np.array(pairs, int).reshape(-1, 2).T
    both_ways = (np.r_[i, j], np.r_[j, i])
    size = (couplings.points, couplings.points)
    graph = coo_array((np.ones(2 * len(i)), both_ways), shape=size).tocsr()
    order = reverse_cuthill_mckee(graph, symmetric_mode=True)
    # The inverse of the order tells the place of each point.
    places = np.arange(couplings.points), np.argsort(order)
    widths = [int(max(np.abs(place[i] - place[j]), default=1)) for place in places]
    return places[np.argmin(widths)], min(widths)
