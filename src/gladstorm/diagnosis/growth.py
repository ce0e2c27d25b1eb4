"""How the noise grows with the distance from the start: G, B, and the power of growth."""

from __future__ import annotations

import numpy as np

from gladstorm.diagnosis.finding import (
    NO_GROWTH,
    WIDEST,
    Finding,
    estimated,
    if_narrow,
    round_up,
    unknown,
    wider_than_wanted,
    with_verdict,
)
from gladstorm.diagnosis.probes import Probes
from gladstorm.diagnosis.resampling import FEWEST, Fits, Interval, Strata, bootstrap_t, fit_noise, percentiles

SMALL = 0.25  # B r against G: with less, the noise's standard deviation grows by about 3 % at most
SURE = 0.99  # the level of the interval that must exclude more, so that no growth is claimed wrongly once in 200 times
POWERS = np.geomspace(0.25, 8.0, 41)
NARROW = 1.5  # width of the interval of a power that is called known
ENOUGH = 48  # probes, where the farthest have B r ≥ 3 G
AMPLE = 200  # where they have B r ≥ G


def constants(probes: Probes, generator: np.random.Generator) -> tuple[Finding, Finding]:
    """G and B of V(r) = G² + B² r².

    B is estimated if its interval excludes 0, is narrower than a factor 3, and the farthest probes have B r ≥ G. There
    is no growth if even the upper end of B r, of an interval of 99 %, is small against G.
    """
    pairs = probes.paired()
    strata = Strata(pairs.distance, FEWEST)
    if (lack := _lack(probes)) is not None:
        return unknown(lack), unknown(lack)
    if not probes.noise.any():
        nothing = Interval(0.0, 0.0, 0.0)
        return estimated(nothing), with_verdict(nothing, NO_GROWTH)
    radius = probes.radius
    estimates = _fits(pairs, strata, generator).estimates
    at_start, at_end = bootstrap_t(estimates)
    G, B = at_start.root(), Interval(*(end / radius for end in at_end.root()))
    if bootstrap_t(estimates, SURE)[1].root().high <= SMALL * G.estimate:
        return if_narrow(G, len(probes)), with_verdict(B, NO_GROWTH)
    return if_narrow(G, len(probes)), _growth(G, B, at_end.estimate, radius, len(probes))


def curve(probes: Probes, distances: np.ndarray, generator: np.random.Generator) -> list[Interval]:
    """G² + B² r² as fitted, with its interval at each of some distances r; none where nothing can be fitted."""
    pairs = probes.paired()
    strata = Strata(pairs.distance, FEWEST)
    if _lack(probes) is not None or not probes.noise.any():
        return []
    fits = _fits(pairs, strata, generator)
    rows = np.stack([np.ones_like(distances), (distances / probes.radius) ** 2], axis=1)
    return [bootstrap_t(fits.function(fits.values @ row, np.broadcast_to(row, fits.values.shape)))[0] for row in rows]


def _fits(pairs: Probes, strata: Strata, generator: np.random.Generator) -> Fits:
    """Fits of G² and B² r² at the largest r."""
    columns = np.stack([np.ones(len(pairs)), (pairs.distance / pairs.radius) ** 2], axis=1)
    return fit_noise(columns, pairs.noise, pairs.groups - 1, strata.resample(generator), strata)


def _growth(G: Interval, B: Interval, square: float, radius: float, probes: int) -> Finding:
    if square <= 0:
        return unknown(
            f"the noise seems not to grow within {radius:.2g} of the start, but {probes} probes cannot exclude that it "
            f"does; needs {round_up(4 * probes)} probes, or a larger radius",
            B,
        )
    if B.estimate * radius < G.estimate:
        reach = (1 if probes >= AMPLE else 3) * G.estimate / B.estimate
        return unknown(f"radius {radius:.2g} reached, needs {reach:.2g} with {probes} probes", B)
    if B.high > WIDEST * B.low:
        return unknown(wider_than_wanted(B, probes), B)
    return estimated(B)


def power(probes: Probes, B: Finding, generator: np.random.Generator) -> Finding:
    """p of V(r) = G² + c r^p: BG-0 is p = 2. The interval is where the resamples' powers lie."""
    pairs = probes.paired()
    strata = Strata(pairs.distance, FEWEST)
    if not B.is_estimated:
        return unknown("the power can be estimated only if the noise is seen to grow; needs what B needs")
    if (distances := len(Strata(pairs.distance).sizes)) < 3:
        return unknown(f"{distances} distances, needs 3")
    counts = strata.resample(generator, 199)
    relative = pairs.distance / pairs.radius
    losses = np.stack([_loss(relative**p, pairs, counts, strata) for p in POWERS])
    _, low, high = interval = percentiles(POWERS[np.argmin(losses, axis=0)])
    if high - low <= NARROW:
        return estimated(interval)
    more = round_up(len(probes) * ((high - low) / NARROW) ** 2)
    return unknown(f"powers from {low:.2g} to {high:.2g} fit; needs about {more} probes or a larger radius", interval)


def _loss(column: np.ndarray, pairs: Probes, counts: np.ndarray, strata: Strata) -> np.ndarray:
    """Half the gamma deviance of G² + c·column in each resample, both ≥ 0, up to what depends on the noise alone."""
    columns = np.stack([np.ones(len(pairs)), column], axis=1)
    weights = pairs.groups - 1
    theta = np.maximum(fit_noise(columns, pairs.noise, weights, counts, strata).values, 0.0)
    fitted = np.maximum(theta @ columns.T, 1e-9 * pairs.noise.mean())
    return np.asarray((counts * weights * (pairs.noise / fitted + np.log(fitted))).sum(axis=1))


def _lack(probes: Probes) -> str | None:
    if len(probes) < 12:
        return f"{len(probes)} probes, needs {ENOUGH}"
    if probes.radius == 0 or len(Strata(probes.distance).sizes) < 2:
        return "all probes lie at one distance from the start; needs probes at two or more"
    return None
