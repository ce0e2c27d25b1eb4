"""The designed experiment on a loss of a tree of parameters."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.diagnosis.probes import EUCLID, LAYERS
from gladstorm.methods.norms import Scaled, Sign
from gladstorm.optax import by_layer, diagnose, probes_of, read_noise, trial

DATA = np.random.default_rng(0).normal(size=(30, 8, 3))


def squared(params: dict[str, Any], batch: Any) -> Any:
    return jnp.mean((batch @ params["w"] - params["b"]) ** 2) / 2


def start() -> dict[str, Any]:
    return {"w": jnp.array([3.0, 0.0, 0.0]), "b": jnp.array(0.0)}


def test_a_diagnosis_compiles_one_program_whatever_the_budget() -> None:
    traced = 0

    def loss_fn(params: dict[str, Any], batch: Any) -> Any:
        nonlocal traced
        traced += 1
        return squared(params, batch)

    counts = []
    for budget in (16, 32):
        traced = 0
        report = diagnose(loss_fn, start(), [*DATA[:5], DATA[5, :3]], budget)  # the short one is left out
        assert len(report.probes) == budget
        counts.append(traced)
    assert counts[0] == counts[1] <= 4


def test_both_points_of_a_probe_draw_the_same_and_probes_do_not() -> None:
    def linear(params: dict[str, Any], batch: Any, key: Any) -> Any:
        return jnp.mean(batch @ params["w"] * jax.random.bernoulli(key, 0.5, batch.shape[:1])) + 0 * params["b"]

    probes = diagnose(linear, start(), [DATA[0]], 16, key=jax.random.key(1)).probes
    assert np.allclose(probes.ell2, 0, atol=1e-9)
    assert len(set(probes.noise.tolist())) > 10


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"loss_fn": lambda params, batch: squared(params, batch) * jnp.nan}, "must be finite; got a loss of nan"),
        ({"loss_fn": lambda params, batch: squared(params, batch) * len(batch)}, "must return the mean over the sampl"),
        ({"loss_fn": lambda params, batch: jnp.mean(batch)}, "must depend on params"),
        (
            {"params": {"w": jnp.ones(3, "bfloat16"), "b": jnp.ones((), "bfloat16")}, "radius": 1e-3},
            "more than rounding does",
        ),
        ({"batches": DATA[:, :1]}, "at least 4 samples, one for each group; got 0 of 16"),
        ({"batches": iter(DATA[:3])}, "got 3 of 16"),
        ({"params": {"w": jnp.zeros(3), "b": jnp.array(0.0)}}, "radius must be given"),
        ({"checkpoint": {"w": jnp.ones(2), "b": jnp.array(0.0)}}, "a tree of the same shapes"),
        ({"checkpoint": start()}, "differ from params"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(changed: dict[str, Any], said: str) -> None:
    given = {"loss_fn": squared, "params": start(), "batches": DATA, "budget": 16, **changed}
    with pytest.raises(ValueError, match=said):
        diagnose(**given)


def test_a_training_reads_its_noise_in_a_scan_without_hidden_state() -> None:
    def step(params: dict[str, Any], batch: Any) -> Any:
        reading = read_noise(squared, params, start(), batch, groups=4)
        return jax.tree.map(lambda x, g: x - 0.1 * g, params, jax.grad(squared)(params, batch)), reading

    batches = jnp.asarray(DATA)
    _, readings = jax.jit(lambda: jax.lax.scan(step, start(), batches))()
    probes = probes_of(readings, steps=range(30))
    assert probes.step.tolist() == list(range(30))
    assert probes.direction.tolist() == ["start", *["path"] * 29]
    assert set(probes.groups.tolist()) == {4}
    assert set(probes.samples.tolist()) == {2}
    groups = [jax.grad(squared)(start(), part) for part in batches[0].reshape(4, 2, 3)]
    gradients = np.array([[*np.asarray(g["w"]), float(g["b"])] for g in groups])
    assert probes.noise[0] == pytest.approx(2 * gradients.var(axis=0, ddof=1).sum(), rel=1e-4)
    products = gradients @ gradients.T
    assert probes.gradient2[0] == pytest.approx((products.sum() - products.trace()) / 12, rel=1e-4)
    halves = np.linalg.norm(gradients.reshape(2, 2, -1).mean(axis=1), axis=1)
    assert [probes.first[0], probes.second[0]] == pytest.approx(halves, rel=1e-4)
    with pytest.raises(ValueError, match="a sample for each of two groups or more; got 3 samples and groups=4"):
        read_noise(squared, start(), start(), batches[0, :3], groups=4)


def layered(params: dict[str, Any], batch: Any) -> Any:
    return jnp.mean((jnp.tanh(batch @ params["weight"].T + params["bias"]) @ params["head"].T) ** 2)


def layers(seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    shapes = {"weight": (4, 3), "bias": (4,), "head": (2, 4)}
    return {name: jnp.asarray(generator.normal(size=shape)) for name, shape in shapes.items()}


def test_noise_in_the_norms_of_layers_is_that_of_torch_by_path_and_leaf() -> None:
    torch = pytest.importorskip("torch")
    from gladstorm.torch.step_norms import LayerNorms

    norm, groups, samples = partial(by_layer, inputs_first=False), 4, 2
    parts = jnp.asarray(DATA[0]).reshape(groups, samples, 3)
    kinds = {"weight": ("spectral", 1.0), "bias": ("sign", 0.25), "head": ("spectral", 1.0)}
    gradients = [jax.grad(layered)(layers(0), part) for part in parts]
    params = {name: torch.nn.Parameter(torch.tensor(np.asarray(g, float))) for name, g in gradients[0].items()}
    of = LayerNorms([{"params": [params[name]], "norm": kinds[name][0], "scale": kinds[name][1]} for name in kinds])
    tensors = [[torch.tensor(np.asarray(g[name], float)) for name in kinds] for g in gradients]
    apart = [torch.tensor(np.asarray(layers(0)[name] - layers(1)[name], float)) for name in kinds]
    reading = jax.jit(lambda x, y: read_noise(layered, x, y, DATA[0], groups=groups, norm=norm))(layers(0), layers(1))
    assert [reading.noise, reading.gradient2] == pytest.approx(of.measure(tensors, samples), rel=1e-3)
    assert reading.distance == pytest.approx(of.length(apart), rel=0.03)  # there a norm of Schatten-64
    probes = probes_of([reading, reading], steps=[0, 1])
    assert (probes.norm, probes.distance[0]) == (LAYERS, reading.distance)
    assert "an upper end" in probes.remarks[-1]
    assert np.isnan(probes.first).all()
    assert probes_of([read_noise(layered, layers(0), layers(1), DATA[0])], steps=[0]).norm == EUCLID


def test_the_dual_of_signs_is_the_sum_of_absolute_values_times_the_scale() -> None:
    params = layers(0)
    reading = read_noise(layered, params, params, DATA[0], groups=2, norm=lambda *_: Sign())
    halves = [jax.grad(layered)(params, part) for part in (DATA[0][:4], DATA[0][4:])]
    leaves = list(zip(*map(jax.tree.leaves, halves), strict=True))
    scales = [1.0 if a.ndim > 1 else 0.25 for a, _ in leaves]
    apart = sum(scale * float(jnp.abs(a - b).sum()) for scale, (a, b) in zip(scales, leaves, strict=True))
    assert reading.noise == pytest.approx(4 * apart**2 / 2, rel=1e-5)
    agreed = [
        scale * (jnp.sign(a) * b + jnp.sign(b) * a).sum() / 2 for scale, (a, b) in zip(scales, leaves, strict=True)
    ]
    total = float(sum(agreed))
    assert reading.gradient2 == pytest.approx(total * abs(total), rel=1e-5)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_growth_is_found_in_the_norm_of_the_optimizer(power: float) -> None:
    """½‖x‖² with noise of variance 1 + 4 r^a in every entry, r the distance from the start in the largest entry."""
    begin, scale = jnp.full(30, 0.1), 0.5

    def loss(x: Any, batch: Any) -> Any:
        r = jax.lax.stop_gradient(jnp.max(jnp.abs(x - begin))) / scale
        return x @ x / 2 + jnp.mean(batch, axis=0) @ x * jnp.sqrt(1 + 4 * r**power)

    data = np.random.default_rng(0).normal(size=(200, 32, 30))
    report = diagnose(loss, begin, data, 200, radius=2.0, norm=Scaled(Sign(), scale))
    unit = (scale * 30) ** 2 * (2 / np.pi + (1 - 2 / np.pi) / 30)  # E (s Σ|z|)², of 30 standard normal entries
    found = report.findings["power"]
    assert (found.low or 0) <= power <= (found.high or 0)
    assert report.findings["G"].estimate == pytest.approx(unit**0.5, rel=0.25)
    assert report.probes.norm == LAYERS
    before, after = trial(loss, begin, data[:20], norm=Scaled(Sign(), scale))(0.02)
    assert after < before
    with pytest.raises(ValueError, match="diagnose: norm must be one of global, tensor"):
        diagnose(loss, begin, data, norm="spectral")
