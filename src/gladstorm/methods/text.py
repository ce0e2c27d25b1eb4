"""Methods as text: a named one, `nstorm(gamma=5e-3, eta=1e-3)`, or parts, `storm(eta=1e-3)+normalized(gamma=5e-3)`.

Parts are joined by +: an estimator, a step, `anchored(…)` if that step is to be pulled to an anchor, a batch rule if it
is not single samples. What the method is to report may follow either form, as in `sgd(gamma=0.1)+tail-average`.
Arguments are numbers, lists of them, `grid(FROM, TO, HOW MANY)` for a geometric list, schedules and batch rules. Lists
are crossed: two of them stand for every pair, and the one written last varies fastest. `mine:Spring(gamma=0.1)` is a
method, or a part, of your own: `Spring` in mine.py of the current folder, which is imported only then.

A text is read in three passes: `read_calls` takes it apart, `_spread` gives every list an axis of its own, and `_make`
calls what the names stand for.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from gladstorm.core.calls import Call, Defaults, grid, read_calls
from gladstorm.core.names import import_own, is_own, require_known, suggest
from gladstorm.core.screen import shown
from gladstorm.methods import METHODS, Method, averages, batches, estimators, schedules, steps

Maker = Callable[..., Any]  # a named method, or the class of a part

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
MOST_SETTINGS = 10_000  # combinations of the lists of one text


@dataclass(frozen=True)
class ArgumentKind:
    """What an argument may be."""

    words: str
    holds: Callable[[Any], bool]  # of a number, the array of a list, a tuple
    nested: Callable[[], Mapping[str, Maker]] = dict  # what may be called in its place


def _is_numbers(value: Any) -> bool:
    return not isinstance(value, tuple)


KINDS = {  # by the annotation of the parameter
    "Number": ArgumentKind("a number, a list or one of ", _is_numbers, schedules.registry),
    "Tunable": ArgumentKind("a number, a list or one of ", _is_numbers, schedules.registry),
    "BatchSizes": ArgumentKind("a number, a list or one of ", _is_numbers, batches.registry),
    "Numbers": ArgumentKind("a number or a list", _is_numbers),
    "BatchRule": ArgumentKind("one of ", lambda _: False, batches.registry),
    "float": ArgumentKind("one number", lambda value: np.ndim(value) == 0),
    "int": ArgumentKind("one whole number", lambda value: np.ndim(value) == 0 and value == int(value)),
    "tuple[int, ...]": ArgumentKind("numbers in brackets, such as (2, 4)", lambda value: isinstance(value, tuple)),
}
OWN = ArgumentKind(  # whatever the annotation: those of users are their own affair
    "a number, a list, numbers in brackets or one of ",
    lambda _: True,
    lambda: schedules.registry() | batches.registry(),
)
# What no text can hold, and what to do instead.
NOT_AS_TEXT = {
    "Step": "write it after the step it pulls, as in storm(eta=0.1)+normalized(gamma=0.1)+anchored(weight=0.5)",
    "Transformation": "name a method that is made of it, adam(gamma=0.1) or dog, or compose it in Python",
}


def parse_method(text: str, given: Mapping[str, Any] | None = None) -> Method:
    """The method a text stands for.

    Args:
        text: A named method, or parts joined by +.
        given: Values for the arguments that the text leaves out, lists side by side. `Defaults` remembers which.

    Raises:
        ValueError: If the text is no method; the sentence names what is wrong and, of a name, the nearest one.

    >>> parse_method("storm(eta=1e-3)+normalized(gamma=5e-3)").step
    Normalized(gamma=0.005)
    >>> parse_method("nsgdm(eta=[0.1, 0.2])", {"gamma": [1, 2]}).step.gamma.tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    pieces, shared = _spread(read_calls("method", text), given or {})
    average = None
    if len(pieces) > 1 and _is_average(pieces[-1].name):
        average = _make(pieces.pop(), averages.registry(), "average", shared)
    if len(pieces) == 1:
        named = {name: METHODS[name].make for name in sorted(METHODS)}
        method = _make(pieces[0], named, "", shared)
    else:
        method = _compose(pieces, shared)
    if not isinstance(method, Method):
        raise ValueError(
            f"method: {pieces[0].name} must make a Method, or be joined with other parts by +; got {shown(method)}."
        )
    if isinstance(given, Defaults):
        given.taken |= shared.taken
    return _cross(method if average is None else dataclasses.replace(method, average=average))


def _is_average(name: str) -> bool:
    if not is_own(name):
        return name in averages.registry()
    made = import_own("method", name)
    return inspect.isclass(made) and issubclass(made, averages.Average)


