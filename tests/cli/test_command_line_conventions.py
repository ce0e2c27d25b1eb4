"""How the command line behaves wherever it stands: help, version, pipes, narrow and ASCII terminals, silence."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import pytest

import gladstorm as gs
from evidence import study
from fuzz_command_line import work_of_studies
from gladstorm import suite, worst
from gladstorm.cli.output import Table, _in_ascii, show
from gladstorm.comparison import compare as comparison
from gladstorm.simulation import simulate as simulating

Said = Callable[..., tuple[int, str, str]]

COMMANDS = ("simulate", "compare", "diagnose", "methods", "plan", "table", "suite", "worst")
SHORT = ("diagnose", "methods", "plan", "table")
STUDIES = study.names()
LINES = [*(f"gladstorm {name}" for name in COMMANDS), *(f"evidence {name}" for name in STUDIES)]
SMALL = "simulate --objective cauchy --dim 2 --method sgd --gamma 0.1 --steps 5 --seeds 2".split()
NAMES = ("nsgdm(eta=[0.5])", "storm(eta=0.5)+three_way_clipped(gamma=0.1,c0=[1,2],c1=1):smile:[/red]")
PLAN = "plan nstorm --alpha 0.5 --L0 1.5 --L1 0.25 --B 0.4 --G 0.7 --gap 3 --horizon 10000 --gamma0 0.09".split()


@pytest.fixture
def said(gladstorm: Said, evidence: Said) -> Said:
    """A line in this process; its first word is the program."""
    programs = {"gladstorm": gladstorm, "evidence": evidence}
    return lambda line, *more: programs[line.split()[0]](*line.split()[1:], *more)


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "gladstorm", *arguments]
    return subprocess.run(command, capture_output=True, env=os.environ | environment, check=False)


def test_the_version_is_the_package_s(gladstorm: Said) -> None:
    assert gladstorm("--version") == (0, f"gladstorm {gs.__version__}\n", "")
    code, out, err = gladstorm("--version", "--json")
    told = json.loads(out)
    assert (code, err, told["gladstorm"]) == (0, "", gs.__version__)
    assert told["packages"]["jax"] == jax.__version__
    assert told["packages"]["lightning"] is None or find_spec("lightning")
    assert told["devices"]["torch"][0] == "cpu"
    assert gladstorm("--json")[0] == 2


@pytest.mark.parametrize(("program", "known"), [("gladstorm", COMMANDS), ("evidence", STUDIES)])
def test_without_a_command_the_help_is_shown_and_lists_every_command_in_whole_sentences(
    said: Said, program: str, known: tuple[str, ...]
) -> None:
    code, out, err = said(program)
    assert (code, err) == (0, "")
    assert out == said(f"{program} --help")[1]
    _, *told = re.split(r"^  (?=[a-z])", out.partition("Commands:")[2], flags=re.MULTILINE)
    assert sorted(each.split()[0] for each in told) == sorted(known)
    assert [each for each in told if not each.rstrip().endswith(".") or each.rstrip().endswith("...")] == []


@pytest.mark.parametrize("line", ["gladstorm", "evidence", *LINES])
def test_h_is_help_everywhere(said: Said, line: str) -> None:
    code, out, err = said(f"{line} -h")
    assert (code, out, err) == said(f"{line} --help")
    assert (code, err) == (0, "")
    assert "Usage: " in out


def test_a_shell_completes_commands_and_options() -> None:
    for words, completed in (("gladstorm comp", "compare"), ("gladstorm simulate --obj", "--objective")):
        asked = {"_GLADSTORM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert process(**asked).stdout.decode().split() == [completed]


@pytest.mark.parametrize("arguments", [["methods", "--json"], ["table"], ["-h"]])
def test_a_closed_pipe_ends_a_command_without_a_word(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "gladstorm", *arguments]
    with os.fdopen(writer) as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_every_terminal_can_print_tables_help_json_and_errors(encoding: str) -> None:
    ascii_only = {"PYTHONIOENCODING": encoding}
    table, shown, bad = process(*PLAN, **ascii_only), process("plan", "-h", **ascii_only), process("plan", **ascii_only)
    assert (table.returncode, shown.returncode, bad.returncode) == (0, 0, 2)
    texts = [done.stdout.decode(encoding) + done.stderr.decode(encoding) for done in (table, shown, bad)]
    assert ("E||grad f(x^)||" if encoding != "utf-8" else "E‖∇f(x̂)‖") in texts[0]
    assert ("gamma0; default" if encoding != "utf-8" else "γ0; default") in texts[1]
    rows = [line for line in texts[0].splitlines() if line.startswith(("|", "│"))]
    assert len({len(line) for line in rows if "T^-0." in line}) == 1  # spelled out before columns are measured
    answer = json.loads(process("table", "--json", **ascii_only).stdout.decode(encoding))
    assert answer == [row.as_dict() for row in gs.theory.rows()]


def test_every_character_of_the_sources_has_a_spelling_in_ascii() -> None:
    sources = Path(gs.__file__).parent.rglob("*.py")
    characters = {character for path in sources for character in path.read_text(encoding="utf-8")}
    characters -= set("漢")  # the example of one that has none
    spelled = {character: _in_ascii(character) for character in characters}
    assert all(each.isascii() for each in spelled.values())
    assert not [character for character, each in spelled.items() if each == "?" != character]


def test_a_piped_table_cuts_nothing_and_obeys_columns(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(columns: int | None) -> str:
        monkeypatch.delenv("COLUMNS", raising=False)
        if columns is not None:
            monkeypatch.setenv("COLUMNS", str(columns))
        show(Table("Methods", ["method", "and its price"], [(name, "many stochastic gradients") for name in NAMES]))
        return capfd.readouterr().out

    for columns in (None, 0):
        assert all(name in shown(columns) for name in NAMES)
    for columns in (30, 60):
        assert max(map(len, shown(columns).splitlines())) <= columns
        framed = [line.split("│")[1].strip() for line in shown(columns).splitlines() if line.startswith("│")]
        body = shown(columns).partition("──\n")[2].partition("Left out")[0]
        cells = framed or [line.split()[0] for line in body.splitlines() if not line.startswith(" ")]
        assert "".join(cells) == "".join(NAMES)


def test_quiet_leaves_standard_error_to_errors(gladstorm: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gladstorm.jobs.progress.QUIET_SECONDS", -1.0)  # progress is shown from the first call on
    monkeypatch.setattr("gladstorm.jobs.progress.LINE_SECONDS", -1.0)
    tuned = (
        "compare --objective cauchy --dim 2 --method sgd --grid 0.1,1,2 --budget 400 --seeds 2 --tuning-seeds 1".split()
    )
    for arguments in ([*SMALL, "--steps", "3000"], tuned):
        loud, silent = gladstorm(*arguments), gladstorm(*arguments, "--quiet")
        assert loud[2] != ""
        assert silent == (0, loud[1], "")
        assert gladstorm(*arguments, "--quiet", "--seeds", "0")[2].startswith("Error: ")


@pytest.mark.parametrize("line", [each for each in LINES if each.split()[1] not in SHORT])
def test_every_long_command_can_be_quiet(said: Said, line: str) -> None:
    assert "-q, --quiet" in said(f"{line} -h")[1]


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that takes time fails: what is refused must be refused before it."""

    def worked(*_: Any, **__: Any) -> Any:
        raise AssertionError("the work had begun")

    for module, name in (
        (simulating, "sweep"),
        (comparison, "compare"),
        (suite, "run"),
        (worst, "worst"),
        (worst, "again"),
        (gs.objectives.Cauchy, "from_seed"),
        (gs.theory, "plan"),
    ):
        monkeypatch.setattr(module, name, worked)
    for work in work_of_studies():
        monkeypatch.setattr(work, worked)


