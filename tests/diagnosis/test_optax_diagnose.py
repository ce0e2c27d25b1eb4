"""The designed experiment on a loss of a tree of parameters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gladstorm.optax import diagnose, probes_of, read_noise

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


def test_the_second_point_of_a_probe_lies_further_out_by_a_twentieth_of_the_radius() -> None:
    """Of f(w) = w⁴/4 the gradient changes from r to r + h by h (3r² + 3rh + h²), and by less towards 0."""

    def quartic(w: Any, batch: Any) -> Any:
        return jnp.mean((batch * w) ** 4) / 4

    probes = diagnose(quartic, jnp.zeros(1), [np.ones((4, 1))], 16, radius=2.0).probes
    r, h = probes.distance, 0.1
    assert np.sqrt(probes.L2) == pytest.approx(3 * r**2 + 3 * r * h + h**2, rel=1e-3)


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
