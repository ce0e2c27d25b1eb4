"""Effect of clipping on a training: on how many steps it acts, and how far it moves the mean of the gradients."""

from typing import Any, NamedTuple

import numpy as np

from gladstorm.diagnosis.probes import Probes
from gladstorm.diagnosis.resampling import RESAMPLES, Interval, percentiles

FEWEST = 8  # probes
ALWAYS = 0.9  # a share of steps from which clipping is normalization
SMALL = 0.1  # of ‖∇f‖: a bias that is left alone
GRID = 60  # thresholds to choose from
PART = 8  # of a run, in so many, is the most that is averaged


class Clipping(NamedTuple):
    """Effect of clipping at a threshold, from the norms of probes' halves."""

    max_norm: float  #: the threshold c of g · min{1, c/‖g‖}
    share: float  #: of the mini-batches whose gradient is longer
    size: int  #: their samples: those asked for, or of a probe
    bias: Interval  #: ‖E clip(g) − ∇f‖/‖∇f‖
    batch: int  #: for mini-batches of so many samples: those asked for, or half of a probe's
    better: float  #: the smallest threshold with a bias of a tenth or less

    def sentence(self) -> str:
        """A sentence about what to do."""
        acts = f"Clipping at {self.max_norm:.3g} acts on {self.share:.0%} of the mini-batches of {self.size}"
        part = self.bias.text("{value:.0%} ({low:.0%} to {high:.0%})")
        bias = f"moves the mean gradient of {self.batch} samples by {part} of its length"
        if self.share >= ALWAYS:
            return (
                f"{acts}: that is normalized-gradient descent by another name. Use NSGDM; for SGD's steps its lr is "
                f"yours times {self.max_norm:.3g}."
            )
        if self.bias.value <= SMALL:
            return f"{acts} and {bias}: leave it."
        raised = f"raise it to {self.better:.2g}, where that is a tenth or less."
        if self.bias.low <= SMALL:
            return f"{acts} and {bias}. Whether that is much, these probes do not tell. To be safe, {raised}"
        return f"{acts} and {bias}: {raised}"

    def as_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {**self._asdict(), "bias": self.bias.as_dict(), "sentence": self.sentence()}


def clipping(probes: Probes, max_norm: float, generator: np.random.Generator, batch: int | None = None) -> Clipping:
    """The share of steps that clipping changes and its bias, from independent halves A and B of mini-batches.

    With c(g) = min{1, c/‖g‖}, E (1 − c(A))(1 − c(B))⟨A, B⟩ = ‖E clip(A) − ∇f‖², without bias, and E⟨A, B⟩ = ‖∇f‖².
    Norms at another batch than that of the probes are about those that the noise lets expect there.
    """
    has_halves = np.isfinite(probes.first)
    if has_halves.sum() < FEWEST:
        raise ValueError(
            f"clipping: there must be {FEWEST} probes of a training or more, with the norms of their halves; got "
            f"{has_halves.sum()}. Take them with a NoiseProbe."
        )
    columns = (getattr(probes, name)[has_halves] for name in ("noise", "gradient2", "groups", "samples"))
    noise, gradient2, groups, samples = columns
    first, second = probes.first[has_halves], probes.second[has_halves]
    mean2 = gradient2 + noise / (groups * samples)  # of the two halves
    inner = inner_product(mean2, first, second)
    order, samples = np.argsort(probes.step[has_halves], kind="stable"), groups * samples
    whole2 = _squares_at(mean2, noise, samples, batch, order)
    A, B = (np.sqrt(_squares_at(half**2, noise, samples / 2, batch, order)) for half in (first, second))
    size = batch or int(np.median(samples))
    n = len(inner)
    counts = np.concatenate([np.ones((1, n)), generator.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)])
    below = np.maximum(counts @ inner, 0.0)

    def bias(threshold: float) -> np.ndarray:
        taken = np.maximum(counts @ (cut_off(A, threshold) * cut_off(B, threshold) * inner), 0.0)
        return np.asarray(np.sqrt(np.divide(taken, below, out=1.0 * (taken > 0), where=below > 0)))

    longest, shortest = float(max(A.max(), B.max())), float(min(A.min(), B.min()))
    better = longest
    for threshold in np.geomspace(longest, max(shortest, 1e-6 * longest), GRID) if longest else ():
        if bias(float(threshold))[0] > SMALL:
            break
        better = float(threshold)
    return Clipping(
        max_norm,
        float(np.mean(whole2 > max_norm**2)),
        size,
        percentiles(bias(max_norm)),
        batch or size // 2,
        better,
    )


def _squares_at(
    squares: np.ndarray, noise: np.ndarray, samples: np.ndarray, batch: int | None, order: np.ndarray
) -> np.ndarray:
    """‖g‖² of mini-batches of `batch` samples, from those of `samples` in the order of their steps.

    Noise over `batch` takes the place of noise over `samples`. Then (batch/samples)² neighbours are averaged, at most a
    part of the run: ‖g‖² of a batch k times as large deviates a k-th as much, where noise is most of it.
    """
    if batch is None:
        return squares
    larger = batch / float(np.median(samples))
    window = np.ones(max(1, min(round(larger**2), len(squares) // PART)))
    shifted = (squares + noise * (1 / batch - 1 / samples))[order]
    averaged = np.convolve(shifted, window, "same") / np.convolve(np.ones_like(shifted), window, "same")
    result: np.ndarray = np.empty_like(shifted)
    result[order] = np.maximum(averaged, 0.0)
    return result


def inner_product(mean2: Any, A: Any, B: Any) -> Any:
    """⟨A, B⟩ from ‖(A + B)/2‖² and the two norms."""
    return 2 * mean2 - (A**2 + B**2) / 2


def cut_off(norm: Any, max_norm: float) -> Any:
    """1 − min{1, c/‖g‖}: the part of a gradient that clipping takes away.

    >>> cut_off(np.array([0.5, 4.0]), 1.0).tolist()
    [0.0, 0.75]
    """
    return 1 - max_norm / np.maximum(norm, max_norm)
