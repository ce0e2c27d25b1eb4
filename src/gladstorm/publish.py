"""A folder of results to what people read: summary.json, figures and report.html. Nothing is simulated here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gladstorm import figures, report
from gladstorm.experiments import EXPERIMENTS, Experiment, Results, summary
from gladstorm.experiments.summary import curves
from gladstorm.files import write_whole


def publish(folder: Path, experiments: Sequence[Experiment]) -> dict[str, dict[str, Any]]:
    """Write every output that follows from `folder`/NAME/results.parquet; the summaries by experiment."""
    parts = []
    for experiment in experiments:
        own = folder / experiment.name
        results = Results.load(own / "results.parquet")
        said, drawn = summary(experiment, results), curves(results)
        _write_text(own / "summary.json", json.dumps(said, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        pictures = {
            "figure": figures.comparison(said, drawn, "main"),
            "budget": figures.comparison(said, drawn, "budget"),
            "sensitivity": figures.sensitivity(said),
        }
        for name, figure in pictures.items():
            for suffix in (".png", ".pdf"):
                figures.save(figure, own / f"{name}{suffix}")
        parts.append({"summary": said, "curves": drawn})
    _write_text(folder / "report.html", report.page(parts))
    return {part["summary"]["experiment"]: part["summary"] for part in parts}


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
