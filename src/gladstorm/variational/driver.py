"""The driver of every fit: updates in blocks of steps, from several starts at once, and the best of what they reach."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import jax
import numpy as np

from gladstorm.core.parts import Array
from gladstorm.jobs.progress import Progress, annotate
from gladstorm.jobs.tasks import Store
from gladstorm.variational.arrays import Arrays
from gladstorm.variational.gaussians import Triangular
from gladstorm.variational.programs import (
    Draw,
    FullDataPoint,
    Gain,
    Traced,
    Update,
    advance,
    look_draws,
    program,
    sample_noise,
)

BLOCKS = 20  # of a run: what is kept, shown and judged as a whole
ANCHORED = 0.3  # of a run on subsampled data, after which gradients are corrected at an anchor: before, q is too far
COMPARED = 4  # times 64 draws decide between candidates
STARTS = 4
CANDIDATES, TRIED = 4, 0.1  # times as many starts begin, for this share of a run; then the best go on
ALIKE = 5.0  # nats: candidates as near to the best one go on in any order, or the others would all end in one mode
FIRST_SCALE = 0.1  # of q, as numpyro has it
DRAWS = 16  # times 64, behind the ELBO
WIDER, END = 3.0, 4.0  # times as wide, to see whether the ELBO grows; where q ends, in standard deviations
CLEARLY = 2.0  # standard errors
LEAST_GAIN, ERROR = 0.001, 0.05  # nats that are not worth the rest of a run; how often a look may be wrong about it
_INT32 = 2**32
_GROUP = 2**20  # between the numbers of keys of groups of candidates; that of an update is smaller


@dataclass(frozen=True, eq=False)
class Target:
    """The density or guide whose ELBO a fit maximizes."""

    density: Traced  # of z and a key; of a guide log p − log q, of its parameters and a key
    noise_size: Callable[[Any], int | None]  # how many normal numbers make a draw of q; None if a key makes it
    weights: Callable[[Any, Draw], Any]  # log p(z) − log q(z) at some draws of q
    on_all_data: Traced | None = None  # the density of z where the other one is of a subsample


def gaussian_target(density: Traced, on_all_data: Traced | None = None) -> Target:
    """Return the target of a Gaussian that is fitted to a log density, which may be that of a subsample."""

    def correction(q: Any, z: Any, key: Any) -> Any:
        if on_all_data is None:
            return 0.0
        value, slope = on_all_data.value_and_gradient(q.loc)
        values, slopes = density.values_and_gradients(np.broadcast_to(q.loc, z.shape), key)
        return value - values + np.sum((slope - slopes) * (z - q.loc), axis=1)

    def weights(q: Any, draws: Draw) -> Any:
        z = q.place(draws.noise)
        return density.over(z, draws.key) + correction(q, z, draws.key) - q.log_density_at(draws.noise)

    return Target(density, lambda q: int(q.noise_size), weights, on_all_data)


@dataclass(frozen=True, eq=False)
class Starts:
    """Everything that is known of a run from several starts; arrays have a row for each."""

    q: Any  # a pytree, its leaves with an axis for the starts
    elbos: np.ndarray  # after every update of the family, (start, update)
    gaps: np.ndarray  # how far it was from its limit by then, by the rule of `Looks`; 0 for updates of one block
    curve: np.ndarray  # mean ELBO by start and block of a twentieth of the run's steps
    noise: np.ndarray  # the squared length of the gradient, by start and block
    steps: np.ndarray  # at the end of each block
    skipped: np.ndarray  # gradients that were not finite, by start
    gradients: int  # of all starts, with those that did not go on
    target: Target
    compare: Callable[[Any, int], np.ndarray]  # log p − log q at so many times 64 draws of one q
    draws: Callable[[Any, int], Draw]  # these draws

    @property
    def best(self) -> int:
        """The start with the largest ELBO."""
        return int(np.argmax(self.elbos[:, -1]))

    def member(self, start: int) -> Any:
        """Return q of one start."""
        return _rows(self.q, start)

    def weights(self, q: Any, n: int, seed: int) -> np.ndarray:
        """Return log p − log q at the draws that a fit's sampler makes of this seed."""
        with np.errstate(all="ignore"):
            draws = Draw(*sample_noise(n, seed, self.target.noise_size(q)))
            return np.asarray(self.target.weights(q, draws), float)

    def gain_by_widening(self, start: int, density: Traced) -> float:
        """Return what the ELBO of a start gains if its Gaussian is made wider: much, where p has no integral."""
        q = self.member(start)
        draws = self.draws(q, DRAWS)
        with np.errstate(all="ignore"):  # a density without an integral may be fitted by a q that is not finite
            return gain_by_widening(
                self.compare(q, DRAWS), q.place(draws.noise), q, lambda z: density.over(z, draws.key)
            )


