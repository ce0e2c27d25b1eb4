"""What nobody has seen yet: the optimizers on a GPU. `python -m examples.on_a_gpu` prints a table to send to us.

It takes minutes, needs no data, and writes no file. docs/performance.md says what it is for. On a machine without a GPU
it checks the CPU against itself, and leaves out what only a GPU can show.
"""

from __future__ import annotations

import argparse
import copy
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import gladstorm
from gladstorm.torch import NSGDM, NSTORM, Untuned, by_layer

STEPS = 20
OPTIMIZERS: dict[str, Callable[[nn.Module, Any], Any]] = {
    "NSGDM": lambda model, lr: NSGDM(model.parameters(), lr=lr),
    "NSGDM by layer": lambda model, lr: NSGDM(by_layer(model), lr=lr),
    "NSTORM by layer": lambda model, lr: NSTORM(by_layer(model), lr=lr),
    "Untuned": lambda model, lr: Untuned(model.parameters(), lr=lr * 1000, horizon=10 * STEPS),
    "Untuned by layer": lambda model, lr: Untuned(by_layer(model), lr=lr * 1000, horizon=10 * STEPS),
}
Row = tuple[str, str, bool | None, str]  # check, optimizer, whether it holds if it could be tried, the number
Check = Callable[[str, torch.device], str]


class NeedsCuda(Exception):
    """A check that only CUDA can answer."""


def network(width: int, depth: int, device: torch.device, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A small transformer, drawn on the CPU so that every device has the same."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(65, width), body, nn.Linear(width, 65)).to(device, dtype)


def closure_of(model: nn.Module, tokens: Tensor) -> Callable[[], Tensor]:
    """The loss of predicting the next token; no value is read."""

    def closure() -> Tensor:
        model.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        return loss.detach()

    return closure


def tokens_of(k: int, device: torch.device) -> Tensor:
    """The mini-batch of step k."""
    return torch.randint(65, (8, 17), generator=torch.Generator().manual_seed(k)).to(device)


def trained(
    name: str, device: torch.device, dtype: torch.dtype, steps: int = STEPS, step: Callable[[Any], Any] | None = None
) -> nn.Module:
    """The model after some steps, perhaps with another form of `optimizer.step`."""
    model = network(32, 1, device, dtype)
    optimizer = OPTIMIZERS[name](model, torch.tensor(0.02, device=device))
    advance = (step or (lambda optimizer: optimizer.step))(optimizer)
    for k in range(steps):
        advance(closure_of(model, tokens_of(k, device)))
    return model


def apart(one: nn.Module, other: nn.Module) -> float:
    """The largest difference of two models' parameters."""
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((p.detach().cpu().double() - q.detach().cpu().double()).abs().max()) for p, q in pairs)


def at_most(value: float, most: float) -> str:
    """The value as text, if it is small enough."""
    if not value <= most:
        raise AssertionError(f"{value:.1e}, more than {most:.0e}")
    return f"{value:.1e}"


def same_as_cpu(name: str, device: torch.device) -> str:
    """Compare with the CPU in float64, in float32 where the device has no other."""
    exact = device.type != "mps"
    dtype = torch.float64 if exact else torch.float32
    return at_most(
        apart(trained(name, device, dtype), trained(name, torch.device("cpu"), dtype)), 1e-8 if exact else 0.1
    )


def never_waits(name: str, device: torch.device) -> str:
    """Make steps while CUDA turns every wait for the device into an error."""
    if device.type != "cuda":
        raise NeedsCuda
    model = network(32, 1, device)
    optimizer = OPTIMIZERS[name](model, torch.tensor(0.02, device=device))
    closure = closure_of(model, tokens_of(0, device))
    for _ in range(3):
        optimizer.step(closure)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            optimizer.step(closure)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return "no wait in 3 steps"


def replays(name: str, device: torch.device) -> str:
    """Capture a step in a CUDA graph, replay it with other data and another lr, and compare with steps as usual."""
    if device.type != "cuda":
        raise NeedsCuda
    models = [network(32, 1, device, torch.float64) for _ in range(2)]
    rates = [torch.tensor(0.02, device=device) for _ in models]
    optimizers = [OPTIMIZERS[name](model, lr) for model, lr in zip(models, rates, strict=True)]
    tokens = tokens_of(0, device)
    closures = [closure_of(model, tokens) for model in models]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizers[0].step(closures[0])
    torch.cuda.current_stream().wait_stream(side)
    for _ in range(3):
        optimizers[1].step(closures[1])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # records, and makes no step
        optimizers[0].step(closures[0])
    for k in range(STEPS):
        tokens.copy_(tokens_of(k, device))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"].mul_(0.95)
        graph.replay()
        optimizers[1].step(closures[1])
    return at_most(apart(*models), 1e-8)


def compiles(name: str, device: torch.device) -> str:
    """Compile the step, and compare with steps as usual."""
    if device.type != "cuda" or name.startswith("NSTORM"):  # on a CPU the tests do it; NSTORM is not compiled
        raise NeedsCuda

    def compiled(optimizer: Any) -> Callable[[Any], Any]:
        step: Callable[[], Any] = torch.compile(optimizer.step)

        def advance(closure: Callable[[], Tensor]) -> None:
            closure()
            step()

        return advance

    usual = trained(name, device, torch.float64)
    return at_most(apart(trained(name, device, torch.float64, step=compiled), usual), 1e-8)


