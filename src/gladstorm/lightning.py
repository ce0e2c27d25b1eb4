"""The public path of the callbacks and of `TwoPointModule`, which evaluates at two points."""

from gladstorm.integrations.lightning import AutoBatch as AutoBatch
from gladstorm.integrations.lightning import EvaluateAverage as EvaluateAverage
from gladstorm.integrations.lightning import NoiseMonitor as NoiseMonitor
from gladstorm.integrations.lightning import TwoPointModule as TwoPointModule
