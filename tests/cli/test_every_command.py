"""Laws that every command obeys: help, tables, JSON, one sentence for a bad value, and results that no disk loses."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import typer
from rich.cells import cell_len

import gladstorm as gs
from command_lines import commands, little_work, run_line
from evidence import study
from evidence.suite.page import load as load_suite
from gladstorm.cli import suite, worst
from gladstorm.cli.job import saving, saving_study
from gladstorm.cli.output import Table, fit, show, wrap
from gladstorm.core.results import from_json
from gladstorm.diagnosis import Probe, Probes
from gladstorm.jobs.files import load_json
from gladstorm.worst import FORMAT, WorstProblem

Said = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "docs" / "evidence"
COMMANDS = [(program, name) for program, named in commands().items() for name in named]
WIDTHS = (60, 80, 120)
GOLDEN = ("simulate", "compare", "plan")

PLAN = "plan nstorm --alpha 0.5 --L0 1.5 --L1 0.25 --B 0.4 --G 0.7 --gap 3 --horizon 10000 --compare"
SMALL = "simulate --objective cauchy --dim 2 --method sgd --gamma 0.1 --steps 5 --seeds 2 --quiet"
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
    "plan": PLAN,
    "diagnose": "diagnose probes.parquet --horizon 1000",
    "table": "table",
    "methods": "methods",
}


def _json(name: str) -> Any:
    return json.loads((EVIDENCE / name).read_text())


def _worst(name: str) -> WorstProblem:
    content = load_json("worst", EVIDENCE / name, FORMAT)
    return from_json(WorstProblem, {key: content[key] for key in content if key != "format"})


def _print_study(name: str) -> None:
    page: Any = study.page_of(name)
    page.print_tables(page.load(EVIDENCE / name))


FROM_RESULTS: dict[str, Callable[[], None]] = {
    "suite": lambda: suite._print(replace(whole := load_suite(EVIDENCE / "suite"), cases=whole.cases[:2])),
    "worst": lambda: show(worst._table(_worst("tightness/nstorm-smooth-bg0.json"))),
    **{name: partial(_print_study, name) for name in ("reproduction", "tightness", "verification")},
}
TABLES = [*LINES, *FROM_RESULTS]

# ---- Help


def test_without_a_command_the_help_is_shown_and_lists_every_command_in_whole_sentences() -> None:
    for program, named in commands().items():
        shown = run_line([program])
        assert shown == run_line([program, "--help"])
        _, *lines = re.split(r"^  (?=[a-z])", shown.out.partition("Commands:")[2], flags=re.MULTILINE)
        assert sorted(each.split()[0] for each in lines) == sorted(named)
        assert [each for each in lines if not each.rstrip().endswith(".") or each.rstrip().endswith("...")] == []


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_every_command_has_help_with_an_example_and_the_options_of_its_kind(program: str, name: str) -> None:
    shown = run_line([program, name, "-h"])
    assert shown == run_line([program, name, "--help"])
    assert (shown.kind, shown.err) == ("0", "")
    written = program if program == "gladstorm" else "python -m evidence"
    assert re.search(rf"Examples?: {written} {name}", shown.out)
    options = {each for option in commands()[program][name].params for each in option.opts}
    assert "--json" in options
    assert "--quiet" in options or name in ("diagnose", "methods", "plan", "table")
    assert "--store" in options or "--workers" not in options
    assert "--out" in options or program == "gladstorm"


# ---- Tables


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator, path = np.random.default_rng(0), tmp_path_factory.mktemp("probes") / "probes.parquet"
    rows = [
        Probe(i, i, "path", r, 4, 8, 0.25 * (1 + r * r) * generator.gamma(9) / 9, 1.0, 0.1, 1.2, 1.0)
        for i, r in enumerate(np.linspace(0, 4, 96).tolist())
    ]
    Probes.of(rows, ["Dropout is part of the noise."]).save(path)
    return path


@pytest.fixture
def printed(
    gladstorm: Said, probes: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, int | None], str]:
    """Return what a command prints at a width; without one, as into a pipe."""

    def at(name: str, width: int | None) -> str:
        monkeypatch.delenv("COLUMNS", raising=False)
        if width is not None:
            monkeypatch.setenv("COLUMNS", str(width))
        if name in FROM_RESULTS:
            FROM_RESULTS[name]()
            out = capfd.readouterr().out
        else:
            code, out, err = gladstorm(*LINES[name].replace("probes.parquet", str(probes)).split())
            assert code == 0, err
        return "\n".join(line.rstrip() for line in out.splitlines()) + "\n"

    return at


@pytest.mark.parametrize("name", TABLES)
def test_no_line_is_too_long_and_no_word_and_no_number_is_broken(
    printed: Callable[[str, int | None], str], name: str
) -> None:
    def words(text: str) -> list[str]:
        return re.sub(r"[│┃━─┏┓┗┛┡┩╇┳┼├┤┴└┘]", " ", text).split()

    def pieces(word: str) -> list[str]:  # a method's text may go on in the next line
        return re.split(r"(?<=[,+(])(?=[A-Za-z])", word)

    whole = words(printed(name, None))
    parts = {piece for word in whole for piece in pieces(word)} | set(whole)
    for width in WIDTHS:
        out = printed(name, width)
        lines = [line for line in out.splitlines() if not line.startswith(("torch: ", "optax: "))]  # code, to be copied
        assert max(map(cell_len, lines)) <= width
        text = re.sub(r"Left out: [^.]*\.\s+A\s+wider\s+terminal\s+or\s+--json\s+shows\s+all\.", "", out)
        assert [word for word in words(text) if word not in parts and not parts.issuperset(pieces(word))] == [], width


@pytest.mark.parametrize("name", GOLDEN)
def test_three_tables_are_as_they_were(printed: Callable[[str, int | None], str], name: str) -> None:
    """GLADSTORM_WRITE_TABLES=1 writes them anew; look at them before you commit."""
    file, shown = Path(__file__).parent / "tables" / f"{name}.txt", printed(name, 80)
    if os.environ.get("GLADSTORM_WRITE_TABLES"):
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


def test_a_narrow_screen_does_without_the_least_important_columns_and_says_so(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(
        "Runs", ["method", "first", "second", "third"], [["sgd", "1.25", "2.25", "3.25"]], "A word.", drop=(2,)
    )
    for width, columns in ((60, [0, 1, 2, 3]), (22, [0, 1, 3]), (14, [0, 1]), (8, [0])):
        assert list(fit(table, width)[0]) == columns
        monkeypatch.setenv("COLUMNS", str(width))
        show(table)
        plain = capfd.readouterr().out
        left_out = [heading for k, heading in enumerate(table.headings) if k not in columns]
        assert (f"Left out: {', '.join(left_out)}." in " ".join(plain.split())) == bool(left_out)
        assert "A word." in " ".join(plain.split())
    monkeypatch.setenv("FORCE_COLOR", "1")  # which does not change the words
    show(table)
    assert "\x1b[" in (coloured := capfd.readouterr().out)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize("width", [1, 2, 5, 9, 30])
def test_wrapping_loses_nothing_and_exceeds_nothing(width: int) -> None:
    for text in ("", "storm(eta=0.5)+clipped(gamma=0.1,c=[1,2])", "0.1 [0.05, 0.2]", "a word and another", "‖∇f‖ ± 1"):
        lines = wrap(text, width).splitlines()
        assert all(len(line) <= width for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")


# ---- JSON: the fields that others rely on

PLANNED = "method alpha noise horizon eta gamma n_init lambda conditions terms bound bound_as_printed rate sfo source"
OVER_SEEDS = "mean_grad_norm final_grad_norm best_grad_norm drift2"
QUANTITIES = "G B power anchor ell L rho alpha L0 L1 critical_batch"


def fields(words: str, data: Any) -> bool:
    """Whether a dict has all of these fields."""
    return set(words.split()) <= set(data)


def answer(gladstorm: Said, line: str) -> Any:
    """Return the JSON of a line: nothing else is on standard output, and no number in it is not one."""
    code, out, err = gladstorm(*line.split(), "--json")
    assert (code, err) == (0, "")
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_the_json_of_every_command_has_the_fields_of_its_contract(gladstorm: Said, probes: Path) -> None:
    planned = answer(gladstorm, PLAN.removesuffix(" --compare"))
    assert fields(PLANNED, planned)
    assert all(fields("statement left right holds", each) for each in planned["conditions"])
    assert all(fields("name coefficient exponent value", each) for each in planned["terms"])
    assert fields("nsgdm nstorm nstorm_ahead_from", answer(gladstorm, PLAN))
    simulated = answer(gladstorm, SMALL)
    row = simulated["methods"]["sgd"]
    assert simulated["config"]["steps"] == 5
    assert fields(f"{OVER_SEEDS} sfo max_batch diverged", row)
    assert all(set(row[name]) == {"mean", "std", "per_seed"} for name in OVER_SEEDS.split())
    assert (row["sfo"], type(row["sfo"])) == (6, int)
    compared = answer(gladstorm, LINES["compare"])
    assert fields("config methods against_first", compared)
    assert all(fields("label grad_norm gap value settings sfo", row) for row in compared["methods"].values())
    report = answer(gladstorm, f"diagnose {probes}")
    assert all(fields("estimate low high verdict needs", report[name]) for name in QUANTITIES.split())
    assert fields("method gamma eta n_init batch why source", report["recommendation"])
    assert all(fields("work method smoothness noise complexity", row) for row in answer(gladstorm, "table"))
    listed = answer(gladstorm, "methods")
    assert all(fields("method estimator step batch sfo complexity source", row) for row in listed["methods"])
    assert fields("config methods problems cases answers", _json("suite/suite.json"))
    described = (ROOT / "docs" / "formats.md").read_text("utf-8")
    rows = [row, *compared["methods"].values(), report["recommendation"], planned]
    assert [
        name for each in rows for name in each if f"`{name}`" not in described and f" {name}," not in described
    ] == []


def test_one_seed_has_no_spread_and_a_diverged_run_is_null(gladstorm: Said) -> None:
    row = answer(gladstorm, f"{SMALL} --seeds 1")["methods"]["sgd"]
    assert all(row[name]["std"] is None for name in OVER_SEEDS.split())
    out = gladstorm(*SMALL.split(), "--seeds", "1")[1]
    assert "±" not in out
    assert "one seed: no standard deviation" in out
    line = "simulate --objective power:3 --start 5 --B 5 --method sgd --gamma 10 --steps 40 --seeds 2"
    row = answer(gladstorm, line)["methods"]["sgd"]
    assert (row["diverged"], row["final_grad_norm"]["mean"]) == (2, None)
    assert all(step > 0 for step in row["diverged_at"])
    assert "not finite" in (out := gladstorm(*line.split())[1])
    assert "2/2" in out


# ---- Bad values: one sentence, exit code 2, and nothing is begun or written

WORST = "worst nsgdm --alpha 0 --L0 1 --B 0 --G 1 --gap 1"
VALID = {
    "simulate": "--objective cauchy --method sgd --gamma 0.1 --steps 5 --seeds 2",
    "compare": "--objective cauchy --method sgd --budget 9",
    "plan": "nsgdm --alpha 0 --B 0 --G 0 --gap 1 --L0 1 --horizon 9",
    "diagnose": "probes.parquet",
    "worst": f"{WORST.removeprefix('worst ')} --horizon 9",
}
BAD = ("", "x", "nan", "inf", "-1", "1e400", "[", "nowhere/x", "/proc/x", "loop", "γ\n", "\udcff")


@pytest.fixture
def refused() -> Iterator[Callable[[list[str]], str]]:
    """Return the one sentence with which a line is refused; nothing is written."""

    def sentence(words: list[str]) -> str:
        before = sorted(Path().rglob("*"))
        kind, out, err = run_line(words)
        assert (kind, out, err.count("\n"), err[:7]) == ("2", "", 1, "Error: "), (words, kind, err)
        assert sorted(Path().rglob("*")) == before, words
        return err

    with little_work():
        yield sentence


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_a_bad_value_of_any_option_is_accepted_or_refused_in_one_sentence(
    refused: Callable[[list[str]], str], program: str, name: str
) -> None:
    if name == "posteriors" and not find_spec("numpyro"):
        pytest.skip("numpyro is not installed")
    for option in commands()[program][name].params:
        if option.param_type_name != "option" or option.is_flag:
            continue
        for value in BAD:
            words = [program, name, *VALID.get(name, "").split(), option.opts[0], value]
            number = option.type.name in ("integer", "float")
            if (number and value != "-1") or run_line(words).kind not in ("0", "1", "accepted"):
                refused(words)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--objective cubic --method sgd", "objective: must be one of"),
        ("--objective cauchy --method adamw", "method: must be one of adam, adaptive_storm, "),
        ("--objective cauchy --method nsgdm", "nsgdm needs eta"),
        ("--objective cauchy --method sgd(beta=1)", "sgd takes gamma, batch; got 'beta'"),
        ("--objective cauchy --method sgd(gamma=x)", "gamma of sgd, if no number, must be one of linear, "),
        ("--objective cauchy --method sgd --method sgd", "given once; got 'sgd' twice"),
        ("--objective cauchy --method sgd --gamma -1", "Plain: gamma must be finite and > 0; got gamma=-1.0."),
        ("--objective cauchy --method sgd --B -1", "BlumGladyshev: B must be finite and ≥ 0; got B=-1.0."),
        ("--objective cauchy --method sgd(batch=0)", "Fixed: size must be a whole number"),
        ("--objective cauchy --method sgd --steps -1", "simulate: steps must be a whole number from 0"),
        ("--objective cauchy --method sgd --seeds 0 --dim 1000000000", "simulate: seeds must be a whole number ≥ 1"),
        (
            "--objective cauchy --method sgd --save loop",
            "--save: a file must be a regular one; got a link to itself, 'loop'.",
        ),
        (
            "--objective cauchy --method sgd --save pipe",
            "--save: a file must be a regular one; got a named pipe, 'pipe'.",
        ),
        ("--objective cauchy --method sgd --save astray", "--save must be a file in a folder that exists"),
        ("--objective cauchy --method sgd --page x.txt", "--page must end in .html; got 'x.txt'."),
        ("--method sgd", "--objective"),
        ("--objective cauchy --method sgd --speed 3", "--speed"),
    ],
)
def test_a_simulation_is_refused_with_the_rule_and_the_value(
    refused: Callable[[list[str]], str], line: str, sentence: str
) -> None:
    gamma = [] if "--gamma" in line else ["--gamma", "1"]
    assert sentence in refused(["gladstorm", "simulate", *line.split(), *gamma])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("compare --objective cauchy --method sgd --plot x.bmp", "compare: --plot must end in .png, .pdf, .svg"),
        (
            "compare --objective cauchy --method sgd --plot folder.png",
            "compare: --plot: a file must be a regular one; got a folder",
        ),
        ("compare --objective cauchy --method sgd --oracle skewed(q=2)", "q must be in "),
        ("compare --objective cauchy --method sgd --grid 1", "grid"),
        ("suite --out file", "suite: --out must be a folder; got the file 'file' in the way."),
        ("suite --out taken", "suite: suite.json in --out: a file must be a regular one"),
        ("suite --budget 100 --budget 0", "suite: budgets must be a whole number ≥ 1; got budgets=0."),
        ("suite --problem cubic --problem square", "suite: problem must be one of cubic, least-squares,"),
        ("suite --role held-out --problem cubic", "suite: some problem must have this name and role"),
        ("worst", "worst: method must be given, or --again with a file; got method=None."),
        (WORST, "worst: horizon must be given, or --again with a file; got horizon=None."),
        (f"{WORST} --again file", "worst: method must be left out, nothing uses it: the file of --again has"),
        ("worst --again file", "worst: file is damaged or not a JSON file that Gladstorm wrote."),
        (f"{WORST} --horizon 9 --seeds 1", "worst: reported must be from 2 to 1,000,000 seeds; got 1."),
        ("plan adam --alpha 0 --L0 1 --B 1 --G 1 --gap 1 --horizon 9", "method must be one of nsgdm, nstorm, sgd; got"),
        ("plan nsgdm --alpha 1.5 --L0 1 --B 1 --G 1 --gap 1 --horizon 9", "alpha must be in [0, 1]; got alpha=1.5"),
        ("plan nsgdm --alpha 0.5 --L0 1 --B 1 --G 1 --gap 1 --horizon 9", "L1 must be given for alpha=0.5"),
        (
            "plan nstorm --alpha 0 --L 1 --B 1 --G 1 --gap 1 --horizon 9 --compare",
            "L0 must be given for alpha=0; got L0=None",
        ),
        ("plan nsgdm --alpha 0 --L0 1 --B 1 --G 1 --gap 1", "exactly one of horizon and eps"),
        ("plan nsgdm --alpha 0 --L0 1 --B 1 --G 1 --gap 1 --eps 1e-51", "eps must be reachable within 10^300"),
        ("--json", "--json must follow a command"),
    ],
)
def test_other_commands_are_refused_with_the_rule_and_the_value(
    refused: Callable[[list[str]], str], line: str, sentence: str
) -> None:
    assert sentence in refused(["gladstorm", *line.split()])


@pytest.mark.parametrize("name", study.names())
def test_a_study_refuses_a_folder_that_cannot_hold_its_results(refused: Callable[[list[str]], str], name: str) -> None:
    if name == "posteriors" and not find_spec("numpyro"):
        pytest.skip("numpyro is not installed")
    for given, rule in (
        ("--out file/x", "--out must be a folder; got 'file/x' with the file"),
        ("--out file", "--out must be a folder; got the file 'file' in the way."),
        ("--out /proc/x", "--out must be where files can be written; got '/proc/x'"),
        ("--out taken", "index.md in --out: a file must be a regular one"),
        ("--out nowhere --page-only", "--out must be a folder with"),
        *(
            [("--store file/x", "--store must be a folder")]
            if "--store" in run_line(["evidence", name, "-h"]).out
            else []
        ),
    ):
        assert f"{name}: {rule}" in refused(["evidence", name, *given.split()])


@pytest.mark.parametrize("line", ["gladstorm suite --quick", *(f"evidence {name}" for name in study.names())])
def test_without_matplotlib_nothing_is_begun(
    refused: Callable[[list[str]], str], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    needed = "figures need matplotlib, which is not installed; pip install 'gladstorm[plot]'.\n"
    assert refused(line.split()) == f"Error: {line.split()[1]}: {needed}"


# ---- Where a command stands: processes, pipes, terminals, disks


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "gladstorm", *arguments]
    return subprocess.run(command, capture_output=True, env=os.environ | environment, check=False)


def test_the_version_is_the_package_s_and_a_shell_completes(gladstorm: Said) -> None:
    assert gladstorm("--version") == (0, f"gladstorm {gs.__version__}\n", "")
    environment = answer(gladstorm, "--version")
    assert (environment["gladstorm"], environment["packages"]["jax"]) == (gs.__version__, jax.__version__)
    assert environment["packages"]["lightning"] is None or find_spec("lightning")
    for words, completed in (("gladstorm comp", "compare"), ("gladstorm simulate --obj", "--objective")):
        shell = {"_GLADSTORM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert process(**shell).stdout.decode().split() == [completed]


@pytest.mark.parametrize("arguments", [["methods", "--json"], ["table"], ["-h"]])
def test_a_closed_pipe_ends_a_command_without_a_word(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "gladstorm", *arguments]
    with os.fdopen(writer) as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_every_terminal_can_print_tables_help_json_and_errors(encoding: str) -> None:
    lines = [[*PLAN.split()], ["plan", "-h"], ["plan"], ["table", "--json"]]
    table, shown, bad, data = (process(*words, PYTHONIOENCODING=encoding) for words in lines)
    assert [done.returncode for done in (table, shown, bad, data)] == [0, 0, 2, 0]
    assert ("E‖∇f(x̂)‖" if encoding == "utf-8" else "E??f(x") in table.stdout.decode(encoding)
    assert json.loads(data.stdout.decode(encoding)) == [row.as_dict() for row in gs.theory.rows()]


def test_quiet_leaves_standard_error_to_errors(gladstorm: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gladstorm.jobs.progress.QUIET_SECONDS", -1.0)  # progress is shown from the first call on
    monkeypatch.setattr("gladstorm.jobs.progress.LINE_SECONDS", -1.0)
    loud = [word for word in SMALL.split() if word != "--quiet"] + ["--steps", "3000"]
    code, out, err = gladstorm(*loud)
    assert (code, err != "") == (0, True)
    assert gladstorm(*loud, "--quiet") == (0, out, "")
    assert gladstorm(*loud, "--quiet", "--seeds", "0")[2].startswith("Error: ")


def test_what_a_full_disk_refuses_is_printed_all_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def refuse(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    with pytest.raises(typer.Exit) as end, saving("--plot", Path("x.png"), refuse):
        typer.echo("the table")
    out, err = capfd.readouterr()
    assert (end.value.exit_code, out) == (2, "the table\n")
    assert err == "Error: --plot: x.png cannot be written (No space left on device).\n"
    with saving_study(tmp_path / "new", "a.json", "form", {"a": 1}, {}):
        assert load_json("test", tmp_path / "new" / "a.json", "form")["a"] == 1  # before anything is printed
