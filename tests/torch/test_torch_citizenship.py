"""What torch users rely on: groups, schedulers, checkpoints, hooks, copies, precision, torch.compile, no waiting."""

import copy
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gladstorm.torch import NSGDM, NSTORM
from gladstorm.torch.norms import norm_of, normalized_step_
from optimizers import TORCH, UNTUNED

Optimizer = NSGDM | NSTORM
BOTH = pytest.mark.parametrize("kind", [NSGDM, NSTORM])
AVERAGING = pytest.mark.parametrize("kind", [kind for kind in TORCH if kind not in UNTUNED])


def network(dtype: torch.dtype = torch.float32) -> torch.nn.Sequential:
    torch.manual_seed(0)
    layers = torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2)
    return torch.nn.Sequential(*layers).to(dtype)


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


def values(model: torch.nn.Module) -> list[list[Any]]:
    return [p.tolist() for p in model.parameters()]


def resumed(
    kind: type[Optimizer], go: Callable[..., None], path: Path, dtype: torch.dtype = torch.float32, **options: Any
) -> torch.nn.Module:
    """Five steps, a checkpoint on disk, and four more in fresh objects."""
    model = network(dtype)
    optimizer = kind(model.parameters(), lr=0.05, **options)
    go(model, optimizer, range(5))
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    saved = torch.load(path, weights_only=True)
    model = network(dtype)
    optimizer = kind(model.parameters(), lr=0.05, **options)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    go(model, optimizer, range(5, 9))
    return model


@AVERAGING
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(kind: type[Optimizer], tmp_path: Path) -> None:
    model = network()
    optimizer = kind(model.parameters(), lr=0.05, weight_decay=0.01)
    train(model, optimizer, range(9))
    assert values(resumed(kind, train, tmp_path / "checkpoint", weight_decay=0.01)) == values(model)
    assert values(model) != values(network())


@AVERAGING
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_estimate_in_float32_also_through_a_checkpoint(
    kind: type[Optimizer], dtype: torch.dtype, tmp_path: Path
) -> None:
    def go(model: torch.nn.Module, optimizer: Optimizer, steps: Iterable[int]) -> None:
        train(model, optimizer, steps, dtype)
        for name in optimizer.state[next(model.parameters())]:
            wanted = dtype if name == "iterate" else torch.float32
            assert {state[name].dtype for state in optimizer.state.values()} == {wanted}

    model = network(dtype)
    optimizer = kind(model.parameters(), lr=0.05)
    go(model, optimizer, range(9))
    assert values(resumed(kind, go, tmp_path / "checkpoint", dtype)) == values(model)


@AVERAGING
def test_copies_and_pickles_go_on_as_the_original_would(kind: type[Optimizer]) -> None:
    model = network()
    optimizer = kind(model.parameters(), lr=0.05)
    train(model, optimizer, range(3))
    copies = [copy.deepcopy((model, optimizer)), pickle.loads(pickle.dumps((model, optimizer)))]
    train(model, optimizer, range(3, 6))
    for other, its_optimizer in copies:
        train(other, its_optimizer, range(3, 6))
        assert values(other) == values(model)


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


@pytest.mark.parametrize("kind", TORCH)
def test_fifty_compiled_steps_are_two_graphs_and_take_the_same_steps(kind: Any) -> None:
    """One step makes the state, and all others are alike, however gradients are cleared; NSTORM is not compiled."""
    models = torch.nn.Linear(3, 1).double(), torch.nn.Linear(3, 1).double()
    models[1].load_state_dict(models[0].state_dict())
    plain, compiled = (kind(model.parameters(), lr=0.05) for model in models)
    torch.compiler.reset()  # what other tests have compiled counts towards the limit of programs for one `step`
    graphs, closures = Graphs(), kind.needs_closure
    step = torch.compile(compiled.step, backend=graphs, fullgraph=not closures)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of its profiler
        for k in range(50):
            for model, optimizer, advance in ((models[0], plain, plain.step), (models[1], compiled, step)):
                optimizer.zero_grad(set_to_none=k < 25)
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


def test_the_kernel_compiles_into_one_graph_and_a_new_lr_does_not_compile_again() -> None:
    graphs: list[object] = []

    def backend(graph: Any, _: object) -> Any:
        graphs.append(graph)
        return graph

    def update(x: Tensor, v: Tensor, lr: Tensor) -> None:
        normalized_step_([x], [v], norm_of([v]), lr, weight_decay=0.1)

    compiled = torch.compile(update, backend=backend, fullgraph=True)
    x, v = torch.ones(4), torch.full((4,), 2.0)
    for lr in (0.1, 0.2):
        by_hand = (1 - lr * 0.1) * x - lr / 2
        compiled(x, v, torch.tensor(lr))
        torch.testing.assert_close(x, by_hand)
    assert len(graphs) == 1


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_torch_the_library_imports_and_its_torch_part_says_what_to_install() -> None:
    done = python("import sys; sys.modules['torch'] = None; import gladstorm; import gladstorm.torch")
    assert done.stderr.strip().splitlines()[-1] == (
        "gladstorm.core.extras.MissingExtraError: gladstorm.torch needs PyTorch, which is not installed: "
        "pip install 'gladstorm[torch]'"
    )
    assert "line 1, in <module>" in done.stderr


def test_the_torch_part_imports_no_jax() -> None:
    assert python("import sys, gladstorm.torch; print('jax' in sys.modules)").stdout == "False\n"
