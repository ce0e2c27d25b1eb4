"""Two Gaussian families in numpyro's coordinates, their ELBO with draws that all share, and its optimum by L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import softplus
from scipy.optimize import minimize

FIRST_SCALE = 0.1  # numpyro's guides begin with this standard deviation
MEAN_FIELD, FULL_RANK = "mean field", "full rank"
LARGEST = 30  # dimension of a full-rank fit

Density = Callable[[Any], Any]


def unpacked(family: str, x: Any, dim: int, positive: Callable[[Any], Any] = softplus) -> tuple[Any, Any]:
    """The mean and L of x = (m, s, t): L = diag σ(s) (I + T), T strictly lower with entries t, as numpyro has it."""
    mean, scale = x[:dim], positive(x[dim : 2 * dim])
    if family == MEAN_FIELD:
        return mean, scale
    lower = jnp.zeros((dim, dim)).at[np.tril_indices(dim, -1)].set(x[2 * dim :])
    return mean, scale[:, None] * (lower + jnp.eye(dim))


def first(family: str, starts: Any, scale: float) -> Any:
    """Starts of the runs, a row for each; `scale` is the unconstrained one."""
    rows, dim = starts.shape
    free = 0 if family == MEAN_FIELD else dim * (dim - 1) // 2
    return np.concatenate([starts, np.full((rows, dim), scale), np.zeros((rows, free))], axis=1)


def point(family: str, x: Any, eps: Any, positive: Callable[[Any], Any] = softplus) -> tuple[Any, Any]:
    """z = m + L ε, and log |det L|."""
    mean, scale = unpacked(family, x, eps.size, positive)
    if family == MEAN_FIELD:
        return mean + scale * eps, jnp.log(scale).sum()
    return mean + scale @ eps, jnp.log(jnp.diagonal(scale)).sum()


def whitened(family: str, x: Any, eps: Any, positive: Callable[[Any], Any] = softplus) -> Any:
    """Noise in the coordinates of the posterior, L⁻ᵀ ε."""
    _, scale = unpacked(family, x, eps.size, positive)
    return eps / scale if family == MEAN_FIELD else jax.scipy.linalg.solve_triangular(scale.T, eps, lower=False)


def antithetic(dim: int, number: int, seed: int) -> Any:
    """Normal draws (number, d) whose second half is minus the first."""
    half = np.random.default_rng([seed, dim]).normal(size=(number // 2, dim))
    return np.concatenate([half, -half])


@partial(jax.jit, static_argnums=0)
def elbos(density: Density, means: Any, scales: Any, draws: Any) -> Any:
    """The ELBO of Gaussians, a row each, by the same draws; scales are σ (rows, d) or L (rows, d, d)."""

    def one(row: tuple[Any, Any]) -> Any:
        mean, scale = row
        flat = scale.ndim == 1
        z = mean + (draws * scale if flat else draws @ scale.T)
        determinant = jnp.log(jnp.abs(scale if flat else jnp.diagonal(scale))).sum()
        return jax.vmap(density)(z).mean() + determinant + mean.size * (1 + jnp.log(2 * jnp.pi)) / 2

    return jax.lax.map(one, (means, scales))


def fixed_draws(family: str, density: Density, start: Any, draws: list[Any], evaluations: int) -> list[Any]:
    """L-BFGS on the ELBO of fixed draws, once for each set of draws: where it ends."""

    @jax.jit
    def loss(x: Any, draws: Any) -> Any:
        def value(x: Any) -> Any:
            z, determinant = jax.vmap(lambda eps: point(family, x, eps))(draws)
            return -(jax.vmap(density)(z) + determinant).mean()

        return jax.value_and_grad(value)(x)

    def finite(x: Any, draws: Any) -> tuple[float, Any]:
        value, slope = loss(x, draws)
        good = np.isfinite(value) and np.isfinite(slope).all()
        return (float(value), np.asarray(slope)) if good else (1e30, np.zeros_like(x))

    options = {"maxiter": evaluations, "maxfun": evaluations, "maxcor": 20}
    return [
        minimize(finite, each, args=(some,), jac=True, method="L-BFGS-B", options=options).x
        for each, some in zip(start, draws, strict=True)
    ]
