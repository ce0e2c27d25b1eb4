"""The theorem's own schedule at a ladder of horizons, many seeds each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gladstorm.methods import Method
from gladstorm.oracles import BlumGladyshev, Oracle
from gladstorm.record import Record
from gladstorm.simulate import run
from gladstorm.theory import REGIMES, Plan, Statement
from gladstorm.verification.instances import INSTANCES, Instance, Wrapper

RECORDS = 100  # of this the compiled program's shape depends: one value for all runs
FULLY_RECORDED = 2 * RECORDS + 1  # the longest horizon of which every iterate is recorded
Builder = Callable[[Statement, int], Method]


def planned(statement: Statement, T: int) -> Method:
    """The method as the statement prescribes it."""
    return Plan(statement, T).method()


@dataclass(frozen=True)
class Settings:
    """How much is run, and what: a broken method or oracle can be put in the place of the right ones, and is found."""

    horizons: tuple[int, ...]
    fit_from: int  # slopes are fitted from this horizon on
    seeds: int  # of each run on the ladder
    blocks: int  # times that many seeds for the exact identities
    noise_horizons: tuple[int, ...]  # of the noise exponents
    noise_blocks: int  # times that many seeds for them
    counterexample: int  # the horizon of the problem on which the printed bounds are false
    studies: bool = False  # whether hard instances, inertia and robustness are measured as well
    seed: int = 0  # the first seed
    method: Builder = planned
    wrapper: Wrapper = BlumGladyshev
    instances: tuple[Instance, ...] = INSTANCES

    def simulated(self, oracle: Oracle, method: Method, T: int, *, blocks: int = 1) -> Record:
        """T iterates of every seed of so many blocks. Blocks have one shape: more seeds do not recompile."""
        firsts = range(self.seed, self.seed + blocks * self.seeds, self.seeds)
        return Record.joined(
            [
                run(oracle, method, steps=T - 1, seeds=range(n, n + self.seeds), records=RECORDS, progress=False)
                for n in firsts
            ]
        )


QUICK = Settings(
    (FULLY_RECORDED, 1000, 10_000),
    fit_from=1000,
    seeds=64,
    blocks=16,
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
    counterexample=3_000_000,
    studies=True,
)


@dataclass(frozen=True)
class Case:
    """One regime on one instance."""

    method: str
    smoothness: str
    noise: str
    instance: Instance

    @property
    def regime(self) -> str:
        """As `--regime` names it.

        >>> Case("nsgdm", "smooth", "bg0", INSTANCES[0]).regime
        'nsgdm/smooth/bg0'
        """
        return f"{self.method}/{self.smoothness}/{self.noise}"

    @property
    def statement(self) -> Statement:
        """What the paper says about it."""
        return self.instance.statement(self.method, self.noise)

    def ladder(self, settings: Settings) -> Ladder:
        """Run it at every horizon."""
        statement = self.statement
        oracle = self.instance.oracle(self.method, self.noise, settings.wrapper)
        records = {T: settings.simulated(oracle, settings.method(statement, T), T) for T in settings.horizons}
        return Ladder(self, statement, oracle, records)


@dataclass(frozen=True, eq=False)
class Ladder:
    """A case, run."""

    case: Case
    statement: Statement
    oracle: Oracle
    records: dict[int, Record]  # by horizon


def cases(regimes: tuple[str, ...] = (), instances: tuple[Instance, ...] = INSTANCES) -> Iterator[Case]:
    """Every regime whose name contains one of the words asked for (all if none is), on each instance of its class.

    >>> len(list(cases())), len({case.regime for case in cases()})
    (36, 18)
    """
    every = [
        Case(method, smoothness, noise, instance)
        for instance in instances
        for method, smoothness, noise in REGIMES
        if instance.smoothness == smoothness
    ]
    for word in regimes:
        if not any(word in case.regime for case in every):
            known = ", ".join(sorted({case.regime for case in every}))
            raise ValueError(f"verify: --regime must be part of one of {known}; got {word!r}.")
    yield from (case for case in every if not regimes or any(word in case.regime for word in regimes))
