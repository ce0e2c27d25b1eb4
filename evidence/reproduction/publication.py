"""A folder of results of the reproduction to what people read: summary.json, figures and report.html.

Nothing is simulated here. A thread draws the figures while this one goes on: a simulation runs outside Python, and so
leaves it to the drawing. A thread ends with its process, whatever ends that.
"""

import json
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Self

from evidence.reproduction import EXPERIMENTS, Experiment, Results, report, summary
from evidence.reproduction.summary import curves
from gladstorm.core.results import to_json
from gladstorm.jobs import interrupts
from gladstorm.jobs.files import write_text

REPORT = "report.html"
FIGURES = ("figure", "budget", "sensitivity")  # functions of `reproduction_figures`, and names of files
SUFFIXES = (".png", ".pdf")
GRAIN = 0.1  # seconds between two looks for Ctrl-C


class Publication:
    """Summaries, figures and the report of a folder of results, written in a with-block; at its end all are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._worker = ThreadPoolExecutor(1)  # Matplotlib is not for several threads
        self._due: list[Future[None]] = []
        self._reported: list[report.Reported] = []

    def add(self, experiment: Experiment) -> None:
        """Write what follows from NAME/results.parquet: its summary now, its figures meanwhile."""
        folder = self._folder / experiment.name
        results = Results.load(folder / "results.parquet", experiment.name)
        findings = summary(experiment, results)
        text = json.dumps(to_json(findings, experiment.name), indent=2, ensure_ascii=False, allow_nan=False)
        write_text(folder / "summary.json", text + "\n")
        self.draw(findings, curves(results), folder)
        self._reported.append(report.Reported(findings, results))

    def draw(self, summary: Mapping[str, Any], curves: Mapping[str, Any], folder: Path) -> None:
        """Draw all figures of one experiment into a folder, meanwhile."""
        self._due += [self._worker.submit(_draw, name, summary, curves, folder) for name in FIGURES]

    @property
    def summaries(self) -> dict[str, dict[str, Any]]:
        """Return the summaries by experiment."""
        return {part.summary["experiment"]: dict(part.summary) for part in self._reported}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        done = failure == (None, None, None)
        try:
            if done:
                write_text(self._folder / REPORT, report.page(self._reported))
            while done and wait(self._due, GRAIN).not_done:
                interrupts.check()
        finally:
            self._worker.shutdown(wait=False, cancel_futures=True)
        for figure in self._due if done else ():
            figure.result()  # raises what went wrong there


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


def _draw(name: str, summary: Mapping[str, Any], curves: Mapping[str, Any], folder: Path) -> None:
    """One figure in every format."""
    from evidence.reproduction import figures as reproduction_figures  # matplotlib is loaded by the thread
    from gladstorm.plotting import figures  # matplotlib is loaded by the thread

    figure = getattr(reproduction_figures, name)(summary, curves)
    for suffix in SUFFIXES:
        figures.save(figure, folder / f"{name}{suffix}")
