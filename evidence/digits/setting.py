"""Setting of the comparison: everything the two frameworks share."""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

METHODS = ("NSGDM", "NSTORM", "Untuned", "SGD", "SGD + clipping", "Adam")
NETWORKS = ("MLP", "conv")
NOISES = ("none", "BG")  # added to the gradient: nothing, or noise that grows with the distance from the start
FRAMEWORKS = ("torch", "jax")

MOMENTUM = 0.9  # of every method; Adam's β₁
CLIP = 1.0  # the gradient norm from which SGD + clipping clips
DROPOUT = 0.2
BATCH = 32
B, G = 1.0, 1.0  # of the added noise: variance B²‖x − x⁰‖² + G²
TRAIN, VALIDATION = 1000, 300  # images; the other 497 are the test set
SPLIT_SEED = 0


@dataclass(frozen=True)
class Arm:
    """One method in one setting: tuned by itself, reported in one row."""

    framework: str
    network: str
    noise: str
    method: str

    @property
    def name(self) -> str:
        """Name of the arm in the results file."""
        return ", ".join((self.framework, self.network, f"noise {self.noise}", self.method))


class Outcome(NamedTuple):
    """Measurements of one run."""

    validation: float  # accuracy, %
    loss: float  # cross-entropy on the validation images
    test: float  # accuracy, %
    distance: float  # ‖x − x⁰‖ at the end
    evaluations: int  # gradients of a mini-batch that were computed


def factor(method: str, k: Any, steps: int) -> Any:
    """Factor of the learning rate at step k: linear to 0, except for `Untuned`, which shortens its steps itself."""
    return 1.0 if method == "Untuned" else 1 - k / steps


@dataclass(frozen=True)
class Digits:
    """Images of 8 × 8 pixels in [0, 1], as rows of 64, and their labels; by purpose."""

    train: tuple[NDArray[np.float32], NDArray[np.int64]]
    validation: tuple[NDArray[np.float32], NDArray[np.int64]]
    test: tuple[NDArray[np.float32], NDArray[np.int64]]


@cache
def digits() -> Digits:
    """The 1797 digits, in an order drawn once and for all."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    parts = np.split(order, [TRAIN, TRAIN + VALIDATION])
    train, validation, test = (
        ((images[part] / 16).astype(np.float32), labels[part].astype(np.int64)) for part in parts
    )
    return Digits(train, validation, test)


def mini_batches(seed: int, steps: int) -> NDArray[np.int64]:
    """Training images that each step sees, (steps, BATCH): epoch after epoch, each in an order of its own."""
    generator = np.random.default_rng(seed)
    per_epoch = TRAIN // BATCH
    epochs = [generator.permutation(TRAIN)[: per_epoch * BATCH] for _ in range(-(-steps // per_epoch))]
    return np.concatenate(epochs).reshape(-1, BATCH)[:steps]
