"""What becomes of a study's command: its exit code, its figures, its page, and the folders it made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from evidence import study
from gladstorm.cli.app import AsJson


class Drawn:
    """A page that notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def load(self, folder: Path) -> dict[str, str]:
        self.asked.append("load")
        return {"text": (folder / "results").read_text("utf-8")}

    def draw(self, _: Path) -> None:
        self.asked.append("draw")

    def render(self, results: dict[str, str]) -> str:
        return f"The page of {results['text']}"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    drawn = Drawn()
    monkeypatch.setattr(study, "page_of", lambda _: drawn)
    return drawn


def _run(what: Callable[[Path], Any], *options: str) -> int:
    """The exit code of a study that does this with its folder."""
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command("small", cls=study.StudyCommand)
    def command(out: study.Out, as_json: AsJson = False) -> Any:  # StudyCommand reads the second
        return what(out)

    code: int = typer.main.get_command(app).main([*options], standalone_mode=False)
    return code


def _written(out: Path, returned: object = None, code: int | None = None) -> object:
    (out / "results").write_text("results")
    if code is not None:
        raise typer.Exit(code)
    return returned


def test_a_study_that_fails_a_check_has_a_page_and_keeps_its_exit_code(page: Drawn) -> None:
    assert _run(lambda out: _written(out, code=study.CHECK_FAILED)) == study.CHECK_FAILED == 1
    assert (Path("out/small") / study.PAGE).read_text() == "The page of results"
    assert page.asked == ["draw", "load"]


@pytest.mark.parametrize("code", [0, 2, 130])
def test_a_study_that_ends_in_another_way_has_no_page(page: Drawn, code: int) -> None:
    assert _run(lambda out: _written(out, code=code), "--out", "a/b") == code
    assert [path.name for path in Path("a/b").iterdir()] == ["results"]
    assert not page.asked


@pytest.mark.parametrize("returned", [True, False, None, 1])
def test_figures_are_drawn_unless_the_study_says_that_it_has(page: Drawn, returned: object) -> None:
    assert _run(lambda out: _written(out, returned)) == 0
    assert page.asked == (["load"] if returned is True else ["draw", "load"])


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
