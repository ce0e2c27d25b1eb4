"""How the runs of a sweep are put together: which are one task, which share a program, and where they lie.

`cut` makes tasks that take about two seconds each, `lay_out` decides how the runs of one task lie on the devices that
carry it out. Both decide from numbers alone. The layout changes the numbers of a run by rounding only, and their cost
by factors.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


@dataclass(frozen=True)
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
    task_seconds: float = (
        2.0  # of a task on all cores: losing one does not hurt, and keeping or sending one costs little beside it
    )
    task_bytes: int = 50_000_000  # of instances that a task holds

    def product(self, columns: int) -> float:
        """What a matrix product with so many columns costs."""
        return self.by_columns.get(columns) or max(self.by_columns[8], self.ragged * columns)


MEASURED = Costs()
OWN_PROGRAM = 0.8  # a last piece has a program of its own if it costs less than this share of a whole one
PADDING = 16  # an axis is padded by fewer than this many runs per device


class Work(NamedTuple):
    """What is to be laid out."""

    structures: Sequence[Hashable]  # of every configuration: those of one structure can be stacked
    seeds: int
    devices: int
    oracle_bytes: int
    oracle_per_seed: bool
    shaped_for: int | None = None  # as many seeds as the pieces are shaped for, if others of this kind have more


class Piece(NamedTuple):
    """Runs that are simulated at once. Rows beyond the first `seeds`, and beyond a stack's size, repeat runs to pad."""

    seeds: int
    seed_rows: tuple[int, ...]  # indices of the sweep's seeds
    method_rows: tuple[tuple[int, ...], ...]  # for each stack, indices into it
    devices: int
    cut: Literal["seeds", "configurations"]  # the axis that the devices share

    @property
    def runs(self) -> int:
        """How many there are, padding included."""
        return len(self.seed_rows) * sum(map(len, self.method_rows))


class Program(NamedTuple):
    """Stacks of configurations that one compiled program advances, piece by piece."""

    stacks: tuple[tuple[int, ...], ...]  # indices of the sweep's configurations
    pieces: tuple[Piece, ...]

    def __str__(self) -> str:
        stacks = " + ".join(str(len(stack)) for stack in self.stacks)
        lines = [f"{stacks} configurations"]
        for piece in self.pieces:
            rows = [len(rows) for rows in piece.method_rows]
            lines.append(
                f"  seeds {piece.seed_rows[0]} to {piece.seed_rows[piece.seeds - 1]}: {len(piece.seed_rows)} × {rows} "
                f"runs with padding, {piece.cut} over {piece.devices} devices"
            )
        return "\n".join(lines)


class Share(NamedTuple):
    """The runs of one task."""

    configurations: tuple[int, ...]  # indices of the sweep's configurations
    seeds: range  # indices of the sweep's seeds
    shaped_for: int  # how many seeds the tasks with these configurations have, but for the last


