"""Weighted fits and means of probes, of many resamples at once, and the intervals that come of them.

An interval is a bootstrap-t: resamples are drawn within each stratum of distance, and each estimate is divided by its
own standard error. Percentile intervals of noise estimates, whose law is skewed, cover too rarely.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gladstorm.core.estimate import Estimate

RESAMPLES = 999
LEVEL = 0.95
FEWEST = 6  # in a stratum that is resampled
MOST = 8  # strata of such distances
FLOOR = 0.1  # of a stratum's mean: what a fit says of its noise counts as no less in a weight
SETTLED = 6  # rounds of reweighting


def generator_of(seed: int, quantity: str) -> np.random.Generator:
    """Make a quantity's own generator of resamples, whatever else is estimated."""
    return np.random.default_rng([seed, zlib.crc32(quantity.encode())])


class Estimates(NamedTuple):
    """Numbers of every resample with their standard errors."""

    values: np.ndarray  # (resamples, numbers)
    errors: np.ndarray


class Fits(NamedTuple):
    """Numbers of every resample with their covariances."""

    values: np.ndarray  # (resamples, numbers)
    covariances: np.ndarray  # (resamples, numbers, numbers)

    @property
    def estimates(self) -> Estimates:
        """The numbers with their standard errors."""
        return Estimates(self.values, np.sqrt(np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0.0)))

    def function(self, values: np.ndarray, gradients: np.ndarray) -> Estimates:
        """One function of the numbers, from its values and its gradients, (resamples, numbers), by linearization."""
        squares = np.einsum("ri,rij,rj->r", gradients, self.covariances, gradients)
        return Estimates(values[:, None], np.sqrt(np.maximum(squares, 0.0))[:, None])


@dataclass(frozen=True)
class Interval(Estimate):
    """An estimate that exists, with both ends of its interval; infinite where there is no end."""

    value: float
    low: float
    high: float

    def root(self) -> Interval:
        """The interval of √θ, from that of θ: what is below 0 counts as 0."""
        return self.map(lambda end: max(0.0, end) ** 0.5)

    def as_dict(self) -> dict[str, float]:
        """The three numbers as JSON-ready data."""
        return {"estimate": self.value, "low": self.low, "high": self.high}


