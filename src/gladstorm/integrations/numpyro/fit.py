"""`fit`: variational inference for a numpyro model without a learning rate."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.infer import init_to_uniform
from numpyro.infer.util import constrain_fn, initialize_model, potential_energy

from gladstorm.core.parts import Array
from gladstorm.core.rules import COUNT
from gladstorm.methods.norms import is_finite
from gladstorm.simulation.devices import programs_on_disk
from gladstorm.variational.conclusion import fit_gaussian
from gladstorm.variational.driver import CANDIDATES, STARTS
from gladstorm.variational.families import Family
from gladstorm.variational.fit import Fit
from gladstorm.variational.programs import Traced, program

Model = Callable[..., Any]
ROWS = 1000  # of a subsample: below, its noise is seen in the fit


@programs_on_disk()
def fit(
    model: Model,
    *args: Any,
    steps: int = 10_000,
    seed: int = 0,
    guide: Any = None,
    starts: int = STARTS,
    init: Any = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Fit:
    """Fit a guide to the posterior of a numpyro model, with nothing to tune.

    Args:
        model: The model.
        args: What it is called with. An argument that has the name of one of `fit` is given by `functools.partial`.
        steps: The number of steps of every start, each with one gradient.
        seed: The same seed gives the same bits.
        guide: `MeanField()`, `FullRank()`, `LowRank(rank)`, `Flow()`, or a guide of your own: an autoguide or a
            function. By default full rank where the run has steps enough for its d(d + 3)/2 numbers, and low rank
            elsewhere; both begin with a mean field.
        starts: How many runs to make at once. The best by ELBO is kept; starts that disagree are a warning. Four times
            as many begin, and the best after a tenth of the steps go on; with a guide of your own, all do.
        init: numpyro's strategy for where the locations begin, such as `init_to_median`. By default `init_to_uniform`.
        store: A folder. A fit that was interrupted goes on from its last finished block of steps.
        progress: Whether to show progress on standard error.
        kwargs: What the model is called with.

    Returns:
        The fit, with its ELBO, its warnings and its draws.

    >>> import numpyro
    >>> from numpyro.distributions import Normal
    >>> def model(data):
    ...     z = numpyro.sample("z", Normal(0.0, 10.0))
    ...     numpyro.sample("data", Normal(z, 1.0), obs=data)
    >>> found = fit(model, jnp.full(100, 3.0), steps=500, starts=2)
    >>> bool(abs(found.summary()["z"]["mean"] - 3.0) < 0.02), found.converged
    (True, True)
    """
    for name, value in (("steps", steps), ("starts", starts)):
        COUNT.whole("fit", name, value)
    settings = {"steps": steps, "seed": seed, "store": store, "progress": progress}
    args, kwargs = jax.tree.map(_on_device, (args, kwargs))
    if guide is None or isinstance(guide, Family):
        return _fit_family(model, guide, args, kwargs, init, settings | {"starts": starts})
    if not callable(guide):
        raise TypeError(f"fit: guide must be a family such as MeanField(), a guide or None; got {guide!r}.")
    from gladstorm.integrations.numpyro.guide import fit_guide

    return fit_guide(model, guide, args, kwargs, starts, settings)


def _on_device(value: Any) -> Any:
    """Return an array of NumPy as one of JAX: a subsample of it may be taken inside a compiled program."""
    return jnp.asarray(value) if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" else value


def _fit_family(
    model: Model, family: Family | None, args: Any, kwargs: Any, init: Any, settings: dict[str, Any]
) -> Fit:
    strategy = init_to_uniform if init is None else init
    initialize = partial(initialize_model, model=model, init_strategy=strategy, model_args=args, model_kwargs=kwargs)
    begin = program(_keys, CANDIDATES * settings["starts"], quick=True)
    keys = np.asarray(begin(np.array([0, settings["seed"] % 2**32], np.uint32)))
    info, first_point = _prepared(initialize, keys[0])
    if not info.param_info.z:
        raise ValueError("fit: model must have a latent variable; got one whose sample sites are all observed.")
    plates = _subsampled(info.model_trace)
    zeros = {name: np.zeros(each.shape, each.dtype) for name, each in info.param_info.z.items()}
    first, unravel = ravel_pytree(zeros)

    def log_density(z: Array, data_key: Array) -> Array:
        if not plates:
            return jnp.negative(info.potential_fn(unravel(z)))
        seeded = handlers.seed(model, jax.random.wrap_key_data(data_key))
        return jnp.negative(potential_energy(seeded, args, kwargs, unravel(z)))

    def transform(z: Array) -> dict[str, Array]:
        if not plates:
            return dict(info.postprocess_fn(unravel(z)))
        return dict(constrain_fn(handlers.seed(model, jax.random.wrap_key_data(keys[0])), args, kwargs, unravel(z)))

    def on_all_data(z: Array) -> Array:
        seeded = handlers.seed(_with_all_data(model, plates), jax.random.wrap_key_data(keys[0]))
        return jnp.negative(potential_energy(seeded, args, kwargs, unravel(z)))

    density = Traced(log_density, first, keys[0])
    try:
        whole = Traced(on_all_data, first) if plates else None
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"fit: model must be given all data and draw the rows of its plate {min(plates)!r} from them, as in "
            f"obs=data[rows]; with all rows, {error}"
        ) from error
    sites = [[name, list(np.shape(value))] for name, value in sorted(zeros.items())]
    points = _first_points(initialize, first_point, keys[1:])
    found = fit_gaussian(density, family, points, transform, **settings, sites=sites, on_all_data=whole)
    few = [
        f"Subsamples of {drawn} rows are noisy: deviations may be off by a quarter, and means along a valley by more. "
        f"Take subsample_size={ROWS} or more in the plate {name!r}; a step takes hardly longer."
        for name, (size, drawn) in plates.items()
        if drawn < ROWS < size
    ]
    return replace(found, warnings=(*found.warnings, *few))


def _keys(starts: int, seed: Array) -> Array:
    """Return a key of the model, and one for each start."""
    key = jax.random.wrap_key_data(seed)
    return jnp.stack([seed, *jax.random.key_data(jax.random.split(key, starts))])


def _prepared(initialize: Callable[..., Any], key: np.ndarray) -> tuple[Any, Traced]:
    """Return what numpyro knows of the model, and a function of a key: a first point, and if its gradient is finite.

    The model is traced for both at once; run step by step, every operation would be compiled.
    """
    infos: list[Any] = []

    def first(key: Array) -> tuple[Array, Array]:
        infos.append(initialize(jax.random.wrap_key_data(key)))
        z, potential, gradient = infos[0].param_info
        return ravel_pytree(z)[0], is_finite((potential, gradient))

    try:
        first_point = Traced(first, key, quick=True)
    except ImportError as error:  # numpyro asks for funsor, which sums discrete sites out
        raise ValueError(
            "fit: model must have continuous latent variables only; got a discrete one. If it is data, give it as "
            "obs=…, and call fit with it; otherwise sum it out of the model by hand."
        ) from error
    if any(site["type"] in ("param", "mutable") for site in infos[0].model_trace.values()):
        return initialize(jax.random.wrap_key_data(jnp.asarray(key))), first_point  # values are part of the density
    return infos[0], first_point


def _first_points(initialize: Callable[..., Any], first_point: Traced, keys: np.ndarray) -> np.ndarray:
    """Return where the starts begin: at points with a finite gradient."""
    points, finite = first_point.over(keys)
    for key in keys[~finite]:
        initialize(jax.random.wrap_key_data(jnp.asarray(key)))  # whose error says which site
    return np.asarray(points)


def _with_all_data(model: Model, plates: dict[str, tuple[int, int]]) -> Model:
    """Return the model with all rows of its plates in place of a subsample."""
    rows = {name: jnp.arange(size) for name, (size, _) in plates.items()}

    def whole(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings(), handlers.substitute(data=rows):
            warnings.filterwarnings("ignore", message="subsample_size does not match")
            return model(*args, **kwargs)

    return whole


def _subsampled(trace: Any) -> dict[str, tuple[int, int]]:
    """Return the plates that draw some of the data; refuse a latent variable for every datum, which needs a guide."""
    plates = subsampled_plates(trace)
    for name, site in trace.items():
        latent = site["type"] == "sample" and not site["is_observed"]
        inside = {frame.name for frame in site.get("cond_indep_stack", ())} & plates.keys()
        if latent and inside:
            raise ValueError(
                f"fit: guide must be one of yours, such as AutoNormal(model), for a model with a latent variable in a "
                f"subsampled plate; got the variable {name!r} in {sorted(inside)[0]!r}."
            )
    return plates


def subsampled_plates(trace: Any) -> dict[str, tuple[int, int]]:
    """Return the plates of a trace that draw some of their data: how many there are, and how many are drawn."""
    plates = {name: site["args"] for name, site in trace.items() if site["type"] == "plate"}
    return {name: (size, drawn) for name, (size, drawn) in plates.items() if drawn not in (None, size)}
