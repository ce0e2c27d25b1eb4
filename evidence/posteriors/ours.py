"""Our runs: many starts in one program, read as runs of one start and as fits of four; and the best possible."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from evidence.posteriors.families import FIRST_SCALE, MEAN_FIELD, antithetic, elbos, fixed_draws, unpacked
from evidence.posteriors.problems import Problem, made
from evidence.posteriors.rivals import JUDGED_BY, Ends, best_of, listed
from gladstorm.jobs.progress import quietly
from gladstorm.variational import FullRank, MeanField
from gladstorm.variational.gaussians import Diagonal
from gladstorm.variational.judgement import judge
from gladstorm.variational.logdensity import DRAWS, STARTS, gain_by_widening
from gladstorm.variational.psis import khat
from gladstorm.variational.run import optimize

POLISHED_BY = 2000  # draws
POLISHES = 200  # evaluations of L-BFGS


def measured(name: str, family: str, database: Path | None, budgets: list[int], seeds: list[int]) -> dict[str, Any]:
    """By budget the ELBO of every run, and of every fit its ELBO, k-hat, warnings and errors; the best Gaussian."""
    ends, fits = {}, {}
    with jax.enable_x64(True):
        problem = made(name, database)
        draws = antithetic(problem.dim, JUDGED_BY, 0)
        begin = Diagonal(jnp.asarray(problem.starts(seeds)), jnp.full((len(seeds), problem.dim), FIRST_SCALE))
        for budget in budgets:
            ends[str(budget)], fits[str(budget)] = _run(problem, family, begin, budget, seeds[0], draws)
    levels = {budget: listed(end[2]) for budget, end in ends.items()}
    return {"dim": problem.dim, "levels": levels, "fits": fits, "best": best_of(ends.values())}


def _run(
    problem: Problem, family: str, begin: Any, steps: int, seed: int, draws: Any
) -> tuple[Ends, list[dict[str, Any]]]:
    members = MeanField() if family == MEAN_FIELD else FullRank()
    with quietly():
        stages = members.stages(lambda z, _: problem.logdensity(z), problem.dim, steps)
        outcome = optimize(stages, begin, seed)
    found: Any = outcome.found
    scale = found.scale if family == MEAN_FIELD else found.tril
    level = np.asarray(elbos(problem.logdensity, found.loc, scale, draws))
    weights = outcome.weights(DRAWS)
    fits, densities = [], jax.jit(jax.vmap(problem.logdensity))
    for first in range(0, len(level) - STARTS + 1, STARTS):
        mine = slice(first, first + STARTS)
        by_start = ("elbos", "gaps", "curve", "noise", "skipped")
        some = replace(outcome, **{name: getattr(outcome, name)[mine] for name in by_start})
        best = first + some.best
        z = np.asarray(jax.vmap(jax.tree.map(lambda leaf, best=best: leaf[best], found).place)(draws))
        finite, gain = np.isfinite(weights[best]).all(), gain_by_widening(outcome, best, densities)
        fits.append(
            {
                "level": listed(level[best : best + 1])[0],
                "khat": listed([khat(weights[best])])[0] if finite else None,
                "warnings": list(judge(some, weights[best], float(np.finfo(float).eps), gain)),
                "errors": problem.errors(problem.sites(z)),
            }
        )
    return (np.asarray(found.loc), np.asarray(scale), level), fits


def polished(name: str, family: str, database: Path | None, mean: list[float], scale: list[Any]) -> dict[str, Any]:
    """The best Gaussian that anybody found, after L-BFGS on the ELBO of many fixed draws; its k-hat and errors."""
    with jax.enable_x64(True):
        problem = made(name, database)
        density, dim = problem.logdensity, problem.dim
        draws = antithetic(dim, JUDGED_BY, 0)
        was = np.asarray(mean), np.asarray(scale)
        widths = was[1] if family == MEAN_FIELD else np.diagonal(was[1])
        free = [] if family == MEAN_FIELD else (was[1] / widths[:, None])[np.tril_indices(dim, -1)]
        start = np.concatenate([was[0], widths + np.log(-np.expm1(-widths)), free])
        (x,) = fixed_draws(family, density, [start], [antithetic(dim, POLISHED_BY, 5)], POLISHES)
        now = unpacked(family, x, dim)
        levels = [float(elbos(density, m[None], s[None], draws)[0]) for m, s in (was, now)]
        better = int(np.nan_to_num(levels[1], nan=-np.inf) > levels[0])
        m, s = (was, now)[better]
        z = m + (draws * s if family == MEAN_FIELD else draws @ s.T)
        gaussian = -0.5 * np.sum(draws**2, axis=1)
        weights = np.asarray(jax.jit(jax.vmap(density))(z)) - gaussian
        errors = problem.errors(problem.sites(z))
    return {"level": levels[better], "khat": listed([khat(weights)])[0], "errors": errors}
