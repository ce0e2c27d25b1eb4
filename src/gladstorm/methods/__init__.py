"""A method is an estimator, a step and a batch rule, composed in `Method`, with an average if it reports one.

- `estimators/` form the direction v from stochastic gradients, `steps/` move x along it: a file per family.
- `batches` says how many samples a step takes, `schedules` are numbers that change from step to step, `averages` are
  what a method may report instead of its last iterate.
- `method` composes them, makes the step size of any method end at 0, and has what is declared about named methods:
  source, price, what is known. `named/` has these: the paper's two, their relatives, those by theorems.
- `norms` are what a step has length 1 in; `text` reads a method from the command line.
"""

from __future__ import annotations

import inspect
from typing import Any

from gladstorm.methods import averages, batches, estimators, norms, schedules, steps
from gladstorm.methods.method import METHODS as METHODS
from gladstorm.methods.method import Declaration as Declaration
from gladstorm.methods.method import Method as Method
from gladstorm.methods.method import crossed as crossed
from gladstorm.methods.method import declared as declared
from gladstorm.methods.method import rows as rows
from gladstorm.methods.method import with_decay as with_decay
from gladstorm.methods.named.momentum import adaptive_storm as adaptive_storm
from gladstorm.methods.named.momentum import clipped_spider as clipped_spider
from gladstorm.methods.named.momentum import ef21_sgdm as ef21_sgdm
from gladstorm.methods.named.momentum import from_plan as from_plan
from gladstorm.methods.named.momentum import mars as mars
from gladstorm.methods.named.momentum import nigt as nigt
from gladstorm.methods.named.momentum import nmars as nmars
from gladstorm.methods.named.momentum import normalized_page as normalized_page
from gladstorm.methods.named.momentum import normalized_spider as normalized_spider
from gladstorm.methods.named.momentum import normalized_svrg as normalized_svrg
from gladstorm.methods.named.momentum import nsgdm as nsgdm
from gladstorm.methods.named.momentum import nsgdm_agnostic as nsgdm_agnostic
from gladstorm.methods.named.momentum import nsgdm_by_theory as nsgdm_by_theory
from gladstorm.methods.named.momentum import nstorm as nstorm
from gladstorm.methods.named.momentum import nstorm_by_theory as nstorm_by_theory
from gladstorm.methods.named.momentum import page as page
from gladstorm.methods.named.momentum import sgd as sgd
from gladstorm.methods.named.momentum import spiderboost as spiderboost
from gladstorm.methods.named.momentum import storm as storm
from gladstorm.methods.named.momentum import svrg as svrg
from gladstorm.methods.named.other_steps import adam as adam
from gladstorm.methods.named.other_steps import beta_ngd as beta_ngd
from gladstorm.methods.named.other_steps import clipped_sgd as clipped_sgd
from gladstorm.methods.named.other_steps import d_adaptation as d_adaptation
from gladstorm.methods.named.other_steps import dog as dog
from gladstorm.methods.named.other_steps import dowg as dowg
from gladstorm.methods.named.other_steps import generalized_signsgd as generalized_signsgd
from gladstorm.methods.named.other_steps import momo as momo
from gladstorm.methods.named.other_steps import pasta as pasta
from gladstorm.methods.named.other_steps import prodigy as prodigy
from gladstorm.methods.named.other_steps import schedule_free as schedule_free
from gladstorm.methods.named.other_steps import stochastic_halpern as stochastic_halpern
from gladstorm.methods.named.other_steps import untuned as untuned
from gladstorm.problems import objectives, oracles


def part_rows() -> list[dict[str, str]]:
    """Every part of a method, objective and oracle: how it is written, and its equation.

    >>> next(row["meaning"] for row in part_rows() if row["part"] == "momentum(eta)")
    'v^{k+1} = (1 − η) v^k + η ∇f(x^{k+1}; ξ^{k+1}).'
    """
    kinds: dict[str, Any] = {"estimator": estimators, "step": steps, "norm": norms, "batch rule": batches}
    kinds |= {"average": averages, "schedule": schedules, "objective": objectives, "oracle": oracles}
    table = []
    for kind, module in kinds.items():
        for name, cls in module.registry().items():
            takes = inspect.signature(cls.from_seed if kind == "objective" else cls).parameters
            fields = ", ".join(field for field in takes if field not in ("seed", "dim", "objective"))
            meaning = str(cls.__doc__).partition("\n")[0]
            table.append({"kind": kind, "part": f"{name}({fields})", "meaning": meaning})
    return table


__all__ = [
    "METHODS",
    "Declaration",
    "Method",
    "crossed",
    "declared",
    "from_plan",
    "part_rows",
    "rows",
    "with_decay",
    *METHODS,
]
