"""One sample at two points: what is random and what a forward pass writes is put back before the second evaluation."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_pre_hook


def remember(modules: Iterable[torch.nn.Module], devices: Iterable[torch.device]) -> Callable[[], None]:
    """Note the state of everything random and of the modules' buffers; calling the result puts it back.

    Random are torch on the CPU and on the given devices, Python's `random` and NumPy's global generator. Generators the
    user has made are unknown here.

    >>> restore = remember([], [])
    >>> first = torch.rand(3)
    >>> restore()
    >>> torch.equal(torch.rand(3), first)
    True
    """
    cpu, python, numpy = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 - the global one
    accelerators = [
        (torch.get_device_module(device), () if device.type == "mps" else (device,))  # there is only one mps
        for device in dict.fromkeys(devices)
        if device.type not in ("cpu", "meta")
    ]
    drawn = [accelerator.get_rng_state(*which) for accelerator, which in accelerators]
    written = [(module, name, buffer, buffer.clone()) for module, name, buffer in buffers_of(modules)]

    def restore() -> None:
        torch.set_rng_state(cpu)
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002 - the global one
        for (accelerator, which), state in zip(accelerators, drawn, strict=True):
            accelerator.set_rng_state(state, *which)
        for module, name, buffer, value in written:
            setattr(module, name, buffer.copy_(value))  # in place, and back where a forward pass has put another

    return restore


@contextmanager
def warning_of_buffers(owner: str) -> Iterator[None]:
    """Warn if modules called inside write their buffers, which nobody will put back."""
    before: dict[int, tuple[torch.nn.Module, str, Tensor, Tensor]] = {}

    def called(module: torch.nn.Module, _: object) -> None:
        for inner, name, buffer in buffers_of([module]):
            before.setdefault(id(buffer), (inner, name, buffer, buffer.clone()))

    hook = register_module_forward_pre_hook(called)
    try:
        yield
    finally:
        hook.remove()
    writers = {
        type(module).__name__
        for module, name, buffer, value in before.values()
        if getattr(module, name) is not buffer or not torch.equal(buffer, value)
    }
    if writers:
        warnings.warn(
            f"{owner}: {', '.join(sorted(writers))} writes its buffers at both points of a step; "
            f"pass {owner}(..., model=model) to have them end as after one evaluation.",
            stacklevel=5,
        )


def buffers_of(modules: Iterable[torch.nn.Module]) -> Iterator[tuple[torch.nn.Module, str, Tensor]]:
    """Every buffer of the modules and of those inside them, with its owner and name."""
    for module in modules:
        for inner in module.modules():
            for name, buffer in inner.named_buffers(recurse=False):
                yield inner, name, buffer
