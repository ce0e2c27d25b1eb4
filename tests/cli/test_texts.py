"""Texts for methods, oracles and objectives: what they stand for, what is wrong with them, and parts of one's own."""

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gladstorm import nsgdm, nstorm, sgd
from gladstorm.core import rules
from gladstorm.methods import METHODS, Method, batches, estimators, schedules, steps
from gladstorm.methods.averages import PolynomialAverage, TailAverage
from gladstorm.methods.batches import Fixed, GrowWithDistance, LargeOnRefresh
from gladstorm.methods.estimators import Fresh, Page, Snvrg, Spider, Storm
from gladstorm.methods.schedules import PowerDecay
from gladstorm.methods.steps import Anchored, Normalized, Plain, ThreeWayClipped, WeightDecay
from gladstorm.methods.text import parse_method
from gladstorm.problems import objectives, oracles
from gladstorm.simulation import simulate as simulating

Terminal = Callable[..., tuple[int, str, str]]
ON = ("simulate", "--objective", "cauchy", "--dim", "2", "--steps", "2", "--seeds", "1", "--json")


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("storm(eta=1e-3)+normalized(gamma=5e-3)", Method(Storm(1e-3), Normalized(5e-3))),
        (
            "spider(q=5) + three-way-clipped(gamma=1,c0=2,c1=3) + fixed(size=4)",
            Method(Spider(5), ThreeWayClipped(1, 2, 3), Fixed(4)),
        ),
        ("storm(eta=0.1)+normalized(gamma=1)+anchored(weight=0.5)", Method(Storm(0.1), Anchored(Normalized(1), 0.5))),
        ("page(p=0.5)+plain(gamma=power_decay(initial=1,exponent=0.5))", Method(Page(0.5), Plain(PowerDecay(1, 0.5)))),
        ("sgd(gamma=0.1, batch=grow_with_distance(B=1,G=1,sigma2=2))", sgd(0.1, batch=GrowWithDistance(1, 1, 2))),
        ("sgd(gamma=1e+3)+tail-average", dataclasses.replace(sgd(1e3), average=TailAverage())),
        (
            "fresh+plain(gamma=1)+large_on_refresh(large=4)+polynomial_average(degree=2)",
            Method(Fresh(), Plain(1), LargeOnRefresh(Fixed(4)), PolynomialAverage(2)),
        ),
        ("snvrg(loops=(2,3))+plain(gamma=1)", Method(Snvrg((2, 3)), Plain(1))),
        ("sgd:0.1", sgd(0.1)),
        ("sgd(0.1, batch=3)", sgd(0.1, batch=3)),
        ("nstorm(1,0.5)+weight-decay(0.5)", dataclasses.replace(nstorm(1, 0.5), step=WeightDecay(Normalized(1), 0.5))),
    ],
)
def test_a_text_is_its_method(text: str, method: Method) -> None:
    assert parse_method(text) == method


def test_what_a_text_leaves_out_is_taken_from_what_is_given() -> None:
    assert parse_method("nsgdm(eta=0.5)", {"gamma": 0.1}) == nsgdm(0.1, 0.5)
    assert parse_method("storm+plain", {"gamma": 0.1, "eta": 1}) == Method(Storm(1), Plain(0.1))


def test_lists_of_a_text_are_crossed_with_each_other_and_with_what_is_given() -> None:
    made: Any = parse_method("pasta(B=1,G=1,sigma2=grid(1,4,3),lam=[0,1])", {"gamma": [0.1, 0.2]})
    settings = list(zip(made.step.step.gamma, made.batch.large.sigma2, made.step.weight, strict=True))
    wanted = [(gamma, sigma2, lam * gamma) for gamma in (0.1, 0.2) for sigma2 in (1, 2, 4) for lam in (0, 1)]
    np.testing.assert_allclose(settings, wanted, rtol=1e-12)  # the one written last varies fastest


