"""The oracle against what the theorems are told about it: unbiased, BG-0 variance, one sample at two points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.foundation.parts import Array
from gladstorm.foundation.statistics import Mean, mean_of
from gladstorm.oracles import Oracle
from gladstorm.studies.verification.cases import Case
from gladstorm.studies.verification.checks import AtMost, Check, Equals, Relation
from gladstorm.studies.verification.settings import VerificationSettings

DRAWS: Final = 20_000
DISTANCES: Final = (0.0, 1.0, 30.0)
EXACT: Final = 1e-12  # of the noise's variance: what rounding leaves of a difference that is 0
MOVE: Final = 0.1  # between the two points a sample is evaluated at


def checks(case: Case, settings: VerificationSettings) -> Iterator[Check]:
    """At three distances from x⁰: mean, second moment, and second moment of the difference between two points.

    The mean is that of the noise along the direction of its mean over other draws, in units of the noise, so that a
    bias is seen whichever way it points. The second moment is relative to B²‖x − x⁰‖² + G², and that of the difference
    is B²‖y − x‖². Noise of a problem's own has a second moment in closed form, which is at most what the theorems are
    told; its B for differences is that around the point where it is least.
    """
    if case.noise == "deterministic":
        return
    told = case.statement.problem
    oracle = case.instance.oracle(case.method, case.noise, settings.wrapper)
    B = told.B if case.instance.wrapped else _own_growth(oracle)
    start = np.asarray(oracle.objective.start)
    away = np.full(start.size, start.size**-0.5)
    for r in DISTANCES:
        with jax.enable_x64(True):
            keys = jax.random.split(jax.random.key(settings.seed), DRAWS)
            noise, difference = map(np.asarray, _noise(oracle, start + r * away, start + (r + MOVE) * away, keys))
        allowed = told.B**2 * r**2 + told.G**2
        variance = allowed if case.instance.wrapped else _own_variance(oracle, start + r * away)
        measured: dict[str, tuple[Mean, Relation]] = {
            "oracle mean": (_along_its_mean(noise / np.sqrt(variance)), Equals(0.0)),
            "oracle variance": (mean_of(np.sum(noise**2, axis=1) / variance), Equals(1.0)),
            "oracle difference": (
                mean_of(np.sum(difference**2, axis=1)),
                AtMost(B**2 * MOVE**2 + EXACT * variance),
            ),
        }
        if not case.instance.wrapped:
            measured["oracle allowance"] = mean_of(np.sum(noise**2, axis=1)), AtMost(allowed)
        for kind, (mean, claim) in measured.items():
            yield Check(case.regime, case.instance.name, f"{kind}, r = {r:g}", 0, mean, claim)


def _along_its_mean(noise: np.ndarray) -> Mean:
    """The mean of one half of the draws along the mean of the other half: 0 on average unless they are biased."""
    direction, tested = noise[: len(noise) // 2].mean(axis=0), noise[len(noise) // 2 :]
    size = np.linalg.norm(direction)
    return mean_of(tested @ (direction / size if size else direction))


def _own_growth(oracle: Oracle) -> float:
    if oracle.bg0 is None:
        raise ValueError(f"verify: an instance must declare BG-0 constants; got {type(oracle).__name__}.")
    return oracle.bg0.B


def _own_variance(oracle: Any, x: np.ndarray) -> float:
    with jax.enable_x64(True):
        return float(oracle.variance(oracle.at(jnp.asarray(x))))


@jax.jit
def _noise(oracle: Any, x: Array, y: Array, keys: Array) -> tuple[Array, Array]:
    """Of one sample per key: its noise at x, and by how much that changes on the way to y."""
    here, there = oracle.at(x), oracle.at(y)

    def one(key: Array) -> tuple[Array, Array]:
        sample = oracle.drawn_at(here, oracle.batch(oracle.draw(key), jnp.ones((), int)))
        at_x = oracle.grad(here, sample) - oracle.exact(here)
        return at_x, oracle.grad(there, sample) - oracle.exact(there) - at_x

    return jax.vmap(one)(keys)
