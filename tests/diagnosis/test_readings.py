"""Readings as they happen: intervals that hold at every look, constant cost, and what the probe of a training reads."""

from __future__ import annotations

import math
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from numpy.random import Generator, default_rng
from torch import Tensor, nn

from gladstorm.diagnosis import READINGS, Probe, Readings
from gladstorm.diagnosis.readings import BURN_IN, GrowthSequence
from gladstorm.optax import Reading, read_noise
from gladstorm.torch import NSGDM, NoiseProbe

RUNS, LOOKS = 1000, 150
NOTHING = (math.nan, math.nan, math.nan)


def walk(kind: str, generator: Generator) -> np.ndarray:
    """Distances from the start at each look: straight away from it, slower and slower, or to and fro."""
    if kind == "straight":
        return np.linspace(0, 1, LOOKS)
    if kind == "slower":
        return np.sqrt(np.linspace(0, 1, LOOKS))
    return np.asarray(np.abs(np.cumsum(generator.normal(size=LOOKS))) / math.sqrt(LOOKS))


@pytest.mark.parametrize(
    ("B", "freedom", "kind"), [(0.0, 4, "straight"), (1.0, 4, "slower"), (1.0, 10, "to and fro"), (5.0, 10, "straight")]
)
def test_the_interval_of_b_is_wrong_at_any_look_in_at_most_5_of_100_runs(B: float, freedom: float, kind: str) -> None:
    generator = default_rng(0)
    wrong, narrow = 0, []
    for _ in range(RUNS):
        distance = walk(kind, generator)
        noise = (1 + B**2 * distance**2) * generator.gamma(freedom / 2, size=LOOKS) * 2 / freedom
        sequence = GrowthSequence()
        for r, V in zip(distance.tolist(), noise.tolist(), strict=True):
            sequence.update(r, V)
            _, low, high = sequence.interval()
            if not low <= B <= high:
                wrong += 1
                break
        narrow.append(high - low)
    assert wrong <= 0.05 * RUNS
    assert np.median(narrow) < 3  # they say something, too


def test_an_estimate_is_that_of_its_law_and_shrinks_onto_it() -> None:
    sequence = GrowthSequence()
    assert sequence.interval()[1:] == (0.0, math.inf)
    generator = default_rng(1)
    for r in np.linspace(0, 4, 4000).tolist():
        sequence.update(r, (4 + 9 * r**2) * generator.gamma(20) / 20)
    B, low, high = sequence.interval()
    assert 2.85 < low < B < high < 3.15


def half_widths(distance: np.ndarray, noise: np.ndarray) -> list[float]:
    """Of B², for either Q: the inequality of `GrowthSequence` in matrices, from the first look on."""
    rows = np.stack([np.ones_like(distance), distance**2], axis=1)
    fitted = np.array([noise[:i].mean() if i else 0.0 for i in range(len(noise))])  # V̂, at first the mean so far
    weights = np.where(np.arange(len(noise)) < BURN_IN, noise[:BURN_IN].mean() ** -2, 0.0)
    for i in range(BURN_IN, len(noise)):
        S, b = rows[1:i].T @ (weights[1:i, None] * rows[1:i]), rows[1:i].T @ (weights[1:i] * noise[1:i])
        fitted[i] = max(rows[i] @ np.linalg.solve(S, b), 0.1 * noise[:i].mean())
        weights[i] = fitted[i] ** -2
    rows, fitted, weights, noise = rows[1:], fitted[1:], weights[1:], noise[1:]
    squares = (weights * (noise - fitted)) ** 2
    S, Q, R = (
        rows[:n].T @ (w[:n, None] * rows[:n]) for w, n in ((weights, None), (squares, None), (squares, BURN_IN - 1))
    )
    found = []
    for either in (Q, S * np.mean((noise / fitted - 1) ** 2)):
        spread = np.linalg.inv(S) @ (either + R) @ np.linalg.inv(S)
        level = 2 * math.log(20) + math.log(np.linalg.det(either + R) / np.linalg.det(R))
        found.append(math.sqrt(level * spread[1, 1]))
    return found


@pytest.mark.parametrize(
    ("far", "wider"), [(1.0, 0), (0.05, 1)], ids=["errors as seen", "few looks far out, all small"]
)
def test_an_interval_is_that_of_the_mixture_with_the_wider_of_two_variations(far: float, wider: int) -> None:
    generator, sequence = default_rng(3), GrowthSequence()
    distance = np.concatenate([np.linspace(0.1, 1, 60), np.full(4, 3.0)])
    errors = generator.gamma(5, size=64) / 5
    errors[-4:] = 1 + far * (errors[-4:] - 1)
    noise = (1 + 4 * distance**2) * errors
    for r, V in zip(distance.tolist(), noise.tolist(), strict=True):
        sequence.update(r, V)
    B, low, high = sequence.interval()
    widths = half_widths(distance, noise)
    assert int(np.argmax(widths)) == wider
    assert high**2 - B**2 == pytest.approx(max(widths))
    assert low**2 == pytest.approx(max(0.0, B**2 - max(widths)))


