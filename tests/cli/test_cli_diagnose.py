"""`gladstorm diagnose`: a file of probes in, a report out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from browser import chromium, opened
from gladstorm.diagnosis import Probe, Probes, diagnose

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def probes(tmp_path: Path) -> Path:
    """Noise 0.25 (1 + r²) with errors of a third, along a path."""
    generator = np.random.default_rng(0)
    rows = [
        Probe(i, i, "path", r, 4, 8, 0.25 * (1 + r * r) * generator.gamma(9) / 9, 1.0, 0.1, 1.2, 1.0)
        for i, r in enumerate(np.linspace(0, 4, 96).tolist())
    ]
    path = tmp_path / "run.parquet"
    Probes.of(rows, ["Dropout is part of the noise."]).save(path)
    return path


def test_the_table_figure_and_page_say_the_same(gladstorm: Command, probes: Path, tmp_path: Path) -> None:
    figure, page = tmp_path / "noise.png", tmp_path / "noise.html"
    code, out, _ = gladstorm("diagnose", str(probes), "--plot", str(figure), "--page", str(page))
    assert code == 0
    assert "96 probes up to 4 from the start" in out
    assert "Dropout is part of the noise." in out
    assert "Advice: At the end of your path, 4 away, the variance is" in out
    assert figure.read_bytes().startswith(b"\x89PNG")
    with chromium(tmp_path / "profile") as browser:
        shown = opened(browser, page)
        assert shown.requests() == [page.as_uri()]
        assert "Advice: At the end of your path, 4 away, the variance is" in shown.run(
            "return document.getElementById('words').innerText"
        )
        cells = shown.run("return [...document.querySelectorAll('#words tbody tr')].map((e) => e.innerText)")
        assert [row.split("\t")[:3] for row in cells] == [list(row[:3]) for row in diagnose(Probes.load(probes)).rows]
        drawn = "return charts[0].view.data('rows').filter(({s}) => s === arguments[0]).map(({x, y}) => [x, y])"
        read = Probes.load(probes)
        dots = [[float(f"{x:.4g}"), float(f"{y:.4g}")] for x, y in zip(read.distance, read.noise, strict=True)]
        assert sorted(shown.run(drawn, 0)) == sorted(dots)
        fit = np.array(shown.run(drawn, 1))
        np.testing.assert_allclose(fit[:, 1], 0.25 * (1 + fit[:, 0] ** 2), rtol=0.2)
        shown.run("document.querySelector('#gradient .chart').focus()")
        shown.keys("+")  # every chart of such a page has a zoom of its own
        assert shown.run("return [state['zoom-gradient'] !== '', state['zoom-noise']]") == [True, ""]
        shown.run("document.getElementById('reset').click()")
        assert shown.run("return state['zoom-gradient']") == ""
        shown.run("document.querySelectorAll('#methods button')[0].click()")
        assert shown.run(drawn, 0) == []
        assert shown.log("browser") == []


def test_neither_a_remark_nor_a_file_name_reaches_the_terminal_as_an_escape_sequence(
    gladstorm: Command, probes: Path
) -> None:
    hostile = "\x1b[2J\x9b31m<script>\x7f\u202e"
    read = Probes.load(probes)
    Probes(**{**vars(read), "remarks": (hostile,)}).save(probes)
    _, text, _ = gladstorm("diagnose", str(probes), "--page", "page.html")
    _, data, _ = gladstorm("diagnose", str(probes), "--json")
    report = str(diagnose(Probes.load(probes)))
    page = Path("page.html").read_text("utf-8")
    code, _, error = gladstorm("diagnose", f"{hostile}.parquet")
    assert code == 2
    for said in (text, data, report, page, error):
        assert not set(hostile) & set("\x1b\x9b\x7f\u202e") & set(said)
        assert "x1b[2J" in said
    assert "31m<script>" not in page


def test_code_to_copy_stays_on_one_line_on_a_narrow_screen(
    gladstorm: Command, probes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = gladstorm("diagnose", str(probes))
    actions = diagnose(Probes.load(probes)).recommend().actions
    assert actions
    for library, code in actions.items():
        assert all(f"{library}: {line}\n" in out for line in code.splitlines())
