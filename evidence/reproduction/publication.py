"""A folder of results of the reproduction to what people read: summary.json, figures and report.html."""

import json
import os
from pathlib import Path
from typing import Any

from evidence.reproduction import EXPERIMENTS, Experiment, Results, report, summary
from evidence.reproduction.summary import curves
from gladstorm.core.results import to_json
from gladstorm.jobs import interrupts
from gladstorm.jobs.files import write_text

REPORT = "report.html"
FIGURES = ("figure", "budget", "sensitivity")  # functions of `reproduction.figures`, and names of files
SUFFIXES = (".png", ".pdf")


def publish(folder: Path) -> dict[str, dict[str, Any]]:
    """Write summaries, figures and the report of the results in a folder; return the summaries by experiment."""
    from evidence.reproduction import figures as reproduction_figures  # not before: Matplotlib takes long to load
    from gladstorm.plotting import figures

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


def require_own_report(owner: str, folder: Path) -> None:
    """Raise a ValueError if another program's report.html would be replaced."""
    path = folder / REPORT
    if path.exists() and report.TITLE not in path.read_text("utf-8", errors="replace"):
        raise ValueError(
            f"{owner}: the folder must have no {REPORT} but Gladstorm's own; got another's, {str(path)!r}."
        )