class Looks:
    """Decide at the end of every block whether there is anything left to gain, right at all of them together.

    An average of k iterates is about c/k nats below its limit. Between two looks Δ steps apart it then gains
    cΔ/(k(k − Δ)), so the gain tells c. The run stops when an upper confidence bound of what the other K − k steps would
    gain, c(K − k)/(kK), is below 0.001 nats for every start. Look j has error probability 0.05/(j(j + 1)): these add up
    to 0.05 over any number of looks, so that it does not matter when one stops.
    """

    def __init__(self, steps: int) -> None:
        self._steps, self._at, self._count = steps, 0, 0
        self._before: np.ndarray | None = None
        self.gap: np.ndarray | None = None  # c/k: how far every start is below its limit, by this rule

    def nothing_left(self, at: int, weights: np.ndarray) -> bool:
        """Return whether to stop at this step, from log p − log q at the same draws as before, (start, draw)."""
        before, previous, self._before, self._at = self._before, self._at, weights, at
        if before is None or not np.isfinite(weights).all():
            return False
        self._count += 1
        gains, per_gain = weights - before, previous / (at - previous)
        error = gains.std(axis=1, ddof=1) / math.sqrt(gains.shape[1])
        self.gap = per_gain * np.maximum(gains.mean(axis=1) - CLEARLY * error, 0.0)
        quantile = NormalDist().inv_cdf(1 - ERROR / (self._count * (self._count + 1)))
        most = per_gain * (np.abs(gains.mean(axis=1)) + quantile * error)
        return bool(most.max() * (1 - at / self._steps) < LEAST_GAIN)


def gain_by_widening(weights: np.ndarray, z: np.ndarray, q: Any, log_densities: Callable[[Any], Any]) -> float:
    """Return what the ELBO gains, at least, in nats, if q is made three times as wide along one axis.

    ∂ELBO/∂log s of an axis is the covariance of log p − log q with ε², ε the draw along it, and ∂ELBO/∂m that with ε:
    both are 0 at the optimum. The axis where they are largest is tried, with the centre or one end of q held in place.
    A density that has no integral because it is flat, or grows, in some direction gains log 3 or more. An infinite q
    gains ∞.

    Args:
        weights: log p − log q at draws of q.
        z: These draws, (draw, d).
        q: The Gaussian.
        log_densities: log p of several points, (point, d).
    """
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(q)):
        return math.inf
    off = z - np.asarray(q.loc)
    if isinstance(q, Triangular):
        axes, lengths, _ = np.linalg.svd(np.asarray(q.tril))
        draws = off @ axes / lengths
    else:  # coordinates: of a low rank there may be too many for their axes
        lengths = np.asarray(q.sds)
        draws = off / lengths
    deviation = weights - weights.mean()
    slopes = np.abs(deviation @ draws) + np.maximum(deviation @ draws**2 - deviation.sum(), 0.0)
    at = int(np.argmax(slopes))
    axis = axes[:, at] * lengths[at] if isinstance(q, Triangular) else np.eye(1, off.shape[1], at)[0] * lengths[at]
    level, gains = np.asarray(log_densities(z)), []
    for held in (-END, 0.0, END):
        wide = np.asarray(log_densities(z + (WIDER - 1) * (draws[:, at, None] - held) * axis))
        gain = wide - level + np.log(WIDER)
        gains.append(gain.mean() - CLEARLY * gain.std(ddof=1) / np.sqrt(len(gain)))
    return float(np.max(np.nan_to_num(gains, nan=-np.inf)))


