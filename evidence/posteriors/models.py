"""Forty posteriors of posteriordb as numpyro models, in our words; each takes its data by the names they have there.

Sites have the names and the ranges of the Stan parameters, so that draws of both can be compared. A prior that is not
given is flat. Half-distributions are normalized here and not there, which moves an ELBO by a constant.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import deterministic, factor, sample
from numpyro.distributions import (
    Beta,
    Binomial,
    Dirichlet,
    Gamma,
    HalfCauchy,
    HalfNormal,
    ImproperUniform,
    InverseGamma,
    LogNormal,
    MultivariateNormal,
    Normal,
    Poisson,
    StudentT,
    TruncatedDistribution,
    TruncatedNormal,
    Uniform,
    constraints,
)

Data = dict[str, Any]


def _flat(name: str, *shape: int, over: Any = constraints.real) -> Any:
    return sample(name, ImproperUniform(over, (), shape))


def _positive(name: str, *shape: int) -> Any:
    return _flat(name, *shape, over=constraints.positive)


def _several(name: str, law: Any, number: int) -> Any:
    return sample(name, law.expand([number]).to_event(1))


def _linear(y: Any, *columns: Any, scale: Any = None) -> None:
    """A regression with a constant and flat coefficients."""
    x = np.stack([np.ones(len(y)), *columns], axis=1)
    beta = _flat("beta", x.shape[1])
    sigma = _positive("sigma") if scale is None else sample("sigma", scale)
    sample("y", Normal(x @ beta, sigma), obs=y)


def _two_components(y: Any, theta: Any, mu: Any, sigma: Any) -> None:
    first, second = (Normal(mu[k], sigma[k]).log_prob(y) for k in (0, 1))
    factor("y", jnp.logaddexp(jnp.log(theta) + first, jnp.log1p(-theta) + second).sum())


def _kernel(x: Any, alpha: Any, rho: Any, nugget: Any) -> Any:
    return alpha**2 * jnp.exp(-0.5 * ((x[:, None] - x) / rho) ** 2) + nugget * jnp.eye(len(x))


# Development


def eight_schools_centered(data: Data) -> None:
    """Effects of coaching; a funnel."""
    mu = sample("mu", Normal(0, 5))
    tau = sample("tau", HalfCauchy(5))
    theta = _several("theta", Normal(mu, tau), 8)
    sample("y", Normal(theta, data["sigma"]), obs=data["y"])


def eight_schools_noncentered(data: Data) -> None:
    """Eight schools, standardized."""
    mu = sample("mu", Normal(0, 5))
    tau = sample("tau", HalfCauchy(5))
    theta = deterministic("theta", mu + tau * _several("theta_trans", Normal(0, 1), 8))
    sample("y", Normal(theta, data["sigma"]), obs=data["y"])


def kidscore_interaction(data: Data) -> None:
    """Test scores of children; regressors as they are."""
    hs, iq = data["mom_hs"], data["mom_iq"]
    _linear(data["kid_score"], hs, iq, hs * iq, scale=HalfCauchy(2.5))


def logearn_interaction(data: Data) -> None:
    """Earnings by height in inches and sex."""
    height, male = data["height"], data["male"]
    _linear(np.log(data["earn"]), height, male, height * male)


def logmesquite(data: Data) -> None:
    """Weight of bushes, in logarithms."""
    names = ("diam1", "diam2", "canopy_height", "total_height", "density")
    _linear(np.log(data["weight"]), *(np.log(data[name]) for name in names), data["group"])


def autoregression(data: Data) -> None:
    """Autoregression with five lags."""
    y, lags = data["y"], int(data["K"])
    alpha = sample("alpha", Normal(0, 10))
    beta = _several("beta", Normal(0, 10), lags)
    sigma = sample("sigma", HalfCauchy(2.5))
    past = np.stack([y[lags - k : len(y) - k] for k in range(1, lags + 1)], axis=1)
    sample("y", Normal(alpha + past @ beta, sigma), obs=y[lags:])


def garch(data: Data) -> None:
    """Volatility that remembers."""
    y = data["y"]
    mu, alpha0 = _flat("mu"), _positive("alpha0")
    alpha1 = sample("alpha1", Uniform(0, 1))
    beta1 = deterministic("beta1", sample("share", Uniform(0, 1)) * (1 - alpha1))
    factor("range", jnp.log1p(-alpha1))  # flat in beta1 between 0 and 1 − alpha1

    def after(variance: Any, added: Any) -> Any:
        return added + beta1 * variance, variance

    added = alpha0 + alpha1 * (y - mu) ** 2
    _, variance = jax.lax.scan(after, jnp.square(data["sigma1"]) * jnp.ones_like(mu), added)
    sample("y", Normal(mu, jnp.sqrt(variance)), obs=y)


def gp_regression(data: Data) -> None:
    """A Gaussian process; `sigma` is a variance, as there."""
    rho, alpha, sigma = sample("rho", Gamma(25, 4)), sample("alpha", HalfNormal(2)), sample("sigma", HalfNormal(1))
    sample("y", MultivariateNormal(0.0, _kernel(data["x"], alpha, rho, sigma)), obs=data["y"])


def gp_poisson(data: Data) -> None:
    """Counts with a Gaussian process."""
    rho, alpha = sample("rho", Gamma(25, 4)), sample("alpha", HalfNormal(2))
    f_tilde = _several("f_tilde", Normal(0, 1), len(data["k"]))
    f = deterministic("f", jnp.linalg.cholesky(_kernel(data["x"], alpha, rho, 1e-10)) @ f_tilde)
    sample("k", Poisson(jnp.exp(f)), obs=data["k"])


def _cubic(year: Any) -> Any:
    alpha = sample("alpha", Uniform(-20, 20))
    return alpha + sum(sample(f"beta{k}", Uniform(-10, 10)) * year**k for k in (1, 2, 3))


def poisson_mixed(data: Data) -> None:
    """Falcons by year, with an effect of each year."""
    level = _cubic(data["year"])
    eps = _several("eps", Normal(0, sample("sigma", Uniform(0, 5))), len(data["C"]))
    sample("C", Poisson(jnp.exp(level + eps)), obs=data["C"])


def gaussian_mixture(data: Data) -> None:
    """Two normal laws in order."""
    mu = _flat("mu", 2, over=constraints.ordered_vector)
    factor("prior", Normal(0, 2).log_prob(mu).sum())
    sigma = _several("sigma", HalfNormal(2), 2)
    _two_components(data["y"], sample("theta", Beta(5, 5)), mu, sigma)


def dugongs(data: Data) -> None:
    """Length by age, nonlinear."""
    alpha, beta = sample("alpha", Normal(0, 1000)), sample("beta", Normal(0, 1000))
    rate, tau = sample("lambda", Uniform(0.5, 1)), sample("tau", Gamma(1e-4, 1e-4))
    sample("Y", Normal(alpha - beta * rate ** data["x"], 1 / jnp.sqrt(tau)), obs=data["Y"])


def linear_regression(data: Data) -> None:
    """Five correlated regressors."""
    beta = _several("beta", Normal(0, 10), data["X"].shape[1])
    sample("y", Normal(data["X"] @ beta, sample("sigma", HalfNormal(10))), obs=data["y"])


# Validation


def capture_recapture(data: Data) -> None:
    """Detection by occasion; animals never seen may not exist."""
    y = data["y"]
    seen = int((y.sum(axis=1) > 0).sum())
    omega, p = sample("omega", Uniform(0, 1)), _several("p", Uniform(0, 1), y.shape[1])
    caught = y.sum(axis=0)
    never = jnp.logaddexp(jnp.log(omega) + jnp.log1p(-p).sum(), jnp.log1p(-omega))
    factor("seen", seen * jnp.log(omega) + jnp.sum(caught * jnp.log(p) + (seen - caught) * jnp.log1p(-p)))
    factor("never", (len(y) - seen) * never)


def poisson_trend(data: Data) -> None:
    """Falcons by year, a cubic."""
    sample("C", Poisson(jnp.exp(_cubic(data["year"]))), obs=data["C"])


def binomial_trend(data: Data) -> None:
    """Successful pairs by year, a quadratic."""
    alpha, beta1, beta2 = (sample(name, Normal(0, 100)) for name in ("alpha", "beta1", "beta2"))
    logits = alpha + beta1 * data["year"] + beta2 * data["year"] ** 2
    sample("C", Binomial(data["N"].astype(int), logits=logits), obs=data["C"])


def _dogs_saw(data: Data) -> tuple[Any, Any, Any, Any]:
    """Trials and shocks by what a dog has seen: shocks avoided and had, how many trials, and how many were shocks."""
    had = np.cumsum(data["y"], axis=1) - data["y"]
    seen = np.stack([np.arange(data["y"].shape[1]) - had, had], axis=-1).reshape(-1, 2)
    kinds, which = np.unique(seen, axis=0, return_inverse=True)
    return *kinds.T, np.bincount(which.ravel()), np.bincount(which.ravel(), data["y"].ravel())


def dogs(data: Data) -> None:
    """Dogs that learn to avoid shocks."""
    avoided, had, trials, shocks = _dogs_saw(data)
    beta = _several("beta", Normal(0, 100), 3)
    logits = beta[0] + beta[1] * avoided + beta[2] * had
    factor("y", jnp.sum(shocks * logits - trials * jax.nn.softplus(logits)))


def dogs_log(data: Data) -> None:
    """Dogs with two signs known."""
    avoided, had, trials, shocks = _dogs_saw(data)
    logits = sample("beta1", Uniform(-100, 0)) * avoided + sample("beta2", Uniform(0, 100)) * had
    factor("y", jnp.sum(shocks * logits - trials * jax.nn.softplus(logits)))


def kilpisjarvi(data: Data) -> None:
    """Summer temperature by calendar year: intercept and slope all but collinear."""
    alpha = sample("alpha", Normal(data["pmualpha"], data["psalpha"]))
    beta = sample("beta", Normal(data["pmubeta"], data["psbeta"]))
    sample("y", Normal(alpha + beta * data["x"], _positive("sigma")), obs=data["y"])


def surgical(data: Data) -> None:
    """Mortality in twelve hospitals."""
    mu, sigmasq = sample("mu", Normal(0, 1000)), sample("sigmasq", InverseGamma(1e-3, 1e-3))
    b = _several("b", Normal(mu, jnp.sqrt(sigmasq)), len(data["r"]))
    sample("r", Binomial(data["n"].astype(int), logits=b), obs=data["r"])


def seeds(data: Data) -> None:
    """Germination on 21 plates, effects centred."""
    x1, x2 = data["x1"], data["x2"]
    a0, a1, a12, a2 = (sample(name, Normal(0, 1)) for name in ("alpha0", "alpha1", "alpha12", "alpha2"))
    c = _several("c", Normal(0, sample("sigma", HalfCauchy(1))), len(x1))
    logits = a0 + a1 * x1 + a2 * x2 + a12 * x1 * x2 + c - c.mean()
    sample("n", Binomial(data["N"].astype(int), logits=logits), obs=data["n"])


def rats(data: Data) -> None:
    """Thirty growth lines."""
    rat, number = data["rat"].astype(int) - 1, int(data["N"])
    mu_alpha, mu_beta = sample("mu_alpha", Normal(0, 100)), sample("mu_beta", Normal(0, 100))
    alpha = _several("alpha", Normal(mu_alpha, _positive("sigma_alpha")), number)
    beta = _several("beta", Normal(mu_beta, _positive("sigma_beta")), number)
    sample("y", Normal(alpha[rat] + beta[rat] * (data["x"] - data["xbar"]), _positive("sigma_y")), obs=data["y"])


def pilots(data: Data) -> None:
    """Two crossed effects, whose means the data cannot tell apart."""
    scale = {each: sample(f"sigma_{each}", Uniform(0, 100)) for each in "aby"}
    mean = {each: 10 * sample(f"mu_{each}", Normal(0, 1)) for each in "ab"}
    a = _several("a", Normal(mean["a"], scale["a"]), int(data["n_groups"]))
    b = _several("b", Normal(mean["b"], scale["b"]), int(data["n_scenarios"]))
    where = a[data["group_id"].astype(int) - 1] + b[data["scenario_id"].astype(int) - 1]
    sample("y", Normal(where, scale["y"]), obs=data["y"])


def bones(data: Data) -> None:
    """Skeletal age of children from graded indicators."""
    theta = _several("theta", Normal(0, 36), int(data["nChild"]))
    grade, last = data["grade"].astype(int), data["ncat"].astype(int) - 1
    child, item = np.nonzero(grade != -1)
    k = grade[child, item] - 1  # from 0; above the threshold k − 1 and below the threshold k
    slope, cuts = data["delta"][item], data["gamma"][item]
    low, high = k > 0, k < last[item]
    above = slope * (theta[child] - cuts[np.arange(k.size), np.maximum(k - 1, 0)])
    below = slope * (theta[child] - cuts[np.arange(k.size), np.minimum(k, 3)])
    both = jnp.log(-jnp.expm1(jnp.where(low & high, below - above, -jnp.inf)))  # of σ(above) − σ(below)
    factor("grade", jnp.sum(low * jax.nn.log_sigmoid(above) + high * jax.nn.log_sigmoid(-below) + both))


def hidden_markov(data: Data) -> None:
    """Two hidden states."""
    y = data["y"]
    theta = jnp.log(jnp.stack([sample(f"theta{k}", Dirichlet(jnp.ones(2))) for k in (1, 2)]))
    mu = _flat("mu", 2, over=constraints.positive_ordered_vector)
    factor("prior", Normal(np.array([3.0, 10.0]), 1).log_prob(mu).sum())
    seen = Normal(mu, 1).log_prob(y[:, None])

    def after(level: Any, now: Any) -> Any:
        return jax.nn.logsumexp(level[:, None] + theta, axis=0) + now, None

    level, _ = jax.lax.scan(after, seen[0], seen[1:])
    factor("y", jax.nn.logsumexp(level))


def lotka_volterra(data: Data) -> None:
    """Hares and lynxes: an ODE for log populations, by Runge and Kutta's method with twenty steps a year."""
    theta = sample(
        "theta",
        TruncatedNormal(np.array([1, 0.05, 1, 0.05]), np.array([0.5, 0.05, 0.5, 0.05]), low=0.0).to_event(1),
    )
    sigma = _several("sigma", LogNormal(-1, 1), 2)
    start = jnp.log(_several("z_init", LogNormal(np.log(10), 1), 2))
    step = 1 / 20

    def slope(u: Any) -> Any:
        return jnp.array([theta[0] - theta[1] * jnp.exp(u[1]), theta[3] * jnp.exp(u[0]) - theta[2]])

    def move(u: Any, _: Any) -> Any:
        k1 = slope(u)
        k2 = slope(u + step / 2 * k1)
        k3 = slope(u + step / 2 * k2)
        u = u + step / 6 * (k1 + 2 * k2 + 2 * k3 + slope(u + step * k3))
        return u, u

    _, path = jax.lax.scan(move, start, length=20 * len(data["y"]))
    sample("y_init", LogNormal(start, sigma), obs=data["y_init"])
    sample("y", LogNormal(path[19::20], sigma), obs=data["y"])


