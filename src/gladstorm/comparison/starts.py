"""One instance of a problem from random starts: every seed has its own.

From one start for all, a step of fixed length visits the same lattice on every seed: on |x|³ from exactly 5 a method
can end at 1e-11 that ends at 0.02 from anywhere else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from gladstorm.problems import objectives
from gladstorm.problems.oracles import Oracle, Recipe


def from_random_starts(
    recipe: Recipe, spec: str, instance: Any, dim: int | None = None, *, stretch: float = 1.0
) -> Callable[[int], Oracle]:
    """The oracle of an instance that `spec` names, as a function of the seed, which draws x⁰ as the objective does.

    `stretch` multiplies x⁰: below 1 starts are nearer to the origin, above 1 farther.

    >>> from gladstorm import oracles
    >>> spec, recipe = "power:3", oracles.read("blum-gladyshev(B=0.5, G=0.5)")
    >>> problem = from_random_starts(recipe, spec, objectives.named(spec))
    >>> [round(float(problem(seed).objective.start[0]), 3) for seed in (0, 1)]
    [5.04, 5.109]
    """

    def of_seed(seed: int) -> Oracle:
        start = stretch * np.asarray(objectives.named(spec, seed=seed, dim=dim).start)
        return recipe.of(dataclasses.replace(instance, start=start))

    return of_seed