def optimize(
    target: Target,
    updates: Sequence[tuple[Update, int]],
    q: Any,
    seed: int,
    store: str | os.PathLike[str] | None = None,
    label: str = "fit",
    progress: bool = True,
    starts: int | None = None,
) -> Starts:
    """Take updates one after the other, from several starts at once.

    Bad basins are usually seen early. So where q has more rows than there should be starts, all of them go a tenth of
    the way, and the best go on.

    Args:
        target: What is fitted.
        updates: Each with its number of steps.
        q: Where to begin: a pytree with a leading axis for the starts, or for candidates to be one.
        seed: Decides every draw, together with the number of the start and of the step.
        store: The folder where finished blocks are kept.
        label: What the progress is called.
        progress: Whether to show progress on standard error.
        starts: How many go on; by default all.
    """
    number_of_starts = starts or len(jax.tree.leaves(q)[0])
    total, done, skipped, gradients = sum(steps for _, steps in updates), 0, np.zeros(len(jax.tree.leaves(q)[0])), 0
    curve, noise, ends = [], [], []
    gaps: list[np.ndarray] = []
    elbos: list[np.ndarray] = []

    @cache
    def look(size: int | None, number: int) -> Draw:
        return Draw(*map(np.asarray, program(look_draws, size, quick=True)(_key(seed, -1 - number))))

    def draws(q: Any, times: int) -> Draw:
        looks = [look(target.noise_size(q), number) for number in range(times)]
        return Draw(*(np.concatenate(each) for each in zip(*looks, strict=True)))

    def compare(q: Any, times: int) -> np.ndarray:
        with np.errstate(all="ignore"):  # a density without an integral may be fitted by a q that is not finite
            return np.asarray(target.weights(q, draws(q, times)), float)

    def compare_starts(q: Any, times: int) -> np.ndarray:
        return np.stack([compare(_rows(q, start), times) for start in range(len(skipped))])

    kept_blocks = None if store is None else Store(store, Arrays, ".parquet")
    with Progress(label, total) if progress else nullcontext() as report:
        for number, (update, steps) in enumerate(updates):
            key, at, looks = _key(seed, number), 0, Looks(steps)
            careful = np.arange(len(skipped)) % 2 == 1  # every second start: it finds other basins
            state = _grouped(program(_begin, update, quick=True), number_of_starts, key, q, careful)
            for length in _blocks(steps, total):
                anchor = _anchor(target.on_all_data, q) if done >= ANCHORED * total else None
                block = update, number_of_starts, state, anchor, key, at, length, steps
                state, gain = _advanced(target.density, kept_blocks, *block)
                at, done, skipped = at + length, done + length, skipped + gain.skipped
                gradients += length * len(skipped)
                curve.append(gain.elbo / length)
                noise.append(gain.noise / length)
                ends.append(done)
                if report is not None:
                    annotate(f"ELBO {curve[-1].max():.6g}")
                    report(done)
                q = update.candidates(state)[0]
                if len(skipped) > number_of_starts:
                    if done >= TRIED * total:
                        on = promising(compare_starts(q, 1), number_of_starts)
                        q, state, curve, noise, skipped = _rows((q, state, curve, noise, skipped), on)
                elif looks.nothing_left(at, compare_starts(q, 1)):
                    break
            if update.leaves_family:
                gaps, elbos = [], []
            gaps.append(np.zeros(number_of_starts) if looks.gap is None else looks.gap)
            q, elbo = _best(update.candidates(state), compare_starts)
            elbos.append(elbo)
    return Starts(
        q=q,
        elbos=np.stack(elbos, 1),
        gaps=np.stack(gaps, 1),
        curve=np.stack(curve, 1),
        noise=np.stack(noise, 1),
        steps=np.array(ends),
        skipped=skipped.astype(int),
        gradients=gradients,
        target=target,
        compare=compare,
        draws=draws,
    )


