"""A notebook, executed: what results show of themselves there."""

from __future__ import annotations

import io
import re
from base64 import b64decode
from typing import Any

import numpy as np
import pytest

nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel: make test-integrations")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

SETTING = """
import numpy as np
import gladstorm as gs
from gladstorm.diagnosis import Probe, Probes, diagnose

oracle = gs.BlumGladyshev(gs.objectives.named("quadratic", dim=2, start=1.0), B=0.1, G=0.1)
rng, nothing = np.random.default_rng(0), (np.nan, np.nan, np.nan)
at = np.linspace(0, 3, 48)
probes = [Probe(i, i, "random", r, 4, 8, (1 + r * r) * rng.uniform(0.5, 1.5), 1.0, *nothing) for i, r in enumerate(at)]
"""
RESULTS = {
    "record": "record = gs.run(oracle, gs.nsgdm(gamma=0.01, eta=0.1), steps=2000, seeds=2)\nrecord",
    "compared": "gs.compare(oracle, {'SGD': gs.sgd([0.01, 0.1])}, budget=20, seeds=2)['SGD']",
    "plan": "gs.theory.plan('nstorm', horizon=1000, alpha=0, L=2.0, B=0.4, G=0.7, gap=3.0)",
    "report": "diagnose(Probes.of(probes))",
}


@pytest.fixture(scope="module")
def executed() -> dict[str, list[Any]]:
    """The outputs of every cell."""
    cells = {"setting": SETTING, **RESULTS, "last": "record.plot()"}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells.values()])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return {name: cell.outputs for name, cell in zip(cells, notebook.cells, strict=True)}


def html_of(outputs: list[Any]) -> str:
    (result,) = [each for each in outputs if each.output_type == "execute_result"]
    return str(result.data["text/html"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("record", "Record: 1 configuration"),
        ("compared", "20 stochastic gradients"),
        ("plan", "Plan: NSTORM for T = 1,000 iterates"),
        ("report", "48 probes up to 3 from the start"),
    ],
)
def test_a_result_shows_a_table_and_a_small_picture(executed: dict[str, list[Any]], name: str, said: str) -> None:
    from matplotlib.image import imread

    shown = html_of(executed[name])
    assert said in shown
    assert shown.count("<table>") == 1
    (png,) = re.findall(r'<img alt="[^"]+" [^>]*src="data:image/png;base64,([^"]+)">$', shown)
    picture = imread(io.BytesIO(b64decode(png)))
    assert np.ptp(picture[..., :3]) > 0.5  # something is drawn
    assert len(png) < 200_000


def test_a_figure_shows_itself_too(executed: dict[str, list[Any]]) -> None:
    assert "image/png" in executed["last"][0].data


def test_no_cell_fails_and_short_work_shows_no_progress(executed: dict[str, list[Any]]) -> None:
    outputs = [each for cell in executed.values() for each in cell]
    assert [each for each in outputs if each.output_type == "error"] == []
    assert [each.text for each in outputs if each.output_type == "stream"] == ["compare: 1 of 1 methods, SGD …\n"]
