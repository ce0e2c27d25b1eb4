"""A step never waits for the device: no value of a tensor is read by Python, so that a CUDA graph can capture it.

There is no GPU here. Tensors on torch's device "meta" have no values at all: who reads one fails. Kernels whose result
has a size that depends on values would wait too; they are counted.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gladstorm.torch import NIGT, NMARS, NSGDM, NSTORM, Untuned

WAITING = {"_local_scalar_dense", "equal", "is_nonzero", "item", "masked_select", "nonzero", "unique_dim"}

Params = list[torch.nn.Parameter]


class Kernels(TorchDispatchMode):
    """Counts the kernels that are called, and names those that make Python wait for the device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch
        self.count, self.waiting = 0, set[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.count += 1
        self.waiting |= {name} & WAITING
        return func(*args, **(kwargs or {}))


def layers(params: Params) -> list[dict[str, Any]]:
    return [{"params": params[:1], "norm": "sign"}, {"params": params[1:], "norm": "spectral"}]


@pytest.mark.parametrize(
    "make",
    [
        lambda params: NSGDM(params, lr=0.1),
        lambda params: NSGDM(params, lr=0.1, weight_decay=0.01, norm="tensor", skip_nonfinite=True),
        lambda params: NMARS(params, lr=0.1),
        lambda params: NIGT(params, lr=0.1),
        lambda params: NSTORM(params, lr=0.1),
        lambda params: NSTORM(params, lr=0.1, norm="group", skip_nonfinite=True),
        lambda params: NSGDM(layers(params), skip_nonfinite=True, weight_decay=0.01),
        lambda params: NSTORM(layers(params)),
        lambda params: Untuned(layers(params), horizon=9),
        lambda params: Untuned(params, horizon=9),
        lambda params: Untuned(params, horizon=9, weight_decay=0.01, skip_nonfinite=True),
    ],
    ids=[
        "nsgdm",
        "nsgdm, all options",
        "nmars",
        "nigt",
        "nstorm",
        "nstorm, all options",
        "nsgdm by layer",
        "nstorm by layer",
        "untuned by layer",
        "untuned",
        "untuned, all options",
    ],
)
def test_no_step_reads_a_value_of_the_device(make: Callable[[Params], torch.optim.Optimizer]) -> None:
    params = [torch.nn.Parameter(torch.empty(shape, device="meta")) for shape in (3, (60, 50), (2**18 + 1, 1))]
    optimizer = make(params)

    def closure() -> torch.Tensor:
        for p in params:
            p.grad = torch.empty_like(p)
        return torch.empty((), device="meta")

    with Kernels() as kernels:
        for _ in range(3):
            optimizer.step(closure)  # type: ignore[arg-type]  # a loss that nobody reads
    assert kernels.count > 20
    assert not kernels.waiting


def test_a_value_that_is_read_would_be_noticed() -> None:
    with pytest.raises(RuntimeError, match="meta"), Kernels():
        bool(torch.empty(3, device="meta").isfinite().all())
    with Kernels() as kernels:
        torch.arange(3).nonzero()
    assert kernels.waiting == {"nonzero"}
