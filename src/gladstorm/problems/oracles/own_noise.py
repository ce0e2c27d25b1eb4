"""Oracles whose noise is the problem's own: nothing is added to f."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from gladstorm.problems.objectives import registry as objective_classes
from gladstorm.problems.oracles.oracle import Oracle


class OwnNoise(Oracle):
    """Samples with the problem's own noise: oracle and objective have the same name, and the objective has all numbers.

    Such an objective names its oracle in `own_oracle`. Its `flaw` is a sentence if its numbers do not fit together.
    """

    @override
    @classmethod
    def misfit(cls, objective: Any) -> str | None:
        own = next(name for name, kind in objective_classes().items() if kind.__name__ == cls.__name__)
        if getattr(objective, "own_oracle", None) != own:
            return f"{cls.__name__}: the objective must be {own}, whose noise this is; got {type(objective).__name__}."
        flaw: str | None = objective.flaw
        return flaw
