"""Results of the study, as results.json has them; numbers of runs are by budget, None where one is not finite."""

from dataclasses import dataclass, field

Levels = dict[int, list[float | None]]  # of every run, by budget
Bias = dict[str, dict[int, tuple[float, float]]]  # of standard deviations, by optimizer and dimension, in per cent
Errors = dict[str, float]  # of means and of log standard deviations, where there are reference draws


@dataclass(frozen=True)
class PosteriorSettings:
    """Extent of what was run, and with what."""

    budgets: list[int]  # gradients
    seeds: int  # of rivals
    runs: int  # of ours
    first_seed: int
    source: str
    versions: dict[str, str]
    models_left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class BestGaussian:
    """The best fit of a family that anybody found."""

    elbo: float
    khat: float | None
    errors: Errors | None


@dataclass(frozen=True)
class JudgedFit:
    """A fit of four starts: its gap to the best in nats, and what it says about itself."""

    gap: float | None
    khat: float | None
    warnings: list[str]
    errors: Errors | None


@dataclass(frozen=True)
class PosteriorCase:
    """A model and a family: gaps to the best of every run, in nats."""

    model: str
    set: str
    family: str
    dim: int
    best: BestGaussian
    rivals: dict[str, Levels]
    ours: Levels
    evaluations: dict[int, int]
    fits: dict[int, list[JudgedFit]]


@dataclass(frozen=True)
class ChainCost:
    """Gradients that a chain of NUTS takes, and the errors of its draws."""

    gradients: int
    errors: Errors | None


@dataclass(frozen=True)
class SecondValidation:
    """Cases that were registered after the first validation."""

    settings: PosteriorSettings
    cases: list[PosteriorCase]


@dataclass(frozen=True)
class PosteriorResults:
    """Everything that the study measures."""

    settings: PosteriorSettings
    cases: list[PosteriorCase]
    NUTS: dict[str, ChainCost]
    time: dict[str, dict[str, float]]  # seconds a step, by model and program
    minibatches: dict[str, dict[str, list[float | None]]]  # gaps by model and setting
    second: SecondValidation | None = None
    bias: Bias = field(default_factory=dict)
