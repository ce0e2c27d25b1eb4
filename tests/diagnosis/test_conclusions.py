"""A diagnosis finds its own radii and concludes, at a quarter of a training's cost, whatever the seed or the budget."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from gladstorm.diagnosis import Probe, Probes, diagnose, spread
from gladstorm.diagnosis.design import FARTHEST, NEAREST, NotFinite, Place, take_probes
from gladstorm.diagnosis.finding import ESTIMATED, NO_GROWTH, UNKNOWN
from gladstorm.diagnosis.growth import constants
from gladstorm.torch import diagnose as diagnose_model
from trainings import TRAININGS, Training

GROUPS, SAMPLES = 4, 8


def test_nine_of_ten_trainings_are_told_whether_their_noise_grows_at_a_quarter_of_their_gradients() -> None:
    verdicts = {}
    for name, training in TRAININGS.items():
        evaluated = 0

        def loss_of(model: torch.nn.Module, batch: object, training: Training = training) -> torch.Tensor:
            nonlocal evaluated
            evaluated += torch.is_grad_enabled()  # a quarter of a mini-batch
            return training.loss_of(model, batch)

        report = diagnose_model(loss_of, training.model(), training.batches(), training.steps // 8)
        assert evaluated / GROUPS <= training.steps / 4
        assert evaluated == 2 * GROUPS * len(report.probes)
        verdicts[name] = report.findings["B"].verdict
        assert report.recommend(training.steps).actions["torch"]
    assert sum(verdict != UNKNOWN for verdict in verdicts.values()) >= 0.9 * len(verdicts), verdicts


def searched(
    B: float, budget: int, seed: int, *, power: float = 2.0, dim: int = 100, largest: float = math.inf
) -> Probes:
    """Probes of ½‖x‖² with noise of variance 1 + B² r^p; not finite beyond the largest distance."""
    generator, steps = np.random.default_rng((seed, 1)), itertools.count()

    def take(place: Place, radius: float) -> Probe:
        if (distance := place.radius * radius) > largest:
            raise NotFinite("too far")
        u = np.random.default_rng((seed, place.draw)).normal(size=dim)
        near, far = generator.normal(size=(2, GROUPS, dim)) / math.sqrt(dim * SAMPLES)
        gradients = place.sign * distance * u / np.linalg.norm(u) + near + B * distance ** (power / 2) * far
        V, g2 = spread(np.sum(gradients**2, axis=1).tolist(), float(np.sum(gradients.sum(axis=0) ** 2)), SAMPLES)
        nothing = (math.nan, math.nan, math.nan)
        return Probe(next(steps), place.pair, place.direction, distance, GROUPS, SAMPLES, V, g2, *nothing)

    return Probes.of(take_probes(take, budget, path=False, radius=None, size=1.0, seed=seed))


@pytest.mark.parametrize(
    ("B", "power", "grows"), [(0.0, 2.0, False), (0.3, 2.0, True), (2.0, 2.0, True), (0.3, 4.0, True)]
)
def test_advice_flips_with_neither_the_seed_nor_the_budget(B: float, power: float, grows: bool) -> None:
    said = set()
    for seed in range(10):
        for budget in (96, 160):
            why = diagnose(searched(B, budget, seed, power=power), seed=seed).recommend().why
            said.add("Your noise grows around the start" in why)
    assert said == {grows}


def test_the_interval_of_b_holds_it_as_often_as_it_says_though_the_probes_stop_when_it_is_narrow() -> None:
    held = []
    for seed in range(200):
        finding = constants(searched(0.3, 200, seed, dim=10), np.random.default_rng(seed))[1]
        assert finding.verdict == ESTIMATED
        held.append((finding.low or 0) <= 0.3 <= (finding.high or 0))
    assert 0.92 <= np.mean(held) <= 0.98


def test_radii_double_from_a_quarter_of_x0_to_where_the_noise_has_doubled() -> None:
    probes = searched(0.3, 200, 0)
    assert set(probes.distance[probes.step < 40]) == {0.0, *(NEAREST * 2.0**k for k in range(5))}
    assert 1 / 0.3 < probes.radius == 4.0 * 2  # B r is 1.2 at 4, and must be 1.5
    fewer = searched(0.3, 40, 0)
    assert fewer.noise.tolist() == probes.noise[:40].tolist()  # a larger budget begins with the same probes
    assert searched(0.0, 200, 0).radius == FARTHEST


def test_where_the_loss_is_not_finite_the_search_goes_no_further() -> None:
    probes = searched(0.0, 200, 0, largest=3.0)
    assert probes.radius == 2.0
    assert constants(probes, np.random.default_rng(0))[1].verdict == NO_GROWTH
    with pytest.raises(NotFinite):
        searched(0.0, 200, 0, largest=0.1)


def test_what_it_will_cost_is_said_before_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    searched(0.3, 96, 0)
    assert "computes at most 192 gradients of mini-batches, two for each of 96 probes" in capsys.readouterr().err
