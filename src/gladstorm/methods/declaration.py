"""What is declared about a named method: where it is from, what it costs, what is known about it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec

from gladstorm.core.markdown import markdown_table
from gladstorm.methods import averages, batches, estimators, schedules, steps
from gladstorm.methods.method import Method

P = ParamSpec("P")


@dataclass(frozen=True)
class Declaration:
    """One named method."""

    name: str
    make: Callable[..., Method]
    source: str
    sfo: str  # stochastic gradients for K steps
    complexity: str  # stochastic gradients for E‖∇f‖ ≤ ε, or "" where this project knows of none
    assumptions: str  # under which

    @property
    def call(self) -> str:
        """How it is written: what has no default by name.

        >>> METHODS["sgd"].call
        'sgd(gamma)'
        """
        return f"{self.name}({', '.join(self.required)})"

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments without a default."""
        parameters = inspect.signature(self.make).parameters.values()
        return tuple(each.name for each in parameters if each.default is inspect.Parameter.empty)

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """The names of its estimator, step, batch rule and average, the last one empty if there is none."""
        method = self.make(**dict.fromkeys(self.required, 1))
        step = method.step
        inner = f"({type(step.step).__name__})" if hasattr(step, "step") else ""
        average = type(method.average).__name__ if method.average else ""
        return type(method.estimator).__name__, type(step).__name__ + inner, type(method.batch).__name__, average

    def as_dict(self) -> dict[str, str]:
        """The declaration as JSON-ready data."""
        estimator, step, batch, average = self.parts
        made_of = {"method": self.call, "estimator": estimator, "step": step, "batch": batch, "average": average}
        known = {"complexity": self.complexity, "assumptions": self.assumptions, "source": self.source}
        return made_of | {"sfo": self.sfo} | known


METHODS: dict[str, Declaration] = {}


def declared(
    *, source: str, sfo: str, complexity: str = "", assumptions: str = ""
) -> Callable[[Callable[P, Method]], Callable[P, Method]]:
    """Declare a function that composes a method."""

    def declare(make: Callable[P, Method]) -> Callable[P, Method]:
        METHODS[make.__name__] = Declaration(make.__name__, make, source, sfo, complexity, assumptions)
        return make

    return declare


COLUMNS = {
    "method": "method",
    "estimator": "estimator",
    "step": "step",
    "batch": "batch",
    "average": "average",
    "sfo": "stochastic gradients",
    "complexity": "known complexity",
    "assumptions": "under",
    "source": "source",
}


def rows() -> list[dict[str, str]]:
    """Every declaration as JSON-ready data, by name."""
    return [METHODS[name].as_dict() for name in sorted(METHODS)]


def part_rows() -> list[dict[str, str]]:
    """Every part a method can be composed of: how it is written, and its equation.

    >>> next(row["meaning"] for row in part_rows() if row["part"] == "momentum(eta)")
    'v^{k+1} = (1 − η) v^k + η ∇f(x^{k+1}; ξ^{k+1}).'
    """
    kinds = {
        "estimator": estimators,
        "step": steps,
        "batch rule": batches,
        "average": averages,
        "schedule": schedules,
    }
    return [
        {"kind": kind, "part": _written(name, cls), "meaning": str(cls.__doc__).partition("\n")[0]}
        for kind, module in kinds.items()
        for name, cls in module.registry().items()
    ]


def _written(name: str, cls: Any) -> str:
    return f"{name.replace('-', '_')}({', '.join(field.name for field in dataclasses.fields(cls))})"


def markdown(*columns: str) -> str:
    """The declarations as a table for a document.

    >>> markdown("method", "sfo").splitlines()[0]
    '| method | stochastic gradients |'
    """
    shown = columns or tuple(COLUMNS)
    return _table([COLUMNS[column] for column in shown], [[row[column] for column in shown] for row in rows()], 0)


def parts_markdown() -> str:
    """The parts as a table for a document."""
    return _table(["kind", "part", "what it is"], [list(row.values()) for row in part_rows()], 1)


def _table(headings: list[str], lines: list[list[str]], code: int) -> str:
    quoted = [[f"`{cell}`" if i == code else cell for i, cell in enumerate(line)] for line in lines]
    return markdown_table(headings, quoted)
