"""Methods on one problem at an equal budget of stochastic gradients, each tuned over equally many settings.

A setting is chosen on seeds of its own and reported on others. The score is ‖∇f‖ where a method says the solution is
when the budget is spent: at its last iterate, or at its average if it has one. f there is reported beside it: a small
‖∇f‖ can be found at the wrong stationary point.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gladstorm.comparison.budget import alike, pilot, require_a_first_step, setting, spend
from gladstorm.comparison.compared import Compared
from gladstorm.comparison.scores import reported_scores
from gladstorm.core.calls import Defaults
from gladstorm.core.parts import describe
from gladstorm.core.rules import COUNT
from gladstorm.core.screen import shown
from gladstorm.jobs.progress import log
from gladstorm.jobs.provenance import versions
from gladstorm.methods import Method, with_decay
from gladstorm.methods.method import settings_of
from gladstorm.methods.text import parse_method
from gladstorm.problems import objectives
from gladstorm.problems.oracles import Oracle, Recipe
from gladstorm.simulation.cluster import choose_executor
from gladstorm.simulation.runs import Recording
from gladstorm.simulation.simulate import sweep
from gladstorm.simulation.validation import require_compatible, require_memory, validate_method, validate_oracles

FIRST_TUNING_SEED = 1_000_000  # far from the seeds that are reported


class ComparisonInterrupted(KeyboardInterrupt):
    """Ctrl-C during a comparison; `finished` holds the results of the methods that had ended."""

    def __init__(self, finished: dict[str, Compared]) -> None:
        super().__init__()
        self.finished = finished


def compare(
    oracle: Oracle | Callable[[int], Oracle],
    methods: Mapping[str, Method],
    *,
    budget: int,
    seeds: int = 10,
    tuning_seeds: int = 3,
    progress: bool = True,
    store: str | os.PathLike[str] | None = None,
    executor: Any = None,
) -> dict[str, Compared]:
    """Tune every method, then run it on new seeds, all within the same budget of stochastic gradients.

    Args:
        oracle: where stochastic gradients come from, or a function from a seed to it, so that every seed has its own
            start. With one start for all, steps of a fixed length may be lucky on every seed.
        methods: a dict of methods by name. Lists among a method's numbers are its settings; the best one is reported.
            All methods must have equally many settings, or just one, so that none has more chances to be lucky.
        budget: the number of stochastic gradients that each run may evaluate. A decay ends with the budget;
            `with_decay(method, [0, 1])` tries every setting without and with a linear decay.
        seeds: how many seeds are reported.
        tuning_seeds: how many other seeds choose the setting.
        progress, store, executor: as in `sweep`.

    Returns:
        The runs and scores of each method, by its name.

    Raises:
        ComparisonInterrupted: on Ctrl-C; its `finished` holds the results of the methods that had ended.

    >>> from gladstorm import BlumGladyshev, nsgdm, objectives
    >>> def problem(seed):
    ...     return BlumGladyshev(objectives.named("power:3", seed=seed), B=0.1, G=0.1)
    >>> results = compare(problem, {"NSGDM": nsgdm([1e-3, 1e-2], 0.1)}, budget=200, seeds=2)
    >>> results["NSGDM"].as_dict()["sfo"]["mean"]
    200.0
    """
    counted = (("budget", budget), ("seeds", seeds), ("tuning_seeds", tuning_seeds))
    budget, seeds, tuning_seeds = (COUNT.whole("compare", name, count) for name, count in counted)
    given: Any = methods
    if not isinstance(given, Mapping) or not all(isinstance(method, Method) for method in given.values() or [None]):
        raise ValueError(f"compare: methods must be Method objects such as nsgdm(...) by name; got {shown(methods)}.")
    instances = validate_oracles([oracle(0) if callable(oracle) else oracle], 1)
    methods = {name: validate_method(method) for name, method in methods.items()}
    require_compatible(instances.first, (setting(method, 0) for method in methods.values()))
    counts = {name: settings_of(method) for name, method in methods.items()}
    if len({count for count in counts.values() if count > 1}) > 1:
        listed = ", ".join(f"{count} for {name}" for name, count in counts.items())
        raise ValueError(f"compare: all methods must have equally many settings, or just one; got {listed}.")
    require_a_first_step(instances.first, methods, budget)
    runs_kept, times = tuning_seeds * sum(counts.values()) + seeds * len(methods), Recording(pilot(budget)).most
    require_memory(instances, runs_kept, times, times)
    results: dict[str, Compared] = {}
    apart = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + tuning_seeds)
    simulate = partial(sweep, progress=progress, store=store, executor=choose_executor(executor))
    of_seeds = [[oracle(seed) for seed in some] if callable(oracle) else oracle for some in (apart, range(seeds))]
    tune, report = (partial(simulate, oracles) for oracles in of_seeds)
    try:
        for group in alike(instances.first, methods):
            if progress:
                log(f"compare: {len(group)} of {len(methods)} methods, {', '.join(group)} …")
            tuning = spend(tune, group, budget, apart)
            rows = {name: int(np.argmin(reported_scores(tuning[name], budget))) for name in group}
            chosen = {tuning[name].labels[row]: setting(group[name], row) for name, row in rows.items()}
            runs = dict(zip(group, spend(report, chosen, budget, range(seeds)).values(), strict=True))
            results |= {name: Compared(tuning[name], runs[name], budget) for name in group}
    except KeyboardInterrupt as interrupt:
        raise ComparisonInterrupted(results) from interrupt
    return {name: results[name] for name in methods}


def from_random_starts(
    recipe: Recipe, spec: str, instance: Any, dim: int | None = None, *, stretch: float = 1.0
) -> Callable[[int], Oracle]:
    """An instance of a problem from random starts: its oracle as a function of the seed, which draws x⁰.

    From one start for all, a step of fixed length visits the same lattice on every seed: on |x|³ from exactly 5 a
    method can end at 1e-11 that ends at 0.02 from anywhere else.

    Args:
        recipe: which oracle.
        spec: the objective's text; starts are drawn as it draws them.
        instance: the objective.
        dim: its dimension, if `spec` leaves it open.
        stretch: a factor of x⁰: below 1 starts are nearer to the origin, above 1 farther.
    """

    def of_seed(seed: int) -> Oracle:
        start = stretch * np.asarray(objectives.named(spec, seed=seed, dim=dim).start)
        return recipe.of(dataclasses.replace(instance, start=start))

    return of_seed


def methods_from(
    texts: Sequence[str], gammas: Sequence[float], given: Mapping[str, Any], *, decay: bool = False
) -> dict[str, Method]:
    """The methods of some texts; those that leave γ out get all of `gammas`, and others of `given` what they need.

    With `decay` each that has several settings has all of them twice: as they are, and with γ decaying linearly to 0.
    """
    if repeated := [text for text in texts if texts.count(text) > 1]:
        raise ValueError(f"compare: every method must be given once; got {repeated[0]!r} {len(repeated)} times.")
    given = given if isinstance(given, Defaults) else Defaults(given)
    given["gamma"] = np.array(gammas)
    methods = {text: parse_method(text, given) for text in texts}
    return {
        text: with_decay(method, [0, 1]) if decay and settings_of(method) > 1 else method
        for text, method in methods.items()
    }


def configured(
    oracle: Oracle | Callable[[int], Oracle], results: Mapping[str, Compared], budget: int
) -> dict[str, Any]:
    """Return the configuration of a comparison, JSON-ready; of an oracle for each seed, that of seed 0."""
    return {
        "oracle": describe(oracle(0) if callable(oracle) else oracle),
        "starts": "one for each seed" if callable(oracle) else "one for all seeds",
        "budget": budget,
        "seeds": next((result.record.seeds.tolist() for result in results.values()), []),
        "tuning_seeds": next((result.tuning.seeds.tolist() for result in results.values()), []),
        "versions": versions(),
    }
