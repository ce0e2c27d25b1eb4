"""Methods on many problems, each tuned on seeds of its own and reported on others from random starts."""

from gladstorm.suite.problems import PROBLEMS
from gladstorm.suite.result import SUITE_FORMAT, SuiteResult, SuiteSettings
from gladstorm.suite.running import BASELINES, FULL, QUICK, choose, entries, run

__all__ = [
    "BASELINES",
    "FULL",
    "PROBLEMS",
    "QUICK",
    "SUITE_FORMAT",
    "SuiteResult",
    "SuiteSettings",
    "choose",
    "entries",
    "run",
]
