"""A trained model is not thrown off: its loss rises by no more than a tenth in the first twenty steps of `Untuned`."""

from collections.abc import Callable

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from gladstorm.torch import Untuned

Task = tuple[nn.Module, Callable[[nn.Module], Tensor]]


def digits() -> tuple[Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images[:400] / 16, dtype=torch.float32), torch.tensor(labels[:400])


def perceptron() -> Task:
    images, labels = digits()
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return model, lambda model: cross_entropy(model(images), labels)


def autoencoder() -> Task:
    images, _ = digits()
    model = nn.Sequential(
        nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 8), nn.Tanh(), nn.Linear(8, 24), nn.Linear(24, 64)
    )
    return model, lambda model: mse_loss(model(images), images)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.place = nn.Embedding(8, 16), nn.Parameter(0.1 * torch.randn(12, 16))
        self.layer, self.head = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), nn.Linear(16, 8)

    def forward(self, text: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layer(self.embedding(text) + self.place))
        return logits


def transformer() -> Task:
    text = torch.randint(8, (32, 12))
    return Transformer(), lambda model: cross_entropy(model(text).flatten(0, 1), text.flip(1).flatten())


# Of 60 trained models (five tasks, four seeds, after 50, 150 and 400 steps of Adam) at two horizons only transformers
# whose loss was below a five-hundredth of that before training rose by more than a tenth: 15 times of 16, at worst to
# 12.2 times. Perceptrons that had reached a two-thousandth did not.
MEMORIZED = pytest.mark.xfail(strict=False, reason="the law does not hold for a transformer whose loss is almost 0")


@pytest.mark.parametrize("horizon", [20, 1000])
@pytest.mark.parametrize(
    ("task", "steps"),
    [
        (autoencoder, 400),
        (perceptron, 400),
        (transformer, 50),
        pytest.param(transformer, 150, marks=MEMORIZED),
    ],
)
def test_the_loss_of_a_trained_model_never_rises_by_more_than_a_tenth(
    task: Callable[[], Task], steps: int, horizon: int
) -> None:
    torch.manual_seed(0)
    model, loss_of = task()
    adam = torch.optim.Adam(model.parameters(), 1e-2)
    begun = loss_of(model).item()
    for _ in range(steps):
        adam.zero_grad()
        loss_of(model).backward()
        adam.step()
    trained = loss_of(model).item()
    assert trained < 0.8 * begun
    optimizer = Untuned(model.parameters(), horizon=horizon)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(loss_of(model).item())
    assert max(losses) <= 1.1 * trained
