"""Eight trainings that had no part in any choice; as in the study of norms a seed decides data and first weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax, mse_loss, normalize, softplus

from evidence.networks.trainings import NetworkTask, Rows, classify, regress


def _halves(data: Rows, train: int, held_out: int) -> tuple[Rows, Rows]:
    """Rows to train on and rows that are held out, drawn without a row in both."""
    order = torch.randperm(len(data[0]))[: train + held_out]
    first, second = (tuple(column[part] for column in data) for part in (order[:train], order[train:]))
    return first, second


def _images() -> tuple[Tensor, Tensor]:
    pixels, classes = load_digits(return_X_y=True)
    return torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(classes)


class Denoiser(nn.Module):
    """Convolutions down to half the size and back, that predict the noise in an image from the image and its level."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.down = nn.Conv2d(2, 12, 3, padding=1), nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.up, self.leave = nn.ConvTranspose2d(24, 12, 2, stride=2), nn.Conv2d(24, 1, 3, padding=1)

    def forward(self, image: Tensor, level: Tensor) -> Tensor:
        """The noise, of the shape of the images (batch, 64)."""
        planes = torch.stack([image, level[:, None].expand_as(image)], 1).unflatten(2, (8, 8))
        wide = self.enter(planes).relu()
        noise: Tensor = self.leave(torch.cat([wide, self.up(self.down(wide).relu()).relu()], 1))
        return noise.flatten(1)


def _noise_error(model: nn.Module, rows: Rows) -> Tensor:
    images, levels, noise = rows
    angle = levels * math.pi / 2
    return mse_loss(model(angle.cos()[:, None] * images + angle.sin()[:, None] * noise, levels), noise)


def denoiser() -> NetworkTask:
    """Predict the noise that was mixed into digits, as a diffusion model does."""
    images, _ = _images()
    data = 2 * images - 1, torch.rand(len(images)), torch.randn_like(images)
    return NetworkTask(Denoiser(), _noise_error, *_halves(data, 1200, 597), 32)


def dilated_convolutions() -> NetworkTask:
    """Predict the next value of a chaotic system, the Lorenz equations, from 32 noisy ones before it."""
    steps, warm = 4000, 200
    state = torch.tensor([1.0, 1.0, 25.0], dtype=torch.float64) + torch.randn(3, dtype=torch.float64)
    values = []
    for _ in range(steps + warm):
        for _ in range(5):
            x, y, z = state
            state = state + 0.01 * torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
        values.append(state[0])
    series = (torch.stack(values)[warm:] / 8).float()
    windows = series.unfold(0, 33, 1)
    data = windows[:, None, :-1] + 0.02 * torch.randn(len(windows), 1, 32), windows[:, -1:]
    first, second = (tuple(column[part] for column in data) for part in (slice(3000), slice(3040, None)))
    layers: list[nn.Module] = []
    for channels, dilation in zip(pairwise((1, 16, 16, 16, 16)), (1, 2, 4, 8), strict=True):
        layers += [nn.Conv1d(*channels, 3, dilation=dilation), nn.GELU()]
    return NetworkTask(nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 1)), regress, first, second, 32)


class SetNetwork(nn.Module):
    """A network of each point, a mean over points, and a network of the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.all = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, points: Tensor) -> Tensor:
        """From (batch, points, 2) to (batch, 3)."""
        numbers: Tensor = self.all(self.each(points).mean(1))
        return numbers


def sets() -> NetworkTask:
    """The log spreads and the correlation of a cloud from 30 of its points."""
    clouds = 3000
    spreads, angle = torch.randn(clouds, 2).exp(), math.pi * (torch.rand(clouds) - 0.5)
    first, second = torch.randn(2, clouds, 30)
    mixed = angle.sin()[:, None] * first + angle.cos()[:, None] * second
    points = torch.stack([spreads[:, :1] * first, spreads[:, 1:] * mixed], -1)
    data = points, torch.cat([spreads.log(), angle.sin()[:, None]], 1)
    return NetworkTask(SetNetwork(), regress, *_halves(data, 2000, 1000), 32)


class Coupling(nn.Module):
    """Half of the coordinates shift and scale the other half, in turns: a density that can be evaluated."""

    def __init__(self, dimension: int, layers: int) -> None:
        super().__init__()
        half = dimension // 2
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(half, 48), nn.Tanh(), nn.Linear(48, 2 * half)) for _ in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The log density of each row."""
        left, right = x.chunk(2, 1)
        log_volume = torch.zeros(len(x))
        for net in self.nets:
            shift, scale = net(left).chunk(2, 1)
            left, right = (right - shift) * (-scale.tanh()).exp(), left
            log_volume = log_volume - scale.tanh().sum(1)
        z = torch.cat([left, right], 1)
        log_density: Tensor = log_volume - 0.5 * (z**2 + math.log(2 * math.pi)).sum(1)
        return log_density


