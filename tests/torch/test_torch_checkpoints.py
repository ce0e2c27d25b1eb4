"""A training goes on to the bit from its file, its copy, its pickle and torch's distributed checkpoint."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

from gladstorm.torch import NSGDM, NSTORM, Untuned, by_layer
from optimizers import TORCH, UNTUNED

HORIZON, END = 10, 13
Trained = tuple[nn.Module, Any]


def plain(kind: Any) -> Callable[[Any], Any]:
    return lambda model: kind(model.parameters(), 0.05, weight_decay=0.01)


MADE: dict[str, Callable[[Any], Any]] = {
    **{kind.__name__: plain(kind) for kind in TORCH if kind not in UNTUNED},
    "NSGDM by layer": lambda model: NSGDM(by_layer(model), 0.05),
    "NSTORM by layer": lambda model: NSTORM(by_layer(model), 0.05),
    "Untuned": lambda model: Untuned(model.parameters(), horizon=HORIZON),
    "Untuned by layer": lambda model: Untuned(by_layer(model), horizon=HORIZON),
    "Untuned, some by layer": lambda model: Untuned(
        [{"params": list(model[0].named_parameters())}, *by_layer(model[1:])], horizon=HORIZON
    ),
}


def network(dtype: torch.dtype) -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Embedding(7, 4), nn.Flatten(), nn.Dropout(0.3), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 1)
    return nn.Sequential(*layers).to(dtype)


def train(model: nn.Module, optimizer: Any, steps: Iterable[int]) -> set[str]:
    """What is said of the horizon on the way."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for k in steps:
            x = torch.randint(7, (6, 3), generator=torch.Generator().manual_seed(k))

            def closure(x: torch.Tensor = x) -> float:
                optimizer.zero_grad()
                loss: torch.Tensor = (model(x).float() - 1).square().mean()
                loss.backward()
                return loss.item()

            torch.manual_seed(k)
            optimizer.step(closure)
    return {str(each.message) for each in told if "horizon" in str(each.message)}


def values(model: nn.Module) -> list[Any]:
    return [p.tolist() for p in model.parameters()]


def afresh(model: nn.Module, make: Callable[[Any], Any], dtype: torch.dtype) -> Trained:
    other = network(dtype)
    other.load_state_dict(model.state_dict())
    return other, make(other)


def from_file(model: nn.Module, optimizer: Any, make: Callable[[Any], Any], dtype: torch.dtype) -> Trained:
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other, resumed = afresh(model, make, dtype)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    return other, resumed


def from_distributed(model: nn.Module, optimizer: Any, make: Callable[[Any], Any], dtype: torch.dtype) -> Trained:
    saved = copy.deepcopy(get_optimizer_state_dict(model, optimizer))
    assert set(saved["state"]) == {name for name, _ in model.named_parameters()}  # also before the first step
    other, resumed = afresh(model, make, dtype)
    set_optimizer_state_dict(other, resumed, saved)
    return other, resumed


WAYS: dict[str, Callable[..., Trained]] = {
    "file": from_file,
    "copy": lambda model, optimizer, *_: copy.deepcopy((model, optimizer)),
    "pickle": lambda model, optimizer, *_: pickle.loads(pickle.dumps((model, optimizer))),
    "distributed": from_distributed,
}


@pytest.mark.parametrize("early", [0, 4, HORIZON + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MADE)
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(name: str, dtype: torch.dtype, early: int) -> None:
    model, untuned = network(dtype), name.startswith("Untuned")
    optimizer = MADE[name](model)
    train(model, optimizer, range(early))
    others = {way: go(model, optimizer, MADE[name], dtype) for way, go in WAYS.items()}
    told = train(model, optimizer, range(early, END))
    reached = {"Untuned: horizon=10 was reached; further steps only become shorter."}
    assert told == (reached if untuned and early <= HORIZON else set())
    assert values(model) != values(network(dtype))
    for way, (other, resumed) in others.items():
        assert train(other, resumed, range(early, END)) == told, way
        assert values(other) == values(model), way
        kept = [resumed.state[p] for p in other.parameters()]
        for state in kept:  # half precision keeps its estimate in float32
            for buffer, tensor in state.items():
                own = {
                    "iterate": dtype,
                    "start": dtype,
                    "numbers": torch.float64,
                    "step": state.get("step", tensor).dtype,
                }
                assert tensor.dtype is own.get(buffer, torch.float32), (way, buffer)
        for shared in ("numbers", "step"):  # so that a step writes it once
            assert len({id(state[shared]) for state in kept if shared in state}) <= 1, way
        if untuned:
            with optimizer.averaged(), resumed.averaged():
                assert values(other) == values(model), way
