"""Three networks diagnosed along Adam and SGD: two on digits, and a small transformer on text."""

import itertools
from collections.abc import Callable, Iterator
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from evidence.networks.trainings import characters, windows
from gladstorm.core.statistics import significant
from gladstorm.diagnosis import Probes, Report
from gladstorm.plotting.styles import BLUE, GREEN, GREY, ORANGE, VERMILION
from gladstorm.torch import NoiseProbe, diagnose

STEPS, EVERY, BUDGET, BATCH, CONTEXT = 1000, 10, 192, 32, 32
NETWORKS = {
    "MLP": "perceptron on digits",
    "conv": "convolutional network on digits",
    "transformer": "transformer on text",
}
OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "Adam": lambda model: torch.optim.Adam(model.parameters(), lr=3e-3),
    "SGD": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
}


class SmallTransformer(nn.Module):
    """One layer, 32 wide, two heads; no dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(128, 32), nn.Parameter(0.02 * torch.randn(CONTEXT, 32))
        self.layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 128)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next character, (batch, characters, context)."""
        hidden = self.layer(self.embedding(tokens) + self.position, src_mask=self.mask, is_causal=True)
        logits: Tensor = self.head(hidden).transpose(1, 2)
        return logits


def network(name: str) -> nn.Module:
    """A network with fresh weights."""
    torch.manual_seed(0)
    if name == "transformer":
        return SmallTransformer()
    if name == "MLP":
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64, 10)),
    )


def digits() -> dict[str, tuple[Tensor, Tensor]]:
    """Images of scikit-learn's digits as rows of 64 pixels in [0, 1], and labels, in an order drawn once for all."""
    pixels, classes = load_digits(return_X_y=True)
    parts = np.split(np.random.default_rng(0).permutation(len(classes)), [1000, 1300])
    images, labels = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(classes)
    return {
        name: (images[part], labels[part]) for name, part in zip(("train", "validation", "test"), parts, strict=True)
    }


def batches(name: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Mini-batches drawn with replacement, without end: inputs and labels."""
    generator = np.random.default_rng(0)
    if name == "transformer":
        text = windows(characters("".join(topics.values())), CONTEXT)
        while True:
            drawn = text[torch.as_tensor(generator.integers(len(text) - 1, size=BATCH))]
            yield drawn[:, :-1], drawn[:, 1:]
    images, labels = digits()["train"]
    while True:
        chosen = torch.as_tensor(generator.integers(len(labels), size=BATCH))
        yield images[chosen], labels[chosen]


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Cross entropy, the mean over the samples."""
    return cross_entropy(model(batch[0]), batch[1])


def run(name: str, method: str) -> dict[str, Any]:
    """Train with a probe riding along, then probe around the start with the end of the training as the path."""
    model = network(name)
    start = {key: value.clone() for key, value in model.state_dict().items()}
    optimizer, probe = OPTIMIZERS[method](model), NoiseProbe(model, EVERY)
    losses = []
    for batch in itertools.islice(batches(name), STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        probe.look(loss_of, batch)
        optimizer.step()
        losses.append(loss.item())
    end = {key: value.clone() for key, value in model.state_dict().items()}
    model.load_state_dict(start)
    designed = diagnose(loss_of, model, batches(name), BUDGET, checkpoint=end)
    return {
        "network": name,
        "method": method,
        "parameters": sum(p.numel() for p in model.parameters()),
        "loss": [float(np.mean(losses[:20])), float(np.mean(losses[-20:]))],
        "along the path": _kept(probe.report(), probe.probes),
        "designed": _kept(designed, designed.probes),
    }


def _kept(report: Report, probes: Probes) -> dict[str, Any]:
    columns = {name: getattr(probes, name).tolist() for name in ("direction", "distance")}
    rounded = {name: [significant(value, 5) for value in getattr(probes, name)] for name in ("noise", "gradient2")}
    return {"report": report.as_dict(), "probes": columns | rounded}


def chart(results: list[dict[str, Any]]) -> Figure:
    """Noise over that at the start, against distance: along the run, and where the probes looked."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    figure.suptitle("Does gradient noise grow with the distance from where training starts?", fontsize=12)
    axes = figure.subplots(2, len(NETWORKS))
    for ax, result in zip(axes.T.ravel(), results, strict=True):
        at_start = np.mean(_chosen(result, ("start",))["noise"])
        ax.axhline(1.0, color=GREY, linewidth=0.8, zorder=0)
        for label, probes, line, width, colour in (
            ("along the training run", result["along the path"]["probes"], "-", 2.4, BLUE),
            ("probe: towards the end of the run", _chosen(result, ("along", "start")), "o--", 1.0, VERMILION),
            ("probe: away from it", _chosen(result, ("against", "start")), "s--", 1.0, GREEN),
            ("probe: random directions", _chosen(result, ("random", "start")), "^--", 1.0, ORANGE),
        ):
            at, mean = _smooth(probes)
            ax.plot(at, np.array(mean) / at_start, line, color=colour, markersize=4, linewidth=width, label=label)
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0) if high < 50 * low else (1.0,)))
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"×{value:,g}"))
        ax.set_title(f"{NETWORKS[result['network']]}, {result['method']}", fontsize=9)
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("distance from the start", fontsize=9)
    figure.supylabel("variance of one sample's gradient, as a multiple of that at the start", fontsize=9)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9, frameon=False
    )
    return figure


def _chosen(result: dict[str, Any], directions: tuple[str, ...]) -> dict[str, Any]:
    probes = result["designed"]["probes"]
    places = [i for i, direction in enumerate(probes["direction"]) if direction in directions]
    return {name: [probes[name][i] for i in places] for name in ("distance", "noise")}


def _smooth(probes: dict[str, Any]) -> tuple[Any, Any]:
    """Means over probes of one distance, or over tens of them in the order of a run."""
    distance, noise = np.array(probes["distance"]), np.array(probes["noise"])
    kinds = np.unique(distance.round(6))
    if len(kinds) > 8:
        groups = np.array_split(np.arange(len(distance)), 10)
    else:
        groups = [np.flatnonzero(distance.round(6) == kind) for kind in kinds]
    return [distance[g].mean() for g in groups], [noise[g].mean() for g in groups]


def measure(*, quick: bool = False) -> list[dict[str, Any]]:
    """Every network under every optimizer; one of them if quick."""
    torch.set_num_threads(1)
    return [run(name, method) for name in NETWORKS for method in OPTIMIZERS][: 1 if quick else None]
