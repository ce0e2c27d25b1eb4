"""The oracle against what the theorems are told about it: unbiased, BG-0 variance, one sample at two points."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from evidence.verification.cases import Case
from evidence.verification.checks import AtMost, Check, Equals, Parts, Relation, checked
from evidence.verification.instances import NOISE
from evidence.verification.settings import VerificationSettings
from gladstorm.core.parts import Array
from gladstorm.core.statistics import Mean, mean_of
from gladstorm.problems.oracles import Oracle

DRAWS: Final = 20_000
DISTANCES: Final = (0.0, 1.0, 30.0)
EXACT: Final = 1e-12  # of the noise's variance: what rounding leaves of a difference that is 0
MOVE: Final = 0.1  # between the two points a sample is evaluated at
MEANING: Final = {
    "oracle": "Each law of noise has the mean and, at three distances from x⁰, the second moment that it should have, "
    "and one sample changes between two points as much as it should. The mean is looked at along whichever direction "
    "it points.",
}


@dataclass(frozen=True)
class Law:
    """A law of noise that some case has: its name, an oracle that has it, and its variance at a point."""

    name: str
    oracle: Oracle
    B: float  # of the difference between two points
    variance: Callable[[np.ndarray], float]


def parts(selected: Sequence[Case], settings: VerificationSettings) -> Parts:
    """Parts of the verification: every law of noise."""
    for name, law in laws(selected, settings).items():
        yield f"oracle/{name}", partial(checked, checks, law, settings)


def laws(selected: Iterable[Case], settings: VerificationSettings) -> dict[str, Law]:
    """Every law of noise of some cases, once.

    The wrapper's depends on the dimension only: what is measured of it is relative to its size, and B = 0 is its law
    at x⁰. Noise of a problem's own is a law of its own, with a second moment in closed form. All start one unit away
    from the solution, so that no law depends on which case comes first.
    """
    result: dict[str, Law] = {}
    for case in selected:
        if case.noise == "deterministic":
            continue
        if case.instance.wrapped:
            B, G = NOISE["bg0"]
            oracle = settings.wrapper(case.instance.at_distance(1.0), B, G)
            law = Law(f"wrapper, d = {case.instance.dim}", oracle, B, partial(_told, B, G, oracle))
        else:
            oracle = case.instance.noisy(1.0, case.noise)
            law = Law(case.instance.name, oracle, _own_growth(oracle), partial(_own_variance, oracle))
        result.setdefault(law.name, law)
    return result


def checks(law: Law, settings: VerificationSettings) -> Iterator[Check]:
    """Mean and second moment at three distances from x⁰, and at one the second moment of the difference of two points.

    The mean is that of the noise along the direction of its mean over other draws, in units of the noise, so that a
    bias is seen whichever way it points. The second moment is relative to the law's, and that of the difference is at
    most B²‖y − x‖².
    """
    start = np.asarray(law.oracle.objective.start)
    away = np.full(start.size, start.size**-0.5)
    for number, r in enumerate(DISTANCES):
        with jax.enable_x64(True):
            key = jax.random.fold_in(jax.random.key(settings.seed), number)
            keys = jax.random.split(key, DRAWS)
            noise, difference = map(np.asarray, _noise(law.oracle, start + r * away, start + (r + MOVE) * away, keys))
        variance = law.variance(start + r * away)
        measured: dict[str, tuple[Mean, Relation]] = {
            "oracle mean": (_along_its_mean(noise / np.sqrt(variance)), Equals(0.0)),
            "oracle variance": (mean_of(np.sum(noise**2, axis=1) / variance), Equals(1.0)),
        }
        if r == DISTANCES[1]:  # noise that is affine in x differs by the same everywhere
            claim: Relation = AtMost(law.B**2 * MOVE**2 + EXACT * variance)
            measured["oracle difference"] = mean_of(np.sum(difference**2, axis=1)), claim
        for kind, (mean, claimed) in measured.items():
            yield Check("oracle", law.name, f"{kind}, r = {r:g}", 0, mean, claimed)


def _told(B: float, G: float, oracle: Oracle, x: np.ndarray) -> float:
    return float(B**2 * np.sum((x - np.asarray(oracle.objective.start)) ** 2) + G**2)


def _along_its_mean(noise: np.ndarray) -> Mean:
    """The mean of one half of the draws along the mean of the other half: 0 on average unless they are biased."""
    direction, tested = noise[: len(noise) // 2].mean(axis=0), noise[len(noise) // 2 :]
    size = np.linalg.norm(direction)
    return mean_of(tested @ (direction / size if size else direction))


def _own_growth(oracle: Oracle) -> float:
    if oracle.bg0 is None:
        raise ValueError(f"verification: an instance must declare BG-0 constants; got {type(oracle).__name__}.")
    return oracle.bg0.B


def _own_variance(oracle: Any, x: np.ndarray) -> float:
    with jax.enable_x64(True):
        return float(oracle.variance(oracle.at(jnp.asarray(x))))


@jax.jit
def _noise(oracle: Any, x: Array, y: Array, keys: Array) -> tuple[Array, Array]:
    """Draw one sample per key: its noise at x, and by how much that changes on the way to y."""
    here, there = oracle.at(x), oracle.at(y)

    def one(key: Array) -> tuple[Array, Array]:
        sample = oracle.sample(key, here)
        at_x = oracle.grad(here, sample) - oracle.exact(here)
        return at_x, oracle.grad(there, sample) - oracle.exact(there) - at_x

    return jax.vmap(one)(keys)
