"""The trainings: each draws its data and first weights from torch's generator, so that a seed decides both."""

from __future__ import annotations

import argparse
import json.decoder
import pickle
import tarfile
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from pydoc_data.topics import topics
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits, make_friedman1
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, mse_loss, relu, scaled_dot_product_attention

CHARACTERS, CONTEXT = 128, 64
WIDTH, HEADS, LAYERS = 64, 4, 2
Rows = tuple[Tensor, ...]  # inputs first; a mini-batch takes the same rows of each


class NetworkTask(NamedTuple):
    """One training: a network, its loss on rows of data, rows to train on and rows that are held out."""

    model: nn.Module
    loss: Callable[[nn.Module, Rows], Tensor]
    train: Rows
    held_out: Rows
    batch: int


def classify(model: nn.Module, rows: Rows) -> Tensor:
    """Cross-entropy in nats."""
    return cross_entropy(model(rows[0]), rows[1])


def regress(model: nn.Module, rows: Rows) -> Tensor:
    """Mean square of the error."""
    return mse_loss(model(rows[0]), rows[1])


def characters(text: str) -> Tensor:
    """A text as numbers; what is not ASCII is 0."""
    return torch.tensor([ord(each) if ord(each) < CHARACTERS else 0 for each in text])


def windows(text: Tensor, context: int) -> Tensor:
    """All stretches of a text, one character longer than the context, without a copy."""
    return text.unfold(0, context + 1, 1)


def next_character(model: nn.Module, rows: Rows) -> Tensor:
    """Cross-entropy of the character that follows, over all places of a window."""
    (window,) = rows
    return cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())


def _text_task(model: nn.Module, text: str, context: int, batch: int) -> NetworkTask:
    """The first four fifths to train on; of the rest 128 windows are drawn."""
    whole = characters(text)
    most = len(whole) * 4 // 5
    train, rest = windows(whole[:most], context), windows(whole[most:], context)
    return NetworkTask(model, next_character, (train,), (rest[torch.randint(len(rest), (128,))],), batch)


class AttentionBlock(nn.Module):
    """Attention and a network of two layers, each behind a LayerNorm and beside a shortcut."""

    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.before_attention, self.before_network = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """From (batch, places, width) to the same."""
        joint = self.attention(self.before_attention(x))
        query, key, value = joint.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.joined(attended.transpose(1, 2).flatten(2))
        added: Tensor = self.narrow(gelu(self.wide(self.before_network(x))))
        return x + added


class TransformerNetwork(nn.Module):
    """An embedding with learned positions, blocks and an output layer."""

    def __init__(self, embedding: nn.Module, places: int, outputs: int, *, causal: bool) -> None:
        super().__init__()
        self.embedding, self.position = embedding, nn.Parameter(0.02 * torch.randn(places, WIDTH))
        self.blocks = nn.Sequential(*(AttentionBlock(causal=causal) for _ in range(LAYERS)))
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Logits at every place."""
        logits: Tensor = self.head(self.last(self.blocks(self.embedding(x) + self.position)))
        return logits


def _language_model() -> TransformerNetwork:
    return TransformerNetwork(nn.Embedding(CHARACTERS, WIDTH), CONTEXT, CHARACTERS, causal=True)


def character_transformer() -> NetworkTask:
    """Python's help topics, character by character."""
    return _text_task(_language_model(), "".join(topics.values()), CONTEXT, batch=8)


@cache
def pretrained(steps: int = 600) -> dict[str, Tensor]:
    """Weights of the transformer after a training on the help topics with AdamW, of one seed of its own."""
    with torch.random.fork_rng():
        torch.manual_seed(10_000)
        task = character_transformer()
        optimizer = torch.optim.AdamW(task.model.parameters(), 3e-3)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
        for _ in range(steps):
            optimizer.zero_grad()
            task.loss(task.model, (task.train[0][torch.randint(len(task.train[0]), (task.batch,))],)).backward()
            optimizer.step()
            schedule.step()
        return task.model.state_dict()