def test_a_list_of_batch_sizes_is_crossed_wherever_it_is_written() -> None:
    for text in ("spider(q=9)+plain(gamma=[1,2])+large_on_refresh(large=[4,8])", "spiderboost([1,2],9,[4,8])"):
        made: Any = parse_method(text)
        assert [made.step.gamma.tolist(), made.batch.large.size.tolist()] == [[1, 1, 2, 2], [4, 8, 4, 8]]


def test_what_follows_a_colon_are_the_arguments_in_their_order() -> None:
    for short, whole in (
        ("power:4", "power(p=4)"),
        ("quadratic:1,10", "quadratic(1, 10)"),
        ("phase-retrieval:7", "phase_retrieval(m=7)"),
        ("variational-gaussian:mean-field,3", "variational-gaussian(family=mean-field, condition=3)"),
    ):
        assert repr(objectives.named(short, dim=2)) == repr(objectives.named(whole, dim=2))
    assert oracles.read("skewed:0.5,1,0.1") == oracles.read("skewed(B=0.5, G=1, q=0.1)")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        *(
            (text, r"must be NAME\(argument=value, …\) with numbers")
            for text in ("storm(eta=", "", "1", "sgd+", "sgd(1\0)", "\udcff", "sgd(gamma=1, gamma=2)")
        ),
        *(
            (f"sgd(gamma={bad})", "gamma of sgd must be a finite number, or a list of such; got")
            for bad in ("'1'", "True", "1j", "1e400", "9" * 400, "[]", "[[1]]", "-x")
        ),
        *(("sgd(gamma=" + "-" * 9000 + "1)", "must be NAME"), ("+".join("a" * 4999), "must be NAME")),
        ("nadam(gamma=1)", "must be one of .* got 'nadam'"),
        ("storm(eta=0.1)+storm(eta=0.1)", "step must be one of anchored, .*; got 'storm'"),
        ("storm(eta=0.1)+anchored(weight=1)", "storm needs gamma, as in"),
        ("fresh+plain(gamma=1)+fixed(size=1)+fixed(size=1)", "must be one of polynomial_average, .*; got 'fixed'"),
        (
            "sgd(gamma=1)+tail_average+tail_average",
            "parts must be estimator, step, batch, average, one of each; got tail",
        ),
        ("sgd", r"sgd needs gamma, as in sgd\(gamma=0\.1\); got none"),
        ("sgd(gama=1)", "sgd takes gamma, batch; got 'gama'; did you mean gamma?"),
        ("sgd(0.1, 2)", "sgd takes gamma, batch; got too many positional arguments"),
        ("sgd(0.1, gamma=2)", "sgd takes gamma, batch; got multiple values for argument 'gamma'"),
        ("sgd(gamma=foo)", "gamma of sgd, if no number, must be one of linear, .*; got 'foo'"),
        ("sgd(gamma=fixed(size=3))", "gamma of sgd, if no number, must be one of linear, .*; got 'fixed'"),
        (
            "sgd(gamma=1, batch=power_decay(1,1))",
            "batch of sgd, if no number, must be one of fixed, .* got 'power_decay'",
        ),
        ("sgd(gamma=grid(0,1,3))", "grid: must be FROM,TO,HOW MANY .* got 0,1,3"),
        ("nsgdm(gamma=grid(1,2,200),eta=grid(0.1,0.2,200))", "lists must make at most 10000 settings; got 40000"),
        ("nsgdm_by_theory(gamma0=1,horizon=[1,2],B=1,G=1)", "nsgdm_by_theory cannot compute with these values"),
        ("sdg:3", "got 'sdg'; did you mean sgd?"),
        ("nowhere:Part(1)", "'nowhere' of 'nowhere:Part' must be a module in this folder"),
    ],
)
def test_a_bad_text_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        parse_method(text)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 700


def _method_text(before: str, after: str = "") -> Callable[[str], Any]:
    return lambda name: parse_method(f"{before}{name}{after}")


