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

COLUMNS = 16  # a matrix product with a multiple of this many columns wastes nothing
NARROW = {1: 1.0, 4: 1.25, 8: 2.0, COLUMNS: 2.8}  # measured cost of narrower ones, a matrix-vector product being 1
RAGGED = 1.6  # measured cost per column of all others
MOST_COLUMNS = 32  # more would leave the second cache, and cost 1.3 × as much each
CHEAP_BYTES = 100_000  # an oracle with no more data than this is cheap to evaluate
LANES = 8  # fewer runs than this squared, of a cheap problem, cost the same: small sweeps share one program
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
        most = min(sizes, key=lambda size: (-(-seeds // size) * cost(size), -size))
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
    if _cheap(oracle) and seeds <= LANES:
        least = [-(-count // LANES) * LANES for count in configurations]
    else:
        least = list(configurations)
    _, devices, cut, s, padded = _cheapest(seeds, least, oracle_per_seed)
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
            for s in range(-(-seeds // per_seed) * per_seed, seeds + COLUMNS * per_seed, per_seed):
                for more in range(0, COLUMNS * per_configuration, per_configuration):
                    n = sum(least) + more
                    local = (s // devices, n) if cut == 0 else (s, n // devices)
                    products, columns = local if oracle_per_seed else (1, local[0] * local[1])
                    options.append((products * _product(columns), devices, cut, s, [*least[:-1], least[-1] + more]))
    return min(options)


def _product(columns: int) -> float:
    """What a matrix product costs."""
    per_column = NARROW[COLUMNS] / COLUMNS
    if columns % COLUMNS:
        return NARROW.get(columns) or max(2.0, RAGGED * per_column * columns)
    return per_column * columns


def _cheap(oracle: Oracle) -> bool:
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(oracle)) <= CHEAP_BYTES
