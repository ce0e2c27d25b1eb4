"""The same sample at two points: random states and buffers are restored before the second evaluation."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_pre_hook


class SameSample:
    """Lets two evaluations of a loss draw the same numbers and write the buffers of modules once."""

    def __init__(self, modules: Iterable[torch.nn.Module]) -> None:
        self._modules = list(modules)
        self._checked = False  # whether an evaluation was checked for buffers that nothing restores

    def save(self, params: Iterable[Tensor]) -> Callable[[], None]:
        """As `save_random_state`, for the devices of these parameters."""
        return save_random_state(self._modules, (p.device for p in params))

    def checking_buffers(self, owner: str) -> AbstractContextManager[None]:
        """In the first evaluation, warn of buffers that nothing restores."""
        if self._checked or self._modules:
            return nullcontext()
        self._checked = True
        return warn_of_buffer_writes(owner)


def save_random_state(modules: Iterable[torch.nn.Module], devices: Iterable[torch.device]) -> Callable[[], None]:
    """Save all random states and the modules' buffers; call the result to restore them.

    These are torch's on the CPU and on the given devices, Python's `random` and NumPy's global generator. Generators
    that the user has made are unknown here.

    >>> restore = save_random_state([], [])
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
def warn_of_buffer_writes(owner: str) -> Iterator[None]:
    """Warn if modules called inside write their buffers, which nothing will restore."""
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
