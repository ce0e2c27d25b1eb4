"""Random and mutated command lines: none may end in a traceback.

python -m tests.fuzz_command_line --count 3000 --seed 0

Lines run in this process, in a folder of their own, on streams that know UTF-8 or only ASCII. Work that would take long
stops where it begins: arguments that get there have been accepted. Line number i of a seed is always the same, and
`--only i` runs it alone.
"""

import argparse
import contextlib
import functools
import importlib
import io
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import typer.main

from evidence import study

CODES = (0, 1, 2, 130)
SECONDS = 600  # for one line: what takes longer never ends, on any machine
LARGEST = 1000  # steps, seeds, dimensions and configurations that are really run
HUGE = 10**13  # what nobody can run is given to the real thing, to be refused
RUN_EVERY = 12  # of the accepted simulations and comparisons, one in so many
IN_A_PROCESS = 300  # of all lines, one in so many

METHODS = [
    "sgd",
    "nsgdm",
    "sgd(gamma=0.1)",
    "nstorm(gamma=0.1,eta=[0.1,0.5])",
    "storm(eta=0.5)+normalized(gamma=0.1)",
    "storm(eta=0.5)+plain(gamma=power_decay(initial=1,exponent=0.5))+fixed(size=2)",
    "fresh+normalized(gamma=grid(0.1,1,2))+anchored(weight=0.5)",
    "pasta(sigma2=0.1)",
    "snvrg(loops=(2,2))+plain(gamma=1)+nested_loops(n_init=3,loops=(2,2))",
    "page_by_theory(L=1,large=9)",
    "nsgdm_by_theory(gamma0=1,horizon=100)",
    "saga+plain(gamma=0.1)",
]
OBJECTIVES = ["cauchy", "cauchy", "power:3", "quadratic:1,2", "dro:5", "phase-retrieval:5", "double-well", "cosh:1"]
ORACLES = [
    "blum-gladyshev",
    "blum-gladyshev(B=0.1,G=0)",
    "full-rank",
    "skewed(q=0.1)",
    "gradient-coupled(scale=1)",
    "finite-sum",
]
COUNTS = ["1", "2", "3", "5"]
NUMBERS = ["0", "0.1", "0.5", "1", "2", "1e-3", "1e9"]
PATHS = ["new.parquet", "new.png", "new.bmp", "file", "file/x", "folder", "nowhere/x", "/proc/x", "a" * 250, "damaged"]
# How often a command is drawn: most can go wrong in more ways than others.
WEIGHTS = {
    "simulate": 8,
    "compare": 7,
    "plan": 4,
    "diagnose": 1,
    "suite": 1,
    "worst": 2,
    "methods": 1,
    "table": 1,
}
STUDIES = 5  # all studies of the evidence together
SELDOM = (
    *("--save", "--plot", "--out", "--store", "--help", "--json", "--quiet", "--eps"),
    *("--workers", "--scheduler", "--page-only"),
)
# What may follow an option; options that are not here get a number.
VALUES = {
    "--objective": OBJECTIVES,
    "--method": METHODS,
    "--oracle": ORACLES,
    "--grid": ["0.1,1,2", "1e-2,1e-1,1"],
    "--problem": ["cubic", "counts"],
    "--role": ["development", "held-out"],
    "--kind": ["noise", "any", "all"],
    "--again": PATHS,
    "--regime": ["nstorm/smooth", "linear", "nsgdm"],
    "--save": PATHS,
    "--store": PATHS,
    "--plot": PATHS,
    "--out": [*PATHS, "out"],
    **dict.fromkeys(["--steps", "--seeds", "--seed", "--tuning-seeds", "--dim", "--n-init"], COUNTS),
    **dict.fromkeys(["--instance", "--workers"], COUNTS),
    "--budget": ["7", "20", "50"],
    "--horizon": ["1", "10", "10000"],
}
ARGUMENTS = {
    "plan": ["nsgdm", "nstorm"],
    "reproduction": ["cubic", "phase-retrieval"],
    "calibration": ["coverage", "watching", "networks"],
    "comparison": ["cubic", "dro"],
    "diagnose": ["probes.parquet", "folder", "file", "pipe"],
}
NASTY = [
    *("", " ", "-", "--", "-1", "0", "1.5", "nan", "-inf", "1e400", "1e-400", "10000000000000000", "9" * 400, "0x10"),
    *(
        "True",
        "None",
        "[]",
        "[1,2]",
        "(1,)",
        "grid(1,2)",
        "grid(1,2,1e9)",
        "a=1",
        "=",
        "==",
        "+",
        "+" * 50,
        "sgd+",
        "(",
    ),
    *("sgd(gamma=1,gamma=2)", "sgd(gamma=fixed(size=3))", "fresh+from_optax(gamma=1,make=1)", "sgd(gamma=True)"),
    *(
        "skewed",
        "skewed(q=2)",
        "full-rank(B=[1,2])",
        "finite-sum(B=1)",
        "blum-gladyshev+skewed",
        "skewed(q=grid(1,2,3))",
    ),
    *("sgd(" * 100, "[" * 500, "-" * 3000 + "1", "+".join(["storm"] * 1000), "x" * 20_000, "power:", "power:nan", ":"),
    *(
        "power:1,2,3",
        "phase-retrieval:-1",
        "dro:0",
        "cosh:1e9",
        "γ",
        "‖∇f‖",
        "\udcff",
        "a\nb",
        "\t",
        "'",
        '"',
        "%s",
        "{}",
    ),
    *("--json", "-q", "-h", "--help", "--version", "--speed", "-x", "--B", "--no-quick", "--full", "--compare"),
    *("simulate", "~", ".", "..", "/", "/dev/null", "a" * 300, "a/" * 200, "pipe", "link"),
]


