"""Changes of an optimizer when each of its steps averages m times as many samples, and its course is to stay.

Two things are kept, both counted in samples: how far a small constant gradient moves x, and how long a momentum
remembers. Let B = tr Σ/‖∇f‖², the critical batch in units of the batch before (∞ where noise is all there is). Then the
mean square of a direction that lets through a share s of the noise of a batch goes with 1 + Bs/m. So

    β' = β^m,   γ' = mγ √((1 + Bs'/m)/(1 + Bs))

where a step divides by the size of that direction: Adam's squares (s = 1), or a momentum that is normalized. Plain
momentum divides by nothing, so γ' = mγ. Decoupled decay keeps its share of a sample: γ'λ' = mγλ.

As in `core.equations`, numbers may be arrays of the library `xp`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gladstorm.core.equations import Floats

SHORTEST = 0.5  # the least β of a momentum that is not normalized: a shorter memory lets through too much noise


@dataclass(frozen=True)
class BatchScaling:
    """The numbers of an optimizer for steps on m times as many samples."""

    length: Any  #: γ'/γ, the factor of the learning rate
    momenta: tuple[Any, ...]  #: every β', in the optimizer's order
    squares: Any = 1.0  #: the factor of mean squares of gradients that are remembered
    decay: Any = 1.0  #: λ'/λ, the factor of a decoupled weight decay


def averaging(beta: float) -> float:
    """The share s of noise in the mean v ← βv + (1 − β)g.

    >>> averaging(0.9)
    0.05263157894736841
    """
    return (1 - beta) / (1 + beta)


def nesterov(beta: float) -> float:
    """The share s of noise in βv + (1 − β)g, where v has g in it already."""
    return (1 - beta) ** 2 * ((1 + beta) ** 2 + beta**4 / (1 - beta**2))


def lion(beta1: float, beta2: float) -> float:
    """The share s of noise in β₁v + (1 − β₁)g, where v is the mean of the gradients before with β₂."""
    return (1 - beta1) ** 2 + beta1**2 * averaging(beta2)


def for_momentum(factor: Any, beta: Any, xp: Any = Floats) -> BatchScaling:
    """Numbers for v ← βv + (1 − β)g, x ← x − γv.

    >>> for_momentum(4, 0.9)
    BatchScaling(length=4, momenta=(0.6561,), squares=1.0, decay=1.0)
    """
    return BatchScaling(factor, (_remembered(beta, factor, xp),))


def for_squares(factor: Any, critical: Any, beta1: Any, beta2: Any, xp: Any = Floats) -> BatchScaling:
    """Numbers for Adam: a momentum with β₁, divided by the root of mean squares of gradients with β₂."""
    ratio = _grown(critical, 1 / factor, 1.0, xp)
    root = xp.sqrt(ratio)
    return BatchScaling(factor * root, (_remembered(beta1, factor, xp), beta2**factor), ratio, 1 / root)


def for_normalized(
    factor: Any, critical: Any, betas: tuple[Any, ...], share: Callable[..., Any] = averaging, xp: Any = Floats
) -> BatchScaling:
    """Numbers for x ← x − γ d(v) with d(v) of length 1 in some norm; `share` is that of noise in v, of all β.

    >>> round(for_normalized(4, float("inf"), (0.9,)).length, 3)
    3.973
    """
    after = tuple(beta**factor for beta in betas)
    root = xp.sqrt(_grown(critical, share(*after) / factor, share(*betas), xp))
    return BatchScaling(factor * root, after, 1.0, 1 / root)


def _remembered(beta: Any, factor: Any, xp: Any) -> Any:
    return xp.maximum(beta**factor, xp.minimum(beta, SHORTEST))


def _grown(critical: Any, after: Any, before: Any, xp: Any) -> Any:
    """(1 + B after)/(1 + B before): by how much the mean square of a direction changes."""
    return xp.where(xp.isinf(critical), after / before, (1 + critical * after) / (1 + critical * before))
