"""The public path of `NoiseMonitor`, which logs noise, and `TwoPointTrainer`, which evaluates at two points."""

from gladstorm.integrations.transformers import NoiseMonitor as NoiseMonitor, TwoPointTrainer as TwoPointTrainer  # noqa: I001 - one line
