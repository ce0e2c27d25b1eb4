"""Ten posteriors of the third validation: eight with data that we make from a fixed seed, two of posteriordb.

They are of ten kinds: a hierarchy, a generalized linear model, a mixture, a time series, survival, item response, a
Gaussian process, robust regression, ordinal data and sparse regression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import deterministic, factor, sample
from numpyro.distributions import (
    Bernoulli,
    Beta,
    Gamma,
    HalfCauchy,
    HalfNormal,
    ImproperUniform,
    InverseGamma,
    Laplace,
    LogNormal,
    Normal,
    OrderedLogistic,
    StudentT,
    constraints,
)
from scipy.special import expit

from evidence.posteriors.models import Data


def _several(name: str, law: Any, number: int) -> Any:
    return sample(name, law.expand([number]).to_event(1))


def stays(data: Data) -> None:
    """A hierarchy: lengths of stay in twelve wards, with a Gamma law."""
    mu, tau = sample("mu", Normal(0, 2)), sample("tau", HalfNormal(1))
    ward = _several("ward", Normal(mu, tau), 12)
    shape = sample("shape", Gamma(2, 0.5))
    level = ward[data["ward"]] + sample("age", Normal(0, 1)) * data["age"]
    sample("days", Gamma(shape, shape / jnp.exp(level)), obs=data["days"])


def _stays(rng: np.random.Generator) -> Data:
    ward, age = np.repeat(np.arange(12), 6), rng.normal(size=72)
    level = (1.5 + 0.4 * rng.normal(size=12))[ward] + 0.2 * age
    return {"ward": ward, "age": age, "days": rng.gamma(2.0, np.exp(level) / 2.0)}


def wells_with_interaction(data: Data) -> None:
    """A generalized linear model: households that change their well, by five regressors; posteriordb."""
    far, arsenic = (data["dist"] - data["dist"].mean()) / 100, data["arsenic"] - data["arsenic"].mean()
    x = jnp.stack([far, arsenic, far * arsenic, data["assoc"], data["educ"] / 4], axis=1)
    logits = sample("alpha", ImproperUniform(constraints.real, (), ()))
    logits = logits + x @ sample("beta", ImproperUniform(constraints.real, (), (5,)))
    factor("switched", jnp.sum(data["switched"] * logits - jax.nn.softplus(logits)))


def two_lines(data: Data) -> None:
    """A mixture of two regression lines, of which the second is steeper."""
    share, sigma = sample("share", Beta(2, 2)), sample("sigma", HalfNormal(1))
    level = _several("level", Normal(0, 5), 2)
    slope = sample("slope", ImproperUniform(constraints.ordered_vector, (), (2,)))
    factor("slopes", Normal(0, 2).log_prob(slope).sum())
    near = Normal(level + slope * data["x"][:, None], sigma).log_prob(data["y"][:, None])
    factor("y", jnp.logaddexp(jnp.log(share) + near[:, 0], jnp.log1p(-share) + near[:, 1]).sum())


def _two_lines(rng: np.random.Generator) -> Data:
    x, steep = rng.uniform(-2, 2, 120), rng.random(120) < 0.4
    return {"x": x, "y": np.where(steep, 1 + 1.5 * x, 0.5 - 0.5 * x) + 0.6 * rng.normal(size=120)}


def downloads(data: Data) -> None:
    """A time series: downloads by day, with 25 changes of the trend and 34 seasonal terms; posteriordb."""
    t, at = data["t"], data["t_change"]
    k, m = sample("k", Normal(0, 5)), sample("m", Normal(0, 5))
    delta = _several("delta", Laplace(0, data["tau"]), len(at))
    beta = sample("beta", Normal(0, data["sigmas"]).to_event(1))
    level = k * t + m + jnp.maximum(t[:, None] - at, 0) @ delta + data["X"] @ beta
    sample("y", Normal(level, sample("sigma_obs", HalfNormal(0.5))), obs=data["y"])


def frailty(data: Data) -> None:
    """Survival: a Weibull law with ten clinics, and some times that are only known to be longer."""
    alpha, beta = sample("alpha", Normal(0, 5)), _several("beta", Normal(0, 2), 2)
    shape, spread = sample("shape", LogNormal(0, 1)), sample("spread", HalfNormal(1))
    clinic = deterministic("clinic", spread * _several("z", Normal(0, 1), 10))
    log_rate = alpha + data["x"] @ beta + clinic[data["clinic"]]
    log_hazard = jnp.log(shape) + (shape - 1) * jnp.log(data["time"]) + log_rate
    factor("time", jnp.sum(data["died"] * log_hazard - jnp.exp(log_rate + shape * jnp.log(data["time"]))))


def _frailty(rng: np.random.Generator) -> Data:
    clinic, x = np.repeat(np.arange(10), 10), np.column_stack([rng.normal(size=100), rng.integers(0, 2, 100)])
    log_rate = -1.5 + x @ [0.5, -0.8] + (0.5 * rng.normal(size=10))[clinic]
    time, end = (rng.exponential(size=100) / np.exp(log_rate)) ** (1 / 1.4), rng.uniform(1, 6, 100)
    return {"clinic": clinic, "x": x, "time": np.minimum(time, end), "died": (time < end).astype(float)}


def guessing(data: Data) -> None:
    """Item response: 40 persons, 15 items, and one chance of guessing."""
    ability = _several("ability", Normal(0, 1), 40)
    mu, spread = sample("mu", Normal(0, 1)), sample("spread", HalfNormal(1))
    difficulty = _several("difficulty", Normal(mu, spread), 15)
    sharpness, guess = sample("sharpness", LogNormal(0, 0.5)), sample("guess", Beta(2, 8))
    knows = jax.nn.sigmoid(sharpness * (ability[:, None] - difficulty))
    sample("right", Bernoulli(guess + (1 - guess) * knows), obs=data["right"])


def _guessing(rng: np.random.Generator) -> Data:
    knows = expit(1.3 * (rng.normal(size=(40, 1)) - rng.normal(0.2, 0.9, 15)))
    return {"right": (rng.random((40, 15)) < 0.15 + 0.85 * knows).astype(float)}


def patches(data: Data) -> None:
    """A Gaussian process behind 18 binary numbers."""
    rho, alpha = sample("rho", InverseGamma(5, 5)), sample("alpha", HalfNormal(2))
    kernel = alpha**2 * jnp.exp(-0.5 * ((data["x"][:, None] - data["x"]) / rho) ** 2) + 1e-6 * jnp.eye(18)
    f = sample("level", Normal(0, 2)) + jnp.linalg.cholesky(kernel) @ _several("z", Normal(0, 1), 18)
    sample("y", Bernoulli(logits=deterministic("f", f)), obs=data["y"])


def _patches(rng: np.random.Generator) -> Data:
    x = np.linspace(-3, 3, 18)
    return {"x": x, "y": (rng.random(18) < expit(2 * np.sin(2 * x))).astype(float)}


def outliers(data: Data) -> None:
    """Robust regression on numbers as they come, some in thousands."""
    beta = _several("beta", Normal(0, 100), 4)
    nu, sigma = sample("nu", Gamma(2, 0.1)), sample("sigma", HalfNormal(20))
    sample("y", StudentT(nu, data["x"] @ beta, sigma), obs=data["y"])


def _outliers(rng: np.random.Generator) -> Data:
    x = np.column_stack([np.ones(80), rng.normal(50, 10, 80), rng.normal(2000, 400, 80), rng.integers(0, 2, 80)])
    return {"x": x, "y": x @ [20, 0.5, 0.01, -6] + 3 * rng.standard_t(2, 80)}


def ratings(data: Data) -> None:
    """Ordinal data: twelve judges, of whom some are severe, give ten wines one of five grades."""
    cuts = sample("cuts", ImproperUniform(constraints.ordered_vector, (), (4,)))
    factor("prior", Normal(0, 3).log_prob(cuts).sum())
    severity = _several("severity", Normal(0, sample("spread", HalfNormal(1))), 12)
    wine = _several("wine", Normal(0, 1), 10)
    sample("grade", OrderedLogistic(wine - severity[:, None], cuts), obs=data["grade"])


def _ratings(rng: np.random.Generator) -> Data:
    liked = rng.normal(size=10) - 0.7 * rng.normal(size=(12, 1)) + rng.logistic(size=(12, 10))
    return {"grade": np.digitize(liked, [-2, -0.7, 0.6, 2.1])}


def few_matter(data: Data) -> None:
    """Sparse regression: a regularized horseshoe on twelve regressors of a binary number."""
    tau, local = sample("tau", HalfCauchy(0.1)), _several("lambda", HalfCauchy(1), 12)
    slab = sample("slab", InverseGamma(2, 8))
    scale = tau * local * jnp.sqrt(slab / (slab + tau**2 * local**2))
    beta = deterministic("beta", scale * _several("z", Normal(0, 1), 12))
    sample("y", Bernoulli(logits=sample("alpha", Normal(0, 2)) + data["x"] @ beta), obs=data["y"])


def _few_matter(rng: np.random.Generator) -> Data:
    x = rng.normal(size=(80, 12)) + 0.5 * rng.normal(size=(80, 1))
    return {"x": x, "y": (rng.random(80) < expit(1.8 * x[:, 0] - 1.2 * x[:, 1])).astype(float)}


MADE: dict[str, tuple[Callable[[Data], None], Callable[[np.random.Generator], Data]]] = {
    "stays": (stays, _stays),
    "two_lines": (two_lines, _two_lines),
    "frailty": (frailty, _frailty),
    "guessing": (guessing, _guessing),
    "patches": (patches, _patches),
    "outliers": (outliers, _outliers),
    "ratings": (ratings, _ratings),
    "few_matter": (few_matter, _few_matter),
}
DATA_SEED = 46
NEW = {
    "wells_data-wells_daae_c_model": wells_with_interaction,
    "rstan_downloads-prophet": downloads,
    **{name: model for name, (model, _) in MADE.items()},
}


def made_data(name: str) -> Data:
    """Return the data of a posterior that is ours; the same at every call."""
    return MADE[name][1](np.random.default_rng([DATA_SEED, list(MADE).index(name)]))