@pytest.mark.parametrize("distance", [0.0, 1.0])
def test_at_one_distance_nothing_is_said_about_growth(distance: float) -> None:
    sequence, generator = GrowthSequence(), default_rng(0)
    for _ in range(200):
        sequence.update(distance, generator.gamma(4))
    assert math.isnan(sequence.interval()[0])
    silent = GrowthSequence()
    for r in range(200):
        silent.update(float(r), 0.0)  # no noise at all
    assert silent.interval()[1:] == (0.0, math.inf)


def test_units_of_noise_and_of_distance_change_nothing_else() -> None:
    ends = []
    for of_noise, of_distance in ((1.0, 1.0), (1e12, 1e-6), (1e-12, 1e6)):
        sequence, generator = GrowthSequence(), default_rng(2)
        for r in np.linspace(0, 1, 100):
            sequence.update(float(of_distance * r), of_noise * (1 + 4 * r**2) * generator.gamma(10) / 10)
        ends.append(np.array(sequence.interval()) * of_distance / math.sqrt(of_noise))
    assert ends[1] == pytest.approx(ends[0], rel=1e-6)
    assert ends[2] == pytest.approx(ends[0], rel=1e-6)


def test_readings_have_stable_names_and_a_memory_that_does_not_grow() -> None:
    readings, generator, sizes = Readings(), default_rng(0), set()
    for i in range(400):
        probe = Probe(
            i, i, "path", 0.1 * i, 2, 16, generator.gamma(20) / 20, 0.05 + 0.02 * generator.normal(), *NOTHING
        )
        now = readings.update(probe, batch=64)
        assert tuple(now) == READINGS
        assert all(type(value) is float for value in now.values())
        sizes.add(sum(sys.getsizeof(value) for value in (vars(readings), vars(readings.growth))))
    assert len(sizes) <= 2
    assert now["noise/critical_batch"] == pytest.approx(20, rel=0.3)  # a ratio of averages, though some are below 0
    assert now["noise/signal"] == pytest.approx(1 / (1 + now["noise/critical_batch"] / 64))


DATA = torch.tensor(default_rng(0).normal(size=(40, 4, 6, 4)))  # steps, micro-batches, samples, columns


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    loss: Tensor = (model(batch[:, :3])[:, 0] - batch[:, 3]).square().mean()
    return loss


def train(way: str, *, watched: bool, max_norm: float = math.inf, **options: Any) -> tuple[list[Tensor], list[Any]]:
    """Forty steps of NSGDM, with a probe if it is watched: the bits at the end, and what was read."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 1)).double()
    optimizer = NSGDM(model.parameters(), lr=0.01)
    read: list[Any] = []
    on = {"on_reading": read.append, **options}
    probe = NoiseProbe(model if way == "look" else optimizer, every=2, samples=6, **on) if watched else None
    for micro_batches in DATA:
        optimizer.zero_grad()
        for batch in micro_batches:
            (loss_of(model, batch) / 4).backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        if probe is not None and way == "look":
            probe.look(loss_of, micro_batches.reshape(24, 4))
        optimizer.step()
    return [*model.state_dict().values(), torch.get_rng_state()], read


@pytest.mark.parametrize("way", ["look", "listen"])
def test_a_watched_training_has_the_bits_of_one_that_is_not(way: str) -> None:
    (alone, _), (watched, read) = (train(way, watched=each) for each in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(alone, watched, strict=True))
    assert len(read) == 20
    assert all(tuple(each) == READINGS for each in read)
    assert math.isnan(read[0]["step/length"])  # there was none before
    assert [each["step/length"] for each in read[1:]] == pytest.approx([0.01] * 19)  # NSGDM's are all lr long
    assert all(-1 <= each["step/cosine"] <= 1 for each in read[1:])
    assert math.isnan(read[BURN_IN - 2]["noise/growth"])
    assert read[-1]["noise/growth_low"] <= read[-1]["noise/growth"] <= read[-1]["noise/growth_high"]
    assert read[-1]["skipped"] == 0


def test_the_share_of_clipped_steps_is_what_micro_batches_tell() -> None:
    assert train("listen", watched=True, max_norm=1e-3)[1][-1]["clip/share"] == 1
    assert train("listen", watched=True)[1][-1]["clip/share"] == 0
    assert math.isnan(train("look", watched=True)[1][-1]["clip/share"])


def test_a_step_in_jax_reads_its_noise_through_a_host_callback() -> None:
    def loss_fn(x: Any, batch: Any) -> Any:
        return jnp.mean((batch[:, :3] @ x - batch[:, 3]) ** 2)

    readings, read = Readings(), []

    def tell(reading: Reading) -> None:
        read.append(readings.update(reading))

    @jax.jit
    def step(x: Any, batch: Any) -> Any:
        jax.debug.callback(tell, read_noise(loss_fn, x, jnp.zeros(3), batch))
        return x - 0.05 * jax.grad(loss_fn)(x, batch)

    x = jnp.zeros(3)
    for batch in jnp.asarray(DATA.numpy()).reshape(40, 24, 4):
        x = step(x, batch)
    jax.effects_barrier()
    assert len(read) == 40
    assert all(tuple(each) == READINGS for each in read)
    assert math.isfinite(read[-1]["noise/growth"])
