"""Starts that ended apart: groups of them, what each weighs, and their mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gladstorm.variational.families import Mixture

if TYPE_CHECKING:
    from gladstorm.variational.driver import Starts
    from gladstorm.variational.programs import Traced

APART = 3.0  # standard deviations of the difference of two means, in their farthest coordinate
DIP = 2.0  # nats: how far the density falls between two modes
LEAST_WEIGHT = 0.01
BETWEEN = 30  # points on the way from one mean to another


@dataclass(frozen=True)
class Group:
    """Starts that ended at the same place."""

    size: int  #: how many starts
    elbo: float  #: of the best of them
    weight: float  #: its share, by exp(ELBO): what a mode has of the posterior, where q fits each mode
    location: tuple[float, ...]  #: the mean of q, in unconstrained space
    distance: float  #: from the first group, in standard deviations of the farthest coordinate


@np.errstate(all="ignore")  # a density without an integral may be fitted by a q whose variance is not finite
def groups(starts: Starts, density: Traced) -> tuple[tuple[Group, ...], Mixture]:
    """Return groups of the starts that have a hundredth of the weight or more, the best first, and their mixture.

    Two starts are apart if their means are, and the density falls on the way from one to the other: along a valley it
    does not.
    """
    elbos = starts.elbos[:, -1]
    together: list[list[int]] = []
    for start in np.argsort(-elbos, kind="stable")[: np.isfinite(elbos).sum()]:
        home = next((each for each in together if not _apart(starts, each[0], start, density)), None)
        if home is not None:
            home.append(start)
        elif not together or elbos[start] > elbos[starts.best] + math.log(LEAST_WEIGHT):
            together.append([start])
    if not together:
        return (), Mixture((), np.zeros(0))
    best = [each[0] for each in together]
    shares = np.exp(elbos[best] - elbos[best[0]])
    shares = shares / shares.sum()
    some = tuple(
        Group(
            len(each),
            float(elbos[each[0]]),
            float(share),
            tuple(starts.member(each[0]).loc.tolist()),
            0.0 if each is together[0] else _distance(starts.member(best[0]), starts.member(each[0])),
        )
        for each, share in zip(together, shares, strict=True)
    )
    return some, Mixture(tuple(starts.member(start) for start in best), np.log(shares))


def in_words(some: tuple[Group, ...]) -> tuple[str, ...]:
    """Warn of starts that ended apart, and say what to do."""
    if len(some) < 2:
        return ()

    def listed(form: str, values: Any) -> str:
        *first, last = (format(value, form) for value in values)
        return f"{', '.join(first)} and {last}" if first else last

    sizes, elbos = listed("", [each.size for each in some]), listed(".2f", [each.elbo for each in some])
    weights, away = listed(".2f", [each.weight for each in some]), listed(".2g", [each.distance for each in some[1:]])
    return (
        f"The starts ended in {len(some)} places: {sizes} of them, with ELBOs of {elbos} and weights of {weights}, "
        f"{away} standard deviations from the first. The fit is the first place alone: fit.mixture() has all of them, "
        "and more starts may find others.",
    )


def _distance(one: Any, other: Any) -> float:
    return float(np.max(np.abs(one.loc - other.loc) / np.hypot(one.sds, other.sds)))


def _apart(starts: Starts, first: int, second: int, density: Traced) -> bool:
    one, other = starts.member(first), starts.member(second)
    if _distance(one, other) <= APART:
        return False
    way = one.loc + np.linspace(0, 1, BETWEEN)[:, None] * (other.loc - one.loc)
    level = density.over(way.astype(one.loc.dtype), np.zeros((BETWEEN, 2), np.uint32))
    return bool(not np.min(level) >= min(level[0], level[-1]) - DIP)
