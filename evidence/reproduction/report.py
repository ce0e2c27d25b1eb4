"""The report of the reproduction: the compared runs of all experiments and their tables, on one page to explore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from evidence.reproduction.experiments import PAPER_SEEDS
from evidence.reproduction.results import COMPARED, MAIN, Results
from evidence.reproduction.summary import ClaimVerdict, ExperimentSummary, MethodSummary, Spread, TunedStepSize
from gladstorm.cli.output import plus_minus
from gladstorm.core.screen import in_digits
from gladstorm.plotting import explore
from gladstorm.simulation.record import Record

Rows = list[list[str]]

TITLE = "Gladstorm: the paper’s experiments, run again"
ABOUT = (
    "A reproduction of the experiments of “Beyond Bounded Variance: Variance-Reduced Normalized Methods for Nonconvex "
    "Optimization under Blum–Gladyshev Noise”. Curves are means over the paper’s seeds, bands go from the 10 % to the "
    "90 % quantile. Tables below the sentences have what the theorems prescribe, verdicts on the paper’s sentences, "
    "and all step sizes that were tried."
)
NORMS = {"final_grad_norm": "‖∇f‖ at x^K", "last10_grad_norm": "last tenth", "mean_grad_norm": "whole run"}
NORMS |= {"drift2_final": "‖x^K − x⁰‖²"}


class Reported(NamedTuple):
    """An experiment's summary and the runs that it is about."""

    summary: ExperimentSummary
    results: Results


def page(experiments: Sequence[Reported]) -> str:
    """Return the report of some experiments, of which there is at least one, as one HTML document."""
    pairs = [pair for experiment in experiments for pair in runs(experiment)]
    content = explore.contents(pairs, TITLE)
    tables = [table for experiment in experiments for table in tables_of(experiment.summary)]
    listed = [{"title": title, "open": "verdicts" in title, "rows": rows} for title, rows in tables if len(rows) > 1]
    opening = [f"{summary.title}: {tally(summary.claims)}. {summary.about}" for summary, _ in experiments]
    return explore.page(content | {"about": ABOUT, "sentences": opening, "tables": listed})


def runs(experiment: Reported) -> list[tuple[explore.Setting, Record]]:
    """Return the compared runs on the paper's seeds: at equal iterations, and at an equal budget."""
    pairs: list[tuple[explore.Setting, Record]] = []
    for words, equal in (("equal iterations, as in the paper", False), ("equal budget", True)):
        setting = {"experiment": experiment.summary.title, "compared at": words}
        for method in COMPARED:
            record = experiment.results.at_budget(method) if equal else experiment.results.runs(MAIN, method)
            few = record.on_seeds(PAPER_SEEDS)
            pairs.append(
                (setting, replace(few, configurations=(replace(few.configurations[0], name=method, swept=()),)))
            )
    return pairs


def tables_of(summary: ExperimentSummary) -> list[tuple[str, Rows]]:
    """Return the tables of one experiment, each with its title and a first row of headings."""
    tables = {
        "verdicts on the paper’s sentences": [
            ["the paper says", "read as", "seeds", "verdict", "estimate", "in words"],
            *(
                [c.statement, c.reading, f"{c.seeds}", c.verdict, estimate(c), c.detail]
                for group in by_claim(summary.claims)
                for c in group
            ),
        ],
        "what the theorems prescribe": [
            ["method", "γ", "η", "N_init", "γ₀", "η₀", "bound on E‖∇f(x̂)‖", "outside the theorem", "source"],
            *(
                [
                    method,
                    *(in_digits(number) for number in (plan.gamma, plan.eta, plan.n_init, plan.gamma0, plan.eta0)),
                    in_digits(plan.bound),
                    " ".join(plan.violations),
                    plan.source,
                ]
                for method, plan in summary.schedule.items()
            ),
        ],
        "methods at equal iterations": _methods(summary.methods),
        f"methods at an equal budget of {summary.budget.sfo:,}": _methods(summary.budget.methods),
        "step sizes tried": [
            ["method", "γ", "‖∇f‖, last tenth", "at equal budget", "runs diverged", ""],
            *(
                [
                    method,
                    in_digits(tried.step_size),
                    spread(tried.last10_grad_norm),
                    spread(tried.last10_at_budget),
                    f"{tried.diverged}",
                    _picked(tuning, tried.step_size),
                ]
                for method, tuning in summary.tuning.items()
                for tried in tuning.grid
            ),
        ],
    }
    return [(f"{summary.title}: {title}", rows) for title, rows in tables.items()]


def tally(claims: Sequence[ClaimVerdict]) -> str:
    """Return the verdicts on the most seeds, counted: one for each sentence."""
    verdicts = [claim.verdict for claim in sentences(claims)]
    held, failed = verdicts.count("holds"), verdicts.count("does not hold")
    rest = f"{len(verdicts) - held - failed} undecided or a matter of reading"
    return f"{len(verdicts)} sentences tested, {held} held up, {failed} did not, {rest}"


def by_claim(claims: Iterable[ClaimVerdict]) -> list[list[ClaimVerdict]]:
    """Return the verdicts of each claim, fewest seeds first."""
    groups: dict[str, list[ClaimVerdict]] = {}
    for claim in claims:
        groups.setdefault(claim.id, []).append(claim)
    return [sorted(group, key=lambda claim: claim.seeds) for group in groups.values()]


def sentences(claims: Iterable[ClaimVerdict]) -> list[ClaimVerdict]:
    """Return the verdict on the most seeds of every sentence of the paper; its first claim is the whole sentence."""
    by_statement: dict[str, ClaimVerdict] = {}
    for group in by_claim(claims):
        by_statement.setdefault(group[-1].statement, group[-1])
    return list(by_statement.values())


def estimate(claim: ClaimVerdict) -> str:
    """The estimate of a claim, with its interval if there is one."""
    interval = "" if claim.ci is None else " [{:.3g}, {:.3g}]".format(*claim.ci)
    return f"{in_digits(claim.estimate)}{interval}"


def spread(value: Spread) -> str:
    """A mean and its standard deviation, to three digits."""
    return plus_minus(vars(value), 3)


def _methods(methods: Mapping[str, MethodSummary]) -> Rows:
    headings = ["method", "γ", "stochastic gradients", *NORMS.values(), "largest batch", "runs diverged"]
    return [headings] + [
        [
            method,
            in_digits(row.step_size),
            f"{row.sfo_total:,.0f}",
            *(spread(getattr(row, name)) for name in NORMS),
            f"{row.max_batch:,}",
            f"{row.diverged}",
        ]
        for method, row in methods.items()
    ]


def _picked(tuning: TunedStepSize, size: float) -> str:
    words = {"picked": tuning.best == size, "picked at budget": tuning.best_at_budget == size}
    return ", ".join(word for word, holds in (words | {"added": size in tuning.extended}).items() if holds)
