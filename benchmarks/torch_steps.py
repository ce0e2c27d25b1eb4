"""The torch optimizers beside `torch.optim.SGD(momentum=0.9)`: time of a step and memory of the state."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.measuring import Row, seconds
from gladstorm.torch import NSGDM, NSTORM

PARAMETERS, TENSORS = 10_000_000, 60
REPETITIONS = 25


def parameters() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.randn(PARAMETERS // TENSORS)) for _ in range(TENSORS)]


def bytes_of(optimizer: torch.optim.Optimizer) -> int:
    return sum(tensor.nbytes for state in optimizer.state.values() for tensor in state.values())


def rows() -> list[Row]:
    """Every round runs each optimizer once; a ratio is the median over the rounds."""
    torch.manual_seed(0)
    gradients = [torch.randn(PARAMETERS // TENSORS) for _ in range(TENSORS)]
    peak = 0

    def with_gradients(params: list[torch.nn.Parameter]) -> None:
        for p, gradient in zip(params, gradients, strict=True):
            p.grad = gradient

    def one_step(optimizer: NSGDM | torch.optim.SGD, params: list[torch.nn.Parameter]) -> Callable[[], float]:
        with_gradients(params)
        return lambda: seconds(optimizer.step)

    params = parameters()
    sgd = torch.optim.SGD(params, lr=1e-3, momentum=0.9, foreach=True)
    sgd_step = one_step(sgd, params)
    params = parameters()
    nsgdm = NSGDM(params, lr=1e-3)
    nsgdm_step = one_step(nsgdm, params)
    evaluated = parameters()
    nstorm = NSTORM(evaluated, lr=1e-3)
    outside = 0.0

    def evaluation() -> float:
        nonlocal outside, peak
        begun = time.perf_counter()
        with_gradients(evaluated)
        peak = max(peak, bytes_of(nstorm))
        outside += time.perf_counter() - begun
        return 0.0

    def nstorm_step() -> float:
        nonlocal outside
        outside = 0.0
        return seconds(lambda: nstorm.step(evaluation)) - outside

    jobs = (sgd_step, nsgdm_step, nstorm_step)
    for _ in range(2):  # the first steps make the state
        for job in jobs:
            job()
    rounds = np.array([[job() for job in jobs] for _ in range(REPETITIONS)])
    normalized, recursive = np.median(rounds[:, 1:] / rounds[:, :1], axis=0).tolist()
    state = bytes_of(sgd)
    return [
        Row("torch: NSGDM step vs SGD foreach, 10⁷ parameters", f"{normalized:.2f} ×", "≤ 1.15 ×", normalized <= 1.15),
        Row("torch: NSTORM transition vs SGD foreach", f"{recursive:.2f} ×", "≤ 1.5 ×", recursive <= 1.5),
        Row("torch: NSGDM state vs SGD", f"{bytes_of(nsgdm) / state:.2f} ×", "= 1 ×", bytes_of(nsgdm) == state),
        Row("torch: NSTORM peak state vs SGD", f"{peak / state:.2f} ×", "= 1 ×", peak == state),
    ]
