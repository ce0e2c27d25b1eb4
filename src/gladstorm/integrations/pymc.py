"""`fit`: variational inference for a PyMC model without a learning rate, as PyMC and ArviZ have posteriors."""

from __future__ import annotations

import math
import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np

from gladstorm.core.extras import needing_extras
from gladstorm.variational import fit_logdensity

with needing_extras("gladstorm.pymc"):
    import pymc
    from pymc.sampling.jax import get_jaxified_graph, get_jaxified_logp
    from pymc.util import get_default_varnames


def fit(model: pymc.Model | None = None, *, draws: int = 1000, **settings: Any) -> Any:
    """Fit a family of Gaussians to the posterior of a PyMC model, with nothing to tune, and draw from it.

    Args:
        model: The model; by default the one of the context.
        draws: How many draws.
        settings: Of `fit_logdensity`: steps, seed, family, starts, start, store and progress.

    Returns:
        A DataTree, before ArviZ 1 an InferenceData, with the names, dimensions and coordinates of the model. Its group
        `fit` has the ELBO, k-hat and the reasons to doubt the fit, which are warnings too.
    """
    model = pymc.modelcontext(model)
    if model.discrete_value_vars:
        raise ValueError(f"fit: model must have continuous variables only; got {model.discrete_value_vars[0]}.")
    log_density, values = get_jaxified_logp(model), model.value_vars
    variables = get_default_varnames(model.unobserved_value_vars, include_transformed=False)
    sites_of = get_jaxified_graph(inputs=values, outputs=variables)
    first = model.initial_point()
    shapes = [first[value.name].shape for value in values]
    ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()

    def unravel(z: Any) -> list[Any]:
        parts = jnp.split(z, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def transform(z: Any) -> dict[str, Any]:
        return dict(zip((each.name for each in variables), sites_of(*unravel(z)), strict=True))

    fit = fit_logdensity(lambda z: log_density(unravel(z)), ends[-1], transform=transform, **settings)
    for reason in (*fit.warnings, *([fit.khat_in_words] if fit.near is False else [])):
        warnings.warn(f"gladstorm.pymc.fit: {reason}", stacklevel=2)
    dims = {name: list(axes) for name, axes in model.named_vars_to_dims.items()}
    coords = {name: list(labels) for name, labels in model.coords.items() if labels is not None}
    return fit.to_arviz(fit.sample(draws), dims=dims, coords=coords)
