"""The public path of `TwoPointTrainer`: a Hugging Face Trainer that evaluates at two points."""

from gladstorm.integrations.transformers import TwoPointTrainer as TwoPointTrainer
