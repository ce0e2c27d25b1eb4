"""Variational inference for numpyro's models: `fit`, and parts for a plain SVI."""

from gladstorm.core.extras import needing_extras

with needing_extras("gladstorm.numpyro"):
    import numpyro  # noqa: F401 - numpyro itself, not this package

from gladstorm.integrations.numpyro.fit import fit
from gladstorm.integrations.numpyro.guide import StickingELBO
from gladstorm.integrations.numpyro.two_point import TwoPoint
from gladstorm.variational import Fit, Flow, FullRank, LowRank, MeanField, fit_logdensity

__all__ = ["Fit", "Flow", "FullRank", "LowRank", "MeanField", "StickingELBO", "TwoPoint", "fit", "fit_logdensity"]
