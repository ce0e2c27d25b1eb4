"""Gradients of a step's micro-batches, recorded by hooks before they are averaged or clipped."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gladstorm.diagnosis import spread
from gladstorm.torch.batch_gradients import squared
from gladstorm.torch.norms import norm_of, plain, widest
from gladstorm.torch.options import processes


class GradientRecorder:
    """‖g_j‖² of every backward j and Σ g_j, heard parameter by parameter; if asked, also of every second j.

    FSDP2 takes the mean over processes in `backward`, which no hook hears: `reduced` gradients are given to `hear`.
    """

    def __init__(self, params: Sequence[Tensor], *, halves: bool = False, reduced: bool = False) -> None:
        self._params, self._processes = params, 1 if reduced else processes()
        self._squares: defaultdict[int, list[Tensor]] = defaultdict(list)  # of each backward, one for each parameter
        self.totals = [torch.zeros_like(p) for p in params]  # Σ g_j; after `spread`, of all processes
        self._half = [torch.zeros_like(p) for p in params] if halves else []  # Σ g_j over every second j
        self._backwards = [0] * len(params)  # that a parameter has had
        self._rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
        heard = [] if reduced else params
        self._hooks = [p.register_hook(partial(self._hear, i)) for i, p in enumerate(heard)]

    def stop(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()

    @torch.no_grad()
    def _hear(self, i: int, gradient: Tensor) -> None:
        """Take the next gradient of parameter i."""
        gradient = gradient.to_dense()
        # For one tensor cheaper than norm_of.
        length = torch.linalg.vector_norm(plain(gradient), dtype=widest(gradient.device))
        self._squares[self._backwards[i]].append(length**2)
        self.totals[i] += gradient
        if self._half and (self._backwards[i] + self._rank) % 2:
            self._half[i] += gradient
        self._backwards[i] += 1

    @torch.no_grad()
    def hear(self) -> None:
        """Take the mean gradients of all processes after a `backward`: what those of the parameters have grown by."""
        if all(p.grad is None for p in self._params):
            raise ValueError(
                "AutoBatch: gradients must be reduced in every micro-batch; got none after backward. Leave "
                "set_requires_gradient_sync on."
            )
        pairs = zip(self._params, self.totals, strict=True)
        grown = [torch.zeros_like(total) if p.grad is None else p.grad - total for p, total in pairs]
        self._squares[len(self._squares)] = [norm_of(grown) ** 2]
        for total, gradient in zip(self.totals, grown, strict=True):
            total += gradient

    def mean(self) -> list[Tensor]:
        """Σ g_j over the number of processes, after `spread`: the gradient of a step."""
        return [total / self._processes for total in self.totals]

    def spread(self, samples: int, scale: float = 1.0) -> tuple[int, float, float]:
        """How many g_j all processes have, the variance of one sample and ‖E g‖², both without bias (`spread`).

        The losses of a process' m micro-batches were divided by m and multiplied by the scale.
        """
        squares = [float(sum(by_parameter, start=torch.zeros(()))) for by_parameter in self._squares.values()]
        m = len(squares)
        if self._processes > 1:
            of_all: list[Any] = [None] * self._processes
            dist.all_gather_object(of_all, squares)
            for total in (*self.totals, *self._half):
                dist.all_reduce(total)
            squares = [square for of_process in of_all for square in of_process]
        if len(squares) < 2:
            return len(squares), math.nan, math.nan
        unscale = (m / scale) ** 2
        total2 = squared(norm_of(self.totals).item())
        return len(squares), *spread([unscale * square for square in squares], unscale * total2, samples)

    def half_means(self, scale: float = 1.0) -> tuple[list[Tensor], list[Tensor], float]:
        """Means over every second g_j and over the others, after `spread`; and the harmonic mean of how many they are.

        Their difference has the variance of one g_j times two over that.
        """
        m = len(self._squares)
        odd = sum((m + rank % 2) // 2 for rank in range(processes()))
        even = m * processes() - odd
        first = [m / scale / odd * half for half in self._half]
        second = [m / scale / even * (total - half) for total, half in zip(self.totals, self._half, strict=True)]
        return first, second, 2 * odd * even / (odd + even)

    def halves(self, scale: float = 1.0) -> tuple[float, float]:
        """The norms of `half_means`; NaN where they are of different numbers."""
        if not self._half or len(self._squares) * processes() % 2:
            return math.nan, math.nan
        first, second, _ = self.half_means(scale)
        return norm_of(first).item(), norm_of(second).item()
