"""A normalizing flow on a Gaussian, for posteriors that no Gaussian is near: its members, and how they move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from gladstorm.core.parts import Array
from gladstorm.methods.steps.untuned import Untuned, UntunedState
from gladstorm.variational.gaussians import log_standard
from gladstorm.variational.low_rank import Gaussian
from gladstorm.variational.programs import Draw, Gain, LogDensity, Update

MOMENTS = 4096  # draws behind the mean and the covariance of a flow
STRONGEST = 2.0  # |log scale| of a layer is below this


class Couplings(NamedTuple):
    """Weights of affine couplings, each with a network of one hidden layer; leaves have an axis for the layers."""

    inner: Any  # layer × hidden × d
    inner_bias: Any
    outer: Any  # layer × 2d × hidden: of log scales and shifts
    outer_bias: Any


class Coupled(NamedTuple):
    """The law of z = m + Ly, where y is ε after affine couplings: layer by layer, half of y scales and shifts the rest.

    Its moments are those of draws.
    """

    base: Gaussian  # m and L, fixed
    layers: Couplings

    @property
    def noise_size(self) -> int:
        """Length of ε, for a member or a stack of them."""
        return int(self.base.loc.shape[-1])

    @property
    def loc(self) -> np.ndarray:
        """Mean of the flow's draws."""
        return np.asarray(self._draws().mean(axis=0))

    @property
    def sds(self) -> np.ndarray:
        """Standard deviations of the flow's draws."""
        return np.asarray(self._draws().std(axis=0))

    def scale_tril(self) -> np.ndarray:
        """Return L, with LLᵀ the covariance."""
        return np.linalg.cholesky(np.atleast_2d(np.cov(self._draws().T)))

    def place(self, noise: Any) -> Any:
        """Return z at ε."""
        return self.outward(self.whitened(noise)[0])

    def log_density_at(self, noise: Any) -> Any:
        """Return log q(z) at the z of ε."""
        return log_standard(noise) - self.whitened(noise)[1] - self._log_volume()

    def log_density(self, z: Any) -> Any:
        """Return log q(z)."""
        xp = self.base.loc.__array_namespace__()
        return self.log_density_whitened(xp.linalg.solve(self.base.scale_tril(), (z - self.base.loc).T).T)

    def log_density_whitened(self, y: Any) -> Any:
        """Return log q(z) at the z of y."""
        log_volume: Any = 0.0
        for number in reversed(range(len(self.layers.inner))):
            log_scale, shift = self._layer(y, number)
            y, log_volume = (y - shift) * y.__array_namespace__().exp(-log_scale), log_volume + log_scale.sum(-1)
        return log_standard(y) - log_volume - self._log_volume()

    def whitened(self, noise: Any) -> tuple[Any, Any]:
        """Return y at ε, and the logarithm of the determinant of all layers."""
        y, log_volume = noise, 0.0
        for number in range(len(self.layers.inner)):
            log_scale, shift = self._layer(y, number)
            y, log_volume = y * y.__array_namespace__().exp(log_scale) + shift, log_volume + log_scale.sum(-1)
        return y, log_volume

    def outward(self, y: Any) -> Any:
        """Return z at y."""
        return self.base.loc + y @ self.base.scale_tril().T

    def _layer(self, y: Any, number: int) -> tuple[Any, Any]:
        """Return log scales and shifts of a layer: 0 for every second coordinate, and made from these."""
        xp, layers, d = y.__array_namespace__(), self.layers, y.shape[-1]
        moves = (np.arange(d) + number) % 2
        hidden = xp.tanh((y * (1 - moves)) @ layers.inner[number].T + layers.inner_bias[number])
        out = hidden @ layers.outer[number].T + layers.outer_bias[number]
        return STRONGEST * xp.tanh(out[..., :d] / STRONGEST) * moves, out[..., d:] * moves

    def _log_volume(self) -> Any:
        xp = self.base.loc.__array_namespace__()
        return xp.log(xp.diagonal(self.base.scale_tril())).sum()

    def _draws(self) -> np.ndarray:
        noise = np.random.default_rng(0).normal(size=(MOMENTS // 2, self.noise_size))
        return np.asarray(self.place(np.concatenate([noise, -noise]).astype(self.base.loc.dtype)))


class FlowState(NamedTuple):
    """The state of a flow that moves."""

    base: Gaussian
    layers: Couplings
    journey: UntunedState


@dataclass(frozen=True)
class FlowUpdate(Update):
    """Update of a flow: weights move as one vector, by `Untuned` and path derivatives; first layers change nothing."""

    layers: int = 1
    hidden: int = 1
    leaves_family: ClassVar[bool] = True

    @override
    def begin(self, q: Gaussian, key: Array, careful: Any = False) -> FlowState:
        d, dtype, both = q.loc.size, q.loc.dtype, (self.layers, self.hidden)
        inner = jax.random.normal(key, (*both, d), dtype) / jnp.sqrt(d)
        first = Couplings(
            inner,
            jnp.zeros(both, dtype),
            jnp.zeros((self.layers, 2 * d, self.hidden), dtype),
            jnp.zeros((self.layers, 2 * d), dtype),
        )
        return FlowState(q, first, Untuned(steps=1.0).init(first))

    @override
    def noise_size(self, state: FlowState) -> int:
        return int(state.base.loc.shape[-1])

    @override
    def step(self, log_density: LogDensity, state: FlowState, draw: Draw, steps: Array) -> tuple[FlowState, Gain]:
        fixed = Coupled(state.base, state.layers)

        def path(layers: Couplings) -> tuple[Array, Array]:
            y, _ = Coupled(state.base, layers).whitened(draw.noise)
            elbo = log_density(fixed.outward(y), draw.key) - fixed.log_density_whitened(y)
            return -elbo, elbo

        slope, elbo = jax.grad(path, has_aux=True)(state.layers)
        layers, journey = Untuned(steps=steps).move(state.journey, state.layers, slope, lambda _: jnp.zeros(()))
        squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(slope))
        return FlowState(state.base, layers, journey), Gain(elbo, squares, journey.skipped - state.journey.skipped)

    @override
    def candidates(self, state: FlowState) -> tuple[Coupled, Coupled]:
        return Coupled(state.base, state.journey.average), Coupled(state.base, state.layers)
