"""Smoothness between two points of a probe: of one sample (ℓ), of the mean (L), and how far apart they are (ρ)."""

from __future__ import annotations

import numpy as np

from gladstorm.diagnosis import resampling
from gladstorm.diagnosis.finding import WIDEST, Finding, found, if_narrow, unknown
from gladstorm.diagnosis.probes import Probes
from gladstorm.diagnosis.resampling import Fits, Interval, Strata, bootstrap_t, mean_of_strata

FEWEST = 12


def smoothness(probes: Probes, generator: np.random.Generator) -> dict[str, Finding]:
    """ℓ² = E‖∇f(y; ξ) − ∇f(x; ξ)‖²/‖y − x‖², L² = ‖∇f(y) − ∇f(x)‖²/‖y − x‖² and ρ = ℓ²/L² − 1.

    All are means over the probes: what a step there meets. The theorems ask for the largest values, which no sample of
    points can give.
    """
    count = int(np.isfinite(probes.L2).sum())
    if count < FEWEST:
        needs = f"{count} probes were evaluated at two points, needs {FEWEST} or more"
        return dict.fromkeys(("ell", "L", "rho"), unknown(needs))
    pairs = probes.paired()
    measured = np.isfinite(pairs.L2)
    distance = pairs.distance[measured]
    strata = Strata(distance, resampling.FEWEST)
    freedom = (pairs.groups - 1)[measured, None]
    # a pair counts twice: or the start, where nothing is paired, would have twice its share in the means
    values = np.stack([pairs.ell2, pairs.L2], axis=1)[measured] * freedom / freedom.mean()
    varying = values.mean(axis=0) + strata.deviations(values, Strata(distance))
    means = mean_of_strata(varying, strata.resample(generator), strata)
    ell2, L2 = bootstrap_t(means.estimates)
    L = if_narrow(L2.root(), count)
    return {"ell": if_narrow(ell2.root(), count), "L": L, "rho": _ratio(means, L)}


def _ratio(means: Fits, L: Finding) -> Finding:
    """ρ, from the logarithm of ℓ²/L², which is never negative."""
    if not L.is_estimated:
        return unknown(f"L is not known: {L.needs}")
    ell2, L2 = np.maximum(means.values, np.finfo(float).tiny).T
    logs = means.function(np.log(ell2) - np.log(L2), np.stack([1 / ell2, -1 / L2], axis=1))
    rho = Interval(*(max(0.0, float(np.expm1(end))) for end in bootstrap_t(logs)[0]))
    if 1 + rho.high > WIDEST * (1 + rho.low):
        return unknown("the interval of 1 + ρ is wider than a factor 3; needs more probes", rho)
    return found(rho)
