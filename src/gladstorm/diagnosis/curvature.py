"""How curvature grows with the gradient: α, L0 and L1 of ‖∇²f‖ ≈ L0 + L1‖∇f‖^α, where gradients differ enough."""

from __future__ import annotations

import numpy as np

from gladstorm.diagnosis.finding import Finding, found, two_digits, unknown
from gladstorm.diagnosis.probes import Probes
from gladstorm.diagnosis.resampling import Interval, Strata

ALPHAS = np.linspace(0.05, 1.0, 20)
DECADE = 10.0
FEWEST_CELLS, FEWEST = 4, 3  # cells, and probes in one
NARROW = 0.5  # width of the interval of α
RESAMPLES = 299
SIGNIFICANT = 2.0  # standard errors
FLAT = 0.1  # of the slope of log L against log‖∇f‖: with less, curvature does not follow the gradient


def curvature(probes: Probes, L: Finding, generator: np.random.Generator) -> dict[str, Finding]:
    """α, L0 and L1, from means over cells: probes of one direction and distance, or of one stretch of a path.

    Choosing cells by the measured gradients would choose errors. Intervals are percentiles of resamples in the cells.
    Where curvature does not follow the gradient α and L1 are 0, and L0 is L.
    """
    cells = _cells(probes)
    means = _means(np.stack([probes.gradient2, probes.L2], axis=1), cells, generator)
    usable = np.all(means[0] > SIGNIFICANT * means[1:].std(axis=0), axis=1)
    norms2 = means[0, usable, 0]
    seen = float(np.sqrt(norms2.max() / norms2.min())) if usable.any() else 1.0
    if usable.sum() < FEWEST_CELLS or seen < DECADE:
        needs = f"gradient norms differ by a factor {seen:.2g}, needs {DECADE:.0f}"
        return dict.fromkeys(("alpha", "L0", "L1"), unknown(needs))
    sizes = np.array([len(cell) for cell in cells], float)[usable]
    roots = np.sqrt(np.maximum(means[:, usable], 0.0))
    resampled = [(each[:, 0], each[:, 1]) for each in roots if each.all()]
    slopes = _interval([_slope(h, each, sizes) for h, each in resampled])
    if slopes.high <= FLAT:
        flat, nothing = Interval(0.0, 0.0, max(0.0, slopes.high)), Interval(0.0, 0.0, 0.0)
        return {"alpha": found(flat), "L0": L, "L1": found(nothing)}
    fits = zip(*(_fit(h, each, sizes) for h, each in resampled), strict=True)
    intervals = {name: _interval(list(column)) for name, column in zip(("alpha", "L0", "L1"), fits, strict=True)}
    low, high = intervals["alpha"][1:]
    if slopes.low > 0 and high - low <= NARROW:
        return {name: found(interval) for name, interval in intervals.items()}
    needs = f"α from {low:.2g} to {high:.2g} fit; needs about {two_digits(4 * len(probes))} probes"
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


def _means(values: np.ndarray, cells: list[np.ndarray], generator: np.random.Generator) -> np.ndarray:
    """(resamples, cells, columns): means over the cells, in the first row as they are, then as they are resampled."""
    means = np.empty((RESAMPLES + 1, len(cells), values.shape[1]))
    for i, cell in enumerate(cells):
        n = len(cell)
        drawn = generator.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
        means[:, i] = np.concatenate([np.ones((1, n)), drawn]) @ values[cell] / n
    return means


def _interval(values: list[float]) -> Interval:
    """The sample's own, which is the first, with percentiles of the resamples'."""
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(float(values[0]), float(low), float(high))


def _slope(norms: np.ndarray, L: np.ndarray, sizes: np.ndarray) -> float:
    """Of log L against log‖∇f‖: at most α, and 0 where curvature does not follow the gradient."""
    x = np.log(norms)
    x = sizes * (x - sizes @ x / sizes.sum())
    return float(x @ np.log(L) / (x @ np.log(norms)))


def _fit(norms: np.ndarray, L: np.ndarray, sizes: np.ndarray) -> tuple[float, float, float]:
    """α, and L0 and L1 ≥ 0, by least squares with errors in proportion to what is fitted."""
    best, chosen = np.inf, (0.0, 0.0, 0.0)
    for alpha in ALPHAS:
        column, fitted = norms**alpha, L
        for _ in range(3):
            weights = sizes / fitted**2
            w, x, y, xx, xy = (float(weights @ v) for v in (np.ones_like(L), column, L, column**2, column * L))
            L1 = max(0.0, (w * xy - x * y) / (w * xx - x * x))
            L0 = (y - L1 * x) / w
            if L0 < 0:
                L0, L1 = 0.0, xy / xx
            fitted = L0 + L1 * column
        if (loss := float(sizes @ np.log(L / fitted) ** 2)) < best:
            best, chosen = loss, (float(alpha), L0, L1)
    return chosen
