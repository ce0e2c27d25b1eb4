"""The critical batch size tr Σ/‖∇f‖²: up to it more samples save steps, beyond it they save hardly any."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gladstorm.diagnosis import resampling
from gladstorm.diagnosis.finding import Finding, if_narrow, round_up, unknown
from gladstorm.diagnosis.probes import Probe, Probes
from gladstorm.diagnosis.resampling import LEVEL, Fits, Interval, Strata, mean_of_strata

FEWEST = 8  # probes in a window
SHARE = 4  # the last part of a run, of so many, is its window
HALVINGS = 40  # of an angle, to find an end of an interval


def critical_batch(probes: Probes, generator: np.random.Generator) -> Finding:
    """tr Σ/‖∇f‖² where a training is now: at the end of the path if the probes have one, else at the start.

    A ratio of means over a window of probes, never a mean of ratios.
    """
    chosen = window(probes)
    where = "at the end of the path" if probes.has_path else "at the start"
    if len(chosen) < FEWEST:
        return unknown(f"{len(chosen)} probes {where}, needs {FEWEST} or more")
    noise = probes.noise[chosen]
    if not noise.any():
        return unknown("the gradients of all samples are the same: a batch of 1 is enough", Interval(0.0, 0.0, 0.0))
    interval = _ratio(_means(probes, chosen, generator))
    if math.isfinite(interval.high):
        return if_narrow(interval, len(chosen))
    more = round_up(4 * len(chosen))
    lack = f"‖∇f‖² cannot be told from 0 by {len(chosen)} probes {where}; needs about {more} or more, or larger batches"
    return unknown(lack, interval)


def window(probes: Probes) -> np.ndarray:
    """Indices of the probes that say where a training is now: the end of the path, or the start where there is none."""
    return probes.ends(SHARE, FEWEST)[1] if probes.has_path else np.flatnonzero(probes.direction == "start")


def _means(probes: Probes, chosen: np.ndarray, generator: np.random.Generator) -> Fits:
    """Means of V and ‖∇f‖², resampled, probes of one pair together."""
    pairs = replace(probes, **{name: getattr(probes, name)[chosen] for name in Probe._fields}).paired()
    strata = Strata(pairs.distance, resampling.FEWEST)
    values = np.stack([pairs.noise, pairs.gradient2], axis=1)
    return mean_of_strata(values, strata.resample(generator), strata)


def _ratio(means: Fits) -> Interval:
    """θ = V/‖∇f‖² as those θ ≥ 0 at which V − θ‖∇f‖² is not told from 0 (Fieller), by a bootstrap-t for each θ.

    θ = scale · tan φ: where ‖∇f‖² is not told from 0, φ reaches π/2 and the upper end is infinite. A mean of ‖∇f‖²
    below 0, an error, counts as 0.
    """
    values = means.values
    V, g2 = values[0, 0], max(values[0, 1], 0.0)
    scale = V / max(g2, means.covariances[0, 1, 1] ** 0.5, 1e-300 * V)

    def told_from_zero(phi: float) -> bool:
        row = np.array([math.cos(phi), -scale * math.sin(phi)])
        contrasts, errors = means.function(values @ row, np.broadcast_to(row, values.shape))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.abs(contrasts[1:] - contrasts[0]) / errors[1:]
        finite = t[np.isfinite(t)]
        reach = float(np.quantile(finite, LEVEL)) if finite.size else 0.0
        contrast = abs(V * row[0] + g2 * row[1])
        return bool(contrast > reach * errors[0, 0] + 1e-12 * V * row[0])

    middle = math.atan2(V, scale * g2)
    low = _edge(told_from_zero, middle, 0.0)
    high = _edge(told_from_zero, middle, math.pi / 2)
    ends = [math.inf if phi >= math.pi / 2 else scale * math.tan(phi) for phi in (middle, low, high)]
    return Interval(*ends)


def _edge(told_from_zero: Callable[[float], bool], inside: float, outside: float) -> float:
    """The angle between two at which the rejection begins; `outside` itself if it is not rejected."""
    if inside == outside or not told_from_zero(outside):
        return outside
    for _ in range(HALVINGS):
        between = (inside + outside) / 2
        inside, outside = (inside, between) if told_from_zero(between) else (between, outside)
    return inside
