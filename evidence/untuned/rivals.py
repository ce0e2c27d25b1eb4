"""Rivals of the untuned method: six families tuned for each problem and budget, seven untuned ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from gladstorm import Method, methods, nsgdm, nstorm, sgd
from gladstorm.methods.averages import ScheduleFreeAverage
from gladstorm.methods.estimators import Fresh
from gladstorm.methods.schedules import CosineDecay, LinearDecay
from gladstorm.methods.steps import FromOptax

OURS, LAST = "untuned", "untuned, last iterate"
SMALL, UNIT = np.geomspace(1e-5, 1, 11), np.geomspace(1e-4, 10, 11)
POWERS = (0.0, 1.0)  # of the decay: none, linear
LEVELS = (1.0, 10.0)  # at which gradients are clipped: twice as many settings
SCHEDULE_FREE = 0.0025  # Optax's default learning rate of Schedule-Free AdamW


def _adamw(rate: Any) -> Any:
    import optax

    return optax.adamw(rate, weight_decay=0.01)  # PyTorch's default


def _schedule_free(rate: Any) -> Any:
    import optax.contrib

    return optax.contrib.schedule_free_adamw(rate)


Settings = np.ndarray  # a row for each: step size, power of the decay, perhaps the level of clipping


def _rate(settings: Settings) -> LinearDecay:
    return LinearDecay(settings[:, 0], power=settings[:, 1])


def _grid(*columns: Any) -> Settings:
    return np.array(list(product(*columns)))


# For each family its settings, and the method with some of them.
TUNED: dict[str, tuple[Settings, Callable[[Settings], Method]]] = {
    "SGD": (_grid(SMALL, POWERS), lambda s: sgd(_rate(s))),
    "clipped SGD": (_grid(SMALL, POWERS, LEVELS), lambda s: methods.clipped_sgd(_rate(s), s[:, 2])),
    "Adam": (_grid(0.3 * UNIT, POWERS), lambda s: methods.adam(_rate(s))),
    "AdamW": (_grid(0.3 * UNIT, POWERS), lambda s: Method(Fresh(), FromOptax(_rate(s), _adamw))),
    "NSGDM": (_grid(UNIT, POWERS), lambda s: nsgdm(_rate(s), 0.1)),
    "NSTORM": (_grid(UNIT, POWERS), lambda s: nstorm(_rate(s), 0.1)),
}
TWO_GRADIENTS = ("NSTORM",)  # a step: half as many steps

COSINE = "Adam 1e-3, cosine"
UNTUNED: dict[str, Method] = {
    "DoG": methods.dog(),
    "DoWG": methods.dowg(),
    "Prodigy": methods.prodigy(),
    "D-Adaptation": methods.d_adaptation(),
    "Schedule-Free": Method(Fresh(), FromOptax(SCHEDULE_FREE, _schedule_free), average=ScheduleFreeAverage(0.9)),
    "MoMo": methods.momo(),
    COSINE: methods.adam(CosineDecay(1e-3)),
}
