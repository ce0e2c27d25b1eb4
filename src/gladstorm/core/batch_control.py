"""When a training may take larger batches: as soon as its noise is large beside its gradient, and steps still agree.

Let m be the factor by which batches have grown, V the variance of the gradient of a batch of the first size, Γ the
squared gradient without the noise's share, and C the inner product of the gradients of consecutive steps. Their running
means give the critical batch B = V/Γ in batches of the first size, and the persistence ρ = C/Γ: steps that agree can be
joined, steps that undo each other cannot. **m doubles while θB_low ≥ 2m and ρ ≥ 0.4**, with B_low = V/(Γ + 2 s.e.).
Where noise falls faster than the gradient, m halves while m > 2θB_high, with B_high = V/(Γ - 2 s.e.).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PACES = {"safe": 0.5, "fast": 2.0}  # θ
PERSISTENT = 0.4  # the least ρ at which steps are joined
FIRST_SHARE = 0.02  # of the budget, before which nothing grows
FEWEST_LOOKS, FEWEST_STEPS = 16, 8  # before m grows: looks in all, and steps since m changed
MEMORY = 0.1  # of what was seen: the half-life of a mean
FADED = 0.25  # of its highest mean: where the noise has fallen so far, a loss goes to 0, and small batches are needed
SURGE, RUNNING = 4.0, 2  # so many times the expected ‖ḡ‖², on so many looks: the batch was too large
PAUSE = 0.05  # of the budget, in which nothing grows after a surge; the next pause is twice as long


@dataclass
class RunningMean:
    """A mean that forgets, and its standard error."""

    weight: float = 0.0
    weight2: float = 0.0  # Σ of squared weights
    total: float = 0.0
    total2: float = 0.0  # Σ of weighted squares

    def add(self, value: float, half_life: float) -> None:
        """Take the next value; those before keep half of their weight after so many."""
        keep = 0.5 ** (1 / half_life)
        self.weight, self.weight2 = keep * self.weight + 1, keep**2 * self.weight2 + 1
        self.total, self.total2 = keep * self.total + value, keep * self.total2 + value**2

    @property
    def mean(self) -> float:
        """The mean; not a number before the first value."""
        return self.total / self.weight if self.weight else math.nan

    @property
    def error(self) -> float:
        """The standard error of the mean; infinite before the second value."""
        looks = self.weight**2 / self.weight2 if self.weight2 else 0.0
        variance = max(0.0, self.total2 / self.weight - self.mean**2) if self.weight else 0.0
        return math.sqrt(variance / (looks - 1)) if looks > 1 else math.inf


@dataclass
class BatchControl:
    """The factor m of a training of so many first steps, and what decides it."""

    budget: float  # in steps of the first size
    theta: float
    largest: int
    factor: int = 1  # m
    reason: str = "first looks"  # why m is what it is
    progress: float = 0.0  # steps of the first size that were made
    looks: int = 0
    since_change: int = 0  # steps
    surges: int = 0  # looks running
    pauses: int = 0
    paused_until: float = 0.0
    highest_noise: float = 0.0
    noise: RunningMean = None  # type: ignore[assignment]  # V
    gradient2: RunningMean = None  # type: ignore[assignment]  # Γ
    agreement: RunningMean = None  # type: ignore[assignment]  # C

    def __post_init__(self) -> None:
        for name in ("noise", "gradient2", "agreement"):
            held = getattr(self, name)  # a dictionary where the state was saved
            setattr(self, name, RunningMean(**held) if isinstance(held, dict) else held or RunningMean())

    def look(self, noise: float, gradient2: float, agreement: float) -> None:
        """Take V, Γ and C of a step; C is not a number where the step before was not looked at."""
        expected = self.gradient2.mean + self.noise.mean / self.factor
        surged = self.looks >= FEWEST_LOOKS and gradient2 + noise / self.factor > SURGE * max(expected, 0.0)
        self.surges = self.surges + 1 if surged else 0
        half_life = max(8.0, 64 / self.factor, MEMORY * self.looks)
        self.noise.add(noise, half_life)
        self.gradient2.add(gradient2, half_life)
        if math.isfinite(agreement):
            self.agreement.add(agreement, half_life)
        self.looks += 1
        if self.looks >= FEWEST_LOOKS:
            self.highest_noise = max(self.highest_noise, self.noise.mean)

    def advance(self, steps: float) -> int:
        """Count a step worth so many of the first size, and return m for the next."""
        self.progress += steps
        self.since_change += 1
        before = self.factor
        self.reason = self._decide()
        if self.factor != before:
            self.since_change = self.surges = 0
        return self.factor

    @property
    def critical(self) -> float:
        """B = V/Γ, in batches of the first size; infinite where Γ is not above 0."""
        V, gradient2 = self.noise.mean, self.gradient2.mean
        return V / gradient2 if gradient2 > 0 else math.nan if math.isnan(V) else math.inf

    @property
    def critical_interval(self) -> tuple[float, float]:
        """B with Γ two standard errors higher and lower."""
        V, gradient2, error = self.noise.mean, self.gradient2.mean, 2 * self.gradient2.error
        if math.isnan(V):
            return 0.0, math.inf
        low, high = (V / least if least > 0 else math.inf for least in (gradient2 + error, gradient2 - error))
        return low, high

    @property
    def persistence(self) -> float:
        """ρ = C/Γ; 0 where Γ is not above 0."""
        return self.agreement.mean / self.gradient2.mean if self.gradient2.mean > 0 else 0.0

    def _decide(self) -> str:
        if self.surges >= RUNNING and self.factor > 1:
            self.factor //= 2
            self.paused_until = self.progress + PAUSE * 2**self.pauses * self.budget
            self.pauses += 1
            return "back after a surge"
        if 2 * self.theta * self.critical_interval[1] < self.factor > 1 and self.since_change >= FEWEST_STEPS:
            self.factor //= 2
            return "back, too little noise"
        if self.looks < FEWEST_LOOKS or self.progress < FIRST_SHARE * self.budget:
            return "first looks"
        if self.factor >= self.largest:
            return "largest"
        if self.progress < self.paused_until:
            return "pause after a surge"
        if self.noise.mean < FADED * self.highest_noise:
            return "noise fades"
        if self.theta * self.critical_interval[0] < 2 * self.factor:
            return "too little noise"
        if not self.persistence >= PERSISTENT:
            return "steps disagree"
        if self.since_change < FEWEST_STEPS:
            return "just changed"
        if self.progress % (2 * self.factor):
            return "one step more"  # so that steps of 2m begin at multiples of 2m, where trainers count them
        self.factor *= 2
        return "grown"
