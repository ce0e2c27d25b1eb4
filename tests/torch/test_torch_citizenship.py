"""What torch users rely on: schedulers, copies, precision, torch.compile, light imports."""

import copy
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from gladstorm.torch import NSGDM, NSTORM, Untuned, by_layer
from optimizers import TORCH, UNTUNED

Optimizer = NSGDM | NSTORM
BOTH = pytest.mark.parametrize("kind", [NSGDM, NSTORM])
AVERAGING = pytest.mark.parametrize("kind", [kind for kind in TORCH if kind not in UNTUNED])


def batch(k: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(k)).to(dtype)


def backward(model: torch.nn.Module, x: Tensor) -> float:
    loss: Tensor = model(x).float().square().mean()
    loss.backward()
    return loss.item()


def train(
    model: torch.nn.Module, optimizer: Optimizer, steps: Iterable[int], dtype: torch.dtype = torch.float32
) -> None:
    for k in steps:
        x = batch(k, dtype)
        torch.manual_seed(k)
        optimizer.zero_grad()
        optimizer.step(partial(backward, model, x))


def one_step(kind: type[Any], dtype: torch.dtype, lr: float, norm: str | None) -> tuple[float, float]:
    """The root of the mean square of what a step moves a matrix by that has a vector beside it, and the part moved."""
    params = [torch.nn.Parameter(torch.full(shape, 1.5, dtype=dtype)) for shape in ((96, 6), (5,))]
    groups: list[dict[str, Any]] = [{"params": [params[0]]}, {"params": [params[1]]}]
    if norm is not None:
        groups = [{"params": [params[0]], "norm": norm}, {"params": [params[1]], "norm": "sign", "lr": 1.0}]
    optimizer = kind(groups, lr=lr)

    def closure() -> float:
        optimizer.zero_grad()
        for p in params:
            p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        return 0.0

    for _ in range(1 + optimizer.needs_closure):
        optimizer.step(closure)
    moved = params[0].detach().double() - 1.5
    return float(moved.square().mean().sqrt()), float((moved != 0).double().mean())


@pytest.mark.filterwarnings("ignore:Untuned. lr multiplies")
@pytest.mark.parametrize(
    ("kind", "norm"),
    [
        *((NSGDM, norm) for norm in (None, "group", "tensor", "sign", "rows", "columns", "spectral")),
        *((kind, norm) for kind in (NSTORM, *UNTUNED) for norm in (None, "spectral")),
    ],
)
def test_steps_that_rounding_swallows_are_warned_of_and_no_others(kind: type[Any], norm: str | None) -> None:
    typical, _ = one_step(kind, torch.float64, 1e-3, norm)
    half_spacing = torch.finfo(torch.bfloat16).eps / 2  # of numbers between 1 and 2
    with pytest.warns(UserWarning, match="1 parameter.* of torch.bfloat16 .* swallows" if norm else "swallows"):
        _, part = one_step(kind, torch.bfloat16, 1e-3 * half_spacing / typical / 3, norm)
    assert part < 0.1
    assert one_step(kind, torch.bfloat16, 1e-3 * half_spacing / typical * 3, norm)[1] > 0.5  # a warning is an error
    one_step(kind, torch.float32, 1e-3 * half_spacing / typical / 3, norm)


def test_a_copy_of_nstorm_knows_its_n_init_its_count_and_the_copied_model() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = NSTORM(model.parameters(), lr=0.05, model=model, n_init=4)
    for scale in (1.0, float("inf"), 1.0):  # the last step meets an estimate that is not finite
        optimizer.n_init = 1
        optimizer.step(partial(backward, model, batch(0) * scale))
    optimizer.n_init = 4
    other, copied = copy.deepcopy((model, optimizer))
    assert (copied.n_init, copied.skipped) == (4, 1)
    copied.initialize([lambda: backward(other, batch(0))])
    train(other, copied, range(3))
    counts = [dict(m.named_buffers())["1.num_batches_tracked"].item() for m in (other, model)]
    assert counts[0] - counts[1] == 4


@BOTH
@pytest.mark.parametrize("as_tensor", [False, True])
def test_schedulers_set_the_length_of_the_step(kind: type[Optimizer], as_tensor: bool) -> None:
    x = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = kind([x], lr=torch.tensor(0.4, dtype=torch.float64) if as_tensor else 0.4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)

    def closure() -> float:
        x.grad = x.detach() ** 3 + 1
        return 0.0

    lengths = []
    for _ in range(5):
        before = x.detach().clone()
        optimizer.step(closure)
        schedule.step()
        lengths.append(float((x.detach() - before).norm()))
    expected = [0.4 / 2**k for k in range(5)]
    if kind is NSTORM:
        expected[0] = 0  # the first step forms v⁰
    assert lengths == pytest.approx(expected, abs=1e-12)
    assert isinstance(optimizer.param_groups[0]["lr"], Tensor) == as_tensor


