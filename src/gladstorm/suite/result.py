"""The results of a suite as dataclasses: `result.cases[0].rows["NSGDM"].relative.grad_norm.value`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from gladstorm.comparison.compared import Relative
from gladstorm.core.estimate import Estimate
from gladstorm.core.results import from_json, to_json
from gladstorm.core.rules import COUNT
from gladstorm.jobs.files import load_json, save_json

SUITE_FORMAT = "gladstorm suite 3"
Numbers = list[float | None]  # one for each seed; None where it is not finite


@dataclass(frozen=True)
class RowScores:
    """A row of a table on one case: what a method reports when the budget is spent."""

    score: float | None  # the geometric mean of ‖∇f‖ over seeds; None if a run diverged
    to_best: float | None  # divided by that of the best row
    tuned: dict[str, float | None]
    at_edge: list[str]  # tuned numbers that are the smallest or largest tried
    tuning_score: float | None
    steps: int
    diverged: int
    grad_norm: Numbers
    value: Numbers
    gap: Numbers | None
    relative: Relative
    reached: Numbers  # stochastic gradients after which the target is reached for good
    flags: list[str]


@dataclass(frozen=True)
class SuiteCase:
    """One problem at one budget."""

    problem: str
    budget: int
    target: float | None
    gradient_size: float | None
    rows: dict[str, RowScores]


@dataclass(frozen=True)
class SeedShare:
    """The share of paired seeds, of those on which two methods differ, on which the first did better."""

    better: int
    of: int
    low: float
    high: float


@dataclass(frozen=True)
class CaseAnswer:
    """Two rows on one case, and the verdict whether the first is better."""

    problem: str
    budget: int
    rows: tuple[str, str]
    diverged: tuple[int, int]
    relative: Estimate
    seeds: SeedShare
    verdict: str


@dataclass(frozen=True)
class Answer:
    """Whether to do something: the method that does, the one that does not, and the verdict of each case."""

    deed: str
    does: str
    does_not: str
    cases: list[CaseAnswer]
    clearest_for: CaseAnswer | None
    clearest_against: CaseAnswer | None


@dataclass(frozen=True)
class ProblemFacts:
    """The facts of a problem by which tables and answers are sorted."""

    about: str
    role: str
    natural: bool
    outside: str | None
    field: str
    dim: int
    far: bool
    even: bool
    f_inf: float | None
    step_sizes: tuple[float, float]


@dataclass(frozen=True)
class MethodRow:
    """A method by its text, and the power of its decay; None where it stays as it was given."""

    method: str
    text: str
    decay: float | None


@dataclass(frozen=True)
class SuiteSettings:
    """Settings of a suite: how much is run."""

    budgets: tuple[int, ...]  # of stochastic gradients, each a comparison of its own
    seeds: int  # reported
    tuning_seeds: int
    step_sizes: int  # tried
    problems: tuple[str, ...]

    def check(self) -> None:
        """Raise a ValueError unless every number is a count."""
        for name in ("budgets", "seeds", "tuning_seeds", "step_sizes"):
            COUNT.require("suite", name, getattr(self, name))


@dataclass(frozen=True)
class SuiteConfig(SuiteSettings):
    """How much was run, what was to be reached, the row that others are measured by, and versions."""

    target: float
    reference: str
    versions: dict[str, Any]


@dataclass(frozen=True)
class SuiteResult:
    """All that a suite found."""

    config: SuiteConfig
    methods: dict[str, MethodRow]
    problems: dict[str, ProblemFacts]
    cases: list[SuiteCase]
    answers: list[Answer] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write the result as JSON, whole or not at all."""
        save_json(path, SUITE_FORMAT, to_json(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote; a ValueError names what is damaged, missing or of another format."""
        content = load_json("suite", path, SUITE_FORMAT)
        return from_json(cls, {name: content[name] for name in content if name != "format"})
