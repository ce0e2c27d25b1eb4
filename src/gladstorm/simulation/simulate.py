"""`run` and `sweep`: seeds × hyper-parameters × methods, recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from gladstorm.core.rules import COUNT, STEPS
from gladstorm.jobs.progress import Progress, on_progress
from gladstorm.jobs.provenance import versions
from gladstorm.jobs.tasks import HERE, Store, Task, results
from gladstorm.methods import Method, from_plan
from gladstorm.methods.method import settings_of
from gladstorm.problems.oracles import Oracle
from gladstorm.simulation.cluster import choose_executor
from gladstorm.simulation.configurations import expand, name_methods
from gladstorm.simulation.layout import Selection, lay_out, split_into_tasks
from gladstorm.simulation.record import ARRAYS, Record
from gladstorm.simulation.runs import CutShort, Recording, Runs, write
from gladstorm.simulation.validation import (
    Instances,
    fingerprint,
    require_compatible,
    require_memory,
    validate_oracles,
    validate_seeds,
)
from gladstorm.theory import Plan


def run(
    oracle: Oracle | Sequence[Oracle],
    method: Method | Plan,
    *,
    steps: int | None = None,
    seeds: int | Sequence[int] = 1,
    records: int = 100,
    progress: bool = True,
    store: str | os.PathLike[str] | None = None,
    executor: Any = None,
) -> Record:
    """Run one method for K = `steps` steps: iterates x⁰..x^K, estimates v⁰..v^K.

    Args:
        oracle: As in `sweep`, like the arguments below.
        method: The method, or a plan of `theory.plan`, whose horizon says how many steps there are.
        steps: K; left out with a plan.
        seeds: How many seeds, or a list of them.
        records: About how many steps are recorded, halved.
        progress: Whether to show a progress bar.
        store: A folder that keeps finished parts.
        executor: Where they are computed.

    Returns:
        The record; `record.against(plan)` compares it with the bound of a plan.

    >>> from gladstorm import BlumGladyshev, nstorm, objectives
    >>> oracle = BlumGladyshev(objectives.named("cauchy", dim=2, start=1.0), B=0.5, G=1.0)
    >>> record = run(oracle, nstorm(gamma=0.01, eta=0.05, n_init=4), steps=50, seeds=2)
    >>> record.sfo[..., -1].tolist()
    [[104, 104]]
    """
    if isinstance(method, Plan):
        if steps is not None:
            raise ValueError(f"run: steps must be left out with a plan, whose horizon says them; got steps={steps!r}.")
        steps, method = method.horizon - 1, from_plan(method)
    elif steps is None:
        raise ValueError("run: steps must be given, the number of steps K ≥ 0; got steps=None.")
    return sweep(
        oracle,
        [method],
        steps=steps,
        seeds=seeds,
        records=records,
        progress=progress,
        store=store,
        executor=executor,
    )


def sweep(
    oracle: Oracle | Sequence[Oracle],
    methods: Mapping[str, Method] | Sequence[Method],
    *,
    steps: int,
    seeds: int | Sequence[int] = 1,
    records: int = 100,
    progress: bool = True,
    store: str | os.PathLike[str] | None = None,
    executor: Any = None,
) -> Record:
    """Run every method on every seed, in float64 whatever JAX's own setting is, and record what happens.

    Runs are spread over all of JAX's devices; on a CPU, call `gladstorm.devices.tune()` before the first use of JAX to
    use every core.

    Args:
        oracle: Where stochastic gradients come from; a sequence has one for each seed.
        methods: A dict of methods by name, or a list. A method whose numbers are lists is run once for each entry.
        steps: K, the number of steps of every run.
        seeds: How many seeds (0, 1, …), or a list of them. The noise of a run depends only on its seed and step, so all
            methods meet the same noise.
        records: About 2·`records` steps are recorded, evenly and geometrically spaced. Means and minima are over all
            steps.
        progress: Whether to show a progress bar on standard error.
        store: A folder that keeps finished parts. After a kill, or in a second process, the same call computes only
            what is missing. A part takes about two seconds.
        executor: A `dask.distributed.Client` whose workers compute the parts, in place of this process.

    Returns:
        The record of all runs.

    Raises:
        ValueError: If an argument is not valid, or the sweep would not fit in memory.
        Interrupted: On Ctrl-C; its `record` holds all that was recorded until then.

    >>> from gladstorm import BlumGladyshev, nsgdm, objectives, sgd
    >>> oracle = BlumGladyshev(objectives.named("quadratic", dim=2, start=1.0), B=0.1, G=0.1)
    >>> methods = {"NSGDM": nsgdm(gamma=0.01, eta=0.1), "SGD": sgd(gamma=[0.01, 0.1])}
    >>> sweep(oracle, methods, steps=100, seeds=[3, 4]).labels
    ('NSGDM', 'SGD (gamma=0.01)', 'SGD (gamma=0.1)')
    """
    recording = Recording(STEPS.whole("sweep", "steps", steps), COUNT.whole("sweep", "records", records))
    seeds = validate_seeds(seeds)
    instances = validate_oracles(oracle, len(seeds))
    named = name_methods(methods)
    count = sum(map(settings_of, named.values())) * len(seeds)
    fits = partial(require_memory, instances, count, recording.most, recording.capacity)
    fits()  # what is recorded of them, before any of them is made
    configured = tuple(expand(named))
    traces = require_compatible(instances.first, (row.method for row in configured))
    whole = Runs(instances.oracles, instances.bytes_each, configured, tuple(seeds), len(seeds), recording)
    cores = jax.local_device_count()
    selections = split_into_tasks(whole.sizes(cores), recording.steps, instances.dim)
    parts = [whole.select(selection) for selection in selections]
    largest = max(parts, key=lambda part: part.weight)
    fits(at_once=max(chunk.runs for chunk in lay_out(largest.sizes(cores))))
    folder = None if store is None else Store(store, Record, ".parquet")
    tasks = _tasks(parts, selections, instances, None if folder is None else traces)
    record = whole.blank(instances.dim, **_config(instances, seeds, recording))
    there = HERE if executor is None else choose_executor(executor)
    done = 0

    def place(number: int, part: Record) -> None:
        rows, first = selections[number].configurations, selections[number].seeds.start
        write(record, rows, first, {name: getattr(part, name) for name in ARRAYS})

    with (
        Progress("simulating", whole.weight) as shown,
        on_progress(lambda more: shown(done + more) if progress else None),
    ):
        try:
            for number, part in results(tasks, folder, there):
                place(number, part)
                done += parts[number].weight
                if progress:
                    shown(done)
        except KeyboardInterrupt as interrupt:
            if isinstance(interrupt, CutShort):
                place(parts.index(interrupt.runs), interrupt.record)
            begun = np.flatnonzero((record.reached >= 0).any(axis=1)).tolist()
            raise Interrupted(record.select(begun) if begun else None) from interrupt
    return record


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a sweep. `record` holds the runs that had begun, up to the interrupt; it is None if none had begun.

    `record.reached` is the last recorded step of each run; its curves are NaN after that.
    """

    def __init__(self, record: Record | None) -> None:
        super().__init__()
        self.record = record


