"""Who evaluates a model without the average that its optimizer keeps is told so, once."""

from __future__ import annotations

import warnings
import weakref
from typing import Any, Protocol

import torch


class Averaging(Protocol):
    """An optimizer that keeps an average."""

    @property
    def is_due(self) -> bool:
        """Whether there is an average that the parameters are not, now."""


def remind(optimizer: Averaging, model: torch.nn.Module) -> None:
    """Warn at the first evaluation of the model, in its evaluation mode, by parameters that are not the average."""
    model.register_forward_pre_hook(Reminder(weakref.ref(optimizer)))


class Reminder:
    """A hook that a copied or pickled model may carry along: the copy has another optimizer, or none."""

    def __init__(self, optimizer: Any = None) -> None:
        self._optimizer = optimizer

    def __call__(self, model: torch.nn.Module, _: object) -> None:
        """Look, before a forward pass."""
        optimizer = None if self._optimizer is None else self._optimizer()
        if optimizer is None or model.training or not optimizer.is_due:
            return
        self._optimizer = None
        name = type(optimizer).__name__
        warnings.warn(
            f"{name}: the model is evaluated at the last iterate; the average that {name} keeps is in the parameters "
            "inside `with optimizer.averaged():`. To evaluate the last iterate, leave model= out.",
            stacklevel=2,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Reminder, ()

    def __deepcopy__(self, memo: object) -> Reminder:
        return Reminder()
