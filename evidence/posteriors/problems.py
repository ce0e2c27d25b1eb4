"""A posterior as an optimizer sees it: a log density of unconstrained coordinates, and what its draws should be."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import initialize_model

from evidence.posteriors.models import DEVELOPMENT, SECOND, VALIDATION, Data, linear_regression, surgical
from evidence.posteriors.new_models import MADE, NEW, made_data

MODELS = VALIDATION | DEVELOPMENT
TRIES = 50  # of a start
_MADE = np.random.default_rng(0)
SMALL: dict[str, tuple[Callable[[Data], None], Data]] = {  # a trial needs no database
    "made-regression": (linear_regression, {"X": _MADE.normal(size=(30, 3)), "y": _MADE.normal(size=30)}),
    "made-hospitals": (surgical, {"n": np.full(4, 50.0), "r": _MADE.binomial(50, 0.2, 4).astype(float)}),
}


@dataclass(frozen=True, eq=False)
class PosteriorProblem:
    """A model with its data; float64 must be enabled where it is used."""

    name: str
    model: Callable[[Data], None]
    data: Data
    draws: dict[str, Any]  # reference draws by site, flat; empty if there are none
    dim: int = field(init=False)  # how many coordinates
    _made: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        made = initialize_model(jax.random.key(0), self.model, model_args=(self.data,))
        start, unravel = ravel_pytree(made.param_info.z)
        object.__setattr__(self, "dim", start.size)
        object.__setattr__(self, "_made", (made.potential_fn, made.postprocess_fn, unravel))

    def logdensity(self, z: Any) -> Any:
        """log p(z, data) of unconstrained z, in the order of the sites' names."""
        potential, _, unravel = self._made
        return -potential(unravel(z))

    def starts(self, seeds: Sequence[int]) -> Any:
        """Starts as numpyro has them, a row a seed: uniform in ± 2, the first draws of finite density and gradient."""

        def start(seed: Any) -> Any:
            key = jax.random.fold_in(jax.random.key(1), seed)
            candidates = jax.random.uniform(key, (TRIES, self.dim), minval=-2.0, maxval=2.0)
            value, slope = jax.vmap(jax.value_and_grad(self.logdensity))(candidates)
            return candidates[jnp.argmax(jnp.isfinite(value) & jnp.isfinite(slope).all(axis=1))]

        return np.asarray(jax.jit(jax.vmap(start))(np.asarray(seeds)))

    def sites(self, z: Any) -> dict[str, Any]:
        """Draws (n, d) as their sites and deterministic values have them, each (n, …)."""
        _, constrain, unravel = self._made
        return dict(jax.vmap(lambda each: constrain(unravel(each)))(z))

    def errors(self, sites: dict[str, Any]) -> dict[str, float] | None:
        """The largest |mean − mean| in reference sds and |log sd − log sd|; None without reference draws."""
        shared = sorted(sites.keys() & self.draws.keys())
        if not shared:
            return None
        ours = np.concatenate([np.asarray(sites[name]).reshape(len(sites[name]), -1) for name in shared], axis=1)
        theirs = np.concatenate([self.draws[name] for name in shared], axis=1)
        scale = theirs.std(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / scale
            scales = np.abs(np.log(ours.std(axis=0) / scale))
        return {"mean": float(means.max()), "log sd": float(scales.max())}


def made(name: str, database: Path | None) -> PosteriorProblem:
    """A posterior of the database, or one that comes with this study."""
    return PosteriorProblem(name, *source_of(name, database))


def source_of(name: str, database: Path | None) -> tuple[Callable[[Data], None], Data, dict[str, Any]]:
    """Return the model of a posterior, its data, and its reference draws by site, if there are any."""
    if name in MADE:
        return NEW[name], made_data(name), {}
    if database is None:
        return *SMALL[name], {}
    root = database / "posterior_database"
    about = json.loads((root / "posteriors" / f"{name}.json").read_text("utf-8"))
    content = _unzipped(root / "data" / "data" / f"{about['data_name']}.json.zip")
    data = {key: np.asarray(value, np.float64) for key, value in content.items()}
    path = root / "reference_posteriors" / "draws" / "draws" / f"{about.get('reference_posterior_name')}.json.zip"
    return (MODELS | SECOND | NEW)[name], data, _by_site(_unzipped(path)) if path.exists() else {}


def require_database(folder: Path | None) -> Path:
    """The folder if it is a clone of posteriordb; a ValueError says what to give."""
    if folder is None or not (folder / "posterior_database" / "posteriors").is_dir():
        raise ValueError(
            "posteriors: --posteriordb must be a clone of the public repository stan-dev/posteriordb, or give --quick "
            f"for a trial without it; got {None if folder is None else str(folder)!r}."
        )
    return folder


def _unzipped(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def _by_site(chains: list[dict[str, list[float]]]) -> dict[str, Any]:
    """Draws of all chains, (n, size) by site, from columns such as beta[1] and beta[2]."""
    sites: dict[str, list[Any]] = {}
    for column in chains[0]:  # the last index changes fastest in the orders of this study's sites, all vectors
        values = np.concatenate([np.asarray(chain[column]) for chain in chains])
        sites.setdefault(re.sub(r"\[.*", "", column), []).append(values)
    return {name: np.stack(columns, axis=1) for name, columns in sites.items()}