def loss_curves(data: Data) -> None:
    """Growth of insurance losses, ten cohorts."""
    cohort, premium = data["cohort_id"].astype(int) - 1, data["premium"]
    omega, theta = sample("omega", LogNormal(0, 0.5)), sample("theta", LogNormal(0, 0.5))
    mu, sd = sample("mu_LR", Normal(0, 0.5)), sample("sd_LR", LogNormal(0, 0.5))
    ratio = _several("LR", LogNormal(mu, sd), len(premium))
    growth = -jnp.expm1(-((data["t_value"] / theta) ** omega))[data["t_idx"].astype(int) - 1]
    scale = sample("loss_sd", LogNormal(0, 0.7)) * premium[cohort]
    sample("loss", Normal(ratio[cohort] * premium[cohort] * growth, scale), obs=data["loss"])


def mesquite(data: Data) -> None:
    """Weight of bushes in grams: scales that differ by thousands."""
    names = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")
    _linear(data["weight"], *(data[name] for name in names))


def splines(data: Data) -> None:
    """A motorcycle crash: splines for the mean and for the logarithm of the noise."""

    def curve(which: str, loc: float, spread: float) -> Any:
        level = sample(f"Intercept{which}", StudentT(3, loc, spread))
        linear = data[f"Xs{which}"] @ _flat(f"bs{which}", data[f"Xs{which}"].shape[1])
        basis = data[f"Zs{which}_1_1"]
        bends = _several(f"zs{which}_1_1", Normal(0, 1), basis.shape[1])
        return level + linear + basis @ (sample(f"sds{which}_1_1", _half_student(3, 36)) * bends)

    sample("Y", Normal(curve("", -13, 36), jnp.exp(curve("_sigma", 0, 10))), obs=data["Y"])


