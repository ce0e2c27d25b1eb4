"""Batch rules: how many samples step k uses.

A rule may depend on k, on the squared distance ‖x^k − x⁰‖², on whether the estimator starts afresh at step k, and, if
it is `MeasuringBatch`, on what the parts of the batches before have shown. A new size needs no new compilation.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.batch_control import FEWEST_LOOKS, BatchControl
from gladstorm.core.parts import Array, Number, Numbers, leaf, part, parts_of, static
from gladstorm.core.rules import COUNT, NON_NEGATIVE, POSITIVE
from gladstorm.theory.batches import batch_for_time


@runtime_checkable
class BatchRule(Protocol):
    """A batch size for every step."""

    def __call__(self, k: Array | int, distance2: Array | float, refresh: Array | bool = False) -> Array:
        """The number of samples v^k averages at step k."""


BatchSizes = Numbers | BatchRule  # what a method takes for a batch


@part
class Fixed(BatchRule):
    """One size for every step."""

    size: Number = leaf(COUNT, default=1)  #: samples per step, ≥ 1

    @override
    def __call__(self, k: Array | int, distance2: Array | float, refresh: Array | bool = False) -> Array:
        return _whole(self.size)


@part
class FirstLarge(BatchRule):
    """N_init samples for v⁰, then another rule."""

    n_init: Number = leaf(COUNT)  #: N_init ≥ 1, the samples of v⁰
    then: BatchRule = Fixed()  #: the rule for all later steps

    @override
    def __call__(self, k: Array | int, distance2: Array | float, refresh: Array | bool = False) -> Array:
        return jnp.where(k == 0, _whole(self.n_init), self.then(k, distance2, refresh))


@part
class GrowWithDistance(BatchRule):
    """N = max(1, ⌈(B²‖x − x⁰‖² + G²)/σ²⌉): the batch mean has variance σ² at most, until N reaches the cap."""

    B: Number = leaf(NON_NEGATIVE)  #: growth of the noise, ≥ 0
    G: Number = leaf(NON_NEGATIVE)  #: standard deviation of the noise at x⁰, ≥ 0
    sigma2: Number = leaf(POSITIVE)  #: σ² > 0, the variance to keep
    cap: Number = leaf(COUNT, default=2**31 - 1)  #: the largest size

    @override
    def __call__(self, k: Array | int, distance2: Array | float, refresh: Array | bool = False) -> Array:
        size = jnp.ceil((self.B**2 * distance2 + self.G**2) / self.sigma2)
        return _whole(jnp.clip(size, 1, self.cap))


@part
class LikeNoise(BatchRule):
    """N = max(1, ⌈c (G + B r^{a/2})^q⌉) at the distance r from x⁰: a batch that grows like a power of the noise."""

    c: Number = leaf(POSITIVE)  #: c > 0
    q: Number = leaf(NON_NEGATIVE)  #: q ≥ 0, such as 1 for the deviation of the noise and 2 for its variance
    B: Number = leaf(NON_NEGATIVE)  #: growth of the noise, ≥ 0
    G: Number = leaf(NON_NEGATIVE)  #: standard deviation of the noise at x⁰, ≥ 0
    growth: Number = leaf(NON_NEGATIVE, default=2)  #: a ≥ 0: the variance grows like r^a

    @override
    def __call__(self, k: Array | int, distance2: Array | float, refresh: Array | bool = False) -> Array:
        noise = self.G + self.B * jnp.asarray(distance2, float) ** (self.growth / 4)
        return _whole(jnp.clip(jnp.ceil(self.c * noise**self.q), 1, 2**31 - 1))


@part
class LargeOnRefresh(BatchRule):
    """One rule for the steps at which the estimator starts afresh, step 0 included, and another for all other steps."""

    large: BatchRule  #: the rule where the estimator starts afresh
    small: BatchRule = Fixed()  #: the rule for all other steps

    @override
    def __call__(self, k: Array | int, distance2: Array | float, refresh: Array | bool = False) -> Array:
        return jnp.where(jnp.asarray(refresh), self.large(k, distance2, refresh), self.small(k, distance2, refresh))


@part
class NestedLoops(BatchRule):
    """The batches of `Snvrg`: n_init when every loop has ended, otherwise a^{K−l+1} (T_l⋯T_K)² at level l.

    In its theory a = 6.
    """

    n_init: Number = leaf(COUNT)  #: the size when every loop has ended
    base: Number = leaf(COUNT, default=1)  #: a ≥ 1
    loops: tuple[int, ...] = static(COUNT, default=(2, 2, 4))  #: T_1..T_K, as in the estimator

    @override
    def __call__(self, k: Array | int, distance2: Array | float, refresh: Array | bool = False) -> Array:
        depth = len(self.loops)
        inner = [self.base ** (depth - i) * math.prod(self.loops[i:]) ** 2 for i in range(depth)]
        return jnp.stack([_whole(size) for size in (self.n_init, *inner)])[level(k, self.loops)]


@part
class MeasuringBatch(BatchRule):
    """A batch whose two halves show the noise, for the batches that follow: nothing is told of B and G."""

    half: Number = leaf(COUNT, default=1)  #: samples in a half of the first batch
    largest: Number = leaf(COUNT, default=2**20)  #: how many times larger batches become at most

    @override
    def __call__(self, k: Array | int, distance2: Array | float, refresh: Array | bool = False) -> Array:
        return _whole(2 * self.half)  # of the first batch, and the least of all others

    def begin(self) -> BatchControl:
        """Begin with nothing known."""
        budget, theta = getattr(self, "budget", 0.0), getattr(self, "theta", 1.0)
        control = BatchControl(budget / (2 * self.half), theta, self.largest)
        return jax.tree.map(lambda number: jnp.array(number, jnp.result_type(number)), control)  # type: ignore[no-any-return]

    def size(self, seen: BatchControl) -> Array:
        """The size of the next batch."""
        return _whole(2 * self.half * seen.factor)

    def learn(self, seen: BatchControl, noise: Array, gradient2: Array, agreement: Array) -> BatchControl:
        """Take what a batch shows, and decide.

        Args:
            seen: What the batches before showed.
            noise, gradient2: The variance of a sample's gradient, and ‖∇f‖² without the noise's share.
            agreement: The inner product with the gradient before.
        """
        after = self.decide(seen.look(noise / (2 * self.half), gradient2, agreement, jnp))
        return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, seen)  # type: ignore[no-any-return]

    @abstractmethod
    def decide(self, seen: BatchControl) -> BatchControl:
        """Change the factor."""


@part
class GrowWithNoise(MeasuringBatch):
    """N doubles while θB ≥ 2N and steps agree, where B is the critical batch as measured: the rule of `AutoBatch`."""

    budget: Number = leaf(NON_NEGATIVE, default=0)  #: samples of the run, if known: its first 2 % change nothing
    theta: Number = leaf(POSITIVE, default=0.5)  #: θ > 0: batches grow up to θ times the critical one

    @override
    def decide(self, seen: BatchControl) -> BatchControl:
        return seen.advance(seen.factor, jnp)


@part
class FastestBatch(MeasuringBatch):
    """N = √(mB), to a factor √2, where B is the critical batch as measured: fastest where a step costs m samples."""

    worth: Number = leaf(POSITIVE, default=1)  #: m > 0, the samples that a step is worth

    @override
    def decide(self, seen: BatchControl) -> BatchControl:
        m, first = seen.factor, 2 * self.half
        best = batch_for_time(first * seen.usable(jnp) * m, self.worth) / first
        sure = jnp.isfinite(best) & (seen.looks >= FEWEST_LOOKS)
        grown = jnp.where(best >= math.sqrt(2) * m, jnp.minimum(2 * m, self.largest), m)
        factor = jnp.where(best <= m / math.sqrt(2), jnp.maximum(m // 2, 1), grown)
        return seen._replace(factor=jnp.where(sure, factor, m))


def level(k: Array | int, loops: tuple[int, ...]) -> Array:
    """The smallest r with k divisible by T_{r+1}⋯T_K: what step k renews.

    >>> [int(level(k, (2, 3))) for k in range(8)]
    [0, 2, 2, 1, 2, 2, 0, 2]
    """
    return sum((jnp.asarray(k % math.prod(loops[r:]) != 0, int) for r in range(len(loops))), jnp.zeros((), int))


def registry() -> dict[str, type[BatchRule]]:
    """The classes of all batch rules, by their names in a method's text."""
    return parts_of(globals(), BatchRule)


def _whole(size: Array | float) -> Array:
    return jnp.asarray(size).astype(jnp.result_type(int))
