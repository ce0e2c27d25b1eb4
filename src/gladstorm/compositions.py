"""Methods as text: a named one, `nstorm(gamma=5e-3, eta=1e-3)`, or parts, `storm(eta=1e-3)+normalized(gamma=5e-3)`.

Parts are joined by +: an estimator, a step, `anchored(…)` if that step is to be pulled to an anchor, a batch rule if it
is not single samples. Arguments are numbers, lists of them, `grid(FROM, TO, HOW MANY)` for a geometric list, schedules
and batch rules. Lists are crossed: two of them stand for every pair.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from gladstorm import (
    batches,
    estimators,
    scheduled,  # noqa: F401 - importing it makes its methods known
    schedules,
    steps,
)
from gladstorm.methods import METHODS, Method

Made = Callable[..., Any]


def spelled(text: str, given: Mapping[str, Any] | None = None) -> Method:
    """The method a text stands for; `given` has values for the arguments the text leaves out, lists side by side.

    >>> spelled("storm(eta=1e-3)+normalized(gamma=5e-3)").step
    Normalized(gamma=0.005)
    >>> spelled("nsgdm(eta=[0.1, 0.2])", {"gamma": [1, 2]}).step.gamma.tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    try:
        tree = ast.parse(re.sub(r"(?<=[a-z])-(?=[a-z])", "_", text.strip()), mode="eval").body
    except SyntaxError:
        raise ValueError(f"method: must be NAME(argument=number, …), or parts joined by +; got {text!r}.") from None
    lists = [node for node in ast.walk(tree) if _is_list(node)]
    axes = 1 + len(lists)
    reading = _Reading(
        {name: _along(0, axes, value) for name, value in (given or {}).items()},
        {id(node): _along(1 + i, axes, _listed(node)) for i, node in enumerate(lists)},
    )
    return _crossed(reading.method(tree, text))


def grid(text: str) -> list[float]:
    """The numbers FROM,TO,HOW MANY stands for, in equal ratios.

    >>> grid("1e-2,1,3")
    [0.01, 0.1, 1.0]
    """
    try:
        low, high, count = (float(word) for word in text.split(","))
        return _geometric(low, high, count)
    except ValueError:
        raise ValueError(
            f"grid: must be FROM,TO,HOW MANY with 0 < FROM ≤ TO, such as 1e-4,1,9; got {text!r}."
        ) from None


class _Reading:
    """Evaluates a text: `given` fills what it leaves out, `lists` has the numbers of its lists, along their axes."""

    def __init__(self, given: Mapping[str, Any], lists: Mapping[int, np.ndarray]) -> None:
        self.given, self.lists = given, lists

    def method(self, tree: ast.expr, text: str) -> Method:
        pieces = _joined(tree)
        if len(pieces) == 1:
            named = {name: METHODS[name].make for name in sorted(METHODS)}
            made: Method = self.value(tree, named, "must be")
            return made
        kinds: dict[str, Mapping[str, Made]] = {
            "estimator must be": _registry(estimators.registry()),
            "step must be": _registry(steps.registry()),
            "batch rule must be": batches.registry(),
        }
        found: list[Any] = []
        for piece in pieces:
            if _name(piece) == "anchored" and len(found) == 2:
                found[1] = self.value(piece, {"anchored": partial(steps.Anchored, found[1])}, "step must be")
            elif len(found) < len(kinds):
                kind = list(kinds)[len(found)]
                found.append(self.value(piece, kinds[kind], kind))
            else:
                raise ValueError(f"method: parts must be an estimator, a step and a batch rule; got {text!r}.")
        if len(found) < len(kinds) and "batch" in self.given:
            found.append(self.given["batch"])
        return Method(*found)

    def value(self, tree: ast.expr, known: Mapping[str, Made], expected: str) -> Any:
        """What a call, a name, a list or a number stands for; within a call, schedules and batch rules are known."""
        if id(tree) in self.lists:
            return self.lists[id(tree)]
        if isinstance(tree, ast.Constant | ast.Tuple | ast.UnaryOp):
            return _literal(tree)
        name = _name(tree)
        if name not in known:
            raise ValueError(f"method: {expected} one of {', '.join(known)}; got {name!r}.")
        own = {each.arg: each.value for each in tree.keywords} if isinstance(tree, ast.Call) else {}
        takes = inspect.signature(known[name]).parameters
        if isinstance(tree, ast.Call) and (tree.args or not set(own) <= set(takes)):
            wrong = next((repr(arg) for arg in own if arg not in takes), "a value without a name")
            raise ValueError(f"method: {name} takes {', '.join(takes)}, by name; got {wrong}.")
        inner = schedules.registry() | batches.registry()
        values = {
            key: self.value(value, inner, f"{key} of {name} must be a number, a list or")
            for key, value in own.items()
            if key
        }
        for key, parameter in takes.items():
            if key not in values and key in self.given:
                values[key] = self.given[key]
            elif key not in values and parameter.default is inspect.Parameter.empty:
                raise ValueError(f"method: {name} needs {key}, as in {name}({key}=0.1); got none.")
        return known[name](**values)


def _registry(parts: Mapping[str, Any]) -> dict[str, Made]:
    return {name.replace("-", "_"): cls for name, cls in parts.items()}


def _joined(tree: ast.expr) -> list[ast.expr]:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add):
        return [*_joined(tree.left), *_joined(tree.right)]
    return [tree]


def _name(tree: ast.expr) -> str:
    called = tree.func if isinstance(tree, ast.Call) else tree
    return called.id if isinstance(called, ast.Name) else ast.unparse(tree)


def _is_list(node: ast.AST) -> bool:
    return isinstance(node, ast.List) or (isinstance(node, ast.Call) and _name(node) == "grid")


def _listed(node: Any) -> list[float]:
    if isinstance(node, ast.List):
        return [float(_literal(each)) for each in node.elts]
    return grid(",".join(ast.unparse(each) for each in node.args))


def _literal(tree: ast.expr) -> Any:
    """A number, or the numbers of a part's structure, such as the loops of SNVRG."""
    try:
        value = ast.literal_eval(tree)
        return tuple(value) if isinstance(value, tuple) else value + 0
    except (ValueError, TypeError):
        raise ValueError(f"method: an argument must be a number; got {ast.unparse(tree)}.") from None


def _geometric(low: float, high: float, count: float) -> list[float]:
    if not (0 < low <= high < np.inf and count >= 1 and count == int(count)):
        raise ValueError
    return [float(number) for number in np.geomspace(low, high, int(count))]


def _along(axis: int, axes: int, value: Any) -> Any:
    """A list as an array along an axis of its own; anything else as it is."""
    if not isinstance(value, list):
        return value
    return np.asarray(value, np.float64).reshape([-1 if each == axis else 1 for each in range(axes)])


def _crossed(method: Method) -> Method:
    """Arrays along axes of their own as arrays of one length, an entry for each combination."""
    shape = np.broadcast_shapes(*(np.shape(number) for number in jax.tree.leaves(method)))
    crossed: Method = jax.tree.map(
        lambda number: np.broadcast_to(number, shape).ravel() if np.ndim(number) else number, method
    )
    return crossed
