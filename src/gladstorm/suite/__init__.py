"""Methods on many problems, each tuned on seeds of its own and reported on others from random starts.

- `problems` declares them, as `problems.toml` lists them; two are networks.
- `running` makes the rows of every table, methods by text, and takes problem after problem through `compare`, so that
  it resumes and spreads as that does. Its last functions are the numbers over problems: performance profiles, the
  budget to reach a target.
- `answers` says when to normalize, to clip and to reduce variance, each from intervals.
"""

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
