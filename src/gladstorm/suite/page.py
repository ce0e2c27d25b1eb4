"""The suite as a page to explore: the reported runs of every case, the curves over all of them, and the tables."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from gladstorm.plotting.explore import Setting, explore
from gladstorm.simulation.record import Record
from gladstorm.suite import tables
from gladstorm.suite.result import SuiteResult
from gladstorm.suite.running import BASELINES, over_cases

FACTORS, SHARES = np.geomspace(1, 100, 61), np.linspace(0, 1, 51)


def suite_page(result: SuiteResult, runs: Sequence[tuple[Setting, Record]], path: str | os.PathLike[str]) -> None:
    """Write the page of what `run` returned and of the runs that `on_case` was given, each with problem and budget."""
    longest, rows = max(result.config.budgets), result.methods
    shares = over_cases(result, FACTORS, SHARES)
    within = {"title": "Share of cases within a factor of the best ‖∇f‖", "across": "factor"}
    reached = {"title": "Share of runs that have reached their target", "across": "stochastic gradients"}
    axes = {"within": (within, FACTORS, {"x": True}), "reached": (reached, SHARES * longest, {})}
    charts = [
        {
            "id": name,
            **words,
            "logs": logs,
            "series": [_series(k, at, shares[row][place]) for k, row in enumerate(rows)],
        }
        for place, (name, (words, at, logs)) in enumerate(axes.items())
    ]
    listed = [(tables.title(result, case), tables.of_case(result, case)) for case in result.cases]
    listed = [("Over all cases", tables.over_cases(result)), *listed]
    explore(
        runs,
        path,
        title=f"Suite of {len(result.problems)} problems, {len(rows)} methods, each as tuned",
        command=lambda setting, _numbers, name: _command(setting, rows[name].text),
        more={
            "charts": charts,
            "tables": [{"title": title, "rows": [headings, *cells]} for title, (headings, cells) in listed],
            "sentences": [f"{each.deed.capitalize()}? {tables.sentence(each)}" for each in result.answers],
        },
    )


def _series(method: int, at: np.ndarray, shares: np.ndarray) -> dict[str, Any]:
    return {"method": method, "rows": np.stack([at, shares], axis=1).tolist()}


def _command(setting: Setting, text: str) -> dict[str, Any]:
    options = [["gladstorm suite", ""], ["--problem", setting["problem"]], ["--budget", str(setting["budget"])]]
    return {"options": options, "method": "" if text in BASELINES.values() else text}