def fine_tuning() -> NetworkTask:
    """A transformer that was trained on the help topics, on Python's own source."""
    model = _language_model()
    model.load_state_dict(pretrained())
    files = (argparse.__file__, json.decoder.__file__, pickle.__file__, tarfile.__file__)
    source = "".join(Path(file).read_text("utf-8") for file in files)
    return _text_task(model, source, CONTEXT, batch=8)


class Recurrent(nn.Module):
    """An embedding, a GRU and an output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gru = nn.Embedding(CHARACTERS, 32), nn.GRU(32, 96, batch_first=True)
        self.head = nn.Linear(96, CHARACTERS)

    def forward(self, x: Tensor) -> Tensor:
        """Logits at every place."""
        logits: Tensor = self.head(self.gru(self.embedding(x))[0])
        return logits


def recurrent() -> NetworkTask:
    """The help topics again, with a recurrent network."""
    return _text_task(Recurrent(), "".join(topics.values()), context=32, batch=16)


def _digits(model: nn.Module, train: int = 1000, *, labels: bool = True) -> NetworkTask:
    """Images of 8 × 8 pixels in [0, 1], as rows of 64; what is not trained on is held out."""
    pixels, classes = load_digits(return_X_y=True)
    images = torch.tensor(pixels / 16, dtype=torch.float32)
    data: Rows = (images, torch.tensor(classes)) if labels else (images, images)
    order = torch.randperm(len(images))
    seen, held_out = (tuple(column[part] for column in data) for part in (order[:train], order[train:]))
    return NetworkTask(model, classify if labels else regress, seen, held_out, 32)


def convolutions() -> NetworkTask:
    """Two convolutions on the digits."""
    head = nn.Linear(128, 10)
    return _digits(
        nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), head),
        )
    )


class Residual(nn.Module):
    """Two convolutions with BatchNorm beside a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        convolution = partial(nn.Conv2d, channels, channels, 3, padding=1, bias=False)
        self.first, self.second = convolution(), convolution()
        self.after_first, self.after_second = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """From (batch, channels, 8, 8) to the same."""
        hidden = relu(self.after_first(self.first(x)))
        return relu(x + self.after_second(self.second(hidden)))


def residual_network() -> NetworkTask:
    """Three residual blocks with BatchNorm on the digits."""
    return _digits(
        nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            *(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
            *(Residual(16) for _ in range(3)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)),
        )
    )


class Patches(nn.Module):
    """Sixteen patches of 2 × 2 pixels, each mapped linearly."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """From (batch, 64) to (batch, 16, width)."""
        patches = x.unflatten(1, (4, 2, 4, 2)).transpose(2, 3).reshape(len(x), 16, 4)
        embedded: Tensor = self.linear(patches)
        return embedded


class VisionTransformer(TransformerNetwork):
    """A transformer on patches whose logits are averaged over places."""

    def __init__(self) -> None:
        super().__init__(Patches(), 16, 10, causal=False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of an image."""
        return super().forward(x).mean(1)


def vision_transformer() -> NetworkTask:
    """Attention between patches of the digits."""
    return _digits(VisionTransformer())


def _perceptron(*widths: int, activation: type[nn.Module] = nn.ReLU, dropout: float = 0.0) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), activation(), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*layers[: -2 if dropout else -1])


def autoencoder() -> NetworkTask:
    """The digits through eight numbers."""
    return _digits(_perceptron(64, 128, 64, 8, 64, 128, 64, activation=nn.Tanh), labels=False)


def few_data() -> NetworkTask:
    """A perceptron with dropout on 200 digits."""
    return _digits(_perceptron(64, 128, 128, 10, dropout=0.2), train=200)


