"""What becomes of a study's command: its exit code, its figures, its page, and the folders it made."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from evidence import study


@dataclass(frozen=True)
class Words:
    text: str


class Drawn:
    """A page that notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def load(self, folder: Path) -> Words:
        self.asked.append("load")
        return Words((folder / "results").read_text("utf-8"))

    def draw(self, _: Path) -> None:
        self.asked.append("draw")

    def render(self, results: Words) -> str:
        return f"The page of {results.text}"

    def print_tables(self, _: Words) -> None:
        self.asked.append("print")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    drawn = Drawn()
    monkeypatch.setattr(study, "page_of", lambda _: drawn)
    return drawn


def _run(what: Callable[[Path], Any], *options: str) -> int:
    """The exit code of a study that does this with its folder."""
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command("small", cls=study.StudyCommand)
    def command(out: study.Out) -> None:
        what(out)

    code: int = typer.main.get_command(app).main([*options], standalone_mode=False)
    return code


def _written(out: Path, code: int | None = None) -> None:
    (out / "results").write_text("results")
    if code is not None:
        raise typer.Exit(code)


def test_a_study_that_fails_a_check_has_a_page_and_keeps_its_exit_code(page: Drawn) -> None:
    assert _run(lambda out: _written(out, code=study.CHECK_FAILED)) == study.CHECK_FAILED == 1
    assert (Path("out/small") / study.PAGE).read_text() == "The page of results"
    assert page.asked == ["draw", "load", "print"]


@pytest.mark.parametrize("code", [0, 2, 130])
def test_a_study_that_ends_in_another_way_has_no_page(page: Drawn, code: int) -> None:
    assert _run(lambda out: _written(out, code=code), "--out", "a/b") == code
    assert [path.name for path in Path("a/b").iterdir()] == ["results"]
    assert not page.asked


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_run_ends_with_its_figures_its_page_and_its_tables_or_json(page: Drawn, options: tuple[str, ...]) -> None:
    assert _run(_written, *options) == 0
    assert page.asked == ["draw", "load"] + ["print"] * (not options)


def test_page_only_computes_nothing_and_draws_always(page: Drawn, capsys: pytest.CaptureFixture[str]) -> None:
    Path("there").mkdir()
    Path("there/results").write_text("older results")
    assert _run(lambda _: pytest.fail("computed"), "--out", "there", "--page-only") == 0
    assert page.asked == ["draw", "load"]
    assert (Path("there") / study.PAGE).read_text() == "The page of older results"
    assert capsys.readouterr().out == "Results, figures and the page index.md are in there.\n"
    assert _run(lambda _: pytest.fail("computed"), "--out", "there", "--page-only", "--json") == 0
    assert capsys.readouterr().out == '{\n "text": "older results"\n}\n'


def test_a_study_that_refuses_leaves_no_folder_it_made_and_every_other(page: Drawn) -> None:
    def refuse(out: Path) -> None:
        assert out.is_dir()
        raise ValueError("refused")

    Path("kept").mkdir()
    for out in ("new/deep/deeper", "kept/new", "kept"):
        with pytest.raises(ValueError, match="refused"):
            _run(refuse, "--out", out)
        assert [str(path) for path in Path().rglob("*")] == ["kept"]
    assert not page.asked
