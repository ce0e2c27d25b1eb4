"""The rivals: all stochastic ones of a posterior advance in one compiled program, a row for each run.

Each takes one draw a step. Adam's settings are numbers of a row, so that the tuned Adam is more rows of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from jax.nn import softplus
from scipy.optimize import minimize

from evidence.posteriors.families import (
    FIRST_SCALE,
    FULL_RANK,
    MEAN_FIELD,
    Density,
    antithetic,
    elbos,
    first,
    fixed_draws,
    point,
    unpacked,
    whitened,
)
from evidence.posteriors.problems import PosteriorProblem, made
from gladstorm.core.statistics import finite_list

Ends = tuple[Any, Any, Any]  # mean, scale and ELBO, a row for each seed

# rate, share of it that a cosine takes away, β₂, clipping, sticking the landing
ADAMS = {
    "Adam 0.01": (0.01, 0.0, 0.999, np.inf, 0.0),
    "Adam 0.001": (0.001, 0.0, 0.999, np.inf, 0.0),
    "ClippedAdam 0.01": (0.01, 0.0, 0.999, 10.0, 0.0),
    "Adam 0.1, cosine": (0.1, 1.0, 0.999, np.inf, 0.0),
}
RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
SHAPES = ((0.0, 0.999), (1.0, 0.999), (1.0, 0.99))
GRID = [(rate, cosine, b2, np.inf) for rate, (cosine, b2) in product(RATES, SHAPES)]
FEWER_ADAMS = {name: ADAMS[name] for name in ("Adam 0.01", "Adam 0.1, cosine")}
FEWER_SETTINGS = [(rate, 1.0, 0.999, np.inf) for rate in RATES]
ALL, SOME, NONE = "all", "some", "none"
TUNED, TUNED_STL = "tuned Adam", "tuned Adam, STL"
STAN, FIXED, PATHFINDER = "Stan's step-size search", "fixed draws, L-BFGS", "Pathfinder"
ETAS = (100.0, 10.0, 1.0, 0.1, 0.01)  # Stan's
TRIAL, TRIAL_DRAWS = 50, 100  # steps of each, and draws of the ELBO it is judged by
FIXED_DRAWS = 30
HISTORY, PATH_DRAWS = 6, 10
TUNING_SEEDS = 3
JUDGED_BY = 2000  # draws of an ELBO


def _adam(setting: Any, steps: Any) -> Any:
    rate, cosine, b2, clip, _ = setting
    schedule = lambda k: rate * (1 - cosine * (1 - jnp.cos(jnp.pi * k / steps)) / 2)  # noqa: E731 - Optax calls it
    return optax.chain(optax.clip(clip), optax.scale_by_adam(b2=b2), optax.scale_by_learning_rate(schedule))


def _stan(setting: Any, _: Any) -> Any:
    """η k^(−1/2) g/(1 + √s) with s the mean of g² that forgets a tenth a step."""

    def update(slope: Any, state: Any, _: Any = None) -> Any:
        count, mean = state
        mean = jnp.where(count == 0, slope**2, 0.1 * slope**2 + 0.9 * mean)
        return -setting[0] * (count + 1) ** -0.5 * slope / (1 + jnp.sqrt(mean)), (count + 1, mean)

    return optax.GradientTransformation(lambda x: (jnp.zeros(()), jnp.zeros_like(x)), update)


@dataclass(frozen=True)
class RivalGroup:
    """Runs of one kind: their settings are the rows of an array."""

    make: Callable[[Any, Any], Any]
    reported: Callable[[Any, Any], Any] = lambda _, x: x  # state and point to what is reported
    positive: Callable[[Any], Any] = softplus


GROUPS = {
    "Adam": RivalGroup(_adam),
    "Prodigy": RivalGroup(lambda *_: optax.contrib.prodigy()),
    "DoG": RivalGroup(lambda *_: optax.contrib.dog()),
    "Schedule-Free": RivalGroup(
        lambda *_: optax.contrib.schedule_free_adamw(), lambda s, x: optax.contrib.schedule_free_eval_params(s, x)
    ),
    STAN: RivalGroup(_stan, positive=jnp.exp),
}


def program(density: Density, dim: int, family: str, groups: list[str]) -> Callable[..., dict[str, Any]]:
    """All rows of all groups from their starts through `steps` steps: the points they report.

    Arguments: steps, keys by seed, and by group the rows' settings, starts and numbers of their seeds.
    """
    slopes = jax.vmap(jax.grad(density))

    @jax.jit
    def run(steps: Any, keys: Any, settings: Any, starts: Any, seeds: Any) -> dict[str, Any]:
        makers = {name: GROUPS[name].make for name in groups}
        states = {
            name: jax.vmap(lambda s, x, m=makers[name]: m(s, steps).init(x))(settings[name], starts[name])
            for name in groups
        }

        def step(k: Any, carry: Any) -> Any:
            points, states = carry
            draw = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, k), (dim,)))(keys)
            eps = {name: draw[seeds[name]] for name in groups}
            z = {
                name: jax.vmap(lambda x, e, p=GROUPS[name].positive: point(family, x, e, p)[0])(points[name], eps[name])
                for name in groups
            }
            slope = slopes(jnp.concatenate([z[name] for name in groups]))
            begun = 0
            after: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
            for name in groups:
                rows = slice(begun, begun + len(seeds[name]))
                begun = rows.stop
                after[0][name], after[1][name] = jax.vmap(lambda *row, n=name: moved(n, *row))(
                    settings[name], points[name], states[name], eps[name], slope[rows]
                )
            return after

        def moved(name: str, setting: Any, x: Any, state: Any, eps: Any, slope: Any) -> Any:
            positive, stl = GROUPS[name].positive, setting[-1]
            _, pull = jax.vjp(lambda x: point(family, x, eps, positive), x)
            landing = jnp.where(stl > 0, whitened(family, x, eps, positive), 0.0)
            (gradient,) = pull((-slope - landing, stl - 1))
            update, state = makers[name](setting, steps).update(gradient, state, x)
            return x + update, state

        points, states = jax.lax.fori_loop(0, steps, step, (starts, states))
        return {name: jax.vmap(GROUPS[name].reported)(states[name], points[name]) for name in groups}

    return run


def stochastic(
    problem: PosteriorProblem, family: str, budgets: list[int], seeds: list[int], draws: Any, fewer: bool
) -> dict[str, dict[int, Ends]]:
    """Ends of the runs of every rival by budget, or of fewer; of the tuned one, those of its first seeds."""
    every = family == MEAN_FIELD and not fewer
    groups, adams, grid = list(GROUPS) if every else ["Adam"], ADAMS, GRID
    if fewer:
        adams, grid = FEWER_ADAMS, FEWER_SETTINGS
    count, some = len(seeds), list(range(min(TUNING_SEEDS, len(seeds))))
    rows = [(setting, seed) for setting in adams.values() for seed in range(count)]
    grids = {TUNED: 0.0, TUNED_STL: 1.0} if every else {TUNED_STL: 1.0}
    rows += [((*setting, stl), seed) for stl in grids.values() for setting in grid for seed in some]
    settings = {name: np.zeros((count, 5)) for name in groups} | {"Adam": np.array([row for row, _ in rows])}
    which = {name: np.arange(count) for name in groups} | {"Adam": np.array([seed for _, seed in rows])}
    starts = problem.starts(seeds)
    at = {name: first(family, starts[which[name]], float(np.log(np.expm1(FIRST_SCALE)))) for name in groups}
    run = program(problem.logdensity, problem.dim, family, groups)
    keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(2), seed))(np.array(seeds))
    if STAN in groups:
        at[STAN] = first(family, starts, 0.0)
        trials = [
            run(TRIAL, keys, settings | {STAN: np.tile([eta, 0, 0, 0, 0], (count, 1))}, at, which)[STAN] for eta in ETAS
        ]
        judged = antithetic(problem.dim, TRIAL_DRAWS, 1)
        levels = [_level(problem.logdensity, family, x, judged, jnp.exp)[2] for x in (at[STAN], *trials)]
        etas = [_chosen([float(level[seed]) for level in levels]) for seed in range(count)]
        settings[STAN] = np.array([[eta, 0, 0, 0, 0] for eta in etas])  # what the search cost is not charged
    results: dict[str, dict[int, Ends]] = {}
    for budget in budgets:
        ends = run(budget, keys, settings, at, which)
        for name in groups:
            mean, scale, level = _level(problem.logdensity, family, ends[name], draws, GROUPS[name].positive)
            if name != "Adam":
                results.setdefault(name, {})[budget] = (mean, scale, level)
                continue
            for j, adam in enumerate(adams):
                mine = slice(j * count, (j + 1) * count)
                results.setdefault(adam, {})[budget] = (mean[mine], scale[mine], level[mine])
            begun = len(adams) * count
            for tuned in grids:
                block = range(begun, begun + len(grid) * len(some))
                begun = block.stop
                medians = np.nan_to_num(level[block], nan=-np.inf).reshape(len(grid), len(some))
                best = int(np.argmax(np.median(medians, axis=1)))
                mine = slice(block.start + best * len(some), block.start + (best + 1) * len(some))
                results.setdefault(tuned, {})[budget] = (mean[mine], scale[mine], level[mine])
    return results


def measured(
    name: str,
    family: str,
    database: Path | None,
    budgets: list[int],
    seeds: list[int],
    stochastic_ones: str = ALL,
) -> dict[str, Any]:
    """The ELBOs of rivals, of the stochastic ones all, some or none, and the best Gaussian that one of them found."""
    with jax.enable_x64(True):
        problem = made(name, database)
        draws = antithetic(problem.dim, JUDGED_BY, 0)
        results: dict[str, dict[int, Ends]] = {}
        if stochastic_ones != NONE:
            results = stochastic(problem, family, budgets, seeds, draws, fewer=stochastic_ones == SOME)
        results |= deterministic(problem, family, budgets, seeds, draws)
    levels = {rival: {str(k): finite_list(end[2]) for k, end in ends.items()} for rival, ends in results.items()}
    return {
        "dim": problem.dim,
        "levels": levels,
        "best": best_of([each for ends in results.values() for each in ends.values()]),
    }


def best_of(ends: Iterable[Ends]) -> dict[str, Any]:
    """The Gaussian with the largest ELBO."""
    rows = [
        (float(level), m, s) for mean, scale, levels in ends for m, s, level in zip(mean, scale, levels, strict=True)
    ]
    level, mean, scale = max((row for row in rows if np.isfinite(row[0])), key=lambda row: row[0])
    return {"mean": mean.tolist(), "scale": scale.tolist(), "level": float(level)}


def _level(density: Density, family: str, x: Any, draws: Any, positive: Any) -> tuple[Any, Any, Any]:
    mean, scale = jax.vmap(lambda each: unpacked(family, each, draws.shape[1], positive))(x)
    return np.asarray(mean), np.asarray(scale), np.asarray(elbos(density, mean, scale, draws))


def _chosen(levels: list[float]) -> float:
    """Stan's choice from the ELBO at the start and after each trial: it stops at the first η worse than the last.

    >>> _chosen([-9.0, -50.0, -8.0, -3.0, -5.0, -1.0])
    1.0
    """
    start, *rest = [level if np.isfinite(level) else -np.inf for level in levels]
    best, eta = -np.inf, ETAS[-1]
    for level, step_size in zip(rest, ETAS, strict=True):
        if level < best and best > start:
            break
        best, eta = level, step_size
    return eta


def deterministic(
    problem: PosteriorProblem, family: str, budgets: list[int], seeds: list[int], draws: Any
) -> dict[str, dict[int, Ends]]:
    """Fixed draws with L-BFGS at mean field, each evaluation charged with its draws; Pathfinder at full rank."""
    starts = problem.starts(seeds)
    if family == FULL_RANK:
        value = jax.jit(jax.value_and_grad(problem.logdensity))
        ends = [_pathfinder(problem.logdensity, value, start) for start in starts]
        mean, scale = (np.stack(each) for each in zip(*ends, strict=True))
        level = np.asarray(elbos(problem.logdensity, mean, scale, draws))
        return {PATHFINDER: dict.fromkeys(budgets, (mean, scale, level))}
    at = first(family, starts, float(np.log(np.expm1(FIRST_SCALE))))
    some = [np.random.default_rng([seed, 3]).normal(size=(FIXED_DRAWS, problem.dim)) for seed in seeds]
    results = {}
    for budget in budgets:
        x = np.stack(fixed_draws(family, problem.logdensity, at, some, max(budget // FIXED_DRAWS, 1)))
        results[budget] = _level(problem.logdensity, family, x, draws, softplus)
    return {FIXED: results}


def _pathfinder(density: Density, value: Any, start: Any) -> tuple[Any, Any]:
    """The best Gaussian on the path of L-BFGS: its inverse Hessian is the covariance, a Newton step away the mean."""
    path, dim = [start], start.size

    def loss(x: Any) -> tuple[float, Any]:
        level, slope = value(x)
        good = np.isfinite(level) and np.isfinite(slope).all()
        return (-float(level), -np.asarray(slope)) if good else (1e30, np.zeros(dim))

    minimize(
        loss, start, jac=True, method="L-BFGS-B", callback=lambda x: path.append(x.copy()), options={"maxcor": HISTORY}
    )
    slopes = [loss(x)[1] for x in path]
    draws, diagonal = antithetic(dim, PATH_DRAWS, 4), np.ones(dim)
    pairs: list[tuple[Any, Any]] = []
    best, best_fit = -np.inf, (start, FIRST_SCALE * np.eye(dim))
    for before, x, was, slope in zip(path, path[1:], slopes, slopes[1:], strict=False):
        s, y = x - before, slope - was
        if s @ y > 1e-12 * np.sqrt((s @ s) * (y @ y)):
            a, b, c = y @ (diagonal * y), s @ y, s @ (s / diagonal)
            diagonal = 1 / (a / (b * diagonal) + y**2 / b - a * s**2 / (b * c * diagonal**2))
            pairs = [*pairs, (s, y)][-HISTORY:]
        covariance = np.diag(diagonal)
        for s, y in pairs:
            away = np.eye(dim) - np.outer(s, y) / (s @ y)
            covariance = away @ covariance @ away.T + np.outer(s, s) / (s @ y)
        mean = x - covariance @ slope
        try:
            scale = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            continue
        level = float(elbos(density, mean[None], scale[None], draws)[0])
        if level > best:
            best, best_fit = level, (mean, scale)
    return best_fit
