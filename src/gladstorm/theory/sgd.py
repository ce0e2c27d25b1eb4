"""Plain SGD on L-smooth f, in the Euclidean norm, for noise whose variance grows like r^a, a ≤ 2.

Steps are not normalized, so no run is sure to stay within γk of x⁰. Its distance is bounded in mean square instead,
which is enough up to a = 2 and not beyond. docs/proofs.md has the theorems S and H.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from gladstorm.theory.batches import BATCHES, mean_noise
from gladstorm.theory.every_setting import OwnSchedule
from gladstorm.theory.rules import HORIZON, POSITIVE, Exponent
from gladstorm.theory.search import lowest
from gladstorm.theory.statement import Prescription, Term

TOO_FAR = "at most 2: beyond, one rare sample may send plain SGD so far that no bound on E‖∇f‖ holds"
ROUNDS = 200  # of the fixed point, which takes about 20 at the best γ


@dataclass(frozen=True)
class PlainSgd(OwnSchedule):
    """SGD with the best γ: (E‖∇f(x̂)‖²)^½, and so E‖∇f(x̂)‖, from samples of the order L0 Δ (G² + B² (Δ/ε)^a)/ε⁴.

    With a batch of ⌈c σ(r)^q⌉ samples at the distance r, σ(r) = G + B r^(a/2), its steps are as many as without noise
    times 1 + 1/`excess`, and its samples the fewest of such a run times 1 + `excess`.
    """

    batch: str = "one"  #: one, sigma or sigma2: q = 0 with one sample, q = 1 or q = 2
    excess: float = 1.0  #: x > 0: how many samples are spent beyond the fewest, in units of them; for batches

    method = "sgd"
    classes: ClassVar[dict[str, str]] = {"smooth": "L0-smooth"}
    level = "L0"
    corrects_drift = False

    def __post_init__(self) -> None:
        p = self.problem
        if self.batch not in BATCHES:
            raise ValueError(f"sgd: batch must be one of {', '.join(BATCHES)}; got batch={self.batch!r}.")
        POSITIVE.require("sgd", "excess", self.excess)
        for name, plain, why in (
            ("alpha", p.alpha == 0, "0: no bound is known here for curvature that grows with the gradient"),
            ("norm", p.norm.euclidean, "euclid: its steps are not normalized"),
            ("decay", p.decay is None, "left out: no bound is known here with it"),
            ("growth", p.growth <= 2 or p.B == 0, TOO_FAR),
        ):
            if not plain:
                got = p.norm.name if name == "norm" else getattr(p, name)
                raise ValueError(f"sgd: {name} must be {why}; `nsgdm` and `nstorm` cover it; got {name}={got}.")
        POSITIVE.require("sgd", "L0", self.L0)

    @property
    def source(self) -> str:
        """The theorem, with the growth of the noise."""
        return f"{'S' if self.batch == 'one' else 'H'}: SGD, smooth; growth {self.problem.growth:g}"

    @property
    def rate(self) -> Exponent:
        """Power of 1/T in the bound: ½ where the batch or the problem takes the noise away, else 1/(4 + a)."""
        return 1 / 2 if self.noise == "deterministic" or self.batch != "one" else 1 / (4 + 2 * self.half_growth)

    @property
    def gamma_exponent(self) -> Exponent:
        """Power (2 + a)/(4 + a) of 1/T in γ; 0 where noise is taken away."""
        return 1 - 2 * self.rate

    eta_exponent = 0

    def run(self, T: int) -> tuple[float, float]:
        """γ and the bound on (E‖∇f(x̂)‖²)^½ for T steps."""
        HORIZON.require("sgd", "horizon", T)
        L, D, steps = self.L0, self.problem.gap, float(T)
        if self.noise == "deterministic":
            return 1 / L, math.sqrt(2 * L * D / steps)
        if self.batch != "one":
            return self.excess / (1 + self.excess) / L, math.sqrt(2 * L * D * (1 + 1 / self.excess) / steps)
        gamma = lowest(lambda gamma: self._bound(gamma, steps), 1e-250 / L, 1 / L)
        return gamma, self._bound(gamma, steps)

    def _bound(self, gamma: float, T: float) -> float:
        """Theorem S at the smallest v that its condition admits, a fixed point; infinite if it admits none."""
        L, D = self.L0, self.problem.gap
        left, v = 1 - L * gamma / 2, 0.0
        for _ in range(ROUNDS):
            reach = math.sqrt((1 + v) / left * gamma * T * D) + math.sqrt(2 * v * D / L)
            wanted = L * gamma * gamma * T * mean_noise(self.problem, reach, 2) / (2 * D)
            if wanted <= v * (1 + 1e-13):
                return math.sqrt((1 + v * (1 + 1e-12)) * D / (left * gamma * T))
            if wanted > 1e6:
                break
            v = wanted
        return math.inf

    def schedule(self, T: int) -> Prescription:
        """γ for T iterates; there is no momentum."""
        return Prescription(1.0, self.run(T)[0], 1, None)

    def settings(self, T: int) -> dict[str, Any]:
        """γ, and for a batch that grows its c, q, and the constants of the noise."""
        given: dict[str, Any] = {"gamma": self.run(T)[0]}
        if self.batch != "one" and self.noise != "deterministic":
            p = self.problem
            given["noise"] = {"c": self._factor(T), "q": BATCHES[self.batch], "B": p.B, "G": p.G, "growth": p.growth}
        return given

    def terms(self, T: int) -> tuple[Term, ...]:
        """One term: it is the root of a bound on the second moment."""
        bound = self.run(T)[1]
        return (Term("root of the second moment", bound * T ** float(self.rate), self.rate, bound),)

    def sfo(self, T: int) -> int:
        """The number of stochastic gradients, in mean if the batch grows."""
        if self.batch == "one" or self.noise == "deterministic":
            return int(T)
        mean = mean_noise(self.problem, self._reach(T), BATCHES[self.batch])
        return math.ceil(T * (1 + self._factor(T) * mean))

    def largest_batch(self, T: int) -> int:
        """The mean of the largest batch, at most."""
        if self.batch == "one" or self.noise == "deterministic":
            return 1
        p, far = self.problem, self._reach(T) + math.sqrt(2 * self.problem.gap / self.L0)
        return math.ceil(1 + self._factor(T) * math.pow(p.G + p.B * math.pow(far, p.half_growth), BATCHES[self.batch]))

    def tune_gamma0(self, T: int | None = None) -> PlainSgd:  # noqa: ARG002 - as the others'
        """Itself: γ is the best one for every T."""
        return self

    tune = tune_gamma0

    def _reach(self, T: int) -> float:
        """D* = 2Δ/ε + (2Δ/L)^½ of Theorem H."""
        return 2 * self.problem.gap / self.run(T)[1] + math.sqrt(2 * self.problem.gap / self.L0)

    def _factor(self, T: int) -> float:
        """c of the batch."""
        left = mean_noise(self.problem, self._reach(T), 2 - BATCHES[self.batch])
        return self.excess * left / self.run(T)[1] ** 2