def _half_student(freedom: float, scale: float) -> Any:
    return TruncatedDistribution(StudentT(freedom, 0.0, scale), low=0.0)


def radon(data: Data) -> None:
    """Radon by county, standardized effects."""
    sigma_alpha, sigma_y = sample("sigma_alpha", HalfNormal(1)), sample("sigma_y", HalfNormal(1))
    mu, beta = sample("mu_alpha", Normal(0, 10)), _several("beta", Normal(0, 10), 2)
    alpha = mu + sigma_alpha * _several("alpha_raw", Normal(0, 1), int(data["J"]))
    level = alpha[data["county_idx"].astype(int) - 1] + data["log_uppm"] * beta[0] + data["floor_measure"] * beta[1]
    sample("log_radon", Normal(level, sigma_y), obs=data["log_radon"])


# Second validation


def trap_response(data: Data) -> None:
    """Detection that changes after the first capture; animals never seen may not exist."""
    y = data["y"]
    before = np.concatenate([np.zeros((len(y), 1)), y[:, :-1]], axis=1)
    omega, p, c = (sample(name, Uniform(0, 1)) for name in ("omega", "p", "c"))
    seen = y.sum(axis=1) > 0
    caught, missed = ([((y == hit) & (before == after))[seen].sum() for after in (0, 1)] for hit in (1, 0))
    recaught = sum(a * jnp.log(r) + b * jnp.log1p(-r) for r, a, b in zip((p, c), caught, missed, strict=True))
    never = jnp.logaddexp(jnp.log(omega) + y.shape[1] * jnp.log1p(-p), jnp.log1p(-omega))
    factor("y", seen.sum() * jnp.log(omega) + recaught + (~seen).sum() * never)


