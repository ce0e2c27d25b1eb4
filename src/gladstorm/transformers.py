"""The public path of the callbacks, `AutoBatchTrainer` and `TwoPointTrainer`, which evaluates at two points."""

from gladstorm.integrations.transformers import AutoBatchTrainer as AutoBatchTrainer
from gladstorm.integrations.transformers import EvaluateAverage as EvaluateAverage
from gladstorm.integrations.transformers import NoiseMonitor as NoiseMonitor
from gladstorm.integrations.transformers import TwoPointTrainer as TwoPointTrainer
