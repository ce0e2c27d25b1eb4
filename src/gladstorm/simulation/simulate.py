"""`run` and `sweep`: seeds × hyper-parameters × methods, recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from gladstorm.core.parts import describe
from gladstorm.core.rules import COUNT, STEPS
from gladstorm.jobs import interrupts
from gladstorm.jobs.progress import Progress, hearing
from gladstorm.jobs.provenance import versions
from gladstorm.jobs.sources import source_of
from gladstorm.jobs.store import Store
from gladstorm.jobs.tasks import Task, results
from gladstorm.methods import Method, from_plan
from gladstorm.methods.method import settings_of
from gladstorm.problems.oracles import Oracle
from gladstorm.simulation import devices, layout
from gladstorm.simulation.cluster import executor_of
from gladstorm.simulation.configurations import Configured, by_name, expand
from gladstorm.simulation.fingerprint import fingerprint
from gladstorm.simulation.fitting import Instances, fit_oracles, fit_seeds, require_fit, require_memory
from gladstorm.simulation.layout import Share, cut, lay_out
from gladstorm.simulation.record import CURVES, PER_RUN, Record
from gladstorm.simulation.runs import Arrays, CutShort, Recording, Runs, sampled_steps
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
    """Run one method for K = `steps` steps: iterates x⁰..x^K, estimates v⁰..v^K. The arguments are those of `sweep`.

    A plan of `theory.plan` may stand for its method; it says how many steps there are, and `record.against(plan)`
    compares what was measured with its bound.

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

    oracle: where stochastic gradients come from; a sequence has one for each seed.
    methods: a dict of methods by name, or a list. A method whose numbers are lists is run once for each entry.
    steps: K, the number of steps of every run.
    seeds: how many seeds (0, 1, …), or a list of them. The noise of a run depends only on its seed and step, so all
        methods meet the same noise.
    records: about 2·`records` steps are recorded, evenly and geometrically spaced. Means and minima are over all steps.
    progress: whether to show a progress bar on standard error.
    store: a folder that keeps finished parts. After a kill, or in a second process, the same call computes only what
        is missing. A part takes about two seconds.
    executor: a `dask.distributed.Client` whose workers compute the parts, in place of this process.

    Runs are spread over all of JAX's devices; on a CPU, call `gladstorm.devices.tune()` before the first use of JAX to
    use every core. Ctrl-C and SIGTERM raise `Interrupted`, whose `record` holds all that was recorded until then.

    >>> from gladstorm import BlumGladyshev, nsgdm, objectives, sgd
    >>> oracle = BlumGladyshev(objectives.named("quadratic", dim=2, start=1.0), B=0.1, G=0.1)
    >>> methods = {"NSGDM": nsgdm(gamma=0.01, eta=0.1), "SGD": sgd(gamma=[0.01, 0.1])}
    >>> sweep(oracle, methods, steps=100, seeds=[3, 4]).labels
    ('NSGDM', 'SGD (gamma=0.01)', 'SGD (gamma=0.1)')
    """
    recording = Recording(STEPS.whole("sweep", "steps", steps), COUNT.whole("sweep", "records", records))
    seeds = fit_seeds(seeds)
    instances = fit_oracles(oracle, len(seeds))
    named = by_name(methods)
    runs = sum(map(settings_of, named.values())) * len(seeds)
    require_memory(instances, runs, 1, recording.most, recording.capacity)  # before any of them is made
    configured = expand(named)
    require_fit(instances.first, (method for _, method in configured))
    whole = Runs(instances.oracles, tuple(configured), tuple(seeds), len(seeds), recording)
    work = whole.work(instances.first, len(devices.available()))
    shares = cut(work, recording.steps, np.size(instances.first.objective.start), layout.MEASURED)
    tasks = [_part_of(whole, share) for share in shares]
    largest = max(tasks, key=lambda each: each.weight).work(instances.first, work.devices)
    at_once = max(piece.runs for program in lay_out(largest, layout.MEASURED) for piece in program.pieces)
    require_memory(instances, runs, at_once, recording.most, recording.capacity)
    kept = None if store is None else Store(store, Record, ".parquet", source=source_of(Runs))
    chosen = executor_of(executor)
    jobs = _named(tasks, shares, instances, identified=kept is not None)
    arrays, done = Arrays(len(configured), len(seeds)), 0

    def place(share: Share, found: Record) -> None:
        arrays.place(share.configurations, share.seeds.start, {name: getattr(found, name) for name in _ARRAYS})

    def so_far() -> Record:
        return _record(instances, configured, arrays, seeds, recording)

    with (
        interrupts.sigterm_as_ctrl_c(),
        Progress("simulating", whole.weight) as shown,
        hearing(lambda more: shown(done + more) if progress else None),
    ):
        try:
            for number, found in results(jobs, kept, chosen):
                place(shares[number], found)
                done += tasks[number].weight
                if progress:
                    shown(done)
        except CutShort as interrupt:
            place(shares[tasks.index(interrupt.runs)], interrupt.record)
            raise Interrupted(so_far()) from interrupt
        except KeyboardInterrupt as interrupt:
            raise Interrupted(so_far() if arrays.all else None) from interrupt
    return so_far()


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a sweep. `record` holds the runs that had begun, up to the interrupt; it is None if none had begun.

    `record.reached` is the last recorded step of each run; its curves are NaN after that.
    """

    def __init__(self, record: Record | None) -> None:
        super().__init__()
        self.record = record


