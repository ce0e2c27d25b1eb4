"""The third validation: `fit` as users call it on new models, and NUTS, which says whether it is right."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS

import gladstorm.numpyro
from evidence.posteriors.families import MEAN_FIELD, antithetic, elbos
from evidence.posteriors.problems import made
from evidence.posteriors.results import Moments
from evidence.posteriors.rivals import JUDGED_BY, best_of
from gladstorm.core.statistics import finite, finite_list
from gladstorm.variational import FullRank, MeanField
from gladstorm.variational.check import MOVED, WIDENED
from gladstorm.variational.driver import BLOCKS, CANDIDATES, TRIED
from gladstorm.variational.weights import is_near

DRAWS = 10_000  # behind the moments of a fit
CHAINS = 4
ATTEMPTS = (  # of a reference: warm-up, draws, target, dense mass
    (1000, 2500, 0.9, False),
    (2000, 5000, 0.97, True),
)
RHAT, ESS = 1.01, 1000  # at most and at least, of every number


def measured(
    name: str, family: str, database: Path | None, budgets: list[int], runs: list[int], seeds: list[int]
) -> dict[str, Any]:
    """ELBOs of runs of one start and of fits of four by budget, what each fit says of itself, and its moments."""
    with jax.enable_x64(True):
        problem = made(name, database)
        draws, guide = antithetic(problem.dim, JUDGED_BY, 0), MeanField() if family == MEAN_FIELD else FullRank()
        fit = partial(gladstorm.numpyro.fit, problem.model, problem.data, guide=guide, progress=False)

        def ends(fits: list[Any]) -> tuple[Any, Any, Any]:
            tril = np.stack([each.scale_tril for each in fits])
            scale = np.diagonal(tril, axis1=1, axis2=2) if family == MEAN_FIELD else tril
            mean = np.stack([each.location for each in fits])
            return mean, scale, np.asarray(elbos(problem.logdensity, mean, scale, draws))

        levels, verdicts, steps, reached = {}, {}, {}, []
        for budget in budgets:
            gradients = 1 + (CANDIDATES - 1) * TRIED  # for each step, with those of candidates; these end with a block
            steps[str(budget)] = int(budget / gradients / BLOCKS) * BLOCKS
            single = [fit(steps=steps[str(budget)], seed=seed, starts=1) for seed in runs]
            if max(each.gradients for each in single) > budget:
                raise ValueError(f"posteriors: a run must take {budget} gradients at most; got {single[0].gradients}.")
            alone = ends(single)
            fits = [fit(steps=budget, seed=seed) for seed in seeds]
            four = ends(fits)
            levels[str(budget)] = finite_list(alone[2])
            verdicts[str(budget)] = [
                {"level": level, **_said(each)} for each, level in zip(fits, finite_list(four[2]), strict=True)
            ]
            reached += [alone, four]
    return {"dim": problem.dim, "levels": levels, "steps": steps, "fits": verdicts, "best": best_of(reached)}


def resampled(name: str, database: Path | None, seed: int) -> dict[str, Any]:
    """Moments of a full-rank fit's draws, and of those that its weights choose from among them."""
    with jax.enable_x64(True):
        problem = made(name, database)
        fit = gladstorm.numpyro.fit(problem.model, problem.data, guide=FullRank(), seed=seed, progress=False)
        return {"sample": moments(fit.sample(DRAWS)), "resample": moments(fit.resample(DRAWS))}


def _said(fit: Any) -> dict[str, Any]:
    """Return the verdicts of a fit on itself, and the moments of its draws."""
    check, starts = fit.check(), np.sort(fit.elbos)[::-1]
    sizes = [np.abs(shift).max() / MOVED for shift in check.shift.values()]
    sizes += [np.abs(np.log(spread)).max() / np.log(WIDENED) for spread in check.spread.values()]
    return {
        "khat": finite(fit.khat),
        "efficiency": finite(fit.efficiency),
        "near": fit.khat is not None and is_near(fit.khat, fit.efficiency),
        "warnings": list(fit.warnings),
        "steady": check.steady,
        "drift": finite(float(np.max(sizes))),
        "behind": finite(float(starts[0] - starts[1])),
        "moments": moments(fit.sample(DRAWS)),
    }


def moments(sites: dict[str, Any]) -> Moments:
    """Mean and standard deviation of every number of every site, from draws along the first axis."""
    flat = {name: np.asarray(draws).reshape(len(draws), -1) for name, draws in sorted(sites.items())}
    return {name: [finite_list(draws.mean(axis=0)), finite_list(draws.std(axis=0))] for name, draws in flat.items()}


def errors(ours: Moments, true: Moments | None) -> dict[str, Any]:
    """Return the largest error of a mean, in true standard deviations, and the extreme ratios of deviations."""
    if true is None:
        return {"mean": None, "sds": []}
    shared = sorted(ours.keys() & true.keys())
    (mean, sd), (true_mean, true_sd) = (
        np.concatenate([np.array(each[name], float) for name in shared], axis=1) for each in (ours, true)
    )
    with np.errstate(all="ignore"):
        means, ratios = np.abs(mean - true_mean) / true_sd, sd / true_sd
    return {"mean": finite(float(means.max())), "sds": [finite(float(ratios.min())), finite(float(ratios.max()))]}


def reference(name: str, database: Path | None, seed: int) -> dict[str, Any]:
    """Moments by NUTS, its least effective sample size and largest R-hat; a second attempt is made where it fails."""
    with jax.enable_x64(True):
        problem = made(name, database)
        for attempt, (warm_up, draws, target, dense) in enumerate(ATTEMPTS, 1):
            kernel = NUTS(problem.model, target_accept_prob=target, dense_mass=dense)
            chains = MCMC(
                kernel,
                num_warmup=warm_up,
                num_samples=draws,
                num_chains=CHAINS,
                chain_method="vectorized",
                progress_bar=False,
            )
            chains.run(jax.random.key(seed + attempt), problem.data, extra_fields=("diverging",))
            sites = {site: np.asarray(each) for site, each in chains.get_samples(group_by_chain=True).items()}
            rhat = max(float(np.max(split_gelman_rubin(each))) for each in sites.values())
            ess = min(float(np.min(effective_sample_size(each))) for each in sites.values())
            good = rhat <= RHAT and ess >= ESS
            if good:
                break
    return {
        "rhat": finite(rhat),
        "ess": finite(ess),
        "good": bool(good),
        "attempts": attempt,
        "divergent": float(np.mean(chains.get_extra_fields()["diverging"])),
        "moments": moments(chains.get_samples()),
    }
