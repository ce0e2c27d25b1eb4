"""How the runs of a sweep are put together: which are one task, which share a program, and where they lie.

`split_into_tasks` makes tasks of about two seconds each, `lay_out` decides how the runs of one task lie on the devices
that carry it out. Both decide from numbers alone. The layout changes the numbers of a run by rounding only, and their
cost by factors.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple


@dataclass(frozen=True, eq=False)
class Costs:
    """What decides which layout is cheapest. The defaults are ratios of times on two AVX-512 cores.

    On other processors the same layout is chosen. It gives the same numbers there, and may cost more than the best one.
    """

    most_columns: int = 32  # of a matrix product: more would leave the second cache
    # The cost of a product by its columns, that of one column being 1; `ragged` per column with other numbers of them.
    by_columns: Mapping[int, float] = field(default_factory=lambda: {1: 1.0, 4: 1.25, 8: 2.0, 16: 2.8, 32: 5.1})
    ragged: float = 0.25
    cheap_bytes: int = 100_000  # an oracle with no more data than this is cheap to evaluate
    runs_at_once: int = 96  # of a cheap problem: more would leave the first caches, and cost 1.5 × as much each
    most_configurations: int = 4096  # advanced together: more would only wait for each other
    # A cheap problem's sweep of up to so many seeds has configurations in such multiples: fewer than 64 runs cost as
    # much as 64, and sweeps of one shape share a program.
    multiples: Mapping[int, int] = field(default_factory=lambda: {4: 16, 8: 8})
    # Seconds that a run takes for a step, on one core: always, per entry of x, and per byte of the oracle's data.
    step_seconds: float = 1e-7
    entry_seconds: float = 1e-8
    byte_seconds: float = 8e-12
    # Of a task on all cores: losing one does not hurt, and keeping or sending one costs little beside it.
    task_seconds: float = 2.0
    task_bytes: int = 50_000_000  # of instances that a task holds

    def product(self, columns: int) -> float:
        """What a matrix product with so many columns costs."""
        return self.by_columns.get(columns) or max(self.by_columns[8], self.ragged * columns)


MEASURED = Costs()
OWN_PROGRAM = 0.8  # a last chunk has a program of its own if it costs less than this share of a whole one
PADDING = 16  # an axis is padded by fewer than this many runs per device


class Sizes(NamedTuple):
    """What decides the layout of some runs."""

    structures: tuple[Hashable, ...]  # of every configuration: those of one structure can be stacked
    seeds: int
    devices: int
    oracle_bytes: int
    oracle_per_seed: bool
    padded_seeds: int | None = None  # as many seeds as chunks are shaped for, if other tasks of this kind have more


class Selection(NamedTuple):
    """Which runs of a sweep a task has."""

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
        """How many there are, padding included."""
        return len(self.seeds) * sum(map(len, self.stacks))

    def __str__(self) -> str:
        return (
            f"{' + '.join(map(str, self.sizes))} configurations, seeds {self.seeds[0]} to "
            f"{self.seeds[self.seed_count - 1]}: {len(self.seeds)} × {[len(stack) for stack in self.stacks]} runs with "
            f"padding, {self.cut} over {self.devices} devices"
        )


def split_into_tasks(sizes: Sizes, steps: int, dim: int, costs: Costs) -> list[Selection]:
    """The tasks of a sweep of so many steps: every configuration on every seed once.

    They depend on the number of devices only where there are more than two, so that a job begun on a laptop's cores is
    found again by the workers of a small cluster.

    >>> sizes = Sizes(("sgd",) * 10, seeds=100, devices=2, oracle_bytes=100, oracle_per_seed=False)
    >>> [len(task.seeds) for task in split_into_tasks(sizes, steps=100_000, dim=1, costs=MEASURED)]
    [36, 36, 28]
    """
    sizes = sizes._replace(devices=max(2, sizes.devices))
    decide = _Decisions(sizes, costs)
    a_run = steps * (costs.step_seconds + dim * costs.entry_seconds + sizes.oracle_bytes * costs.byte_seconds)
    a_task = costs.task_seconds * sizes.devices
    selections = []
    for stacks in decide.programs():
        every = [index for stack in stacks for index in stack]
        few = len(every) if not decide.cheap else max(costs.runs_at_once, int(a_task / max(a_run, 1e-9)))
        parts = -(-len(every) // few)
        for i in range(parts):
            rows = tuple(every[len(every) * i // parts : len(every) * (i + 1) // parts])
            size = decide.seeds_of_a_task(len(rows), a_run, a_task)
            for first in range(0, sizes.seeds, size):
                seeds = range(first, min(first + size, sizes.seeds))
                selections.append(Selection(rows, seeds, min(size, sizes.seeds)))
    return selections


@lru_cache(maxsize=16)
def lay_out(sizes: Sizes, costs: Costs) -> tuple[Chunk, ...]:
    """The chunks in which some runs are simulated, one after the other; those with the same stacks share a program.

    >>> sizes = Sizes(("storm", "storm", "sgd"), seeds=5, devices=2, oracle_bytes=10**7, oracle_per_seed=False)
    >>> print(*lay_out(sizes, MEASURED))
    2 + 1 configurations, seeds 0 to 4: 6 × [2, 1] runs with padding, seeds over 2 devices
    """
    decide = _Decisions(sizes, costs)
    return tuple(
        decide.chunk(stacks, rows, seed_count)
        for stacks in decide.programs()
        for rows, seed_count in decide.seeds_of_chunks(sum(map(len, stacks)))
    )


class _Option(NamedTuple):
    """A way to lay seeds × configurations over devices; the smallest one is chosen."""

    cost: float
    devices: int
    cut: int  # 0: seeds, 1: configurations
    seeds: int  # padded
    configurations: list[int]  # of each stack, padded


@dataclass(frozen=True)
class _Decisions:
    """From the coarsest to the finest."""

    sizes: Sizes
    costs: Costs
    known: dict[tuple[int, ...], _Option] = field(default_factory=dict)  # of many chunks most are of one size

    @property
    def cheap(self) -> bool:
        """Whether something else than matrix products decides the cost."""
        return self.sizes.oracle_bytes <= self.costs.cheap_bytes

    def programs(self) -> list[list[list[int]]]:
        """Which configurations share a program: in each program some stacks, in each stack those of one structure.

        Where products decide the cost, as many configurations share one as fill its columns; where they do not, every
        structure has a program of its own, which later sweeps find compiled.
        """
        stacks: dict[Hashable, list[int]] = {}
        for index, structure in enumerate(self.sizes.structures):
            stacks.setdefault(structure, []).append(index)
        if self.cheap:
            most = self.costs.most_configurations
            return [[stack[i : i + most]] for stack in stacks.values() for i in range(0, len(stack), most)]
        most = self.costs.most_columns * (1 if self.sizes.oracle_per_seed else self.sizes.devices)
        programs: list[list[list[int]]] = [[]]
        for stack in stacks.values():
            for first in range(0, len(stack), most):
                few = stack[first : first + most]
                if sum(map(len, programs[-1])) + len(few) > most:
                    programs.append([])
                programs[-1].append(few)
        return programs

    def seeds_of_chunks(self, configurations: int) -> Iterator[tuple[list[int], int]]:
        """Which seeds are simulated at once, and how many of them for the first time."""
        seeds, size = self.sizes.seeds, self.seeds_at_once(configurations)
        whole, rest = divmod(seeds, size)
        for i in range(whole):
            yield list(range(size * i, size * (i + 1))), size
        if not rest:
            return
        shared = self.cheap or self.cost(rest, configurations) >= OWN_PROGRAM * self.cost(size, configurations)
        # A last chunk that shares the others' program is filled up with the first seeds.
        yield [row % seeds for row in range(seeds - rest, seeds - rest + (size if shared else rest))], rest

    def seeds_of_a_task(self, configurations: int, a_run: float, a_task: float) -> int:
        """As many whole chunks as a task has time and room for, equally many in every task but the last."""
        seeds, chunk = self.sizes.seeds, self.seeds_at_once(configurations)
        if self.cheap:
            chunk = min(seeds, max(1, self.costs.runs_at_once // configurations))
        most = a_task / max(configurations * a_run, 1e-9)
        if self.sizes.oracle_per_seed:
            most = min(most, self.costs.task_bytes / self.sizes.oracle_bytes)
        tasks = -(-seeds // max(chunk, int(min(most, seeds))))
        return _up_to(-(-seeds // tasks), chunk)

    def seeds_at_once(self, configurations: int) -> int:
        """How many seeds every chunk but the last has."""
        seeds, devices = self.sizes.padded_seeds or self.sizes.seeds, self.sizes.devices

        def total(size: int) -> float:
            """What all chunks of this size cost, with a smaller last one or another whole one."""
            whole, rest = divmod(seeds, size)
            cost = self.cost(size, configurations)
            return whole * cost + (min(self.cost(rest, configurations), cost) if rest else 0.0)

        if self.cheap:
            chunks = -(-seeds * configurations // self.costs.runs_at_once)
            return -(-seeds // min(seeds, chunks))
        if not self.sizes.oracle_per_seed:
            widest = max(1, devices * self.costs.most_columns // configurations)
            return min(range(1, min(seeds, widest) + 1), key=lambda size: (total(size), -size))
        # A seed for each device, since the data of several would compete for its cache; or all devices on one seed,
        # where a seed would be left over and that is as cheap: it takes one program instead of two.
        most = min(seeds, devices)
        whole, rest = divmod(seeds, most)
        apart = whole * self.cost(most, configurations) + (self.cost(rest, configurations) if rest else 0.0)
        return 1 if rest and total(1) <= apart else most

    def chunk(self, stacks: Sequence[Sequence[int]], rows: Sequence[int], seed_count: int) -> Chunk:
        """How stacks lie over the devices, padded so that each device has equal work."""
        sizes = [len(stack) for stack in stacks]
        few, multiple = len(rows), 1
        if self.cheap:
            small = ((few, n) for few, n in self.costs.multiples.items() if len(rows) <= few)
            few, multiple = next(small, (few, multiple))
        chosen = self.cheapest(few, [_up_to(size, multiple) for size in sizes])
        padded = zip(stacks, chosen.configurations, strict=True)
        return Chunk(
            stacks=tuple(tuple(stack[i % len(stack)] for i in range(count)) for stack, count in padded),
            sizes=tuple(sizes),
            seeds=tuple(rows[i % len(rows)] for i in range(chosen.seeds)),
            seed_count=seed_count,
            devices=chosen.devices,
            cut="seeds" if chosen.cut == 0 else "configurations",
        )

    def cost(self, seeds: int, configurations: int) -> float:
        """What the cheapest way costs, if all configurations are one stack."""
        return self.cheapest(seeds, [configurations]).cost

    def cheapest(self, seeds: int, configurations: Sequence[int]) -> _Option:
        """The best of all ways: on one device or all, either axis cut, both padded by up to so many."""
        asked = (seeds, *configurations)
        if asked not in self.known:
            self.known[asked] = min(self._options(seeds, configurations))
        return self.known[asked]

    def _options(self, seeds: int, configurations: Sequence[int]) -> Iterator[_Option]:
        for devices in {1, self.sizes.devices}:
            for cut, over in ((0, (devices, 1)), (1, (1, devices))):  # how many devices share each axis
                *others, last = (_up_to(count, over[1]) for count in configurations)
                for s in range(_up_to(seeds, over[0]), seeds + PADDING * over[0], over[0]):
                    for more in range(0, PADDING * over[1], over[1]):
                        cost = self._products(s // over[0], (sum(others) + last + more) // over[1])
                        yield _Option(cost, devices, cut, s, [*others, last + more])

    def _products(self, seeds: int, configurations: int) -> float:
        """What the matrix products of one device cost: one for all seeds, or one for each if each has its own data."""
        if self.sizes.oracle_per_seed:
            return seeds * self.costs.product(configurations)
        return self.costs.product(seeds * configurations)


def _up_to(count: int, multiple: int) -> int:
    """The next multiple."""
    return -(-count // multiple) * multiple
