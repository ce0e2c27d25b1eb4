"""`gladstorm plan`: what its numbers and tables say, exit codes, figures."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from gladstorm import theory

Said = Callable[..., tuple[int, str, str]]

PROBLEM = "--alpha 0.5 --L0 1.5 --L1 0.25 --B 0.4 --G 0.7 --gap 3".split()
EXAMPLE = ["plan", "nstorm", *PROBLEM, "--horizon", "10000", "--gamma0", "0.09", "--eta0", "0.8"]


def test_the_tables_say_what_dominates_and_what_else_is_known(gladstorm: Said) -> None:
    code, out, err = gladstorm(*EXAMPLE)
    assert (code, err) == (0, "")
    for words in (
        "NSTORM, α = 0.5",
        "T = 10,000",
        "λ0 ≤ η0/(8 L_α γ0)",
        "✓",
        "dominated by 'gap'",
        "T^-2/9",
        "sharper",
    ):
        assert words in out
    terms = [line for line in out.splitlines() if "%" in line]
    shares = [float(line.split("%")[0].split()[-1]) for line in terms]
    assert shares == sorted(shares, reverse=True)


def test_a_printed_bound_that_is_wrong_is_shown_as_such(gladstorm: Said) -> None:
    _, out, _ = gladstorm("plan", "nsgdm", *"--alpha 0 --L0 1 --B 0 --G 1 --gap 9 --horizon 100 --gamma0 2".split())
    assert "as printed in the paper" in out
    assert "E1" in out


def test_a_violated_condition_is_a_sentence_and_exit_code_1(gladstorm: Said) -> None:
    arguments = "plan nsgdm --alpha 1 --L0 1.5 --L1 0.25 --B 0.4 --G 0.7 --gap 3 --horizon 100 --gamma0 0.9".split()
    code, out, err = gladstorm(*arguments)
    assert code == 1
    assert "✗" in out
    assert "needs γ0 ≤ 1/(8 L1), but 0.9 > 0.5, 1.8 times too large; the largest admissible gamma0 is 0.5." in err
    code, out, _ = gladstorm(*arguments, "--json")
    assert code == 1
    assert not json.loads(out)["conditions"][0]["holds"]


def test_compare_shows_both_methods_and_where_they_cross(gladstorm: Said) -> None:
    arguments = ["plan", "nstorm", *PROBLEM, "--horizon", "1000", "--compare", "--eta0", "1"]  # S9 is ahead at once
    code, out, _ = gladstorm(*arguments, "--json")
    answer = json.loads(out)
    assert code == 0
    f = theory.Problem(alpha=0.5, L0=1.5, L1=0.25, B=0.4, G=0.7, gap=3)
    nsgdm, nstorm = (
        theory.plan(name, horizon=1000, eta0=1.0, **vars(problem)).statement
        for name, problem in (("nsgdm", f), ("nstorm", theory.wrapped(f)))
    )
    crossing = answer["nstorm_ahead_from"]
    assert nstorm.bound(crossing) < nsgdm.bound(crossing)
    assert nstorm.bound(crossing - 1) >= nsgdm.bound(crossing - 1)
    assert answer["nstorm"]["bound"] == pytest.approx(nstorm.bound(1000))
    assert answer["nstorm"]["class"].startswith("E L*_sym(1), constants of samples: L0 = ")
    assert answer["nsgdm"]["class"].endswith("constants of f: L0 = 1.5, L1 = 0.25")
    code, out, _ = gladstorm(*arguments)
    assert out.index("NSGDM") < out.index("NSTORM")
    assert f"from T = {crossing:,} on" in out
    assert "NSTORM's are those of f with BG-0 noise added." in out
    alone = json.loads(gladstorm(*[word for word in arguments if word != "--compare"], "--json")[1])
    assert (
        alone["bound"] < answer["nstorm"]["bound"]
    )  # there L0 and L1 are read as constants of samples, and it says so
    assert alone["class"] != answer["nstorm"]["class"]


def test_another_growth_and_norm_have_their_own_bound_and_say_so(gladstorm: Said) -> None:
    given = "plan nsgdm --alpha 0 --L0 1 --B 0.1 --G 1 --gap 1 --eps 0.5 --growth 1 --constants norm".split()
    code, out, _ = gladstorm(*given, "--norm", "spectral(64, 32)", "--json")
    answer = json.loads(out)
    assert (code, answer["growth"], answer["norm"]) == (0, 1, "spectral(64, 32)")
    assert answer["tau"] == pytest.approx(math.sqrt(32))
    _, text, _ = gladstorm(*given, "--norm", "spectral(64, 32)")
    assert "bound on E‖∇f(x̂)‖_*" in text
    assert "noise growth 1" in text
    assert json.loads(gladstorm(*given, "--json")[1])["horizon"] < answer["horizon"]
    for wrong, words in ((["--norm", "l3(2)"], "norm: must be euclid"), (["--gamma0", "1"], "gamma0 and eta0 must be")):
        code, out, err = gladstorm(*given, *wrong)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words in err


def test_batches_come_with_the_curve_of_steps_against_samples(gladstorm: Said) -> None:
    given = "plan sgd --alpha 0 --L0 1 --B 1 --G 0.1 --gap 1 --eps 0.01 --growth 1 --batch sigma".split()
    code, text, _ = gladstorm(*given)
    assert code == 0
    assert "(S/S0 − 1)(N/N0 − 1) = 1" in text
    for excess in (0.3, 3.0):
        answer = json.loads(gladstorm(*given, "--excess", str(excess), "--json")[1])
        (point,) = [point for point in answer["trade_off"] if point["excess"] == excess]
        assert point["steps"] == pytest.approx(answer["horizon"], rel=1e-3)
        assert point["samples"] + point["steps"] == pytest.approx(answer["sfo"], rel=1e-3)  # at least one each step
    assert "trade_off" not in json.loads(gladstorm(*given[:-2], "--json")[1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--alpha 0 --L0 1 --B 0.1 --G 0.1 --gap 1 --gamma0 0.5", "at every horizon"),
        ("--alpha 0 --L0 1e-9 --L 1 --B 0 --G 0 --gap 1 --gamma0 1", "stays above"),
    ],
)
def test_compare_says_so_where_nothing_crosses(gladstorm: Said, arguments: str, words: str) -> None:
    _, out, _ = gladstorm("plan", "nsgdm", *arguments.split(), "--horizon", "1000", "--compare")
    assert words in out


def test_what_is_given_and_not_used_is_said(gladstorm: Said) -> None:
    code, _, err = gladstorm(*"plan nsgdm --alpha 0 --L0 1 --L1 2 --B 1 --G 1 --gap 1 --horizon 10 --eta0 0.5".split())
    assert code == 0
    assert "L1 is not used" in err
    assert "eta0 is not used" in err


@pytest.mark.parametrize(("suffix", "methods"), [("png", ["--compare"]), ("pdf", []), ("svg", [])])
def test_plot_draws_into_a_file(gladstorm: Said, suffix: str, methods: list[str], tmp_path: Path) -> None:
    code, _, _ = gladstorm(*EXAMPLE, *methods, "--plot", f"bound.{suffix}")
    assert code == 0
    assert (tmp_path / f"bound.{suffix}").stat().st_size > 5000
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("horizon", [10**24, 10**200], ids="{:g}".format)
def test_horizons_beyond_the_integers_of_numpy_are_drawn_too(gladstorm: Said, horizon: int, tmp_path: Path) -> None:
    words = f"plan nsgdm --alpha 0 --L0 1 --B 1 --G 1 --gap 1 --horizon {horizon} --plot bound.svg"
    code, _, err = gladstorm(*words.split())
    assert (code, err) == (0, "")
    assert (tmp_path / "bound.svg").stat().st_size > 5000
