"""The digits study does what its page says, and the page says what its results are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from evidence.digits import jax_training, page, setting, study, torch_training
from evidence.digits.setting import Arm, Outcome
from evidence.page import MeanInterval, p_value
from examples import clipped_storm
from gladstorm.torch import Untuned

ROOT = Path(__file__).parents[2]
TINY = study.DigitsSize(evaluations=12, rates=2, tuning_seeds=(100,), seeds=(0, 1))
KEPT = json.loads((ROOT / "docs/evidence/digits/results.json").read_text("utf-8"))


# Each method once, each network, each noise: a JAX program takes seconds to compile.
CASES = [
    ("MLP", "none", "NSGDM"),
    ("MLP", "BG", "NSTORM"),
    ("conv", "none", "SGD"),
    ("MLP", "none", "SGD + clipping"),
    ("MLP", "none", "Adam"),
    ("MLP", "none", "Untuned"),
]


@pytest.mark.parametrize("framework", setting.FRAMEWORKS)
@pytest.mark.parametrize("case", CASES, ids=", ".join)
def test_every_method_trains_and_only_nstorm_evaluates_twice(framework: str, case: tuple[str, str, str]) -> None:
    network, _, method = case
    found = study.measure(Arm(framework, *case), TINY)
    # 6 steps of NSTORM; in torch the first evaluates once, under jax.jit it cannot
    assert found["evaluations"] == (11 if (framework, method) == ("torch", "NSTORM") else 12)
    rates = {"Adam": [0.0316, 0.1], "Untuned": [1.0]}.get(method, [0.316, 1.0])
    assert [row["lr"] for row in found["grid"]] == rates
    assert found["picked"] in [row["lr"] for row in found["grid"]]
    assert [run["seed"] for run in found["runs"]] == [0, 1]
    if network == "MLP" and method != "Untuned":  # these take more than 12 mini-batches; chance is 10 %
        assert all(run["test"] > 20 for run in found["runs"])


@pytest.mark.parametrize("framework", setting.FRAMEWORKS)
def test_untuned_learns_and_its_average_is_what_is_measured(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holder: Any = Untuned if framework == "torch" else jax_training
    average = MagicMock(side_effect=holder.averaged)
    monkeypatch.setattr(holder, "averaged", lambda *given: average(*given))
    (outcome,) = study.TRAINING[framework](Arm(framework, "MLP", "none", "Untuned"), [(1.0, 0)], 100)
    assert outcome.validation > 80
    assert outcome.loss < 0.8
    average.assert_called_once()


def test_the_cases_leave_no_method_out() -> None:
    assert {method for *_, method in CASES} == set(setting.METHODS)


@pytest.mark.parametrize("framework", setting.FRAMEWORKS)
def test_a_run_is_its_seed_and_its_steps_have_the_length_of_the_falling_learning_rate(framework: str) -> None:
    arm = Arm(framework, "MLP", "BG", "NSTORM")
    first, again, other = study.TRAINING[framework](arm, [(0.1, 0), (0.1, 0), (0.1, 1)], 12)
    assert first == again
    assert first.distance != other.distance
    # Steps of 0.1, 1/6 of it less each time; torch's first call only forms the estimate.
    path = 0.1 * sum(1 - k / 6 for k in range(framework == "torch", 6))
    assert path / 2 < first.distance <= path * (1 + 1e-5)


def test_tuning_sees_no_test_image_and_the_report_no_tuning_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def train(_: Any, runs: list[tuple[float, int]], evaluations: int) -> list[Any]:
        asked.append(runs)
        return [
            Outcome(50 - abs(lr - 0.1), (lr - 0.0316) ** 2, test=99 * lr, distance=1.0, evaluations=12)
            for lr, _ in runs
        ]

    monkeypatch.setitem(study.TRAINING, "torch", train)
    found = study.measure(Arm("torch", "MLP", "none", "SGD"), study.FULL)
    assert found["picked"] == 0.1  # test accuracy would have said 1
    assert found["by_loss"] == {"picked": 0.0316, "losses": [0.0] * 8}
    tuning, *reports = ({seed for _, seed in runs} for runs in asked)
    report = set.union(*reports)
    assert len(asked[0]) == 7 * 3
    assert not tuning & report
    parts = [{row.tobytes() for row in part[0]} for part in (setting.digits().train, setting.digits().test)]
    assert len(setting.digits().test[1]) == 1797 - 1000 - 300
    assert not parts[0] & parts[1]


def test_all_methods_get_equally_many_learning_rates() -> None:
    assert {method: len(study.FULL.grid(method)) for method in setting.METHODS} == dict.fromkeys(page.TUNED, 7) | {
        "Untuned": 1
    }


def test_the_added_noise_is_that_of_the_model_in_both_frameworks() -> None:
    """E‖B ρ (x − x⁰) + G u‖² = B² ‖x − x⁰‖² + G², and ρ is a sign: ‖g‖² and the part along x − x⁰ tell both."""
    d, draws = 400, 300
    start, x = np.zeros(d, np.float32), np.full(d, 0.1, np.float32)  # ‖x − x⁰‖ = 2
    torch.manual_seed(0)
    in_torch = []
    for _ in range(draws):
        point = torch.tensor(x, requires_grad=True)
        torch_training.bg_noise(point, torch.tensor(start)).backward()
        in_torch.append(point.grad)
    keys = jax.random.split(jax.random.key(0), draws)
    in_jax = jax.jit(jax.vmap(jax.grad(jax_training.bg_noise), (None, None, 0)))(x, start, keys)
    for g in (np.array(in_torch), np.asarray(in_jax)):
        along = g @ x / 2  # ± 2 B, and G u of variance 1/d
        assert abs(np.abs(along).mean() - 2 * setting.B) < 0.01
        assert abs((along > 0).mean() - 0.5) < 5 * 0.5 / draws**0.5
        rest = g - np.sign(along)[:, None] * setting.B * (x - start)
        assert abs((rest**2).sum(axis=1).mean() / setting.G**2 - 1) < 5 * (2 / (d * draws)) ** 0.5


def test_the_networks_of_both_frameworks_are_the_same() -> None:
    images = setting.digits().validation[0]
    convolutional = torch_training.network("conv")
    first, bias, second, bias2, out, bias3 = (p.detach().numpy() for p in convolutional.parameters())
    params = {
        "first": {"weight": first.transpose(2, 3, 1, 0).reshape(-1, 8), "bias": bias},
        "second": {"weight": second.transpose(2, 3, 1, 0).reshape(-1, 16), "bias": bias2},
        "out": {"weight": out.reshape(10, 16, 2, 2).transpose(2, 3, 1, 0).reshape(-1, 10), "bias": bias3},
    }
    expected = convolutional(torch.from_numpy(images)).detach().numpy()
    in_jax, _ = jax.jit(jax_training.Conv.apply)(params, {}, jnp.asarray(images), None)
    np.testing.assert_allclose(in_jax, expected, atol=1e-5)

    norm = torch.nn.BatchNorm1d(64)
    weights = {"scale": np.ones(64), "shift": np.zeros(64)}
    state: Any = {"mean": np.zeros(64), "variance": np.ones(64)}
    for training in (True, False):
        norm.train(training)
        normalized, state = jax_training.batch_norm(weights, state, jnp.asarray(images), training=training)
        np.testing.assert_allclose(normalized, norm(torch.from_numpy(images)).detach().numpy(), atol=1e-4)
    assert norm.running_var is not None
    np.testing.assert_allclose(state["variance"], norm.running_var.numpy(), atol=1e-6)


def pretend(calls: list[Any], stop_after: int | None = None) -> Any:
    """A stand-in for training."""

    def train(arm: Any, runs: list[tuple[float, int]], evaluations: int) -> list[Any]:
        if stop_after is not None and len(set(calls)) >= stop_after and arm not in calls:
            raise KeyboardInterrupt
        calls.append(arm)
        return [Outcome(90 - lr, lr, 91 - seed / 5, float("nan"), evaluations) for lr, seed in runs]

    return train


def test_a_stopped_study_goes_on_where_it_was_and_then_writes_everything(
    monkeypatch: pytest.MonkeyPatch, evidence: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    calls: list[Any] = []
    arguments = ["digits", "--quick", "--out", str(tmp_path / "new")]
    for framework in setting.FRAMEWORKS:
        monkeypatch.setitem(study.TRAINING, framework, pretend(calls, stop_after=3))
    code, _, err = evidence(*arguments)
    assert code == 130
    assert "the same command goes on" in err
    file = tmp_path / "new/results.json"
    assert list(json.loads(file.read_text("utf-8"))["arms"]) == [arm.name for arm in study.arms()][:3]
    code, _, err = evidence(*arguments, "--page-only")  # of a study that is not whole
    assert code == 2
    assert "'torch, MLP, noise none, SGD' is missing" in err
    assert not (tmp_path / "new/index.md").exists()

    for framework in setting.FRAMEWORKS:
        monkeypatch.setitem(study.TRAINING, framework, pretend(calls))
    code, _, err = evidence(*arguments)
    assert code == 0
    assert list(dict.fromkeys(calls)) == list(study.arms())
    assert len(calls) == 2 * 48  # tuning and report, nothing twice
    assert err.splitlines()[-1] == "jax, conv, noise BG, Adam: lr 0.0316, test accuracy 90.9 % (45/45, 0 s)"
    text = (tmp_path / "new/index.md").read_text("utf-8")
    assert all(text.count(f"| {method} | 9") == 1 + 4 for method in setting.METHODS)  # in short, and each setting
    assert (tmp_path / "new/figure.png").stat().st_size > 10_000

    code, _, err = evidence("digits", "--out", str(tmp_path / "new"))  # not quick any more
    assert code == 2
    assert "was made with other settings" in err
    file.write_text("{", "utf-8")
    code, _, err = evidence(*arguments)
    assert code == 2
    assert "results.json is damaged" in err


def test_the_range_of_learning_rates_is_around_the_best_and_says_where_the_grid_ends() -> None:
    means = [97.0, 90.0, 96.0, 97.5, 96.5]
    grid = [{"lr": 10.0**i, "validation": [mean - 1, mean + 1]} for i, mean in enumerate(means)]
    found = page.span({"grid": grid, "picked": 1e3})
    assert found == page.Span(1e2, 1e4, False, True)
    assert (str(found), found.decades) == ("100 to ≥ 10000", 2)


def test_intervals_and_p_values_are_student_s() -> None:
    mean, half_width, _ = MeanInterval.over([1.0, 2.0, 3.0, 4.0])
    # t of 3 degrees of freedom has its 97.5 % quantile at 3.1824; the standard error is √(5/3)/2
    assert (mean, round(half_width, 3)) == (2.5, 2.054)
    on_the_edge = [value - mean + half_width for value in (1.0, 2.0, 3.0, 4.0)]
    assert p_value(on_the_edge) == pytest.approx(0.05)
    assert (p_value([0.0, 0.0]), p_value([1.0, 1.0])) == (1, 0)
    assert [MeanInterval(mean, 1).sign for mean in (-2, -1, 0, 1, 2)] == [-1, 0, 0, 0, 1]


def test_the_results_kept_are_those_of_the_study_as_it_is() -> None:
    now = json.loads(json.dumps(study.described(study.FULL)))
    assert {**KEPT["settings"], "versions": None} == {**now, "versions": None}
    assert list(KEPT["arms"]) == [arm.name for arm in study.arms()]
    for found in KEPT["arms"].values():
        assert found["evaluations"] in (study.FULL.evaluations, study.FULL.evaluations - 1)
        assert len(found["runs"]) == len(study.FULL.seeds)


def test_storm_survives_clipping_at_both_points_and_not_at_one() -> None:
    short = {
        way: clipped_storm.mean_gradient_norm(way, 1.0, heavy=True, steps=1500, runs=16) for way in clipped_storm.WAYS
    }
    start = float(np.linalg.norm(clipped_storm.CURVATURES))
    assert short["both, each by its norm"] < start < short["the second only"]
