"""Guides of one's own: an ELBO with path derivatives for numpyro's SVI, and the fit of a guide."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers, optim
from numpyro.distributions import Delta
from numpyro.infer import SVI
from numpyro.infer.autoguide import AutoBNAFNormal, AutoIAFNormal
from numpyro.infer.elbo import ELBO
from numpyro.infer.util import compute_log_probs
from typing_extensions import override

from gladstorm.core.parts import Array
from gladstorm.integrations.numpyro.fit import subsampled_plates
from gladstorm.methods.steps import untuned as per_coordinate
from gladstorm.variational.conclusion import conclude
from gladstorm.variational.driver import Target, optimize
from gladstorm.variational.fit import Fit
from gladstorm.variational.gaussians import Coordinates
from gladstorm.variational.programs import Draw, Gain, LogDensity, Sampler, Traced, Update


class StickingELBO(ELBO):  # type: ignore[misc]  # numpyro publishes no types
    """The ELBO of `Trace_ELBO`, with gradients whose noise vanishes where the guide is the posterior.

    ∇_φ [log q_φ'(z_φ) − log p(z_φ)] at φ' = φ: the parameters of log q are held fixed, and what is left out has mean 0
    ("sticking the landing", Roeder et al. 2017). The guide must be able to compute its density at a given
    point: normalizing flows whose inverse is not known cannot.

    Use it as `SVI(model, guide, untuned_per_coordinate(steps), StickingELBO())`: docs/numpyro.md.
    """

    def loss(
        self, rng_key: Array, param_map: dict[str, Array], model: Any, guide: Any, *args: Any, **kwargs: Any
    ) -> Array:
        """Return minus the ELBO, the mean over `num_particles` draws, as numpyro asks for it."""
        particle = partial(self._particle, param_map, model, guide, args, kwargs)
        if self.num_particles == 1:
            return particle(rng_key)
        return jnp.mean(self.vectorize_particles_fn(particle, jax.random.split(rng_key, self.num_particles)))

    def _particle(self, params: dict[str, Array], model: Any, guide: Any, args: Any, kwargs: Any, key: Array) -> Array:
        model_key, guide_key = jax.random.split(key)
        _, drawn = compute_log_probs(handlers.seed(guide, guide_key), args, kwargs, params)
        latent = {name: each for name, each in drawn.items() if each["type"] == "sample" and not each["is_observed"]}
        points = {name: each for name, each in latent.items() if isinstance(each["fn"], Delta)}
        z = {name: each["value"] for name, each in latent.items() if name not in points}
        fixed = jax.lax.stop_gradient(params)
        at_draw = handlers.substitute(handlers.seed(guide, guide_key), data=z)  # the same subsample too
        log_q, trace = compute_log_probs(at_draw, args, kwargs, fixed)
        replayed = handlers.replay(handlers.seed(model, model_key), trace | points)
        log_p, _ = compute_log_probs(replayed, args, kwargs, params)
        return sum(log_q.values(), start=jnp.zeros(())) - sum(log_p.values(), start=jnp.zeros(()))


@dataclass(frozen=True)
class GuideUpdate(Update):
    """The parameters of a guide move, in unconstrained space, each number by itself."""

    @override
    def begin(self, q: Any, key: Array, careful: Any = False) -> Coordinates:
        return Coordinates.at(q, careful)

    @override
    def noise_size(self, state: Coordinates) -> None:
        return None

    @override
    def step(self, log_density: LogDensity, state: Coordinates, draw: Draw, steps: Array) -> tuple[Coordinates, Gain]:
        elbo, gradient = jax.value_and_grad(log_density)(state.x, draw.key)
        downhill = jax.tree.map(jnp.negative, gradient)
        squares = sum(jnp.sum(jnp.abs(leaf) ** 2) for leaf in jax.tree.leaves(gradient))
        after, skipped = state.move(downhill, steps, self.least_z)
        return after, Gain(elbo, jnp.asarray(squares), skipped)

    @override
    def candidates(self, state: Coordinates) -> tuple[Any, Any]:
        return state.journey.average, state.x


def fit_guide(model: Any, guide: Any, args: Any, kwargs: Any, starts: int, settings: dict[str, Any]) -> Fit:
    """Fit a guide of one's own, from as many starts."""
    if isinstance(guide, AutoIAFNormal | AutoBNAFNormal):
        raise ValueError(
            f"fit: guide must know its density at any point; {type(guide).__name__} knows it only at its own draws. "
            "Use AutoMultivariateNormal, or SVI with Trace_ELBO and gladstorm.optax.untuned_per_coordinate."
        )
    key = jax.random.key(settings["seed"])
    svi = _svi(model, guide)
    svi.init(key, *args, **kwargs)  # an autoguide prepares itself, and svi its transforms
    begin = [_first(model, guide, args, kwargs, each) for each in jax.random.split(key, starts)]
    subsampled = bool(subsampled_plates(handlers.trace(handlers.seed(model, key)).get_trace(*args, **kwargs)))

    own = handlers.trace(handlers.seed(guide, key)).get_trace(*args, **kwargs).values()
    is_point = all(isinstance(site["fn"], Delta) for site in own if site["type"] == "sample")
    if not begin[0]:
        raise ValueError("fit: guide must have parameters; got one without numpyro.param.")

    def log_weight(params: Any, key: Array) -> Array:
        values = svi.constrain_fn(params)
        key = jax.random.wrap_key_data(key)
        return jnp.negative(StickingELBO().loss(key, values, model, guide, *args, **kwargs))

    def sites(_noise: Array, key: Array) -> dict[str, Array]:
        key = jax.random.wrap_key_data(key)
        seeded = handlers.substitute(handlers.seed(guide, key), data=svi.constrain_fn(best))
        replayed = handlers.replay(handlers.seed(model, key), handlers.trace(seeded).get_trace(*args, **kwargs))
        return {
            name: site["value"]
            for name, site in handlers.trace(replayed).get_trace(*args, **kwargs).items()
            if site["type"] == "deterministic" or (site["type"] == "sample" and not site["is_observed"])
        }

    example = begin[0], np.zeros(2, np.uint32)
    update = GuideUpdate(per_coordinate.SUBSAMPLED if subsampled else 0.0)
    name = type(guide).__name__ if not hasattr(guide, "__name__") else guide.__name__
    density = Traced(log_weight, *example)
    reached = optimize(
        Target(density, lambda _: None, lambda q, draws: density.over(_repeated(q, len(draws.key)), draws.key)),
        [(update, settings["steps"])],
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *begin),
        settings["seed"],
        settings["store"],
        name,
        settings["progress"],
    )
    best = reached.member(reached.best)
    parameters = {site: np.asarray(value) for site, value in svi.constrain_fn(best).items()}
    config = {"steps": settings["steps"], "seed": settings["seed"], "starts": starts, "guide": name}
    dtype = jnp.result_type(float)
    sampler = Sampler(Traced(sites, np.zeros(0, dtype), example[1]), None, dtype == np.float64)
    return conclude(name, reached, best, parameters, sampler, config, has_weights=not (subsampled or is_point))


def _repeated(tree: Any, n: int) -> Any:
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (n, *np.shape(leaf))), tree)


def _first(model: Any, guide: Any, args: Any, kwargs: Any, key: Array) -> Any:
    """Return the parameters where `SVI.init` begins with this key."""
    svi = _svi(model, _fresh(guide))
    return svi.optim.get_params(svi.init(key, *args, **kwargs).optim_state)


def _svi(model: Any, guide: Any) -> Any:
    return SVI(model, guide, optim.SGD(0.0), StickingELBO())


def _fresh(guide: Any) -> Any:
    """Copy an autoguide so that it forgets where it began."""
    if getattr(guide, "prototype_trace", None) is None:
        return guide
    fresh = copy.copy(guide)
    fresh.prototype_trace = None
    return fresh
