"""What is said about a path, by every producer of probes, on a loss whose noise is known everywhere.

Least squares ½(⟨a, x⟩ − b)² with standard normal a in D dimensions and b = ξ: the variance of one sample's gradient is
(D + 1)‖x‖² + D, least at the minimiser 0. From a start away from it the noise grows in random directions; towards the
minimiser it falls, and away from it it grows.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch import Tensor, nn

import gladstorm.optax
import gladstorm.torch
from gladstorm.diagnosis import Finding, Probe, Probes, Report, diagnose
from gladstorm.diagnosis.finding import ESTIMATED, NO_GROWTH, UNKNOWN
from gladstorm.diagnosis.resampling import Interval
from gladstorm.optax import probes_of, read_noise

D, STEPS = 4, 64
BUDGET = 128  # 32 probes at the start without a checkpoint: an eighth of them is enough for a comparison
START = np.full(D, 2.0)


def variance(x: np.ndarray) -> np.ndarray:
    return np.asarray((D + 1) * np.sum(x**2, axis=-1) + D)


def batches(count: int, seed: int = 0) -> np.ndarray:
    """Mini-batches of 16 samples (a, b)."""
    return np.random.default_rng(seed).normal(size=(count, 16, D + 1))


def model() -> nn.Module:
    made = nn.Linear(D, 1, bias=False).double()
    nn.init.constant_(made.weight, START[0])
    return made


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    loss: Tensor = (model(batch[:, :D])[:, 0] - batch[:, D]).square().mean() / 2
    return loss


def loss_fn(x: Any, batch: Any) -> Any:
    return jnp.mean((batch[:, :D] @ x - batch[:, D]) ** 2) / 2


def budget(end: np.ndarray | None) -> int:
    return BUDGET if end is None else BUDGET // 2


def radius(end: np.ndarray | None) -> float | None:
    return float(np.linalg.norm(START)) if end is None else None


def designed_in_torch(end: np.ndarray | None) -> Report:
    later = None if end is None else {"weight": torch.tensor(end)[None]}
    return gladstorm.torch.diagnose(
        loss_of, model(), list(torch.tensor(batches(BUDGET))), budget(end), checkpoint=later, radius=radius(end)
    )


def searched_in_torch(end: np.ndarray | None) -> Report:
    """Without a radius, it searches for one."""
    later = None if end is None else {"weight": torch.tensor(end)[None]}
    return gladstorm.torch.diagnose(loss_of, model(), list(torch.tensor(batches(BUDGET))), BUDGET, checkpoint=later)


def designed_in_jax(end: np.ndarray | None) -> Report:
    later = None if end is None else jnp.asarray(end)
    return gladstorm.optax.diagnose(
        loss_fn, jnp.asarray(START), batches(BUDGET), budget(end), checkpoint=later, radius=radius(end)
    )


def walk(end: np.ndarray | None) -> np.ndarray:
    """Where a training goes in equal steps: to the end, or nowhere."""
    return np.asarray(START + np.linspace(0, 1, STEPS)[:, None] * (0 * START if end is None else end - START))


def looked_at_in_torch(end: np.ndarray | None) -> Report:
    trained = model()
    probe = gladstorm.torch.NoiseProbe(trained, every=1)
    for x, batch in zip(walk(end), torch.tensor(batches(STEPS)), strict=True):
        with torch.no_grad():
            trained.weight.copy_(torch.tensor(x)[None])  # type: ignore[operator]
        probe.look(loss_of, batch)
    return probe.report()


def heard_in_torch(end: np.ndarray | None) -> Report:
    trained = model()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.0)
    probe = gladstorm.torch.NoiseProbe(optimizer, every=1, samples=8)
    for x, batch in zip(walk(end), torch.tensor(batches(STEPS)), strict=True):
        with torch.no_grad():
            trained.weight.copy_(torch.tensor(x)[None])  # type: ignore[operator]
        for part in batch.chunk(2):
            (loss_of(trained, part) / 2).backward()
        optimizer.step()
    return probe.report()


def read_in_jax(end: np.ndarray | None) -> Report:
    start = jnp.asarray(START)
    read = jax.jit(jax.vmap(lambda x, batch: read_noise(loss_fn, x, start, batch, groups=2)))
    return diagnose(probes_of(read(jnp.asarray(walk(end)), jnp.asarray(batches(STEPS))), steps=range(STEPS)))


DESIGNED: list[Callable[[np.ndarray | None], Report]] = [designed_in_torch, designed_in_jax, searched_in_torch]
TRAINED: list[Callable[[np.ndarray | None], Report]] = [looked_at_in_torch, heard_in_torch, read_in_jax]


def lowers(_: float) -> tuple[float, float]:
    return 2.0, 1.0


def said(report: Report) -> str:
    return " ".join([*report.sentences(), report.recommend().why])


@pytest.mark.parametrize("produced", [*DESIGNED, *TRAINED])
def test_without_a_path_nothing_is_said_about_one_and_nothing_along_it_steers_the_advice(
    produced: Callable[[np.ndarray | None], Report],
) -> None:
    report = produced(None)
    at_start = np.flatnonzero(report.probes.direction == "start")
    # so many that an end and a beginning could be made of them; a search stops as soon as it can tell
    assert len(at_start) >= (8 if produced is searched_in_torch else 32)
    noise = np.array(report.probes.noise)
    noise[at_start[len(at_start) // 2 :]] *= 100  # of the later ones: as noise that grows or falls along a path would
    for each in (report, diagnose(Probes(**{**vars(report.probes), "noise": noise}))):
        assert each.path is each.as_dict()["path"] is None
        assert "path" not in said(each)
        assert each.findings["anchor"].verdict == UNKNOWN
    assert report.recommend().method == report.recommend(100, trial=lowers).method == "adam"
    assert ("grows around the start: its variance doubles at" in report.recommend().why) == (produced in DESIGNED)


@pytest.mark.parametrize("produced", [*DESIGNED, *TRAINED])
def test_the_end_of_a_path_is_compared_with_its_start_and_decides(
    produced: Callable[[np.ndarray | None], Report],
) -> None:
    for end, method in ((0.0 * START, "adam"), (4.0 * START, "nsgdm")):
        report = produced(end)
        path = report.path
        assert path is not None
        if produced in DESIGNED:
            truth = variance(end) / variance(START)
        else:
            along = variance(walk(end))
            truth = along[-STEPS // 8 :].mean() / along[: STEPS // 8].mean()
        assert path.low < truth < path.high
        assert path.high / path.low < 12
        assert report.recommend(100, trial=lowers).method == method
        assert "path" in said(report)


def test_the_ends_of_a_training_are_its_first_and_last_steps_in_whatever_order_they_are_stored() -> None:
    report = looked_at_in_torch(2.0 * START)
    noise = report.probes.noise
    assert report.path is not None
    assert report.path.value == pytest.approx(noise[-STEPS // 8 :].mean() / noise[: STEPS // 8].mean())
    order = np.random.default_rng(0).permutation(STEPS)
    columns = {name: getattr(report.probes, name)[order] for name in Probe._fields}
    shuffled = diagnose(Probes(**columns)).path
    assert shuffled is not None
    assert shuffled.value == pytest.approx(report.path.value)


VERDICTS = (NO_GROWTH, UNKNOWN, ESTIMATED)
FALLS, CANNOT_TELL, GROWS = Interval(0.5, 0.4, 0.9), Interval(1.1, 0.8, 1.5), Interval(2.0, 1.1, 3.0)
LITTLE = Interval(1.9, 1.1, 3.0)


@pytest.fixture(scope="module")
def report() -> Report:
    return designed_in_jax(0.0 * START)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (FALLS, ("adam", "adam", "adam")),
        (GROWS, ("nsgdm", "nsgdm", "nsgdm")),
        (LITTLE, ("adam", "adam", "adam")),
        (CANNOT_TELL, ("adam", "adam", "adam")),
        (None, ("adam", "adam", "adam")),
    ],
)
def test_the_order_of_decisions_is_that_of_the_page(
    report: Report, path: Interval | None, methods: tuple[str, ...]
) -> None:
    """With a path the comparison along it decides first, then B; a growth too fast for the theorems has no numbers."""
    for verdict, method in zip(VERDICTS, methods, strict=True):
        B = Finding(1.0, 0.9, 1.1, verdict, "more probes" if verdict == UNKNOWN else None)
        power = Finding(2.0, 1.5, 2.5, ESTIMATED)
        given = dataclasses.replace(report, path=path, findings={**report.findings, "B": B, "power": power})
        assert given.recommend(100).method == "adam"  # nothing was tried
        assert given.recommend(100, trial=lambda _: (1.0, 1.0)).method == "adam"  # and nothing won
        advice = given.recommend(100, trial=lowers)
        assert (advice.method, advice.gamma is not None) == (method, method == "nsgdm")
        by_theorem = given.recommend(horizon=100, gap=1.0, alpha=0)
        asked = verdict == ESTIMATED and path not in (FALLS, CANNOT_TELL)
        assert (by_theorem.method == "sgd", by_theorem.eta is not None) == (asked, asked)
        fast = {**given.findings, "power": Finding(4.0, 3.0, 5.0, ESTIMATED)}
        too_fast = dataclasses.replace(given, findings=fast)
        assert too_fast.recommend(horizon=100, trial=lowers).method == method
        assert (too_fast.recommend(horizon=100, gap=1.0, alpha=0).method in ("nsgdm", "nstorm")) == asked


def test_the_rate_that_is_tried_is_the_one_that_is_suggested(report: Report) -> None:
    tried = []

    def trial(lr: float) -> tuple[float, float]:
        tried.append(lr)
        return 2.0, 1.0

    grows = dataclasses.replace(report, path=GROWS)
    advice = grows.recommend(10_000, trial=trial)
    assert tried == [advice.gamma] == [pytest.approx(2 * report.probes.radius / 1000)]
    assert all(f"{tried[0]:.3g}" in code for code in advice.actions.values())
    assert "changed the loss from 2 to 1" in advice.why
    with pytest.raises(ValueError, match="horizon must be given with trial"):
        grows.recommend(trial=trial)


@pytest.mark.parametrize("library", ["torch", "optax"])
def test_a_trial_is_a_short_training_that_leaves_everything_as_it_was(library: str) -> None:
    """It is NSGDM in a plain loop; with short steps the loss falls, with long ones it rises."""
    data, watched = batches(20), model()
    (weight,) = watched.parameters()
    before = weight.clone()
    if library == "torch":
        trial = gladstorm.torch.trial(loss_of, watched, torch.tensor(data), steps=30)
    else:
        trial = gladstorm.optax.trial(loss_fn, jnp.asarray(START), data, steps=30)
    with torch.no_grad():
        start = float(torch.stack([loss_of(watched, batch) for batch in torch.tensor(data[:8])]).mean())
    drawn = torch.get_rng_state()
    (first, lower), (again, higher) = trial(0.05), trial(100.0)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert first == again == pytest.approx(start, rel=1e-5)
    walked = model()
    optimizer = gladstorm.torch.NSGDM(walked.parameters(), lr=0.05)
    for batch in torch.tensor(np.concatenate([data, data[:10]])):
        optimizer.zero_grad()
        loss_of(walked, batch).backward()
        optimizer.step()
    with torch.no_grad():
        end = float(torch.stack([loss_of(walked, batch) for batch in torch.tensor(data[:8])]).mean())
    assert lower == pytest.approx(end, rel=1e-4)
    assert lower < 0.8 * first < higher
    assert torch.equal(weight, before)


def test_the_page_says_what_is_decided_in_the_same_order(report: Report) -> None:
    """The list of docs/diagnosis.md: a heading for each reason, in the order in which the advice asks for it."""
    page = (Path(__file__).parents[2] / "docs/diagnosis.md").read_text("utf-8")
    items = re.findall(r"^\d\. \*\*(.+?)\*\*.*?`(\w+)`", page.split("## Decide what to do")[1], re.M | re.S)
    B = {verdict: Finding(1.0, 0.9, 1.1, verdict, "more probes") for verdict in VERDICTS}
    fast, square = Finding(4.0, 3.0, 5.0, ESTIMATED), Finding(2.0, 1.5, 2.5, ESTIMATED)
    cases = [
        (FALLS, B[ESTIMATED], fast, "falls"),
        (None, B[NO_GROWTH], square, "does not grow"),
        (None, B[UNKNOWN], square, "do not tell"),
        (None, B[ESTIMATED], square, "not known to matter"),
        (GROWS, B[ESTIMATED], square, "doubles on your way"),
    ]
    assert len(items) == len(cases)
    for (words, method), (path, growth, power, said) in zip(items, cases, strict=True):
        given = dataclasses.replace(report, path=path, findings={**report.findings, "B": growth, "power": power})
        assert said in words
        assert given.recommend(100, trial=lowers).method == method


def test_what_is_advised_can_be_pasted(report: Report) -> None:
    """Every method's code makes an optimizer, and the one of a theorem has the theorem's numbers."""
    given = {"model": model(), "loss_of": loss_of, "loader": list(torch.tensor(batches(20))), "steps": 50}
    scope = {"torch": torch, "optax": optax, "gladstorm": gladstorm, **given}
    for path in (FALLS, CANNOT_TELL, GROWS, None):
        asking: list[dict[str, Any]] = [
            {},
            {"horizon": 100, "trial": lowers},
            {"horizon": 100, "gap": 1.0, "alpha": 0},
        ]
        for asked in asking:
            for finding in (Finding(1.0, 0.9, 1.1, verdict, "more probes") for verdict in VERDICTS):
                advice = dataclasses.replace(report, path=path, findings={**report.findings, "B": finding}).recommend(
                    **asked
                )
                for library, kind in (("torch", torch.optim.Optimizer), ("optax", tuple)):
                    names: dict[str, Any] = dict(scope)
                    exec(advice.actions[library], names)
                    assert isinstance(made := names["optimizer"], kind)
                    if library == "torch" and advice.gamma is not None:
                        assert vars(made)["defaults"]["lr"] == pytest.approx(advice.gamma, rel=6e-3)
                    assert f"{library}: optimizer = " in advice.text
