"""Steps on m times as many samples: a sample moves the parameters as far, and momenta remember as many samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Muon, Optimizer, RMSprop
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    CyclicLR,
    LambdaLR,
    LinearLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)

import gladstorm.optax
from gladstorm.core import batch_scaling
from gladstorm.torch import NSGDM, NSTORM, Untuned, scale_batch

LR, FACTOR = 1e-3, 4
Made = Callable[[Tensor], Optimizer]
OPTIMIZERS: dict[str, Made] = {
    "SGD": lambda x: SGD([x], LR),
    "SGD with momentum": lambda x: SGD([x], LR, momentum=0.9),
    "SGD with Nesterov's": lambda x: SGD([x], LR, momentum=0.95, nesterov=True),
    "SGD with dampening": lambda x: SGD([x], LR, momentum=0.9, dampening=0.5),
    "Adam": lambda x: Adam([x], LR, betas=(0.9, 0.99)),
    "AdamW": lambda x: AdamW([x], LR, betas=(0.9, 0.99), weight_decay=0.0),
    "Muon": lambda x: Muon([x], LR, weight_decay=0.0),
    "Muon without Nesterov's": lambda x: Muon([x], LR, momentum=0.9, nesterov=False, weight_decay=0.0),
    "NSGDM": lambda x: NSGDM([x], LR, momentum=0.9),
    "NSGDM by sign": lambda x: NSGDM([{"params": [x], "norm": "sign"}], LR, momentum=0.9),
}
NOISELESS, DOMINATED = 1e-12, None  # critical batches


def parameter(rows: int = 40, columns: int = 50) -> Tensor:
    return torch.nn.Parameter(torch.zeros(rows, columns, dtype=torch.float64))


def walk(optimizer: Optimizer, x: Tensor, gradients: Any) -> float:
    """How far each step moves x against the gradient of 1 in the mean over entries."""
    before, steps = x.detach().clone(), 0
    for gradient in gradients:
        x.grad = gradient
        optimizer.step()
        steps += 1
    return float((before - x.detach()).mean()) / steps


def same(count: int, x: Tensor) -> list[Tensor]:
    return [torch.ones_like(x)] * count


def noisy(count: int, x: Tensor, batch: int, drift: float, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield drift + torch.randn(x.shape, generator=generator, dtype=x.dtype) / batch**0.5


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_without_noise_a_sample_moves_as_far_from_the_first_larger_step_on(name: str) -> None:
    x = parameter()
    optimizer = OPTIMIZERS[name](x)
    walk(optimizer, x, same(3000, x))
    by_step = walk(optimizer, x, same(1, x))
    scale_batch(optimizer, FACTOR, NOISELESS)
    assert walk(optimizer, x, same(1, x)) == pytest.approx(FACTOR * by_step, rel=1e-6)
    assert walk(optimizer, x, same(50, x)) == pytest.approx(FACTOR * by_step, rel=1e-6)


@pytest.mark.parametrize("critical", [DOMINATED, 100.0], ids=["all noise", "known"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_in_noise_a_sample_moves_as_far(name: str, critical: float | None) -> None:
    drift = 0.1 if critical else 0.02  # tr Σ/‖∇f‖² = 1/drift²
    if "Muon" in name and critical:
        pytest.skip("a drift of rank one is not small in the spectral norm: one number does not tell its share")

    def by_sample(factor: int) -> float:
        x = parameter(200, 200)
        optimizer = OPTIMIZERS[name](x)
        if factor > 1:
            scale_batch(optimizer, factor, critical)
        walk(optimizer, x, noisy(400 // factor, x, factor, drift, 0))  # until means are formed
        return walk(optimizer, x, noisy(400 // factor, x, factor, drift, 1)) / factor

    # Muon's d(v) has the drift in all noise only to first order, and its singular values are equal only roughly.
    assert by_sample(FACTOR) == pytest.approx(by_sample(1), rel=0.06 if "Muon" in name else 0.04)


@pytest.mark.parametrize(("beta", "factor", "after"), [(0.9, 2, 0.81), (0.9, 16, 0.5), (0.3, 4, 0.3), (0.0, 4, 0.0)])
def test_a_momentum_remembers_as_many_samples_but_plain_ones_stay_above_a_half(
    beta: float, factor: int, after: float
) -> None:
    assert batch_scaling.for_momentum(factor, beta).momenta == pytest.approx((after,))
    assert batch_scaling.for_normalized(factor, math.inf, (beta,)).momenta == pytest.approx((beta**factor,))
    assert batch_scaling.for_squares(factor, math.inf, beta, 0.999).momenta == pytest.approx((after, 0.999**factor))


@pytest.mark.parametrize(
    ("share", "weights"),
    [
        (lambda: batch_scaling.averaging(0.8), lambda j: 0.2 * 0.8**j),
        (lambda: batch_scaling.nesterov(0.8), lambda j: 0.2 * 0.8 ** (j + 1) + (0.2 if j == 0 else 0)),
        (lambda: batch_scaling.lion(0.9, 0.8), lambda j: 0.1 if j == 0 else 0.9 * 0.2 * 0.8 ** (j - 1)),
    ],
    ids=["mean", "nesterov", "lion"],
)
def test_the_share_of_noise_is_the_sum_of_squares_of_the_weights(share: Any, weights: Any) -> None:
    assert share() == pytest.approx(sum(weights(j) ** 2 for j in range(500)), rel=1e-12)


def test_all_mean_squares_that_adam_remembers_change_by_what_they_will_have_with_larger_batches() -> None:
    x = parameter()
    optimizer = Adam([x], LR, amsgrad=True)
    walk(optimizer, x, same(3, x))
    before = {name: optimizer.state[x][name].clone() for name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")}
    scale_batch(optimizer, 4, 8.0)  # of 1 + 8, 8 are noise
    for name, ratio in {"exp_avg": 1, "exp_avg_sq": 3 / 9, "max_exp_avg_sq": 3 / 9, "step": 1 / 4}.items():
        torch.testing.assert_close(optimizer.state[x][name], before[name] * ratio)


@pytest.mark.parametrize("name", ["AdamW", "Muon", "NSGDM"])
def test_decoupled_decay_and_changes_that_cancel(name: str) -> None:
    optimizer = OPTIMIZERS[name](parameter())
    group = optimizer.param_groups[0]
    group["weight_decay"] = 0.1
    before = {key: group[key] for key in ("lr", "weight_decay", "momentum", "betas", "eps") if key in group}
    scale_batch(optimizer, 3, 7.0)
    assert group["lr"] * group["weight_decay"] == pytest.approx(3 * LR * 0.1)
    scale_batch(optimizer, 1 / 3, 7.0 / 3)  # the same critical batch, in units of the larger one
    for key, value in before.items():
        assert group[key] == pytest.approx(value, rel=1e-9)


def test_a_learning_rate_in_a_tensor_stays_that_tensor_and_other_groups_keep_their_own() -> None:
    x, y = parameter(), parameter()
    lr = torch.tensor(0.1)
    optimizer = SGD([{"params": [x], "lr": lr}, {"params": [y], "lr": 0.01, "momentum": 0.9}], lr=1.0)
    scale_batch(optimizer, 2)
    assert optimizer.param_groups[0]["lr"] is lr
    assert float(lr) == pytest.approx(0.2)
    assert optimizer.param_groups[1]["lr"] == pytest.approx(0.01 * 2 * (1 - 0.81) / (1 - 0.9))


@pytest.mark.parametrize(
    "make",
    [
        lambda o: LambdaLR(o, lambda k: 1 / (k + 1)),
        lambda o: StepLR(o, 1, 0.5),
        lambda o: LinearLR(o, 0.5, 1),
        lambda o: CosineAnnealingLR(o, 8, eta_min=LR / 3),
        lambda o: CyclicLR(o, LR / 2, LR, 2, cycle_momentum=False),
        lambda o: ChainedScheduler([LinearLR(o, 0.5, 1), LambdaLR(o, lambda k: 1 / (k + 1))]),
        lambda o: SequentialLR(o, [LinearLR(o, 0.5, 1), CosineAnnealingLR(o, 4)], [4]),
    ],
    ids=["lambda", "step", "linear", "cosine", "cyclic", "chained", "sequential"],
)
def test_a_scheduler_goes_on_from_the_new_rate(make: Any) -> None:
    def rates(scale: bool) -> list[float]:
        optimizer = SGD([parameter()], LR)
        scheduler = make(optimizer)
        for _ in range(3):
            optimizer.step()
            scheduler.step()
        if scale:
            scale_batch(optimizer, FACTOR, scheduler=scheduler)
        lrs = []
        for _ in range(3):
            lrs.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        return lrs

    assert rates(True) == pytest.approx([FACTOR * lr for lr in rates(False)])


def test_a_plateau_s_least_rate_is_one_of_larger_batches_too() -> None:
    optimizer = SGD([parameter()], LR)
    plateau = ReduceLROnPlateau(optimizer, factor=0.1, patience=0, min_lr=LR / 2)
    scale_batch(optimizer, FACTOR, scheduler=plateau)
    for _ in range(3):
        plateau.step(1.0)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(FACTOR * LR / 2)


REFUSED: list[tuple[Made, dict[str, Any], str]] = [
    (lambda x: RMSprop([x]), {}, "optimizer must be one of SGD, Adam, AdamW, NSGDM, Muon; got RMSprop"),
    (lambda x: NSTORM([x]), {}, "got NSTORM"),
    (lambda x: Untuned([x], horizon=9), {}, "got Untuned"),
    (OPTIMIZERS["SGD"], {"factor": 0}, "factor must be > 0; got factor=0"),
    (OPTIMIZERS["SGD"], {"factor": math.nan}, "factor must be > 0; got factor=nan"),
    (OPTIMIZERS["Adam"], {"critical": 0.0}, r"critical must be finite and > 0; got critical=0\.0"),
]


@pytest.mark.parametrize(("make", "options", "sentence"), REFUSED)
def test_what_has_no_rule_is_refused_and_left_as_it_was(make: Made, options: dict[str, Any], sentence: str) -> None:
    optimizer = make(parameter())
    before = repr(optimizer)
    with pytest.raises(ValueError, match=sentence):
        scale_batch(optimizer, **{"factor": 2, **options})
    assert repr(optimizer) == before


def test_a_scheduler_that_is_not_given_is_asked_for() -> None:
    optimizer = SGD([parameter()], LR)
    LambdaLR(optimizer, lambda _: 1.0)
    with pytest.raises(ValueError, match="scheduler must be given where the optimizer has one"):
        scale_batch(optimizer, 2)


IN_BOTH: list[tuple[Any, Made, dict[str, Any], dict[str, str]]] = [
    (optax.sgd, lambda x: SGD([x], 0.1), {"learning_rate": 0.1}, {}),
    (
        optax.sgd,
        lambda x: SGD([x], 0.1, momentum=0.9),
        {"learning_rate": 0.1, "momentum": 0.9},
        {"momentum": "momentum"},
    ),
    (
        optax.adamw,
        lambda x: AdamW([x], 0.1, weight_decay=0.2),
        {"learning_rate": 0.1, "weight_decay": 0.2},
        {"eps": "eps", "weight_decay": "weight_decay"},
    ),
    (
        gladstorm.optax.nsgdm,
        lambda x: NSGDM([x], 0.1, weight_decay=0.02),
        {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.02},
        {"momentum": "momentum", "weight_decay": "weight_decay"},
    ),
]


@pytest.mark.parametrize(("in_jax", "make", "arguments", "names"), IN_BOTH)
def test_optax_and_torch_agree(in_jax: Any, make: Made, arguments: dict[str, Any], names: dict[str, str]) -> None:
    optimizer = make(parameter())
    scale_batch(optimizer, 4, 9.0)
    after = gladstorm.optax.scale_batch(in_jax, 4, 9.0, **arguments)
    in_jax(**after)
    group = optimizer.param_groups[0]
    for name, torchs in {"learning_rate": "lr", **names}.items():
        assert after[name] == pytest.approx(group[torchs])
    if "b1" in after:
        assert (after["b1"], after["b2"]) == pytest.approx(group["betas"])


def test_in_jax_lion_moves_as_far_in_noise_and_a_schedule_is_read_in_the_middle_of_a_step() -> None:
    def by_sample(factor: int) -> float:
        before = {"learning_rate": LR, "b1": 0.9, "b2": 0.95, "weight_decay": 0.0}
        arguments = gladstorm.optax.scale_batch(optax.lion, factor, **before)
        optimizer, x = optax.lion(**arguments), jnp.zeros(100_000)
        update = jax.jit(optimizer.update)
        state, moved, steps = optimizer.init(x), 0.0, 240 // factor
        for k in range(steps):
            noise = jax.random.normal(jax.random.key(k), x.shape) / factor**0.5
            updates, state = update(0.02 + noise, state, x)
            moved -= float(updates.mean()) if 2 * k >= steps else 0.0
        return moved / (steps - (steps + 1) // 2) / factor

    assert by_sample(4) == pytest.approx(by_sample(1), rel=0.05)
    after = gladstorm.optax.scale_batch(optax.sgd, 4, learning_rate=lambda k: 1.0 + k)
    assert [after["learning_rate"](k) for k in range(2)] == [4 * (1 + 1.5), 4 * (1 + 5.5)]  # steps 0 to 3, and 4 to 7


def test_optax_refuses_what_has_no_rule() -> None:
    with pytest.raises(ValueError, match=r"must be optax\.sgd, adam, .*; got rmsprop, for which"):
        gladstorm.optax.scale_batch(optax.rmsprop, 2, learning_rate=0.1)
