"""Any method with a step size that decays."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from gladstorm.core.parts import Numbers
from gladstorm.methods.method import Method, is_list, settings_of
from gladstorm.methods.schedules import LinearDecay, RunLength, Tunable

OF_THE_RUN = RunLength()


def with_decay(method: Method, power: Numbers = 1.0, *, horizon: Tunable = OF_THE_RUN) -> Method:
    """The method with its step size multiplied by (1 − k/T)^p at step k, so that it ends at 0.

    power: p ≥ 0: 1 is a linear decay, 0 none. A list is combined with all settings of the method: `power=[0, 1]` is
        every setting without a decay and with a linear one.
    horizon: T, in steps; the length of each run if not given.

    >>> from gladstorm import sgd
    >>> with_decay(sgd(0.1)).step
    Plain(gamma=LinearDecay(initial=0.1, horizon=RunLength(), power=1.0))
    >>> both = with_decay(sgd([0.1, 0.2]), [0, 1]).step.gamma
    >>> both.initial.tolist(), both.power.tolist()
    ([0.1, 0.1, 0.2, 0.2], [0.0, 1.0, 0.0, 1.0])
    """
    if np.ndim(power):
        power = np.asarray(power, np.float64)
        repeated = jax.tree.map(lambda number, each=power.size: _repeated(number, each), method, is_leaf=is_list)
        method, power = repeated, np.tile(power, settings_of(method))
    step = method.step.with_step_size(lambda gamma: LinearDecay(gamma, horizon, power))
    return dataclasses.replace(method, step=step)


def _repeated(number: Any, each: int) -> Any:
    return np.repeat(np.asarray(number, np.float64), each) if np.ndim(number) else number
