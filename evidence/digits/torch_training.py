"""The networks and their training in PyTorch."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector

from evidence.training import steps_within
from evidence.training import train as train_network
from gladstorm.torch import NSGDM, NSTORM, Untuned

from .setting import CLIP, DROPOUT, MOMENTUM, Arm, B, G, Outcome, digits, factor, mini_batches


def network(name: str) -> nn.Sequential:
    """A network with fresh weights, as torch draws them."""
    if name == "MLP":
        return nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(64, 10))
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64, 10)),
    )


OPTIMIZERS: dict[str, Callable[[nn.Module, float, int], torch.optim.Optimizer]] = {
    "NSGDM": lambda model, lr, _: NSGDM(model.parameters(), lr, MOMENTUM),
    "NSTORM": lambda model, lr, _: NSTORM(model.parameters(), lr, MOMENTUM, model=model),
    "Untuned": lambda model, lr, steps: Untuned(model.parameters(), lr, horizon=steps),
    "SGD": lambda model, lr, _: torch.optim.SGD(model.parameters(), lr, MOMENTUM),
    "SGD + clipping": lambda model, lr, _: torch.optim.SGD(model.parameters(), lr, MOMENTUM),
    "Adam": lambda model, lr, _: torch.optim.Adam(model.parameters(), lr, (MOMENTUM, 0.999)),
}


def train(arm: Arm, runs: Sequence[tuple[float, int]], evaluations: int) -> list[Outcome]:
    """One run for each (lr, seed)."""
    return [_train(arm, lr, seed, evaluations) for lr, seed in runs]


def _train(arm: Arm, lr: float, seed: int, evaluations: int) -> Outcome:
    torch.manual_seed(seed)
    model = network(arm.network)
    start = parameters_to_vector(model.parameters()).detach()
    steps = steps_within(evaluations, arm.method)
    images, labels = (torch.from_numpy(part) for part in digits().train)

    def loss_of(batch: Tensor) -> Tensor:
        loss = cross_entropy(model(images[batch]), labels[batch])
        return loss + bg_noise(parameters_to_vector(model.parameters()), start) if arm.noise == "BG" else loss

    losses = (partial(loss_of, batch) for batch in torch.from_numpy(mini_batches(seed, steps)))
    clip = CLIP if arm.method == "SGD + clipping" else None
    optimizer = OPTIMIZERS[arm.method](model, lr, steps)
    *_, evaluated = train_network(model, optimizer, losses, lambda k: factor(arm.method, k, steps), clip=clip)
    model.eval()
    with optimizer.averaged() if isinstance(optimizer, Untuned) else nullcontext():
        validation, loss = accuracy_and_loss(model, *map(torch.from_numpy, digits().validation))
        test, _ = accuracy_and_loss(model, *map(torch.from_numpy, digits().test))
        distance = float((parameters_to_vector(model.parameters()).detach() - start).norm())
    return Outcome(validation, loss, test, distance, evaluated)


def bg_noise(x: Tensor, start: Tensor) -> Tensor:
    """½ B ρ ‖x − x⁰‖² + G u·x with ρ = ±1 and u ~ N(0, I/d): what adds B ρ (x − x⁰) + G u to the gradient.

    Drawn from torch's global generator, as dropout is: NSTORM's second evaluation draws the same ρ and u.
    """
    rho = 2 * torch.randint(2, ()) - 1
    u = torch.randn_like(x) / x.numel() ** 0.5
    noise: Tensor = B / 2 * rho * (x - start).square().sum() + G * (u @ x)
    return noise


@torch.no_grad()
def accuracy_and_loss(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[float, float]:
    """The first in per cent."""
    logits = model(images)
    return 100 * float((logits.argmax(1) == labels).double().mean()), float(cross_entropy(logits, labels))
