"""Experiments: probes at designed radii, in opposite directions, so that what is odd in the direction cancels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from gladstorm.core.rules import COUNT, POSITIVE, Rule
from gladstorm.diagnosis.finding import ESTIMATED, NO_GROWTH
from gladstorm.diagnosis.growth import constants
from gladstorm.diagnosis.probes import Probe, Probes
from gladstorm.diagnosis.resampling import generator_of
from gladstorm.jobs.progress import log

RADII = (0.0, 0.25, 0.5, 1.0)  # of the largest
SHARES = (12, 8, 8, 20)  # of 48 probes: B is decided far out, the power between
FEWEST = 16  # probes
STEP = 0.05  # of the largest radius: how far apart the two points of a probe are
HELD = 8  # mini-batches, the first, over which the loss of a trial is a mean
OWN_PATH = -1  # the draw of what lies on the path
NEAREST, FARTHEST = 0.25, 16.0  # the radii to search between, in lengths of x⁰
SEARCH, MEASURE = 8, 24  # probes to look at a radius, and to measure there
SETTLED = 48  # probes before a verdict counts
CLEAR = 1.5  # B r over G, to measure there: at 1 the noise has doubled

T = TypeVar("T")

_BUDGET = Rule(f"a whole number ≥ {FEWEST}", lambda v: COUNT.holds(v) & (v >= FEWEST))
_GROUPS = Rule("a whole number ≥ 2", lambda v: COUNT.holds(v) & (v >= 2))


def check(budget: int, groups: int, radius: float | None) -> None:
    """Raise a ValueError for the first number of a design that breaks its rule."""
    _BUDGET.require("diagnose", "budget", budget)
    _GROUPS.require("diagnose", "groups", groups)
    if radius is not None:
        POSITIVE.require("diagnose", "radius", radius)


class NotFinite(ValueError):
    """A loss or a gradient is infinite or not a number."""


def take_probes(
    take: Callable[[Place, float], Probe],
    budget: int,
    *,
    path: bool,
    radius: float | None,
    size: float,
    seed: int,
) -> list[Probe]:
    """Take probes at one radius or, where none is given, at radii that double until it is decided whether noise grows.

    The search starts at a quarter of the length of x⁰. At each radius a few probes are compared with those at the
    start. Where B r seems to be 1.5 G or more, others are taken until B is estimated; if that is nowhere up to sixteen
    times the length of x⁰, or up to where the loss is finite, they are taken there until growth is excluded.

    Args:
        take: Takes the probe at a place, with this largest radius.
        budget: The most probes to take.
        path: Whether there is a path.
        radius: How far from x⁰ to look; by default found by the search.
        size: The length of x⁰, the unit of the search.
        seed: The seed of the order of the probes, and of the resamples behind a verdict.
    """
    generator = np.random.default_rng(seed)
    if radius is not None:
        log(f"diagnose: computes {2 * budget} gradients of mini-batches, two for each of {budget} probes.")
        return [take(place, radius) for place in places(budget, path, generator)]
    if not 0 < size < math.inf:
        raise ValueError(f"diagnose: radius must be given where the parameters are 0 or not finite; got {size}.")
    log(
        f"diagnose: computes at most {2 * budget} gradients of mini-batches, two for each of {budget} probes; fewer if "
        "it can tell sooner whether the noise grows."
    )
    rows: list[Probe] = []
    reach, farthest, doubled = NEAREST * size, FARTHEST * size, False
    while len(rows) < budget:
        design = places(MEASURE, False, generator) if doubled or reach >= farthest else _search(generator)
        before = len(rows)
        try:
            for place in design[: budget - before]:
                moved_on = place._replace(pair=place.pair + before, draw=place.draw + before)
                rows.append(take(moved_on, reach))
        except NotFinite:
            if reach <= NEAREST * size:
                raise
            rows = [row for row in rows if row.distance < 0.75 * reach]
            reach = farthest = reach / 2
            continue
        G, B = constants(Probes.of(rows), generator_of(seed, "B"))  # as in the report
        if len(rows) >= SETTLED and B.verdict in (ESTIMATED, NO_GROWTH if reach >= farthest else ESTIMATED):
            break
        doubled = (B.estimate or 0.0) * reach >= CLEAR * (G.estimate or math.inf)
        if not doubled:
            reach = min(2 * reach, farthest)
    return rows


def _search(generator: np.random.Generator) -> list[Place]:
    """Two places at the start and pairs x⁰ ± r u at one radius, in random order."""
    design = [Place(0.0, "start", sign, pair, pair) for pair, sign in enumerate((1, -1))]
    for pair in range(2, SEARCH, 2):
        design += [Place(1.0, "random", sign, pair, pair) for sign in (1, -1)]
    return [design[i] for i in generator.permutation(len(design))]


def usable_batches(
    batches: Iterable[T], count: int, usable: Callable[[T], bool], needs: str, owner: str = "diagnose"
) -> Iterator[T]:
    """Yield so many usable mini-batches, from as many passes as it takes; a ValueError if a pass gives none."""
    number = skipped = 0
    while True:
        before = number
        for batch in batches:
            if not usable(batch):
                skipped += 1
                continue
            yield batch
            number += 1
            if number == count:
                return
        if number == before:
            raise ValueError(
                f"{owner}: mini-batches must have {needs}; got {number} of {count} and {skipped} that have not. Give "
                "larger ones, fewer groups, or data that can be read again."
            )


def refuse_sum(name: str, whole: float, mean: float, groups: int) -> None:
    """Refuse a loss that is a sum over samples, whose noise would seem to be that of another batch size."""
    if abs(whole - groups * mean) < 0.1 * abs(whole - mean):
        raise ValueError(
            f"diagnose: {name} must return the mean over the samples of a mini-batch; got their sum, {whole:.4g} for "
            f"all and {mean:.4g} for one of {groups} groups."
        )


class Place(NamedTuple):
    """A place for a probe: x⁰ + radius · sign · u, u the path's direction or a random one."""

    radius: float  # of the largest
    direction: str
    sign: int
    draw: int  # which random u; OWN_PATH for the path's
    pair: int  # the same for its opposite