NAMED: dict[str, tuple[Callable[[str], Any], list[str]]] = {
    "methods": (parse_method, sorted(METHODS)),
    "estimators": (_method_text("", "+plain(gamma=1)"), list(estimators.registry())),
    "steps": (_method_text("fresh+"), list(steps.registry())),
    "batch rules": (_method_text("fresh+plain(gamma=1)+"), list(batches.registry())),
    "schedules": (_method_text("sgd(gamma=", "(initial=1))"), list(schedules.registry())),
    "arguments": (_method_text("nstorm(", "=1)"), ["gamma", "n_init", "batch"]),
    "objectives": (lambda name: objectives.named(f"{name}(p=3)"), list(objectives.registry())),
    "oracles": (oracles.read, list(oracles.registry())),
}


@pytest.mark.parametrize("kind", NAMED)
def test_every_name_has_one_error_that_suggests_the_nearest(kind: str) -> None:
    read, names = NAMED[kind]
    for name in names:
        for wrong in [name.upper(), *([name + "x", name[0] + name] if len(name) > 3 else [])]:
            with pytest.raises(ValueError, match="did you mean") as error:
                read(wrong)
            sentence = str(error.value)
            assert sentence.count("\n") == 0
            suggested = sentence.partition("did you mean ")[2].rstrip("?").replace("_", "-")
            assert suggested in [other.replace("_", "-") for other in names], sentence
            assert wrong != name.upper() or suggested == name.replace("_", "-")
    with pytest.raises(ValueError, match="'zzzzz'") as error:
        read("zzzzz")
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize(
    ("option", "value", "uses"),
    [
        ("--gamma", "0.5", ("sgd", "sgd(gamma=0.1)")),
        ("--eta", "0.5", ("momentum+plain(gamma=1)", "momentum(eta=0.1)+plain(gamma=1)")),
        ("--n-init", "3", ("storm(eta=1)+plain(gamma=1)+first_large", "storm(eta=1)+plain(gamma=1)")),
        ("--G", "2", ("--oracle=skewed(q=0.1)", "--oracle=skewed(q=0.1,G=1)")),
    ],
)
def test_an_option_is_used_or_refused(gladstorm: Terminal, option: str, value: str, uses: tuple[str, str]) -> None:
    method = [] if "method" in option or not uses[0].startswith("--") else ["--method", "sgd(gamma=1)"]
    used, unused = ([*method, each] if each.startswith("--") else ["--method", each] for each in uses)
    assert gladstorm(*ON, *used, option, value)[0] == 0
    assert gladstorm(*ON, *unused)[0] == 0
    code, out, err = gladstorm(*ON, *unused, option, value)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"simulate: {option} must be left out, nothing uses it: " in err
    assert f"; got {option} " in err


