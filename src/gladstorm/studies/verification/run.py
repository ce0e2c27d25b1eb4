"""Check every regime: everything there is to do in parts, each kept when it is finished, and their report."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from gladstorm.foundation.progress import Progress
from gladstorm.foundation.store import Store
from gladstorm.foundation.tasks import HERE, Executor, Task, results
from gladstorm.studies.verification import (
    bounds,
    error_identity,
    estimator_error,
    hardness,
    inertia_study,
    noise_exponents,
    oracle_variance,
    printed_bounds,
    robustness,
)
from gladstorm.studies.verification.cases import Case, Ladder, cases
from gladstorm.studies.verification.checks import AtMost, Check, decide, rounded
from gladstorm.studies.verification.part_result import PartResult
from gladstorm.studies.verification.report import Report
from gladstorm.studies.verification.settings import VerificationSettings

Compute = Callable[[], PartResult]


def verify(
    settings: VerificationSettings, regimes: tuple[str, ...] = (), folder: Path | None = None, executor: Executor = HERE
) -> Report:
    """Check the regimes whose names contain one of the words given, all if none is.

    With a folder, every finished part is kept there and a second call goes on where the first was killed.
    """
    work = _parts(settings, regimes)
    tasks = [Task(name, [name, *settings.identity], compute) for name, compute in work.items()]
    store = None if folder is None else Store(folder, PartResult, ".json", room="studies")
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
    return Report(settings, decide(checks), rows)


def _parts(settings: VerificationSettings, regimes: tuple[str, ...]) -> dict[str, Compute]:
    """Everything there is to do, in pieces."""
    selected = list(cases(regimes, settings.instances))
    names = {case.regime for case in selected}
    work: dict[str, Compute] = {}
    if names & printed_bounds.REGIMES:
        work["printed"] = partial(_checked, printed_bounds.checks, names, settings)
    for noise in ("bg0", "bounded"):
        if error_identity.momentum(noise).regime in names:
            work[f"identity/{noise}"] = partial(_checked, error_identity.on_a_plane, noise, settings)
    for problem in noise_exponents.PROBLEMS:
        if problem.regime in names:
            work[f"noise/{problem.regime}/{problem.name}"] = partial(noise_exponents.measure, problem, settings)
    for case in selected:
        work[f"{case.regime}/{case.instance.name}"] = partial(_verified, case, settings)
    return work | (_studies(settings) if settings.studies and not regimes else {})


def _studies(settings: VerificationSettings) -> dict[str, Compute]:
    """What no theorem's bound is about: hard instances, inertia, robustness."""
    first = settings.seed
    work: dict[str, Compute] = {"chain progress": partial(_checked, hardness.progress_checks, 40, settings)}
    for instance, eps in hardness.STUDY:
        work[f"{instance.__name__}, ε = {eps}"] = partial(
            _measured, "hard instances", hardness.rows, instance(eps), first
        )
    for problem, B in ((each, B) for each in robustness.PROBLEMS for B in each.growths):
        work[f"{problem.name}, B = {B}"] = partial(_measured, "robustness", robustness.rows, problem, B, first)
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
        *(error_identity.on_the_wrapper(case, settings) if case.instance.wrapped else ()),
        *oracle_variance.checks(case, settings),
    ]
    return PartResult(checks, {"cases": [_described(ladder, checks, settings)]})


def _described(ladder: Ladder, checks: list[Check], settings: VerificationSettings) -> dict[str, Any]:
    """One row: the problem, and measured/bound at each horizon for every kind of bound."""
    case, statement = ladder.case, ladder.statement
    tightness: dict[str, list[float | None]] = {}
    for check in checks:
        if isinstance(check.claim, AtMost) and check.kind in bounds.KINDS:
            tightness.setdefault(check.kind, []).append(rounded(check.measured.value / check.claim.bound))
    if errors := estimator_error.tightness(ladder):
        tightness["estimator error"] = [rounded(ratio) for ratio in errors]
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
