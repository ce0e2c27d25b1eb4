"""Every table of every command at four widths: as it is kept in `tables`, and without a broken word or number.

GLADSTORM_WRITE_TABLES=1 writes the tables anew; look at them before you commit.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from evidence.reproduction import command as reproduction
from evidence.tightness import command as tightness
from evidence.tightness import page as tightness_page
from evidence.verification import command as verification
from evidence.verification.page import load
from gladstorm.cli import suite, worst
from gladstorm.cli.output import Table, fit, show, wrap
from gladstorm.comparison.scores import interval, positive_interval
from gladstorm.diagnosis import Probe, Probes
from gladstorm.simulation.configurations import Configuration

Said = Callable[..., tuple[int, str, str]]
WIDTHS = (60, 80, 120, 200)
KEPT = Path(__file__).parent / "tables"
EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"

LINES = {
    "simulate": (
        "simulate --objective power:3 --dim 2 --start 3 --B 0.5 --G 0.5 --steps 50 --seeds 3 --quiet --method "
        "nsgdm(gamma=5e-3,eta=0.01) --method sgd(gamma=[1e-4,1e-3]) --method "
        "storm(eta=0.5)+three_way_clipped(gamma=0.1,c0=[1,2],c1=1) --method sgd(gamma=100)"
    ),
    "compare": (
        "compare --objective power:3 --dim 2 --start 3 --B 0.5 --G 0.5 --budget 200 --seeds 4 --grid 0.001,0.1,3 "
        "--quiet --method nstorm(eta=0.1) --method sgd --method nsgdm(eta=0.5)"
    ),
    "plan": "plan nstorm --alpha 0.5 --L0 1.5 --L1 0.25 --B 0.4 --G 0.7 --gap 3 --horizon 10000 --compare",
    "table": "table",
    "table-constants": "table --constants",
    "methods": "methods",
}


def _suite() -> None:
    result = json.loads((EVIDENCE / "suite" / "suite.json").read_text())
    suite._print(result | {"cases": result["cases"][:2]})


def _worst() -> None:
    rows = tightness_page.load(EVIDENCE / "tightness").rows
    show(worst._table(tightness_page.problems(rows)["nstorm-smooth-bg0.json"]))


def _reproduction() -> None:
    summary = json.loads((EVIDENCE / "reproduction" / "cubic" / "summary.json").read_text())
    reproduction._show_verdicts({"cubic": summary}, verbose=False)


def _verbose() -> None:
    summary = json.loads((EVIDENCE / "reproduction" / "cubic" / "summary.json").read_text())
    reproduction._show_verdicts({"cubic": summary}, verbose=True)


def _verification() -> None:
    verification._print(load(EVIDENCE / "verification"), [])


def _tightness() -> None:
    tightness._show_table(tightness_page.load(EVIDENCE / "tightness"))


FROM_RESULTS = {
    "suite": _suite,
    "worst": _worst,
    "reproduction": _reproduction,
    "reproduction-verbose": _verbose,
    "tightness": _tightness,
    "verification": _verification,
}
COMMANDS = [*LINES, "diagnose", *FROM_RESULTS]


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator, path = np.random.default_rng(0), tmp_path_factory.mktemp("probes") / "run.parquet"
    rows = [
        Probe(i, i, "path", r, 4, 8, 0.25 * (1 + r * r) * generator.gamma(9) / 9, 1.0, 0.1, 1.2, 1.0)
        for i, r in enumerate(np.linspace(0, 4, 96).tolist())
    ]
    Probes.of(rows, ["Dropout is part of the noise."]).save(path)
    return path


@pytest.fixture(scope="module")
def kept() -> dict[tuple[str, int | None], str]:
    """What was printed before: no command runs twice at one width."""
    return {}


@pytest.fixture
def printed(
    gladstorm: Said,
    probes: Path,
    kept: dict[tuple[str, int | None], str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str, int | None], str]:
    """What a command prints at a width; without one, as into a pipe."""

    def at(name: str, width: int | None) -> str:
        if (name, width) not in kept:
            kept[name, width] = run_at(name, width)
        return kept[name, width]

    def run_at(name: str, width: int | None) -> str:
        monkeypatch.delenv("COLUMNS", raising=False)
        if width is not None:
            monkeypatch.setenv("COLUMNS", str(width))
        if name in FROM_RESULTS:
            capfd.readouterr()
            FROM_RESULTS[name]()
            out = capfd.readouterr().out
        else:
            line = ["diagnose", str(probes), "--horizon", "1000"] if name == "diagnose" else LINES[name].split()
            code, out, err = gladstorm(*line)
            assert code == 0, err
        return "\n".join(line.rstrip() for line in out.splitlines()) + "\n"

    return at


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_the_tables_that_are_kept(printed: Callable[[str, int | None], str], name: str) -> None:
    shown = "".join(f"══ {width} columns ══\n{printed(name, width)}\n" for width in WIDTHS)
    file = KEPT / f"{name}.txt"
    if os.environ.get("GLADSTORM_WRITE_TABLES"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


def words(text: str) -> list[str]:
    return re.sub(r"[│┃━─┏┓┗┛┡┩╇┳┼├┤┴└┘]", " ", text).split()


def in_pieces(word: str) -> list[str]:
    """A method's text, cut where it may go on in the next line."""
    return re.split(r"(?<=[,+(])(?=[A-Za-z])", word)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_too_long_and_no_word_and_no_number_is_broken(
    printed: Callable[[str, int | None], str], name: str
) -> None:
    whole = words(printed(name, None))
    pieces = {piece for word in whole for piece in in_pieces(word)} | set(whole)
    for width in WIDTHS:
        shown = printed(name, width)
        assert max(map(cell_len, shown.splitlines())) <= width
        said = re.sub(r"Left out: [^.]*\.\s+A\s+wider\s+terminal\s+or\s+--json\s+shows\s+all\.", "", shown)
        broken = [word for word in words(said) if word not in pieces and not pieces.issuperset(in_pieces(word))]
        assert broken == [], width


