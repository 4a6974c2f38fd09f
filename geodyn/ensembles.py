"""Batches of any size: what `gd.ensemble` returns, and statistics of its members."""

from geodyn.scale.ensemble import Ensemble
from geodyn.scale.reductions import AbstractReduction, Counts, Histogram, Mean, Moments, Quantiles

__all__ = ["AbstractReduction", "Counts", "Ensemble", "Histogram", "Mean", "Moments", "Quantiles"]
