"""Smoothness and curvature, from the two points of a probe.

Of one sample (ℓ), of the mean (L), and how far apart they are (ρ); and how curvature grows with the gradient: α, L0 and
L1 of ‖∇²f‖ ≈ L0 + L1‖∇f‖^α, where gradients differ enough.
"""

from typing import NamedTuple

import numpy as np

from gladstorm.diagnosis import resampling
from gladstorm.diagnosis.finding import WIDEST, Finding, estimated, if_narrow, round_up, unknown
from gladstorm.diagnosis.probes import Probes
from gladstorm.diagnosis.resampling import (
    LEVEL,
    Estimates,
    Fits,
    Interval,
    Strata,
    bootstrap_t,
    inverses,
    mean_of_strata,
)

FEWEST_PAIRS = 12  # probes evaluated at two points
ALPHAS = np.linspace(0.02, 1.5, 75)  # beyond 1, so that an interval around 1 has two sides
DECADE = 10.0
FEWEST_CELLS, FEWEST = 4, 3  # cells, and probes in one
NARROW = 0.5  # width of the interval of α
RESAMPLES = 299
SIGNIFICANT = 2.0  # standard errors
FLAT = 0.1  # of the slope of log L against log‖∇f‖: with less, curvature does not follow the gradient
SETTLED = 3  # rounds of reweighting
LONGEST = 700.0  # a logarithm of a number that is finite


def smoothness(probes: Probes, generator: np.random.Generator) -> dict[str, Finding]:
    """ℓ² = E‖∇f(y; ξ) − ∇f(x; ξ)‖²/‖y − x‖², L² = ‖∇f(y) − ∇f(x)‖²/‖y − x‖² and ρ = ℓ²/L² − 1.

    All are means over the probes: what a step there meets. The theorems ask for the largest values, which no sample of
    points can give.
    """
    count = int(np.isfinite(probes.L2).sum())
    if count < FEWEST_PAIRS:
        needs = f"{count} probes were evaluated at two points, needs {FEWEST_PAIRS} or more"
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
    rho = bootstrap_t(logs)[0].map(lambda end: max(0.0, float(np.expm1(end))))
    if 1 + rho.high > WIDEST * (1 + rho.low):
        return unknown("the interval of 1 + ρ is wider than a factor 3; needs more probes", rho)
    return estimated(rho)


class Cells(NamedTuple):
    """Numbers of each resample and cell: ‖∇f‖, L, the variances and covariance of the two; the first row as seen."""

    norms: np.ndarray  # (resamples, cells)
    L: np.ndarray
    norms_var: np.ndarray
    L_var: np.ndarray
    both: np.ndarray
    sizes: np.ndarray  # (cells,)

    def residual_var(self, slope: np.ndarray) -> np.ndarray:
        """Variance of L minus a function of ‖∇f‖ with this derivative: both are measured on the same samples."""
        return np.asarray(np.maximum(self.L_var + slope**2 * self.norms_var - 2 * slope * self.both, 0.0))


def curvature(probes: Probes, L: Finding, generator: np.random.Generator) -> dict[str, Finding]:
    """α, L0 and L1, from means over cells: probes of one direction and distance, or of one stretch of a path.

    Choosing cells by the measured gradients would choose errors. Where curvature does not follow the gradient α and L1
    are 0, and L0 is L.
    """
    cells = _cells(probes)
    if not cells:
        return dict.fromkeys(("alpha", "L0", "L1"), unknown(L.needs or f"{len(probes)} probes, needs more"))
    means, covariances = _means(np.stack([probes.gradient2, probes.L2], axis=1), cells, generator)
    errors = Fits(means[0], covariances[0]).estimates.errors
    usable = np.all(means[0] > SIGNIFICANT * errors, axis=1)
    norms2 = means[0, usable, 0]
    seen = float(np.sqrt(norms2.max() / norms2.min())) if usable.any() else 1.0
    needs = None
    if usable.sum() > 1 and seen < DECADE:
        needs = f"gradient norms differ by a factor {seen:.2g}, needs {DECADE:.0f}"
    elif usable.sum() < FEWEST_CELLS:
        needs = f"curvature is clear at {usable.sum()} distances or directions, needs {FEWEST_CELLS}: take more probes"
    if needs:
        return dict.fromkeys(("alpha", "L0", "L1"), unknown(needs))
    sizes = np.array([len(cell) for cell in cells], float)[usable]
    seen_cells = _roots(means[:, usable], covariances[:, usable], sizes)
    (slope,) = bootstrap_t(_slopes(seen_cells))
    if slope.high <= FLAT:
        flat, nothing = Interval(0.0, 0.0, max(0.0, slope.high)), Interval(0.0, 0.0, 0.0)
        return {"alpha": estimated(flat), "L0": L, "L1": estimated(nothing)}
    fits = _fits(seen_cells)
    alpha, L0, log_L1 = bootstrap_t(fits.estimates)
    at_edge = (fits.values[:, 0] <= ALPHAS[0]) | (fits.values[:, 0] >= ALPHAS[-1])  # how these vary is no error of α
    if alpha.low >= 1 or alpha.high <= 0 or np.mean(at_edge) > 1 - LEVEL:
        alpha = Interval(alpha.value, min(slope.low, alpha.value), np.inf)  # the slope is at most α
    intervals = {
        "alpha": alpha.map(lambda end: float(np.clip(end, 0.0, 1.0))),
        "L0": L0.map(lambda end: float(np.maximum(end, 0.0))),
        "L1": log_L1.map(lambda end: float(np.exp(np.clip(end, -LONGEST, LONGEST)))),
    }
    if slope.low > 0 and alpha.high - alpha.low <= NARROW:
        return {name: estimated(interval) for name, interval in intervals.items()}
    fit = intervals["alpha"].text("α from {low:.2g} to {high:.2g} fit")
    needs = f"{fit}; needs about {round_up(4 * len(probes))} probes or a smaller radius"
    return {name: unknown(needs, interval) for name, interval in intervals.items()}