def test_lr_may_become_a_tensor_in_mid_run() -> None:
    x, y = (torch.nn.Parameter(torch.ones(3, dtype=torch.float64)) for _ in range(2))
    for p, lr in ((x, 0.1), (y, torch.tensor(0.1, dtype=torch.float64))):
        optimizer = NSGDM([p], lr=0.1)
        for _ in range(3):
            p.grad = p.detach() ** 3
            optimizer.step()
            optimizer.param_groups[0]["lr"] = lr
    torch.testing.assert_close(x, y, rtol=0, atol=1e-15)


@AVERAGING
def test_gradients_are_neither_written_nor_kept(kind: type[Optimizer]) -> None:
    x = torch.nn.Parameter(torch.ones(3))
    optimizer = kind([x], lr=0.1, weight_decay=0.05, maximize=True)
    given: list[Tensor] = []

    def closure() -> float:
        for gradient in given:
            gradient.fill_(float("nan"))  # as a later backward pass into the same memory would
        given.append(torch.full((3,), 2.0))
        x.grad = given[-1]
        return 0.0

    for _ in range(3):
        optimizer.step(closure)
        assert given[-1].tolist() == [2.0] * 3
    given[-1].fill_(float("nan"))
    assert optimizer.state[x]["momentum_buffer"].isfinite().all()
    assert x.isfinite().all()


@pytest.mark.filterwarnings("ignore:.*lr · weight_decay")
@BOTH
def test_types_may_be_mixed(kind: type[Optimizer]) -> None:
    types = [torch.bfloat16, torch.float32, torch.float64, torch.complex64]
    params = [torch.nn.Parameter(torch.ones(2, dtype=dtype)) for dtype in types]
    optimizer = kind(params, lr=0.5, weight_decay=0.1)

    def closure() -> float:
        for p in params:
            p.grad = p.detach().clone()
        return 0.0

    for _ in range(2 if kind is NSTORM else 1):
        optimizer.step(closure)
    expected = 0.95 - 0.5 / 8**0.5  # eight entries of equal size
    for p in params:
        assert p[0].real.item() == pytest.approx(expected, abs=torch.finfo(p.dtype).eps)


class Graphs:
    """A compiler that counts what it compiles."""

    count = 0

    def __call__(self, graph: Any, _: object) -> Any:
        self.count += 1
        return graph


def with_tensor(kind: Any) -> Callable[[torch.nn.Module], Any]:
    return lambda model: kind(model.parameters(), lr=torch.tensor(0.05))


COMPILED: dict[str, Callable[[torch.nn.Module], Any]] = {
    **{kind.__name__: with_tensor(kind) for kind in TORCH if kind not in UNTUNED},
    "Untuned": lambda model: Untuned(model.parameters(), horizon=60),
    "NSGDM by layer": lambda model: NSGDM(by_layer(model), lr=0.02),
    "Untuned by layer": lambda model: Untuned(by_layer(model), horizon=60),
}


@pytest.mark.parametrize("name", COMPILED)
def test_fifty_compiled_steps_are_two_graphs_and_take_the_same_steps(name: str) -> None:
    """One step makes the state, and all others are alike, however gradients are cleared and if lr, a tensor, changes.

    NSTORM is not compiled.
    """
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1)).double()
    models = model, copy.deepcopy(model)
    plain, compiled = map(COMPILED[name], models)
    torch.compiler.reset()  # what other tests have compiled counts towards the limit of programs for one `step`
    graphs, closures = Graphs(), name == "NSTORM"
    step = torch.compile(compiled.step, backend=graphs, fullgraph=not closures)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of its profiler
        for k in range(50):
            for model, optimizer, advance in ((models[0], plain, plain.step), (models[1], compiled, step)):
                optimizer.zero_grad(set_to_none=k < 25)
                if k == 40 and isinstance(lr := optimizer.param_groups[0]["lr"], Tensor):
                    lr.fill_(0.02)
                closure = partial(backward, model, batch(k, torch.float64))
                advance(closure) if closures else (closure(), advance())
    assert graphs.count == (0 if closures else 2)
    for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-6)  # the loss is in float32


def test_a_compiled_model_stays_compiled_inside_nstorm_s_steps_and_is_compiled_once() -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = NSTORM(model.parameters(), lr=0.05, model=model)
    graphs = Graphs()
    compiled: Any = torch.compile(model, backend=graphs, fullgraph=True)
    train(compiled, optimizer, range(6))
    assert graphs.count == 1
