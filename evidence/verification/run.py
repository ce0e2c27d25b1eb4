"""Check every regime: everything there is to do in parts, each kept when it is finished, and their report."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from evidence.verification import (
    bounds,
    error_identity,
    estimator_error,
    feedback,
    hardness,
    inertia_study,
    noise_exponents,
    on_a_plane,
    oracle_variance,
    printed_bounds,
    robustness,
)
from evidence.verification.cases import Case, Ladder, cases
from evidence.verification.checks import Check, decide, rounded
from evidence.verification.part_result import PartResult
from evidence.verification.report import VerificationReport
from evidence.verification.settings import VerificationSettings
from gladstorm.jobs.progress import Progress
from gladstorm.jobs.sources import source_of
from gladstorm.jobs.store import Store
from gladstorm.jobs.tasks import HERE, Executor, Task, results

Compute = Callable[[], PartResult]


def verify(
    settings: VerificationSettings, regimes: tuple[str, ...] = (), folder: Path | None = None, executor: Executor = HERE
) -> VerificationReport:
    """Check the regimes whose names contain one of the words given, all if none is.

    With a folder, every finished part is kept there and a second call goes on where the first was killed.
    """
    work = _parts(settings, regimes)
    tasks = [Task(name, [name, *settings.identity], compute) for name, compute in work.items()]
    store = None if folder is None else Store(folder, PartResult, ".json", source=source_of(verify, settings))
    found: dict[int, PartResult] = {}
    with Progress("verifying", len(work)) as shown:
        shown(0)
        for number, result in results(tasks, store, executor):
            found[number] = result
            shown(len(found))
    checks: list[Check] = []
    rows: dict[str, list[dict[str, Any]]] = {}
    for number in sorted(found):  # in the order of the tasks, whenever each was finished
        checks += found[number].checks
        for table, more in found[number].rows.items():
            rows.setdefault(table, []).extend(more)
    return VerificationReport(settings, decide(checks), rows)


def _parts(settings: VerificationSettings, regimes: tuple[str, ...]) -> dict[str, Compute]:
    """Everything there is to do, in pieces."""
    selected = list(cases(regimes, settings.instances))
    names = {case.regime for case in selected}
    work: dict[str, Compute] = {}
    if names & printed_bounds.REGIMES:
        work["printed"] = partial(printed_bounds.measure, settings)
    for name, law in oracle_variance.laws(selected, settings).items():
        work[f"oracle/{name}"] = partial(_checked, oracle_variance.checks, law, settings)
    for regime, statement in on_a_plane.statements().items():
        if regime in names:
            work[f"plane/{regime}"] = partial(_checked, on_a_plane.checks, statement, settings)
    for problem in noise_exponents.PROBLEMS:
        if problem.regime in names:
            work[f"noise/{problem.regime}/{problem.name}"] = partial(noise_exponents.measure, problem, settings)
    for case in selected:
        work[f"{case.regime}/{case.instance.name}"] = partial(_verified, case, settings)
    return work | (_studies(settings) if settings.studies and not regimes else {})


def _studies(settings: VerificationSettings) -> dict[str, Compute]:
    """What takes long or no theorem's bound is about: feedback, hard instances, inertia, robustness."""
    first = settings.seed
    work: dict[str, Compute] = {"chain progress": partial(_checked, hardness.progress_checks, 40, settings)}
    for feedback_problem in feedback.PROBLEMS:
        work[feedback_problem.name] = partial(feedback.measure, feedback_problem, settings)
    for instance, eps in hardness.STUDY:
        work[f"{instance.__name__}, ε = {eps}"] = partial(
            _measured, "hard instances", hardness.rows, instance(eps), first
        )
    for problem, B in ((each, B) for each in robustness.PROBLEMS for B in each.growths):
        work[f"{problem.name}, B = {B}"] = partial(robustness.measure, problem, B, first)
    for size, noise in itertools.product(inertia_study.SIZES, inertia_study.NOISES):
        work[f"inertia, {size}, {noise}"] = partial(_measured, "inertia", inertia_study.rows, size, noise, first)
    return work


def _measured(table: str, measure: Callable[..., list[dict[str, Any]]], *arguments: Any) -> PartResult:
    return PartResult(rows={table: measure(*arguments)})


def _checked(
    checks: Callable[[Any, VerificationSettings], Iterator[Check]], about: Any, settings: VerificationSettings
) -> PartResult:
    return PartResult(list(checks(about, settings)))


def _verified(case: Case, settings: VerificationSettings) -> PartResult:
    ladder = case.ladder(settings)
    checks = [
        *bounds.checks(ladder, settings.fit_from),
        *estimator_error.checks(ladder),
        *error_identity.checks(case, settings),
    ]
    return PartResult(checks, {"cases": [_described(ladder, settings)]})


def _described(ladder: Ladder, settings: VerificationSettings) -> dict[str, Any]:
    """One row: the problem, and measured/bound at each horizon for every kind of bound."""
    case, statement = ladder.case, ladder.statement
    ratios = bounds.tightness(ladder) | {"estimator error": estimator_error.tightness(ladder)}
    tightness = {kind: [rounded(ratio) for ratio in of_kind] for kind, of_kind in ratios.items() if of_kind}
    still = f"not testable: at T = {settings.fit_from} the runs have not descended to {bounds.ARRIVED:g} Δ"
    return {
        "regime": case.regime,
        "instance": case.instance.name,
        "convex": case.instance.convex,
        "source": statement.source,
        "B": rounded(statement.problem.B),
        "G": rounded(statement.problem.G),
        "gamma0": rounded(statement.gamma0),
        "gap": rounded(statement.problem.gap),
        "rate": float(statement.rate),
        "slope_remark": "" if bounds.descended(ladder, settings.fit_from) else still,
        "measured": [rounded(float(record.mean_grad_norm[0, :, -1].mean())) for record in ladder.records.values()],
        "tightness": tightness,
    }