def _cells(probes: Probes) -> list[np.ndarray]:
    pairs = np.flatnonzero(np.isfinite(probes.L2))
    designed = pairs[probes.direction[pairs] != "path"]
    path = pairs[probes.direction[pairs] == "path"]
    cells: list[np.ndarray] = []
    if len(designed):
        names = np.char.add(probes.direction[designed].astype(str), Strata(probes.distance[designed]).label.astype(str))
        cells += [designed[names == name] for name in np.unique(names)]
    if len(path):
        ordered = path[np.argsort(probes.step[path], kind="stable")]
        cells += np.array_split(ordered, max(1, len(path) // 6))
    return [cell for cell in cells if len(cell) >= FEWEST]


def _means(
    values: np.ndarray, cells: list[np.ndarray], generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(resamples, cells, columns): means over the cells, first as they are, then resampled; and their covariances.

    As in `Strata.resample`, n − 1 of n are drawn.
    """
    k = values.shape[1]
    means = np.empty((RESAMPLES + 1, len(cells), k))
    covariances = np.empty((RESAMPLES + 1, len(cells), k, k))
    for i, cell in enumerate(cells):
        n, inside = len(cell), values[cell]
        drawn = generator.multinomial(n - 1, np.full(n, 1 / n), size=RESAMPLES) / (n - 1)
        shares = np.concatenate([np.full((1, n), 1 / n), drawn])
        means[:, i] = shares @ inside
        products = shares @ (inside[:, :, None] * inside[:, None, :]).reshape(n, k * k)
        covariances[:, i] = (products.reshape(-1, k, k) - means[:, i, :, None] * means[:, i, None, :]) / (n - 1)
    return means, covariances


def _roots(means: np.ndarray, covariances: np.ndarray, sizes: np.ndarray) -> Cells:
    """From squares to lengths, by linearization; without the resamples in which a square is not positive."""
    positive = np.all(means > 0, axis=(1, 2))
    roots = np.sqrt(means[positive])
    norms, L = roots[..., 0], roots[..., 1]
    scaled = covariances[positive] / (4 * roots[..., :, None] * roots[..., None, :])
    return Cells(norms, L, scaled[..., 0, 0], scaled[..., 1, 1], scaled[..., 0, 1], sizes)


def _slopes(cells: Cells) -> Estimates:
    """Slope of log L against log‖∇f‖: at most α, and 0 where curvature does not follow the gradient."""
    x = np.log(cells.norms)
    x = cells.sizes * (x - (x @ cells.sizes / cells.sizes.sum())[:, None])
    x /= np.sum(x * np.log(cells.norms), axis=1, keepdims=True)
    slope = np.sum(x * np.log(cells.L), axis=1, keepdims=True)
    var = cells.residual_var(slope * cells.L / cells.norms) / cells.L**2
    return Estimates(slope, np.sqrt(np.sum(x**2 * var, axis=1, keepdims=True)))


def _fits(cells: Cells) -> Fits:
    """α, L0 and log L1, by least squares with errors in proportion to what is fitted.

    L0 is left free, so that its interval is right at 0 too. For each α the fit is linear; α is the
    best of a grid, and then where a parabola through three losses is least.
    """
    losses = np.stack([_linear(cells, np.full((len(cells.L), 1), alpha))[2] for alpha in ALPHAS])
    alpha = ALPHAS[np.argmin(losses, axis=0)][:, None]
    for step in (0.02, 0.002):
        with np.errstate(divide="ignore", invalid="ignore"):  # at α = 0 there is no L1
            before, here, after = (_linear(cells, alpha + aside)[2] for aside in (-step, 0.0, step))
            aside = np.nan_to_num((before - after) / (2 * (before - 2 * here + after)))
        alpha = alpha + step * np.clip(aside, -1.0, 1.0)[:, None]
    L0, L1, _ = _linear(cells, alpha)
    L1 = np.maximum(L1, np.finfo(float).tiny)[:, None]
    grown = L1 * cells.norms**alpha
    slopes = np.stack([grown * np.log(cells.norms), np.ones_like(grown), grown], axis=2)  # by α, L0 and log L1
    weights = cells.sizes / np.maximum(L0[:, None] + grown, 0.1 * cells.L) ** 2
    var = cells.residual_var(alpha * grown / cells.norms)
    bread = inverses(np.einsum("rc,rci,rcj->rij", weights, slopes, slopes))
    covariance = bread @ np.einsum("rc,rci,rcj->rij", weights**2 * var, slopes, slopes) @ bread
    return Fits(np.stack([alpha[:, 0], L0, np.log(L1[:, 0])], axis=1), covariance)


def _linear(cells: Cells, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L0, L1 and the loss for a given α of each resample."""
    column, fitted = cells.norms**alpha, cells.L
    for _ in range(SETTLED):
        weights = cells.sizes / fitted**2
        w, x, y, xx, xy = (np.sum(weights * v, axis=1) for v in (1.0, column, cells.L, column**2, column * cells.L))
        L1 = (w * xy - x * y) / (w * xx - x * x)
        L0 = (y - L1 * x) / w
        fitted = np.maximum(L0[:, None] + L1[:, None] * column, 0.1 * cells.L)
    return L0, L1, np.sum(cells.sizes * np.log(cells.L / fitted) ** 2, axis=1)