def badly_scaled_table() -> NetworkTask:
    """Friedman's regression, its ten columns multiplied by 0.01 to 100."""
    inputs, targets = make_friedman1(2000, noise=1.0, random_state=int(torch.randint(2**31, ())))
    scales = 10 ** torch.linspace(-2, 2, 10)[torch.randperm(10)]
    x, y = (torch.tensor(column, dtype=torch.float32) for column in (inputs, (targets - 14.4) / 4.9))
    data = x * scales, y[:, None]
    train, held_out = (tuple(column[part] for column in data) for part in (slice(1000), slice(1000, None)))
    return NetworkTask(_perceptron(10, 64, 64, 1), regress, train, held_out, 32)


class Factors(nn.Module):
    """A product of two embeddings, and a bias of each."""

    def __init__(self, users: int, items: int, rank: int) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(users, rank), nn.Embedding(items, rank)
        self.user_bias, self.item_bias = nn.Embedding(users, 1), nn.Embedding(items, 1)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.1)

    def forward(self, pairs: Tensor) -> Tensor:
        """A rating of each pair."""
        user, item = pairs.unbind(1)
        biases = self.user_bias(user) + self.item_bias(item)
        ratings: Tensor = (self.users(user) * self.items(item)).sum(1) + biases[:, 0]
        return ratings


def factorization() -> NetworkTask:
    """A fifth of the noisy ratings of 200 users for 150 items, of rank 4; a tenth is held out."""
    users, items, rank = 200, 150, 4
    biases = 0.5 * torch.randn(users, 1) + 0.5 * torch.randn(items)
    ratings = torch.randn(users, rank) @ torch.randn(rank, items) / rank**0.5 + biases
    pairs = torch.stack(torch.meshgrid(torch.arange(users), torch.arange(items), indexing="ij"), -1).flatten(0, 1)
    data = pairs, (ratings + 0.3 * torch.randn_like(ratings)).flatten()
    order = torch.randperm(len(pairs))
    train, held_out = (tuple(column[part] for column in data) for part in (order[:6000], order[6000:9000]))
    return NetworkTask(Factors(users, items, rank=8), regress, train, held_out, 128)


class GraphNetwork(nn.Module):
    """Two layers that average over neighbours, and an output layer."""

    mixing: Tensor
    features: Tensor

    def __init__(self, mixing: Tensor, features: Tensor, classes: int) -> None:
        super().__init__()
        self.register_buffer("mixing", mixing)
        self.register_buffer("features", features)
        self.first, self.second = nn.Linear(features.shape[1], 64), nn.Linear(64, 64)
        self.head = nn.Linear(64, classes)

    def forward(self, nodes: Tensor) -> Tensor:
        """Logits of some nodes."""
        hidden = relu(self.mixing @ self.first(self.features))
        logits: Tensor = self.head(relu(self.mixing @ self.second(hidden))[nodes])
        return logits


def graph_network() -> NetworkTask:
    """Classes of the nodes of a random graph in which a class is a community, from 100 labels and noisy features."""
    nodes, classes = 400, 5
    labels = torch.randint(classes, (nodes,))
    likely = torch.where(labels[:, None] == labels, 0.05, 0.01)
    edges = (torch.rand(nodes, nodes) < likely).float().triu(1)
    edges = edges + edges.T + torch.eye(nodes)
    mixing = edges / edges.sum(1, keepdim=True)
    features = torch.randn(classes, 32)[labels] + 3 * torch.randn(nodes, 32)
    every = torch.arange(nodes)
    train, held_out = ((every[part], labels[part]) for part in (slice(100), slice(100, None)))
    return NetworkTask(GraphNetwork(mixing, features, classes), classify, train, held_out, 32)


TRAININGS: dict[str, Callable[[], NetworkTask]] = {
    "character transformer": character_transformer,
    "GRU": recurrent,
    "fine-tuned transformer": fine_tuning,
    "convolutions": convolutions,
    "residual network": residual_network,
    "vision transformer": vision_transformer,
    "autoencoder": autoencoder,
    "few data": few_data,
    "badly scaled table": badly_scaled_table,
    "factorization": factorization,
    "graph network": graph_network,
}
