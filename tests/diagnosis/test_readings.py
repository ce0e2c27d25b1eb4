"""Readings as they happen: intervals that hold at every look, constant cost, and what the probe of a training reads."""

from __future__ import annotations

import math
import sys
from dataclasses import astuple
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator, default_rng
from torch import Tensor, nn

from gladstorm.diagnosis import READINGS, Probe, Readings, spread
from gladstorm.diagnosis.readings import BURN_IN, CriticalSequence, GrowthSequence
from gladstorm.optax import Reading, read_noise
from gladstorm.torch import NSGDM, NoiseProbe

RUNS, LOOKS = 300, 150
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
            found = sequence.interval()
            if not found.low <= B <= found.high:
                wrong += 1
                break
        narrow.append(found.high - found.low)
    assert wrong <= 0.05 * RUNS
    assert np.median(narrow) < 3  # they say something, too


def test_an_estimate_is_that_of_its_law_and_shrinks_onto_it() -> None:
    sequence = GrowthSequence()
    assert astuple(sequence.interval())[1:3] == (0.0, math.inf)
    generator = default_rng(1)
    for r in np.linspace(0, 4, 4000).tolist():
        sequence.update(r, (4 + 9 * r**2) * generator.gamma(20) / 20)
    B, low, high, _ = astuple(sequence.interval())
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
    ("far", "wider", "G2", "last"),
    [(1.0, 0, 1.0, 3.0), (0.05, 1, 1.0, 3.0), (1.0, 1, 0.01, 0.01)],
    ids=["errors as seen", "few looks far out, all small", "back at the start, where noise is small"],
)
def test_an_interval_is_that_of_the_mixture_with_the_wider_of_two_variations(
    far: float, wider: int, G2: float, last: float
) -> None:
    generator, sequence = default_rng(3), GrowthSequence()
    distance = np.concatenate([np.linspace(0.1, 1, 60), np.full(4, last)])
    errors = generator.gamma(5, size=64) / 5
    errors[-4:] = 1 + far * (errors[-4:] - 1)
    noise = (G2 + 4 * distance**2) * errors
    for r, V in zip(distance.tolist(), noise.tolist(), strict=True):
        sequence.update(r, V)
    B, low, high, _ = astuple(sequence.interval())
    widths = half_widths(distance, noise)
    assert int(np.argmax(widths)) == wider
    assert high**2 - B**2 == pytest.approx(max(widths))
    assert low**2 == pytest.approx(max(0.0, B**2 - max(widths)))


@pytest.mark.parametrize("distance", [0.0, 1.0])
def test_at_one_distance_nothing_is_said_about_growth(distance: float) -> None:
    sequence, generator = GrowthSequence(), default_rng(0)
    for _ in range(200):
        sequence.update(distance, generator.gamma(4))
    assert math.isnan(sequence.interval().value)
    silent = GrowthSequence()
    for r in range(200):
        silent.update(float(r), 0.0)  # no noise at all
    assert astuple(silent.interval())[1:3] == (0.0, math.inf)


def test_units_of_noise_and_of_distance_change_nothing_else() -> None:
    ends = []
    for of_noise, of_distance in ((1.0, 1.0), (1e12, 1e-6), (1e-12, 1e6)):
        sequence, generator = GrowthSequence(), default_rng(2)
        for r in np.linspace(0, 1, 100):
            sequence.update(float(of_distance * r), of_noise * (1 + 4 * r**2) * generator.gamma(10) / 10)
        ends.append(np.array(astuple(sequence.interval())[:3]) * of_distance / math.sqrt(of_noise))
    assert ends[1] == pytest.approx(ends[0], rel=1e-6)
    assert ends[2] == pytest.approx(ends[0], rel=1e-6)


# ---- The critical batch size


def looks(ratios: np.ndarray, generator: Generator, dim: int, samples: int) -> list[tuple[float, float]]:
    """V and ‖g‖² of two normal groups of samples at each look, where V is 1 and ‖∇f‖² one over the ratio."""
    taken = []
    for ratio in ratios.tolist():
        groups = generator.normal(size=(2, dim)) / math.sqrt(dim * samples)
        groups[:, 0] += ratio**-0.5
        taken.append(spread([float(g @ g) for g in groups], float(np.sum(groups.sum(axis=0) ** 2)), samples))
    return taken


