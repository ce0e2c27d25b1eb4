"""One protocol for all studies: declare → run → results → figures and page.

A study is a folder of `evidence`; adding one touches nothing else. It has

- `__init__.py`, whose docstring begins with one line that says what the study asks;
- `command.py` with `command`, a function that runs the study and writes its results into the folder `out`. Its
  arguments are the options of `python -m evidence NAME` beside --out, --json and --page-only, which every study has.
  `WORK` names what takes long in it, inside the study's folder;
- `page.md`, the template of the page, and `page.py` with `load(folder)`, which reads these results; `draw(folder)`,
  which draws the figures; `render(results)`, the page: the template with the values it names; and perhaps
  `print_tables(results)`, which a run ends with.

What is published is in docs/evidence/NAME: results, figures and the page, index.md. The site lists every such page, and
one test compares all of them with the results beside them.
"""

import ast
import contextlib
import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

import typer
from typer.core import TyperOption

from gladstorm.cli.app import CommandWithProgress
from gladstorm.cli.job import require_folder, require_matplotlib, require_store
from gladstorm.cli.output import show_json
from gladstorm.core.results import to_json
from gladstorm.jobs import interrupts

HERE = Path(__file__).parent
PUBLISHED = HERE.parent / "docs" / "evidence"
PAGE = "index.md"
CHECK_FAILED = 1  # the exit code

Quick = Annotated[
    bool, typer.Option("--quick", help="A small trial of the program, in seconds or minutes: no evidence.")
]
Seed = Annotated[int, typer.Option("--seed", help="The first seed: all random numbers follow from it.")]
Out = Annotated[Path, typer.Option(hidden=True)]  # StudyCommand adds it, with the study's own default


class StudyPage(Protocol):
    """The functions of page.py of a study."""

    def load(self, folder: Path) -> Any:
        """Read the results that the command wrote."""

    def draw(self, folder: Path) -> None:
        """Draw the figures of the page."""

    def render(self, results: Any) -> str:
        """The page, in Markdown."""


def names() -> list[str]:
    """The names of all studies: every folder with a command."""
    return sorted(path.parent.name for path in HERE.glob("*/command.py"))


def about(name: str) -> str:
    """Return the question of a study: the first line of its docstring, read without importing it."""
    text = ast.get_docstring(ast.parse((HERE / name / "__init__.py").read_text("utf-8")))
    if not text:
        raise ValueError(f"evidence: __init__.py of {name} must begin with a docstring that says what the study asks.")
    return text.splitlines()[0]


def page_of(name: str) -> StudyPage:
    """The module that makes the page of a study."""
    return cast(StudyPage, importlib.import_module(f"evidence.{name}.page"))


def write_page(name: str, folder: Path) -> Any:
    """Draw the figures and write the page of a study from the results in a folder; return these."""
    from gladstorm.jobs.files import write_text

    page = page_of(name)
    try:
        page.draw(folder)
        results = page.load(folder)
    except FileNotFoundError as missing:
        file = Path(str(missing.filename)).name
        raise ValueError(
            f"{name}: the folder must hold results of the study; got {str(folder)!r} without {file}."
        ) from None
    write_text(folder / PAGE, page.render(results))
    return results


def kept_in(study: str, out: Path, store: Path | None, folder: str, *, files: Iterable[str]) -> Path:
    """The folder that keeps finished parts: --store, or one in --out; refuse what is in its way or of files there."""
    require_store(study, store)
    require_folder(study, "--out", out, folders=[folder] if store is None else [], files=files)
    return store or out / folder


@contextlib.contextmanager
def _folder(out: Path) -> Iterator[None]:
    """Make a folder and those above it; what a study leaves empty, as one that refuses an option does, goes again."""
    new = [folder for folder in (out, *out.parents) if not folder.exists()]
    out.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # one that is not empty
            for folder in new:
                folder.rmdir()


class StudyCommand(CommandWithProgress):
    """The command of a study: what `command` computes, then its figures and its page."""

    def __init__(self, *arguments: Any, name: str, params: list[Any], **options: Any) -> None:
        self._study = name
        own = [param for param in params if param.name not in ("out", "page_only")]
        out = TyperOption(
            param_decls=["--out"],
            type=Path,
            default=Path("out") / name,
            show_default=True,
            help="Folder for results, figures and page; the same command resumes there.",
        )
        page_only = TyperOption(
            param_decls=["--page-only"], is_flag=True, help="Draw figures and page again from the results in --out."
        )
        as_json = TyperOption(
            param_decls=["as_json", "--json"], is_flag=True, help="Print the results as JSON instead of tables."
        )
        super().__init__(*arguments, name=name, params=[*own, out, page_only, as_json], **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the study unless only the page is asked for; a study that fails a check has a page too."""
        out, code = ctx.params["out"], 0
        as_json, only_page = ctx.params.pop("as_json"), ctx.params.pop("page_only")
        require_matplotlib(self._study)
        if only_page:
            if not out.is_dir():
                raise ValueError(
                    f"{self._study}: --out must be a folder with results for --page-only; got {str(out)!r}."
                )
            interrupts.set_kept_message(f"the results in {out} are as they were; the same command draws again")
        else:
            require_folder(self._study, "--out", out, folders=[], files=[PAGE])
            try:
                with _folder(out):
                    super().invoke(ctx)
            except typer.Exit as end:
                if end.exit_code != CHECK_FAILED:
                    raise
                code = end.exit_code
        try:
            results = write_page(self._study, out)
        except KeyError as problem:
            if not only_page:
                raise
            raise ValueError(
                f"{self._study}: --out must have all results for --page-only, of this version; {problem} is missing in "
                f"{str(out)!r}. The same command without --page-only goes on with a study, or name another --out."
            ) from problem
        if as_json:
            show_json(to_json(results), indent=1)
        else:
            if not only_page and (tables := getattr(page_of(self._study), "print_tables", None)):
                tables(results)
            typer.echo(f"Results, figures and the page {PAGE} are in {out}.")
        raise typer.Exit(code)
