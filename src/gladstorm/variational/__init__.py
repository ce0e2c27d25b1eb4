"""Variational inference without a learning rate: families of Gaussians, `fit_logdensity`, and what a `Fit` says.

>>> import jax.numpy as jnp
>>> fit = fit_logdensity(lambda z: -0.5 * jnp.sum((z - 3) ** 2), dim=2, steps=500, starts=2, family=MeanField())
>>> bool(abs(fit.location - 3).max() < 0.2), fit.converged
(True, True)
"""

from gladstorm.variational.families import FullRank, LowRank, MeanField
from gladstorm.variational.fit import Fit, Summary
from gladstorm.variational.logdensity import fit_logdensity

__all__ = ["Fit", "FullRank", "LowRank", "MeanField", "Summary", "fit_logdensity"]
