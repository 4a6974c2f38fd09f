"""The structure of Newton matrices, dense or banded, from the sparsity of a body."""

from functools import lru_cache
from itertools import combinations

import numpy as np

from geodyn._engine.numerics.bands import Banded, Full
from geodyn._integrators.contract.system import Couplings

FEWEST_BLOCKS = 8
# With fewer unknowns a dense matrix costs less.
LARGEST = 64


@lru_cache
def form_of(couplings: Couplings | None, stages: int, n: int, sets: int, far: bool) -> Full | Banded:
    """The structure of matrices on n coordinates and `sets` sets of multipliers for each of the `stages`: `Banded` if
    there are many points and few of them in a band, else `Full`. `far` says that the constraints depend on the
    forces."""
    if couplings is None or stages * (n + sets * len(couplings.rows)) <= LARGEST:
        return Full()
    place, width = placed_in_line(couplings)
    # A constraint that depends on the forces on its points also depends on the neighbours of these points.
    block = place // (width if not far and not (sets > 1 and couplings.by_velocity) else 2 * width)
    rows = [max(block[list(points)]) for points in couplings.rows]
    of_column = np.concatenate([np.repeat(block, n // couplings.points), *[rows] * sets]).astype(int)
    if block.max() + 1 < FEWEST_BLOCKS:
        return Full()
    counts = np.bincount(of_column)
    blocks = np.full((len(counts), counts.max()), len(of_column))
    order = np.argsort(of_column, kind="stable")
    blocks[of_column[order], np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)] = order
    return Banded(blocks, len(of_column))


def placed_in_line(couplings: Couplings) -> tuple[np.ndarray, int]:
    """The places of the points in an order that keeps coupled points near one another, and the largest distance of
    coupled points in it (the bandwidth). It is their own order or that of Cuthill & McKee (Proc. 24th ACM Nat. Conf.
    (1969) 157), whichever has the smaller bandwidth."""
    # Loaded here, since few bodies need it, and it takes almost a tenth of a second.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    pairs = [pair for points in {*couplings.joined, *couplings.rows} for pair in combinations(points, 2)]
    i, j = np.array(pairs, int).reshape(-1, 2).T
    graph = coo_array((np.ones(2 * len(i)), (np.r_[i, j], np.r_[j, i])), shape=(couplings.points,) * 2).tocsr()
    places = np.arange(couplings.points), np.argsort(reverse_cuthill_mckee(graph, symmetric_mode=True))
    widths = [int(max(np.abs(place[i] - place[j]), default=1)) for place in places]
    return places[np.argmin(widths)], min(widths)
