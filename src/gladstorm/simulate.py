"""`run` and `sweep`: seeds × hyper-parameters × methods, recorded."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding

from gladstorm import engine, programs
from gladstorm.layout import arranged, pieces, together
from gladstorm.methods import Method
from gladstorm.one_run import Snapshot, State
from gladstorm.oracles import Oracle
from gladstorm.parts import check, describe
from gladstorm.progress import Progress
from gladstorm.provenance import versions
from gladstorm.record import Record
from gladstorm.rules import COUNT, SEED, STEPS

CALL_SECONDS = 0.25  # how long one call of the compiled program should take: the grain of progress and of Ctrl-C
NEVER = 2**62  # a record time no run reaches


def run(
    oracle: Oracle | Sequence[Oracle],
    method: Method,
    *,
    steps: int,
    seeds: int | Sequence[int] = 1,
    records: int = 100,
    progress: bool = True,
) -> Record:
    """Run one method: iterates x⁰..x^K and estimates v⁰..v^K for K = `steps`. See `sweep`.

    >>> from gladstorm import BlumGladyshev, nstorm, objectives
    >>> oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), B=0.5, G=1.0)
    >>> record = run(oracle, nstorm(gamma=0.01, eta=0.05, n_init=4), steps=50, seeds=2)
    >>> record.sfo[..., -1].tolist()
    [[104, 104]]
    """
    return sweep(oracle, [method], steps=steps, seeds=seeds, records=records, progress=progress)


def sweep(
    oracle: Oracle | Sequence[Oracle],
    methods: Mapping[str, Method] | Sequence[Method],
    *,
    steps: int,
    seeds: int | Sequence[int] = 1,
    records: int = 100,
    progress: bool = True,
) -> Record:
    """Run every method on every seed, in float64, whatever JAX is configured to.

    A method whose numbers are arrays stands for one configuration per entry. A sequence of oracles gives each seed its
    own instance. The noise of a run depends on its seed and step only: methods are compared on the same noise.
    `seeds` is how many (0, 1, …) or which. About 2·`records` steps are recorded, evenly and geometrically spaced; means
    and minima are over all steps. The runs are spread over all of JAX's devices; on a CPU, call
    `gladstorm.devices.tune()` before the first use of JAX to put every core to full use.

    Ctrl-C raises `Interrupted`, a KeyboardInterrupt whose `record` holds the configurations that had finished.

    >>> from gladstorm import BlumGladyshev, nsgdm, objectives, sgd
    >>> oracle = BlumGladyshev(objectives.named("quadratic", dim=2, start=1.0), B=0.1, G=0.1)
    >>> methods = {"NSGDM": nsgdm(gamma=0.01, eta=0.1), "SGD": sgd(gamma=[0.01, 0.1])}
    >>> sweep(oracle, methods, steps=100, seeds=[3, 4]).labels
    ('NSGDM', 'SGD (gamma=0.01)', 'SGD (gamma=0.1)')
    """
    STEPS.require("sweep", "steps", steps)
    COUNT.require("sweep", "records", records)
    if isinstance(seeds, int | np.integer):
        COUNT.require("sweep", "seeds", seeds)
        seeds = range(seeds)
    SEED.require("sweep", "seeds", list(seeds))
    if len(set(seeds)) != len(seeds):
        raise ValueError(f"sweep: seeds must be distinct, equal ones are the same run twice; got seeds={list(seeds)}.")
    oracles = list(oracle) if isinstance(oracle, Sequence) else [oracle]
    if len(oracles) not in ((len(seeds),) if isinstance(oracle, Sequence) else (1,)):
        raise ValueError(
            f"sweep: oracle must be one, or a sequence of one per seed; got {len(oracles)} for {len(seeds)}."
        )
    for each in oracles:
        check(each)
    configurations = _configurations(methods)
    for method in configurations.values():
        for part in (method.estimator, method.step):
            if why := part.misfit(oracles[0]):
                raise ValueError(why)
    times = record_times(steps, records)

    measured: dict[str, dict[str, np.ndarray]] = {}

    def finished() -> Record:
        return _record(
            oracles,
            {label: configurations[label] for label in configurations if label in measured},
            measured,
            seeds,
            times,
            records,
        )

    with jax.enable_x64(True), Progress("simulating", steps * len(configurations)) as shown:
        for program in together(configurations, oracles[0], len(oracles) > 1):
            labels = [label for stack in program for label in stack]

            def report(k: float, before: int = len(measured), count: int = len(labels)) -> None:
                if progress:
                    shown(steps * before + k * count)

            try:
                stacks = tuple(_stacked([configurations[label] for label in stack]) for stack in program)
                runs = _Runs(stacks, steps, times, capacity=2 * records + 2)
                arrays = _in_pieces(runs, oracles, np.array(seeds, np.uint32), report)
            except KeyboardInterrupt as interrupt:
                raise Interrupted(finished() if measured else None) from interrupt
            measured |= {
                label: {name: array[row] for name, array in arrays.items()} for row, label in enumerate(labels)
            }
    return finished()


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a sweep; `record` has the configurations that had finished, or is None."""

    def __init__(self, record: Record | None) -> None:
        super().__init__()
        self.record = record


