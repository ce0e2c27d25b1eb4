"""How the noise grows: G, B and the power of growth with the distance from the start, and what it is along a path."""

import numpy as np

from gladstorm.core.statistics import f_tail
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
from gladstorm.diagnosis.resampling import (
    FEWEST,
    RESAMPLES,
    Estimates,
    Fits,
    Interval,
    Strata,
    bootstrap_t,
    fit_noise,
    percentiles,
)

SMALL = 0.25  # B r against G: with less, the noise's standard deviation grows by about 3 % at most
SURE = 0.99  # the level of the interval that must exclude more, so that no growth is claimed wrongly once in 200 times
POWERS = np.geomspace(0.25, 8.0, 41)
NARROW = 1.5  # width of the interval of a power that is called known
ENOUGH = 48  # probes, where the farthest have B r ≥ 3 G
AMPLE = 200  # where they have B r ≥ G
ENDS = 4  # probes at either end of a path
SHARE = 8  # the first and the last part of a run, of so many
LACK_OF_FIT = 0.01  # a probability: with less, a parabola is not what the noise along the path is


def constants(probes: Probes, generator: np.random.Generator, growth: float = 2.0) -> tuple[Finding, Finding]:
    """G and B of V(r) = G² + B² r^a, where a is the `growth`.

    B is estimated if its interval excludes 0, is narrower than a factor 3, and the farthest probes have B² r^a ≥ G².
    There is no growth if even the upper end of B r^(a/2), of an interval of 99 %, is small against G.
    """
    pairs = probes.paired()
    strata = Strata(pairs.distance, FEWEST)
    if (lack := _lack(probes)) is not None:
        return unknown(lack), unknown(lack)
    if not probes.noise.any():
        nothing = Interval(0.0, 0.0, 0.0)
        return estimated(nothing), with_verdict(nothing, NO_GROWTH)
    reach = probes.radius ** (growth / 2)
    estimates = _fits(pairs, strata, generator, growth).estimates
    at_start, at_end = bootstrap_t(estimates)
    G, B = at_start.root(), at_end.root().map(lambda end: end / reach)
    if bootstrap_t(estimates, SURE)[1].root().high <= SMALL * G.value:
        return if_narrow(G, len(probes)), with_verdict(B, NO_GROWTH)
    return if_narrow(G, len(probes)), _growth(G, B, at_end, probes)


def curve(probes: Probes, distances: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Rows of G² + B² r² as fitted, low and high, at each of some distances r; none where nothing can be fitted."""
    pairs = probes.paired()
    strata = Strata(pairs.distance, FEWEST)
    if _lack(probes) is not None or not probes.noise.any():
        return np.empty((0, 3))
    fits = _fits(pairs, strata, generator)
    rows = np.stack([np.ones_like(distances), (distances / probes.radius) ** 2], axis=1)
    at = [bootstrap_t(fits.function(fits.values @ row, np.broadcast_to(row, fits.values.shape)))[0] for row in rows]
    return np.array([(each.value, each.low, each.high) for each in at])


def _fits(pairs: Probes, strata: Strata, generator: np.random.Generator, growth: float = 2.0) -> Fits:
    """Fits of G² and of B² r^a at the largest r."""
    columns = np.stack([np.ones(len(pairs)), (pairs.distance / pairs.radius) ** growth], axis=1)
    return fit_noise(columns, pairs.noise, pairs.groups - 1, strata.resample(generator), strata)


def _growth(G: Interval, B: Interval, at_end: Interval, probes: Probes) -> Finding:
    radius, count = probes.radius, len(probes)
    if at_end.value <= 0:
        return unknown(
            f"the noise seems not to grow within {radius:.2g} of the start, but {count} probes cannot exclude that it "
            f"does; needs {round_up(4 * count)} probes, or a larger radius",
            B,
        )
    if at_end.value < G.value**2:
        reach = (1 if count >= AMPLE else 3) * radius * G.value / at_end.value**0.5
        return unknown(f"radius {radius:.2g} reached, needs {reach:.2g} with {count} probes", B)
    if B.high > WIDEST * B.low:
        return unknown(wider_than_wanted(B, count), B)
    return estimated(B)


def power(probes: Probes, B: Finding, generator: np.random.Generator) -> Finding:
    """a of V(r) = G² + B² r^a: BG-0 is a = 2. The interval is where the resamples' powers lie."""
    pairs = probes.paired()
    strata = Strata(pairs.distance, FEWEST)
    if not B.is_estimated:
        return unknown("the power can be estimated only if the noise is seen to grow; needs what B needs")
    if (distances := len(Strata(pairs.distance).sizes)) < 3:
        return unknown(f"{distances} distances, needs 3")
    counts = strata.resample(generator, 199)
    relative = pairs.distance / pairs.radius
    losses = np.stack([_loss(relative**a, pairs, counts, strata) for a in POWERS])
    interval = percentiles(_best_power(losses))
    width = interval.high - interval.low
    if width <= NARROW:
        return estimated(interval)
    more = round_up(len(probes) * (width / NARROW) ** 2)
    fit = interval.text("powers from {low:.2g} to {high:.2g} fit")
    return unknown(f"{fit}; needs about {more} probes or a larger radius", interval)


def _best_power(losses: np.ndarray) -> np.ndarray:
    """The power of the least loss in each resample, where a parabola through the three around the grid's least is."""
    best = np.clip(np.argmin(losses, axis=0), 1, len(POWERS) - 2)
    before, least, after = np.take_along_axis(losses, best + np.array([[-1], [0], [1]]), axis=0)
    bend = before - 2 * least + after
    aside = np.divide(before - after, 2 * bend, out=np.zeros_like(bend), where=bend > 0)
    return np.asarray(POWERS[best] * (POWERS[1] / POWERS[0]) ** np.clip(aside, -1, 1))


def _loss(column: np.ndarray, pairs: Probes, counts: np.ndarray, strata: Strata) -> np.ndarray:
    """Half the gamma deviance of G² + B²·column in each resample, both ≥ 0, up to what depends on the noise alone."""
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


def end_to_start(probes: Probes, generator: np.random.Generator) -> Interval | None:
    """The variance at the end of the path over that at the start; None without a path, or where one was not seen."""
    if not probes.has_path:
        return None
    first, last = probes.ends(SHARE)
    parts = [probes.noise[first], probes.noise[last]]
    if min(map(len, parts)) < ENDS or not all(part.any() for part in parts):
        return None
    (logs,) = bootstrap_t(_log_ratio(parts[0], parts[1], generator))
    return logs.map(lambda end: float(np.exp(end)))


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
    strata = Strata(s - s.min(), FEWEST)  # the two sides of the start are not drawn together
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
    at = where.map(lambda end: end * radius)
    if abs(where.value) > 1 or where.high - where.low > 1:
        reach = max(abs(where.value), 1.0) * 1.5 * radius
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
