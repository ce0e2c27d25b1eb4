"""All optimizers of `gladstorm.torch` and `gladstorm.optax`, as their lists of public names have them."""

from __future__ import annotations

import inspect
from typing import Any

import torch

import gladstorm.optax
import gladstorm.torch
from gladstorm.torch.optimizer import Optimizer


class Untuned(gladstorm.torch.Untuned):
    """With a horizon that a test of all optimizers need not give."""

    def __init__(self, params: Any, lr: Any = 1.0, *, horizon: int = 200, **options: Any) -> None:
        super().__init__(params, lr, horizon=horizon, **options)


def untuned(horizon: Any = 200, *, learning_rate: Any = 1.0, weight_decay: Any = 0.0, axis_name: Any = None) -> Any:
    """That of Optax, likewise."""
    return gladstorm.optax.untuned(horizon, learning_rate=learning_rate, weight_decay=weight_decay, axis_name=axis_name)


def untuned_by_layer(horizon: Any = 200, *, learning_rate: Any = 1.0, weight_decay: Any = 0.0) -> Any:
    """Its form by layer, likewise."""
    layers = gladstorm.optax.by_layer
    return gladstorm.optax.untuned(horizon, learning_rate=learning_rate, weight_decay=weight_decay, layers=layers)


def _public(package: Any) -> dict[str, Any]:
    return {name: getattr(package, name) for name in package.__all__}


TORCH: list[type[Any]] = [
    Untuned if kind is gladstorm.torch.Untuned else kind
    for kind in _public(gladstorm.torch).values()
    if isinstance(kind, type) and issubclass(kind, Optimizer)
]
UNTUNED = [Untuned]
OPTAX: dict[str, Any] = {
    name: untuned if make is gladstorm.optax.untuned else make
    for name, make in _public(gladstorm.optax).items()
    if callable(make) and "learning_rate" in inspect.signature(make).parameters
}
OPTAX_FORMS: dict[str, Any] = {**OPTAX, "untuned by layer": untuned_by_layer}


def by_shape(kind: type[Any]) -> type[Any]:
    """The optimizer in the norms of layers, where only tensors are given: spectral for matrices, signs for others."""

    def groups_of(given: Any) -> Any:
        group = given if isinstance(given, dict) else {"params": [given]}
        tensors = group["params"]
        for p in [tensors] if isinstance(tensors, torch.Tensor) else list(tensors):
            matrix = p.ndim > 1 and not p.is_complex()
            norm = {"norm": "spectral"} if matrix else {"norm": "sign", "scale": 0.25}
            yield {**norm, **group, "params": [p]}

    def begin(self: Any, params: Any, *positional: Any, **options: Any) -> None:
        kind.__init__(self, [group for given in params for group in groups_of(given)], *positional, **options)

    return type(f"{kind.__name__}ByShape", (kind,), {"__init__": begin})


def options_of(kind: type[Any]) -> dict[str, Any]:
    """The options of a torch optimizer's groups, and what they are by default."""
    return dict(kind([torch.nn.Parameter(torch.zeros(1))]).defaults)


def has_option(make: Any, option: str) -> bool:
    """Whether an Optax transformation takes an option."""
    return option in inspect.signature(make).parameters


def optax_optimizer(name: str, rate: float, **options: Any) -> Any:
    """The transformation at this learning rate, if it has one to tune, with those of the options that it has."""
    make = OPTAX_FORMS[name]
    tuned = inspect.signature(make).parameters["learning_rate"].default is inspect.Parameter.empty
    known = {key: value for key, value in options.items() if has_option(make, key)}
    return make(**({"learning_rate": rate} if tuned else {}), **known)
