"""How many runs lie side by side, and on which devices: from numbers alone.

One rule: as many runs advance together as the caches hold of a cheap problem, and as a matrix product has columns where
products decide the cost. `split_into_tasks` cuts a sweep into tasks of about two seconds, `lay_out` cuts a task into
chunks, each advanced by one call. The layout changes a run by rounding only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

CHEAP_BYTES = 100_000  # an oracle with no more data is cheap: something else than products decides its cost
RUNS = 96  # of a cheap problem side by side: more leave the first caches
# Of up to so many seeds of a cheap problem, configurations lie in such multiples: fewer than 64 runs cost as much as
# 64, and sweeps of one shape share a program.
MULTIPLES = {4: 16, 8: 8}
COLUMNS = 32  # of a device's matrix product: more leave the second cache
TASK_SECONDS = 2.0  # on all cores: losing a task does not hurt, and keeping or sending one costs little beside it
TASK_BYTES = 50_000_000  # of instances that a task holds
# Seconds that a run takes for a step, on one core: always, per entry of x, and per byte of the oracle's data.
STEP_SECONDS, ENTRY_SECONDS, BYTE_SECONDS = 1e-7, 1e-8, 8e-12


class Sizes(NamedTuple):
    """Numbers that decide the layout of some runs."""

    structures: tuple[Hashable, ...]  # of every configuration: those of one structure can be stacked
    seeds: int
    devices: int
    oracle_bytes: int
    oracle_per_seed: bool
    padded_seeds: int | None = None  # as many seeds as chunks are shaped for, if other tasks of this kind have more

    @property
    def cheap(self) -> bool:
        """Whether something else than matrix products decides the cost."""
        return self.oracle_bytes <= CHEAP_BYTES


class Selection(NamedTuple):
    """The runs of a sweep that a task has."""

    configurations: tuple[int, ...]  # indices of the sweep's configurations
    seeds: range  # indices of the sweep's seeds
    padded_seeds: int  # how many seeds the tasks with these configurations have, but for the last


class Chunk(NamedTuple):
    """Runs that a program advances together: stacks of configurations × seeds, the last of each repeated to pad."""

    stacks: tuple[tuple[int, ...], ...]  # indices of configurations, those of one structure together
    sizes: tuple[int, ...]  # of each stack, without padding
    seeds: tuple[int, ...]  # indices of seeds
    seed_count: int  # without padding
    devices: int
    cut: Literal["seeds", "configurations"]  # the axis that the devices share

    @property
    def runs(self) -> int:
        """Number of runs, padding included."""
        return len(self.seeds) * sum(map(len, self.stacks))


def split_into_tasks(sizes: Sizes, steps: int, dim: int) -> list[Selection]:
    """The tasks of a sweep of so many steps: every configuration on every seed once.

    They depend on the number of devices only where there are more than two, so that a job begun on a laptop's cores is
    found again by the workers of a small cluster.

    >>> sizes = Sizes(("sgd",) * 10, seeds=100, devices=2, oracle_bytes=100, oracle_per_seed=False)
    >>> [len(task.seeds) for task in split_into_tasks(sizes, steps=100_000, dim=1)]
    [36, 36, 28]
    """
    sizes = sizes._replace(devices=max(2, sizes.devices))
    a_run = steps * (STEP_SECONDS + dim * ENTRY_SECONDS + sizes.oracle_bytes * BYTE_SECONDS)
    runs = TASK_SECONDS * sizes.devices / max(a_run, 1e-9)  # of a task
    selections = []
    for stacks in _programs(sizes, max(RUNS, int(runs))):
        rows = tuple(index for stack in stacks for index in stack)
        at_once = _seeds_at_once(sizes, len(rows))
        most = min(runs / len(rows), TASK_BYTES / sizes.oracle_bytes if sizes.oracle_per_seed else runs, sizes.seeds)
        tasks = -(-sizes.seeds // max(min(at_once, sizes.seeds), int(most)))
        size = min(sizes.seeds, _up_to(-(-sizes.seeds // tasks), min(at_once, sizes.seeds)))  # of whole chunks
        for first in range(0, sizes.seeds, size):
            selections.append(Selection(rows, range(first, min(first + size, sizes.seeds)), size))
    return selections


def lay_out(sizes: Sizes) -> list[Chunk]:
    """The chunks in which some runs are simulated, one after the other; those with the same stacks share a program.

    >>> sizes = Sizes(("storm", "storm", "sgd"), seeds=5, devices=2, oracle_bytes=10**7, oracle_per_seed=False)
    >>> [(chunk.stacks, chunk.seeds, chunk.cut) for chunk in lay_out(sizes)]
    [(((0, 1), (2, 2)), (0, 1, 2, 3, 4, 0, 1, 2), 'seeds')]
    """
    chunks = []
    for stacks in _programs(sizes, RUNS):
        seeds = sizes.padded_seeds or sizes.seeds
        size = -(-seeds // -(-seeds // min(seeds, _seeds_at_once(sizes, sum(map(len, stacks))))))
        for first in range(0, sizes.seeds, size):
            chunks.append(_chunk(sizes, stacks, first, size))
    return chunks


def _programs(sizes: Sizes, most: int) -> list[list[list[int]]]:
    """Configurations that share a program: in each program some stacks, in each stack those of one structure.

    Where products decide the cost, as many configurations share one as fill its columns; where they do not, every
    structure has a program of its own, which later sweeps find compiled.
    """
    stacks: dict[Hashable, list[int]] = {}
    for index, structure in enumerate(sizes.structures):
        stacks.setdefault(structure, []).append(index)
    if sizes.cheap:
        return [[few] for stack in stacks.values() for few in _evenly(stack, most)]
    columns = COLUMNS * (1 if sizes.oracle_per_seed else sizes.devices)
    programs: list[list[list[int]]] = [[]]
    for stack in stacks.values():
        for first in range(0, len(stack), columns):
            few = stack[first : first + columns]
            if sum(map(len, programs[-1])) + len(few) > columns:
                programs.append([])
            programs[-1].append(few)
    return programs


def _evenly(stack: list[int], most: int) -> list[list[int]]:
    parts = -(-len(stack) // most)
    return [stack[len(stack) * i // parts : len(stack) * (i + 1) // parts] for i in range(parts)]


def _seeds_at_once(sizes: Sizes, configurations: int) -> int:
    """How many seeds lie side by side with so many configurations."""
    if sizes.cheap:
        return max(1, RUNS // configurations)
    if sizes.oracle_per_seed:  # the data of several seeds would compete for a device's cache
        return sizes.devices
    return max(1, COLUMNS * sizes.devices // _power(configurations))


def _chunk(sizes: Sizes, stacks: Sequence[Sequence[int]], first: int, size: int) -> Chunk:
    """A chunk of stacks on `size` seeds: each device has equal work, and a product has a power of two as columns."""
    configurations = sum(map(len, stacks))
    devices = min(sizes.devices, max(size, configurations))
    by_seed = size >= devices
    over_seeds, over_rows = (devices, 1) if by_seed else (1, devices)
    least = next((multiple for few, multiple in MULTIPLES.items() if sizes.cheap and size <= few), 1)
    widths = [_up_to(_up_to(len(stack), least), over_rows) for stack in stacks]
    seeds = _up_to(size, over_seeds)
    if not sizes.cheap:
        widths[-1] += over_rows * _power(-(-sum(widths) // over_rows)) - sum(widths)
        seeds = seeds if sizes.oracle_per_seed else over_seeds * _power(seeds // over_seeds)
    return Chunk(
        stacks=tuple(tuple(s[i % len(s)] for i in range(width)) for s, width in zip(stacks, widths, strict=True)),
        sizes=tuple(map(len, stacks)),
        seeds=tuple((first + i) % sizes.seeds for i in range(seeds)),
        seed_count=min(size, sizes.seeds - first),
        devices=devices,
        cut="seeds" if by_seed else "configurations",
    )


def _power(number: int) -> int:
    """The next power of two, from a number on."""
    return 1 << (number - 1).bit_length()


def _up_to(count: int, multiple: int) -> int:
    """The next multiple of a number, from a count on."""
    return -(-count // multiple) * multiple
