"""From starts to a fit: the best is measured and judged, and where starts ended apart, so is their mixture."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from gladstorm.methods.steps import untuned as per_coordinate
from gladstorm.variational.check import check
from gladstorm.variational.driver import DRAWS, FIRST_SCALE, WIDER, Starts, gaussian_target, optimize
from gladstorm.variational.families import RANK, Family, Flow, FullRank, LowRank, MeanField
from gladstorm.variational.fit import WEIGHED, WEIGHED_SEED, Fit, Group
from gladstorm.variational.flow import FlowUpdate
from gladstorm.variational.gaussians import Diagonal, FullRankUpdate, MeanFieldUpdate, NewtonUpdate
from gladstorm.variational.low_rank import Gaussian, LowRankUpdate
from gladstorm.variational.programs import Sampler, Traced, Update

FIRST = 0.3  # the share of the steps that a mean field gets, where another update follows it
ROUNDS, MOST = 3, 1 / 15  # of Newton steps, and the share of the gradients that one may have
DRAWS_PER_COORDINATE, FEWEST = 8, 3  # of a Newton step; with fewer for each coordinate, curvature is not known
ENTRIES_PER_STEP = 0.25  # a full covariance may have so many numbers for each step that estimates them
NATS = 1.0  # starts whose ELBOs differ by more disagree
SAME = 0.1  # nats: starts that differ by less are at the same optimum
STILL_GAINING = 0.3  # nats: a last update that gains more had not arrived
SKIPPED = 0.01  # of the gradients
ROUNDING = 0.1  # nats
APART = 3.0  # standard deviations of the difference of two means, in their farthest coordinate
DIP = 2.0  # nats: how far the density falls between two modes
LEAST_WEIGHT = 0.01
BETWEEN = 30  # points on the way from one mean to another


class Mixture(NamedTuple):
    """Several Gaussians with weights, in NumPy: the last number of ε says which of them z is from."""

    members: tuple[Gaussian, ...]
    log_weights: np.ndarray

    @property
    def noise_size(self) -> int:
        """Length of the noise ε."""
        return 1 + self.members[0].noise_size

    @property
    def loc(self) -> np.ndarray:
        """Mean of the mixture."""
        return np.asarray(sum(np.exp(w) * q.loc for w, q in zip(self.log_weights, self.members, strict=True)))

    def place(self, noise: Any) -> Any:
        """Return z at ε."""
        ends = [NormalDist().inv_cdf(min(share, 1.0)) for share in np.cumsum(np.exp(self.log_weights))[:-1]]
        chosen = (noise[..., -1, None] > np.array(ends)).sum(-1)
        return sum((chosen == at)[..., None] * q.place(noise[..., :-1]) for at, q in enumerate(self.members))

    def log_density_at(self, noise: Any) -> Any:
        """Return log q(z) at the z of ε."""
        z = self.place(noise)
        return np.logaddexp.reduce(
            [w + q.log_density(z) for w, q in zip(self.log_weights, self.members, strict=True)], axis=0
        )

    def scale_tril(self) -> Any:
        """Return L, with LLᵀ the covariance."""
        center, covariance = self.loc, 0.0
        for w, q in zip(self.log_weights, self.members, strict=True):
            tril, off = q.scale_tril(), q.loc - center
            covariance = covariance + np.exp(w) * (tril @ tril.T + np.outer(off, off))
        return np.linalg.cholesky(covariance)


def fit_gaussian(
    density: Traced,
    family: Family | None,
    points: Any,
    transform: Callable[[Any], dict[str, Any]],
    *,
    steps: int,
    seed: int,
    store: str | os.PathLike[str] | None,
    progress: bool,
    sites: list[list[Any]],
    starts: int,
    on_all_data: Traced | None = None,
) -> Fit:
    """Fit a Gaussian to a log density that may take a key, for a subsample of the data.

    Args:
        density: The log density of z and a key.
        family: Where to search; by default the largest one that the steps allow.
        points: Where the means begin, a row for each candidate.
        transform: From z to a dictionary of what it means.
        steps: The number of steps of every start.
        seed: Decides every draw.
        store: The folder where finished blocks are kept.
        progress: Whether to show progress on standard error.
        sites: What the coordinates are: names and shapes, in order.
        starts: How many of the candidates go on.
        on_all_data: The log density of z on all data, where that of the key is on a subsample.
    """
    subsampled = on_all_data is not None
    if subsampled and isinstance(family, Flow):
        raise ValueError(
            "fit: guide must be a Gaussian family for subsampled data; got Flow(), which needs all of them."
        )
    dim, dtype = points.shape[1], jnp.result_type(float)
    chosen = largest_family(dim, steps) if family is None else family
    begin = Diagonal(np.asarray(points, dtype), np.full(points.shape, FIRST_SCALE, dtype))
    list_of_updates = updates(chosen, dim, steps, per_coordinate.SUBSAMPLED if subsampled else 0.0)
    target, kept = gaussian_target(density, on_all_data), (seed, store, str(chosen), progress, starts)
    reached = optimize(target, list_of_updates, begin, *kept)
    best, about = reached.member(reached.best), {"steps": steps, "seed": seed, "starts": starts, "dim": dim}
    about |= {"family": str(chosen), "sites": sites}

    def concluded(name: str, q: Any, **more: Any) -> Fit:
        parameters = {"loc": q.loc, "scale_tril": q.scale_tril()}
        example = np.zeros(q.noise_size, dtype), np.zeros(2, np.uint32)
        sites_of = Traced(lambda noise, _key: transform(q.place(noise)), *example)
        sampler = Sampler(sites_of, q.noise_size, dtype == np.float64)
        return conclude(name, reached, q, parameters, sampler, about, has_weights=not subsampled, **more)

    if subsampled:
        return concluded(str(chosen), best)
    some, mixture = groups(reached, density)
    widened = reached.gain_by_widening(reached.best, density)
    fit = concluded(str(chosen), best, by_widening=widened, some=some, density=density)
    if len(some) <= 1:
        return fit
    mixed = concluded(f"mixture of {len(some)} {chosen}", mixture, by_widening=widened, some=some[:1], density=density)
    return replace(fit, mixed=replace(mixed, starts=some))


def conclude(
    name: str,
    starts: Starts,
    q: Any,
    parameters: dict[str, Any],
    sampler: Sampler,
    config: dict[str, Any],
    *,
    has_weights: bool,
    by_widening: float = 0.0,
    some: tuple[Group, ...] = (),
    density: Traced | None = None,
) -> Fit:
    """Measure the best start, or a mixture of them, and judge it."""
    weights = starts.compare(q, DRAWS)
    with np.errstate(invalid="ignore"):  # −∞ − (−∞)
        error = float(weights.std(ddof=1) / np.sqrt(len(weights)))
    return Fit(
        family=name,
        parameters=parameters,
        elbo=float(weights.mean()),
        elbo_error=error,
        log_weights=starts.weights(q, WEIGHED, WEIGHED_SEED) if has_weights else None,
        warnings=(*judge(starts, weights, float(np.finfo(jnp.result_type(float)).eps), by_widening), *in_words(some)),
        gradients=starts.gradients,
        elbos=starts.elbos[:, -1],
        curve=starts.curve,
        noise=starts.noise,
        steps=starts.steps,
        skipped=starts.skipped,
        config=config,
        sampler=sampler,
        starts=some,
        walk=None if density is None else partial(check, q, density),
    )


def updates(family: Family, dim: int, steps: int, least_z: float = 0.0) -> list[tuple[Update, int]]:
    """List the updates that lead to the best member of a family, each with its number of steps.

    A mean field comes first. Newton steps are taken where the run has draws enough for the curvature in all directions.
    """
    if isinstance(family, Flow):
        half = max(1, steps // 2)
        flow = FlowUpdate(least_z, family.layers, family.hidden)
        return [*updates(largest_family(dim, half), dim, half, least_z), (flow, max(1, steps - half))]
    first = MeanFieldUpdate(least_z)
    draws = min(int(MOST * steps), DRAWS_PER_COORDINATE * (dim + 4))
    rounds = ROUNDS if draws >= FEWEST * (dim + 1) else 0
    newton: list[tuple[Update, int]] = [(NewtonUpdate(least_z, full=isinstance(family, FullRank)), draws)] * rounds
    if not isinstance(family, FullRank | LowRank):
        return [(first, max(1, steps - rounds * draws)), *newton]
    second = FullRankUpdate(least_z) if isinstance(family, FullRank) else LowRankUpdate(least_z, family.rank)
    early = max(1, round(FIRST * steps))
    return [(first, early), *newton[:1], (second, max(1, steps - early - rounds * draws)), *newton[1:]]


def largest_family(dim: int, steps: int) -> Family:
    """Choose full rank where the run has steps enough to estimate its covariance, and low rank elsewhere.

    >>> largest_family(30, 10_000), largest_family(30, 1_000), largest_family(1_000, 10_000)
    (FullRank(), LowRank(rank=10), LowRank(rank=10))
    """
    if dim == 1:
        return MeanField()
    return FullRank() if dim * (dim + 3) / 2 <= ENTRIES_PER_STEP * steps else LowRank(min(RANK, dim))


def judge(starts: Starts, weights: np.ndarray, rounding: float, by_widening: float = 0.0) -> tuple[str, ...]:
    """List reasons to doubt a fit, as sentences; none if there is nothing to doubt.

    Args:
        starts: What every start reached.
        weights: log p − log q at draws of the best start.
        rounding: The relative error of a number.
        by_widening: What the ELBO gains where q is made wider, by `gain_by_widening`.
    """
    warnings = []
    elbos, best = starts.elbos[:, -1], starts.best
    if not np.isfinite(weights).all():
        warnings.append("The log density is not finite at some draws of the fit.")
    within_reach = _within_reach(starts, best)
    if within_reach > STILL_GAINING:
        warnings.append(
            f"The budget was too short: the ELBO was still growing at the end, by about {within_reach:.2g} nats. "
            "Take more steps."
        )
    if by_widening == math.inf:
        warnings.append(
            "The fit grew without end in some direction: the density hardly falls there and may have no integral. Give "
            "it a proper prior."
        )
    elif by_widening > STILL_GAINING:
        warnings.append(
            f"The fit is too narrow: one {WIDER:g} times as wide in one direction is better by {by_widening:.2g} nats. "
            "Take more steps. If this stays, the density hardly falls there and may have no integral: give it a proper "
            "prior."
        )
    others = np.delete(elbos, best)
    if others.size and not _confirmed(elbos[best], others):
        warnings.append(
            f"Too few starts came near the best one: {np.sum(others > elbos[best] - NATS)} of {others.size} within "
            f"{NATS:g} nat. It has an ELBO of {elbos[best]:.2f}, the next {others.max():.2f}. There may be "
            "a better one still: take more steps or more starts."
        )
    share = starts.skipped[best] / starts.steps[-1]
    if share > SKIPPED:
        warnings.append(f"{100 * share:.0f} % of the gradients were not finite; the run stepped back each time.")
    rounded = float(np.abs(weights).max()) * rounding
    if np.isfinite(rounded) and rounded > ROUNDING:
        warnings.append(
            f"The log density is so large that it is rounded by {rounded:.1g} nats: switch to double precision, with "
            "numpyro.enable_x64() or JAX's jax_enable_x64, before anything else."
        )
    return tuple(warnings)


def _confirmed(best: float, others: np.ndarray) -> bool:
    """Return whether half of the other starts came near, or one to the same optimum."""
    near = np.sum(others > best - NATS)
    return bool(near >= others.size / 2 or np.any(others > best - SAME))


def _within_reach(starts: Starts, best: int) -> float:
    """Return the gain of the last update over the one before; of a single update, how far it was from its limit."""
    if starts.elbos.shape[1] == 1 or starts.gaps[best, -1] > 0:
        return float(starts.gaps[best, -1])
    with np.errstate(invalid="ignore"):  # −∞ after −∞ gained nothing that one could tell
        return float(starts.elbos[best, -1] - starts.elbos[best, -2])


@np.errstate(all="ignore")  # a density without an integral may be fitted by a q whose variance is not finite
def groups(starts: Starts, density: Traced) -> tuple[tuple[Group, ...], Mixture]:
    """Return groups of the starts that have a hundredth of the weight or more, the best first, and their mixture.

    Two starts are apart if their means are, and the density falls on the way from one to the other: along a valley it
    does not.
    """
    elbos = starts.elbos[:, -1]
    together: list[list[int]] = []
    for start in np.argsort(-elbos, kind="stable")[: np.isfinite(elbos).sum()]:
        home = next((each for each in together if not _apart(starts, each[0], start, density)), None)
        if home is not None:
            home.append(start)
        elif not together or elbos[start] > elbos[starts.best] + math.log(LEAST_WEIGHT):
            together.append([start])
    if not together:
        return (), Mixture((), np.zeros(0))
    best = [each[0] for each in together]
    shares = np.exp(elbos[best] - elbos[best[0]])
    shares = shares / shares.sum()
    some = tuple(
        Group(
            len(each),
            float(elbos[each[0]]),
            float(share),
            tuple(starts.member(each[0]).loc.tolist()),
            0.0 if each is together[0] else _distance(starts.member(best[0]), starts.member(each[0])),
        )
        for each, share in zip(together, shares, strict=True)
    )
    return some, Mixture(tuple(starts.member(start) for start in best), np.log(shares))


def in_words(some: tuple[Group, ...]) -> tuple[str, ...]:
    """Warn of starts that ended apart, and say what to do."""
    if len(some) < 2:
        return ()

    def listed(form: str, values: Any) -> str:
        *first, last = (format(value, form) for value in values)
        return f"{', '.join(first)} and {last}" if first else last

    sizes, elbos = listed("", [each.size for each in some]), listed(".2f", [each.elbo for each in some])
    weights, away = listed(".2f", [each.weight for each in some]), listed(".2g", [each.distance for each in some[1:]])
    return (
        f"The starts ended in {len(some)} places: {sizes} of them, with ELBOs of {elbos} and weights of {weights}, "
        f"{away} standard deviations from the first. The fit is the first place alone: fit.mixture() has all of them, "
        "and more starts may find others.",
    )


def _distance(one: Any, other: Any) -> float:
    return float(np.max(np.abs(one.loc - other.loc) / np.hypot(one.sds, other.sds)))


def _apart(starts: Starts, first: int, second: int, density: Traced) -> bool:
    one, other = starts.member(first), starts.member(second)
    if _distance(one, other) <= APART:
        return False
    way = one.loc + np.linspace(0, 1, BETWEEN)[:, None] * (other.loc - one.loc)
    level = density.over(way.astype(one.loc.dtype), np.zeros((BETWEEN, 2), np.uint32))
    return bool(not np.min(level) >= min(level[0], level[-1]) - DIP)
