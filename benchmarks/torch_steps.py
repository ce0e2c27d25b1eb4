"""The torch optimizers beside SGD with momentum, and `Untuned` beside AdamW: time of a step and memory of the state."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence

import torch

from benchmarks.measuring import Row, rounds, seconds, slower
from gladstorm.torch import NSGDM, NSTORM, Untuned, by_layer

LARGE, SMALL = (60, 10_000_000 // 60), (20, 100)  # tensors, entries of each
STEPS = 20  # of a small model, to one measurement
REPETITIONS = 25


def parameters(tensors: int, entries: int) -> list[torch.nn.Parameter]:
    """Parameters that have a gradient."""
    params = [torch.nn.Parameter(torch.randn(entries)) for _ in range(tensors)]
    for p in params:
        p.grad = torch.randn(entries)
    return params


def bytes_of(optimizer: torch.optim.Optimizer) -> int:
    """Of its buffers, which have the shape of their parameters; numbers of the whole run are none."""
    return sum(t.nbytes for p, state in optimizer.state.items() for t in state.values() if t.shape == p.shape)


def transformer(width: int, layers: int) -> torch.nn.Module:
    """A transformer for characters, whose parameters have a gradient."""
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    body = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    model = torch.nn.Sequential(torch.nn.Embedding(65, width), body, torch.nn.Linear(width, 65))
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    return model


def by_layer_and_muon(width: int, layers: int) -> tuple[torch.optim.Optimizer, list[torch.optim.Optimizer]]:
    """NSGDM by layer, and torch's Muon with its AdamW for what is no matrix."""
    named = dict(transformer(width, layers).named_parameters())
    is_matrix = {name: p.dim() == 2 and name != "0.weight" for name, p in named.items()}
    both: list[torch.optim.Optimizer] = [
        torch.optim.Muon([p for name, p in named.items() if is_matrix[name]]),
        torch.optim.AdamW([p for name, p in named.items() if not is_matrix[name]]),
    ]
    return NSGDM(by_layer(transformer(width, layers)), lr=0.02), both


def together(optimizers: Sequence[torch.optim.Optimizer]) -> Callable[[], float]:
    """How long a step of all of them takes."""
    steps = [step(optimizer) for optimizer in optimizers]
    return lambda: sum(one() for one in steps)


def sgd(shape: tuple[int, int], **options: bool) -> torch.optim.SGD:
    return torch.optim.SGD(parameters(*shape), lr=1e-3, momentum=0.9, **options)


def step(optimizer: torch.optim.Optimizer, times: int = 1) -> Callable[[], float]:
    optimizer.step()  # the first makes the state
    return lambda: sum(seconds(optimizer.step) for _ in range(times))


def compiled_step(optimizer: torch.optim.Optimizer) -> Callable[[], float]:
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of its profiler
        compiled = torch.compile(optimizer.step, fullgraph=True)
        compiled()
    return lambda: seconds(compiled)


class Transition:
    """NSTORM's step without its two evaluations."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.params = parameters(*shape)
        self.gradients: Sequence[torch.Tensor | None] = [p.grad for p in self.params]
        self.optimizer = NSTORM(self.params, lr=1e-3)
        self.outside = 0.0
        self.peak = 0  # bytes of state, while an evaluation is under way
        self.optimizer.zero_grad()  # the evaluations bring them
        self.optimizer.step(self._evaluation)

    def __call__(self) -> float:
        self.outside = 0.0
        return seconds(lambda: self.optimizer.step(self._evaluation)) - self.outside

    def _evaluation(self) -> float:
        begun = time.perf_counter()
        for p, gradient in zip(self.params, self.gradients, strict=True):
            p.grad = gradient
        self.peak = max(self.peak, bytes_of(self.optimizer))
        self.outside += time.perf_counter() - begun
        return 0.0


def rows() -> list[Row]:
    """Every round runs each optimizer once; a ratio is the median over the rounds."""
    torch.manual_seed(0)
    plain, normalized, transition = sgd(LARGE, foreach=True), NSGDM(parameters(*LARGE), lr=1e-3), Transition(LARGE)
    untuned = Untuned(parameters(*LARGE), horizon=1000)
    adamw = torch.optim.AdamW(parameters(*LARGE), foreach=True)
    large = rounds(
        *(step(plain), step(normalized), transition),
        *(step(sgd(LARGE, fused=True)), compiled_step(NSGDM(parameters(*LARGE), lr=1e-3))),
        *(step(untuned), step(adamw), compiled_step(Untuned(parameters(*LARGE), horizon=1000))),
        step(torch.optim.AdamW(parameters(*LARGE), fused=True)),
        repetitions=REPETITIONS,
    )
    tiny = sgd(SMALL, foreach=True), NSGDM(parameters(*SMALL), lr=1e-3)
    small = rounds(*(step(optimizer, STEPS) for optimizer in tiny), repetitions=REPETITIONS)
    by_width = []
    for width, layers in ((64, 4), (256, 2)):
        layered, both = by_layer_and_muon(width, layers)
        this, other = rounds(step(layered), together(both), repetitions=REPETITIONS)
        by_width.append((width, this, other))
    state = bytes_of(plain)
    return [
        *(
            slower(f"torch: NSGDM by layer vs Muon and AdamW, transformer of width {width}", this, other, 1.15)
            for width, this, other in by_width
        ),
        slower("torch: NSGDM step vs SGD foreach, 10⁷ parameters", large[1], large[0], 0.95),
        slower("torch: NSTORM transition vs SGD foreach", large[2], large[0], 1.25),
        slower("torch: NSGDM step under torch.compile vs SGD fused", large[4], large[3], 1.7),
        slower("torch: Untuned step vs AdamW foreach, 10⁷ parameters", large[5], large[6], 1.0),
        slower("torch: Untuned step under torch.compile vs AdamW fused", large[7], large[8], 2.0),
        slower("torch: NSGDM step vs SGD foreach, 20 tensors of 100", small[1], small[0], 1.5),
        Row(
            "torch: NSGDM state vs SGD", f"{bytes_of(normalized) / state:.2f} ×", "= 1 ×", bytes_of(normalized) == state
        ),
        Row(
            "torch: Untuned state vs AdamW",
            f"{bytes_of(untuned) / bytes_of(adamw):.2f} ×",
            "= 2 ×",
            bytes_of(untuned) == 2 * bytes_of(adamw),
        ),
        Row(
            "torch: state by layer vs Muon and AdamW, transformer of width 256",
            f"{bytes_of(layered) / sum(map(bytes_of, both)):.2f} ×",
            "≤ 1 ×",
            bytes_of(layered) <= sum(map(bytes_of, both)),
        ),
        Row("torch: NSTORM peak state vs SGD", f"{transition.peak / state:.2f} ×", "= 1 ×", transition.peak == state),
    ]
