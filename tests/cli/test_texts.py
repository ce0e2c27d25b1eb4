"""What is written on a command line: options that nothing uses, names nearly right, and parts of one's own."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from gladstorm import worst as study
from gladstorm.comparison import compare as comparison
from gladstorm.core import memory
from gladstorm.core.results import to_json
from gladstorm.jobs.files import save_json
from gladstorm.methods import METHODS, batches, estimators, schedules, steps
from gladstorm.methods.text import parse_method
from gladstorm.problems import objectives, oracles
from gladstorm.simulation import simulate as simulating
from gladstorm.suite import PROBLEMS, choose
from gladstorm.suite.problems import Role
from gladstorm.theory import Problem, theorem
from gladstorm.worst.family import SIZE, ProblemClass, instance
from gladstorm.worst.search import Kind, measure, require_kind

Said = Callable[..., tuple[int, str, str]]
ON = ("simulate", "--objective", "cauchy", "--dim", "2", "--steps", "2", "--seeds", "1", "--json")
COMPARE = ("compare", "--objective", "cauchy", "--dim", "2", "--budget", "10", "--seeds", "1", "--tuning-seeds", "1")


class WorkBegun(Exception):
    """What was asked for would be run."""


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(*_: Any, **__: Any) -> Any:
        raise WorkBegun

    for module, name in ((simulating, "sweep"), (comparison, "compare"), (study, "again"), (study, "worst")):
        monkeypatch.setattr(module, name, begun)


# An option does something, or is refused.


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("words", "option", "value", "uses"),
    [
        (ON, "--gamma", "0.5", ("sgd", "sgd(gamma=0.1)")),
        (ON, "--gamma", "-0.5", (None, "sgd(gamma=0.1)")),
        (ON, "--eta", "0.5", ("nsgdm(gamma=1)", "sgd(gamma=0.1)")),
        (ON, "--eta", "0.5", ("momentum+plain(gamma=1)", "momentum(eta=0.1)+plain(gamma=1)")),
        (ON, "--n-init", "3", ("nstorm(gamma=1,eta=0.1)", "nstorm(gamma=1,eta=0.1,n_init=1)")),
        (ON, "--n-init", "3", ("storm(eta=1)+plain(gamma=1)+first_large", "storm(eta=1)+plain(gamma=1)")),
        ((*ON, "--method", "sgd(gamma=1)"), "--B", "2", ("--oracle=full-rank", "--oracle=full-rank(B=1)")),
        ((*ON, "--method", "sgd(gamma=1)"), "--G", "2", ("--oracle=skewed(q=0.1)", "--oracle=skewed(q=0.1,G=1)")),
        ((*COMPARE, "--method", "sgd"), "--B", "2", ("--oracle=full-rank", "--oracle=full-rank(B=1)")),
        (COMPARE, "--grid", "0.1,1,2", ("sgd", "sgd(gamma=[0.1,0.2])")),
        (COMPARE, "--decay", None, ("sgd(gamma=[0.1,0.2])", "sgd(gamma=0.1)")),
    ],
)
def test_an_option_is_used_or_refused(
    gladstorm: Said, words: tuple[str, ...], option: str, value: str | None, uses: tuple[str | None, str]
) -> None:
    given = [option] if value is None else [option, value]
    with_it, without = ([each] if str(each).startswith("--") else ["--method", str(each)] for each in uses)
    if uses[0] is not None:
        with pytest.raises(WorkBegun):
            gladstorm(*words, *with_it, *given)
    with pytest.raises(WorkBegun):
        gladstorm(*words, *without)
    code, out, err = gladstorm(*words, *without, *given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{words[0]}: {option} must be left out, nothing uses it: " in err
    assert f"; got {option} " in err


@pytest.mark.usefixtures("no_work")
def test_of_several_methods_one_that_uses_an_option_is_enough(gladstorm: Said) -> None:
    with pytest.raises(WorkBegun):
        gladstorm(*ON, "--method", "sgd(gamma=0.1)", "--method", "sgd", "--gamma", "1")


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    """A small worst.json, by its producer."""
    of = ProblemClass(theorem("nsgdm", Problem(alpha=0, L0=0.5, B=0.1, G=0.5, gap=1.0), gamma0=0.5), 5)
    result = measure(of, "noise", instance(np.random.default_rng(0).normal(size=SIZE), of), 2)
    content: dict[str, Any] = json.loads(json.dumps(to_json(result)))
    return content


def test_again_takes_the_file_and_nothing_that_the_file_has(
    gladstorm: Said, kept: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_json(Path("worst.json"), study.FORMAT, kept)
    monkeypatch.setattr(study, "again", lambda *_, **__: (_ for _ in ()).throw(WorkBegun()))
    with pytest.raises(WorkBegun):
        gladstorm("worst", "--again", "worst.json")
    numbers = ("--alpha", "--B", "--G", "--gap", "--L0", "--L1", "--L", "--gamma0", "--eta0")
    counts = ("--horizon", "--generations", "--seeds", "--seed")
    for words in (*([each, "1"] for each in (*numbers, *counts)), ["--kind", "any"], ["--quick"], ["nsgdm"]):
        code, _, err = gladstorm("worst", "--again", "worst.json", *words)
        assert (code, err.count("\n")) == (2, 1), words
        assert "must be left out" in err


def test_an_empty_word_is_not_all_of_them(gladstorm: Said) -> None:
    for option in ("--role", "--problem", "--method"):
        code, _, err = gladstorm("suite", option, "")
        assert (code, err.count("\n")) == (2, 1), err
    for option in ("--objective", "--oracle", "--method"):
        words = {"--objective": "cauchy", "--oracle": "full-rank", "--method": "sgd(gamma=1)"} | {option: ""}
        code, _, err = gladstorm("simulate", *(word for pair in words.items() for word in pair))
        assert (code, err.count("\n")) == (2, 1), err


# A name that is nearly right is answered with the right one.


def _method_text(before: str, after: str = "") -> Callable[[str], Any]:
    return lambda name: parse_method(f"{before}{name}{after}")


def _kind(name: str) -> None:
    require_kind(name, theorem("nsgdm", Problem(alpha=0, L0=1, B=0, G=1, gap=1), gamma0=1))


NAMED: dict[str, tuple[Callable[[str], Any], list[str]]] = {
    "methods": (parse_method, sorted(METHODS)),
    "estimators": (_method_text("", "+plain(gamma=1)"), list(estimators.registry())),
    "steps": (_method_text("fresh+"), list(steps.registry())),
    "batch rules": (_method_text("fresh+plain(gamma=1)+"), list(batches.registry())),
    "schedules": (_method_text("sgd(gamma=", "(initial=1))"), list(schedules.registry())),
    "arguments": (_method_text("nstorm(", "=1)"), ["gamma", "n_init", "batch"]),
    "objectives": (objectives.named, list(objectives.registry())),
    "objectives in brackets": (lambda name: objectives.named(f"{name}(p=3)"), list(objectives.registry())),
    "oracles": (oracles.read, list(oracles.registry())),
    "problems": (lambda name: choose([name], None), list(PROBLEMS)),
    "roles": (lambda name: choose(None, name), list(get_args(Role))),
    "kinds": (_kind, list(get_args(Kind))),
}


@pytest.mark.parametrize("kind", NAMED)
def test_every_name_has_one_error_that_suggests_the_nearest(kind: str) -> None:
    read, known = NAMED[kind]
    for name in known:
        wrong = [name.upper(), *([name + "x", name[0] + name] if len(name) > 3 else [])]
        for each in wrong:
            with pytest.raises(ValueError, match="did you mean") as error:
                read(each)
            told = str(error.value)
            assert told.count("\n") == 0
            suggested = told.partition("did you mean ")[2].rstrip("?").replace("_", "-")
            assert suggested in [other.replace("_", "-") for other in known], told
            if each == name.upper():
                assert suggested == name.replace("_", "-")
    with pytest.raises(ValueError, match="'zzzzz'") as error:
        read("zzzzz")
    assert "did you mean" not in str(error.value)


# Parts of one's own.

MINE = """
import jax.numpy as jnp
import numpy as np

