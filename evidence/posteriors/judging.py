"""The parts of the study, each kept when it is finished, and what comes of them: gaps, warnings, errors and costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evidence.posteriors import bias, confessed, confession, costs, ours, rivals, seconds
from evidence.posteriors.families import FULL_RANK, LARGEST, MEAN_FIELD
from evidence.posteriors.models import DEVELOPMENT, SECOND, VALIDATION
from evidence.posteriors.new_models import NEW
from evidence.posteriors.problems import MODELS, SMALL
from evidence.posteriors.results import (
    BestGaussian,
    Bias,
    ChainCost,
    CheckedCase,
    CheckedFit,
    DrawErrors,
    JudgedFit,
    Levels,
    Moments,
    PosteriorCase,
    PosteriorResults,
    PosteriorSettings,
    ReferenceChains,
    SecondValidation,
    ThirdValidation,
    Ways,
    WayToPosterior,
)
from evidence.results import Part, gathered, versions_of
from gladstorm.core.results import from_json
from gladstorm.core.statistics import significant
from gladstorm.jobs.provenance import source
from gladstorm.jobs.tasks import HERE, Executor, Store, Task
from gladstorm.variational import FullRank, MeanField
from gladstorm.variational.conclusion import updates
from gladstorm.variational.driver import BLOCKS, COMPARED
from gladstorm.variational.gaussians import SHARES, NewtonUpdate
from gladstorm.variational.programs import ROWS

PACKAGES = ("gladstorm", "numpyro", "jax", "optax", "numpy", "scipy")
TIMED = (
    "kilpisjarvi_mod-kilpisjarvi",
    "surgical_data-surgical_model",
    "seeds_data-seeds_centered_model",
    "mesquite-mesquite",
    "radon_mn-radon_hierarchical_intercept_noncentered",
)
EIGHT_SCHOOLS = "eight_schools-eight_schools_noncentered"
WELLS, PROPHET = "wells_data-wells_daae_c_model", "rstan_downloads-prophet"
COSTED = (EIGHT_SCHOOLS, "stays", WELLS, PROPHET, "guessing")
LEAPT = ("kilpisjarvi_mod-kilpisjarvi", "mesquite-mesquite", PROPHET, "outliers", "stays")
SETS = {"validation": VALIDATION, "second": SECOND}
Measure = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class PosteriorsSize:
    """Extent of the study: how much is run."""

    models: tuple[str, ...]
    budgets: list[int]
    seeds: int  # of rivals
    runs: int  # of ours
    largest: int  # dimension of a full-rank fit
    timed: tuple[str, ...]
    batches: int  # steps with minibatches; 0 for none
    fits: int = 0  # of four starts, in the third validation
    leapt: tuple[str, ...] = ()  # by NUTS with the matrix of a fit


FULL = PosteriorsSize(tuple(MODELS), [1000, 10_000], 5, 20, LARGEST, TIMED, 10_000)
QUICK = PosteriorsSize(tuple(SMALL), [20, 60], 2, 4, 0, (), 0)
AGAIN = PosteriorsSize(tuple(SECOND), [1000, 10_000], 3, 12, LARGEST, (), 0)
_ONE = ("made-regression",)
QUICK_THIRD = PosteriorsSize(_ONE, [20, 60], 2, 2, LARGEST, _ONE, 0, 1, _ONE)
THIRD = PosteriorsSize(tuple(NEW), [1000, 10_000], 5, 5, LARGEST, COSTED, 0, 4, LEAPT)


def require_known(models: Sequence[str]) -> None:
    """Refuse names of no model."""
    for name in models:
        if name not in MODELS | SECOND | NEW:
            raise ValueError(f"posteriors: --model must be one of {', '.join(MODELS | SECOND | NEW)}; got {name!r}.")


class Study:
    """The parts of the study on some models. Each is kept when it is finished."""

    def __init__(
        self, database: Path | None, size: PosteriorsSize, folder: Path, seed: int, executor: Executor = HERE
    ) -> None:
        self._database, self._size, self._kept, self._seed, self._executor = database, size, folder, seed, executor

    def run(self) -> PosteriorResults:
        """Everything but the bias and the second validation."""
        models = self._size.models
        checked = [name for name in models if name in VALIDATION]
        timed = [name for name in self._size.timed if name in models]
        return PosteriorResults(
            settings=self._settings([name for name in MODELS if name not in models]),
            cases=self._cases(rivals.measured),
            NUTS=from_json(dict[str, ChainCost], self._of_models("NUTS", costs.nuts, checked)),
            time=self._of_models("time", costs.timed, timed),
            minibatches=self.minibatches(),
        )

    def minibatches(self) -> dict[str, dict[str, list[float | None]]]:
        """Gaps of ours and of every setting of the tuned Adam, by model with subsampled data."""
        steps, names = self._size.batches, list(costs.LARGE) if self._size.batches else []
        tasks = [([name, self._seed], (name, steps, self._seed)) for name in names]
        results = self._parts("minibatches", costs.minibatches, tasks)
        return {name: _batch_gaps(levels) for name, levels in zip(names, results, strict=True)}

    def bias(self) -> Bias:
        """Bias of standard deviations by optimizer and dimension: how much too large they are."""
        (results,) = self._parts("bias", bias.measured, [([self._seed], (self._seed,))])
        return from_json(Bias, results)

    def second(self) -> SecondValidation:
        """The second validation: our runs, and the rivals that need no tuning and no many steps."""
        return SecondValidation(self._settings(), self._cases(partial(rivals.measured, stochastic_ones=rivals.NONE)))

    def third(self) -> ThirdValidation:
        """The third validation: every fit is one that a user could have made, and NUTS says whether it is right."""
        size, names = self._size, self._size.models
        chains = self._of_models("reference", confessed.reference, dict.fromkeys([*names, *size.timed, *size.leapt]))
        true: dict[str, Moments] = {name: each.pop("moments") for name, each in chains.items()}
        cases = [(name, family) for name in names for family in (MEAN_FIELD, FULL_RANK)]
        seeds = [self._seed + j for j in range(max(size.seeds, size.runs))]
        counts = seeds[: size.runs], seeds[: size.fits]
        own = self._of_cases("third", confessed.measured, cases, *counts)
        few = {MEAN_FIELD: rivals.SOME, FULL_RANK: rivals.NONE}
        theirs = [
            self._of_cases(
                "rivals of the third",
                partial(rivals.measured, stochastic_ones=few[case[1]]),
                [case],
                seeds[: size.seeds],
            )[0]
            for case in cases
        ]
        polished = self._polished(cases, theirs, own)
        checked = [
            _checked_case(case, rival, mine, best, true[case[0]] if chains[case[0]]["good"] else None)
            for case, rival, mine, best in zip(cases, theirs, own, polished, strict=True)
        ]
        doubtful = [
            case.model
            for case in checked
            if case.family == FULL_RANK
            and ((khat := case.fits[size.budgets[-1]][0].khat) is None or khat >= confession.KHAT)
        ]
        return ThirdValidation(
            settings=self._settings([name for name in NEW if name not in names]),
            fits=size.fits,
            cases=checked,
            references=from_json(dict[str, ReferenceChains], chains),
            seconds=self._ways("seconds", seconds.costs, size.timed, true, chains),
            leapfrogs=self._ways("leapfrogs", seconds.leapfrogs, size.leapt, true, chains),
            flows=self._ways("flow", seconds.flow, doubtful, true, chains),
            resampled=self.resampled(names, true, chains),
        )

    def resampled(
        self, names: Iterable[str], true: dict[str, Moments], chains: dict[str, Any]
    ) -> dict[str, dict[str, DrawErrors]]:
        """Errors of draws of a full-rank fit, and of those that importance weights choose."""
        drawn = self._of_models("resampled", confessed.resampled, names)
        return {
            name: {
                kind: DrawErrors(**confessed.errors(draws, true[name] if chains[name]["good"] else None))
                for kind, draws in each.items()
            }
            for name, each in drawn.items()
        }

    def _ways(
        self, doing: str, measure: Measure, names: Sequence[str], true: dict[str, Moments], chains: dict[str, Any]
    ) -> Ways:
        measured = self._of_models(doing, measure, names)

        def way(name: str, costs: dict[str, Any]) -> WayToPosterior:
            draws = costs.pop("moments")
            return from_json(
                WayToPosterior, costs | confessed.errors(draws, true[name] if chains[name]["good"] else None)
            )

        return {name: {what: way(name, costs) for what, costs in ways.items()} for name, ways in measured.items()}

    def _settings(self, left_out: Sequence[str] = ()) -> PosteriorSettings:
        size = self._size
        extent = size.budgets, size.seeds, size.runs, self._seed
        return PosteriorSettings(*extent, source(), versions_of(*PACKAGES), list(left_out))

    def _parts(self, doing: str, measure: Measure, tasks: list[tuple[list[Any], tuple[Any, ...]]]) -> list[Any]:
        """Measurements of each: its identity without the place of the database, and its arguments."""
        store = Store(self._kept, Part, ".json")
        listed = [
            Task(", ".join(map(str, [doing, *identity[:2]])), [doing, *identity], partial(_part, measure, *arguments))
            for identity, arguments in tasks
        ]
        return [part.content for part in gathered(doing, listed, store, self._executor)]

    def _of_models(self, doing: str, measure: Measure, names: Iterable[str]) -> dict[str, Any]:
        names = list(names)
        tasks: list[Any] = [([name, self._seed], (name, self._database, self._seed)) for name in names]
        return dict(zip(names, self._parts(doing, measure, tasks), strict=True))

    def _cases(self, measure: Measure) -> list[PosteriorCase]:
        size = self._size
        seeds = [self._seed + j for j in range(max(size.seeds, size.runs))]
        cases = [(name, MEAN_FIELD) for name in size.models]
        theirs = self._of_cases("rivals", measure, cases, seeds[: size.seeds])
        larger = [
            (name, FULL_RANK)
            for name, results in zip(size.models, theirs, strict=True)
            if results["dim"] <= size.largest and name not in DEVELOPMENT  # which are not judged
        ]
        theirs += self._of_cases("rivals", measure, larger, seeds[: size.seeds])
        cases += larger
        own = self._of_cases("ours", ours.measured, cases, seeds[: size.runs])
        polished = self._polished(cases, theirs, own)
        return [_case(*each) for each in zip(cases, theirs, own, polished, strict=True)]

    def _of_cases(self, doing: str, measure: Measure, cases: list[tuple[str, str]], *seeds: list[int]) -> list[Any]:
        settings = [self._size.budgets, *seeds]
        tasks: list[Any] = [([*case, *settings], (*case, self._database, *settings)) for case in cases]
        return self._parts(doing, measure, tasks)

    def _polished(self, cases: list[tuple[str, str]], theirs: list[Any], own: list[Any]) -> list[Any]:
        best = [max(pair, key=lambda each: each["best"]["level"])["best"] for pair in zip(theirs, own, strict=True)]
        tasks: list[Any] = [
            ([*case, b["level"]], (*case, self._database, b["mean"], b["scale"]))
            for case, b in zip(cases, best, strict=True)
        ]
        return self._parts("polish", ours.polished, tasks)


def _part(measure: Measure, *arguments: Any) -> Part:
    return Part(measure(*arguments))


def _case(case: tuple[str, str], theirs: Any, own: Any, polished: Any) -> PosteriorCase:
    """A model and a family: gaps to the best instead of ELBOs."""
    top = max(polished["level"], theirs["best"]["level"], own["best"]["level"])

    def gaps(levels: dict[str, Sequence[float | None]]) -> Levels:
        return {int(budget): _gaps(top, each) for budget, each in levels.items()}

    def judged(fit: dict[str, Any]) -> JudgedFit:
        return JudgedFit(_gaps(top, [fit["level"]])[0], fit["khat"], fit["warnings"], fit["errors"])

    return PosteriorCase(
        model=case[0],
        set=next((name for name, models in SETS.items() if case[0] in models), "development"),
        family=case[1],
        dim=theirs["dim"],
        best=BestGaussian(significant(top, 10), polished["khat"], polished["errors"]),
        rivals={name: gaps(levels) for name, levels in theirs["levels"].items()},
        ours=gaps(own["levels"]),
        evaluations={int(budget): _evaluations(case[1], theirs["dim"], int(budget)) for budget in own["levels"]},
        fits={int(budget): [judged(fit) for fit in fits] for budget, fits in own["fits"].items()},
    )


def _checked_case(case: tuple[str, str], theirs: Any, own: Any, polished: Any, true: Moments | None) -> CheckedCase:
    top = max(polished["level"], theirs["best"]["level"], own["best"]["level"])

    def checked(fit: dict[str, Any]) -> CheckedFit:
        about = {name: value for name, value in fit.items() if name not in ("level", "moments")}
        return CheckedFit(_gaps(top, [fit["level"]])[0], **about, **confessed.errors(fit["moments"], true))

    def gaps(levels: dict[str, Sequence[float | None]]) -> Levels:
        return {int(budget): _gaps(top, each) for budget, each in levels.items()}

    return CheckedCase(
        *case,
        dim=own["dim"],
        elbo=significant(top, 10),
        rivals={name: gaps(levels) for name, levels in theirs["levels"].items()},
        ours=gaps(own["levels"]),
        steps={int(budget): steps for budget, steps in own["steps"].items()},
        fits={int(budget): [checked(fit) for fit in fits] for budget, fits in own["fits"].items()},
    )


def _evaluations(family: str, dim: int, steps: int) -> int:
    """How often at most a run evaluates the density beside its gradients: after every block, and to compare."""
    members = MeanField() if family == MEAN_FIELD else FullRank()
    block, draws = max(1, round(steps / BLOCKS)), 0
    for update, its_steps in updates(members, dim, steps):
        candidates = 1 + len(SHARES) if isinstance(update, NewtonUpdate) else 2
        draws += ROWS * (math.ceil(its_steps / min(block, its_steps)) + COMPARED * candidates)
    return draws


def _gaps(top: float, levels: Sequence[float | None]) -> list[float | None]:
    return [None if level is None else significant(top - level, 4) for level in levels]


def _batch_gaps(levels: dict[str, list[float | None]]) -> dict[str, list[float | None]]:
    top = max(level for each in levels.values() for level in each if level is not None)
    return {name: _gaps(top, each) for name, each in levels.items()}
