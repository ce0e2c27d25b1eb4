"""Variational inference without a learning rate: families of Gaussians, `fit_logdensity`, and what a `Fit` says."""

from gladstorm.variational.families import Flow, FullRank, LowRank, MeanField
from gladstorm.variational.fit import Fit, Summary
from gladstorm.variational.logdensity import fit_logdensity

__all__ = ["Fit", "Flow", "FullRank", "LowRank", "MeanField", "Summary", "fit_logdensity"]