def test_a_narrow_screen_does_without_the_least_important_columns_and_says_so(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(
        "Runs", ["method", "first", "second", "third"], [["sgd", "1.25", "2.25", "3.25"]], "A caption.", drop=(2,)
    )
    for width, columns in ((60, [0, 1, 2, 3]), (22, [0, 1, 3]), (14, [0, 1]), (8, [0])):
        assert list(fit(table, width)[0]) == columns
        monkeypatch.setenv("COLUMNS", str(width))
        show(table)
        out = " ".join(capfd.readouterr().out.split())
        left_out = [heading for k, heading in enumerate(table.headings) if k not in columns]
        assert (f"Left out: {', '.join(left_out)}." in out) == bool(left_out)
        assert "A caption." in out


def test_colour_does_not_change_the_words(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("Runs", ["method", "score"], [["nsgdm (gamma=0.1)", "1.5 ± 0.1"]], "mean ± deviation")
    monkeypatch.setenv("COLUMNS", "60")
    show(table)
    plain = capfd.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    show(table)
    coloured = capfd.readouterr().out
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize("width", [1, 2, 5, 9, 30])
def test_wrapping_loses_nothing_and_exceeds_nothing(width: int) -> None:
    for text in ("", "storm(eta=0.5)+clipped(gamma=0.1,c=[1,2])", "0.1 [0.05, 0.2]", "a word and another", "‖∇f‖ ± 1"):
        lines = wrap(text, width).splitlines()
        assert all(len(line) <= width for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_label_says_every_number_once() -> None:
    swept = Configuration("sgd(gamma=[1e-4,1e-3],batch=2)", {"gamma": 1e-4, "size": 2.0}, ("gamma",))
    assert swept.text == "sgd(gamma=0.0001,batch=2)"
    assert Configuration("nsgdm(gamma=grid(1e-3,1,4))", {"gamma": 1e-3, "eta": 0.1}, ("gamma", "eta")).text == (
        "nsgdm(gamma=0.001) (eta=0.1)"
    )
    assert Configuration("SGD", {"gamma": 0.5}, ("gamma",)).text == "SGD (gamma=0.5)"


def test_an_interval_of_norms_is_positive_and_that_of_student_to_first_order() -> None:
    wide, narrow = np.array([0.01, 0.02, 1.0]), 1 + 1e-4 * np.array([-1.0, 0.0, 2.0])
    assert interval(wide)["low"] < 0 < positive_interval(wide)["low"] < wide.mean() < positive_interval(wide)["high"]
    for end in ("low", "high"):
        assert positive_interval(narrow)[end] == pytest.approx(interval(narrow)[end], abs=1e-6)
    assert positive_interval(np.array([0.0, 1.0])) == interval(np.array([0.0, 1.0]))
    assert positive_interval(np.array([1.0])) == {"mean": 1.0, "low": None, "high": None}
    assert positive_interval(np.array([1.0, np.inf])) == {"mean": None, "low": None, "high": None}
