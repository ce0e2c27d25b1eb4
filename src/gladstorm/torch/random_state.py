"""Random states and buffers, restored before a second evaluation, which then sees the sample of the first."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor


class SameSample:
    """Lets two evaluations of a loss draw the same numbers and write the buffers of modules once."""

    def __init__(self, modules: Iterable[torch.nn.Module]) -> None:
        self._modules = list(modules)

    def save(self, params: Iterable[Tensor]) -> Callable[[], None]:
        """Save random states and buffers, as `save_random_state` does, for the devices of some parameters."""
        return save_random_state(self._modules, (p.device for p in params))


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
    written = [
        (inner, name, buffer, buffer.clone())
        for module in modules
        for inner in module.modules()
        for name, buffer in inner.named_buffers(recurse=False)
    ]

    def restore() -> None:
        torch.set_rng_state(cpu)
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002 - the global one
        for (accelerator, which), state in zip(accelerators, drawn, strict=True):
            accelerator.set_rng_state(state, *which)
        for module, name, buffer, value in written:
            setattr(module, name, buffer.copy_(value))  # in place, and back where a forward pass has put another

    return restore