def _record(
    oracles: list[Oracle],
    configurations: dict[str, Method],
    measured: dict[str, dict[str, np.ndarray]],
    seeds: Sequence[int],
    times: np.ndarray,
    records: int,
) -> Record:
    labels = tuple(configurations)
    stacked = {name: np.stack([measured[label][name] for label in labels]) for name in measured[labels[0]]}
    infima = {each.objective.f_inf for each in oracles}
    config = {
        "oracle": describe(oracles[0]) if len(oracles) == 1 else [describe(each) for each in oracles],
        "methods": {label: describe(method) for label, method in configurations.items()},
        "steps": int(times[-1]),
        "seeds": [int(seed) for seed in seeds],
        "records": int(records),
        "f_inf": infima.pop() if len(infima) == 1 else None,
        "versions": versions(),
    }
    sampled_step = stacked.pop("sampled_step")[0]
    return Record(labels, np.array(seeds, np.int64), times, sampled_step=sampled_step, config=config, **stacked)


def record_times(steps: int, records: int) -> np.ndarray:
    """The steps to record: all of few; of many, `records` evenly and `records` geometrically spaced ones and both ends.

    >>> record_times(1000, 5).tolist()
    [0, 1, 6, 32, 178, 200, 400, 600, 800, 1000]
    """
    if steps <= 2 * records:
        return np.arange(steps + 1)
    return np.unique(np.rint([*np.linspace(0, steps, records + 1), *np.geomspace(1, steps, records)]).astype(np.int64))


def _configurations(methods: Mapping[str, Method] | Sequence[Method]) -> dict[str, Method]:
    """One label and one method of plain numbers for each configuration the methods stand for."""
    if not methods:
        raise ValueError("sweep: methods must be at least one Method; got none.")
    for method in methods.values() if isinstance(methods, Mapping) else methods:
        if not isinstance(method, Method):
            raise ValueError(f"sweep: methods must be Method objects such as nsgdm(...); got {method!r}.")
        check(method)
    found: dict[str, Method] = {}
    for name, method in (methods if isinstance(methods, Mapping) else _labelled(methods)).items():
        leaves, structure = jax.tree.flatten_with_path(method, is_leaf=lambda node: isinstance(node, list | tuple))
        try:
            numbers = np.broadcast_arrays(*(np.atleast_1d(np.asarray(number, np.float64)) for _, number in leaves))
        except ValueError:
            shapes = [np.shape(number) for _, number in leaves]
            raise ValueError(f"sweep: the arrays in {name!r} must have one length; got shapes {shapes}.") from None
        if numbers[0].ndim != 1:
            raise ValueError(f"sweep: numbers in {name!r} must be single or in a list; got shape {numbers[0].shape}.")
        varying = [
            (_field(path), column) for (path, given), column in zip(leaves, numbers, strict=True) if np.ndim(given)
        ]
        for row in range(numbers[0].size):
            values = ", ".join(f"{field}={column[row]:.6g}" for field, column in varying)
            label = f"{name} ({values})" if varying else name
            if label in found:
                raise ValueError(f"sweep: every configuration must have its own label; got {label!r} twice.")
            found[label] = jax.tree.unflatten(structure, [column[row] for column in numbers])
    return found


def _field(path: Sequence[Any]) -> str:
    """The name of a number in a label: within a schedule or an inner part, with the name of the field that holds it.

    >>> from gladstorm import sgd
    >>> path = jax.tree.flatten_with_path(sgd(1.0))[0][0][0]
    >>> _field(path)
    'gamma'
    """
    return ".".join(key.name for key in path[1:] if key.name != "then")


