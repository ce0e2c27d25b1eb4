"""Steps by layer of a length that suits all networks and falls linearly to 0: the part of `Untuned` for `by_layer`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from gladstorm.core import equations
from gladstorm.torch import norms
from gladstorm.torch.momentum import MomentumOptimizer
from gladstorm.torch.norms import widest
from gladstorm.torch.unit_steps import UNIT_STEPS


class ScheduledOptimizer(MomentumOptimizer):
    """x ← (1 − Lλ) x − L s d(v), L = lr · 0.02 · max{1 − k/K, 1/(k + 1)}, for groups that name a norm.

    v is the mean of gradients with momentum 0.9, K the horizon, and k, the steps before this one, a tensor
    `state[p]["step"]` that all these parameters share.
    """

    _norms = (None, *UNIT_STEPS)

    @property
    def horizon(self) -> int:
        """The number of steps of the run, which all groups share."""
        horizon: int = self.param_groups[0]["horizon"]
        return horizon

    @override
    def _state_dtype(self, p: Tensor, name: str) -> torch.dtype:
        return widest(p.device) if name == "step" else super()._state_dtype(p, name)

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        if clocked := self._having("step"):
            self._share("step", self.state[clocked[0]]["step"], clocked)

    def _in_groups(self, *, by_layer: bool) -> list[Tensor]:
        """Parameters of the groups that name a norm, or of the others."""
        return [p for group in self.param_groups if (group["norm"] is not None) is by_layer for p in group["params"]]

    def _having(self, name: str) -> list[Tensor]:
        """The parameters whose state has this tensor."""
        return [p for p in self._all_params() if name in self.state.get(p, ())]

    def _share(self, name: str, value: Tensor, params: list[Tensor]) -> list[Tensor]:
        """Give all parameters of a device the same tensor, and return one for each device."""
        on = {device: value.to(device) for device in dict.fromkeys(p.device for p in params)}
        for p in params:
            self.state[p][name] = on[p.device]
        return list(on.values())

    def _warn_past_horizon(self, k: float) -> None:
        if k == self.horizon:
            warnings.warn(
                f"{self._name}: horizon={self.horizon} steps were taken; further ones only become shorter.",
                stacklevel=4,
            )

    def _step_by_layer(self, params: list[Tensor], *, initial: bool) -> None:
        """Move parameters whose groups name a norm; if initial, only create the state, all 0."""
        self._drop_empty_state()
        clocked = self._having("step")
        count = self.state[clocked[0]]["step"] if clocked else params[0].new_zeros((), dtype=widest(params[0].device))
        counts = self._share("step", count, [*clocked, *params])
        self._start_estimates(params)
        if initial:
            self._state_is_empty = True
            return
        blocks = self._blocks("momentum_buffer")
        self._average_gradients_into(blocks, equations.LAYER_MOMENTUM)
        if norms.readable(count):
            k = count.item()
            self._warn_past_horizon(k)
            self._move(blocks, float(equations.layer_length(k, self.horizon, np)))
        else:
            self._move(blocks, equations.layer_length(count, self.horizon, torch))
        for one in counts:
            one.add_(1)
