"""Where to look: probes at designed radii, in opposite directions, so that what is odd in the direction cancels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gladstorm.core.rules import COUNT, POSITIVE, Rule

RADII = (0.0, 0.25, 0.5, 1.0)  # of the largest
SHARES = (12, 8, 8, 20)  # of 48 probes: B is decided far out, the power between
FEWEST = 16  # probes
STEP = 0.05  # of the largest radius: how far apart the two points of a probe are
OWN_PATH = -1  # the draw of what lies on the path


_BUDGET = Rule(f"a whole number ≥ {FEWEST}", lambda v: COUNT.holds(v) & (v >= FEWEST))
_GROUPS = Rule("a whole number ≥ 2", lambda v: COUNT.holds(v) & (v >= 2))


def check(budget: int, groups: int, radius: float | None) -> None:
    """Raise a ValueError for the first number of a design that breaks its rule."""
    _BUDGET.require("diagnose", "budget", budget)
    _GROUPS.require("diagnose", "groups", groups)
    if radius is not None:
        POSITIVE.require("diagnose", "radius", radius)


class Place(NamedTuple):
    """A place for a probe: x⁰ + radius · sign · u, u the path's direction or a random one."""

    radius: float  # of the largest
    direction: str
    sign: int
    draw: int  # which random u; OWN_PATH for the path's
    pair: int  # the same for its opposite


def places(budget: int, path: bool, generator: np.random.Generator) -> list[Place]:
    """So many places, or one less where that is odd: pairs x⁰ ± r u, a third of them along the path, if there is one.

    In random order: what changes as the data goes by is not to be mistaken for the distance.

    >>> found = places(48, True, np.random.default_rng(0))
    >>> len(found), sum(place.radius == 1 for place in found), sum(place.direction == "along" for place in found)
    (48, 20, 8)
    """
    pairs = [max(2, round(budget * share / sum(SHARES) / 2)) for share in SHARES]
    pairs[-1] += budget // 2 - sum(pairs)
    found: list[Place] = []
    for radius, count in zip(RADII, pairs, strict=True):
        for pair in range(count):
            on_path = path and pair % 3 == 0
            names = ("start", "start") if radius == 0 else ("along", "against") if on_path else ("random", "random")
            draw = OWN_PATH if on_path else len(found)
            apart = radius == 0  # at the start there are no opposite sides
            found.append(Place(radius, names[0], 1, draw, len(found)))
            found.append(Place(radius, names[1], -1, draw, len(found) - (not apart)))
    return [found[i] for i in generator.permutation(len(found))]


def random_direction(shapes: list[tuple[int, ...]], seed: int, draw: int) -> list[np.ndarray]:
    """A random unit vector, in parts of these shapes: the same for the same numbers, in every framework."""
    generator = np.random.default_rng((seed, draw))
    normal = [generator.standard_normal(shape) for shape in shapes]
    length = sum(float(np.sum(part**2)) for part in normal) ** 0.5
    return [part / length for part in normal]