def cut(work: Work, steps: int, dim: int, costs: Costs) -> list[Share]:
    """The tasks of a sweep of so many steps: every configuration on every seed once.

    They depend on the number of devices only where there are more than two, so that a job begun on a laptop's cores is
    found again by the workers of a small cluster.

    >>> work = Work(["sgd"] * 10, seeds=100, devices=2, oracle_bytes=100, oracle_per_seed=False)
    >>> [len(share.seeds) for share in cut(work, steps=100_000, dim=1, costs=MEASURED)]
    [36, 36, 28]
    """
    work = work._replace(devices=max(2, work.devices))
    decide = _Decisions(work, costs)
    a_run = steps * (costs.step_seconds + dim * costs.entry_seconds + work.oracle_bytes * costs.byte_seconds)
    a_task = costs.task_seconds * work.devices
    shares = []
    for stacks in decide.programs():
        every = [index for stack in stacks for index in stack]
        few = len(every) if not decide.cheap else max(costs.runs_at_once, int(a_task / max(a_run, 1e-9)))
        chunks = -(-len(every) // few)
        for i in range(chunks):
            rows = tuple(every[len(every) * i // chunks : len(every) * (i + 1) // chunks])
            size = decide.seeds_of_a_task(len(rows), a_run, a_task)
            for first in range(0, work.seeds, size):
                shares.append(Share(rows, range(first, min(first + size, work.seeds)), min(size, work.seeds)))
    return shares


def lay_out(work: Work, costs: Costs) -> tuple[Program, ...]:
    """The programs of a sweep.

    >>> work = Work(["storm", "storm", "sgd"], seeds=5, devices=2, oracle_bytes=10**7, oracle_per_seed=False)
    >>> print(*lay_out(work, MEASURED))
    2 + 1 configurations
      seeds 0 to 4: 6 × [2, 1] runs with padding, seeds over 2 devices
    """
    decide = _Decisions(work, costs)
    programs = []
    for stacks in decide.programs():
        sizes = [len(stack) for stack in stacks]
        pieces = (decide.arrangement(rows, sizes) for rows in decide.pieces(sum(sizes)))
        programs.append(Program(tuple(map(tuple, stacks)), tuple(pieces)))
    return tuple(programs)


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

    work: Work
    costs: Costs
    known: dict[tuple[int, ...], _Option] = field(default_factory=dict)  # of many pieces most are of one size

    @property
    def cheap(self) -> bool:
        """Whether something else than matrix products decides the cost."""
        return self.work.oracle_bytes <= self.costs.cheap_bytes

    def programs(self) -> list[list[list[int]]]:
        """Which configurations share a program: in each program some stacks, in each stack those of one structure.

        Where products decide the cost, as many configurations share one as fill its columns; where they do not, every
        structure has a program of its own, which later sweeps find compiled.
        """
        stacks: dict[Hashable, list[int]] = {}
        for index, structure in enumerate(self.work.structures):
            stacks.setdefault(structure, []).append(index)
        if self.cheap:
            most = self.costs.most_configurations
            return [[stack[i : i + most]] for stack in stacks.values() for i in range(0, len(stack), most)]
        room = self.costs.most_columns * (1 if self.work.oracle_per_seed else self.work.devices)
        programs: list[list[list[int]]] = [[]]
        for stack in stacks.values():
            for first in range(0, len(stack), room):
                few = stack[first : first + room]
                if sum(map(len, programs[-1])) + len(few) > room:
                    programs.append([])
                programs[-1].append(few)
        return programs

    def pieces(self, configurations: int) -> Iterator[list[int]]:
        """Which seeds are simulated at once."""
        seeds, size = self.work.seeds, self.seeds_at_once(configurations)
        whole, rest = divmod(seeds, size)
        for i in range(whole):
            yield list(range(size * i, size * (i + 1)))
        if not rest:
            return
        shared = self.cheap or self.cost(rest, configurations) >= OWN_PROGRAM * self.cost(size, configurations)
        # A last piece that shares the others' program is filled up with the first seeds.
        yield [row % seeds for row in range(seeds - rest, seeds - rest + (size if shared else rest))]

    def seeds_of_a_task(self, configurations: int, a_run: float, a_task: float) -> int:
        """As many whole pieces as a task has time and room for, equally many in every task but the last."""
        seeds, piece = self.work.seeds, self.seeds_at_once(configurations)
        if self.cheap:
            piece = min(seeds, max(1, self.costs.runs_at_once // configurations))
        most = a_task / max(configurations * a_run, 1e-9)
        if self.work.oracle_per_seed:
            most = min(most, self.costs.task_bytes / self.work.oracle_bytes)
        tasks = -(-seeds // max(piece, int(min(most, seeds))))
        return _up_to(-(-seeds // tasks), piece)

    def seeds_at_once(self, configurations: int) -> int:
        """How many seeds every piece but the last has."""
        seeds, devices = self.work.shaped_for or self.work.seeds, self.work.devices

        def total(size: int) -> float:
            """What all pieces of this size cost, with a smaller last one or another whole one."""
            whole, rest = divmod(seeds, size)
            each = self.cost(size, configurations)
            return whole * each + (min(self.cost(rest, configurations), each) if rest else 0.0)

        if self.cheap:
            pieces = -(-seeds * configurations // self.costs.runs_at_once)
            return -(-seeds // min(seeds, pieces))
        if not self.work.oracle_per_seed:
            widest = max(1, devices * self.costs.most_columns // configurations)
            return min(range(1, min(seeds, widest) + 1), key=lambda size: (total(size), -size))
        # A seed for each device, since the data of several would compete for its cache; or all devices on one seed,
        # where a seed would be left over and that is as cheap: it takes one program instead of two.
        most = min(seeds, devices)
        whole, rest = divmod(seeds, most)
        apart = whole * self.cost(most, configurations) + (self.cost(rest, configurations) if rest else 0.0)
        return 1 if rest and total(1) <= apart else most

    def arrangement(self, rows: Sequence[int], sizes: Sequence[int]) -> Piece:
        """How stacks of these sizes lie over the devices, padded so that each device has equal work."""
        few, multiple = len(rows), 1
        if self.cheap:
            small = ((few, n) for few, n in self.costs.multiples.items() if len(rows) <= few)
            few, multiple = next(small, (few, multiple))
        chosen = self.cheapest(few, [-(-size // multiple) * multiple for size in sizes])
        padded = zip(chosen.configurations, sizes, strict=True)
        return Piece(
            seeds=len(rows),
            seed_rows=tuple(rows[i % len(rows)] for i in range(chosen.seeds)),
            method_rows=tuple(tuple(i % size for i in range(count)) for count, size in padded),
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
            self.known[asked] = min(
                option
                for devices in {1, self.work.devices}
                for option in (
                    *self._cut_seeds(devices, seeds, configurations),
                    *self._cut_configurations(devices, seeds, configurations),
                )
            )
        return self.known[asked]

    def _cut_seeds(self, devices: int, seeds: int, configurations: Sequence[int]) -> Iterator[_Option]:
        *others, last = configurations
        for s in range(_up_to(seeds, devices), seeds + PADDING * devices, devices):
            for more in range(PADDING):
                cost = self._products(s // devices, sum(configurations) + more)
                yield _Option(cost, devices, 0, s, [*others, last + more])

    def _cut_configurations(self, devices: int, seeds: int, configurations: Sequence[int]) -> Iterator[_Option]:
        *others, last = (_up_to(count, devices) for count in configurations)
        for s in range(seeds, seeds + PADDING):
            for more in range(0, PADDING * devices, devices):
                cost = self._products(s, (sum(others) + last + more) // devices)
                yield _Option(cost, devices, 1, s, [*others, last + more])

    def _products(self, seeds: int, configurations: int) -> float:
        """What the matrix products of one device cost: one for all seeds, or one for each if each has its own data."""
        if self.work.oracle_per_seed:
            return seeds * self.costs.product(configurations)
        return self.costs.product(seeds * configurations)


def _up_to(count: int, multiple: int) -> int:
    """The next multiple."""
    return -(-count // multiple) * multiple