class WorkBegun(BaseException):
    """The arguments were accepted and the work is not for a fuzz."""


class TookTooLong(BaseException):
    """No answer within `SECONDS`."""


@dataclass(frozen=True)
class Outcome:
    """What became of one line."""

    index: int
    words: list[str]
    kind: str  # an exit code, "accepted", or what is wrong
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.kind not in ("accepted", *map(str, CODES))


def lines(seed: int, indices: range) -> Iterator[tuple[int, list[str]]]:
    """Command lines by number, the program first; each follows from the seed and its number alone."""
    assert set(WEIGHTS) == set(programs()["gladstorm"].commands)
    for index in indices:
        yield index, _line(random.Random(f"{seed}-{index}"))


@functools.cache
def programs() -> dict[str, Any]:
    """`gladstorm` and `python -m evidence` as Click sees them; Typer would build them anew for each line."""
    import evidence.__main__
    import gladstorm.cli  # registers the commands

    apps = {"gladstorm": gladstorm.cli.app.app, "evidence": evidence.__main__.app}
    return {name: typer.main.get_command(app) for name, app in apps.items()}


def _line(chance: random.Random) -> list[str]:
    studies = list(programs()["evidence"].commands)
    drawn = [*(("gladstorm", name) for name in WEIGHTS), *(("evidence", name) for name in studies)]
    ((program, command),) = chance.choices(drawn, [*WEIGHTS.values(), *[STUDIES / len(studies)] * len(studies)])
    words = [chance.choice(ARGUMENTS[command])] if command in ARGUMENTS and chance.random() < 0.9 else []
    for parameter in programs()[program].commands[command].params:
        often = 0.97 if parameter.required else 0.06 if parameter.opts[0] in SELDOM else 0.4
        if parameter.param_type_name == "option" and chance.random() < often:
            words += _option(chance, parameter)
    if command == "plan" and chance.random() < 0.7:
        words += "--alpha 0.5 --B 0.5 --G 1 --gap 1 --L0 1 --L1 1 --horizon 100".split()
    if command == "simulate" and chance.random() < 0.7:
        words += ["--gamma", "0.1", "--eta", "0.5"]
    words.insert(0, command)
    for _ in range(chance.choice([0, 0, 1, 1, 1, 2, 3])):
        words = _mutated(chance, words)
    return [program, *words]


