"""Methods on twelve problems, each tuned on seeds of its own and reported on others from random starts.

- `problem` is what a problem is, `problems` declares them, `networks` makes two of them.
- `entries` are the rows of every table: methods by text, with a constant step size and with a linear decay.
- `running` takes problem after problem through `compare`, so that it resumes and spreads as that does.
- `measures` are the numbers over problems: performance profiles, the budget to reach a target, flags.
- `answers` says when to normalize, to clip and to reduce variance, each from intervals.
"""

from gladstorm.suite.entries import BASELINES
from gladstorm.suite.problems import PROBLEMS
from gladstorm.suite.running import FORMAT, FULL, QUICK, SuiteSettings, choose, run

__all__ = ["BASELINES", "FORMAT", "FULL", "PROBLEMS", "QUICK", "SuiteSettings", "choose", "run"]
