"""Batches of any size: what `gd.ensemble` returns, and statistics of its members."""

from geodyn._scale.ensemble import Ensemble
from geodyn._scale.reductions import AbstractReduction, Counts, Histogram, Mean, Moments, Quantiles

__all__ = ["AbstractReduction", "Counts", "Ensemble", "Histogram", "Mean", "Moments", "Quantiles"]
