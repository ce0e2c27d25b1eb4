"""The page of the reproduction, its figures and report.html, from the results and summaries of its experiments."""

import json
import os
from pathlib import Path
from typing import Any

from evidence.page import read_some, rendered
from evidence.reproduction import figures as reproduction_figures
from evidence.reproduction import report
from evidence.reproduction.experiment import Experiment
from evidence.reproduction.experiments import EXPERIMENTS
from evidence.reproduction.report import by_claim, sentences
from evidence.reproduction.results import Results
from evidence.reproduction.summary import curves, summary
from gladstorm.core.results import to_json
from gladstorm.jobs import interrupts
from gladstorm.jobs.files import write_text
from gladstorm.plotting import figures
from gladstorm.plotting.styles import in_words

REPORT = "report.html"
FIGURES = ("figure", "budget", "sensitivity")  # functions of `reproduction.figures`, and names of files
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


def render(results: dict[str, dict[str, Any]]) -> str:
    """Return the page, in Markdown."""
    summaries = list(results.values())
    verdicts = [claim["verdict"] for summary in summaries for claim in sentences(summary["claims"])]
    values = {
        "summaries": summaries,
        "by_claim": by_claim,
        "verdicts": verdicts,
        "hold": verdicts.count("holds"),
        "fail": verdicts.count("does not hold"),
        "depend": sum(verdict.startswith("depends") for verdict in verdicts),
    }
    return rendered(__file__, globals() | values)


def verdict(claim: dict[str, Any]) -> str:
    """Return a claim's verdict, its first words in bold, without what stands in brackets."""
    words, bracket, details = claim["verdict"].partition(" (")
    return f"**{words}**{bracket}{details}"


def estimate(claim: dict[str, Any]) -> str:
    """The estimate with its interval, and of how many seeds it is."""
    number = "no estimate" if claim["estimate"] is None else f"{claim['estimate']:.3g}"
    interval = "" if claim["ci"] is None else " ({:.3g} to {:.3g})".format(*claim["ci"])
    return f"{number}{interval}, {claim['seeds']} seeds"


def spread(value: dict[str, Any]) -> str:
    """A mean and its standard deviation."""
    return "not finite" if value["mean"] is None else f"{value['mean']:.3g} ± {value['std']:.2g}"


def violations(summary: dict[str, Any]) -> list[str]:
    """Return the conditions of the theorems that the schedules violate, each with its method."""
    violated = [sentence.partition(":") for method in summary["schedule"].values() for sentence in method["violations"]]
    return [f"{in_words(method)}:{rest}" for method, _, rest in violated]


def load(folder: Path) -> dict[str, dict[str, Any]]:
    """The summaries by experiment."""
    return read_some("reproduction", folder, {name: f"{name}/summary.json" for name in EXPERIMENTS})


def draw(folder: Path) -> None:
    """Draw all figures and the report where the runs are; of what is published, which has none, the sensitivity."""
    if experiments_in(folder):
        publish(folder)
        return
    for name, findings in load(folder).items():
        figures.save(reproduction_figures.sensitivity(findings, {}), folder / name / "sensitivity.png")


def publish(folder: Path) -> dict[str, dict[str, Any]]:
    """Write summaries, figures and the report of the results in a folder; return the summaries by experiment."""
    reported = []
    for experiment in experiments_in(folder):
        results = Results.load(folder / experiment.name / "results.parquet", experiment.name)
        findings, drawn = summary(experiment, results), curves(results)
        text = json.dumps(to_json(findings, experiment.name), indent=2, ensure_ascii=False)
        write_text(folder / experiment.name / "summary.json", text + "\n")
        reported.append(report.Reported(findings, results))
        for name in FIGURES:
            interrupts.check()
            figure = getattr(reproduction_figures, name)(findings, drawn)
            for suffix in SUFFIXES:
                figures.save(figure, folder / experiment.name / f"{name}{suffix}")
    write_text(folder / REPORT, report.page(reported))
    return {each.summary["experiment"]: dict(each.summary) for each in reported}


def experiments_in(folder: Path) -> list[Experiment]:
    """The experiments a folder has results of, or something in their place that reading them will refuse."""
    return [
        experiment
        for experiment in EXPERIMENTS.values()
        if os.path.lexists(folder / experiment.name / "results.parquet")
    ]
