"""All checks of all regimes as one report: what was run, what was claimed, at what confidence, and what it proves."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gladstorm.files import write_whole
from gladstorm.progress import Progress
from gladstorm.provenance import versions
from gladstorm.verification import (
    bounds,
    error_identity,
    estimator_error,
    hardness,
    inertia_study,
    noise_exponents,
    oracle_variance,
    printed,
    robustness,
)
from gladstorm.verification.checks import FAMILY, AtMost, Check, Verdict, decided, level_of_each, rounded
from gladstorm.verification.findings import Findings, kept
from gladstorm.verification.meaning import MEANING
from gladstorm.verification.runs import Case, Ladder, Settings, cases

Rows = dict[str, list[dict[str, Any]]]
Part = Callable[[], Findings]


@dataclass(frozen=True)
class Report:
    """Every check, decided."""

    settings: Settings
    verdicts: list[Verdict]
    rows: Rows  # by table

    @property
    def holds(self) -> bool:
        """Whether every check does."""
        return not self.failures

    @property
    def failures(self) -> list[Verdict]:
        """The checks that do not hold."""
        return [verdict for verdict in self.verdicts if not verdict.holds]

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready data; the same bytes for the same settings, versions and machine."""
        settings = self.settings
        return {
            "holds": self.holds,
            "confidence": {
                "family": FAMILY,
                "checks": len(self.verdicts),
                "level": level_of_each(len(self.verdicts)),
                "method": "Student's two-sided interval over seeds, Bonferroni over all checks",
            },
            "settings": {
                "horizons": list(settings.horizons),
                "fit_from": settings.fit_from,
                "seeds": settings.seeds,
                "identity_seeds": settings.seeds * settings.blocks,
                "noise_horizons": list(settings.noise_horizons),
                "noise_seeds": settings.seeds * settings.noise_blocks,
                "first_seed": settings.seed,
                "counterexample": settings.counterexample,
            },
            "versions": versions(),
            "meaning": MEANING,
            "cases": [self._judged(row) for row in self.rows.get("cases", [])],
            "studies": {table: rows for table, rows in self.rows.items() if table != "cases"},
            "checks": [verdict.as_dict() for verdict in self.verdicts],
        }

    def as_json(self) -> str:
        """`as_dict` as text."""
        return json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False, indent=1)

    def save(self, folder: Path) -> None:
        """Write verify.json, whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        text = self.as_json() + "\n"
        write_whole(folder / "verify.json", lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))

    def _judged(self, row: dict[str, Any]) -> dict[str, Any]:
        """A case with its slope and its verdict."""
        own = [v for v in self.verdicts if (v.check.regime, v.check.instance) == (row["regime"], row["instance"])]
        fitted = [verdict for verdict in own if verdict.check.kind == "slope"]
        slope = [rounded(number) for each in fitted for number in (each.check.measured.value, each.low, each.high)]
        return {**row, "slope": slope, "checks": len(own), "holds": all(verdict.holds for verdict in own)}


def verify(settings: Settings, regimes: tuple[str, ...] = (), folder: Path | None = None) -> Report:
    """Check the regimes whose names contain one of the words given, all if none is.

    With a folder, every finished part is kept there and a second call goes on where the first was killed.
    """
    checks: list[Check] = []
    rows: Rows = {}
    work = _parts(settings, regimes)
    with Progress("verifying", len(work)) as shown:
        for done, (name, part) in enumerate(work.items()):
            shown(done)
            found = kept(folder, name, settings, part)
            checks += found.checks
            for table, more in found.rows.items():
                rows.setdefault(table, []).extend(more)
    return Report(settings, decided(checks), rows)


def _parts(settings: Settings, regimes: tuple[str, ...]) -> dict[str, Part]:
    """Everything there is to do, in pieces."""
    selected = list(cases(regimes, settings.instances))
    names = {case.regime for case in selected}
    work: dict[str, Part] = {}
    if any(name.startswith("nsgdm") and name.endswith("bounded") for name in names):
        work["printed"] = partial(_found, printed.checks, names, settings)
    for noise in ("bg0", "bounded"):
        if f"nsgdm/smooth/{noise}" in names:
            work[f"identity/{noise}"] = partial(_found, error_identity.of_momentum, noise, settings)
    for problem in noise_exponents.PROBLEMS:
        if problem.regime in names:
            work[f"noise/{problem.regime}/{problem.name}"] = partial(noise_exponents.findings, problem, settings)
    for case in selected:
        work[f"{case.regime}/{case.instance.name}"] = partial(_of, case, settings)
    return work | (_studies(settings) if settings.studies and not regimes else {})


def _studies(settings: Settings) -> dict[str, Part]:
    """What no theorem's bound is about: hard instances, inertia, robustness."""
    first = settings.seed
    work: dict[str, Part] = {"chain progress": partial(_found, hardness.progress_checks, 40, settings)}
    for instance, eps in hardness.STUDY:
        work[f"{instance.__name__}, ε = {eps}"] = partial(_rows, "hard instances", hardness.rows, instance(eps), first)
    for problem, B in ((each, B) for each in robustness.PROBLEMS for B in each.growths):
        work[f"{problem.name}, B = {B}"] = partial(_rows, "robustness", robustness.rows, problem, B, first)
    for size, noise in itertools.product(inertia_study.SIZES, inertia_study.NOISES):
        work[f"inertia, {size}, {noise}"] = partial(_rows, "inertia", inertia_study.rows, size, noise, first)
    return work


def _rows(table: str, measure: Callable[..., list[dict[str, Any]]], *arguments: Any) -> Findings:
    return Findings(rows={table: measure(*arguments)})


def _found(checks: Callable[[Any, Settings], Iterator[Check]], about: Any, settings: Settings) -> Findings:
    return Findings(list(checks(about, settings)))


def _of(case: Case, settings: Settings) -> Findings:
    ladder = case.ladder(settings)
    checks = [
        *bounds.checks(ladder, settings.fit_from),
        *estimator_error.checks(ladder),
        *error_identity.of_storm(case, settings),
        *oracle_variance.checks(case, settings),
    ]
    return Findings(checks, {"cases": [_described(ladder, checks, settings)]})


def _described(ladder: Ladder, checks: list[Check], settings: Settings) -> dict[str, Any]:
    """One row: the problem, and measured/bound at each horizon for every kind of bound."""
    case, statement = ladder.case, ladder.statement
    tightness: dict[str, list[float | None]] = {}
    for check in checks:
        if isinstance(check.claim, AtMost) and check.kind in bounds.KINDS:
            tightness.setdefault(check.kind, []).append(rounded(check.measured.value / check.claim.bound))
    if errors := estimator_error.tightness(ladder):
        tightness["estimator error"] = [rounded(ratio) for ratio in errors]
    B, G = case.instance.noise_of(case.noise)
    still = f"not testable: at T = {settings.fit_from} the runs have not descended to {bounds.ARRIVED:g} Δ"
    return {
        "regime": case.regime,
        "instance": case.instance.name,
        "convex": case.instance.convex,
        "source": statement.source,
        "B": B,
        "G": G,
        "gamma0": rounded(statement.gamma0),
        "gap": rounded(statement.problem.gap),
        "rate": float(statement.rate),
        "slope_remark": "" if bounds.descended(ladder, settings.fit_from) else still,
        "measured": [rounded(float(record.mean_grad_norm[0, :, -1].mean())) for record in ladder.records.values()],
        "tightness": tightness,
    }
