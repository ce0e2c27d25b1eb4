"""The public path of `TwoPoint`: what takes an Optax transformation to two points in numpyro's SVI."""

from gladstorm.integrations.numpyro import TwoPoint as TwoPoint
