"""Other explanations of the noise: a constant, the gradient, another power of the distance, another anchor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gladstorm.core.statistics import finite
from gladstorm.diagnosis.growth import POWERS
from gladstorm.diagnosis.probes import Probes
from gladstorm.diagnosis.resampling import Strata, fit_noise

FOLDS = 10
TELLS = 2.0  # standard errors by which a model must predict better to be called better


@dataclass(frozen=True)
class Alternative:
    """Another model of the noise, and how much worse than B²r² + G² it predicts probes that were left out of its fit.

    `excess` is the mean over probes of the difference in half the gamma deviance. The model predicts better if
    excess < −2 error and worse if excess > 2 error; otherwise the data cannot tell.
    """

    model: str  #: what the variance depends on
    excess: float  #: how much worse it predicts
    error: float  #: the standard error of `excess`

    @property
    def verdict(self) -> str:
        """Whether it predicts better or worse, or the data cannot tell."""
        if abs(self.excess) <= TELLS * self.error:
            return "cannot tell"
        return "better" if self.excess < 0 else "worse"

    def as_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {"excess": finite(self.excess), "error": finite(self.error), "verdict": self.verdict}


def alternatives(probes: Probes, generator: np.random.Generator) -> list[Alternative]:
    """Every alternative, judged on ten parts of the probes, each predicted from the other nine.

    The gradient enters as its mean over probes of one distance: a single squared gradient norm is mostly error, which
    would hide its effect.
    """
    strata = Strata(probes.distance)
    if len(probes) < 2 * FOLDS or probes.radius == 0 or len(strata.sizes) < 2 or not probes.noise.any():
        return []
    s = probes.distance / probes.radius
    fold = _folds(strata, generator)
    reference = _losses([s**2], probes, strata, fold)[1]
    sign = np.where(probes.direction == "against", -1.0, np.where(probes.direction == "random", 0.0, 1.0))
    models: dict[str, list[list[np.ndarray]]] = {
        "constant": [[]],
        "σ² + c‖∇f‖²": [[np.maximum(strata.means(probes.gradient2), 0.0)]],
        "G² + c r^p": [[s**p] for p in POWERS[::8]],
    }
    if probes.has_path:
        models["anchored elsewhere"] = [[s**2, sign * s]]
    compared = []
    for name, candidates in models.items():
        excess = _chosen(candidates, probes, strata, fold) - reference
        compared.append(Alternative(name, float(excess.mean()), float(excess.std(ddof=1) / np.sqrt(len(excess)))))
    return compared


def _folds(strata: Strata, generator: np.random.Generator) -> np.ndarray:
    """The fold of each probe: every stratum is spread over all."""
    fold = np.empty(len(strata.label), int)
    for stratum in range(len(strata.sizes)):
        members = generator.permutation(np.flatnonzero(strata.label == stratum))
        fold[members] = (np.arange(len(members)) + stratum) % FOLDS
    return fold


def _chosen(candidates: list[list[np.ndarray]], probes: Probes, strata: Strata, fold: np.ndarray) -> np.ndarray:
    """The loss on what was left out, of the candidate that fits the rest best."""
    inside, outside = zip(*(_losses(columns, probes, strata, fold) for columns in candidates), strict=True)
    return np.asarray(np.stack(outside)[np.argmin(inside, axis=0)[fold], np.arange(len(probes))])


def _losses(extra: list[np.ndarray], probes: Probes, strata: Strata, fold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Losses: of each fold's fit, on what it was fitted to; of each probe, the loss where it was left out."""
    columns = np.stack([np.ones(len(probes)), *extra], axis=1)
    inside = (fold != np.arange(FOLDS)[:, None]).astype(float)
    weights = probes.groups - 1
    theta = fit_noise(columns, probes.noise, weights, inside, strata).values
    fitted = np.maximum(theta @ columns.T, 0.1 * strata.means(probes.noise) + 1e-9 * probes.noise.mean())
    loss = weights * (probes.noise / fitted + np.log(fitted))
    return (inside * loss).sum(axis=1), loss[fold, np.arange(len(probes))]