MINE = """
import jax.numpy as jnp
import numpy as np

import gladstorm as gs
from gladstorm.core.parts import Data
from gladstorm.core.rules import VECTOR


def slow_sgd(gamma, slower=10.0, *, batch=1):
    return gs.sgd(gamma / slower, batch=batch)


@gs.part
class Halving(gs.steps.Memoryless):
    gamma: gs.Number = gs.leaf(gs.rules.POSITIVE)

    def __call__(self, x, v):
        return x - self.gamma * v / 2


@gs.part
class Bowl:
    start: Data = gs.leaf(VECTOR)
    f_inf = 0.0

    @classmethod
    def from_seed(cls, seed, scale=1.0, *, dim=2):
        return cls(scale * np.random.default_rng(seed).normal(size=dim))

    def value(self, x):
        return jnp.sum(x * x) / 2

    def grad(self, x):
        return x


@gs.part
class Loud(gs.BlumGladyshev):
    pass


@gs.part
class Newest(gs.averages.Average):
    of_the_run = False

    def weight(self, k, horizon):
        return 1.0


number = 3
"""


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> None:
    """mine.py in the current folder, forgotten afterwards."""
    Path("mine.py").write_text(MINE)
    Path("broken.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)


@pytest.mark.usefixtures("mine")
def test_methods_objectives_and_oracles_of_one_s_own_run_like_the_package_s(gladstorm: Terminal) -> None:
    code, out, err = gladstorm(
        *("simulate", "--objective", "mine:Bowl(scale=2)", "--dim", "3", "--oracle", "mine:Loud(B=0.1)", "--G", "0.5"),
        *("--method", "mine:slow_sgd(slower=2)", "--method", "fresh+mine:Halving", "--method", "sgd(gamma=0.1)"),
        *("--method", "mine:slow_sgd(gamma=0.2,slower=2)+mine:Newest", "--gamma", "0.2", "--steps", "9", "--json"),
    )
    assert code == 0, err
    slower, halving, plain, averaged = json.loads(out)["methods"].values()
    assert slower["final_grad_norm"] == halving["final_grad_norm"] == plain["final_grad_norm"]
    assert averaged["final_grad_norm"] == plain["final_grad_norm"]


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("option", "text", "sentence"),
    [
        ("--method", "mine:slow_sdg(gamma=1)", "a class or a function of mine; got 'slow_sdg'; did you mean slow_sgd?"),
        ("--method", "mine:slow_sgd", "mine:slow_sgd needs gamma, as in mine:slow_sgd(gamma=0.1); got none."),
        ("--method", "mine:Halving(gamma=1)", "must make a Method, or be joined with other parts by +; got Halving"),
        ("--method", "mine:number", "must name a class or a function of mine; got 'number'"),
        ("--method", "broken:Mine", "got ZeroDivisionError: division by zero."),
        ("--objective", "mine:Bowl(scal=1)", "mine:Bowl takes scale; got 'scal'; did you mean scale?"),
        ("--objective", "mine:Bowl(scale=(1,2)", "objective: must be NAME"),
        ("--oracle", "mine:Bowl(start=1)", "mine:Bowl must be a class that inherits Oracle"),
    ],
)
def test_what_is_wrong_with_a_part_of_one_s_own_is_said_in_a_sentence(
    gladstorm: Terminal, option: str, text: str, sentence: str
) -> None:
    words = {"--objective": "cauchy", "--method": "sgd(gamma=1)"} | {option: text}
    code, _, err = gladstorm("simulate", *(word for pair in words.items() for word in pair))
    assert (code, err.count("\n")) == (2, 1), err
    assert sentence in err


def test_nothing_of_the_folder_is_imported_unless_it_is_written_so() -> None:
    for name in ("sgd", "cauchy", "full_rank", "power"):
        Path(f"{name}.py").write_text("raise SystemExit('imported')\n")
    before = list(sys.path)
    objectives.named("power:3")
    assert parse_method("sgd:1") == sgd(1)
    oracles.read("full-rank:1,2")
    assert sys.path == before


# What does not fit in memory is refused before any of it is made.


@pytest.mark.parametrize("name", list(objectives.registry()))
def test_a_dimension_that_does_not_fit_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cls = objectives.registry()[name]
    monkeypatch.setattr(rules, "free_memory", lambda: 20 * 10**9)
    monkeypatch.setattr(cls, "from_seed", lambda *_, **__: pytest.fail("it is being made"))
    with pytest.raises(ValueError, match=r"a run with x of dimension 1,000,000,000 must fit in memory; .* 96 GB"):
        objectives.named(name, dim=10**9)


@pytest.mark.parametrize("spec", ["variational-gaussian:full-rank", "temporal-differences:1e5", "dro:1e8", "dro:1e6"])
def test_data_that_do_not_fit_are_refused_before_they_are_drawn(monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    monkeypatch.setattr(rules, "free_memory", lambda: 10**9)
    with pytest.raises(ValueError, match="must fit in memory"):
        objectives.named(spec, dim=10**4)
    oracle = oracles.named("blum-gladyshev(B=1, G=1)", objectives.named("cauchy", dim=1000))
    monkeypatch.setattr(rules, "free_memory", lambda: 12 * 8 * 1000 - 1)
    with pytest.raises(ValueError, match="sweep: a run with x of dimension 1,000 must fit in memory"):
        simulating.sweep(oracle, [sgd(1.0)], steps=1)
