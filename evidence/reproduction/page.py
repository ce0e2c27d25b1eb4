"""The page of the reproduction, its figures and report.html, from the results and summaries of its experiments."""

import os
from collections.abc import Mapping
from pathlib import Path

from evidence.page import rendered
from evidence.reproduction import figures as reproduction_figures
from evidence.reproduction import report
from evidence.reproduction.experiments import EXPERIMENTS, Experiment
from evidence.reproduction.report import by_claim, sentences, spread
from evidence.reproduction.results import Results
from evidence.reproduction.summary import ClaimVerdict, ExperimentSummary, summary
from evidence.results import load_some, save
from gladstorm.cli.output import Table, show
from gladstorm.core.screen import in_digits
from gladstorm.jobs import interrupts
from gladstorm.jobs.files import write_text
from gladstorm.plotting import figures
from gladstorm.plotting.styles import in_words

REPORT = "report.html"
SUFFIXES = (".png", ".pdf")
# What the estimate of a claim is, by the claim's id.
MEASURED = {
    "nstorm-below-nsgdm": "share of seeds on which NSTORM's last iterate is lower",
    "dynamic-batches-grow-to-1000": "largest batch",
    "dynamic-batches-grow-tenfold": "largest batch divided by the first",
    "drift-stabilises-nsgdm": "growth of NSGDM's ‖x−x⁰‖² over the last tenth of the run, as a share",
    "single-sample-sgd-drifts": "variation of ‖x−x⁰‖² over the second half of the run, relative to its mean",
    "normalized-methods-keep-batch-one": "largest batch after the first estimate",
}


def render(results: Mapping[str, ExperimentSummary]) -> str:
    """Return the page, in Markdown."""
    summaries = list(results.values())
    verdicts = [claim.verdict for summary in summaries for claim in sentences(summary.claims)]
    values = {
        "summaries": summaries,
        "by_claim": by_claim,
        "verdicts": verdicts,
        "hold": verdicts.count("holds"),
        "fail": verdicts.count("does not hold"),
        "depend": sum(verdict.startswith("depends") for verdict in verdicts),
    }
    return rendered(__file__, globals() | values)


def verdict(claim: ClaimVerdict) -> str:
    """Return a claim's verdict, its first words in bold, without what stands in brackets."""
    words, bracket, details = claim.verdict.partition(" (")
    return f"**{words}**{bracket}{details}"


def estimate(claim: ClaimVerdict) -> str:
    """The estimate with its interval, and of how many seeds it is."""
    interval = "" if claim.ci is None else " ({:.3g} to {:.3g})".format(*claim.ci)
    return f"{in_digits(claim.estimate, missing='no estimate')}{interval}, {claim.seeds} seeds"


def violations(summary: ExperimentSummary) -> list[str]:
    """Return the conditions of the theorems that the schedules violate, each with its method."""
    violated = [sentence.partition(":") for plan in summary.schedule.values() for sentence in plan.violations]
    return [f"{in_words(method)}:{rest}" for method, _, rest in violated]


def load(folder: Path) -> dict[str, ExperimentSummary]:
    """The summaries by experiment."""
    return load_some(ExperimentSummary, "reproduction", folder, {name: f"{name}/summary.json" for name in EXPERIMENTS})


def draw(folder: Path) -> None:
    """Draw all figures and the report where the runs are; of what is published, which has none, the sensitivity."""
    if experiments_in(folder):
        publish(folder)
        return
    for name, findings in load(folder).items():
        figures.save(reproduction_figures.sensitivity(findings), folder / name / "sensitivity.png")


def publish(folder: Path) -> None:
    """Write summaries, figures and the report of the results in a folder."""
    reported = []
    for experiment in experiments_in(folder):
        results = Results.load(folder / experiment.name / "results.parquet", experiment.name)
        findings = summary(experiment, results)
        save(folder / experiment.name / "summary.json", findings)
        reported.append(report.Reported(findings, results))
        drawn = {
            "figure": reproduction_figures.figure(findings, results),
            "budget": reproduction_figures.budget(findings, results),
            "sensitivity": reproduction_figures.sensitivity(findings),
        }
        for name, figure in drawn.items():
            interrupts.check()
            for suffix in SUFFIXES:
                figures.save(figure, folder / experiment.name / f"{name}{suffix}")
    write_text(folder / REPORT, report.page(reported))


def print_tables(results: Mapping[str, ExperimentSummary]) -> None:
    """Print the verdicts on every claim; the page says how each is read."""
    for experiment in results.values():
        rows = []
        for claim in experiment.claims:
            interval = "" if claim.ci is None else "{:.3g} to {:.3g}".format(*claim.ci)
            words = claim.verdict.partition(" (")[0]
            rows.append([claim.id, str(claim.seeds), in_digits(claim.estimate), interval, words])
        config, travel = experiment.config, experiment.travel
        table = Table(
            f"{experiment.title}: B = {config.B:g}, σ² = {config.sigma2:g}, T = {config.horizon:,}",
            ("claim", "seeds", "estimate", "95 % interval", "verdict"),
            rows,
            caption=f"A normalized run travels at most γT: NSGDM {travel.NSGDM:.3g}, NSTORM {travel.NSTORM:.3g}; "
            f"the solution is {spread(travel.distance_to_solution)} away. The page says how each claim is read.",
            words=5,
            drop=(2, 3),
        )
        show(table)


def experiments_in(folder: Path) -> list[Experiment]:
    """The experiments a folder has results of, or something in their place that reading them will refuse."""
    return [
        experiment
        for experiment in EXPERIMENTS.values()
        if os.path.lexists(folder / experiment.name / "results.parquet")
    ]