def places(budget: int, path: bool, generator: np.random.Generator) -> list[Place]:
    """List so many places, or one less where that is odd: pairs x⁰ ± r u, a third of them along the path, if any.

    In random order: what changes as the data goes by is not to be mistaken for the distance.

    >>> design = places(48, True, np.random.default_rng(0))
    >>> len(design), sum(place.radius == 1 for place in design), sum(place.direction == "along" for place in design)
    (48, 20, 8)
    """
    pairs = [max(2, round(budget * share / sum(SHARES) / 2)) for share in SHARES]
    pairs[-1] += budget // 2 - sum(pairs)
    design: list[Place] = []
    for radius, count in zip(RADII, pairs, strict=True):
        for pair in range(count):
            on_path = path and pair % 3 == 0
            names = ("start", "start") if radius == 0 else ("along", "against") if on_path else ("random", "random")
            draw = OWN_PATH if on_path else len(design)
            apart = radius == 0  # at the start there are no opposite sides
            design.append(Place(radius, names[0], 1, draw, len(design)))
            design.append(Place(radius, names[1], -1, draw, len(design) - (not apart)))
    return [design[i] for i in generator.permutation(len(design))]


def random_direction(shapes: list[tuple[int, ...]], seed: int, draw: int) -> list[np.ndarray]:
    """A random unit vector, in parts of these shapes: the same for the same numbers, in every framework."""
    generator = np.random.default_rng((seed, draw))
    normal = [generator.standard_normal(shape) for shape in shapes]
    length = sum(float(np.sum(part**2)) for part in normal) ** 0.5
    return [part / length for part in normal]