class Strata:
    """Probes of about one distance, drawn among themselves; `indicator` is (probes, strata), `label` of each probe.

    Distances that are all different, along a path, are cut into strata of equal size. With `fewest`, neighbours are
    joined until each has so many: resamples of three or four say little about how much they vary.
    """

    def __init__(self, distance: np.ndarray, fewest: int = 1) -> None:
        radius = float(distance.max(initial=0.0)) or 1.0
        kinds, label, sizes = np.unique(np.rint(distance / radius * 1e6), return_inverse=True, return_counts=True)
        if 2 * len(kinds) > len(distance):
            count = int(np.clip(len(distance) // FEWEST, 1, MOST))
            label = np.empty(len(distance), int)
            label[np.argsort(distance, kind="stable")] = np.arange(len(distance)) * count // len(distance)
            sizes = np.bincount(label)
        self.label = _joined(sizes, fewest)[label]
        self.indicator = (self.label[:, None] == np.arange(self.label.max() + 1)).astype(float)
        self.sizes = self.indicator.sum(axis=0)

    def means(self, values: np.ndarray) -> np.ndarray:
        """For each probe, the mean of its stratum; of each column, if there are several."""
        return np.asarray(((self.indicator.T @ values).T / self.sizes).T[self.label])

    def deviations(self, values: np.ndarray, finer: Strata) -> np.ndarray:
        """Columns of values without what differs between finer strata, as large as in strata that were not joined.

        A design's distances are the same in every repetition: how values differ between them is no error of a mean.
        """
        kinds = np.array([len(np.unique(finer.label[self.label == i])) for i in range(len(self.sizes))])
        scale = np.sqrt((self.sizes - 1) / np.maximum(self.sizes - kinds, 1.0))
        return np.asarray((values - finer.means(values)) * scale[self.label, None])

    def resample(self, generator: np.random.Generator, resamples: int = RESAMPLES) -> np.ndarray:
        """How often each probe is drawn, (resamples, probes): the first resample is the sample itself.

        Of n in a stratum n − 1 are drawn, each for n/(n − 1) of one: so small strata vary as much as they should
        (Rao and Wu 1988).
        """
        counts = np.ones((resamples + 1, len(self.label)))
        for stratum, size in enumerate(self.sizes.astype(int)):
            drawn = generator.multinomial(max(size - 1, 1), np.full(size, 1 / size), size=resamples)
            counts[1:, self.label == stratum] = drawn * size / max(size - 1, 1)
        return counts


def _joined(sizes: np.ndarray, fewest: int) -> np.ndarray:
    """For each stratum, the number of the larger one it goes into.

    >>> _joined(np.array([12, 3, 4, 11, 2]), 6).tolist()
    [0, 1, 1, 2, 2]
    """
    into, inside = [0], int(sizes[0])
    for i, size in enumerate(sizes[1:], start=1):
        opens = inside >= fewest and sizes[i:].sum() >= fewest
        into.append(into[-1] + opens)
        inside = int(size) if opens else inside + int(size)
    return np.array(into)


def fit_noise(columns: np.ndarray, noise: np.ndarray, weights: np.ndarray, counts: np.ndarray, strata: Strata) -> Fits:
    """θ with V ≈ Xθ, errors in proportion to Xθ: the gamma law's weights 1/(Xθ)² on the identity link.

    θ is left free, so that its intervals are right at 0 too; `weights` are the probes' degrees of freedom. Standard
    errors are a sandwich: they do not trust the gamma law.
    """
    n, k = columns.shape
    squares = (columns[:, :, None] * columns[:, None, :]).reshape(n, k * k)
    local = strata.means(noise)
    least = np.maximum(FLOOR * local, 1e-9 * local.max())
    fitted = np.maximum(local, least)
    for _ in range(SETTLED):
        precision = counts * weights / fitted**2
        inverse = inverses((precision @ squares).reshape(-1, k, k))
        theta = (inverse @ (precision @ (columns * noise[:, None]))[..., None])[..., 0]
        mean = theta @ columns.T
        fitted = np.maximum(mean, least)
    residual = (weights / fitted**2 * (noise - mean)) ** 2 * counts
    covariance = inverse @ (residual @ squares).reshape(-1, k, k) @ inverse
    return Fits(theta, covariance)


def inverses(matrices: np.ndarray) -> np.ndarray:
    """Inverses of positive matrices whose columns may be of very different size; huge where there is none."""
    size = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    size = np.where(size > 0, size, 1.0)
    scale = size[:, :, None] * size[:, None, :]
    return np.asarray(np.linalg.inv(matrices / scale + 1e-12 * np.eye(matrices.shape[-1])) / scale)


def mean_of_strata(values: np.ndarray, counts: np.ndarray, strata: Strata) -> Fits:
    """Means of columns of values, with covariances from what varies inside the strata."""
    n, k = values.shape
    products = (values[:, :, None] * values[:, None, :]).reshape(n, k * k)
    covariance = np.zeros((len(counts), k, k))
    for stratum, size in enumerate(strata.sizes):
        inside = counts * strata.indicator[:, stratum]
        mean = inside @ values / size
        second = (inside @ products).reshape(-1, k, k) / size - mean[:, :, None] * mean[:, None, :]
        covariance += second * size**2 / max(size - 1, 1.0) / n**2
    return Fits(counts @ values / n, covariance)


def percentiles(values: np.ndarray, level: float = LEVEL) -> Interval:
    """An interval of one number with ends of equal probability: the first is the sample's, the others its resamples'.

    >>> percentiles(np.array([90.0, *range(101)]), level=0.5)
    Interval(value=90.0, low=25.0, high=75.0, level=0.5)
    """
    low, high = np.quantile(values[1:], [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values[0]), float(low), float(high), level=level)


def bootstrap_t(estimates: Estimates, level: float = LEVEL) -> list[Interval]:
    """An interval of each number, as wide to either side: the first row is the sample's, the others its resamples'.

    θ ± q s with q the quantile of |θ* − θ|/s* at this level. With ends of equal probability it would cover less often:
    errors in the two ends cancel (Hall 1988).
    """
    (value, *values), (error, *errors) = estimates
    with np.errstate(divide="ignore", invalid="ignore"):
        studentized = np.abs(np.asarray(values) - value) / np.asarray(errors)
    intervals = []
    for v, e, t in zip(value, error, studentized.T, strict=True):
        finite = t[np.isfinite(t)]
        reach = float(np.quantile(finite, level) * e) if finite.size else 0.0
        intervals.append(Interval(float(v), float(v) - reach, float(v) + reach, level=level))
    return intervals
