"""The clip advisor: its bias is that of the simulator's exact gradients, and what it proposes follows from it."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from numpy.random import default_rng

from evidence.calibration.clipping import clip_bias
from gladstorm.diagnosis import Probe, Probes, Readings, diagnose, spread
from gladstorm.diagnosis.clipping import clipping
from gladstorm.optax import probes_of, read_noise
from gladstorm.problems.objectives import Quadratic
from gladstorm.problems.oracles import BlumGladyshev, Oracle, Skewed
from gladstorm.torch import NoiseProbe

SAMPLES, LOOKS = 2, 2500
START = np.array([1.0, 0.0, 0.0, 0.0])
NOTHING = (math.nan, math.nan, math.nan)


def gradients(oracle: Oracle, batch: int, count: int) -> np.ndarray:
    with jax.enable_x64(True):
        point = oracle.at(jnp.asarray(START))
        keys = jax.random.split(jax.random.key(1, impl="threefry2x32"), count)
        one = jax.jit(jax.vmap(lambda key: oracle.grad(point, oracle.batch(oracle.draw(key), jnp.asarray(batch)))))
        return np.asarray(one(keys))


def table(halves: np.ndarray, samples: int = SAMPLES) -> Probes:
    """Looks at two halves of mini-batches, (looks, 2, dimensions)."""
    rows = []
    for i, (A, B) in enumerate(halves):
        V, g2 = spread([float(A @ A), float(B @ B)], float((A + B) @ (A + B)), samples)
        norms = float(np.linalg.norm(A)), float(np.linalg.norm(B))
        rows.append(Probe(i, i, "path" if i else "start", 0.1 * i, 2, samples, V, g2, *NOTHING, *norms))
    return Probes.of(rows)


@pytest.fixture(scope="module", params=["blum-gladyshev", "skewed"])
def oracle(request: pytest.FixtureRequest) -> Oracle:
    objective = Quadratic(START, np.ones(4))
    return (
        BlumGladyshev(objective, B=0.0, G=2.0)
        if request.param == "blum-gladyshev"
        else Skewed(objective, B=0.0, G=2.0, q=0.1)
    )


@pytest.fixture(scope="module")
def watched(oracle: Oracle) -> Probes:
    return table(gradients(oracle, SAMPLES, 2 * LOOKS).reshape(LOOKS, 2, -1))


@pytest.mark.parametrize("max_norm", [0.3, 1.0, 2.0, 100.0])
def test_the_bias_from_halves_is_that_of_exact_gradients(oracle: Oracle, watched: Probes, max_norm: float) -> None:
    exact = clip_bias(oracle, START, max_norm, batch=SAMPLES, draws=40_000)
    found = clipping(watched, max_norm, default_rng(0))
    assert found.batch == SAMPLES
    assert found.bias.value == pytest.approx(exact.bias, abs=0.03)
    assert found.bias.low - 0.02 <= exact.bias <= found.bias.high + 0.02
    twice = clip_bias(oracle, START, max_norm, batch=2 * SAMPLES, draws=40_000)
    assert found.share == pytest.approx(twice.share, abs=0.03)
    readings = Readings(max_norm)
    rows = list(zip(*vars_of(watched), strict=True))[:500]
    read = [readings.update(Probe(*row))["clip/bias"] for row in rows]
    assert np.nanmedian(read) == pytest.approx(exact.bias, abs=0.15)  # of about 16 looks each


@pytest.mark.parametrize("larger", [2, 8])
def test_the_batch_of_the_training_is_judged_and_not_that_of_the_probes(larger: int) -> None:
    """Noise in 40 dimensions, so that probes of 4 samples are all clipped and mini-batches of 32 are not."""
    generator, mean = default_rng(0), np.concatenate([[1.0], np.zeros(39)])
    probes = table(mean + generator.normal(size=(400, 2, 40)) / math.sqrt(SAMPLES), SAMPLES)
    batch = 2 * SAMPLES * larger
    exact = mean + generator.normal(size=(20_000, 40)) / math.sqrt(batch)
    norms = np.linalg.norm(exact, axis=1)
    for max_norm in np.quantile(norms, [0.05, 0.5, 0.95]):
        found = clipping(probes, max_norm, default_rng(0), batch)
        assert (found.size, found.batch) == (batch, batch)
        assert found.share == pytest.approx(np.mean(norms > max_norm), abs=0.15)
        clipped = exact * np.minimum(1, max_norm / norms)[:, None]
        assert found.bias.value == pytest.approx(np.linalg.norm(clipped.mean(axis=0) - mean), abs=0.05)
        assert clipping(probes, max_norm, default_rng(0)).share > 0.8
    report = diagnose(probes)
    advice = report.recommend(batch=batch, max_norm=2.0)
    assert advice.clipping == report.clipping(2.0, batch) != report.clipping(2.0)
    assert f"acts on {advice.clipping.share:.0%} of the mini-batches of {batch}" in advice.clipping.sentence()


def vars_of(probes: Probes) -> list[list[object]]:
    return [getattr(probes, name).tolist() for name in Probe._fields]


def test_without_noise_the_bias_is_what_is_cut_off() -> None:
    exact = BlumGladyshev(Quadratic(START, np.ones(4)), B=0.0, G=1e-9)
    for max_norm, bias in ((0.25, 0.75), (2.0, 0.0)):
        found = clip_bias(exact, START, max_norm, draws=100)
        assert found.bias == pytest.approx(bias, abs=1e-6)
        assert found.share == (max_norm < 1)
    (alone,) = gradients(exact, 1, 1)
    probes = table(np.stack([[alone, alone]] * 10))
    assert clipping(probes, 0.25, default_rng(0)).bias.as_dict() == pytest.approx(
        dict.fromkeys(("estimate", "low", "high"), 0.75)
    )
    assert clipping(probes, 0.25, default_rng(0)).better == pytest.approx(1.0)


def test_a_threshold_that_is_proposed_has_a_bias_of_a_tenth(oracle: Oracle, watched: Probes) -> None:
    better = clipping(watched, 1.0, default_rng(0)).better
    assert clip_bias(oracle, START, better, batch=SAMPLES).bias == pytest.approx(0.1, abs=0.04)


def test_advice_says_to_leave_a_threshold_to_raise_it_or_to_normalize() -> None:
    generator = default_rng(0)
    noise = generator.normal(size=(200, 2, 4)) * generator.choice([0.2, 4.0], p=[0.8, 0.2], size=(200, 1, 1))
    report = diagnose(table(START + noise))
    raised = report.clipping(0.9)
    assert 0.1 < raised.share < 0.9
    assert raised.bias.value > 0.1
    assert raised.sentence().endswith(f"raise it to {raised.better:.2g}, where that is a tenth or less.")
    for low, unsure in ((0.05, True), (0.11, False)):
        said = raised._replace(bias=replace(raised.bias, low=low)).sentence()
        assert ("these probes do not tell. To be safe, raise it" in said) == unsure
    assert report.clipping(100.0).sentence().endswith("(0% to 0%) of its length: leave it.")
    always = report.clipping(1e-3)
    assert always.share == 1
    assert "normalized-gradient descent by another name. Use NSGDM; for SGD's steps its lr is yours times 0.001" in (
        always.sentence()
    )
    advice = report.recommend(max_norm=0.9)
    assert advice.clipping == raised
    assert raised.sentence() in advice.text.splitlines()
    assert report.as_dict(max_norm=0.9)["clipping"]["share"] == raised.share
    assert report.as_dict()["clipping"] is None
    with pytest.raises(ValueError, match="clipping: max_norm must be"):
        report.clipping(0.0)


def test_bad_input_is_refused_in_a_sentence() -> None:
    bare = Probes.of(Probe(i, i, "path", 0.1 * i, 2, 8, 1.0, 1.0, *NOTHING) for i in range(20))
    with pytest.raises(ValueError, match=r"with the norms of their halves; got 0\. Take them with a NoiseProbe"):
        clipping(bare, 1.0, default_rng(0))
    with pytest.raises(ValueError, match="NoiseProbe: max_norm must be"):
        NoiseProbe(torch.nn.Linear(2, 1), max_norm=0.0)


DATA = torch.tensor(default_rng(0).normal(size=(12, 4, 6, 4)))  # steps, micro-batches, samples, columns


def loss_of(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = (model(batch[:, :3])[:, 0] - batch[:, 3]).square().mean()
    return loss


def flat(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return torch.cat([g.ravel() for g in torch.autograd.grad(loss_of(model, batch), list(model.parameters()))])


@pytest.mark.parametrize("way", ["look", "listen"])
@pytest.mark.parametrize("max_norm", [1e-2, 1e2])
def test_a_probe_of_a_training_takes_the_norms_of_halves_and_counts_clipped_steps(way: str, max_norm: float) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    read: list[dict[str, float]] = []
    watched = model if way == "look" else optimizer
    probe = NoiseProbe(watched, every=1, samples=6, max_norm=max_norm, on_reading=read.append)
    expected = []
    for micro_batches in DATA:
        whole = micro_batches.reshape(24, 4)
        if way == "look":
            halves = whole[:6], whole[6:12]
        else:
            halves = micro_batches[1::2].reshape(12, 4), micro_batches[::2].reshape(12, 4)
        alone = copy.deepcopy(model)  # whose gradients the probe does not hear
        expected.append([flat(alone, half).norm().item() for half in halves])
        optimizer.zero_grad()
        for batch in micro_batches:
            (loss_of(model, batch) / 4).backward()
        if way == "look" and len(expected) % 2:
            probe.look(loss_of, whole)  # before clipping, and after
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        if way == "look" and len(expected) % 2 == 0:
            probe.look(loss_of, whole)
        optimizer.step()
    assert np.stack([probe.probes.first, probe.probes.second], 1) == pytest.approx(np.array(expected))
    assert [each["clip/share"] for each in read] == [float(max_norm < 1)] * 12
    assert read[0]["clip/bias"] == pytest.approx(1.0 if max_norm < 1 else 0.0, abs=0.05)


def test_jax_reads_the_bias_of_clipping_that_the_table_of_its_readings_has() -> None:
    data = jnp.asarray(default_rng(3).normal(loc=1.0, size=(64, 8, 3)))
    x, max_norm = jnp.asarray([1.0, -2.0, 0.5]), 2.0

    def loss(x: jax.Array, batch: jax.Array) -> jax.Array:
        return jnp.mean((batch @ x) ** 2)

    taken, parts = [read_noise(loss, x, jnp.zeros(3), batch) for batch in data], data.reshape(64, 2, 4, 3)
    A, B = (np.array([jax.grad(loss)(x, part) for part in parts[:, i]], dtype=np.float64) for i in (0, 1))
    left = [1 - np.minimum(1, max_norm / np.linalg.norm(half, axis=1)) for half in (A, B)]
    inner = (A * B).sum(axis=1)
    readings = Readings(max_norm)
    moved = mean = 0.0
    for i, reading in enumerate(taken):
        moved += (left[0][i] * left[1][i] * inner[i] - moved) / 16
        mean += (inner[i] - mean) / 16
        now = readings.update(reading)
    assert now["clip/bias"] == pytest.approx((moved / mean) ** 0.5, rel=1e-3)
    bias = clipping(probes_of(taken, range(64)), max_norm, default_rng(0)).bias.value
    assert bias == pytest.approx(((left[0] * left[1] * inner).sum() / inner.sum()) ** 0.5, rel=1e-3)
    odd = read_noise(loss, x, jnp.zeros(3), data[0], groups=3)
    assert math.isnan(Readings(max_norm).update(odd)["clip/bias"])
