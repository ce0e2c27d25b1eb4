"""Guides of one's own: an ELBO with path derivatives for numpyro's SVI, and the stage of a fit that uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from gladstorm.core.extras import needing_extras
from gladstorm.core.parts import Array
from gladstorm.methods.steps import per_coordinate
from gladstorm.variational.stages import Gain, Stage, Walk

with needing_extras("gladstorm.numpyro"):
    from numpyro import handlers, optim
    from numpyro.distributions import Delta
    from numpyro.infer import SVI
    from numpyro.infer.elbo import ELBO
    from numpyro.infer.util import compute_log_probs


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
        """Minus the ELBO, the mean over `num_particles` draws; as numpyro asks for it."""
        particle = partial(self._particle, param_map, model, guide, args, kwargs)
        if self.num_particles == 1:
            return particle(rng_key)
        return jnp.mean(self.vectorize_particles_fn(particle, jax.random.split(rng_key, self.num_particles)))

    def _particle(self, params: dict[str, Array], model: Any, guide: Any, args: Any, kwargs: Any, key: Array) -> Array:
        model_key, guide_key = jax.random.split(key)
        _, drawn = compute_log_probs(handlers.seed(guide, guide_key), args, kwargs, params)
        z = {
            name: site["value"]
            for name, site in drawn.items()
            if site["type"] == "sample" and not site["is_observed"] and not isinstance(site["fn"], Delta)
        }
        fixed = jax.lax.stop_gradient(params)
        at_draw = handlers.substitute(handlers.seed(guide, guide_key), data=z)  # the same subsample too
        log_q, trace = compute_log_probs(at_draw, args, kwargs, fixed)
        replayed = handlers.replay(handlers.seed(model, model_key), trace)
        log_p, _ = compute_log_probs(replayed, args, kwargs, params)
        return sum(log_q.values(), start=jnp.zeros(())) - sum(log_p.values(), start=jnp.zeros(()))


@dataclass(frozen=True, eq=False)
class GuideStage(Stage):
    """The parameters of a guide, in unconstrained space, each number by itself."""

    model: Any
    guide: Any
    args: Any
    kwargs: Any
    constrained: Callable[[Any], dict[str, Array]]
    subsampled: bool

    @classmethod
    def prepared(cls, steps: int, model: Any, guide: Any, args: Any, kwargs: Any, seed: int) -> GuideStage:
        """The stage for this guide, once numpyro has looked at it."""
        svi = _svi(model, guide)
        svi.init(jax.random.key(seed), *args, **kwargs)  # an autoguide prepares itself, and svi its transforms
        trace = handlers.trace(handlers.seed(model, jax.random.key(seed))).get_trace(*args, **kwargs)
        return cls(steps, model, guide, args, kwargs, svi.constrain_fn, bool(subsampled_plates(trace)))

    def first(self, keys: Array) -> Any:
        """Where the starts begin: as `SVI.init` begins with each of these keys."""
        states = []
        for key in keys:
            guide = _fresh(self.guide)
            svi = _svi(self.model, guide)
            states.append(svi.optim.get_params(svi.init(key, *self.args, **self.kwargs).optim_state))
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)

    @override
    def begin(self, found: Any, key: Array) -> Walk:
        return Walk(found, per_coordinate.begin(found))

    @override
    def draw(self, state: Walk, key: Array) -> Array:
        return key

    @override
    def advance(self, state: Walk, drawn: Array) -> tuple[Walk, Gain]:
        loss, gradient = jax.value_and_grad(self._loss)(state.x, drawn)
        least_z = per_coordinate.SUBSAMPLED if self.subsampled else 0.0
        x, journey = per_coordinate.move(self.steps, state.journey, state.x, gradient, least_z=least_z)
        squares = sum(jnp.sum(jnp.abs(leaf) ** 2) for leaf in jax.tree.leaves(gradient))
        return Walk(x, journey), Gain(-loss, jnp.asarray(squares))

    @override
    def found(self, state: Walk) -> tuple[Any, Any]:
        return state.journey.average, state.x

    @property
    @override
    def score(self) -> Callable[[Any, Array], Array]:
        return self._log_weight

    @override
    def skipped(self, state: Walk) -> Array:
        return state.journey.skipped

    def sites(self, found: Any, key: Array) -> dict[str, Array]:
        """A draw of every site of the model, deterministic ones too."""
        guide = handlers.substitute(handlers.seed(self.guide, key), data=self.constrained(found))
        trace = handlers.trace(guide).get_trace(*self.args, **self.kwargs)
        model = handlers.replay(handlers.seed(self.model, key), trace)
        sites = handlers.trace(model).get_trace(*self.args, **self.kwargs)
        return {
            name: site["value"]
            for name, site in sites.items()
            if site["type"] == "deterministic" or (site["type"] == "sample" and not site["is_observed"])
        }

    def _log_weight(self, found: Any, key: Array) -> Array:
        return jnp.negative(self._loss(found, key))

    def _loss(self, params: Any, key: Array) -> Array:
        values = self.constrained(params)
        loss: Array = StickingELBO().loss(key, values, self.model, self.guide, *self.args, **self.kwargs)
        return loss


def subsampled_plates(trace: Any) -> set[str]:
    """The names of the plates of a trace that draw some of their data."""
    plates = {name: site["args"] for name, site in trace.items() if site["type"] == "plate"}
    return {name for name, (size, drawn) in plates.items() if drawn not in (None, size)}


def _svi(model: Any, guide: Any) -> Any:
    return SVI(model, guide, optim.SGD(0.0), StickingELBO())


def _fresh(guide: Any) -> Any:
    """An autoguide remembers where it began: a copy that does not begins elsewhere."""
    import copy

    if getattr(guide, "prototype_trace", None) is None:
        return guide
    fresh = copy.copy(guide)
    fresh.prototype_trace = None
    return fresh
