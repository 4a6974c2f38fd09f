"""PURPOSE: an optimal stroke with what certifies it; on disk and back."""

import dataclasses
import os

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from geodyn._archive import read_archive, write_archive
from geodyn._typing import Array, Bool, Float, Int, Scalar
from geodyn.control.minimise import RESULTS
from geodyn.locomotion import swimmers
from geodyn.locomotion.connection import AbstractSwimmer
from geodyn.locomotion.stroke import FourierStroke, LegendreStroke

_FORMAT = "geodyn stroke 1"
_STROKES = {"FourierStroke": FourierStroke, "LegendreStroke": LegendreStroke}
_NUMBERS = ("cost", "displacement", "multiplier", "kkt_residual", "wong_residual", "power_variation")
_NUMBERS += ("second_order", "charge")


class OptimalStroke(eqx.Module):
    """A stroke of least energy for its displacement, and the evidence.

    `cost` E = ∫₀¹ r'ᵀG r' dt; `displacement` as reached, a length or exponential coordinates[k], as it was asked for;
    `multiplier` dE/d(displacement). Evidence, all zero at an exact optimum: `kkt_residual` of the coefficients
    (bounds and their complementarity included); `wong_residual`, the largest defect of Wong's equations along the
    stroke, away from bounds, over the largest force: how well the coefficients resolve the stroke; `power_variation`,
    the largest relative deviation of the power from its mean. `second_order` is the smallest eigenvalue of the second
    variation at fixed displacement (`second_variation`), positive at a minimum; `charge` μ₀ is what Wong's equations
    conserve, half of dE/d(displacement) as a covector at the start. `result` says how the search ended; `stats` counts
    iterations and `flat` directions, those of symmetries, such as a shift of time.
    """

    swimmer: AbstractSwimmer
    stroke: FourierStroke | LegendreStroke
    cost: Scalar
    displacement: Float[Array, "..."]
    multiplier: Float[Array, "..."]
    kkt_residual: Scalar
    wong_residual: Scalar
    power_variation: Scalar
    second_order: Scalar
    charge: Float[Array, " k"]
    result: RESULTS
    stats: dict[str, Int[Array, ""] | Bool[Array, ""]]

    def save(self, path: str | os.PathLike) -> None:
        """Write everything to one `.npz` file that `load_stroke` reads; the file appears whole or not at all."""
        fields = [f.name for f in dataclasses.fields(self.swimmer) if f.init and f.name != "group"]
        about = {
            "format": _FORMAT,
            "swimmer": type(self.swimmer).__name__,
            "numbers": {name: _plain(getattr(self.swimmer, name)) for name in fields},
            "stroke": type(self.stroke).__name__,
            "stats": {name: int(value) for name, value in self.stats.items()},
            "result": RESULTS[self.result],
        }
        arrays = {name: np.asarray(getattr(self, name)) for name in _NUMBERS}
        arrays |= {
            "stroke." + f.name: np.asarray(getattr(self.stroke, f.name)) for f in dataclasses.fields(self.stroke)
        }
        write_archive(path, arrays, about)


def _plain(value):
    return None if value is None else np.asarray(value).tolist()


def load_stroke(path: str | os.PathLike, swimmer: AbstractSwimmer | None = None) -> OptimalStroke:
    """The stroke that `OptimalStroke.save` wrote. A swimmer of `geodyn.swimmers` is built again; pass your own.

    Raises ValueError if the file is not such a file, is damaged, needs another swimmer, or holds double precision
    while JAX works in single.
    """
    arrays, about = read_archive(path, _FORMAT)
    if swimmer is None:
        kind = getattr(swimmers, about["swimmer"], None)
        if kind is None or not issubclass(kind, AbstractSwimmer):
            raise ValueError(f"load_stroke: {path} holds a stroke of {about['swimmer']}; pass swimmer=, an instance.")
        swimmer = kind(**about["numbers"])
    parts = {name.split(".")[1]: arrays[name] for name in arrays if name.startswith("stroke.")}
    return OptimalStroke(
        swimmer=swimmer,
        stroke=_STROKES[about["stroke"]](**parts),
        **{name: jnp.asarray(arrays[name]) for name in _NUMBERS},
        result=next(
            r
            for r in (RESULTS.converged, RESULTS.running, RESULTS.stalled, RESULTS.not_finite)
            if RESULTS[r] == about["result"]
        ),
        stats={name: jnp.asarray(value) for name, value in about["stats"].items()},
    )
