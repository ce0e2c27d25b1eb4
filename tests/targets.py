"""Log densities whose best Gaussian of each family is known in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class Target:
    """A density with the mean, deviations and ELBO of the best Gaussian, by family."""

    log_density: Callable[[Any], Any]
    mean: np.ndarray
    sds: dict[str, np.ndarray]
    elbo: dict[str, float]

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return len(self.mean)


def gaussian(mean: Any, covariance: Any) -> Callable[[Any], Any]:
    """The log density of a normal distribution, without its constant."""
    precision, center = jnp.asarray(np.linalg.inv(covariance)), jnp.asarray(mean)
    return lambda z: -0.5 * (z - center) @ precision @ (z - center)


def normal_target(mean: np.ndarray, covariance: np.ndarray) -> Target:
    """A normal distribution: a mean field has the conditional deviations, larger families the marginal ones."""
    conditional = np.diagonal(np.linalg.inv(covariance)) ** -0.5
    marginal = np.sqrt(np.diagonal(covariance))
    evidence = 0.5 * (len(mean) * LOG_2PI + np.linalg.slogdet(covariance)[1])
    return Target(
        gaussian(mean, covariance),
        mean,
        {"mean field": conditional, "low rank": marginal, "full rank": marginal},
        {
            "mean field": 0.5 * len(mean) * LOG_2PI + np.log(conditional).sum(),
            "low rank": evidence,
            "full rank": evidence,
        },
    )


def correlated(d: int, largest: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """A mean and a covariance whose scales go from 1 to the largest."""
    rng = np.random.default_rng(d)
    factor = rng.normal(size=(d, d)) / np.sqrt(d)
    scales = np.geomspace(1, largest, d)
    return rng.normal(0, 3, d) * scales, (factor @ factor.T + 0.3 * np.eye(d)) * scales[:, None] * scales


def _every(sds: np.ndarray) -> dict[str, np.ndarray]:
    return dict.fromkeys(("mean field", "low rank", "full rank"), sds)


def _gammas() -> Target:
    """Logarithms of Gamma(a, b): log p = az − be^z, so that s² = 1/a and m = log(a/b) − 1/(2a)."""
    a, b = np.array([3.0, 8.0, 30.0]), np.array([1e-3, 1.0, 1e4])
    mean, sds = np.log(a / b) - 0.5 / a, a**-0.5
    elbo = float(np.sum(a * mean - a + np.log(sds) + 0.5 * (1 + LOG_2PI)))
    return Target(
        lambda z: jnp.sum(jnp.asarray(a) * z - jnp.asarray(b) * jnp.exp(z)),
        mean,
        _every(sds),
        dict.fromkeys(_every(sds), elbo),
    )


def _banana() -> Target:
    """z₁ ~ N(0, 1), z₂ ~ N(bz₁², 1): E(z₂ − bz₁²)² = s₂² + 2b²s₁⁴ at m₂ = bs₁², so that 4b²s₁⁴ + s₁² = 1."""
    b = 0.5
    u = (np.sqrt(1 + 16 * b**2) - 1) / (8 * b**2)  # s₁²
    sds = np.array([np.sqrt(u), 1.0])
    elbo = float(-0.5 * u - 0.5 * (1 + 2 * b**2 * u**2) + np.log(sds).sum() + 1 + LOG_2PI)
    return Target(
        lambda z: -0.5 * z[0] ** 2 - 0.5 * (z[1] - b * z[0] ** 2) ** 2,
        np.array([0.0, b * u]),
        _every(sds),
        dict.fromkeys(_every(sds), elbo),
    )


def _laplaces() -> Target:
    """Laplace distributions, whose density has a corner: E|z − c| = s√(2/π), so that s = β√(π/2)."""
    center, beta = np.array([1.0, -200.0]), np.array([0.1, 50.0])
    sds = beta * np.sqrt(np.pi / 2)
    elbo = float(np.sum(-1 + np.log(sds) + 0.5 * (1 + LOG_2PI)))
    return Target(
        lambda z: -jnp.sum(jnp.abs(z - jnp.asarray(center)) / jnp.asarray(beta)),
        center,
        _every(sds),
        dict.fromkeys(_every(sds), elbo),
    )


TARGETS = {
    "correlated Gaussian": normal_target(*correlated(6, 1e4)),
    "one common factor": normal_target(np.zeros(6), np.eye(6) + 0.9 * np.ones((6, 6))),
    "logarithms of gammas": _gammas(),
    "banana": _banana(),
    "Laplace": _laplaces(),
}
