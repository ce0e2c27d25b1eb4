"""Families of distributions that a fit looks in: which stages lead to the best member of each, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass

from gladstorm.core.rules import COUNT
from gladstorm.variational.newton import DRAWS_PER_COORDINATE, FEWEST, FullRankNewtonStage, NewtonStage
from gladstorm.variational.stages import FullRankStage, GaussianStage, LogDensity, LowRankStage, MeanFieldStage

FIRST = 0.3  # the share of the steps that a mean field gets, where another stage follows it
ENTRIES_PER_STEP = 0.25  # a full covariance may have so many numbers for each step that estimates them
ROUNDS, MOST = 3, 1 / 15  # of Newton stages, and the share of the steps that one may have
RANK = 10  # of the covariance where a full one would have too many numbers


@dataclass(frozen=True)
class MeanField:
    """Independent normal coordinates in unconstrained space: 2d numbers, as numpyro's AutoNormal."""

    def stages(self, log_density: LogDensity, dim: int, steps: int) -> list[GaussianStage]:
        """What is done in a run of so many steps."""
        newton = _newton(log_density, dim, steps)
        return [MeanFieldStage(_rest(steps, newton), log_density), *newton]

    def numbers(self, dim: int) -> int:
        """How many numbers describe a member."""
        return 2 * dim


@dataclass(frozen=True)
class FullRank:
    """A multivariate normal with any covariance: d(d + 3)/2 numbers, and steps that cost d³ beside the gradient."""

    def stages(self, log_density: LogDensity, dim: int, steps: int) -> list[GaussianStage]:
        """What is done in a run of so many steps: a mean field first."""
        newton = _newton(log_density, dim, steps, FullRankNewtonStage)
        first = max(1, round(FIRST * steps))
        second = FullRankStage(max(1, _rest(steps - first, newton)), log_density)
        return [MeanFieldStage(first, log_density), *newton[:1], second, *newton[1:]]

    def numbers(self, dim: int) -> int:
        """How many numbers describe a member."""
        return dim * (dim + 3) // 2


@dataclass(frozen=True)
class LowRank:
    """A multivariate normal whose covariance is diag σ (I + UUᵀ) diag σ, U with `rank` columns."""

    rank: int = RANK

    def __post_init__(self) -> None:
        COUNT.require("LowRank", "rank", self.rank)

    def stages(self, log_density: LogDensity, dim: int, steps: int) -> list[GaussianStage]:
        """What is done in a run of so many steps: a mean field first."""
        newton = _newton(log_density, dim, steps)
        first = max(1, round(FIRST * steps))
        second = LowRankStage(max(1, _rest(steps - first, newton)), log_density, self.rank)
        return [MeanFieldStage(first, log_density), *newton[:1], second, *newton[1:]]

    def numbers(self, dim: int) -> int:
        """How many numbers describe a member."""
        return dim * (self.rank + 2)


Family = MeanField | FullRank | LowRank


def largest_family(dim: int, steps: int) -> Family:
    """Full rank where the run has steps enough to estimate its covariance, low rank elsewhere.

    >>> largest_family(30, 10_000), largest_family(30, 1_000), largest_family(1_000, 10_000)
    (FullRank(), LowRank(rank=10), LowRank(rank=10))
    """
    if dim == 1:
        return MeanField()
    return FullRank() if FullRank().numbers(dim) <= ENTRIES_PER_STEP * steps else LowRank(min(RANK, dim))


def _newton(log_density: LogDensity, dim: int, steps: int, stage: type[NewtonStage] = NewtonStage) -> list[NewtonStage]:
    """Newton stages, where the run has draws enough for the curvature in all directions."""
    draws = min(int(MOST * steps), DRAWS_PER_COORDINATE * (dim + 4))
    return [stage(draws, log_density)] * ROUNDS if draws >= FEWEST * (dim + 1) else []


def _rest(steps: int, newton: list[NewtonStage]) -> int:
    return max(1, steps - sum(stage.steps for stage in newton))