def _option(chance: random.Random, parameter: Any) -> list[str]:
    name = chance.choice(parameter.opts)
    if parameter.is_flag:
        return [name] if name not in ("--help", "-h") or chance.random() < 0.02 else []
    values = NASTY if chance.random() < 0.08 else VALUES.get(parameter.opts[0], NUMBERS)
    value = chance.choice(values)
    return [f"{name}={value}"] if chance.random() < 0.1 else [name, value]


def _mutated(chance: random.Random, words: list[str]) -> list[str]:
    words, at = list(words), max(chance.randrange(len(words)), chance.randrange(len(words)))  # the command less often
    kind = chance.randrange(6)
    if kind == 0:
        del words[at]
    elif kind == 1:
        words.insert(at, words[at])
    elif kind == 2:
        words[at] = chance.choice(NASTY)
    elif kind == 3:
        words.insert(at, chance.choice(NASTY))
    elif kind == 4:
        other = chance.randrange(len(words))
        words[at], words[other] = words[other], words[at]
    else:
        cut = chance.randrange(len(words[at]) + 1)
        words[at] = words[at][:cut] + chance.choice(["", *"-+=.,()[]:/ 9é"]) + words[at][cut + chance.randrange(2) :]
    return words or [""]


@contextlib.contextmanager
def little_work() -> Iterator[None]:
    """Replace what takes long by `WorkBegun`, in a folder with files of every kind, and JAX left as it is."""
    import distributed

    from gladstorm import devices, suite, worst
    from gladstorm.comparison import compare as comparison
    from gladstorm.diagnosis import Probe, Probes
    from gladstorm.problems import objectives
    from gladstorm.simulation import processes, programs, simulate

    begun = [0]

    def small(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(oracle: Any, methods: Any, **options: Any) -> Any:
            import jax

            sizes = [options.get(name, 1) for name in ("steps", "budget", "seeds", "tuning_seeds")]
            first = oracle(0) if callable(oracle) else oracle
            sizes += [jax.tree.leaves(first.objective.start)[0].size, *map(_largest_batch, methods.values())]
            if LARGEST < max(sizes) < HUGE:
                raise WorkBegun
            begun[0] += 1
            return real(oracle, methods, **options)

        return run

    def now_and_then(*arguments: Any) -> Any:
        if begun[0] % RUN_EVERY:
            raise WorkBegun
        return real_call(*arguments)

    def named(spec: str, **options: Any) -> Any:
        numbers = [options["dim"] or 1, *(_number(word) for word in spec.partition(":")[2].split(","))]
        if any(10**5 < number < HUGE for number in numbers):
            raise WorkBegun
        return real_named(spec, **options)

    def stop(*_: Any, **__: Any) -> Any:
        raise WorkBegun

    real_named, real_call = objectives.named, programs.call
    with contextlib.ExitStack() as stack:
        for owner, name, stand_in in (
            (devices, "tune", lambda: None),
            (objectives, "named", named),
            (programs, "call", now_and_then),
            (simulate, "sweep", small(simulate.sweep)),
            (comparison, "compare", small(comparison.compare)),
            (processes.Processes, "__init__", stop),
            (distributed, "Client", stop),
            (suite, "run", stop),
            (worst, "worst", stop),
            (worst, "again", stop),
        ):
            stack.enter_context(mock.patch.object(owner, name, stand_in))
        for name in work_of_studies():
            stack.enter_context(mock.patch(name, stop))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(contextlib.chdir(folder))
        (folder / "folder").mkdir()
        (folder / "file").write_text("not a table")
        (folder / "link").symlink_to("nowhere")
        (folder / "out" / "cubic").mkdir(parents=True)
        (folder / "out" / "cubic" / "results.parquet").write_text("not a table")
        os.mkfifo(folder / "pipe")
        rows = [Probe(i, i, "path", i / 4, 2, 4, 1.0 + i, 1.0, 0.1, 2.0, 1.0) for i in range(16)]
        Probes.of(rows).save(folder / "probes.parquet")
        yield


def work_of_studies() -> list[str]:
    """What takes long in each study that can be imported here, under the name by which its command calls it."""
    commands = {name: importlib.import_module(f"evidence.{name}.command") for name in study.names()}
    if not find_spec("numpyro"):
        del commands["posteriors"]
    return [f"evidence.{name}.{work}" for name, command in commands.items() for work in command.WORK]


def _number(word: str) -> float:
    try:
        return abs(float(word))
    except ValueError:
        return 0.0


def _largest_batch(method: Any) -> float:
    import jax
    import numpy as np

    sizes = [np.max(number) for number in jax.tree.leaves(method.batch)]
    return float(max((size for size in sizes if size < 2**31 - 1), default=1))  # that one is the cap nobody reaches


def run_line(index: int, words: list[str]) -> Outcome:
    """Run one line in this process and say what became of it."""
    from gladstorm import cli

    chance = random.Random(index)
    encoding, columns = chance.choice(["utf-8", "ascii"]), chance.choice([None, "40", "abc"])
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    environment = {"COLUMNS": columns} if columns else {}
    kind, detail = "no exit", ""
    with (
        mock.patch.object(sys, "argv", words),
        mock.patch.dict(os.environ, environment),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _alarm(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        try:
            cli.main(programs()[words[0]])
        except SystemExit as end:
            kind = str(end.code or 0)
        except WorkBegun:
            kind = "accepted"
        except TookTooLong:
            kind = f"no answer in {SECONDS} s"
        except BaseException:
            kind, detail = "traceback", traceback.format_exc(limit=-4)
    err.flush()
    return _judged(index, words, kind, detail, err.buffer.getvalue().decode(encoding))


def run_process(index: int, words: list[str]) -> Outcome:
    """Run one line in a process of its own, if it is one that ends soon."""
    inside = run_line(index, words)
    if inside.bad or inside.kind in ("accepted", "0", "1"):
        return inside
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, check=False, timeout=SECONDS)
    return _judged(index, words, str(done.returncode), "", done.stderr.decode(errors="replace"))


def _judged(index: int, words: list[str], kind: str, detail: str, err: str) -> Outcome:
    if "Traceback" in err:
        return Outcome(index, words, "traceback", err)
    if kind == "2" and not (err.startswith("Error: ") and err.count("\n") == 1 and len(err) > len("Error: \n")):
        return Outcome(index, words, "not one sentence", err)
    return Outcome(index, words, kind, detail)


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fuzz(seed: int, indices: range) -> list[Outcome]:
    """Run these lines of a seed."""
    with little_work():
        return [
            (run_process if index % IN_A_PROCESS == 0 else run_line)(index, words)
            for index, words in lines(seed, indices)
        ]


def main() -> int:
    """Run the lines asked for and print what became of them."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--count", type=int, default=3000)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--only", type=int)
    options = asked.parse_args()
    indices = range(options.count) if options.only is None else range(options.only, options.only + 1)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, {"XDG_CACHE_HOME": cache}):
        outcomes = fuzz(options.seed, indices)
    for each in outcomes:
        if each.bad:
            sys.stdout.write(f"line {each.index}: {each.kind}\n  {each.words!r:.2000}\n{each.detail}\n")
    counted = ", ".join(f"{kind}: {count}" for kind, count in sorted(Counter(each.kind for each in outcomes).items()))
    sys.stdout.write(f"{len(outcomes)} lines in {time.monotonic() - begun:.0f} s; {counted}\n")
    return int(any(each.bad for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
