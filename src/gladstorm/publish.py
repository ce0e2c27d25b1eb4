"""A folder of results to what people read: summary.json, figures and report.html. Nothing is simulated here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gladstorm import report
from gladstorm.drawing import Drawing
from gladstorm.experiments import EXPERIMENTS, Experiment, Results, summary
from gladstorm.experiments.summary import curves
from gladstorm.files import write_whole


class Publication:
    """What people read of a folder of results, written experiment by experiment in a with-block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._drawing = Drawing()
        self._parts: list[dict[str, Any]] = []

    def add(self, experiment: Experiment) -> None:
        """Write what follows from NAME/results.parquet: its summary now, its figures meanwhile."""
        own = self._folder / experiment.name
        results = Results.load(own / "results.parquet")
        said, drawn = summary(experiment, results), curves(results)
        _write_text(own / "summary.json", json.dumps(said, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        self._drawing.add(said, drawn, own)
        self._parts.append({"summary": said, "curves": drawn})

    @property
    def summaries(self) -> dict[str, dict[str, Any]]:
        """By experiment."""
        return {part["summary"]["experiment"]: part["summary"] for part in self._parts}

    def __enter__(self) -> Publication:
        self._drawing.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        if failure == (None, None, None):
            _write_text(self._folder / "report.html", report.page(self._parts))
        self._drawing.__exit__(*failure)


def found(folder: Path) -> list[Experiment]:
    """The experiments a folder has results of."""
    return [each for each in EXPERIMENTS.values() if (folder / each.name / "results.parquet").is_file()]


def chosen(names: Iterable[str]) -> list[Experiment]:
    """Experiments by name; all of them if none is named."""
    for name in names:
        if name not in EXPERIMENTS:
            raise ValueError(f"reproduce: experiments are {', '.join(EXPERIMENTS)}; got {name!r}.")
    return [each for name, each in EXPERIMENTS.items() if name in (set(names) or EXPERIMENTS)]


def _write_text(path: Path, text: str) -> None:
    write_whole(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))
