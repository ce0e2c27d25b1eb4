"""When a training may take larger batches: as soon as its noise is large beside its gradient, and steps still agree.

Let m be the factor by which batches have grown, V the variance of the gradient of a batch of the first size, Γ the
squared gradient without the noise's share, and C the inner product of the gradients of consecutive steps. Their running
means give the critical batch B = V/Γ in batches of the first size, and the persistence ρ = C/Γ: steps that agree can be
joined, steps that undo each other cannot. **m doubles while θB_low ≥ 2m and ρ ≥ 0.4**, with B_low = V/(Γ + 2 s.e.).
Where noise falls faster than the gradient, m halves while m > 2θB_high, with B_high = V/(Γ - 2 s.e.).

As in `core.equations`, numbers may be arrays of the library `xp`: what decides for torch decides in JAX and in the
simulator. Nothing is changed in place.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gladstorm.core.equations import Floats
from gladstorm.core.rules import COUNT

PACES = {"safe": 0.5, "fast": 2.0}  # θ
PERSISTENT = 0.4  # the least ρ at which steps are joined
FIRST_SHARE = 0.02  # of the budget, before which nothing grows
FEWEST_LOOKS, FEWEST_STEPS = 16, 8  # before m grows: looks in all, and steps since m changed
MEMORY = 0.1  # of what was seen: the half-life of a mean
FADED = 0.25  # of its highest mean: where the noise has fallen so far, a loss goes to 0, and small batches are needed
SURGE, RUNNING = 4.0, 2  # so many times the expected ‖ḡ‖², on so many looks: the batch was too large
PAUSE = 0.05  # of the budget, in which nothing grows after a surge; the next pause is twice as long


LONG = 2000  # steps for each step between two looks: a long training can afford to look less often
RAREST = 8  # steps from look to look
REASONS = (  # why m is what it is: the first that holds
    "back after a surge",
    "back, too little noise",
    "first looks",
    "largest",
    "pause after a surge",
    "noise fades",
    "too little noise",
    "steps disagree",
    "just changed",
    "one step more",  # so that steps of 2m begin at multiples of 2m, where trainers count them
    "grown",
)


class RunningMean(NamedTuple):
    """A mean that forgets, and its standard error."""

    weight: Any = 0.0
    weight2: Any = 0.0  # Σ of squared weights
    total: Any = 0.0
    total2: Any = 0.0  # Σ of weighted squares

    def add(self, value: Any, half_life: Any) -> RunningMean:
        """Take the next value; those before keep half of their weight after so many."""
        keep = 0.5 ** (1 / half_life)
        weights = keep * self.weight + 1, keep**2 * self.weight2 + 1
        return RunningMean(*weights, keep * self.total + value, keep * self.total2 + value**2)

    def mean(self, xp: Any = Floats) -> Any:
        """The mean; not a number before the first value."""
        return _over(self.total, self.weight, math.nan, xp)

    def error(self, xp: Any = Floats) -> Any:
        """The standard error of the mean; infinite before the second value."""
        looks = _over(self.weight**2, self.weight2, 0.0, xp)
        mean, mean2 = (_over(total, self.weight, 0.0, xp) for total in (self.total, self.total2))
        error = xp.sqrt(xp.maximum(0.0, mean2 - mean**2) / xp.where(looks > 1, looks - 1, 1.0))
        return xp.where(looks > 1, error, math.inf)


class BatchControl(NamedTuple):
    """The factor m of a training of so many first steps, and what decides it."""

    budget: Any  # in steps of the first size
    theta: Any
    largest: Any
    factor: Any = 1  # m
    reason: Any = REASONS.index("first looks")  # why m is what it is
    progress: Any = 0  # steps of the first size that were made
    looks: Any = 0
    since_change: Any = 0  # steps
    surges: Any = 0  # looks running
    pauses: Any = 0
    paused_until: Any = 0.0
    highest_noise: Any = 0.0
    noise: RunningMean = RunningMean()  # V
    gradient2: RunningMean = RunningMean()  # Γ
    agreement: RunningMean = RunningMean()  # C

    def look(self, noise: Any, gradient2: Any, agreement: Any, xp: Any = Floats) -> BatchControl:
        """Take V, Γ and C of a step; C is not a number where the step before was not looked at."""
        expected = self.gradient2.mean(xp) + self.noise.mean(xp) / self.factor
        size = gradient2 + noise / self.factor
        surged = (self.looks >= FEWEST_LOOKS) & (size > SURGE * xp.maximum(expected, 0.0))
        half_life = xp.maximum(xp.maximum(8.0, 64 / self.factor), MEMORY * self.looks)
        V, looks, agrees = self.noise.add(noise, half_life), self.looks + 1, xp.isfinite(agreement)
        added = self.agreement.add(xp.where(agrees, agreement, 0.0), half_life)
        highest = xp.where(looks >= FEWEST_LOOKS, xp.maximum(self.highest_noise, V.mean(xp)), self.highest_noise)
        return self._replace(
            surges=xp.where(surged, self.surges + 1, 0),
            noise=V,
            gradient2=self.gradient2.add(gradient2, half_life),
            agreement=RunningMean(*(xp.where(agrees, *pair) for pair in zip(added, self.agreement, strict=True))),
            looks=looks,
            highest_noise=highest,
        )

    def advance(self, steps: Any, xp: Any = Floats) -> BatchControl:
        """Count a step worth so many of the first size, and decide m for the next."""
        m, progress, since_change = self.factor, self.progress + steps, self.since_change + 1
        low, high = self.critical_interval(xp)
        conditions = (
            (self.surges >= RUNNING) & (m > 1),
            (2 * self.theta * high < m) & (m > 1) & (since_change >= FEWEST_STEPS),
            (self.looks < FEWEST_LOOKS) | (progress < FIRST_SHARE * self.budget),
            m >= self.largest,
            progress < self.paused_until,
            self.noise.mean(xp) < FADED * self.highest_noise,
            self.theta * low < 2 * m,
            xp.logical_not(self.persistence(xp) >= PERSISTENT),  # not a number is no agreement
            since_change < FEWEST_STEPS,
            progress % (2 * m) != 0,
            m > 0,
        )
        reason = xp.argmax(xp.asarray(conditions))
        surged, back, grown = reason == 0, reason <= 1, reason == len(conditions) - 1
        return self._replace(
            progress=progress,
            reason=reason,
            factor=xp.where(back, m // 2, xp.where(grown, 2 * m, m)),
            since_change=xp.where(back | grown, 0, since_change),
            surges=xp.where(back | grown, 0, self.surges),
            paused_until=xp.where(surged, progress + PAUSE * 2.0**self.pauses * self.budget, self.paused_until),
            pauses=xp.where(surged, self.pauses + 1, self.pauses),
        )

    def critical(self, xp: Any = Floats) -> Any:
        """B = V/Γ, in batches of the first size; infinite where Γ is not above 0."""
        return self._noise_over(self.gradient2.mean(xp), math.nan, xp)

    def critical_interval(self, xp: Any = Floats) -> tuple[Any, Any]:
        """B with Γ two standard errors higher and lower."""
        gradient2, error = self.gradient2.mean(xp), 2 * self.gradient2.error(xp)
        low = self._noise_over(gradient2 + error, 0.0, xp)
        return low, self._noise_over(gradient2 - error, math.inf, xp)

    def persistence(self, xp: Any = Floats) -> Any:
        """ρ = C/Γ; 0 where Γ is not above 0."""
        gradient2 = self.gradient2.mean(xp)
        return xp.where(gradient2 > 0, self.agreement.mean(xp) / xp.where(gradient2 > 0, gradient2, 1.0), 0.0)

    def usable(self, xp: Any = Floats) -> Any:
        """B in batches of the present size, for the optimizer's rule; infinite where it is not known."""
        critical = self.critical(xp) / self.factor
        return xp.where((critical > 0) & xp.isfinite(critical), critical, math.inf)

    def reading(self, first: int, steps: int, lr_factor: float) -> dict[str, Any]:
        """Numbers for a dashboard: batch and critical batch in samples, and why the batch is what it is.

        Args:
            first: Samples of a step of the first size.
            steps: How many steps were made.
            lr_factor: What growth has multiplied the learning rate by.
        """
        low, high = self.critical_interval()
        return {
            "batch/size": first * self.factor,
            "batch/critical": first * self.critical(),
            "batch/critical_low": first * low,
            "batch/critical_high": first * high,
            "batch/persistence": self.persistence(),
            "batch/lr_factor": lr_factor,
            "batch/reason": REASONS[self.reason],
            "batch/steps_saved": self.progress - steps,
        }

    def _noise_over(self, gradient2: Any, unknown: float, xp: Any) -> Any:
        ratio = _over(self.noise.total, self.noise.weight, 0.0, xp) / xp.where(gradient2 > 0, gradient2, 1.0)
        return xp.where(self.noise.weight == 0, unknown, xp.where(gradient2 > 0, ratio, math.inf))


def _over(this: Any, other: Any, empty: float, xp: Any) -> Any:
    """A quotient, or what stands for it where nothing is divided by."""
    return xp.where(other == 0, empty, this / xp.where(other == 0, 1.0, other))


def begin(owner: str, budget: float, pace: str, largest: int, *, sgd: bool) -> tuple[BatchControl, int]:
    """A training's control, and of how many steps two running are looked at.

    Args:
        owner: Whose arguments they are.
        budget: In steps of the first size.
        pace, largest: θ by its name, and the largest m.
        sgd: Whether the optimizer is plain SGD.

    Raises:
        ValueError: If an argument breaks its rule.
    """
    if pace not in PACES or (pace == "fast" and sgd):
        words = "'safe' for SGD, which diverges with 'fast'" if pace in PACES else "'safe' or 'fast'"
        raise ValueError(f"{owner}: pace must be {words}; got pace={pace!r}.")
    largest = COUNT.whole(owner, "largest", largest)
    if largest & (largest - 1):
        raise ValueError(f"{owner}: largest must be a power of two; got largest={largest}.")
    return BatchControl(budget, PACES[pace], largest), min(RAREST, 1 + int(budget / LONG))
