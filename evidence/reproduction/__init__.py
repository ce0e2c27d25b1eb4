"""Does the paper's experiment section hold up? Its two experiments repeated, with a verdict on every sentence.

Each is one `Experiment` in a file of its own. `reproduce` asks its `Design` for jobs, runs them part by part, keeps
every finished part, and returns `Results`; `summary` says what they amount to.
"""

from collections.abc import Iterable

from evidence.reproduction.cubic import CUBIC
from evidence.reproduction.experiment import QUICK, Experiment, ReproductionSettings
from evidence.reproduction.phase_retrieval import PHASE_RETRIEVAL
from evidence.reproduction.results import Results
from evidence.reproduction.run import reproduce
from evidence.reproduction.summary import summary

EXPERIMENTS = {experiment.name: experiment for experiment in (PHASE_RETRIEVAL, CUBIC)}


def choose(names: Iterable[str]) -> list[Experiment]:
    """Experiments by name; all of them if none is named."""
    for name in names:
        if name not in EXPERIMENTS:
            raise ValueError(f"reproduction: experiments are {', '.join(EXPERIMENTS)}; got {name!r}.")
    return [each for name, each in EXPERIMENTS.items() if name in (set(names) or EXPERIMENTS)]


__all__ = ["EXPERIMENTS", "QUICK", "Experiment", "ReproductionSettings", "Results", "choose", "reproduce", "summary"]