def moving_average(data: Data) -> None:
    """One lag of the series and one of the noise."""
    y = data["y"]
    mu, phi, theta = sample("mu", Normal(0, 10)), sample("phi", Normal(0, 2)), sample("theta", Normal(0, 2))
    sigma = sample("sigma", HalfCauchy(2.5))

    def after(error: Any, pair: Any) -> Any:
        error = pair[1] - (mu + phi * pair[0] + theta * error)
        return error, error

    first = y[0] - (mu + phi * mu)
    _, errors = jax.lax.scan(after, first, np.stack([y[:-1], y[1:]], axis=1))
    factor("y", Normal(0, sigma).log_prob(jnp.append(errors, first)).sum())


def earnings(data: Data) -> None:
    """Earnings in dollars by height in inches."""
    _linear(data["earn"], data["height"])


def wells(data: Data) -> None:
    """Households that change their well, by distance."""
    logits = _flat("alpha") + _flat("beta", 1)[0] * data["dist"] / 100
    factor("switched", jnp.sum(data["switched"] * logits - jax.nn.softplus(logits)))


def logmesquite_logvas(data: Data) -> None:
    """Weight of bushes by volume, area and shape, in logarithms."""
    d1, d2 = np.log(data["diam1"]), np.log(data["diam2"])
    shapes = (d1 + d2 + np.log(data["canopy_height"]), d1 + d2, d1 - d2)
    others = (np.log(data["total_height"]), np.log(data["density"]), data["group"])
    _linear(np.log(data["weight"]), *shapes, *others)


