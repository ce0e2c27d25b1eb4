"""Problems whose constants are known in closed form, two for each class of smoothness: one convex, one not.

Each is started where the schedule can get it home: at half of what γ T allows at the horizon `ARRIVES_AT`, and not
farther than `reach`; γ0 is such that it need not be. A run that stays on its first slope shows the rate of nothing, and
one whose steps are as long as the problem is wide shows a rate only at horizons we cannot run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gladstorm import theory
from gladstorm.objectives import Cauchy, DoubleWell
from gladstorm.oracles import BlumGladyshev, Oracle
from gladstorm.theory import Statement
from gladstorm.verification.one_of import ON_A_LINE, ON_A_PLANE, Family, OneOf, cubic, parabola, wide_cosh

NOISE: Final = {"bg0": (0.5, 0.25), "bounded": (0.0, 0.25), "deterministic": (0.0, 0.0)}  # B, G
ARRIVES_AT: Final = 1000

Wrapper = Callable[[Any, float, float], Any]  # an objective, B and G to an oracle


@dataclass(frozen=True)
class Instance:
    """A function with one free number, the distance from the start to the nearest minimiser."""

    name: str
    smoothness: str
    convex: bool
    family: Family
    dim: int
    reach: float
    minimisers: float = 0.0  # their distance from the origin
    alpha: float | None = None  # a weaker class than the objective declares
    loudness: float = 1.0  # of the noise: where gradients are small, the usual one would be all there is

    def at_distance(self, distance: float) -> OneOf:
        """Started that far from the nearest minimiser, on the origin's side of it if there is one."""
        start = np.full(self.dim, abs(self.minimisers - distance) / np.sqrt(self.dim))
        return OneOf.chosen(self.family, ON_A_LINE if self.dim == 1 else ON_A_PLANE, start)

    def noise_of(self, noise: str) -> tuple[float, float]:
        """B and G."""
        B, G = NOISE[noise]
        return self.loudness * B, self.loudness * G

    def statement(self, method: str, noise: str, *, distance: float | None = None) -> Statement:
        """What the paper says about a method here, at γ0 = 1 or less: as much as it admits, as long as f is wide."""
        far = self.distance(method, noise) if distance is None else distance
        oracle = BlumGladyshev(self.at_distance(far), *self.noise_of(noise))
        free = theory.for_oracle(oracle, method, alpha=self.alpha, gamma0=1.0)
        wide = 2 * self.reach / (free.schedule(ARRIVES_AT).gamma * ARRIVES_AT)
        gamma0 = min(1.0, wide, free.largest_gamma0())
        return theory.for_oracle(oracle, method, alpha=self.alpha, gamma0=gamma0)

    def distance(self, method: str, noise: str) -> float:
        """From the start to the nearest minimiser. γ0 does not depend on it."""
        schedule = self.statement(method, noise, distance=self.reach).schedule(ARRIVES_AT)
        return min(self.reach, schedule.gamma * ARRIVES_AT / 2)

    def oracle(self, method: str, noise: str, wrapper: Wrapper = BlumGladyshev) -> Oracle:
        """The started problem under noise."""
        made: Oracle = wrapper(self.at_distance(self.distance(method, noise)), *self.noise_of(noise))
        return made


INSTANCES: Final = (
    Instance("‖x‖², d = 1", "smooth", convex=True, family=parabola, dim=1, reach=3.0),
    Instance("Σ log(1 + x²), d = 2", "smooth", convex=False, family=Cauchy, dim=2, reach=3.0),
    Instance("‖x‖³, d = 2", "sublinear", convex=True, family=cubic, dim=2, reach=1.5),
    Instance(
        "double well, d = 1",
        "sublinear",
        convex=False,
        family=DoubleWell,
        dim=1,
        reach=0.6,  # inside the concave part, but not on its top, where the first sample decides which side it is
        minimisers=1.0,
        loudness=0.2,
    ),
    Instance("cosh, d = 2", "linear", convex=True, family=wide_cosh, dim=2, reach=6.0),
    Instance(
        "double well, d = 2",
        "linear",
        convex=False,
        family=DoubleWell,
        dim=2,
        reach=0.9,
        minimisers=1.0,
        loudness=0.2,
        alpha=1.0,
    ),
)
