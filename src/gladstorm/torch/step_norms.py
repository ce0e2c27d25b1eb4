"""Norms in which an optimizer's steps have length 1, and their duals, in which gradients and noise are measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gladstorm.core.equations import spectral_length
from gladstorm.diagnosis import spread
from gladstorm.torch.batch_gradients import squared
from gladstorm.torch.norms import inner_of, norm_of, plain, whole
from gladstorm.torch.unit_steps import UNIT_STEPS, matrices, unit_steps

# Parameter groups of a model, as `by_layer` makes them.
Norms = Callable[[torch.nn.Module], Iterable[dict[str, Any]]]
SQUARINGS = 5  # of xxᵀ: a spectral norm is then that of Schatten-64, at most 11 % longer for a thousand singular values


class LayerNoise(NamedTuple):
    """Noise of one sample's gradient in one tensor, by its own norm."""

    noise: float  #: V_*, the variance in the dual norm
    variance: float  #: tr Σ, the Euclidean one
    gradient2: float  #: ‖∇f‖_*², as far as mini-batches agree

    @property
    def critical_batch(self) -> float:
        """V_*/‖∇f‖_*²; infinite where mini-batches do not agree."""
        return self.noise / self.gradient2 if self.gradient2 > 0 else math.inf

    @property
    def tau(self) -> float:
        """√(V_*/tr Σ): how much this norm makes of the noise; tr C^½ of its covariance C, scaled to tr C = 1, but for
        a factor of 0.7 to 1 where noise is normal."""
        return math.sqrt(self.noise / self.variance) if self.variance > 0 else math.nan


class WholeNorm:
    """The Euclidean norm over all parameters, which is its own dual."""

    def __init__(self, params: Iterable[Tensor]) -> None:
        self.params = list(params)

    def length(self, xs: Sequence[Tensor]) -> float:
        """‖x‖ over all tensors."""
        return norm_of(xs).item()

    def unit(self, vs: Sequence[Tensor]) -> list[Tensor]:
        """v/‖v‖, of length 1."""
        length = self.length(vs)
        return [v / length for v in vs]

    def measure(self, gradients: Sequence[Sequence[Tensor]], samples: int) -> tuple[float, float]:
        """The variance of one sample's gradient and ‖∇f‖², without bias, from the gradients of groups of samples."""
        total = [torch.stack(each).sum(dim=0) for each in zip(*gradients, strict=True)]
        return spread([squared(self.length(each)) for each in gradients], squared(self.length(total)), samples)