@pytest.mark.parametrize(
    ("ratio", "dim", "samples", "low", "high"),
    [(1.0, 4, 4, 0.4, 3.0), (30.0, 100, 8, 20.0, 60.0), (2000.0, 100, 8, 80.0, math.inf)],
)
def test_the_interval_of_the_critical_batch_is_wrong_at_any_look_in_at_most_5_of_100_runs(
    ratio: float, dim: int, samples: int, low: float, high: float
) -> None:
    generator, wrong, ends = default_rng(0), 0, []
    for _ in range(100):
        sequence = CriticalSequence()
        every = [sequence.update(*look) for look in looks(np.full(LOOKS, ratio), generator, dim, samples)]
        wrong += any(not each.low <= ratio <= each.high for each in every)
        assert [each.low for each in every[:8]] == [0.0] * 8
        ends.append(every[-1])
    assert wrong <= 5
    assert np.median([each.low for each in ends]) > low  # "more than" is an answer too
    assert np.median([each.high for each in ends]) <= high


def usual_before(taken: list[tuple[float, float]]) -> np.ndarray:
    """What the looks so far lead to expect: their mean, where each new one counts at least a quarter."""
    usual = np.zeros(2)
    for i, look in enumerate(taken, start=1):
        usual += (np.array(look) - usual) / min(i, 4)
    return usual


def test_the_interval_of_the_critical_batch_is_that_of_the_mixture() -> None:
    """The first window, which opens at the second look: the ratios that the inequality allows, by trial."""
    generator, sequence, expected = default_rng(1), CriticalSequence(), []
    taken = looks(np.full(14, 3.0), generator, 20, 4)
    *_, found = (sequence.update(*look) for look in taken)
    rows = []
    for i, (V, g2) in enumerate(taken[1:], start=1):
        scale, usual = usual_before(taken[:i])
        rows.append((V / scale, g2 / scale))
        expected.append((1.0, usual / scale))
    errors = np.array(rows) - np.array(expected)
    sums, R, both = np.sum(rows, axis=0), errors[:8].T @ errors[:8], errors.T @ errors + errors[:8].T @ errors[:8]
    level = 2 * math.log(2 / 0.05) + math.log(np.linalg.det(both) / np.linalg.det(R))
    contrasts = np.stack([np.ones(10**5), -(theta := np.geomspace(0.1, 100, 10**5))])
    allowed = theta[(sums @ contrasts) ** 2 <= level * np.einsum("it,ij,jt->t", contrasts, both, contrasts)]
    assert astuple(found)[:3] == pytest.approx((sums[0] / sums[1], allowed[0], allowed[-1]), rel=1e-4)


def test_a_later_window_begins_with_the_variation_of_eight_looks_of_the_longest() -> None:
    sequence, taken = CriticalSequence(), looks(np.full(10, 3.0), default_rng(1), 20, 4)
    for look in taken[:9]:
        sequence.update(*look)
    (longest,) = sequence._windows
    expected = np.array(longest._Q) * 8 / longest.looks
    sequence.update(*taken[9])
    assert np.array(sequence._windows[1]._R) == pytest.approx(expected)
    assert sequence._windows[1]._level == pytest.approx(2 * math.log(6 / 0.05))  # α/(2 · 3)


def test_the_window_grows_with_the_run_and_begins_anew_where_the_ratio_changes() -> None:
    sequence = CriticalSequence()
    taken = looks(np.repeat([1.0, 50.0], [200, 100]), default_rng(0), 100, 8)
    every, longest = [], []
    for look in taken:
        every.append(sequence.update(*look))
        longest.append(max((window.looks for window in sequence._windows), default=0))
    assert all(longest[i] <= max(16, (i + 1) / 2) for i in range(300))
    assert longest[199] > 50
    widths = [every[i].high / every[i].low for i in (25, 100, 199)]
    assert widths == sorted(widths, reverse=True)
    assert all(each.low < 50 < each.high for each in every[212:])  # twelve looks after it changed
    assert 40 < every[-1].value < 60
    assert len(sequence._windows) < 12