def _spread(pieces: list[Call], given: Mapping[str, Any]) -> tuple[list[Call], Defaults]:
    """Every list as an array along an axis of its own, so that NumPy crosses them; the given lists share the first."""
    lists = [value for piece in pieces for value in piece.leaves() if isinstance(value, list)]
    longest = max((len(value) for value in given.values() if isinstance(value, list)), default=1)
    settings = longest * math.prod(len(value) for value in lists)
    if settings > MOST_SETTINGS:
        raise ValueError(f"method: lists must make at most {MOST_SETTINGS} settings; got {settings}.")
    axes = 1 + len(lists)
    numbered: Iterator[int] = itertools.count(1)

    def along(axis: int, values: list[float]) -> np.ndarray:
        return np.asarray(values, np.float64).reshape([-1 if each == axis else 1 for each in range(axes)])

    def spread(value: Any) -> Any:
        return along(next(numbered), value) if isinstance(value, list) else value

    shared = {name: along(0, value) if isinstance(value, list) else value for name, value in given.items()}
    return [piece.map(spread) for piece in pieces], Defaults(shared)


def _compose(pieces: list[Call], given: Defaults) -> Method:
    """An estimator, a step and a batch rule, with what pulls the step to an anchor."""
    kinds: dict[str, Mapping[str, Maker]] = {
        "estimator": _by_identifier(estimators.registry()),
        "step": _by_identifier(steps.registry()),
        "batch rule": batches.registry(),
    }
    if len(pieces) > len(kinds) + 1:
        raise ValueError(f"method: parts must be an estimator, a step and a batch rule; got {len(pieces)} parts.")
    parts: list[Any] = []
    for piece in pieces:
        if piece.name == "anchored" and len(parts) == 2:
            pulled = {"anchored": partial(steps.Anchored, parts[1])}
            parts[1] = _make(piece, pulled, "step", given)
        elif len(parts) < len(kinds):
            kind = list(kinds)[len(parts)]
            parts.append(_make(piece, kinds[kind], kind, given))
        else:
            raise ValueError(
                f"method: parts must be an estimator, a step and a batch rule; got {piece.name!r} after those three."
            )
    if len(parts) < len(kinds) and "batch" in given:
        parts.append(given.take("batch"))
    return Method(*parts)


def _make(piece: Call, known: Mapping[str, Maker], what: str, given: Defaults) -> Any:
    """Call what a name stands for, with its own arguments and, for those it leaves out, the given ones."""
    name, own = piece.name, is_own(piece.name)
    if not own:
        require_known(f"method: {what}".rstrip(), name, known)
    make: Maker = import_own("method", name) if own else known[name]
    takes = inspect.signature(make).parameters
    if unknown := [argument for argument in piece.arguments if argument not in takes]:
        raise ValueError(f"method: {name} takes {', '.join(takes)}, by name; got {suggest(unknown[0], takes)}")
    values: dict[str, Any] = {}
    for argument, parameter in takes.items():
        if not own and (way_out := NOT_AS_TEXT.get(str(parameter.annotation))):
            raise ValueError(f"method: {argument} of {name} cannot be written as text: {way_out}.")
        if argument in piece.arguments:
            kind = OWN if own else KINDS[str(parameter.annotation)]
            values[argument] = _value(piece.arguments[argument], f"{argument} of {name}", kind, given)
        elif argument in given:
            values[argument] = given.take(argument)
        elif parameter.default is parameter.empty and parameter.kind not in VARIADIC:
            raise ValueError(f"method: {name} needs {argument}, as in {name}({argument}=0.1); got none.")
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused by the rule of its part
            return make(**values)
    except (TypeError, ValueError, ArithmeticError) as problem:
        raise ValueError(
            f"method: {name} cannot compute with these values ({str(problem).rstrip('.')}); give it others."
        ) from None


def _value(value: Any, owner: str, kind: ArgumentKind, given: Defaults) -> Any:
    """The value of an argument, if it is of the kind its parameter takes."""
    nested = kind.nested()
    if isinstance(value, Call) and (value.name in nested or (nested and is_own(value.name))):
        return _make(value, nested, owner, given)
    if isinstance(value, Call):
        raise ValueError(f"method: {owner} must be {kind.words}{', '.join(nested)}; got {suggest(value.name, nested)}")
    if not kind.holds(value):
        plain = value.ravel().tolist() if np.ndim(value) > 1 else value
        raise ValueError(f"method: {owner} must be {kind.words}{', '.join(nested)}; got {plain!r}.")
    return value


def _by_identifier(parts: Mapping[str, Any]) -> dict[str, Maker]:
    return {name.replace("-", "_"): cls for name, cls in parts.items()}


def _cross(method: Method) -> Method:
    """Arrays along axes of their own as arrays of one length, an entry for each combination."""
    shape = np.broadcast_shapes(*(np.shape(number) for number in jax.tree.leaves(method)))
    crossed: Method = jax.tree.map(
        lambda number: np.broadcast_to(number, shape).ravel() if np.ndim(number) else number, method
    )
    return crossed


__all__ = ["grid", "parse_method"]