class LayerNorms:
    """‖x‖ = max ‖x_l‖_l/s_l over tensors, and its dual ‖v‖_* = Σ s_l⟨v_l, d_l(v_l)⟩: norms and scales of groups.

    d_l is the unit step that the optimizer takes. The one of spectral steps, by Newton–Schulz, makes 0.68 to 1.21 of a
    singular value, and so ‖v‖_* may be off. Of m groups of n samples with gradients g_i and mean ḡ,

        V_* = n Σ ‖g_i − ḡ‖_*²/(m − 1),        ‖∇f‖_* ≈ mean of Σ s_l⟨d_l(Σ_{j≠i} g_j), g_i⟩ over i.

    V_* has no bias where noise is normal. The second is, in the mean, what a unit step on m − 1 groups lowers f by: at
    most ‖∇f‖_*, and close to it only once noise is small in each singular value or entry. So a critical batch size made
    of it is an upper end.

    >>> x = torch.nn.Parameter(torch.zeros(2))
    >>> norms = LayerNorms([{"params": [x], "norm": "sign", "scale": 0.5}])
    >>> norms.length([torch.tensor([1.0, -3.0])]), norms.dual([torch.tensor([1.0, -3.0])])
    (6.0, 2.0)
    """

    def __init__(self, groups: Iterable[dict[str, Any]], owner: str = "norms") -> None:
        self.params: list[Tensor] = []
        self._groups: list[tuple[slice, str, float, int]] = []
        for group in groups:
            if (norm := group.get("norm", "global")) not in UNIT_STEPS:
                raise ValueError(f"{owner}: norms of all groups must be of {', '.join(UNIT_STEPS)}; got {norm!r}.")
            params = [p[1] if isinstance(p, tuple) else p for p in group["params"]]
            first = len(self.params)
            self.params += [p for p in params if p.requires_grad]
            kind = norm, float(group.get("scale", 1.0)), int(group.get("stack", 1))
            self._groups.append((slice(first, len(self.params)), *kind))

    def length(self, xs: Sequence[Tensor]) -> float:
        """‖x‖, the number of steps of length 1 that it takes to go so far in a straight line."""
        return max(
            _length(xs[i], norm, stack) / scale
            for of_group, norm, scale, stack in self._groups
            for i in range(len(xs))[of_group]
        )

    def unit(self, vs: Sequence[Tensor]) -> list[Tensor]:
        """s d(v): a step that has length 1 in every tensor."""
        units: list[Tensor] = list(vs)
        for of_group, norm, scale, stack in self._groups:
            for indices, steps in unit_steps(vs[of_group], norm, stack):
                for i, step in zip(indices, steps, strict=True):
                    units[of_group.start + i] = scale * step
        return units

    def dual(self, vs: Sequence[Tensor]) -> float:
        """‖v‖_*, the dual norm."""
        return float(self._agreement(vs, vs).sum())

    def _agreement(self, us: Sequence[Tensor], vs: Sequence[Tensor]) -> np.ndarray:
        """s⟨d(u), v⟩ of every tensor."""
        return np.array([inner_of([v], [unit], 0.0) for unit, v in zip(self.unit(us), vs, strict=True)])

    def layers(self, gradients: Sequence[Sequence[Tensor]], samples: float) -> tuple[float, float, np.ndarray]:
        """V_* and ‖∇f‖_*², and a row (V_*, tr Σ, ‖∇f‖_*²) for every tensor."""
        m = len(gradients)
        total = [torch.stack(each).sum(dim=0) for each in zip(*gradients, strict=True)]
        noise, of_layers, agreement = 0.0, np.zeros((len(total), 2)), np.zeros(len(total))
        for g in gradients:
            away = [x - all_ / m for x, all_ in zip(g, total, strict=True)]
            lengths = self._agreement(away, away)
            noise += lengths.sum() ** 2
            of_layers += np.stack([lengths**2, [norm_of([each]).item() ** 2 for each in away]], axis=1)
            agreement += self._agreement([all_ - x for x, all_ in zip(g, total, strict=True)], g) / m
        factor, whole_ = samples / (m - 1), agreement.sum()
        rows = np.column_stack([factor * of_layers, agreement * np.abs(agreement)])
        return factor * noise, float(whole_ * abs(whole_)), rows

    def measure(self, gradients: Sequence[Sequence[Tensor]], samples: int) -> tuple[float, float]:
        """V_* and ‖∇f‖_*² from the gradients of groups of samples; the square has the sign of the agreement."""
        return self.layers(gradients, samples)[:2]


def norm_for(
    model: torch.nn.Module | None, norms: Norms | torch.optim.Optimizer | None, owner: str
) -> WholeNorm | LayerNorms:
    """The norm that distances and noise are measured in: Euclidean if not every group of an optimizer has another.

    Over the parameters of the model, if there is one, and otherwise over those of the optimizer.
    """
    if isinstance(norms, torch.optim.Optimizer):
        if all(group.get("norm") in UNIT_STEPS for group in norms.param_groups):
            return LayerNorms(norms.param_groups, owner)
        if model is None:
            return WholeNorm(p for group in norms.param_groups for p in group["params"] if p.requires_grad)
        norms = None
    assert model is not None  # given, if no optimizer is
    if norms is None:
        return WholeNorm(p for p in model.parameters() if p.requires_grad)
    return LayerNorms(norms(model), owner)


def _length(x: Tensor, norm: str, stack: int) -> float:
    """The norm of a tensor, whose unit ball the unit steps of this norm span."""
    if norm == "sign":
        return float(whole(x).abs().max())
    each = plain(matrices(whole(x), stack))
    if norm != "spectral":
        return float(torch.linalg.vector_norm(each, dim=-1 if norm == "rows" else -2).max())
    *_, m, n = each.shape
    power = each @ each.mT if m < n else each.mT @ each
    logarithm = torch.zeros(len(each), device=x.device)
    for squaring in range(SQUARINGS + 1):  # the logarithm of tr (xxᵀ)^32, over 64; divided out, so that none overflows
        trace = power.diagonal(dim1=-2, dim2=-1).sum(-1)
        logarithm = logarithm + trace.log() / 2 ** (squaring + 1)
        power = power / trace.where(trace > 0, 1)[:, None, None]
        power = power @ power
    return float(logarithm.exp().max()) / spectral_length(m, n)
