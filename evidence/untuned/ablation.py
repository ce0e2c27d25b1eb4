"""The purpose of each part of the untuned method: it with one part changed, on the problems it was designed on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from evidence.untuned.development import DEVELOPMENT
from evidence.untuned.judging import reported_norms
from gladstorm import Method, part, sweep
from gladstorm.core.equations import AVERAGED
from gladstorm.jobs.files import write_text
from gladstorm.methods.averages import PolynomialAverage
from gladstorm.methods.estimators import Fresh
from gladstorm.methods.steps import Untuned
from gladstorm.methods.steps.untuned import UntunedState

FILE = "ablation.json"
BUDGETS, SEEDS = (10**3, 10**4), 12
WHOLE, LAST = "the method", "the last iterate reported, not the average"


@part
class SteadyClock(Untuned):
    """Every step counts the same."""

    def _clock(self, memory: UntunedState) -> Any:
        return (memory.k + 1) / self._horizon()


@part
class PatientClock(Untuned):
    """The clock waits while steps agree, and never hurries."""

    def _clock(self, memory: UntunedState) -> Any:
        return super()._clock(memory._replace(z=jnp.maximum(memory.z, 1.0)))


@part
class OneScale(Untuned):
    """One denominator for all coordinates."""

    def _squares(self, squares: Any, u: Any, ratio: Any) -> Any:
        mean = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(u)) / self._dimension(u)
        return super()._squares(squares, jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.sqrt(mean)), u), ratio)


@part
class NeverForgetting(Untuned):
    """All squares count the same, however short the steps were."""

    def _squares(self, squares: Any, u: Any, ratio: Any) -> Any:
        return super()._squares(squares, u, jnp.ones_like(ratio))


@part
class Unlimited(Untuned):
    """r grows as fast as x̄ goes."""

    growth: ClassVar[float] = float("inf")


VARIANTS: dict[str, Untuned] = {
    WHOLE: Untuned(),
    "r grows without a limit": Unlimited(),
    "every step counts the same on the clock": SteadyClock(),
    "the clock never hurries": PatientClock(),
    "one scale for all coordinates": OneScale(),
    "squares are never forgotten": NeverForgetting(),
    "no momentum": Untuned(share=1.0),
    "first length ten times as long": Untuned(first=0.1),
    "first length a tenth": Untuned(first=0.001),
    "a decay of K^(−¼)": Untuned(decay=0.25),
    "a decay of K^(−½)": Untuned(decay=0.5),
}


def run(folder: Path) -> None:
    """Measure every variant on every development problem, unless that is there."""
    if (folder / FILE).exists():
        return
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name, problem in DEVELOPMENT.items():
        oracles = [problem(seed) for seed in range(SEEDS)]
        methods = {
            variant: Method(Fresh(), step, average=PolynomialAverage(AVERAGED)) for variant, step in VARIANTS.items()
        }
        for budget in BUDGETS:
            record = sweep(oracles, methods, steps=budget - 1, seeds=SEEDS, records=1, progress=False)
            ends = reported_norms(record, oracles)
            scores = dict(zip(record.labels, ends.mean(axis=1).tolist(), strict=True))
            last = reported_norms(record["the method"], oracles, last=True)
            results.setdefault(name, {})[str(budget)] = scores | {LAST: float(last.mean())}
            write_text(folder / FILE, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
