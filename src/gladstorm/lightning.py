"""The public path of `NoiseMonitor`, which logs noise, and `TwoPointModule`, which evaluates at two points."""

from gladstorm.integrations.lightning import NoiseMonitor as NoiseMonitor, TwoPointModule as TwoPointModule  # noqa: I001 - one line
