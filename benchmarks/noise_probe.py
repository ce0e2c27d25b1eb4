"""A training that is watched, with a reading at every 20th step, beside the same training without."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.measuring import Row, seconds
from gladstorm.torch import NoiseProbe

WIDTH, BATCH, STEPS, MICRO_BATCHES = 512, 256, 20, 4
SMALLER = ((16, 32), (64, 32), (256, 32), (256, 128))  # widths and mini-batches
REPETITIONS = 60  # short and many: of a busy moment, both sides of a ratio have their share


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return cross_entropy(model(batch[0]), batch[1])


def training(micro_batches: int, probed: bool, width: int = WIDTH, size: int = BATCH) -> Callable[[], float]:
    """Twenty steps of Adam on a perceptron with two hidden layers, in so many micro-batches each."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.Adam(model.parameters())
    watched = optimizer if micro_batches > 1 else model
    probe = NoiseProbe(watched, every=20, max_norm=1.0, on_reading=lambda _: None) if probed else None
    batch = (torch.randn(size, 784), torch.randint(10, (size,)))

    def steps() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            for part in zip(*(each.chunk(micro_batches) for each in batch), strict=True):
                (loss_of(model, part) / micro_batches).backward()
            if probe is not None and micro_batches == 1:
                probe.look(loss_of, batch)
            optimizer.step()

    return lambda: seconds(steps)


def rows() -> list[Row]:
    """A ratio is the median over rounds, in each of which both run."""

    def ratio(micro_batches: int, *sizes: int) -> float:
        plain, probed = (training(micro_batches, with_probe, *sizes) for with_probe in (False, True))
        plain(), probed()
        return float(np.median([probed() / plain() for _ in range(REPETITIONS)]))

    found = []
    for micro_batches, what in ((1, "a look at its mini-batch"), (MICRO_BATCHES, "its micro-batches heard")):
        cost = ratio(micro_batches)
        found.append(Row(f"torch: NoiseProbe at every 20th step, {what}", f"{cost:.3f} ×", "≤ 1.03 ×", cost <= 1.03))
    for width, size in SMALLER:
        what = f"a look, {width} wide, mini-batches of {size}"
        found.append(Row(f"torch: NoiseProbe at every 20th step, {what}", f"{ratio(1, width, size):.3f} ×", "", True))
    return found
