"""How the runs of a sweep are put together: which share a program, in which pieces, on which devices.

Only the cost depends on this. Every number here that is called measured is a ratio of times on two AVX-512 cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from gladstorm.engine import Grid
from gladstorm.methods import Method
from gladstorm.oracles import Oracle

MOST_COLUMNS = 32  # of a matrix product: more would leave the second cache
PRODUCT = {1: 1.0, 4: 1.25, 8: 2.0, 16: 2.8, MOST_COLUMNS: 5.1}  # measured cost by columns, that of one being 1
RAGGED = 0.25  # measured cost per column with other numbers of them
CHEAP_BYTES = 100_000  # an oracle with no more data than this is cheap to evaluate
WIDENED = 16  # axes are padded by fewer than this many runs per device
# A cheap problem's sweep of up to so many seeds has configurations in such multiples: fewer than 64 runs cost as much
# as 64, and sweeps of one shape share a program.
SMALL = {4: 16, 8: 8}
RUNS_AT_ONCE = 96  # of a cheap problem: more would leave the first caches, and cost 1.5 × as much each


def together(methods: dict[str, Method], oracle: Oracle, oracle_per_seed: bool) -> list[list[list[str]]]:
    """Which labels share a program: in each program some stacks, in each stack methods of one structure.

    Where products decide the cost, as many configurations share one as fill its columns; where they do not, every
    structure has a program of its own, which later sweeps find compiled.
    """
    stacks: dict[Any, list[str]] = {}
    for label, method in methods.items():
        stacks.setdefault(jax.tree.structure(method), []).append(label)
    if _cheap(oracle):
        return [[stack] for stack in stacks.values()]
    room = MOST_COLUMNS * (1 if oracle_per_seed else len(jax.local_devices()))
    programs: list[list[list[str]]] = [[]]
    for stack in stacks.values():
        for first in range(0, len(stack), room):
            few = stack[first : first + room]
            if sum(map(len, programs[-1])) + len(few) > room:
                programs.append([])
            programs[-1].append(few)
    return programs


def pieces(seeds: int, configurations: int, oracle: Oracle, oracle_per_seed: bool) -> list[np.ndarray]:
    """Which seeds are simulated at once; a last piece is filled with the first seeds, to share the program."""
    devices = len(jax.local_devices())

    def cost(size: int) -> float:
        return _cheapest(size, [configurations], oracle_per_seed)[0]

    if _cheap(oracle):
        most = -(-seeds // min(seeds, -(-seeds * configurations // RUNS_AT_ONCE)))
    elif oracle_per_seed:  # one each: the data of several would compete for the cache
        whole, rest = divmod(seeds, most := min(seeds, devices))
        if rest and seeds * cost(1) <= whole * cost(most) + cost(rest):
            most = 1  # all devices on each, and one program
    else:
        sizes = range(1, min(seeds, max(1, devices * MOST_COLUMNS // configurations)) + 1)

        def total(size: int) -> float:
            whole, rest = divmod(seeds, size)
            return whole * cost(size) + (min(cost(rest), cost(size)) if rest else 0.0)

        most = min(sizes, key=lambda size: (total(size), -size))
    whole, rest = divmod(seeds, most)
    every = [np.arange(most) + most * i for i in range(whole)]
    if rest and not _cheap(oracle) and cost(rest) < 0.8 * cost(most):  # worth a program of its own
        return [*every, np.arange(seeds - rest, seeds)]
    return [*every, np.arange(seeds - rest, seeds - rest + most) % seeds] if rest else every


def arranged(
    seeds: int, configurations: Sequence[int], oracle: Oracle, oracle_per_seed: bool
) -> tuple[Grid, np.ndarray, list[np.ndarray]]:
    """The cheapest way to lay stacks of so many configurations over the devices, and the rows to fill it with.

    Axes are padded with repeated runs so that each device has equal work and matrix products have whole columns.
    """
    few, multiple = next(((few, n) for few, n in SMALL.items() if seeds <= few and _cheap(oracle)), (seeds, 1))
    least = [-(-count // multiple) * multiple for count in configurations]
    _, devices, cut, s, padded = _cheapest(few, least, oracle_per_seed)
    mesh = Mesh(np.array(jax.local_devices()[:devices]), ("run",))
    grid = Grid(mesh, "seeds" if cut == 0 else "configurations", oracle_per_seed)
    rows = [np.arange(n) % count for n, count in zip(padded, configurations, strict=True)]
    return grid, np.arange(s) % seeds, rows


def _cheapest(
    seeds: int, configurations: Sequence[int], oracle_per_seed: bool
) -> tuple[float, int, int, int, list[int]]:
    """Cost, devices, which axis is cut over them, and both axes padded."""
    options = []
    for devices in {1, len(jax.local_devices())}:
        for cut, (per_seed, per_configuration) in enumerate([(devices, 1), (1, devices)]):
            least = [-(-count // per_configuration) * per_configuration for count in configurations]
            for s in range(-(-seeds // per_seed) * per_seed, seeds + WIDENED * per_seed, per_seed):
                for more in range(0, WIDENED * per_configuration, per_configuration):
                    n = sum(least) + more
                    local = (s // devices, n) if cut == 0 else (s, n // devices)
                    products, columns = local if oracle_per_seed else (1, local[0] * local[1])
                    options.append((products * _product(columns), devices, cut, s, [*least[:-1], least[-1] + more]))
    return min(options)


def _product(columns: int) -> float:
    """What a matrix product costs."""
    return PRODUCT.get(columns) or max(PRODUCT[8], RAGGED * columns)


def _cheap(oracle: Oracle) -> bool:
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(oracle)) <= CHEAP_BYTES
