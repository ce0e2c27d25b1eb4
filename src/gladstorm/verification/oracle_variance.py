"""The oracle against what the theorems are told about it: unbiased, BG-0 variance, one sample at two points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from gladstorm.parts import Array
from gladstorm.verification.checks import AtMost, Check, Claim, Equals, Mean, mean_of
from gladstorm.verification.runs import Case, Settings

DRAWS: Final = 20_000
DISTANCES: Final = (0.0, 1.0, 30.0)
EXACT: Final = 1e-12  # of the noise's variance: what rounding leaves of a difference that is 0
MOVE: Final = 0.1  # between the two points a sample is evaluated at


def checks(case: Case, settings: Settings) -> Iterator[Check]:
    """At three distances from x⁰: mean, second moment, and second moment of the difference between two points.

    The mean is that of the noise's component away from x⁰, in units of the noise; the second moment is relative to
    B²‖x − x⁰‖² + G², and that of the difference is B²‖y − x‖².
    """
    if case.noise == "deterministic":
        return
    B, G = case.instance.noise_of(case.noise)
    oracle = case.instance.oracle(case.method, case.noise, settings.wrapper)
    start = np.asarray(oracle.objective.start)
    away = np.full(start.size, start.size**-0.5)
    for r in DISTANCES:
        with jax.enable_x64(True):
            keys = jax.random.split(jax.random.key(settings.seed), DRAWS)
            noise, difference = map(np.asarray, _noise(oracle, start + r * away, start + (r + MOVE) * away, keys))
        variance = B**2 * r**2 + G**2
        measured: dict[str, tuple[Mean, Claim]] = {
            "oracle mean": (mean_of(noise @ away / np.sqrt(variance)), Equals(0.0)),
            "oracle variance": (mean_of(np.sum(noise**2, axis=1) / variance), Equals(1.0)),
            "oracle difference": (
                mean_of(np.sum(difference**2, axis=1)),
                AtMost(B**2 * MOVE**2 + EXACT * variance),
            ),
        }
        for kind, (mean, claim) in measured.items():
            yield Check(case.regime, case.instance.name, f"{kind}, r = {r:g}", 0, mean, claim)


@jax.jit
def _noise(oracle: Any, x: Array, y: Array, keys: Array) -> tuple[Array, Array]:
    """Of one sample per key: its noise at x, and by how much that changes on the way to y."""
    here, there = oracle.at(x), oracle.at(y)

    def one(key: Array) -> tuple[Array, Array]:
        sample = oracle.batch(oracle.draw(key), jnp.ones((), int))
        at_x = oracle.grad(here, sample) - oracle.exact(here)
        return at_x, oracle.grad(there, sample) - oracle.exact(there) - at_x

    return jax.vmap(one)(keys)
