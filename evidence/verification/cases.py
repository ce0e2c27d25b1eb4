"""Every regime on every instance of its class, and a case run with the theorem's own schedule at several horizons."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from evidence.verification.instances import INSTANCES, Instance
from evidence.verification.settings import VerificationSettings
from gladstorm.problems.oracles import Oracle
from gladstorm.simulation.record import Record
from gladstorm.theory import REGIMES, Statement


@dataclass(frozen=True)
class Case:
    """One regime on one instance."""

    method: str
    smoothness: str
    noise: str
    instance: Instance

    @property
    def regime(self) -> str:
        """The regime as `--regime` names it.

        >>> Case("nsgdm", "smooth", "bg0", INSTANCES[0]).regime
        'nsgdm/smooth/bg0'
        """
        return f"{self.method}/{self.smoothness}/{self.noise}"

    @property
    def statement(self) -> Statement:
        """The paper's statement about the case."""
        return self.instance.statement(self.method, self.noise)


@dataclass(frozen=True, eq=False)
class Ladder:
    """A case with its runs at several horizons."""

    case: Case
    statement: Statement
    oracle: Oracle
    records: dict[int, Record]  # by horizon

    @classmethod
    def run(cls, case: Case, settings: VerificationSettings) -> Self:
        """The case at every horizon."""
        statement = case.statement
        oracle = case.instance.oracle(case.method, case.noise, settings.wrapper)
        records = {T: settings.simulate(oracle, settings.method(statement, T), T) for T in settings.horizons}
        return cls(case, statement, oracle, records)


def cases(regimes: tuple[str, ...] = (), instances: tuple[Instance, ...] = INSTANCES) -> Iterator[Case]:
    """Every regime whose name contains one of the words asked for (all if none is), on each instance of its class.

    >>> len(list(cases())), len({case.regime for case in cases()})
    (40, 18)
    """
    every = [
        Case(method, smoothness, noise, instance)
        for instance in instances
        for method, smoothness, noise in REGIMES
        if instance.smoothness == smoothness and noise in instance.noises
    ]
    for word in regimes:
        if not any(word in case.regime for case in every):
            listed = ", ".join(sorted({case.regime for case in every}))
            raise ValueError(f"verification: --regime must be part of one of {listed}; got {word!r}.")
    yield from (case for case in every if not regimes or any(word in case.regime for word in regimes))
