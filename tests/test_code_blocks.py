"""Every code block of the site is run by the build or by the tests, and this file says by whom.

The language of a block decides:

- `python` that begins with `>>>` is a doctest: pytest collects its page, or tests/integrations/test_numpyro.py runs it.
- Other `python` has a comment above it, and a test that runs the blocks with that comment on that page (`NAMED`).
- `bash` is commands, one a line; this file runs them. `gladstorm …` runs with fewer steps and seeds, in this process.
  What takes long is read as the program reads it, and not run: `python -m evidence …`, commands with `--workers`, and
  those on pages of studies. `python FILE` runs at a small size. `make` must know the target, and `pip install` names
  extras we have.
- `text` is output, `math` a formula (tests/test_formulas.py). `{name}` is a directive, which the build reads.

The gallery is run by the build, docstrings by pytest. Of commands within a sentence, names and options must exist.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from command_lines import commands

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = set(PYPROJECT["project"]["optional-dependencies"])
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for folder in ("*.md", "docs/*.md", "docs/api/*.md", "docs/evidence/*/index.md")
    for path in sorted(ROOT.glob(folder))
}
DOCTESTED = {*PYPROJECT["tool"]["pytest"]["ini_options"]["testpaths"], "docs/numpyro.md"}
NAMED = {
    ("README.md", "run by the tests, make test-integrations"): "tests/integrations/test_guides.py",
    ("docs/batch.md", "run by the tests, make test-integrations"): "tests/integrations/test_guides.py",
    ("docs/cluster.md", "run by the tests, on a local cluster"): "tests/simulation/test_cluster.py",
    ("docs/lightning.md", "run by the tests, make test-integrations"): "tests/integrations/test_guides.py",
    ("docs/training.md", "run by the tests, make test-integrations"): "tests/integrations/test_guides.py",
    ("docs/numpyro.md", "run by the tests, where PyMC is installed"): "tests/integrations/test_pymc.py",
    ("docs/training.md", "run by the tests, on two processes"): "tests/test_guide.py",
}
STUDIES = "docs/evidence/"
DIRECTIVES = ("{toctree}", "{include}", "{eval-rst}", "{raw}")
SHORTER = {  # the last of two options counts
    "simulate": "--steps 20 --seeds 2",
    "compare": "--budget 40 --seeds 2 --tuning-seeds 1 --grid 1e-3,1e-2,2",
}
SMALL = {"examples/bounded_variance_counterexample.py": {"horizons": (1000,), "seeds": 2}}
FENCED = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS: dict[str, dict[str, Any]] = commands()


class Block(NamedTuple):
    page: str
    said: str  # in the comment above it
    language: str
    code: str


BLOCKS = [Block(page, *found) for page, text in PAGES.items() for found in FENCED.findall(text)]


def who_runs(block: Block) -> str:
    """Name who runs a block; nobody is the empty string."""
    if block.language == "python":
        doctest = block.code.startswith(">>> ")
        return ("doctest" if block.page in DOCTESTED else "") if doctest else NAMED.get((block.page, block.said), "")
    if block.language.startswith(DIRECTIVES):
        return "" if ".. code" in block.code else "the build"
    return {"bash": "this file", "text": "nothing to run", "math": "nothing to run"}.get(block.language, "")


def lines() -> Iterator[tuple[str, list[str]]]:
    """The commands of all `bash` blocks, with their page; `…` stands for the options of the line before."""
    for block in BLOCKS:
        whole: list[str] = []
        for line in block.code.splitlines() if block.language == "bash" else []:
            words = shlex.split(line, comments=True)
            if "…" in words:
                at = words.index("…")
                words[at : at + 1] = whole[at:]
            else:
                whole = words
            if words:
                yield block.page, words


def test_every_code_block_of_every_page_is_run() -> None:
    assert [block for block in BLOCKS if not who_runs(block)] == []
    for block in BLOCKS:
        if (block.page, block.said) in NAMED:  # not all of whose tests run wherever these do
            compile(block.code, block.page, "exec")
    outside = {page: FENCED.sub("", text) for page, text in PAGES.items()}
    assert [page for page, text in outside.items() if re.search(r"```|^~~~|^ {4,}\S|^\t", text, re.MULTILINE)] == []


def test_every_command_line_of_a_block_runs(gladstorm: Callable[..., tuple[int, str, str]]) -> None:
    run = {shlex.join(words): (page, words) for page, words in lines()}  # some stand on two pages
    assert len(run) >= 17
    for page, words in run.values():
        match words:
            case ["gladstorm", command, *options] if "--workers" not in options and not page.startswith(STUDIES):
                code, _, err = gladstorm(command, *options, *SHORTER.get(command, "").split())
                assert code == 0, (page, words, err)
            case ["gladstorm", command, *options]:
                read("gladstorm", command, options)
            case ["python", "-m", "evidence", command, *options]:
                read("evidence", command, options)
            case ["python", script]:
                runpy.run_path(str(ROOT / script))["main"](**SMALL[script])
            case ["make", target]:
                assert is_a_target(target), (page, words)
            case ["pip", "install", requirement]:
                assert can_be_installed(requirement), (page, words)
            case _:
                raise AssertionError(f"{page}: no rule runs {words}")


def test_every_command_has_an_example_that_it_accepts() -> None:
    """The page Command line shows the help."""
    for program, own in COMMANDS.items():
        for name, command in own.items():
            texts = re.findall(r"Examples?: (.*)", command.help)
            examples = [shlex.split(line.removeprefix("python -m ")) for text in texts for line in text.split("; ")]
            assert examples, name
            for words in examples:
                assert words[:2] == [program, name]
                read(program, name, words[2:])


def test_every_command_within_a_sentence_has_a_name_and_options_that_exist() -> None:
    spans = {
        (page, " ".join(span.split()))
        for page, text in PAGES.items()
        for span in re.findall(r"`((?:gladstorm|python|make|pip|torchrun)\s[^`]+)`", FENCED.sub("", text))
    }
    assert len(spans) > 40
    for page, span in spans:
        match shlex.split(span):
            case ["gladstorm", "--help" | "--version" | "key" | "sha256"]:  # the last two are keys in files
                pass
            case ["gladstorm", command, *rest]:
                assert has_options("gladstorm", command, rest), (page, span)
            case ["python", "-m", "evidence", command, *rest] if command != "NAME":
                assert has_options("evidence", command, rest), (page, span)
            case ["python", "-m", module, *_]:
                assert find_spec(module), (page, span)
            case ["python", script, *_]:
                assert (ROOT / script).exists(), (page, span)
            case ["make", target]:
                assert is_a_target(target), (page, span)
            case ["pip", "install", requirement]:
                assert can_be_installed(requirement), (page, span)
            case _:
                raise AssertionError(f"{page}: what is {span!r}?")


def test_the_page_for_research_names_every_command_that_takes_long() -> None:
    text = " ".join(PAGES["docs/start_research.md"].split())
    (words,) = re.findall(r"`--store DIR` for ((?:`\w+`(?:, | and )?)+)", text)
    long = {
        name
        for name, command in COMMANDS["gladstorm"].items()
        if any("--workers" in option.opts for option in command.params)
    }
    assert set(re.findall(r"`(\w+)`", words)) == long


def read(program: str, command: str, words: list[str]) -> None:
    """Read a command's options and values as the program does, and run nothing."""
    COMMANDS[program][command].make_context(command, list(words))


def has_options(program: str, command: str, words: list[str]) -> bool:
    """Whether a command is there and has every option among some words."""
    known = {name for option in COMMANDS[program][command].params for name in (*option.opts, *option.secondary_opts)}
    return {word for word in words if word.startswith("-")} <= known


def is_a_target(name: str) -> bool:
    """Ask make, which then only prints what it would do."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(["make", "-n", name], cwd=ROOT, env=plain, capture_output=True, check=False).returncode == 0


def can_be_installed(requirement: str) -> bool:
    """This package from a copy, since no index has it, with extras that it has."""
    match = re.fullmatch(r"\.(?:\[([a-z,]+)\])?", requirement)
    return match is not None and set((match[1] or "torch").split(",")) <= EXTRAS
