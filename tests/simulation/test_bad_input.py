"""Bad input gets one sentence that names the owner, the argument, the rule and the value."""

from typing import Any

import numpy as np
import pytest

from gladstorm import BlumGladyshev, nsgdm, nstorm, run, sgd, storm, sweep
from gladstorm.methods import Method
from gladstorm.methods.batches import FirstLarge, GrowWithDistance
from gladstorm.methods.steps import Plain
from gladstorm.problems import objectives

NAN, INF = float("nan"), float("inf")
GOOD = objectives.named("cauchy", dim=2, start=1.0)


BATCHES: list[Any] = [0, -3, 1.5, NAN]
SEEDS: list[Any] = [0, -2, [], [-1], [0.5], [2**32], 2.0, True, None, "ab", [[1], [2]], 1j]


def go(objective: Any = GOOD, B: Any = 1.0, G: Any = 1.0, method: Any = None, steps: Any = 5, **rest: Any) -> None:
    run(BlumGladyshev(objective, B, G), method or sgd(0.1), steps=steps, **rest)


CASES: list[tuple[Any, str]] = [
    *(({"B": bad}, r"BlumGladyshev: B must be finite and ≥ 0; got B=") for bad in (-1.0, NAN, INF, "x", None)),
    *(({"G": bad}, r"BlumGladyshev: G must be finite and ≥ 0; got G=") for bad in (-1.0, NAN, INF)),
    *(({"method": sgd(bad)}, r"Plain: gamma must be finite and > 0; got gamma=") for bad in (0.0, -1.0, NAN, INF)),
    *(({"method": nsgdm(0.1, bad)}, r"Momentum: eta must be in \(0, 1\]; got eta=") for bad in (0.0, 1.1, -1, NAN)),
    *(({"method": storm(0.1, bad)}, r"Storm: eta must be in \(0, 1\]; got eta=") for bad in (0.0, 1.0001)),
    *(({"method": sgd(0.1, batch=bad)}, r"Fixed: size must be a whole number ≥ 1; got size=") for bad in BATCHES),
    *(
        ({"method": nstorm(0.1, 0.1, n_init=bad)}, r"FirstLarge: n_init must be a whole number ≥ 1; got n_init=")
        for bad in (0, 2.5, INF)
    ),
    ({"method": sgd(0.1, batch=GrowWithDistance(1.0, 1.0, 0.0))}, r"GrowWithDistance: sigma2 must be finite and > 0"),
    ({"method": sgd(0.1, batch=GrowWithDistance(1.0, -1.0, 1.0))}, r"GrowWithDistance: G must be finite and ≥ 0"),
    ({"method": sgd(0.1, batch=GrowWithDistance(1.0, 1.0, 1.0, cap=0))}, r"cap must be a whole number ≥ 1; got cap=0"),
    ({"method": nsgdm(0.1, 0.1, batch=FirstLarge(3, GrowWithDistance(1.0, 1.0, NAN)))}, "sigma2 must be"),
    ({"method": sgd([0.1, -0.2])}, r"got gamma=-0\.2"),
    ({"method": sgd([])}, "gamma must be finite"),
    ({"method": nsgdm([0.1, 0.2], [0.1, 0.2, 0.3])}, "must have one length"),
    ({"method": sgd(np.array([[0.1, 0.2]]))}, "must be single or a plain list"),
    ({"method": "sgd"}, "must be Method objects"),
    *(({"steps": bad}, "sweep: steps must be a whole number from 0 to") for bad in (-1, 1.5, NAN, 2**32, [3])),
    *(
        ({"seeds": bad}, "sweep: seeds must be a whole number")
        for bad in (0, -2, [], [-1], [0.5], [2**32], 2.0, True, None, "ab", [[1], [2]], 1j)
    ),
    ({"seeds": [3, 4, 3]}, r"sweep: seeds must be distinct, .* got seeds=\[3, 4, 3\]"),
    ({"seeds": 2**32 + 1}, "sweep: the last seed must be a whole number from 0 to 2³² − 1"),
    *(({"records": bad}, "sweep: records must be a whole number ≥ 1") for bad in (0, -1, [3])),
    ({"objective": objectives.Power(np.array([1.0]), 2.0)}, "Power: p must be finite and > 2"),
    ({"objective": objectives.Cauchy(np.array([1.0, NAN]))}, "Cauchy: start must be a vector of finite numbers"),
    ({"objective": objectives.Cauchy(np.ones((2, 2)))}, "Cauchy: start must be a vector of finite numbers"),
    ({"objective": objectives.Quadratic(np.ones(2), -1.0)}, "Quadratic: curvature must be finite and ≥ 0"),
    ({"objective": objectives.Cosh(np.ones(2), growth=0.0)}, "Cosh: growth must be finite and > 0"),
]


