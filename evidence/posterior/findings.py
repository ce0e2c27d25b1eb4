"""What the gaps say: who arrives, who diverges, at which learning rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Results = dict[str, Any]

NEAR = 1.0  # nats: a run that ends nearer to the best ELBO has arrived


@dataclass(frozen=True)
class Finding:
    """One optimizer with one schedule on one guide."""

    rates: list[float]
    medians: list[float]  # of the gap, a rate each; inf where most seeds are lost
    arrived: list[float]  # the rates at which every seed does
    diverged: list[int]  # seeds that end worse than they started, a rate each

    @property
    def best(self) -> tuple[float, float]:
        """The smallest median gap, and its rate."""
        return min(zip(self.medians, self.rates, strict=True))

    @property
    def span(self) -> str:
        """The rates that arrive; "≥" and "≤" where the grid ends.

        >>> Finding([0.1, 1, 10], [3, 0.1, 0.2], [1, 10], [0, 0, 0]).span
        '1 to ≥ 10'
        """
        if not self.arrived:
            return "none"
        low, high = self.arrived[0], self.arrived[-1]
        first = "≤ " * (low == self.rates[0])
        last = "≥ " * (high == self.rates[-1])
        return f"{first}{low:g}" if low == high else f"{first}{low:g} to {last}{high:g}"


def found(results: Results, guide: str, optimizer: str, schedule: str) -> Finding:
    """From the gaps by rate and seed."""
    rates = results["settings"]["rates"]
    gaps = np.array(results["gaps"][guide][optimizer][schedule], np.float64)  # null becomes NaN
    gaps = np.where(np.isnan(gaps), np.inf, gaps)
    return Finding(
        rates=rates,
        medians=np.sort(gaps, axis=1)[:, gaps.shape[1] // 2].tolist(),  # the upper one: no mean with inf
        arrived=[rate for rate, row in zip(rates, gaps, strict=True) if (row < NEAR).all()],
        diverged=(gaps > np.array(results["start"][guide])).sum(axis=1).tolist(),
    )
