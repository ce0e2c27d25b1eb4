"""Means, spreads and confidence intervals over seeds."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Mean:
    """A mean over n independent seeds and their sample standard deviation."""

    value: float
    deviation: float
    n: int

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Student's two-sided interval; with no deviation it has length 0, so handle one seed before."""
        if self.deviation == 0:
            return self.value, self.value
        from scipy.special import stdtrit  # a fifth of a second that only intervals should take

        half = float(stdtrit(self.n - 1, (1 + confidence) / 2) * self.deviation / math.sqrt(self.n))
        return self.value - half, self.value + half


def mean_of(values: np.ndarray) -> Mean:
    """The mean over seeds, of which there must be two or more."""
    return Mean(float(values.mean()), float(values.std(ddof=1)), values.size)


def over_seeds(values: np.ndarray) -> dict[str, Any]:
    """Mean, sample standard deviation (None for one seed: it tells nothing about others) and the values."""
    with np.errstate(invalid="ignore", over="ignore"):
        deviation = values.std(ddof=1) if values.size > 1 else np.nan
        return {"mean": finite(values.mean()), "std": finite(deviation), "per_seed": finite_list(values)}


def share_interval(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's exact interval for a probability, from how often it came true."""
    from scipy.special import betainccinv, betaincinv

    tail = (1 - confidence) / 2
    low = betaincinv(count, of - count + 1, tail) if count else 0.0
    high = betainccinv(count + 1, of - count, tail) if count < of else 1.0
    return float(low), float(high)


def f_tail(between: int, inside: int, ratio: float) -> float:
    """The probability that an F variable with these degrees of freedom is larger than a ratio."""
    from mpmath import betainc, mpf, workdps  # SciPy has it too, and is more than a diagnosis should need

    with workdps(30):  # the share is close to 1 where the ratio is small
        share = inside / (inside + between * mpf(ratio))
        return float(betainc(inside / 2, between / 2, 0, share, regularized=True))


def significant(value: float, digits: int) -> float:
    """A number to so many significant digits: what is kept then does not depend on the last bits of a machine."""
    return float(f"{value:.{digits}g}")


def finite(value: Any) -> float | None:
    """A number as JSON can hold it: None if it is not finite."""
    return float(value) if np.isfinite(value) else None


def finite_list(values: np.ndarray) -> list[float | None]:
    """Numbers as JSON can hold them."""
    return [finite(value) for value in values]
