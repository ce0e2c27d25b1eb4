"""Upper and lower bound on one problem: an L0-smooth runway under noise of every growth, and blocks of runways.

Theorem 6, for every growth a of the noise, is about the gated runway: f is L0-smooth, and noise of variance B² (R/2)^a
is felt beyond R/2 only. r of them, side by side, are Theorem 10's problem for steps in max_i ‖x_i‖, and r noisy runways
without L1 the one of samples that are mean-square smooth.

A search tries to violate what certifies the constants. Then a method runs, four times as far as the runway is long, for
as many stochastic gradients as are not enough: E‖∇f(x̂)‖_* has to be above ε and below the bound S1 or S2, which hold
for every γ and η.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from evidence.verification import adversary
from evidence.verification.cases import Case
from evidence.verification.checks import AtMost, Between, Check, PartResult, Parts, rounded
from evidence.verification.hard_instances import Blocks, BlocksOracle, ChainOracle, GatedRunway
from evidence.verification.settings import VerificationSettings
from gladstorm.core.statistics import Mean, mean_of
from gladstorm.methods import nsgdm, nstorm
from gladstorm.methods.norms import Euclid, Rows
from gladstorm.problems.objectives import NoisyRunway
from gladstorm.problems.oracles import NoisyRunwayOracle, Oracle
from gladstorm.theory import Norm, Problem
from gladstorm.theory.every_setting import kind_of

LARGEST_DERIVATIVE: Final = 8.964  # of a hidden coordinate, in units of ε
LONGEST: Final = 20_000  # stochastic gradients of a run
LAPS: Final = 4  # γT in units of R
ETA: Final = 0.05
MEANING: Final = {
    "both sides": "On an L0-smooth runway under noise of growth a, and on blocks of runways for steps in max ‖x_i‖, a "
    "run to the chain with as many stochastic gradients as are not enough has E‖∇f(x̂)‖_* above ε and at most S1 or "
    "S2, which hold for every γ and η. A search for points that violate the class, the noise, ‖∇f‖_* ≥ 2ε or the gap "
    "finds none."
}


@dataclass(frozen=True)
class BlockProblem:
    """r blocks of a runway, as one problem with constants L, B, Δ = 1 and ε."""

    method: str  # nsgdm, where f is smooth; nstorm, where samples are
    growth: float  # a
    rows: int  # r
    L: float
    B: float
    eps: float
    gap: float = 1.0

    @property
    def name(self) -> str:
        """The runways that it is made of, and a."""
        kind = "noisy runway" if self.of_samples else "gated runway"
        return f"{kind}, a = {self.growth:g}" if self.rows == 1 else f"{self.rows} {kind}s, a = {self.growth:g}"

    @property
    def of_samples(self) -> bool:
        """Whether samples are smooth in mean square."""
        return self.method == "nstorm"

    @property
    def level(self) -> float:
        """L of a block."""
        return self.L / (math.sqrt(self.rows) if self.of_samples else self.rows)

    def oracle(self) -> Oracle:
        """The blocks under their noise."""
        r, B = self.rows, self.B / math.sqrt(self.rows)
        gap, eps = self.gap / r, self.eps / r
        single: Any
        if self.of_samples:
            f: Any = NoisyRunway.from_eps(eps, 1.0, self.level, 0.0, B, gap, growth=self.growth)
            single = NoisyRunwayOracle(f)
        else:
            f = GatedRunway.of(self.level, gap, eps)
            sigma2 = B**2 * (float(f.runway) / 2) ** self.growth
            single = ChainOracle(f, (LARGEST_DERIVATIVE * eps) ** 2 / sigma2)
        return BlocksOracle(Blocks(np.zeros(r * np.size(f.start)), f), single)

    @property
    def needed(self) -> int:
        """T/(2p): with so few evaluations more than half of the blocks are unfinished, in mean."""
        single: Any = self.oracle().single  # type: ignore[attr-defined]
        return int((np.size(single.objective.start) - 1) / (2 * float(single.p)))


def smooth(growth: float, rows: int = 1) -> BlockProblem:
    """A problem of which only f is smooth: 6 links, the same noise in the middle of the runway for every a."""
    eps = 2e-3
    return BlockProblem("nsgdm", growth, rows, 1.0, 1.5 * (16 * eps) ** (growth / 2), eps)


def of_samples(growth: float, rows: int = 1) -> BlockProblem:
    """A problem of which samples are smooth: chains of 3 links."""
    eps = 3e-4
    return BlockProblem("nstorm", growth, rows, 1.0, 0.003 * (16 * eps) ** (growth / 2 - 1), eps)


PROBLEMS: Final = (
    *(smooth(a) for a in (0.0, 1.0, 3.0)),
    *(smooth(a, 3) for a in (1.0, 3.0)),
    of_samples(1.0),
    of_samples(1.0, 3),
    of_samples(2.0, 3),
)


def parts(_selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """Every problem."""
    for problem in PROBLEMS:
        yield f"both sides/{problem.name}, {problem.method}", partial(measure, problem, settings)


def measure(problem: BlockProblem, settings: VerificationSettings) -> PartResult:
    """Check the constants at the worst point that is found, and a run against both sides."""
    oracle: Any = problem.oracle()
    calls, single = (2 if problem.of_samples else 1), oracle.single.objective
    T = min(problem.needed, LONGEST) // calls
    gamma = LAPS * float(single.runway) / T
    norm = Norm.from_text(f"layers({', '.join(['euclid'] * problem.rows)})")
    level: dict[str, Any] = {"L" if problem.of_samples else "L0": problem.L}
    given: dict[str, Any] = {"B": problem.B, "gap": problem.gap, "growth": problem.growth, "norm": norm}
    about = Problem(alpha=0.0, G=0.0, **level, **given)
    bound = kind_of(problem.method, about)(about, gamma, ETA, 0.0, T)
    step = Euclid() if problem.rows == 1 else Rows()
    made = {"nsgdm": nsgdm, "nstorm": nstorm}[problem.method](gamma, ETA, norm=step)
    record = settings.apart(PROBLEMS.index(problem) + 1).simulate(oracle, made, T)
    measured = mean_of(record.mean_stationarity[0, :, -1])
    claim = Between(problem.eps, bound.bound)
    checks = [*searched(problem, oracle), Check("both sides", problem.name, "both sides", T, measured, claim)]
    numbers = {"eps": problem.eps, "samples": T * calls, "measured": measured.value, "bound": claim.true}
    ends = record.last[0].reshape(-1, single.start.size)[:, 1:] / float(single.scale)
    links = np.cumprod(np.abs(ends) > 1, axis=1).sum(axis=1).mean()
    numbers |= {"links": float(links), "length": single.links}
    described = {"instance": problem.name, "method": problem.method.upper(), "source": bound.source}
    return PartResult(checks, {"both sides": [described | {k: rounded(v) for k, v in numbers.items()}]})


def searched(problem: BlockProblem, oracle: Any) -> Iterator[Check]:
    """Every claim at the worst point that a search finds, relative to what the constants allow."""
    claims: dict[str, Callable[[Any, Any], Any]] = {
        "class": class_of(problem),
        "noise": noise_of(problem),
        "gradient": gradient_of(problem),
        "gap": gap_of(problem),
    }
    for kind, claim in claims.items():
        largest = Mean(adversary.worst(claim, oracle), 0.0, adversary.CLIMBERS)
        yield Check("both sides", problem.name, f"hard problem {kind}", 0, largest, AtMost(1.0))


def in_blocks(oracle: Any, x: Any) -> Any:
    """Points of all blocks."""
    return oracle.objective.rows(x)


def class_of(problem: BlockProblem) -> Callable[[Any, Any], Any]:
    """Σ_i ‖∇²f_i‖ relative to L, from max_i ‖x_i‖ to its dual; or Σ_i ‖E(∇²f_i(x_i; ξ))²‖ to L²."""

    def of(oracle: Any, x: Any) -> Any:
        single = oracle.single
        if problem.of_samples:
            shares = jax.vmap(lambda y: adversary.close_pairs(single, y))(in_blocks(oracle, x))
            return jnp.sum(shares) * (problem.level / problem.L) ** 2
        bent = jax.vmap(lambda y: jnp.linalg.norm(jax.jacfwd(single.objective.grad)(y), 2))(in_blocks(oracle, x))
        return jnp.sum(bent) / problem.L

    return of


def noise_of(problem: BlockProblem) -> Callable[[Any, Any], Any]:
    """E‖n‖² relative to B² max_i ‖x_i‖^a."""

    def of(oracle: Any, x: Any) -> Any:
        far = jnp.max(jnp.linalg.norm(in_blocks(oracle, x), axis=1))
        return oracle.variance(oracle.at(x)) / (problem.B**2 * far**problem.growth)

    return of


def gradient_of(problem: BlockProblem) -> Callable[[Any, Any], Any]:
    """2ε times the share of unfinished blocks, relative to Σ_i ‖∇f_i‖."""

    def of(oracle: Any, x: Any) -> Any:
        f, blocks = oracle.single.objective, in_blocks(oracle, x)
        last = jax.vmap(lambda y: f.coordinates(y)[-1])(blocks)
        unfinished = jnp.mean(jnp.where((jnp.abs(last) < 1) | (blocks[:, 0] <= f.runway), 1.0, 0.0))
        return 2 * problem.eps * unfinished / jnp.sum(jnp.linalg.norm(jax.vmap(f.grad)(blocks), axis=1))

    return of


def gap_of(problem: BlockProblem) -> Callable[[Any, Any], Any]:
    """f(0) − f relative to Δ."""

    def of(oracle: Any, x: Any) -> Any:
        f = oracle.objective
        return (f.value(jnp.zeros_like(x)) - f.value(x)) / problem.gap

    return of