@pytest.mark.parametrize(("arguments", "sentence"), CASES, ids=range(len(CASES)))
def test_a_run_refuses(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        go(**arguments)
    assert "\n" not in str(error.value)


def test_a_sweep_needs_methods_with_labels_of_their_own_and_an_oracle_for_each_seed() -> None:
    oracle = BlumGladyshev(GOOD, 1.0, 1.0)
    with pytest.raises(ValueError, match="at least one Method"):
        sweep(oracle, {}, steps=1)
    with pytest.raises(ValueError, match=r"own label; got 'SGD \(gamma=0.1\)' twice"):
        sweep(oracle, {"SGD": sgd([0.1, 0.1])}, steps=1)
    with pytest.raises(ValueError, match="one for each seed; got 2 oracles for 3 seeds"):
        sweep([oracle, oracle], {"SGD": sgd(0.1)}, steps=1, seeds=3)
    with pytest.raises(ValueError, match="must be Method objects"):
        sweep(oracle, {"SGD": Plain(0.1)}, steps=1)  # type: ignore[dict-item]  # the point of the test


def test_two_methods_of_the_same_parts_get_two_labels() -> None:
    record = sweep(BlumGladyshev(GOOD, 1.0, 1.0), [sgd(0.1), sgd(0.2), Method(sgd(1).estimator, Plain(0.3))], steps=1)
    assert record.labels == tuple(f"fresh+plain (gamma={gamma})" for gamma in (0.1, 0.2, 0.3))
    same = sweep(BlumGladyshev(GOOD, 1.0, 1.0), [sgd(0.1), sgd(0.1)], steps=1)
    assert same.labels == ("fresh+plain", "fresh+plain (method 2)")


@pytest.mark.parametrize(
    ("spec", "options", "sentence"),
    [
        ("cubic", {}, "must be one of cauchy, cosh, .* got 'cubic'"),
        ("power:three", {}, "objective: p of power must be one number; got 'three'"),
        ("power:3,4", {}, "objective: power takes p; got too many positional arguments"),
        ("cauchy:1", {}, "objective: cauchy takes no arguments; got too many positional arguments"),
        ("quadratic:1,2", {"dim": 3}, "Quadratic: curvature must be one number or dim=3; got 2"),
        ("cauchy", {"dim": 0}, "dim must be a whole number ≥ 1; got dim=0"),
        ("cauchy", {"start": NAN}, "start must be a vector of finite numbers"),
        ("phase-retrieval:0", {}, "PhaseRetrieval: m must be a whole number ≥ 1"),
    ],
)
def test_a_named_objective_refuses(spec: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        objectives.named(spec, **options)


def test_functions_must_return_numbers() -> None:
    with pytest.raises(ValueError, match=r"must return one number; got an array of shape \(2,\)"):
        objectives.from_function(lambda x: x, start=[1.0, 2.0])
    with pytest.raises(ValueError, match="must be callable"):
        objectives.from_function(3, start=[1.0])  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(ValueError, match="from_function: start must be a vector of finite numbers"):
        objectives.from_function(np.sum, start=[INF])
