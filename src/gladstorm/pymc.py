"""The public path of what works with PyMC."""

from gladstorm.integrations.pymc import fit as fit
