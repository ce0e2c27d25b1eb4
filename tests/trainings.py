"""Twelve trainings, written down before `diagnose` was measured on them: what is trained, on what, and for how long.

`diagnosis/test_conclusions.py` diagnoses each from its first weights, at a quarter of the gradients that its training
computes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from evidence.calibration.networks import batches as calibration_batches
from evidence.calibration.networks import network as calibration_network

BATCH = 32


class Training(NamedTuple):
    """A model with fresh weights, mini-batches without end, its loss, and the steps that one would train it for."""

    model: Callable[[], nn.Module]
    batches: Callable[[], Iterator[Any]]
    loss_of: Callable[[nn.Module, Any], Tensor]
    steps: int


class Recurrent(nn.Module):
    """A GRU of 16 units that adds the two marked of ten numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.head = nn.GRU(2, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.recurrent(x)[0][:, -1])
        return out


class Factors(nn.Module):
    """Ratings as products of eight factors of a user and of an item."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(60, 8), nn.Embedding(40, 8)

    def forward(self, pairs: Tensor) -> Tensor:
        products: Tensor = self.users(pairs[:, 0]) * self.items(pairs[:, 1])
        return products.sum(1, keepdim=True)


def digits() -> Iterator[tuple[Tensor, Tensor]]:
    """Images of 64 pixels between 0 and 1, and what they show."""
    data = load_digits()
    images, labels = torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
    generator = torch.Generator().manual_seed(0)
    while True:
        chosen = torch.randint(len(labels), (BATCH,), generator=generator)
        yield images[chosen], labels[chosen]


def regression() -> Iterator[tuple[Tensor, Tensor]]:
    """Twenty normal inputs, and a sum of them with normal errors."""
    generator = torch.Generator().manual_seed(0)
    while True:
        x = torch.randn(BATCH, 20, generator=generator)
        yield x, x[:, :5].sum(1, keepdim=True) + torch.randn(BATCH, 1, generator=generator)


def additions() -> Iterator[tuple[Tensor, Tensor]]:
    """Ten numbers, two of them marked, and the sum of these."""
    generator = torch.Generator().manual_seed(0)
    for _ in itertools.count():
        values = torch.rand(BATCH, 10, generator=generator)
        marks = torch.zeros(BATCH, 10).scatter_(1, torch.rand(BATCH, 10, generator=generator).argsort(1)[:, :2], 1.0)
        yield torch.stack([values, marks], 2), (values * marks).sum(1, keepdim=True)


def ratings() -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs of user and item, and ratings that have rank 3, with normal errors."""
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(60, 3, generator=generator), torch.randn(40, 3, generator=generator)
    while True:
        pairs = torch.stack([torch.randint(size, (BATCH,), generator=generator) for size in (60, 40)], 1)
        truth = (left[pairs[:, 0]] * right[pairs[:, 1]]).sum(1, keepdim=True)
        yield pairs, truth + 0.5 * torch.randn(BATCH, 1, generator=generator)


def classify(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Cross entropy."""
    return cross_entropy(model(batch[0]), batch[1])


def square(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Half the squared error."""
    loss: Tensor = (model(batch[0]) - batch[1]).square().mean() / 2
    return loss


def huber(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Huber's loss."""
    return nn.functional.huber_loss(model(batch[0]), batch[1])


def reconstruct(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The squared error of an autoencoder."""
    return square(model, (batch[0], batch[0]))


def layers(*parts: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """A model of these layers, with weights of seed 0."""

    def made() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(*(part() for part in parts))

    return made


def linear(inputs: int, outputs: int) -> Callable[[], nn.Module]:
    return lambda: nn.Linear(inputs, outputs)


TRAININGS = {
    "linear regression": Training(layers(linear(20, 1)), regression, square, 800),
    "perceptron, Huber's loss": Training(layers(linear(20, 32), nn.Tanh, linear(32, 1)), regression, huber, 800),
    "logistic regression on digits": Training(layers(linear(64, 10)), digits, classify, 800),
    "perceptron on digits": Training(layers(linear(64, 64), nn.ReLU, linear(64, 10)), digits, classify, 1000),
    "the same with LayerNorm, deeper": Training(
        layers(linear(64, 48), lambda: nn.LayerNorm(48), nn.GELU, linear(48, 48), nn.GELU, linear(48, 10)),
        digits,
        classify,
        1000,
    ),
    "the same with BatchNorm": Training(
        layers(linear(64, 64), lambda: nn.BatchNorm1d(64), nn.ReLU, linear(64, 10)), digits, classify, 1000
    ),
    "the same with dropout": Training(
        layers(linear(64, 64), nn.ReLU, lambda: nn.Dropout(0.3), linear(64, 10)), digits, classify, 1000
    ),
    "convolutional network on digits": Training(
        lambda: calibration_network("conv"), lambda: calibration_batches("conv"), classify, 1000
    ),
    "autoencoder of digits": Training(layers(linear(64, 16), nn.Tanh, linear(16, 64)), digits, reconstruct, 1000),
    "transformer on text": Training(
        lambda: calibration_network("transformer"), lambda: calibration_batches("transformer"), classify, 1000
    ),
    "recurrent network that adds": Training(layers(Recurrent), additions, square, 1000),
    "factors of users and items": Training(layers(Factors), ratings, square, 1000),
}
