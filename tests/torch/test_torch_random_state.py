"""Both evaluations of an NSTORM step see one sample: the same draws, and buffers as if there had been only one."""

import random
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gladstorm.torch import NSTORM
from gladstorm.torch.random_state import save_random_state


def normalized_network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.4), torch.nn.Linear(4, 1)
    )


def batch(k: int) -> Tensor:
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(k))


def backward(model: torch.nn.Module, x: Tensor) -> float:
    loss: Tensor = model(x).square().mean()
    loss.backward()
    return loss.item()


def test_with_lr_zero_dropout_and_every_other_draw_cancel_exactly() -> None:
    """At lr = 0 both points are one, so v = g + momentum (v − g), where both g must have the same bits."""
    x = torch.nn.Parameter(torch.ones(50, dtype=torch.float64))
    optimizer = NSTORM([x], lr=1.0, momentum=0.75)
    optimizer.param_groups[0]["lr"] = 0.0
    gradients: list[Tensor] = []

    def evaluate() -> float:
        dropped = torch.nn.functional.dropout(x, 0.5) * random.random() * np.random.rand()  # noqa: NPY002 - the global one
        loss = (dropped * torch.rand(50)).sum()
        loss.backward()
        assert x.grad is not None
        gradients.append(x.grad.clone())
        return loss.item()

    optimizer.step(evaluate)
    estimate = gradients[-1]
    for _ in range(3):
        optimizer.step(evaluate)
        old, new = gradients[-2:]
        assert torch.equal(old, new)
        estimate = new + 0.75 * (estimate - old)
        torch.testing.assert_close(optimizer.state[x]["momentum_buffer"], estimate, rtol=0, atol=1e-15)
    assert not torch.equal(gradients[0], gradients[-1])  # the next step is another sample


def test_randomness_goes_on_as_after_one_evaluation() -> None:
    x = torch.nn.Parameter(torch.ones(2))
    optimizer = NSTORM([x], lr=0.1)

    def evaluate() -> float:
        loss = (x * torch.rand(2) * random.random() * np.random.rand()).sum()  # noqa: NPY002 - the global one
        loss.backward()
        return loss.item()

    def seed() -> None:
        torch.manual_seed(5)
        random.seed(5)
        np.random.seed(5)  # noqa: NPY002 - the global one

    def draws() -> tuple[float, ...]:
        return torch.rand(1).item(), random.random(), np.random.rand()  # noqa: NPY002 - the global one

    optimizer.step(evaluate)
    seed()
    optimizer.step(evaluate)
    after_a_step = draws()
    seed()
    evaluate()
    assert after_a_step == draws()


def test_batch_norm_ends_as_after_one_evaluation_at_the_new_point() -> None:
    model = normalized_network()
    optimizer = NSTORM(model.parameters(), lr=0.2, model=model)
    alone = normalized_network()
    for k in range(4):
        torch.manual_seed(k)
        optimizer.step(partial(backward, model, batch(k)))
        # the same network, its parameters always at the new point, evaluated once
        for p, q in zip(alone.parameters(), model.parameters(), strict=True):
            p.data = q.data
        torch.manual_seed(k)
        backward(alone, batch(k))
        for (name, buffer), (_, once) in zip(model.named_buffers(), alone.named_buffers(), strict=True):
            assert torch.equal(buffer, once), name
    assert dict(model.named_buffers())["1.num_batches_tracked"].item() == 4


class Counting(torch.nn.Module):
    """Replaces its buffer instead of writing into it."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        return x @ self.weight


def test_a_buffer_that_is_replaced_counts_one_evaluation_too_and_modules_may_be_several() -> None:
    models = [Counting(), Counting()]
    optimizer = NSTORM([model.weight for model in models], lr=0.1, model=models)
    for _ in range(5):
        optimizer.step(lambda: sum(backward(model, batch(0)) for model in models))
    assert [model.calls.item() for model in models] == [5, 5]


class Generators:
    """Stands in for torch.cuda and the like: one number per device."""

    def __init__(self) -> None:
        self.states = {torch.device("cuda:0"): 1, torch.device("cuda:1"): 1}

    def get_rng_state(self, device: torch.device) -> int:
        return self.states[device]

    def set_rng_state(self, state: int, device: torch.device) -> None:
        self.states[device] = state


class OneGenerator:
    """Stands in for torch.mps, whose functions take no device."""

    state = 1

    def get_rng_state(self) -> int:
        return self.state

    def set_rng_state(self, state: int) -> None:
        self.state = state


def test_the_generators_of_the_devices_in_use_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, Any] = {"cuda": Generators(), "mps": OneGenerator()}
    monkeypatch.setattr(torch, "get_device_module", lambda device: modules[device.type])
    devices = [torch.device(name) for name in ("cpu", "cuda:0", "cuda:0", "mps", "meta")]
    put_back = save_random_state([], devices)
    for device in modules["cuda"].states:
        modules["cuda"].states[device] = 2
    modules["mps"].state = 2
    put_back()
    assert list(modules["cuda"].states.values()) == [1, 2]  # the second device is not in use
    assert modules["mps"].state == 1