def collapsing_mixture(data: Data) -> None:
    """Two normal laws without an order."""
    mu, sigma = _several("mu", Normal(0, 2), 2), _several("sigma", HalfNormal(2), 2)
    _two_components(data["y"], sample("theta", Beta(5, 5)), mu, sigma)


def two_means(data: Data) -> None:
    """Two normal laws of scale 1 without an order."""
    theta, mu = sample("theta", Uniform(0, 1)), _several("mu", Normal(0, 10), 2)
    _two_components(data["y"], theta, mu, jnp.ones(2))


def dogs_multiplicative(data: Data) -> None:
    """Dogs whose probability of a shock shrinks by a factor with every trial."""
    avoided, had, trials, shocks = _dogs_saw(data)
    a, b = sample("a", Uniform(0, 1)), sample("b", Uniform(0, 1))
    log_p = had * jnp.log(a) + avoided * jnp.log(b)
    trained = (avoided + had) > 0  # the first trial is a shock
    missed = jnp.where(trained, jnp.log(-jnp.expm1(jnp.where(trained, log_p, -1.0))), 0.0)
    factor("y", jnp.sum(shocks * log_p + (trials - shocks) * missed))


def soil(data: Data) -> None:
    """Carbon from two pools: a linear ODE, by Runge and Kutta's method with ten steps between data."""
    k1, k2, alpha21, alpha12 = (sample(name, HalfNormal(1)) for name in ("k1", "k2", "alpha21", "alpha12"))
    gamma, sigma = sample("gamma", Beta(10, 1)), sample("sigma", HalfCauchy(1))
    total, rates = data["totalC_t0"], jnp.array([[-k1, alpha12 * k2], [alpha21 * k1, -k2]])

    def move(pools: Any, step: Any) -> Any:
        h = step * rates
        for _ in range(10):
            pools = pools + h @ (pools + h @ (pools / 2 + h @ (pools / 6 + h @ pools / 24)))
        return pools, pools.sum()

    steps = np.diff(np.append(data["t0"], data["ts"])) / 10
    _, left = jax.lax.scan(move, total * jnp.array([gamma, 1 - gamma]), steps)
    sample("eCO2mean", Normal(total - left, sigma), obs=data["eCO2mean"])


