"""Seven trainings on which the advice of a diagnosis is followed to the end, and compared with AdamW."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from evidence.calibration.networks import BATCH, CONTEXT, SmallTransformer, digits, loss_of
from evidence.networks.trainings import characters, windows
from gladstorm.theory.batches import Hyperbola
from gladstorm.torch import NSGDM, diagnose, trial

STEPS, SHORT, BUDGET = 600, 120, 160  # of a run, of the run that is diagnosed, of the diagnosis
RATES = (0.3, 1.0, 3.0)  # times what the code of the advice says; tuned on validation losses
REPORTED = (1, 2, 3)  # seeds, with fresh weights; seed 0 is tuned on
SMALLEST, LARGEST = 4, 256  # mini-batches that are tried
ADAM = 1e-3
Batch = tuple[Tensor, Tensor]


class Vit(nn.Module):
    """A vision transformer on 16 patches of 2 × 2 pixels: two layers, 32 wide, four heads."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.position = nn.Linear(4, 32), nn.Parameter(0.02 * torch.randn(16, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the digits."""
        patches = images.view(-1, 4, 2, 4, 2).transpose(2, 3).reshape(-1, 16, 4)
        logits: Tensor = self.head(self.layers(self.patch(patches) + self.position).mean(dim=1))
        return logits


@dataclass(frozen=True)
class Training:
    """A model, its data by purpose, and B of noise that is added and grows with the distance."""

    make: Callable[[], nn.Module]
    data: Callable[[], dict[str, Batch]]
    B: float = 0.0

    def model(self, seed: int) -> nn.Module:
        """A model with fresh weights, which remembers them."""
        torch.manual_seed(seed)
        model = self.make()
        for p in list(model.parameters()):
            model.register_buffer(f"start{sum(1 for _ in model.buffers())}", p.detach().clone(), persistent=False)
        return model

    def loss_of(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross entropy, and a term of value 0 whose gradient is the added noise of a mini-batch."""
        loss = loss_of(model, batch)
        if self.B and torch.is_grad_enabled():
            starts = [buffer for name, buffer in model.named_buffers() if name.startswith("start")]
            offs = torch.cat([(p - start).ravel() for p, start in zip(model.parameters(), starts, strict=True)])
            noise = torch.randn_like(offs) / math.sqrt(len(offs) * len(batch[1]))
            term = self.B * offs.detach().norm() * (noise @ offs)
            loss = loss + term - term.detach()
        return loss

    def batches(self, seed: int, size: int = BATCH) -> Iterator[Batch]:
        """Mini-batches drawn with replacement, without end."""
        generator, (inputs, labels) = np.random.default_rng(seed), self.data()["train"]
        while True:
            chosen = torch.as_tensor(generator.integers(len(labels), size=size))
            yield inputs[chosen], labels[chosen]


def _text() -> dict[str, Batch]:
    whole, data = characters("".join(topics.values())), {}
    tenth, sizes = len(whole) // 10, {"train": (0, 8, 4096), "validation": (8, 9, 256), "test": (9, 11, 256)}
    for name, (first, last, count) in sizes.items():
        stretches = windows(whole[first * tenth : last * tenth], CONTEXT)
        chosen = stretches[torch.linspace(0, len(stretches) - 1, count).long()]
        data[name] = chosen[:, :-1], chosen[:, 1:]
    return data


def _perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def _deep_perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def _convolutions() -> nn.Module:
    two = (nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU())
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *two, nn.Flatten(), nn.Linear(256, 10))


def _softmax_regression() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 10))


TRAININGS = {
    "vision transformer on digits": Training(Vit, digits),
    "perceptron on digits": Training(_perceptron, digits),
    "perceptron on digits, noise added that grows": Training(_perceptron, digits, B=3.0),
    "transformer on text": Training(SmallTransformer, _text),
    "convolutions on digits": Training(_convolutions, digits),
    "deep perceptron on digits": Training(_deep_perceptron, digits),
    "softmax regression on digits, noise added that grows": Training(_softmax_regression, digits, B=3.0),
}


def trained(training: Training, optimizer: Any, model: nn.Module, seed: int, steps: int, size: int = BATCH) -> None:
    """Train with a linear decay to 0."""
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    for _, batch in zip(range(steps), training.batches(seed, size), strict=False):
        optimizer.zero_grad()
        training.loss_of(model, batch).backward()
        optimizer.step()
        schedule.step()


def ended(training: Training, method: str, lr: float, seed: int, steps: int, size: int) -> dict[str, float]:
    """The losses at the end of one run."""
    model = training.model(seed)
    kinds: dict[str, Any] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "nsgdm": NSGDM}
    trained(training, kinds[method](model.parameters(), lr=lr), model, seed, steps, size)
    with torch.no_grad():
        return {name: cross_entropy(model(x), y).item() for name, (x, y) in training.data().items()}


def tuned(training: Training, method: str, lr: float, steps: int, size: int) -> dict[str, Any]:
    """Test losses of runs at the best of three learning rates."""

    def validation(rate: float) -> float:
        loss = ended(training, method, lr * rate, 0, steps, size)["validation"]
        return loss if math.isfinite(loss) else math.inf

    best = lr * min(RATES, key=validation)
    losses = [ended(training, method, best, seed, steps, size)["test"] for seed in REPORTED]
    return {"method": method, "lr": best, "steps": steps, "batch": size, "losses": losses}


def followed(name: str, training: Training) -> dict[str, Any]:
    """A short run of AdamW, the diagnosis on its way, its advice followed, and AdamW beside it."""
    model = training.model(0)
    start = {key: value.clone() for key, value in model.state_dict().items()}
    trained(training, torch.optim.AdamW(model.parameters(), lr=ADAM), model, 0, SHORT)
    end = {key: value.clone() for key, value in model.state_dict().items()}
    model.load_state_dict(start)
    report = diagnose(training.loss_of, model, training.batches(1), BUDGET, checkpoint=end)
    tries = trial(training.loss_of, model, training.batches(2))
    advice = report.recommend(STEPS, batch=BATCH, trial=tries)
    critical = report.findings["critical_batch"]
    number = (critical.estimate if critical.high else critical.low) or BATCH  # "or more" is advice up to there
    size, curve = advised_batch(number), Hyperbola(1.0, 1.0)
    steps = STEPS * curve.at(size / number)[0] / curve.at(BATCH / number)[0]
    return {
        "training": name,
        "distance": report.probes.radius,
        "path": None if report.path is None else report.path.as_dict(),
        "critical_batch": critical.as_dict(),
        "why": advice.why,
        "followed": tuned(training, advice.method, advice.gamma or ADAM, round(steps), size),
        "adamw": tuned(training, "adamw", ADAM, STEPS, BATCH),
    }


def advised_batch(critical: float) -> int:
    """The power of 2 next to the critical batch size, within what is tried."""
    return int(min(max(2 ** round(math.log2(critical)), SMALLEST), LARGEST))


def measure(*, quick: bool = False) -> list[dict[str, Any]]:
    """Follow the advice on every training; on one if quick."""
    torch.set_num_threads(1)
    return [followed(*each) for each in list(TRAININGS.items())[: 1 if quick else None]]
