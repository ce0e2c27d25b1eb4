"""How much is verified, with which methods, oracles and instances; and the simulation all checks share."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from evidence.verification.instances import INSTANCES, Instance, Wrapper
from gladstorm.methods import Method, from_plan
from gladstorm.problems.objectives import NoisyRunway
from gladstorm.problems.oracles import BlumGladyshev, NoisyRunwayOracle, Oracle
from gladstorm.simulation.record import Record
from gladstorm.simulation.simulate import run
from gladstorm.theory import Plan, Statement

RECORDS = 100  # of this the compiled program's shape depends: one value for all runs
FULLY_RECORDED = 2 * RECORDS + 1  # the longest horizon of which every iterate is recorded
APART = 100_000  # seeds from one block that is set apart to the next
Builder = Callable[[Statement, int], Method]
HardProblem = Callable[..., NoisyRunwayOracle]
_PUT_IN = ("method", "wrapper", "hard_problem")
_NOT_NUMBERS = (*_PUT_IN, "instances")


def planned(statement: Statement, T: int) -> Method:
    """The method as the statement prescribes it."""
    return from_plan(Plan(statement, T))


def noisy_runway(**constants: float) -> NoisyRunwayOracle:
    """The problem of the lower bound, for the constants of `NoisyRunway.from_eps`."""
    return NoisyRunwayOracle(NoisyRunway.from_eps(**constants))


@dataclass(frozen=True)
class VerificationSettings:
    """How much is run, and what: a broken method or oracle can be put in the place of the right ones, and is found."""

    horizons: tuple[int, ...]
    fit_from: int  # slopes are fitted from this horizon on
    seeds: int  # of each run on the ladder
    blocks: int  # times that many seeds for the exact identities
    noise_horizons: tuple[int, ...]  # of the noise exponents
    noise_blocks: int  # times that many seeds for them
    counterexample: int  # the horizon of the problem on which the printed bounds are false
    studies: bool = False  # whether hard instances are measured as well
    seed: int = 0  # the first seed
    method: Builder = planned
    wrapper: Wrapper = BlumGladyshev
    hard_problem: HardProblem = noisy_runway
    instances: tuple[Instance, ...] = INSTANCES

    @property
    def identity(self) -> list[Any]:
        """Numbers that decide a part's result, JSON-ready; of the instances the part's name says which it is about."""
        put_in = {name: getattr(self, name).__qualname__ for name in _PUT_IN}
        numbers = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _NOT_NUMBERS}
        return [numbers, put_in]

    def apart(self, number: int) -> Self:
        """Settings with seeds that nothing else has."""
        return replace(self, seed=self.seed + number * APART)

    def simulate(self, oracle: Oracle, method: Method, T: int, *, blocks: int = 1) -> Record:
        """Run T iterates of every seed of so many blocks. Blocks have one shape: more seeds do not recompile."""
        firsts = range(self.seed, self.seed + blocks * self.seeds, self.seeds)
        return Record.joined(
            [
                run(oracle, method, steps=T - 1, seeds=range(n, n + self.seeds), records=RECORDS, progress=False)
                for n in firsts
            ]
        )


QUICK = VerificationSettings(
    (FULLY_RECORDED, 1000, 10_000),
    fit_from=1000,
    seeds=64,
    blocks=8,
    noise_horizons=(3000, 30_000),
    noise_blocks=8,
    counterexample=1_500_000,
)
FULL = replace(
    QUICK,
    horizons=(FULLY_RECORDED, 1000, 3000, 10_000, 30_000, 100_000),
    fit_from=3000,
    blocks=32,
    noise_horizons=(30_000, 100_000, 300_000, 1_000_000),
    noise_blocks=4,
    counterexample=3_000_000,
    studies=True,
)


@dataclass(frozen=True)
class Tuned:
    """Numbers that are tried of a method. Grids of a study have one size, and seeds for tuning are their own."""

    made: Callable[[Any, Any], Method]  # from arrays of γ and of the second number
    gammas: tuple[float, ...]
    seconds: tuple[float, ...]
    steps: int

    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """Every γ with every second number, γ by γ.

        >>> [each.tolist() for each in Tuned(print, (1.0, 2.0), (3.0, 4.0), 10).grid()]
        [[1.0, 1.0, 2.0, 2.0], [3.0, 4.0, 3.0, 4.0]]
        """
        gamma, second = np.meshgrid(self.gammas, self.seconds, indexing="ij")
        return gamma.ravel(), second.ravel()
