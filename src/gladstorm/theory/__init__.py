"""The paper's theorems as objects that answer questions: which step size, which bound, how many gradients.

>>> from gladstorm import theory
>>> problem = theory.Problem(alpha=0, L=2, B=0.4, G=0.7, gap=3)
>>> statement = theory.theorem("nstorm", problem, gamma0=0.09)
>>> statement.schedule(10_000).n_init, statement.rate, statement.sfo(10_000)
(49, Fraction(1, 4), 20047)
>>> f"{statement.bound(10_000):.8g}"
'3.5906233'

A statement also answers `horizon(eps)`, `tune(T)` and `violations()`. `plan` does all of this in one call, `for_oracle`
starts from a simulated oracle, `master` is the general bound behind a statement, and `sharper` a smaller bound that
this project derived. `GrowingSteps` is the bound of a run that knows none of the constants. `lower_bound` is what every
method needs. The package is plain Python and needs neither JAX nor NumPy.
"""

from gladstorm.theory.batches import (
    batch_for_samples,
    batch_for_time,
    critical_batch,
    price_of_wrong_batch,
    trade_off,
)
from gladstorm.theory.class_constants import weaken, wrapped
from gladstorm.theory.geometry import Decay, Norm
from gladstorm.theory.growing_steps import GrowingSteps
from gladstorm.theory.lower_bounds import lower_bound, smooth_lower_bound
from gladstorm.theory.master_bounds import master
from gladstorm.theory.oracle import around_start, cost_of_moving, for_oracle, problem_of
from gladstorm.theory.planning import (
    compare_plans,
    for_schedule,
    for_wrapper,
    overtakes,
    plan,
    theorem,
)
from gladstorm.theory.plans import Plan
from gladstorm.theory.problem import Problem
from gladstorm.theory.sharper_bounds import sharper, travel_lower_bound
from gladstorm.theory.statement import REGIMES, Condition, Prescription, Statement
from gladstorm.theory.table import rows
from gladstorm.theory.uniform import uniform

__all__ = [
    "REGIMES",
    "Condition",
    "Decay",
    "GrowingSteps",
    "Norm",
    "Plan",
    "Prescription",
    "Problem",
    "Statement",
    "around_start",
    "batch_for_samples",
    "batch_for_time",
    "compare_plans",
    "cost_of_moving",
    "critical_batch",
    "for_oracle",
    "for_schedule",
    "for_wrapper",
    "lower_bound",
    "master",
    "overtakes",
    "plan",
    "price_of_wrong_batch",
    "problem_of",
    "rows",
    "sharper",
    "smooth_lower_bound",
    "theorem",
    "trade_off",
    "travel_lower_bound",
    "uniform",
    "weaken",
    "wrapped",
]
