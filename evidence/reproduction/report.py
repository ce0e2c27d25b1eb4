"""The report of the reproduction: the compared runs of all experiments and their tables, on one page to explore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from evidence.reproduction.experiment import PAPER_SEEDS
from evidence.reproduction.results import COMPARED, MAIN, Results
from gladstorm.cli.output import plus_minus
from gladstorm.core.screen import in_digits
from gladstorm.plotting import explore
from gladstorm.simulation.record import Record

Data = Mapping[str, Any]
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

    summary: Data
    results: Results


def page(experiments: Sequence[Reported]) -> str:
    """Return the report of some experiments, of which there is at least one, as one HTML document."""
    pairs = [pair for experiment in experiments for pair in runs(experiment)]
    content = explore.contents(pairs, TITLE)
    tables = [table for experiment in experiments for table in tables_of(experiment.summary)]
    listed = [{"title": title, "open": "verdicts" in title, "rows": rows} for title, rows in tables if len(rows) > 1]
    opening = [f"{summary['title']}: {tally(summary['claims'])}. {summary['about']}" for summary, _ in experiments]
    return explore.page(content | {"about": ABOUT, "sentences": opening, "tables": listed})


def runs(experiment: Reported) -> list[tuple[explore.Setting, Record]]:
    """Return the compared runs on the paper's seeds: at equal iterations, and at an equal budget."""
    pairs: list[tuple[explore.Setting, Record]] = []
    for words, equal in (("equal iterations, as in the paper", False), ("equal budget", True)):
        setting = {"experiment": experiment.summary["title"], "compared at": words}
        for method in COMPARED:
            record = experiment.results.at_budget(method) if equal else experiment.results.runs(MAIN, method)
            few = record.on_seeds(PAPER_SEEDS)
            pairs.append(
                (setting, replace(few, configurations=(replace(few.configurations[0], name=method, swept=()),)))
            )
    return pairs


def tables_of(summary: Data) -> list[tuple[str, Rows]]:
    """Return the tables of one experiment, each with its title and a first row of headings."""
    tables = {
        "verdicts on the paper’s sentences": [
            ["the paper says", "read as", "seeds", "verdict", "estimate", "in words"],
            *(
                [c["statement"], c["reading"], f"{c['seeds']}", c["verdict"], _estimate(c), c["detail"]]
                for c in _sorted(summary)
            ),
        ],
        "what the theorems prescribe": [
            ["method", "γ", "η", "N_init", "γ₀", "η₀", "bound on E‖∇f(x̂)‖", "outside the theorem", "source"],
            *(
                [
                    method,
                    *(in_digits(plan[key]) for key in ("gamma", "eta", "n_init", "gamma0", "eta0")),
                    in_digits(plan["bound"]),
                    " ".join(plan["violations"]),
                    plan["source"],
                ]
                for method, plan in summary["schedule"].items()
            ),
        ],
        "methods at equal iterations": _methods(summary["methods"]),
        f"methods at an equal budget of {summary['budget']['sfo']:,}": _methods(summary["budget"]["methods"]),
        "step sizes tried": [
            ["method", "γ", "‖∇f‖, last tenth", "at equal budget", "runs diverged", ""],
            *(
                [
                    method,
                    in_digits(row["step_size"]),
                    plus_minus(row["last10_grad_norm"], 3),
                    plus_minus(row["last10_at_budget"], 3),
                    f"{row['diverged']}",
                    _picked(tuning, row["step_size"]),
                ]
                for method, tuning in summary["tuning"].items()
                for row in tuning["grid"]
            ),
        ],
    }
    return [(f"{summary['title']}: {title}", rows) for title, rows in tables.items()]


def tally(claims: Sequence[Data]) -> str:
    """Return the verdicts on the most seeds, counted: one for each sentence."""
    verdicts = [claim["verdict"] for claim in sentences(claims)]
    held, failed = verdicts.count("holds"), verdicts.count("does not hold")
    rest = f"{len(verdicts) - held - failed} undecided or a matter of reading"
    return f"{len(verdicts)} sentences tested, {held} held up, {failed} did not, {rest}"


def by_claim(claims: Iterable[Data]) -> list[list[Data]]:
    """Return the verdicts of each claim, fewest seeds first."""
    groups: dict[str, list[Data]] = {}
    for claim in claims:
        groups.setdefault(claim["id"], []).append(claim)
    return [sorted(group, key=lambda claim: int(claim["seeds"])) for group in groups.values()]


def sentences(claims: Iterable[Data]) -> list[Data]:
    """Return the verdict on the most seeds of every sentence of the paper; its first claim is the whole sentence."""
    by_statement: dict[str, Data] = {}
    for group in by_claim(claims):
        by_statement.setdefault(group[-1]["statement"], group[-1])
    return list(by_statement.values())


def _sorted(summary: Data) -> list[Data]:
    return [claim for group in by_claim(summary["claims"]) for claim in group]


def _estimate(claim: Data) -> str:
    interval = "" if claim["ci"] is None else " [{:.3g}, {:.3g}]".format(*claim["ci"])
    return f"{in_digits(claim['estimate'])}{interval}"


def _methods(methods: Data) -> Rows:
    headings = ["method", "γ", "stochastic gradients", *NORMS.values(), "largest batch", "runs diverged"]
    return [headings] + [
        [
            method,
            in_digits(row["step_size"]),
            f"{row['sfo_total']:,.0f}",
            *(plus_minus(row[key], 3) for key in NORMS),
            f"{row['max_batch']:,}",
            f"{row['diverged']}",
        ]
        for method, row in methods.items()
    ]


def _picked(tuning: Data, size: float) -> str:
    words = {"picked": tuning["best"] == size, "picked at budget": tuning["best_at_budget"] == size}
    return ", ".join(word for word, holds in (words | {"added": size in tuning["extended"]}).items() if holds)
