"""Does the paper's experiment section hold up? Its two experiments repeated, with a verdict on every sentence.

Each is one `Experiment`. `reproduce` asks its `Design` for jobs, runs them part by part, keeps every finished part, and
returns `Results`; `summary` says what they amount to.
"""

from evidence.reproduction.experiment import QUICK, Experiment, ReproductionSettings
from evidence.reproduction.experiments import EXPERIMENTS, choose
from evidence.reproduction.results import Results
from evidence.reproduction.run import reproduce
from evidence.reproduction.summary import summary

__all__ = ["EXPERIMENTS", "QUICK", "Experiment", "ReproductionSettings", "Results", "choose", "reproduce", "summary"]