def test_units_of_the_loss_change_no_critical_batch() -> None:
    taken = looks(np.full(60, 10.0), default_rng(0), 50, 8)
    ends = []
    for scale in (1.0, 2.0**-400, 2.0**400):
        sequence = CriticalSequence()
        *_, end = (sequence.update(V * scale, g2 * scale) for V, g2 in taken)
        ends.append(end)
    assert ends[0] == ends[1] == ends[2]
    assert astuple(CriticalSequence().update(0.0, 1.0))[1:3] == (0.0, math.inf)


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
    assert len(readings.critical._windows) < 12
    assert now["noise/critical_batch"] == pytest.approx(20, rel=0.3)  # a ratio of averages, though some are below 0
    assert 5 < now["noise/critical_batch_low"] < now["noise/critical_batch"] < now["noise/critical_batch_high"] < 80
    assert now["noise/signal"] == pytest.approx(1 / (1 + now["noise/critical_batch"] / 64))


DATA = torch.tensor(default_rng(0).normal(size=(40, 4, 6, 4)))  # steps, micro-batches, samples, columns


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    loss: Tensor = (model(batch[:, :3])[:, 0] - batch[:, 3]).square().mean()
    return loss


def train(way: str, *, watched: bool) -> tuple[list[Tensor], list[Any]]:
    """Forty steps of NSGDM, with a probe if it is watched: the bits at the end, and what was read."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 1)).double()
    optimizer = NSGDM(model.parameters(), lr=0.01)
    read: list[Any] = []
    probe = (
        NoiseProbe(model if way == "look" else optimizer, every=2, samples=6, on_reading=read.append)
        if watched
        else None
    )
    for micro_batches in DATA:
        optimizer.zero_grad()
        for batch in micro_batches:
            (loss_of(model, batch) / 4).backward()
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
    assert math.isnan(read[BURN_IN - 2]["noise/growth"])
    assert read[-1]["noise/growth_low"] <= read[-1]["noise/growth"] <= read[-1]["noise/growth_high"]
    assert read[-1]["skipped"] == 0


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


# ---- Nothing that watches ends a training


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(), st.floats(), st.floats(), st.floats()), max_size=40), st.integers(0, 2**32 - 1))
def test_no_number_is_too_large_or_too_small_to_be_read(strange: list[tuple[float, ...]], seed: int) -> None:
    generator, readings = default_rng(seed), Readings(1.0)
    usual = [tuple(row) for row in generator.gamma(1, size=(40, 4)).tolist()]
    scales = 10.0 ** generator.uniform(-300, 300, size=(40, 4))
    large = [tuple(row) for row in (generator.gamma(1, size=(40, 4)) * scales).tolist()]
    for i, (r, V, g2, norm) in enumerate([*usual, *large, *strange]):
        now = readings.update(Probe(i, i, "path", r, 2, 2, V, g2, *NOTHING, norm, norm))
        assert tuple(now) == READINGS


@pytest.mark.parametrize("way", ["look", "listen"])
def test_a_training_that_diverges_is_not_ended_by_its_probe(way: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 1).double()
    optimizer, read = torch.optim.SGD(model.parameters(), lr=5.0), list[Any]()
    probe = NoiseProbe(model if way == "look" else optimizer, every=1, samples=8, on_reading=read.append)
    for x in torch.randn(400, 32, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)):
        optimizer.zero_grad()
        for part in x.chunk(4):
            (model(part).square().mean() / 4).backward()
        if way == "look":
            probe.look(lambda model, x: model(x).square().mean(), x)
        optimizer.step()
    assert not model.weight.isfinite().all()
    assert probe.probes.noise.max() > 1e200
    assert len(read) == len(probe.probes) < 400
    assert any("were not finite" in remark for remark in probe.probes.remarks)


def test_a_reading_that_fails_is_logged_once_and_counted_but_not_the_first(caplog: pytest.LogCaptureFixture) -> None:
    read: list[dict[str, float]] = []

    def send(now: dict[str, float]) -> None:
        if len(read) > 2:
            read.append(now)
            raise ConnectionError("the dashboard is away")
        read.append(now)

    probe = NoiseProbe(nn.Linear(3, 1).double(), every=1, on_reading=send)
    for batch in DATA[:6, 0]:
        probe.look(loss_of, batch)
    probe.look(loss_of, DATA[0, 0, :1])  # the last mini-batch of an epoch may have one sample
    assert [each["skipped"] for each in read] == [0, 0, 0, 0, 1, 2]
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert "4 probes or their readings failed." in probe.probes.remarks
    with pytest.raises(ValueError, match="must have at least 2 samples"):
        NoiseProbe(nn.Linear(3, 1).double(), every=1).look(loss_of, DATA[0, 0, :1])