WORST = "gladstorm worst nsgdm --alpha 0 --L0 1 --B 0 --G 1 --gap 1"
COMPARE = "gladstorm compare --objective cauchy --method sgd"
SIMULATE = "gladstorm simulate --objective cauchy --method sgd --gamma 1"


SHORT_PLAN = "gladstorm plan nsgdm --alpha 0 --B 0 --G 0 --gap 1 --L0 1 --horizon 9"
WITH_STORE = {  # in --out, where none is given
    "comparison": "store",
    "optimality": "store",
    "posteriors": "store",
    "reproduction": "cache",
    "suite": "store",
    "tightness": "store",
    "verification": "parts",
}


def test_every_study_whose_parts_are_kept_is_asked_about_its_store(said: Said) -> None:
    assert [name for name in STUDIES if "--store" in said(f"evidence {name} -h")[1]] == sorted(WITH_STORE)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"{COMPARE} --plot x.bmp", "compare: --plot must end in .png, .pdf, .svg; got 'x.bmp'."),
        (f"{COMPARE} --plot file/x.png", "compare: --plot must be a file in a folder that exists"),
        (f"{COMPARE} --plot folder.png", "compare: --plot must be a file in a folder that exists"),
        (
            f"{COMPARE} --budget 9007199254740993",
            "budget must be a whole number ≥ 1 and < 2⁵³; got budget=900719925474",
        ),
        (f"{SIMULATE} --save loop", "simulate: --save must be a regular file, or none yet; got 'loop'."),
        (f"{SIMULATE} --save astray", "simulate: --save must be a file in a folder that exists; got 'astray'."),
        (f"{COMPARE} --save pipe", "compare: --save must be a regular file, or none yet; got 'pipe'."),
        (f"{COMPARE} --save /proc/x.parquet", "compare: --save must be where files can be written"),
        (f"{COMPARE} --seeds 0 --dim 1000000000", "compare: seeds must be a whole number ≥ 1"),
        (f"{COMPARE} --tuning-seeds 0", "compare: tuning_seeds must be"),
        (f"{COMPARE} --budget 0", "compare: budget must be a whole number ≥ 1"),
        (f"{COMPARE} --instance -1", "compare: instance must be a whole number from 0"),
        (f"{COMPARE} --method nadam", "method: must be one of"),
        (f"{SIMULATE} --save /proc/x.parquet", "simulate: --save must be where files can be written"),
        (f"{SIMULATE} --save file/x.parquet", "simulate: --save must be a file in a folder that exists"),
        (f"{SIMULATE} --seeds 0 --dim 1000000000", "simulate: seeds must be a whole number ≥ 1; got seeds=0."),
        (f"{SIMULATE} --steps -1", "simulate: steps must be a whole number from 0"),
        (f"{SIMULATE} --instance -1", "simulate: instance must be a whole number from 0"),
        (f"{SIMULATE} --dim 0", "objective: dim must be a whole number ≥ 1"),
        (f"{SIMULATE} --dim 1000000000 --start nan", "objective: start must be"),
        ("gladstorm suite --out file", "suite: --out must be a folder; got the file 'file' in the way."),
        ("gladstorm suite --out /proc/x", "suite: --out must be where files can be written"),
        ("gladstorm suite --budget 100 --budget 0", "suite: budgets must be a whole number ≥ 1; got budgets=0."),
        ("gladstorm suite --problem cubic --problem square", "suite: problem must be one of cubic, least-squares,"),
        ("gladstorm suite --role both", "suite: role must be one of development, held-out; got 'both'."),
        ("gladstorm suite --role held-out --problem cubic", "suite: some problem must have this name and role"),
        ("gladstorm suite --method nadam", "method: must be one of"),
        ("gladstorm worst", "worst: method must be given, or --again with a file; got method=None."),
        (WORST, "worst: horizon must be given, or --again with a file; got horizon=None."),
        (f"{WORST} --again file", "worst: method must be left out, nothing uses it: the file of --again has"),
        ("gladstorm worst --again file", "worst: file is damaged or not a JSON file that Gladstorm wrote."),
        (f"{WORST} --horizon 0", "worst: horizon must be a whole number ≥ 1; got horizon=0."),
        (f"{WORST} --horizon 9 --gamma0 1 --L0 0", "worst: L0 (of nstorm with alpha = 0, L) must be > 0"),
        (f"{WORST} --horizon 9 --seeds 1", "worst: reported must be from 2 to 1,000,000 seeds; got 1."),
        (f"{WORST} --horizon 9 --kind all", "worst: kind must be one of noise, any; got 'all'."),
        (f"{WORST} --horizon 9 --out file", "worst: --out must be a folder; got the file 'file' in the way."),
        *(
            (f"evidence {name} --out {given}", f"{name}: --out must be {told}")
            for name in STUDIES
            for given, told in (
                ("file/x", "a folder; got 'file/x' with the file"),
                ("file", "a folder; got the file 'file' in the way."),
                ("/proc/x", "where files can be written; got '/proc/x'"),
            )
        ),
        *((f"evidence {name} --out paged", f"{name}: index.md in --out must be a file") for name in STUDIES),
        *((f"evidence {name} --out nowhere --page-only", f"{name}: --out must be a folder with") for name in STUDIES),
        *(
            (f"evidence {name} --store file/x", f"{name}: --store must be a folder; got 'file/x' with the file")
            for name in WITH_STORE
        ),
        *(
            (f"evidence {name} --out occupied", f"got 'occupied' with the file 'occupied/{folder}' in the way.")
            for name, folder in WITH_STORE.items()
        ),
        ("evidence reproduction --quick --out occupied/figures", "with the file 'occupied/figures/cubic' in the way."),
        ("evidence suite --out taken", "suite: suite.json in --out must be a file"),
        ("evidence verification --out taken", "verification: verify.json in --out must be a file"),
        ("evidence reproduction --out taken", "reproduction: report.html in --out must be a file"),
        (
            "evidence reproduction square --out new",
            "reproduction: experiments are phase-retrieval, cubic; got 'square'.",
        ),
        ("evidence reproduction --seeds 0 --out new/x", "reproduction: seeds must be"),
        ("evidence verification --seed -1 --out new", "verification: seed must be"),
        ("evidence calibration noise --out new", "calibration: parts are coverage, watching, networks; got 'noise'."),
        ("evidence comparison square --out new", "comparison: problems are phase-retrieval, cubic, dro; got 'square'."),
        ("evidence untuned --problem none --out new", "untuned: the problems are "),
        (f"{SHORT_PLAN} --plot x.bmp", "plan: --plot must end in .png"),
    ],
)
def test_what_can_be_known_beforehand_is_refused_beforehand(said: Said, line: str, sentence: str) -> None:
    Path("file").touch()
    Path("folder.png").mkdir()
    os.mkfifo("pipe")
    Path("loop").symlink_to("loop")
    Path("astray").symlink_to("nowhere/x.parquet")
    for name in ("occupied/parts", "occupied/store", "occupied/cache", "occupied/figures/cubic"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    for name in ("taken/verify.json", "taken/suite.json", "taken/report.html", "paged/index.md"):
        Path(name).mkdir(parents=True)
    before = sorted(Path().rglob("*"))
    code, out, err = said(line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert sorted(Path().rglob("*")) == before


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    "line",
    [
        f"{COMPARE} --plot x.png",
        f"{SHORT_PLAN} --plot x.png",
        f"{WORST} --horizon 9 --out x",
        "gladstorm suite --quick",
        *(f"evidence {name}{option}" for name in STUDIES for option in ("", " --page-only")),
    ],
)
def test_without_matplotlib_nothing_is_begun(said: Said, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = said(line)
    command = line.split()[1]
    assert (code, out) == (2, "")
    assert err == f"Error: {command}: figures need matplotlib, which is not installed; pip install 'gladstorm[plot]'.\n"
    assert not list(Path().iterdir())


def test_one_seed_has_no_spread(gladstorm: Said) -> None:
    row = json.loads(gladstorm(*SMALL, "--seeds", "1", "--json")[1])["methods"]["sgd"]
    for name in ("mean_grad_norm", "final_grad_norm", "best_grad_norm", "drift2"):
        assert set(row[name]) == {"mean", "std", "per_seed"}
        assert row[name]["std"] is None
        assert row[name]["mean"] == row[name]["per_seed"][0]
    out = gladstorm(*SMALL, "--seeds", "1")[1]
    assert "±" not in out
    assert "one seed: no standard deviation" in out
