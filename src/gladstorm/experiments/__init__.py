"""The paper's two experiments: declared, run, summarised.

Each is one `Experiment` in a file of its own. `reproduce` runs one part by part, remembers every finished part, and
returns its `Results`; `summary` says what they amount to.
"""

from gladstorm.experiments.cubic import CUBIC
from gladstorm.experiments.experiment import QUICK, Experiment, Settings
from gladstorm.experiments.laboratory import reproduce
from gladstorm.experiments.memory import Memory
from gladstorm.experiments.phase_retrieval import PHASE_RETRIEVAL
from gladstorm.experiments.results import Results
from gladstorm.experiments.summary import summary

EXPERIMENTS = {experiment.name: experiment for experiment in (PHASE_RETRIEVAL, CUBIC)}

__all__ = ["EXPERIMENTS", "QUICK", "Experiment", "Memory", "Results", "Settings", "reproduce", "summary"]
