"""Results of the study, as results.json has them; numbers of runs are by budget, None where one is not finite."""

from dataclasses import dataclass, field

Levels = dict[int, list[float | None]]  # of every run, by budget
Bias = dict[str, dict[int, tuple[float, float]]]  # of standard deviations, by optimizer and dimension, in per cent
Errors = dict[str, float]  # of means and of log standard deviations, where there are reference draws
Moments = dict[str, list[list[float | None]]]  # means and standard deviations of the numbers of every site


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
class CheckedFit:
    """A fit of four starts as a user has it: its gap, what it says of itself, and its errors against NUTS."""

    gap: float | None
    khat: float | None
    efficiency: float
    near: bool  # by its words about k-hat and efficiency
    warnings: list[str]
    steady: bool  # of `check`
    drift: float | None  # the largest of `check`; 1 is worth a word
    behind: float | None  # nats by which the second start is below the first
    mean: float | None  # the largest error of a mean, in standard deviations of NUTS; None where NUTS is no reference
    sds: list[float | None]  # the smallest and the largest ratio of standard deviations; empty likewise


@dataclass(frozen=True)
class CheckedCase:
    """A model and a family of the third validation."""

    model: str
    family: str
    dim: int
    elbo: float  # the best that anybody found
    rivals: dict[str, Levels]
    ours: Levels  # of runs of one start
    steps: dict[int, int]  # of such a run, by its gradients
    fits: dict[int, list[CheckedFit]]


@dataclass(frozen=True)
class ReferenceChains:
    """Diagnostics of the chains that are a reference."""

    good: bool
    rhat: float | None
    ess: float | None
    attempts: int
    divergent: float


@dataclass(frozen=True)
class WayToPosterior:
    """Costs of one way to a posterior, in a process of its own, and errors of its draws, if there is a reference."""

    CPU: list[float]  # seconds, without imports: the first is cold, the second of other data in the same process
    wall: list[float]
    mean: float | None
    sds: list[float | None]
    leapfrogs: int | None = None
    ess: float | None = None
    khat: float | None = None
    efficiency: float | None = None
    elbo: float | None = None
    family: str | None = None


@dataclass(frozen=True)
class DrawErrors:
    """How far draws are from the reference, if there is one."""

    mean: float | None
    sds: list[float | None]


Ways = dict[str, dict[str, WayToPosterior]]  # by model and way


@dataclass(frozen=True)
class ThirdValidation:
    """Fits as a user makes them, on models that were registered when the method had changed."""

    settings: PosteriorSettings
    fits: int  # of four starts, for each case and budget
    cases: list[CheckedCase]
    references: dict[str, ReferenceChains]
    seconds: Ways
    leapfrogs: Ways
    flows: Ways
    resampled: dict[str, dict[str, DrawErrors]] = field(default_factory=dict)  # by model, of sample and resample


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
    third: ThirdValidation | None = None