import gladstorm as gs
from gladstorm.core.parts import Data, Number, leaf, part
from gladstorm.core.rules import POSITIVE, VECTOR
from gladstorm.methods.averages import Average
from gladstorm.methods.steps.step import Memoryless


def slow_sgd(gamma, slower=10.0, *, batch=1):
    return gs.sgd(gamma / slower, batch=batch)


@part
class Halving(Memoryless):
    gamma: Number = leaf(POSITIVE)

    def __call__(self, x, v):
        return x - self.gamma * v / 2


@part
class Bowl:
    start: Data = leaf(VECTOR)
    f_inf = 0.0

    @classmethod
    def from_seed(cls, seed, scale=1.0, *, dim=2):
        return cls(scale * np.random.default_rng(seed).normal(size=dim))

    def value(self, x):
        return jnp.sum(x * x) / 2

    def grad(self, x):
        return x


def one_bowl():
    return Bowl(np.ones(3))


@part
class Loud(gs.BlumGladyshev):
    pass


@part
class Later(Average):
    of_the_run = False

    def weight(self, k, horizon):
        return 1.0


number = 3
"""


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> None:
    """mine.py in the current folder, forgotten afterwards."""
    Path("mine.py").write_text(MINE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)


@pytest.mark.usefixtures("mine")
def test_methods_objectives_and_oracles_of_one_s_own_run_like_the_package_s(gladstorm: Said) -> None:
    size = ("--steps", "20", "--seeds", "2", "--json")

    def told(*words: str) -> dict[str, Any]:
        code, out, err = gladstorm("simulate", *words, *size)
        assert code == 0, err
        rows: dict[str, Any] = json.loads(out)["methods"]
        return rows

    own = told(
        *("--objective", "mine:Bowl(scale=2)", "--dim", "3", "--oracle", "mine:Loud(B=0.1)", "--G", "0.5"),
        *("--method", "mine:slow_sgd(slower=2)", "--method", "fresh+mine:Halving", "--method", "sgd(gamma=0.1)"),
        *("--method", "mine:slow_sgd(gamma=0.4,slower=1)+mine:Later", "--gamma", "0.2"),
    )
    slower, halving, plain, averaged = own.values()
    assert slower["final_grad_norm"] == halving["final_grad_norm"] == plain["final_grad_norm"]
    assert averaged["final_grad_norm"] != plain["final_grad_norm"]
    ours = told("--objective", "quadratic", "--dim", "3", "--B", "0.1", "--G", "0.5", "--method", "sgd(gamma=0.1)")
    theirs = told("--objective", "mine:Bowl", "--dim", "3", "--B", "0.1", "--G", "0.5", "--method", "sgd(gamma=0.1)")
    assert theirs["sgd(gamma=0.1)"]["sfo"] == ours["sgd(gamma=0.1)"]["sfo"]
    assert told("--objective", "mine:one_bowl", "--method", "sgd(gamma=0.1)")
    made = objectives.named("mine:Bowl", seed=3, dim=2).start.tolist()
    assert made != objectives.named("mine:Bowl", seed=4, dim=2).start.tolist()


@pytest.mark.usefixtures("mine", "no_work")
@pytest.mark.parametrize(
    ("option", "text", "sentence"),
    [
        ("--method", "mine:slow_sdg(gamma=1)", "a class or a function of mine; got 'slow_sdg'; did you mean slow_sgd?"),
        ("--method", "mine:slow_sgd(gama=1)", "takes gamma, slower, batch; got 'gama'; did you mean gamma?"),
        ("--method", "mine:slow_sgd", "mine:slow_sgd needs gamma, as in mine:slow_sgd(gamma=0.1); got none."),
        ("--method", "mine:Halving(gamma=1)", "must make a Method, or be joined with other parts by +; got Halving"),
        ("--method", "mine:number", "must name a class or a function of mine; got 'number'"),
        ("--method", "nowhere:Mine", "must be a module in this folder, nowhere.py"),
        ("--method", "broken:Mine", "got ZeroDivisionError: division by zero."),
        ("--method", "mine.slow_sgd(gamma=1)", "method: must be NAME"),
        ("--objective", "mine:Bowl(scal=1)", "mine:Bowl takes scale; got 'scal'; did you mean scale?"),
        ("--objective", "mine:Bawl", "did you mean Bowl?"),
        ("--objective", "mine:Bowl(scale=(1,2)", "objective: must be NAME"),
        ("--oracle", "mine:Bowl", "mine:Bowl must be a class that inherits Oracle"),
        ("--oracle", "mine:Loud(C=1)", "oracle: mine:Loud takes B, G; got 'C'"),
    ],
)
def test_what_is_wrong_with_a_part_of_one_s_own_is_said_in_a_sentence(
    gladstorm: Said, option: str, text: str, sentence: str
) -> None:
    Path("broken.py").write_text("1 / 0\n")
    words = {"--objective": "cauchy", "--method": "sgd(gamma=1)"} | {option: text}
    code, _, err = gladstorm("simulate", *(word for pair in words.items() for word in pair))
    assert (code, err.count("\n")) == (2, 1), err
    assert sentence in err


@pytest.mark.usefixtures("no_work")
def test_nothing_of_the_folder_is_imported_unless_it_is_written_so(gladstorm: Said) -> None:
    for name in ("sgd", "cauchy", "full_rank", "power"):
        Path(f"{name}.py").write_text("raise SystemExit('imported')\n")
    before = list(sys.path)
    for objective in ("cauchy", "power:3"):
        with pytest.raises(WorkBegun):
            gladstorm(
                "simulate", "--objective", objective, "--oracle", "full-rank", "--method", "sgd(gamma=1)", "--B", "1"
            )
    assert sys.path == before


def test_what_follows_a_colon_are_the_arguments_in_their_order() -> None:
    for short, whole in (
        ("power:4", "power(p=4)"),
        ("power:4", "power(4)"),
        ("quadratic:1,10", "quadratic(1, 10)"),
        ("phase-retrieval:7", "phase_retrieval(m=7)"),
        ("variational-gaussian:mean-field,3", "variational-gaussian(family=mean-field, condition=3)"),
    ):
        assert repr(objectives.named(short, dim=2)) == repr(objectives.named(whole, dim=2))
    for short, whole in (("skewed:0.5,1,0.1", "skewed(B=0.5, G=1, q=0.1)"), ("full-rank:1,2", "full_rank(1, G=2)")):
        assert oracles.read(short) == oracles.read(whole)
    assert parse_method("nstorm:0.1,0.5") == parse_method("nstorm(gamma=0.1, eta=0.5)")


@pytest.mark.parametrize(
    ("read", "name"), [(objectives.named, "power"), (oracles.read, "full-rank"), (parse_method, "sgd")]
)
def test_one_language_has_one_set_of_errors(read: Callable[[str], Any], name: str) -> None:
    for text, sentence in (
        (f"{name}(", r"must be NAME\(argument=value, …\), for short NAME:value,…"),
        (f"{name}x:1", f"must be one of .*; got '{name.replace('-', '_')}x'; did you mean {name}?"),
        (f"{name}(zzz=1)", f": {name} takes .*; got 'zzz'"),
        (f"{name}:1,2,3,4", f": {name} takes at most . of its arguments without a name; got 4 values"),
        (f"{name}:'1'", "must be a number; got '1'"),
        ("nowhere:Part(1)", "'nowhere' of 'nowhere:Part' must be a module in this folder"),
    ):
        with pytest.raises(ValueError, match=sentence) as error:
            read(text)
        assert str(error.value).count("\n") == 0


# What does not fit in memory is refused before any of it is made.


@pytest.mark.parametrize("name", list(objectives.registry()))
def test_a_dimension_that_does_not_fit_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cls = objectives.registry()[name]
    monkeypatch.setattr(memory, "available", lambda: 20 * 10**9)
    monkeypatch.setattr(cls, "from_seed", lambda *_, **__: pytest.fail("it is being made"))
    with pytest.raises(ValueError, match=r"a run with x of dimension 1,000,000,000 must fit in memory; .* 96 GB"):
        objectives.named(name, dim=10**9)


def test_a_vector_that_leaves_no_room_for_a_run_is_refused_before_it_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    oracle = oracles.named("blum-gladyshev(B=1, G=1)", objectives.named("cauchy", dim=1000))
    monkeypatch.setattr(memory, "available", lambda: 12 * 8 * 1000 - 1)
    monkeypatch.setattr("gladstorm.simulation.validation.describe", lambda _: pytest.fail("copied"))
    with pytest.raises(ValueError, match="sweep: a run with x of dimension 1,000 must fit in memory"):
        simulating.sweep(oracle, [parse_method("sgd(gamma=1)")], steps=1)


@pytest.mark.parametrize("spec", ["variational-gaussian:full-rank", "temporal-differences:1e5", "dro:1e8", "dro:1e6"])
def test_data_that_do_not_fit_are_refused_before_they_are_drawn(monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    with pytest.raises(ValueError, match="must fit in memory"):
        objectives.named(spec, dim=10**4)


# A file that was sealed by somebody else.


def _without(path: tuple[str, ...]) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        inner: Any = content
        for name in path[:-1]:
            inner = inner[name]
        del inner[path[-1]]

    return change


def _with(value: Any, *path: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        inner: Any = content
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value

    return change


EMPTY: list[Any] = [{}, [], 3, None]
FORGED = [
    *(_without((name,)) for name in ("method", "problem", "horizon", "gamma0", "eta0", "kind", "per_seed", "instance")),
    *(_without(("instance", name)) for name in ("x", "slope", "q", "share")),
    *(_with(value, "horizon") for value in (0, -1, 2.5, "9", None, [1])),
    *(_with(value, "per_seed") for value in ([], [1.0], ["x"], 9, None)),
    *(_with(value, "gamma0") for value in (None, "x", -1)),
    *(_with(value, "method") for value in (3, "adam", None)),
    *(_with(value, "problem") for value in [*EMPTY, {"alpha": 0}, {"x": 1}]),
    *(_with(value, "instance") for value in EMPTY),
    *(_with(value, "instance", "x") for value in ([], [1.0], "x", None, [[1.0]], [float("nan")] * 11, [0.0] * 11)),
    *(_with(value, "instance", "share") for value in ([[1.0]], 0.0)),
    *(_with(value, "instance", "q") for value in ([0.5], [2.0, 2.0])),
    _with("all", "kind"),
]


def test_a_forged_problem_is_refused_in_a_sentence(gladstorm: Said, kept: dict[str, Any]) -> None:
    for number, change in enumerate(FORGED):
        content = json.loads(json.dumps(kept))
        change(content)
        save_json(Path("worst.json"), study.FORMAT, json.loads(json.dumps(content)))
        code, out, err = gladstorm("worst", "--again", "worst.json")
        assert (code, out, err.count("\n")) == (2, "", 1), (number, err)
        assert "worst: the file must hold a problem, as `gladstorm worst` writes it; got: " in err
    save_json(Path("worst.json"), study.FORMAT, kept)
    assert gladstorm("worst", "--again", "worst.json", "--json")[2] == ""


def test_a_forged_file_that_is_nested_too_deeply_is_refused_in_a_sentence(gladstorm: Said) -> None:
    save_json(Path("worst.json"), study.FORMAT, {"a": "HERE"})
    sealed_with(Path("worst.json"), b'"HERE"', b"[" * 10**5 + b"]" * 10**5)
    code, out, err = gladstorm("worst", "--again", "worst.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "nested too deeply" in err


def sealed_with(path: Path, old: bytes, new: bytes) -> None:
    """Replace some bytes of a sealed file, and seal it again."""
    from gladstorm.jobs import files

    data = path.read_bytes().replace(old, new)
    at = data.rfind(files._BEFORE) + len(files._BEFORE)
    seal = files._digest(data, at)
    path.write_bytes(data[:at] + seal + data[at + len(seal) :])
