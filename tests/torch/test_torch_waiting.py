"""A step never waits for the device: no value of a tensor is read by Python, so that a CUDA graph can capture it.

There is no GPU here. Tensors on torch's device "meta" have no values at all: who reads one fails. Kernels whose result
has a size that depends on values would wait too; they are counted. And a step is recorded as a CUDA graph records it,
and replayed on the same memory, where every number that Python knew is what it was.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gladstorm.torch import NIGT, NMARS, NSGDM, NSTORM, Untuned, norms

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


class Recorded(TorchDispatchMode):
    """The kernels of a step, to be run again on the memory that they had."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket.__name__ not in WAITING
        result = func(*args, **(kwargs or {}))
        if func.namespace != "profiler":
            self.calls.append((func, args, kwargs or {}, result))
        return result

    @torch.no_grad()
    def replay(self) -> None:
        """Run them in order; what is no view and not in place goes where it was."""
        for func, args, kwargs, result in self.calls:
            for before, now in zip(tree_leaves(result), tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(now, Tensor) and before.data_ptr() != now.data_ptr():
                    before.copy_(now)


LR = torch.tensor(0.1, dtype=torch.float64)
REPLAYED: dict[str, Callable[[Params], Any]] = {
    "nsgdm": lambda params: NSGDM(params, lr=LR.clone(), weight_decay=0.05),
    "nsgdm, skipping": lambda params: NSGDM(params, lr=LR.clone(), skip_nonfinite=True),
    "nsgdm by layer": lambda params: NSGDM(layers(params), lr=LR.clone(), weight_decay=0.05, skip_nonfinite=True),
    "nmars": lambda params: NMARS(params, lr=LR.clone()),
    "nigt": lambda params: NIGT(params, lr=LR.clone()),
    "nstorm": lambda params: NSTORM(params, lr=LR.clone()),
    "nstorm by layer": lambda params: NSTORM(layers(params), lr=LR.clone()),
    "untuned": lambda params: Untuned(params, lr=10 * LR, horizon=30, weight_decay=0.05, skip_nonfinite=True),
    "untuned by layer": lambda params: Untuned(layers(params), lr=10 * LR, horizon=30),
}


@pytest.mark.parametrize("name", REPLAYED)
def test_a_recorded_step_that_is_replayed_is_the_next_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of gradients, lr and state change from replay to replay; a number that Python had kept would not."""
    monkeypatch.setattr(norms, "readable", lambda tensor: False)
    random = torch.Generator().manual_seed(0)

    def draw(p: Tensor) -> Tensor:
        return torch.randn(p.shape, generator=random, dtype=torch.float64)

    params = [torch.nn.Parameter(draw(torch.empty(shape))) for shape in (3, (6, 4), (5, 5))]
    twins = copy.deepcopy(params)
    sample = [torch.zeros_like(p) for p in params]

    def closure_of(params: Params) -> Callable[[], Tensor]:
        def closure() -> Tensor:
            for p, s in zip(params, sample, strict=True):
                p.grad = p.detach() ** 3 + s
            return torch.zeros(())

        return closure

    optimizers = [REPLAYED[name](each) for each in (params, twins)]
    closures = [closure_of(each) for each in (params, twins)]
    recorded = Recorded()
    for k in range(9):
        for s in sample:
            s.copy_(draw(s) * (float("nan") if k == 6 and optimizers[0].skip_nonfinite else 2.0**k))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"].mul_(0.9)
        optimizers[1].step(closures[1])
        if k < 3:
            optimizers[0].step(closures[0])
        elif k == 3:
            with recorded:
                optimizers[0].step(closures[0])
        else:
            recorded.replay()
        for p, q in zip(params, twins, strict=True):
            assert torch.equal(p, q), k
    assert len(recorded.calls) > 5