def _surprise(model: nn.Module, rows: Rows) -> Tensor:
    log_density: Tensor = model(rows[0])
    return -log_density.mean()


def coupling_flow() -> NetworkTask:
    """The density of six numbers of which each bends the next; its entropy is 8.5 nats."""
    values = [torch.randn(3000)]
    for _ in range(5):
        values.append(torch.randn(3000) + 2 * (2 * values[-1]).sin())
    return NetworkTask(Coupling(6, 6), _surprise, *_halves((torch.stack(values, 1),), 2000, 1000), 32)


def _pairs_apart(model: nn.Module, rows: Rows) -> Tensor:
    """Cross-entropy of finding, among a batch's images, another one of the same class."""
    images, classes = rows
    points = normalize(model(images), dim=1)
    alike = (points @ points.T / 0.2).masked_fill(torch.eye(len(images), dtype=torch.bool), -1e9)
    same = (classes[:, None] == classes) & ~torch.eye(len(images), dtype=torch.bool)
    per_row = (log_softmax(alike, 1) * same).sum(1) / same.sum(1).clamp(min=1)
    return -per_row.mean()


def metric_learning() -> NetworkTask:
    """Points on a sphere, such that digits of a class are close together."""
    layers = nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 8)
    return NetworkTask(nn.Sequential(*layers), _pairs_apart, *_halves(_images(), 800, 300), 64)


class Sorter(nn.Module):
    """A transformer's encoder, from torch, that reads numbers and says them in order."""

    def __init__(self, symbols: int, places: int, width: int = 32) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(symbols, width), nn.Parameter(0.1 * torch.randn(places, width))
        layer = nn.TransformerEncoderLayer(width, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, symbols)

    def forward(self, symbols: Tensor) -> Tensor:
        """Logits at every place."""
        logits: Tensor = self.head(self.encoder(self.embedding(symbols) + self.position))
        return logits


def _each_place(model: nn.Module, rows: Rows) -> Tensor:
    return cross_entropy(model(rows[0]).flatten(0, 1), rows[1].flatten())


def sorting() -> NetworkTask:
    """Eight numbers below sixteen, to be said in order."""
    numbers = torch.randint(16, (6000, 8))
    return NetworkTask(Sorter(16, 8), _each_place, *_halves((numbers, numbers.sort(1).values), 5000, 1000), 16)


class MixtureNetwork(nn.Module):
    """Weights, means and spreads of four Gaussians for each input."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.head = nn.Linear(64, 12)

    def forward(self, x: Tensor) -> Tensor:
        """From (batch, 3) to (batch, 12)."""
        numbers: Tensor = self.head(self.body(x))
        return numbers


def _mixture_surprise(model: nn.Module, rows: Rows) -> Tensor:
    weights, means, spreads = model(rows[0]).chunk(3, 1)
    spreads = 0.1 + softplus(spreads)
    each = log_softmax(weights, 1) - 0.5 * ((rows[1] - means) / spreads) ** 2 - spreads.log()
    surprise: Tensor = 0.5 * math.log(2 * math.pi) - each.logsumexp(1).mean()
    return surprise


def mixture_density() -> NetworkTask:
    """The law of a number that has two branches, and a noise that grows along them."""
    x = torch.rand(3000, 3) * 4 - 2
    branch = torch.randint(2, (3000, 1)) * 2 - 1
    y = branch * (2 + x[:, :1].sin() + x[:, 1:2]) + (0.3 + x[:, 2:].abs()) * torch.randn(3000, 1)
    return NetworkTask(MixtureNetwork(), _mixture_surprise, *_halves((x, y), 2000, 1000), 32)


def biopsies() -> NetworkTask:
    """Breast cancer from thirty columns as they were measured, from .001 to 4,000: a table of few rows."""
    columns, classes = load_breast_cancer(return_X_y=True)
    x = torch.tensor(columns, dtype=torch.float32) / torch.tensor(columns).mean().float()
    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    return NetworkTask(model, classify, *_halves((x, torch.tensor(classes)), 350, 219), 16)


TRAININGS: dict[str, Callable[[], NetworkTask]] = {
    "denoiser": denoiser,
    "dilated convolutions": dilated_convolutions,
    "sets": sets,
    "coupling flow": coupling_flow,
    "metric learning": metric_learning,
    "sorting": sorting,
    "mixture density": mixture_density,
    "biopsies": biopsies,
}
