"""Our runs: many starts in one program, read as runs of one start and as fits of four; and the best possible."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from evidence.posteriors.families import FIRST_SCALE, MEAN_FIELD, antithetic, elbos, fixed_draws, unpacked
from evidence.posteriors.problems import PosteriorProblem, made
from evidence.posteriors.rivals import JUDGED_BY, Ends, best_of
from gladstorm.core.statistics import finite, finite_list
from gladstorm.variational import FullRank, MeanField
from gladstorm.variational.conclusion import groups, in_words, judge, updates
from gladstorm.variational.driver import DRAWS, STARTS, gaussian_target, optimize
from gladstorm.variational.gaussians import Diagonal
from gladstorm.variational.programs import Traced
from gladstorm.variational.weights import khat

POLISHED_BY = 2000  # draws
POLISHES = 200  # evaluations of L-BFGS


def measured(name: str, family: str, database: Path | None, budgets: list[int], seeds: list[int]) -> dict[str, Any]:
    """ELBOs of every run by budget, and of every fit its ELBO, k-hat, warnings and errors; the best Gaussian."""
    ends, fits = {}, {}
    with jax.enable_x64(True):
        problem = made(name, database)
        draws = antithetic(problem.dim, JUDGED_BY, 0)
        begin = Diagonal(problem.starts(seeds), np.full((len(seeds), problem.dim), FIRST_SCALE))
        for budget in budgets:
            ends[str(budget)], fits[str(budget)] = _run(problem, family, begin, budget, seeds[0], draws)
    levels = {budget: finite_list(end[2]) for budget, end in ends.items()}
    return {"dim": problem.dim, "levels": levels, "fits": fits, "best": best_of(ends.values())}


def _run(
    problem: PosteriorProblem, family: str, begin: Any, steps: int, seed: int, draws: Any
) -> tuple[Ends, list[dict[str, Any]]]:
    members = MeanField() if family == MEAN_FIELD else FullRank()
    density = Traced(lambda z, _: problem.logdensity(z), np.zeros(problem.dim), np.zeros(2, np.uint32))
    starts = optimize(gaussian_target(density), updates(members, problem.dim, steps), begin, seed, progress=False)
    q = starts.q
    scale = q.scale if family == MEAN_FIELD else q.tril
    level = np.asarray(elbos(problem.logdensity, q.loc, scale, draws))
    fits = []
    for first in range(0, len(level) - STARTS + 1, STARTS):
        mine = slice(first, first + STARTS)
        some = replace(
            starts,
            q=jax.tree.map(lambda leaf, mine=mine: leaf[mine], q),
            **{name: getattr(starts, name)[mine] for name in ("elbos", "gaps", "curve", "noise", "skipped")},
        )
        weights = some.compare(some.member(some.best), DRAWS)
        gain = some.gain_by_widening(some.best, density)
        best, (apart, _) = first + some.best, groups(some, density)
        fits.append(
            {
                "level": finite(level[best]),
                "khat": finite(khat(weights)) if np.isfinite(weights).all() else None,
                "warnings": [*judge(some, weights, float(np.finfo(float).eps), gain), *in_words(apart)],
                "errors": problem.errors(problem.sites(starts.member(best).place(draws))),
            }
        )
    return (q.loc, scale, level), fits


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
    return {"level": levels[better], "khat": finite(khat(weights)), "errors": errors}