def kidscore(data: Data) -> None:
    """Test scores of children by the mother's, unscaled."""
    _linear(data["kid_score"], data["mom_iq"], scale=HalfCauchy(2.5))


DEVELOPMENT = {
    "eight_schools-eight_schools_centered": eight_schools_centered,
    "eight_schools-eight_schools_noncentered": eight_schools_noncentered,
    "kidiq-kidscore_interaction": kidscore_interaction,
    "earnings-logearn_interaction": logearn_interaction,
    "mesquite-logmesquite": logmesquite,
    "arK-arK": autoregression,
    "garch-garch11": garch,
    "gp_pois_regr-gp_regr": gp_regression,
    "gp_pois_regr-gp_pois_regr": gp_poisson,
    "GLMM_Poisson_data-GLMM_Poisson_model": poisson_mixed,
    "low_dim_gauss_mix-low_dim_gauss_mix": gaussian_mixture,
    "dugongs_data-dugongs_model": dugongs,
    "sblrc-blr": linear_regression,
}
VALIDATION = {
    "Mt_data-Mt_model": capture_recapture,
    "GLM_Poisson_Data-GLM_Poisson_model": poisson_trend,
    "GLM_Binomial_data-GLM_Binomial_model": binomial_trend,
    "dogs-dogs": dogs,
    "dogs-dogs_log": dogs_log,
    "kilpisjarvi_mod-kilpisjarvi": kilpisjarvi,
    "surgical_data-surgical_model": surgical,
    "seeds_data-seeds_centered_model": seeds,
    "rats_data-rats_model": rats,
    "pilots-pilots": pilots,
    "bones_data-bones_model": bones,
    "hmm_example-hmm_example": hidden_markov,
    "hudson_lynx_hare-lotka_volterra": lotka_volterra,
    "loss_curves-losscurve_sislob": loss_curves,
    "mesquite-mesquite": mesquite,
    "mcycle_splines-accel_splines": splines,
    "radon_mn-radon_hierarchical_intercept_noncentered": radon,
}
SECOND = {
    "Mb_data-Mb_model": trap_response,
    "dogs-dogs_hierarchical": dogs_multiplicative,
    "earnings-earn_height": earnings,
    "mesquite-logmesquite_logvas": logmesquite_logvas,
    "low_dim_gauss_mix_collapse-low_dim_gauss_mix_collapse": collapsing_mixture,
    "normal_2-normal_mixture": two_means,
    "soil_carbon-soil_incubation": soil,
    "arma-arma11": moving_average,
    "wells_data-wells_dist100_model": wells,
    "kidiq-kidscore_momiq": kidscore,
}
