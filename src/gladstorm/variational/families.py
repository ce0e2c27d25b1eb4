"""Families that a fit searches, as a user names them."""

from __future__ import annotations

from dataclasses import dataclass

from gladstorm.core.rules import COUNT

RANK = 10  # of the covariance where a full one would have too many numbers


@dataclass(frozen=True)
class MeanField:
    """Independent normal coordinates in unconstrained space: 2d numbers, as numpyro's AutoNormal."""


@dataclass(frozen=True)
class FullRank:
    """A multivariate normal with any covariance: d(d + 3)/2 numbers, and steps that cost d³ beside the gradient."""


@dataclass(frozen=True)
class LowRank:
    """A multivariate normal whose covariance is diag σ (I + UUᵀ) diag σ, U with `rank` columns."""

    rank: int = RANK

    def __post_init__(self) -> None:
        COUNT.require("LowRank", "rank", self.rank)


@dataclass(frozen=True)
class Flow:
    """Affine couplings on the best Gaussian, which gets half of the steps: for posteriors that no Gaussian is near."""

    layers: int = 4
    hidden: int = 24

    def __post_init__(self) -> None:
        for name in ("layers", "hidden"):
            COUNT.require("Flow", name, getattr(self, name))


Family = MeanField | FullRank | LowRank | Flow