def goes_on_elsewhere(name: str, device: torch.device) -> str:
    """Save on the device, load on the CPU, and make the same further steps on both."""
    dtype = torch.float64 if device.type != "mps" else torch.float32
    model = network(32, 1, device, dtype)
    optimizer = OPTIMIZERS[name](model, torch.tensor(0.02, device=device))
    for k in range(STEPS):
        optimizer.step(closure_of(model, tokens_of(k, device)))
    other = copy.deepcopy(model).cpu()
    resumed = OPTIMIZERS[name](other, torch.tensor(0.02))
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for k in range(STEPS, 2 * STEPS):
        optimizer.step(closure_of(model, tokens_of(k, device)))
        resumed.step(closure_of(other, tokens_of(k, torch.device("cpu"))))
    return at_most(apart(model, other), 1e-8 if dtype is torch.float64 else 0.1)


def rests_at_infinity(name: str, device: torch.device) -> str:
    """Skip a step along a gradient that is not finite, as torch.amp.GradScaler wants it."""
    model = network(32, 1, device)
    optimizer = OPTIMIZERS[name](model, torch.tensor(0.02, device=device))
    optimizer.skip_nonfinite = True
    usual = closure_of(model, tokens_of(0, device))
    bad = True

    def closure() -> Tensor:
        loss = usual()
        for p in model.parameters() if bad else ():
            p.grad.fill_(float("inf"))  # type: ignore[union-attr]
        return loss

    for bad in (False, False, True, False, False):  # noqa: B007 - the closure reads it
        optimizer.step(closure)
    if not all(bool(p.isfinite().all()) for p in model.parameters()):
        raise AssertionError("parameters are not finite")
    return f"{optimizer.skipped} skipped"


CHECKS: dict[str, Check] = {
    "the steps of the CPU": same_as_cpu,
    "no wait for the device": never_waits,
    "CUDA graph, replayed": replays,
    "torch.compile": compiles,
    "saved here, loaded on the CPU": goes_on_elsewhere,
    "rests where gradients are infinite": rests_at_infinity,
}


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


def milliseconds(make: Callable[[nn.Module], Any], device: torch.device, width: int, depth: int) -> tuple[float, float]:
    """The median time of a step, gradients given, and megabytes of state."""
    model = network(width, depth, device)
    closure_of(model, tokens_of(0, device))()
    optimizer = make(model)
    times = []
    for _ in range(13):
        synchronize(device)
        begun = time.perf_counter()
        optimizer.step()
        synchronize(device)
        times.append(1e3 * (time.perf_counter() - begun))
    held = {id(t): t.nbytes for state in optimizer.state.values() for t in state.values() if isinstance(t, Tensor)}
    return sorted(times[3:])[5], sum(held.values()) / 1e6


def made(make: Callable[[nn.Module, Any], Any], lr: Any, model: nn.Module) -> Any:
    """An optimizer of a model."""
    return make(model, lr)


def speeds(device: torch.device, width: int, depth: int) -> Iterator[Row]:
    """Time and memory of a step beside those of torch's AdamW."""
    lr = torch.tensor(1e-3, device=device)
    base, memory = milliseconds(lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3), device, width, depth)
    yield "time and state of a step", "AdamW", None, f"{base:.2f} ms, {memory:.0f} MB"
    makes: dict[str, Callable[[nn.Module], Any]] = {
        "Muon, matrices only": lambda model: torch.optim.Muon([p for p in model.parameters() if p.dim() == 2], lr=1e-3),
        **{name: partial(made, make, lr) for name, make in OPTIMIZERS.items() if "STORM" not in name},
    }
    for name, make in makes.items():
        ms, mb = milliseconds(make, device, width, depth)
        yield "beside AdamW's", name, None, f"time × {ms / base:.2f}, state × {mb / memory:.2f}"


@contextmanager
def full_precision() -> Iterator[None]:
    """Matrix products in full precision, so that devices can be compared."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def rows(device: torch.device, width: int, depth: int) -> Iterator[Row]:
    """Every check of every optimizer, then times."""
    for what, check in CHECKS.items():
        for name in OPTIMIZERS:
            try:
                yield what, name, True, check(name, device)
            except NeedsCuda:
                yield what, name, None, "not run"
            except Exception as problem:
                sys.stderr.write(f"{what}, {name}\n{traceback.format_exc()}\n")
                yield what, name, False, f"{type(problem).__name__}: {str(problem).splitlines()[0][:60]}"
    yield from speeds(device, width, depth)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and return 1 if a check does not hold."""
    best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    parser = argparse.ArgumentParser(prog="python -m examples.on_a_gpu", description=__doc__)
    parser.add_argument("--device", default=best, help=f"such as cuda, cuda:1, mps, xpu, cpu (default: {best})")
    parser.add_argument("--quick", action="store_true", help="time a small model, to see that it works")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    called = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    sys.stdout.write(f"gladstorm {gladstorm.__version__}, torch {torch.__version__}, {device}: {called}\n\n")
    sys.stdout.write("| check | optimizer | holds | |\n| --- | --- | --- | --- |\n")
    failed = 0
    with full_precision():
        for what, name, holds, number in rows(device, *((32, 1) if options.quick else (512, 6))):
            failed += holds is False
            sys.stdout.write(f"| {what} | {name} | { {True: 'yes', False: '**no**', None: ''}[holds] } | {number} |\n")
            sys.stdout.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
