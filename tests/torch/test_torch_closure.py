"""NSTORM's closure: what is evaluated, clipped and averaged, and what is refused because no closure computed it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from gladstorm.torch import NSGDM, NSTORM

LR = 0.1


def parameter() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))


def evaluate(x: Tensor, sample: float) -> float:
    loss = (x * x).sum() * (1 + sample) / 2 + sample * x.sum()
    loss.backward()
    return loss.item()


def closure_of(x: Tensor, sample: float) -> Callable[[], float]:
    return lambda: evaluate(x, sample)


def gradient(x: Tensor, sample: float) -> Tensor:
    return x.detach() * (1 + sample) + sample


def test_max_grad_norm_clips_the_gradients_of_both_points_each_by_its_own_factor() -> None:
    x, limit, momentum = parameter(), 4.5, 0.8
    optimizer = NSTORM([x], lr=LR, momentum=momentum, max_grad_norm=limit)

    def clipped(point: Tensor, sample: float) -> Tensor:
        g = gradient(point, sample)
        return g.mul(min(1.0, limit / g.norm().item()))

    at, v = x.detach().clone(), None
    for sample in (0.3, -0.05, 0.2, -0.5, 0.4):
        optimizer.step(closure_of(x, sample))
        if v is None:
            v = clipped(at, sample)
        else:
            new = at - LR * v / v.norm()
            v, at = clipped(new, sample) + momentum * (v - clipped(at, sample)), new
        torch.testing.assert_close(x.detach(), at, rtol=0, atol=1e-6)  # torch adds 1e-6 to the norm
        torch.testing.assert_close(optimizer.state[x]["momentum_buffer"], v, rtol=0, atol=1e-5)
    assert {clipped(at, sample).norm().item() < limit - 1e-3 for sample in (0.4, -0.5)} == {True, False}


def test_a_closure_that_adds_to_earlier_gradients_is_refused_and_a_step_leaves_none() -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR)
    for sample in (0.1, 0.2):  # no zero_grad between
        optimizer.step(closure_of(x, sample))
        assert x.grad is None
    x.grad = torch.zeros_like(x)
    optimizer.step(closure_of(x, 0.5))
    evaluate(x, 0.6)  # as Lightning does with all micro-batches but the last
    before = x.tolist()
    for refused in (optimizer.step, lambda closure: NSTORM([x], lr=LR).initialize([closure])):
        x.grad = torch.ones_like(x)
        with pytest.raises(RuntimeError, match=r"^NSTORM: the closure must compute all gradients of a step; got some"):
            refused(closure_of(x, 0.7))
    assert x.tolist() == before
    evaluate(x, 5.0)  # another loss's, which the closure clears

    def clearing() -> float:
        optimizer.zero_grad()
        return evaluate(x, 0.7)

    optimizer.step(clearing)
    assert x.tolist() != before


def test_a_closure_that_computes_nothing_leaves_its_mini_batch_out() -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR)
    no_closure: Any = lambda: None  # noqa: E731 - as Lightning's is, if training_step returns None
    assert optimizer.step(no_closure) is None
    assert not optimizer.state
    optimizer.step(closure_of(x, 0.1))
    before = x.tolist(), optimizer.state[x]["momentum_buffer"].tolist()
    assert optimizer.step(no_closure) is None
    assert before == (x.tolist(), optimizer.state[x]["momentum_buffer"].tolist())
    optimizer.step(closure_of(x, 0.1))
    assert x.tolist() != before[0]


@pytest.mark.parametrize("by", ["steps", "initialize"])
def test_the_first_estimate_is_the_mean_over_n_init_calls_and_then_the_steps_begin(by: str) -> None:
    x = parameter()
    optimizer = NSTORM([x], lr=LR, n_init=3)
    start = x.detach().clone()
    closures = [closure_of(x, sample) for sample in (0.1, 0.3, 0.8)]
    if by == "initialize":
        optimizer.initialize(closures)
    else:
        for closure in closures:
            optimizer.step(closure)
    mean = gradient(start, 0.4)  # it is affine in the sample
    assert x.tolist() == start.tolist()
    torch.testing.assert_close(optimizer.state[x]["momentum_buffer"], mean)
    optimizer.step(closure_of(x, 0.2))
    torch.testing.assert_close(x.detach(), start - LR * mean / mean.norm())
    resumed = NSTORM([x], lr=LR, n_init=3)
    resumed.load_state_dict(optimizer.state_dict())
    before = x.tolist()
    resumed.step(closure_of(x, 0.2))
    assert x.tolist() != before


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))


def backward(model: torch.nn.Module, k: int, dtype: torch.dtype | None = None, scale: float = 1.0) -> float:
    torch.manual_seed(k)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(k))
    with torch.autocast("cpu", dtype, enabled=dtype is not None):
        loss: Tensor = model(x).float().square().mean()
    (loss * scale).backward()
    return loss.item()


def test_the_second_evaluation_inside_one_autocast_block_is_at_the_new_point() -> None:
    """autocast keeps casts of the parameters until its block ends, unless told that they have moved."""
    model, uncast = network(), network()
    optimizer, plain = (NSTORM(m.parameters(), lr=0.5, momentum=0.0) for m in (model, uncast))
    for k in range(3):
        plain.step(partial(backward, uncast, k))
        with torch.autocast("cpu", torch.bfloat16):
            optimizer.step(partial(backward, model, k, torch.bfloat16))
    estimates = [
        torch.cat([o.state[p]["momentum_buffer"].ravel() for p in m.parameters()])
        for m, o in ((model, optimizer), (uncast, plain))
    ]
    assert float((estimates[0] - estimates[1]).norm() / estimates[1].norm()) < 0.05  # bfloat16; stale: 0.8


def test_in_float16_a_constant_factor_of_the_loss_changes_no_step_and_an_overflow_is_skipped() -> None:
    models = network(), network()
    plain, scaled = (NSTORM(m.parameters(), lr=0.1) for m in models)
    for k in range(6):
        plain.step(partial(backward, models[0], k, torch.float16))
        scaled.step(partial(backward, models[1], k, torch.float16, 2.0**10))
    for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-4)  # without the factor some gradients are rounded more
    for k in range(3):
        scaled.step(partial(backward, models[1], k, torch.float16, 2.0**40))
    assert scaled.skipped
    assert all(p.isfinite().all() for p in models[1].parameters())


def test_a_gradient_scaler_is_refused_by_nstorm_and_works_with_nsgdm() -> None:
    model = network()
    optimizer: Any = NSGDM(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for spoil in (1.0, float("inf"), 1.0):
        before = [p.tolist() for p in model.parameters()]
        optimizer.zero_grad()
        scale = scaler.get_scale() if spoil == 1 else spoil
        scaler.scale(torch.ones(()))  # makes its state
        backward(model, 0, scale=scale)
        scaler.step(optimizer)
        scaler.update()
        assert ([p.tolist() for p in model.parameters()] == before) == (spoil != 1)
    assert scaler.get_scale() == 2.0**9
    optimizer = NSTORM(model.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match=r"^NSTORM: step needs a closure, .* A GradScaler cannot"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=partial(backward, model, 0))
