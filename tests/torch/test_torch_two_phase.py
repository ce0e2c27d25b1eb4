"""NSTORM without a closure: the same bits, steps that can be undone, and gradient scalers."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from gladstorm.torch import NSGDM, NSTORM

INF = float("inf")


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))


def batch(k: int) -> Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(k))


def backward(model: torch.nn.Module, x: Tensor, scale: Callable[[Tensor], Tensor] = lambda loss: loss) -> float:
    loss: Tensor = model(x).float().square().mean()
    scale(loss).backward()
    return loss.item()


def weights(model: torch.nn.Module) -> list[Any]:
    return [p.tolist() for p in model.parameters()]


def snapshot(model: torch.nn.Module, optimizer: NSTORM) -> list[Any]:
    """Parameters and estimates, as exact numbers."""
    estimates = [optimizer.state.get(p, {}).get("momentum_buffer") for p in model.parameters()]
    return weights(model) + [None if v is None else v.tolist() for v in estimates]


def two_phases(model: torch.nn.Module, optimizer: NSTORM, k: int, old: float = 1.0, new: float = 1.0) -> None:
    """A step whose gradients at the old or the new point can be spoiled."""
    torch.manual_seed(k)
    with optimizer.previous_point():
        backward(model, batch(k), lambda loss: old * loss)
    backward(model, batch(k), lambda loss: new * loss)
    optimizer.step()


@pytest.mark.parametrize("foreach", [False, True])
def test_both_forms_take_the_same_steps_bit_for_bit_and_may_alternate(foreach: bool) -> None:
    models = network(), network(), network()
    closure, phases, mixed = (NSTORM(m.parameters(), lr=0.1, weight_decay=0.01, foreach=foreach) for m in models)
    for k in range(8):
        for model, optimizer in ((models[0], closure), (models[2], mixed)):
            if optimizer is closure or k % 3 == 0:
                torch.manual_seed(k)
                optimizer.step(partial(backward, model, batch(k)))
            else:
                two_phases(model, optimizer, k)
        two_phases(models[1], phases, k)
        assert snapshot(models[0], closure) == snapshot(models[1], phases) == snapshot(models[2], mixed)


@pytest.mark.parametrize(("old", "new"), [(INF, 1.0), (1.0, INF), (INF, INF), (float("nan"), 1.0), (1.0, -INF)])
@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_a_gradient_that_is_not_finite_leaves_everything_as_it_was_and_is_counted(
    old: float, new: float, momentum: float
) -> None:
    model = network()
    optimizer = NSTORM(model.parameters(), lr=0.1, momentum=momentum, weight_decay=0.01)
    for k in range(3):
        two_phases(model, optimizer, k)
    before = snapshot(model, optimizer)
    two_phases(model, optimizer, 3, old, new)
    assert snapshot(model, optimizer) == before
    assert optimizer.skipped == 1
    two_phases(model, optimizer, 4)
    assert snapshot(model, optimizer) != before
    assert optimizer.skipped == 1


def test_a_first_gradient_that_is_not_finite_forms_no_estimate() -> None:
    model = network()
    optimizer = NSTORM(model.parameters(), lr=0.1)
    two_phases(model, optimizer, 0, INF, INF)
    assert not any(optimizer.state.values())
    assert optimizer.skipped == 1
    two_phases(model, optimizer, 1)
    assert len(optimizer.state) == 4


def test_a_step_begun_and_never_finished_is_undone_by_the_next() -> None:
    models = network(), network()
    optimizers = [NSTORM(model.parameters(), lr=0.1) for model in models]
    for again in ("phases", "closure"):
        for k in range(2):
            for model, optimizer in zip(models, optimizers, strict=True):
                two_phases(model, optimizer, k)
        with optimizers[0].previous_point():
            backward(models[0], batch(7))
        assert snapshot(models[0], optimizers[0]) != snapshot(models[1], optimizers[1])
        for model, optimizer in zip(models, optimizers, strict=True):
            if again == "phases":
                two_phases(model, optimizer, 2)
            else:
                torch.manual_seed(2)
                optimizer.step(partial(backward, model, batch(2)))
        assert snapshot(models[0], optimizers[0]) == snapshot(models[1], optimizers[1])
    assert [optimizer.skipped for optimizer in optimizers] == [2, 0]


def test_an_error_inside_changes_nothing() -> None:
    model = network()
    optimizer = NSTORM(model.parameters(), lr=0.1)
    two_phases(model, optimizer, 0)
    before = snapshot(model, optimizer)
    with pytest.raises(KeyError), optimizer.previous_point():
        raise KeyError
    with pytest.raises(ValueError, match="must compute gradients"), optimizer.previous_point():
        pass
    with optimizer.previous_point():
        backward(model, batch(1))
    with pytest.raises(ValueError, match="must compute gradients"):
        optimizer.step()
    assert snapshot(model, optimizer) == before


def test_a_checkpoint_is_refused_halfway_and_loading_one_abandons_the_step() -> None:
    model = network()
    optimizer = NSTORM(model.parameters(), lr=0.1)
    two_phases(model, optimizer, 0)
    saved, weights = optimizer.state_dict(), {name: p.clone() for name, p in model.state_dict().items()}
    with optimizer.previous_point():
        backward(model, batch(1))
    with pytest.raises(RuntimeError, match="NSTORM: state_dict must be taken between steps"):
        optimizer.state_dict()
    with pytest.raises(RuntimeError, match="NSTORM: a copy must be taken between steps"):
        copy.deepcopy(optimizer)
    model.load_state_dict(weights)
    optimizer.load_state_dict(saved)
    with pytest.raises(RuntimeError, match="step needs a closure, or previous_point"):
        optimizer.step()


@pytest.mark.parametrize("form", ["closure", "two phases"])
def test_the_second_evaluation_inside_one_autocast_block_is_at_the_new_point(form: str) -> None:
    """autocast keeps casts of the parameters until its block ends, unless told that they have moved."""
    model, uncast = network(), network()
    optimizer, plain = (NSTORM(m.parameters(), lr=0.5, momentum=0.0) for m in (model, uncast))
    for k in range(3):
        two_phases(uncast, plain, k)
        with torch.autocast("cpu", torch.bfloat16):
            if form == "closure":
                torch.manual_seed(k)
                optimizer.step(partial(backward, model, batch(k)))
            else:
                two_phases(model, optimizer, k)
    estimates = [
        torch.cat([o.state[p]["momentum_buffer"].ravel() for p in m.parameters()])
        for m, o in ((model, optimizer), (uncast, plain))
    ]
    assert float((estimates[0] - estimates[1]).norm() / estimates[1].norm()) < 0.05  # bfloat16; stale: 0.8


class Scaled:
    """An fp16 autocast training loop with a GradScaler, as documented."""

    def __init__(self, unscale_first: bool = False, **options: Any) -> None:
        self.model = network()
        self.optimizer = NSTORM(self.model.parameters(), lr=0.1, **options)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        self.unscale_first = unscale_first

    def evaluate(self, k: int, spoil: float) -> None:
        with torch.autocast("cpu", torch.float16):
            loss: Tensor = self.model(batch(k)).float().square().mean()
        (self.scaler.scale(loss) * spoil).backward()

    def step(self, k: int, old: float = 1.0, new: float = 1.0) -> None:
        torch.manual_seed(k)
        with self.optimizer.previous_point(self.scaler):
            self.evaluate(k, old)
        self.evaluate(k, new)
        if self.unscale_first:
            self.scaler.unscale_(self.optimizer)
        self.scaler.step(self.optimizer)
        self.scaler.update()


@pytest.mark.parametrize("unscale_first", [False, True])
def test_with_a_gradient_scaler_the_steps_are_those_without_one(unscale_first: bool) -> None:
    scaled = Scaled(unscale_first)
    model = network()
    optimizer = NSTORM(model.parameters(), lr=0.1)
    for k in range(6):
        scaled.step(k)
        with torch.autocast("cpu", torch.float16):
            two_phases(model, optimizer, k)
        scaled.scaler.update(2.0 ** (10 - k))  # another scale in every step
    for p, q in zip(scaled.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-5)  # a scale moves where fp16 rounds
    assert scaled.optimizer.skipped == 0


@pytest.mark.parametrize("unscale_first", [False, True])
@pytest.mark.parametrize(("old", "new"), [(INF, 1.0), (1.0, INF), (INF, INF)])
def test_an_overflow_at_either_point_undoes_the_step_and_lowers_the_scale(
    old: float, new: float, unscale_first: bool
) -> None:
    scaled = Scaled(unscale_first)
    scaled.step(0, INF, INF)
    assert not any(scaled.optimizer.state.values())
    for k in (1, 2):
        scaled.step(k)
    before, scale = snapshot(scaled.model, scaled.optimizer), scaled.scaler.get_scale()
    scaled.step(3, old, new)
    assert snapshot(scaled.model, scaled.optimizer) == before
    assert scaled.scaler.get_scale() == scale / 2
    assert scaled.optimizer.skipped == 2
    scaled.step(4)
    assert snapshot(scaled.model, scaled.optimizer) != before


def test_a_real_overflow_of_fp16_is_survived() -> None:
    scaled = Scaled()
    scaled.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)
    for k in range(40):
        scaled.step(k)
    assert 0 < scaled.optimizer.skipped < 40
    assert all(p.isfinite().all() for p in scaled.model.parameters())


def test_a_disabled_scaler_is_no_scaler() -> None:
    model = network()
    optimizer = NSTORM(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for k in range(3):
        with optimizer.previous_point(scaler):
            backward(model, batch(k), scaler.scale)
        backward(model, batch(k), scaler.scale)
        scaler.step(optimizer)
        scaler.update()
    assert optimizer.skipped == 0
    assert weights(model) != weights(network())


def test_a_scaler_must_be_named_and_must_take_the_step() -> None:
    scaled = Scaled()
    for k in range(2):
        scaled.step(k)
    before = snapshot(scaled.model, scaled.optimizer)
    with scaled.optimizer.previous_point():
        scaled.evaluate(2, 1.0)
    scaled.evaluate(2, 1.0)
    with pytest.raises(RuntimeError, match="previous_point must be given the GradScaler that calls step; got none"):
        scaled.scaler.step(scaled.optimizer)
    assert snapshot(scaled.model, scaled.optimizer) == before
    scaled.scaler.update()
    with scaled.optimizer.previous_point(scaled.scaler):
        scaled.evaluate(2, 1.0)
    scaled.evaluate(2, 1.0)
    with pytest.raises(RuntimeError, match=r"call scaler\.step\(optimizer\); got optimizer\.step\(\)"):
        scaled.optimizer.step()
    assert snapshot(scaled.model, scaled.optimizer) == before
    scaled.scaler.update()
    with pytest.raises(RuntimeError, match="a GradScaler takes no closure"):
        scaled.scaler.step(scaled.optimizer, lambda: 0.0)
    assert not hasattr(scaled.optimizer, "found_inf")


def test_nsgdm_needs_nothing_special_for_a_scaler() -> None:
    model = network()
    optimizer = NSGDM(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for spoil in (1.0, INF, 1.0):
        before = weights(model)
        optimizer.zero_grad()
        backward(model, batch(0), lambda loss: scaler.scale(loss) * spoil)  # noqa: B023 - called at once
        scaler.step(optimizer)
        scaler.update()
        assert (weights(model) == before) == (spoil == INF)
    assert scaler.get_scale() == 2.0**9
