"""Setting of the comparison: the arms, the text and the transformer."""

from dataclasses import dataclass
from functools import cache
from itertools import product
from pydoc_data.topics import topics
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

METHODS = ("AdamW", "SGD", "NSGDM", "NSTORM", "Untuned")
SCHEDULES = ("constant", "decayed")  # the step size of a run: as it is, or falling linearly to 0

MOMENTUM = 0.9  # of SGD, NSGDM and NSTORM; AdamW's β₁
CHARACTERS, CONTEXT, BATCH = 128, 64, 8
WIDTH, HEADS, LAYERS = 88, 4, 2
WINDOWS = 64  # of the text, to measure a loss on


@dataclass(frozen=True)
class TextArm:
    """One method with one schedule: tuned by itself, reported in one row."""

    method: str
    schedule: str

    @property
    def name(self) -> str:
        """Name of the arm in the results file."""
        return f"{self.method}, {self.schedule}"


ARMS = tuple(TextArm(*choice) for choice in product(METHODS, SCHEDULES))


class Text(NamedTuple):
    """Characters as numbers, by purpose; what is not ASCII is 0."""

    train: Tensor
    validation: Tensor
    test: Tensor


@cache
def text() -> Text:
    """Python's help topics: the first four fifths to train on, a tenth to tune on, and the last to report."""
    whole = characters()
    tenth = len(whole) // 10
    return Text(whole[: 8 * tenth], whole[8 * tenth : 9 * tenth], whole[9 * tenth :])


def characters() -> Tensor:
    """All characters of the text."""
    return torch.tensor([ord(each) if ord(each) < CHARACTERS else 0 for each in "".join(topics.values())])


def windows(characters: Tensor, starts: Tensor, context: int = CONTEXT) -> tuple[Tensor, Tensor]:
    """Stretches of text from these places on, and the character that follows each of theirs."""
    at = starts[:, None] + torch.arange(context + 1)
    return characters[at[:, :-1]], characters[at[:, 1:]]


def held_out(characters: Tensor) -> tuple[Tensor, Tensor]:
    """Windows spread evenly over the text: the same for every run."""
    return windows(characters, torch.linspace(0, len(characters) - CONTEXT - 1, WINDOWS).long())


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The mean over characters of −log of the probability given to the one that follows, in nats."""
    given, following = batch
    return cross_entropy(model(given).flatten(0, 1), following.flatten())


class Layer(nn.Module):
    """Attention to what came before and a network of two layers, each behind a LayerNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_network = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """From (batch, context, width) to the same."""
        query, key, value = (
            self.attention(self.before_attention(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        )
        attended = scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.joined(attended)
        return x + cast(Tensor, self.narrow(gelu(self.wide(self.before_network(x)))))


class Transformer(nn.Module):
    """Two layers without dropout; first weights as torch draws them, positions a fiftieth of a normal."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.position = (
            nn.Embedding(CHARACTERS, WIDTH),
            nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH)),
        )
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CHARACTERS)

    def forward(self, characters: Tensor) -> Tensor:
        """Logits of the next character at every place."""
        logits: Tensor = self.head(self.last(self.layers(self.embedding(characters) + self.position)))
        return logits