_ARRAYS = (*CURVES, *PER_RUN)


def _part_of(whole: Runs, share: Share) -> Runs:
    """The runs of one task."""
    first, last = share.seeds.start, share.seeds.stop
    return Runs(
        whole.oracles if len(whole.oracles) == 1 else whole.oracles[first:last],
        tuple(whole.configured[row] for row in share.configurations),
        whole.seeds[first:last],
        share.shaped_for,
        whole.recording,
    )


def _named(tasks: list[Runs], shares: list[Share], instances: Instances, *, identified: bool) -> list[Task[Record]]:
    """The tasks with names for people and, if they will be kept, what decides them."""
    prints: dict[Any, str | None] = {}
    named = []
    for task, share in zip(tasks, shares, strict=True):
        identity = None
        if identified:
            structures = {jax.tree.structure(method): method for _, method in task.configured}
            for structure, method in structures.items():
                if structure not in prints:
                    prints[structure] = fingerprint(instances.first, method)
            own = slice(share.seeds.start, share.seeds.stop) if len(instances.described) > 1 else slice(1)
            described = instances.described[own]
            identity = task.identity(described) | {
                "traced": [prints[structure] for structure in structures],
                "source": source_of(instances.first, *structures.values()),
            }
        names = list(dict.fromkeys(each.name for each, _ in task.configured))
        among = f"{len(names)} methods" if len(names) > 3 else ", ".join(names)
        seeds = f"seed {task.seeds[0]}" if len(task.seeds) == 1 else f"seeds {task.seeds[0]}–{task.seeds[-1]}"
        named.append(Task(f"{among}, {seeds}", identity, task))
    return named


def _record(
    instances: Instances, configured: list[Configured], arrays: Arrays, seeds: Sequence[int], recording: Recording
) -> Record:
    """All that has been placed, of the configurations of which some run has begun."""
    begun = np.flatnonzero((arrays.all["reached"] >= 0).any(axis=1))
    some = [configured[row] for row in begun]
    objective: Any = instances.first.objective
    tree = getattr(objective, "tree", None)
    names, shapes = (("x",), ((np.size(objective.start),),)) if tree is None else (tree.names, tree.shapes)
    config = {
        "oracle": instances.described[0] if len(instances.described) == 1 else instances.described,
        "methods": {configuration.label: describe(method) for configuration, method in some},
        "x": [{"name": name, "shape": list(shape)} for name, shape in zip(names, shapes, strict=True)],
        "steps": recording.steps,
        "seeds": list(seeds),
        "records": recording.records,
        "f_inf": instances.f_inf,
        "field": instances.first.field,
        "versions": versions(),
    }
    found = arrays.all if len(some) == len(configured) else {name: a[begun] for name, a in arrays.all.items()}
    return Record(
        configurations=tuple(configuration for configuration, _ in some),
        seeds=np.array(seeds, np.int64),
        steps=recording.times,
        sampled_step=sampled_steps(seeds, recording.steps),
        config=config,
        **found,
    )
