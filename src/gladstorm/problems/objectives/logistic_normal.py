"""E log(1 + e^(−t)) for a normal t, by a quadrature that is as exact for a wide normal as for a narrow one.

Gauss–Hermite's nodes move apart with the deviation and miss the bend at 0: with 32 of them the error is 3e-8 at
deviation 2, and 0.01 at 10. Here a function with the same tails, −tΦ(−ct) + φ(ct)/c, is integrated in closed form. What
is left is a bump around 0, analytic in a strip of half-width π, and the midpoint rule converges exponentially on it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.stats import norm

from gladstorm.core.parts import Array

NODES = 48
BUMP = 22.0  # beyond, the bump is below 3e-10
DEVIATIONS = 8.5  # beyond, the normal is
SLOPE = 0.6  # c


def expected_loss(mean: Array, deviation: Array) -> Array:
    """E log(1 + e^(−t)), t ~ N(mean, deviation²), within 1e-9 for every mean and deviation > 0.

    >>> with jax.enable_x64(True):
    ...     print(f"{expected_loss(jnp.array(0.5), jnp.array(10.0)):.9f}")
    3.809219486
    """
    low = jnp.maximum(-BUMP, mean - DEVIATIONS * deviation)
    high = jnp.minimum(BUMP, mean + DEVIATIONS * deviation)
    # Nodes stay where they are when the integral is differentiated: the derivative is as exact as the value.
    step = lax.stop_gradient(jnp.maximum(high - low, 0.0) / NODES)[..., None]
    t = lax.stop_gradient(low)[..., None] + step * (jnp.arange(NODES) + 0.5)
    bump = jax.nn.softplus(-t) - _wide_loss(t, 1 / SLOPE)
    density = norm.pdf(t, mean[..., None], deviation[..., None])
    return _wide_loss(mean, jnp.sqrt(deviation**2 + SLOPE**-2)) + jnp.sum(step * bump * density, axis=-1)


def _wide_loss(t: Array, deviation: Array | float) -> Array:
    """E max(−(t + deviation · normal), 0)."""
    return deviation * norm.pdf(t / deviation) - t * norm.cdf(-t / deviation)
