"""What a probe hears of a training step: the gradient of every micro-batch, before it is averaged or clipped."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from typing_extensions import override

from gladstorm.diagnosis import spread
from gladstorm.torch.normalized_step import norm_of


class Sums:
    """‖g_j‖² of every backward j and Σ g_j, of gradients that come parameter by parameter."""

    def __init__(self, params: Sequence[Tensor]) -> None:
        self._squares: defaultdict[int, list[Tensor]] = defaultdict(list)  # of each backward, one for each parameter
        self._totals = [torch.zeros_like(p) for p in params]
        self._backwards = [0] * len(params)  # that a parameter has had

    def __len__(self) -> int:
        return len(self._squares)

    def add(self, i: int, gradient: Tensor) -> None:
        """Take the next gradient of parameter i."""
        self._squares[self._backwards[i]].append(norm_of([gradient]) ** 2)
        self._totals[i] += gradient
        self._backwards[i] += 1

    def spread(self, samples: int, scale: float = 1.0) -> tuple[int, float, float]:
        """How many g_j all processes have, the variance of one sample and ‖E g‖², both without bias (`spread`).

        The losses of a process' m micro-batches were divided by m and multiplied by the scale.
        """
        squares = [float(sum(each, start=torch.zeros(()))) for each in self._squares.values()]
        m = len(squares)
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            everybody: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(everybody, squares)
            for total in self._totals:
                dist.all_reduce(total)
            squares = [each for one in everybody for each in one]
        if len(squares) < 2:
            return len(squares), math.nan, math.nan
        unscale = (m / scale) ** 2
        total2 = norm_of(self._totals).item() ** 2
        return len(squares), *spread([unscale * each for each in squares], unscale * total2, samples)


class Pair(NamedTuple):
    """‖x⁺ − x‖ and, of how gradients change from x to x⁺, ℓ² and L²."""

    moved: float
    ell2: float
    L2: float


NO_PAIR = Pair(math.nan, math.nan, math.nan)  # one point only


class MicroBatches:
    """Hears the gradients of the micro-batches of a step, until it is told to `stop`."""

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.here = Sums(params)
        self.x = list(params)  # where they are evaluated
        self._hooks = [p.register_hook(self._listener(i)) for i, p in enumerate(params)]

    def stop(self) -> None:
        """Hear no more."""
        for hook in self._hooks:
            hook.remove()

    def pair(self, samples: int) -> Pair:  # noqa: ARG002 - there is no second point
        """What a second point tells about smoothness."""
        return NO_PAIR

    def _listener(self, i: int) -> Callable[[Tensor], None]:
        @torch.no_grad()
        def heard(gradient: Tensor) -> None:
            self._hear(i, gradient.to_dense())

        return heard

    def _hear(self, i: int, gradient: Tensor) -> None:
        self.here.add(i, gradient)


class TwoPoints(MicroBatches):
    """Hears NSTORM evaluate the micro-batches of a step at xᵏ and then, in the same order, at xᵏ⁺¹.

    Their gradients at xᵏ are kept in between: a copy of the parameters for each micro-batch.
    """

    def __init__(self, params: Sequence[Tensor]) -> None:
        super().__init__(params)
        self.change = Sums(params)
        self.x = [p.detach().clone() for p in params]
        self._params = params
        self._versions = [p._version for p in params]  # torch's count of changes in place
        self._kept: list[deque[Tensor]] = [deque() for _ in params]

    @override
    def pair(self, samples: int) -> Pair:
        moved = norm_of([p.detach() - x for p, x in zip(self._params, self.x, strict=True)]).item()
        if len(self.change) < len(self.here) or moved == 0:
            return NO_PAIR
        _, noise, square = self.change.spread(samples)
        return Pair(moved, (noise + square) / moved**2, square / moved**2)

    @override
    def _hear(self, i: int, gradient: Tensor) -> None:
        if self._params[i]._version == self._versions[i]:  # still at xᵏ
            self.here.add(i, gradient)
            self._kept[i].append(gradient.clone())
        elif self._kept[i]:
            self.change.add(i, gradient - self._kept[i].popleft())
