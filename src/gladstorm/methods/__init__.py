"""A method is an estimator, a step and a batch rule. The paper's methods and their relatives are named compositions."""

from __future__ import annotations

from gladstorm.methods.anchored import anchored_nstorm, krasnoselskii_mann, pasta, stochastic_halpern
from gladstorm.methods.declaration import METHODS, Declaration, declared, markdown, part_rows, parts_markdown, rows
from gladstorm.methods.method import Method
from gladstorm.methods.momentum import (
    adaptive_storm,
    ef21_sgdm,
    nigt,
    nsgdm_agnostic,
    nsgdm_for_horizon,
    storm_by_theory,
)
from gladstorm.methods.paper import nsgdm, nstorm, sgd, storm
from gladstorm.methods.references import adam, beta_ngd, clipped_sgd, dog, generalized_signsgd, mars
from gladstorm.methods.refreshing import (
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
    "declared",
    "dog",
    "ef21_sgdm",
    "generalized_signsgd",
    "krasnoselskii_mann",
    "markdown",
    "mars",
    "nigt",
    "normalized_page",
    "normalized_spider",
    "normalized_svrg",
    "nsgdm",
    "nsgdm_agnostic",
    "nsgdm_for_horizon",
    "nstorm",
    "page",
    "page_by_theory",
    "part_rows",
    "parts_markdown",
    "pasta",
    "rows",
    "sgd",
    "spider_by_theory",
    "spiderboost",
    "stochastic_halpern",
    "storm",
    "storm_by_theory",
    "svrg",
]
