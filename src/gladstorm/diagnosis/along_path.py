"""Noise on the way that a training takes: where it is smallest, and what it is at the end."""

from __future__ import annotations

import numpy as np

from gladstorm.core.statistics import f_tail
from gladstorm.diagnosis import resampling
from gladstorm.diagnosis.finding import Finding, estimated, round_up, unknown
from gladstorm.diagnosis.probes import Probes
from gladstorm.diagnosis.resampling import RESAMPLES, Estimates, Fits, Interval, Strata, bootstrap_t, fit_noise

ENOUGH = 48  # probes on the path
FEWEST = 4  # at either end of it
SHARE = 8  # the first and the last part of a run, of so many
LACK_OF_FIT = 0.01  # a probability: with less, a parabola is not what the noise along the path is


def end_to_start(probes: Probes, generator: np.random.Generator) -> Interval | None:
    """The variance at the end of the path over that at the start; None without a path, or where one was not seen."""
    if not probes.has_path:
        return None
    along = probes.direction == "along"
    if along.any():
        first = probes.direction == "start"
        last = along & (probes.distance > 0.999 * probes.distance[along].max())
    else:
        run = np.flatnonzero(np.isin(probes.direction, ("start", "path")))
        ordered = run[np.argsort(probes.step[run], kind="stable")]
        first, last = ordered[: len(run) // SHARE], ordered[len(run) - len(run) // SHARE :]
    parts = [probes.noise[first], probes.noise[last]]
    if min(map(len, parts)) < FEWEST or not all(part.any() for part in parts):
        return None
    (logs,) = bootstrap_t(_log_ratio(parts[0], parts[1], generator))
    return Interval(*(float(np.exp(each)) for each in logs))


def _log_ratio(below: np.ndarray, above: np.ndarray, generator: np.random.Generator) -> Estimates:
    """The logarithm of the ratio of two means of independent values, by linearization."""
    (start, start_error), (end, end_error) = (_resampled_mean(part, generator) for part in (below, above))
    errors = np.hypot(start_error / start, end_error / end)
    return Estimates((np.log(end) - np.log(start))[:, None], errors[:, None])


def _resampled_mean(values: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n = len(values)
    drawn = np.concatenate([np.arange(n)[None], generator.integers(n, size=(RESAMPLES, n))])
    mean = np.maximum(values[drawn].mean(axis=1), np.finfo(float).tiny)
    return mean, values[drawn].std(axis=1, ddof=1) / np.sqrt(n)


def anchor(probes: Probes, generator: np.random.Generator) -> Finding:
    """The s at which V(s) = c₀ + c₁ s + c₂ s² is smallest, s the distance along the path, negative behind the start."""
    directions = probes.direction
    on_path = np.isin(directions, ("start", "along", "against", "path"))
    if not probes.has_path:
        return unknown("probes in random directions only; needs a second checkpoint to look along the path")
    distance, noise = probes.distance[on_path], probes.noise[on_path]
    radius = float(distance.max())
    if len(distance) < 12 or radius == 0 or not noise.any():
        return unknown(f"{len(distance)} probes on the path, needs {ENOUGH}")
    s = np.where(directions[on_path] == "against", -1.0, 1.0) * distance / radius
    strata = Strata(s - s.min(), resampling.FEWEST)  # the two sides of the start are not drawn together
    columns = np.stack([np.ones_like(s), s, s**2], axis=1)
    fits = fit_noise(columns, noise, probes.groups[on_path] - 1, strata.resample(generator), strata)
    if _lack_of_fit(columns @ fits.values[0], noise, Strata(s - s.min())) < LACK_OF_FIT:
        return unknown("the noise along the path is no parabola; needs a shorter path")
    if bootstrap_t(fits.estimates)[2].low <= 0:
        more = round_up(4 * len(distance))
        return unknown(
            f"the noise along the path has no least value that {len(distance)} probes within {radius:.2g} can tell; "
            f"needs about {more} probes on the path or a larger radius"
        )
    (where,) = bootstrap_t(_least(fits))
    at = Interval(*(end * radius for end in where))
    if abs(where.estimate) > 1 or where.high - where.low > 1:
        reach = max(abs(where.estimate), 1.0) * 1.5 * radius
        return unknown(f"radius {radius:.2g} reached along the path, needs {reach:.2g}", at)
    return estimated(at)


def _least(fits: Fits) -> Estimates:
    """−c₁/(2c₂), where the parabola is least; not a number where it has no least value, so that none is counted."""
    _, slope, bend = np.where(fits.values[:, 2:] > 0, fits.values, np.nan).T
    least = -slope / (2 * bend)
    return fits.function(least, np.stack([0 * bend, -1 / (2 * bend), -least / bend], axis=1))


def _lack_of_fit(fitted: np.ndarray, noise: np.ndarray, strata: Strata) -> float:
    """The probability of strata this far from a fit of three numbers, or farther: F with errors that differ by stratum.

    Errors are taken in proportion to the noise, with a common factor from inside the strata.
    """
    between, inside = len(strata.sizes) - 3, len(noise) - len(strata.sizes)
    if between < 1 or inside < 1:
        return 1.0
    mean = np.maximum(strata.means(noise), np.finfo(float).tiny)
    within = float(np.sum((noise / mean - 1) ** 2)) / inside
    away = float(np.sum((fitted / mean - 1) ** 2)) / between
    return f_tail(between, inside, away / within) if within else float(away == 0)