def _labelled(methods: Sequence[Method]) -> dict[str, Method]:
    """Methods under the names of their parts, numbered where these repeat."""
    labels: dict[str, Method] = {}
    for method in methods:
        name = "+".join(type(part).__name__.lower() for part in (method.estimator, method.step))
        label = next(each for n in itertools.count(1) if (each := name if n == 1 else f"{name} #{n}") not in labels)
        labels[label] = method
    return labels


class _Runs(NamedTuple):
    """What one program simulates, whatever the seeds."""

    stacks: tuple[Method, ...]  # methods of one structure each, their numbers arrays
    steps: int
    times: np.ndarray  # the steps to record
    capacity: int  # how many there may be: of this, not of `times`, the program's shape depends

    @property
    def sizes(self) -> list[int]:
        """How many methods each stack has."""
        return [jax.tree.leaves(stack)[0].size for stack in self.stacks]


def _stacked(methods: list[Method]) -> Method:
    stack: Method = jax.tree.map(lambda *numbers: np.array(numbers), *methods)
    return stack


def _in_pieces(
    runs: _Runs, oracles: list[Oracle], seeds: np.ndarray, report: Callable[[float], None]
) -> dict[str, np.ndarray]:
    """`_simulate`, as many seeds at once as is cheapest."""
    done = []
    before, steps = 0, runs.steps
    for rows in pieces(seeds.size, sum(runs.sizes), oracles[0], len(oracles) > 1):
        own = [oracles[row] for row in rows] if len(oracles) > 1 else oracles

        def so_far(k: float, before: int = before, size: int = rows.size) -> None:
            report(min(1.0, (before * steps + k * size) / (seeds.size * steps)) * steps)

        done.append(_simulate(runs, own, seeds[rows], so_far))
        before += rows.size
    return {name: np.concatenate([piece[name] for piece in done], axis=1)[:, : seeds.size] for name in done[0]}


def _simulate(
    runs: _Runs, oracles: list[Oracle], seeds: np.ndarray, report: Callable[[float], None]
) -> dict[str, np.ndarray]:
    """Run stacks of methods, each of one structure; arrays over (configuration, seed, …)."""
    stacks, steps, times, capacity = runs
    sizes = runs.sizes
    grid, seed_rows, method_rows = arranged(seeds.size, sizes, oracles[0], len(oracles) > 1)
    sampled_steps = np.array([np.random.default_rng(seed).integers(steps + 1) for seed in seeds])
    padded_times = np.full(capacity, NEVER)
    padded_times[: times.size] = times
    oracle = (
        jax.tree.map(lambda *numbers: np.stack(numbers)[seed_rows], *map(_in_float64, oracles))
        if grid.oracle_per_seed
        else _in_float64(oracles[0])
    )
    padded = tuple(
        jax.tree.map(lambda column, rows=rows: column[rows], stack)
        for stack, rows in zip(stacks, method_rows, strict=True)
    )
    host = (oracle, padded, seeds[seed_rows], sampled_steps[seed_rows], padded_times)
    arguments = tuple(
        jax.device_put(argument, NamedSharding(grid.mesh, placement))
        for argument, placement in zip(host, grid.placements, strict=True)
    )
    state = programs.call(engine.started, grid, *arguments)
    k, stride = 0, engine.block_size(oracles[0].objective.start.size)
    while k < steps:
        begun = time.monotonic()
        k = min(k + stride, steps)
        state = jax.block_until_ready(programs.call(engine.advanced, grid, *arguments, state, np.int64(k)))
        report(k)
        if time.monotonic() - begun < CALL_SECONDS:
            stride *= 2
    picked = np.broadcast_to(sampled_steps, (sum(sizes), seeds.size))
    found = [_found(state.states[i], state.snapshots[i], size, seeds.size, times.size) for i, size in enumerate(sizes)]
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]} | {"sampled_step": picked}


def _found(states: State, snapshots: Snapshot, configurations: int, seeds: int, times: int) -> dict[str, np.ndarray]:
    """What a stack's runs have left, padding aside."""
    runs = jax.tree.map(lambda a: np.moveaxis(np.asarray(a)[:seeds, :configurations], 1, 0), states)
    curves = jax.tree.map(lambda a: np.asarray(a)[:times, :seeds, :configurations].transpose(2, 1, 0), snapshots)
    arrays: dict[str, np.ndarray] = curves._asdict()
    return arrays | {"diverged": runs.diverged, "last": runs.point.x, "sampled": runs.sampled}


def _in_float64(part: Any) -> Any:
    return jax.tree.map(lambda number: np.asarray(number, np.float64), part)