def _tasks(
    parts: list[Runs], selections: list[Selection], instances: Instances, traces: dict[Any, Any] | None
) -> list[Task[Record]]:
    """The tasks with names for people and, given the traces of the methods, with what decides them."""
    prints = {structure: fingerprint(traced) for structure, traced in (traces or {}).items()}
    tasks = []
    for part, selection in zip(parts, selections, strict=True):
        identity = None
        if traces is not None:
            own = instances.described
            described = own if len(own) == 1 else own[selection.seeds.start : selection.seeds.stop]
            structures = dict.fromkeys(jax.tree.structure(row.method) for row in part.configured)
            identity = part.identity(described) | {"traced": [prints[structure] for structure in structures]}
        names = list(dict.fromkeys(row.configuration.name for row in part.configured))
        among = f"{len(names)} methods" if len(names) > 3 else ", ".join(names)
        seeds = f"seed {part.seeds[0]}" if len(part.seeds) == 1 else f"seeds {part.seeds[0]}–{part.seeds[-1]}"
        tasks.append(Task(f"{among}, {seeds}", identity, part))
    return tasks


def _config(instances: Instances, seeds: Sequence[int], recording: Recording) -> dict[str, Any]:
    """The problem and settings of a sweep, without its methods, JSON-ready."""
    tree = getattr(instances.first.objective, "tree", None)
    names, shapes = (("x",), ((instances.dim,),)) if tree is None else (tree.names, tree.shapes)
    return {
        "oracle": instances.described[0] if len(instances.described) == 1 else instances.described,
        "x": [{"name": name, "shape": list(shape)} for name, shape in zip(names, shapes, strict=True)],
        "steps": recording.steps,
        "seeds": list(seeds),
        "records": recording.records,
        "f_inf": instances.f_inf,
        "field": instances.first.field,
        "versions": versions(),
    }
