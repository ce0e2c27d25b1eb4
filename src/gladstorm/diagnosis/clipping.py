"""Effect of clipping on a training: on how many steps it acts, and how far it moves the mean of the gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gladstorm.diagnosis.probes import Probes
from gladstorm.diagnosis.resampling import RESAMPLES, Interval, percentiles

FEWEST = 8  # probes
ALWAYS = 0.9  # a share of steps from which clipping is normalization
SMALL = 0.1  # of ‖∇f‖: a bias that is left alone
GRID = 60  # thresholds to choose from


class Clipping(NamedTuple):
    """Effect of clipping at a threshold, from the norms of probes' halves."""

    max_norm: float  #: the threshold c of g · min{1, c/‖g‖}
    share: float  #: of the probes whose gradient is longer
    bias: Interval  #: ‖E clip(g) − ∇f‖/‖∇f‖ for a mini-batch half as large as a probe's
    batch: int  #: the samples of that half
    better: float  #: the smallest threshold with a bias of a tenth or less

    def sentence(self) -> str:
        """A sentence about what to do."""
        acts = f"Clipping at {self.max_norm:.3g} acts on {self.share:.0%} of the mini-batches of {2 * self.batch}"
        bias = (
            f"moves the mean gradient of {self.batch} samples by {self.bias.estimate:.0%} ({self.bias.low:.0%} to "
            f"{self.bias.high:.0%}) of its length"
        )
        if self.share >= ALWAYS:
            return (
                f"{acts}: that is normalized-gradient descent by another name. Use NSGDM; for SGD's steps its lr is "
                f"yours times {self.max_norm:.3g}."
            )
        if self.bias.estimate <= SMALL:
            return f"{acts} and {bias}: leave it."
        raised = f"raise it to {self.better:.2g}, where that is a tenth or less."
        if self.bias.low <= SMALL:
            return f"{acts} and {bias}. Whether that is much, these probes do not tell. To be safe, {raised}"
        return f"{acts} and {bias}: {raised}"

    def as_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {**self._asdict(), "bias": self.bias._asdict(), "sentence": self.sentence()}


def clipping(probes: Probes, max_norm: float, generator: np.random.Generator) -> Clipping:
    """The share of steps that clipping changes and its bias, from independent halves A and B of mini-batches.

    With c(g) = min{1, c/‖g‖}, E (1 − c(A))(1 − c(B))⟨A, B⟩ = ‖E clip(A) − ∇f‖², without bias, and E⟨A, B⟩ = ‖∇f‖².
    """
    has_halves = np.isfinite(probes.first)
    if has_halves.sum() < FEWEST:
        raise ValueError(
            f"clipping: there must be {FEWEST} probes of a training or more, with the norms of their halves; got "
            f"{has_halves.sum()}. Take them with a NoiseProbe."
        )
    columns = (getattr(probes, name)[has_halves] for name in ("noise", "gradient2", "groups", "samples"))
    noise, gradient2, groups, samples = columns
    A, B = probes.first[has_halves], probes.second[has_halves]
    mean2 = gradient2 + noise / (groups * samples)  # of the two halves
    inner = inner_product(mean2, A, B)
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
        float(np.mean(mean2 > max_norm**2)),
        percentiles(bias(max_norm)),
        int(np.median(groups * samples)) // 2,
        better,
    )


def inner_product(mean2: Any, A: Any, B: Any) -> Any:
    """⟨A, B⟩ from ‖(A + B)/2‖² and the two norms."""
    return 2 * mean2 - (A**2 + B**2) / 2


def cut_off(norm: Any, max_norm: float) -> Any:
    """1 − min{1, c/‖g‖}: the part of a gradient that clipping takes away.

    >>> cut_off(np.array([0.5, 4.0]), 1.0).tolist()
    [0.0, 0.75]
    """
    return 1 - max_norm / np.maximum(norm, max_norm)
