"""A method is an estimator, a step and a batch rule, composed in `Method`, with an average if it reports one.

- `estimators/` form the direction v from stochastic gradients, `steps/` move x along it: one file each.
- `batches` says how many samples a step takes, `schedules` are numbers that change from step to step, `averages` are
  what a method may report instead of its last iterate.
- `named/` has the compositions that have a name: the paper's two methods, their relatives, and those whose numbers come
  from a theorem. `declaration` is what is declared about each: source, price, what is known.
- `decay` makes the step size of any method end at 0.
- `text` reads a method from the command line; `norms` are lengths of pytrees.
"""

from __future__ import annotations

from gladstorm.methods.decay import with_decay
from gladstorm.methods.declaration import METHODS, Declaration, declared, markdown, part_rows, parts_markdown, rows
from gladstorm.methods.method import Method
from gladstorm.methods.named.anchored import anchored_nstorm, krasnoselskii_mann, pasta, stochastic_halpern
from gladstorm.methods.named.by_theory import from_plan, nsgdm_by_theory, nstorm_by_theory
from gladstorm.methods.named.momentum import (
    adaptive_storm,
    ef21_sgdm,
    mars,
    nigt,
    nsgdm_agnostic,
    nsgdm_for_horizon,
    storm_by_theory,
)
from gladstorm.methods.named.other_steps import adam, beta_ngd, clipped_sgd, decaying_clipped_sgd, generalized_signsgd
from gladstorm.methods.named.paper import nsgdm, nstorm, sgd, storm
from gladstorm.methods.named.parameter_free import d_adaptation, dog, dowg, momo, prodigy, schedule_free, storm_plus
from gladstorm.methods.named.refreshing import (
    clipped_spider,
    normalized_page,
    normalized_spider,
    normalized_svrg,
    page,
    page_by_theory,
    spider_by_theory,
    spiderboost,
    svrg,
)
from gladstorm.methods.named.untuned import steered, steered_landing

__all__ = [
    "METHODS",
    "Declaration",
    "Method",
    "adam",
    "adaptive_storm",
    "anchored_nstorm",
    "beta_ngd",
    "clipped_sgd",
    "clipped_spider",
    "d_adaptation",
    "decaying_clipped_sgd",
    "declared",
    "dog",
    "dowg",
    "ef21_sgdm",
    "from_plan",
    "generalized_signsgd",
    "krasnoselskii_mann",
    "markdown",
    "mars",
    "momo",
    "nigt",
    "normalized_page",
    "normalized_spider",
    "normalized_svrg",
    "nsgdm",
    "nsgdm_agnostic",
    "nsgdm_by_theory",
    "nsgdm_for_horizon",
    "nstorm",
    "nstorm_by_theory",
    "page",
    "page_by_theory",
    "part_rows",
    "parts_markdown",
    "pasta",
    "prodigy",
    "rows",
    "schedule_free",
    "sgd",
    "spider_by_theory",
    "spiderboost",
    "steered",
    "steered_landing",
    "stochastic_halpern",
    "storm",
    "storm_by_theory",
    "storm_plus",
    "svrg",
    "with_decay",
]