def _best(candidates: tuple[Any, ...], of_starts: Callable[[Any, int], np.ndarray]) -> tuple[Any, np.ndarray]:
    """Return q of every start, its first candidate or another one that is clearly better, and its ELBO."""
    weights = np.stack([of_starts(each, COMPARED) for each in candidates])
    with np.errstate(invalid="ignore"):
        elbos = np.where(np.isfinite(weights).all(2), weights.mean(2), -np.inf)
        error = np.std(weights - weights[0], axis=2) / math.sqrt(weights.shape[2])
        clear = (elbos - elbos[0] > CLEARLY * error) | (np.isneginf(elbos[0]) & np.isfinite(elbos))
    clear[0] = True
    chosen = np.argmax(np.where(clear, elbos, -np.inf), axis=0)
    at = np.arange(weights.shape[1])
    return jax.tree.map(lambda *leaves: np.stack(leaves)[chosen, at], *candidates), elbos[chosen, at]


def _advanced(
    density: Traced, store: Store[Arrays] | None, update: Update, starts: int, state: Any, anchor: Any, *block: Any
) -> tuple[Any, Gain]:
    """Return the states after a block of steps, and the sums of its gains: computed, or as an earlier run kept them."""
    leaves, tree = jax.tree.flatten(state)
    key, *numbers = block

    def compute() -> Arrays:
        def some(key: np.ndarray, state: Any, anchor: Any) -> tuple[np.ndarray, ...]:
            return advance(density, update, starts, state, anchor, key, *numbers)

        return Arrays(_grouped(some, starts, key, state, anchor), {})

    if store is None:
        values = compute().values
    else:
        before = hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in [*leaves, *(anchor or ())])).hexdigest()
        values = store.recall([density.identity, repr(update), before, key.tolist(), *numbers], compute).values
    return jax.tree.unflatten(tree, values[:-3]), Gain(*values[-3:])


def _anchor(on_all_data: Traced | None, q: Any) -> FullDataPoint | None:
    """Return the means of all starts, with the density on all data and its gradient there."""
    if on_all_data is None:
        return None
    return FullDataPoint(q.loc, *map(np.stack, zip(*map(on_all_data.value_and_gradient, q.loc), strict=True)))


@np.errstate(invalid="ignore")
def promising(weights: np.ndarray, number: int) -> np.ndarray:
    """Return which candidates go on, by log p − log q, (candidate, draw): the best one, and those alike or next."""
    elbos = np.where(np.isfinite(weights).all(axis=1), weights.sum(axis=1) / weights.shape[1], -np.inf)
    gaps = elbos.max() - elbos
    ranks = np.where(gaps <= ALIKE, ALIKE, gaps)
    ranks[np.argmin(gaps)] = 0.0
    return np.sort(np.argsort(ranks, kind="stable")[:number])


def _grouped(function: Callable[..., Any], size: int, key: np.ndarray, *trees: Any) -> Any:
    """Call a function of a key and of trees with so many rows until it had all of them: one program for any number."""
    groups = len(jax.tree.leaves(trees)[0]) // size
    keys = [key + np.array([0, _GROUP * group], np.uint32) for group in range(groups)]
    parts = [function(each, *_rows(trees, slice(at * size, (at + 1) * size))) for at, each in enumerate(keys)]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _begin(update: Update, key: Array, q: Any, careful: Array) -> Any:
    return jax.vmap(update.begin)(q, jax.random.split(jax.random.wrap_key_data(key), len(careful)), careful)


def _blocks(steps: int, total: int) -> list[int]:
    """Return the lengths of an update's blocks: all but the last alike."""
    length = max(1, min(steps, round(total / BLOCKS)))
    return [length] * (steps // length) + [steps % length] * (steps % length > 0)


def _key(seed: int, number: int) -> np.ndarray:
    """Return what decides the draws of an update, or (number < 0) of a comparison."""
    return np.array([seed % _INT32, number % _INT32], np.uint32)


def _rows(tree: Any, rows: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf[rows]), tree)
