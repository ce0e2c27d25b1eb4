"""What L*_sym(α) and E L*_sym(α), 0 < α < 1, cost in the bounds.

Both classes bound the change of the gradient over a distance r by r (base + gradient·‖∇f‖^α + distance·r^p) with
p = α/(1 − α). The paper calls the three factors K0, K1, K2 in both cases although their values differ; here they are
two classes. Powers such as 2^{α²/(1−α)} leave double precision as α → 1, so everything is computed in logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from gladstorm.theory.problem import OutOfRange


@dataclass(frozen=True)
class Symmetric:
    """f ∈ L*_sym(α): constants of the NSGDM bounds."""

    base: float  # K0 (appendix B), L̄0 (main text)
    gradient: float  # K1, L̄1
    distance: float  # K2, L̄2
    descent: float  # C_α: the part of one step's descent paid for curvature that grows with the gradient
    drift: float  # C̃_α: how far the gradient moves away from the momentum in one step, per unit of length


@dataclass(frozen=True)
class Expected:
    """E L*_sym(α): constants of the NSTORM bounds."""

    base: float  # K0 (Theorem 2, appendix C)
    gradient: float  # K1
    distance: float  # K2
    moment: float  # L_α: the factor of ‖∇f‖^α and of the noise scale^α once the sample moment is bounded
    young: float  # c_α: x^α ≤ λ x + c_α λ^{−p}


@lru_cache(maxsize=256)
def symmetric(L0: float, L1: float, alpha: float) -> Symmetric:
    """The constants of L*_sym(α) from its L0 and L1.

    >>> constants = symmetric(1.5, 0.25, 0.5)
    >>> round(constants.descent, 12), round(constants.drift, 12)
    (0.170296554462, 4.447866898022)

    Doubles end before α = 1 is reached; the refusal says how far away the value is.

    >>> symmetric(1.0, 1.0, 0.97)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    gladstorm.theory.problem.OutOfRange: nsgdm: alpha must be small enough for the descent constant, near 10^338, ...
    """
    p = alpha / (1 - alpha)
    doubling = alpha * p * math.log(2)  # log 2^{α²/(1−α)}
    tripling = alpha * math.log(3)  # log 3^α
    gradient = _log(L1) + doubling + tripling
    distance = (1 + p) * _log(L1) + doubling + tripling + p * math.log(1 - alpha)
    descent = math.log((1 - alpha) / 2) + gradient + p * (math.log(2 * alpha) + gradient)  # R_α
    drift = math.log(1 - alpha) + gradient + p * (math.log(8 * alpha) + gradient)  # R̃_α

    def value(name: str, log: float) -> float:
        return _exp("nsgdm", name, log, alpha, L1)

    base = L0 + value("base", _log(L0) + doubling)
    K2 = value("distance", distance)
    return Symmetric(
        base=base,
        gradient=value("gradient", gradient),
        distance=K2,
        descent=K2 + value("descent", descent),
        drift=base + K2 + value("drift", drift),
    )


@lru_cache(maxsize=256)
def expected(L0: float, L1: float, alpha: float) -> Expected:
    """The constants of E L*_sym(α) from its L0 and L1.

    >>> constants = expected(1.5, 0.25, 0.5)
    >>> round(constants.base, 12), round(constants.gradient, 12), round(constants.distance, 12)
    (12.0, 2.0, 1.5625)
    """
    p = alpha / (1 - alpha)
    doubling = (2 + p) * math.log(2)  # log 2^{(2−α)/(1−α)}

    def value(name: str, log: float) -> float:
        return _exp("nstorm", name, log, alpha, L1)

    return Expected(
        base=value("base", _log(L0) + doubling),
        gradient=value("gradient", _log(L1) + doubling),
        distance=value("distance", (1 + p) * _log(5 * L1)),
        moment=value("moment", _log(L1) + doubling + alpha / 2 * math.log(2)),
        young=young(alpha),
    )


def young(alpha: float) -> float:
    """c_α = (1 − α) α^p."""
    return (1 - alpha) * math.pow(alpha, alpha / (1 - alpha))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _exp(owner: str, name: str, log: float, alpha: float, L1: float) -> float:
    if log > 708.0:  # 3e307: room for the sums of two or three of them
        raise OutOfRange(
            f"{owner}: alpha must be small enough for the {name} constant, near 10^{log / math.log(10):.0f}, "
            f"to fit in double precision; got alpha={alpha}, L1={L1}."
        )
    return math.exp(log)
