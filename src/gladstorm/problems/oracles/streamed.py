"""Oracles that draw every sample of a batch: nothing shorter has their law."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from gladstorm.core.parts import Array
from gladstorm.problems.oracles.own_noise import OwnNoise

FURTHER = 2**30  # their keys, far from the counters that the first sample uses


class Stream(NamedTuple):
    """A batch: its first sample, and the key of the others. They are drawn again wherever it is evaluated."""

    first: Any
    key: Array
    size: Array  # b


class Streamed(OwnNoise):
    """An oracle that draws all b samples of a batch: it costs b draws, and is exact at any number of points."""

    at_once: ClassVar[int] = 8  # samples drawn together: a batch costs a loop over as many of these as it needs

    @abstractmethod
    def single(self, key: Array) -> Any:
        """What one sample is made of."""

    @abstractmethod
    def gradient(self, point: Any, single: Any) -> Array:
        """∇f(x; ξ) of one sample."""

    @override
    def draw(self, key: Array) -> tuple[Any, Array]:
        """The first sample, and the key."""
        return self.single(key), jax.random.key_data(key)

    @override
    def batch(self, noise: tuple[Any, Array], size: Array) -> Stream:
        """Nothing to do yet."""
        return Stream(*noise, jnp.asarray(size))

    @override
    def grad(self, point: Any, sample: Stream) -> Array:
        """The mean of b samples' gradients."""
        key, others = jax.random.wrap_key_data(sample.key, impl="threefry2x32"), sample.size - 1

        def more(chunk: Array, total: Array) -> Array:
            places = self.at_once * chunk + jnp.arange(self.at_once)
            keys = jax.vmap(lambda place: jax.random.fold_in(key, FURTHER + place))(places)
            rows = jax.vmap(lambda key: self.gradient(point, self.single(key)))(keys)
            return total + jnp.sum(jnp.where((places < others)[:, None], rows, 0.0), axis=0)

        first = self.gradient(point, sample.first)
        total: Array = lax.fori_loop(0, -(-others // self.at_once), more, first)
        return total / sample.size
