"""Methods as text: a named one, `nstorm(gamma=5e-3, eta=1e-3)`, or parts, `storm(eta=1e-3)+normalized(gamma=5e-3)`.

`core.calls` reads the language. Parts are joined by +: an estimator, a step, `anchored(…)` if that step is to be pulled
to an anchor, a batch rule if it is not single samples. What the method is to report may follow either form, as in
`sgd(gamma=0.1)+tail-average`. Arguments are numbers, lists of them, `grid(FROM, TO, HOW MANY)` for a geometric list,
schedules and batch rules. Lists are crossed: two of them stand for every pair, and the one written last varies fastest.

`read_calls` takes a text apart and gives every list an axis of its own, `_make` calls what the names stand for, and
NumPy crosses the axes.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from gladstorm.core.calls import Call, Defaults, bind, call_with, find_part, import_own, is_own, read_calls, suggest
from gladstorm.core.screen import shown
from gladstorm.methods import METHODS, Method, averages, batches, estimators, schedules, steps

Maker = Callable[..., Any]  # a named method, or the class of a part


@dataclass(frozen=True)
class ArgumentKind:
    """What an argument may be."""

    words: tuple[str, ...]
    holds: Callable[[Any], bool]  # of a number, the array of a list, a tuple
    nested: Callable[[], Mapping[str, Maker]] = dict  # what may be called in its place


NUMBERS = ArgumentKind(("a number", "a list"), lambda value: not isinstance(value, tuple))
KINDS = {  # by the annotation of the parameter
    "Number": dataclasses.replace(NUMBERS, nested=schedules.registry),
    "Tunable": dataclasses.replace(NUMBERS, nested=schedules.registry),
    "BatchSizes": dataclasses.replace(NUMBERS, nested=batches.registry),
    "Numbers": NUMBERS,
    "BatchRule": ArgumentKind((), lambda _: False, batches.registry),
    "float": ArgumentKind(("one number",), lambda value: np.ndim(value) == 0),
    "int": ArgumentKind(("one whole number",), lambda value: np.ndim(value) == 0 and value == int(value)),
}
OWN = ArgumentKind(  # whatever the annotation: a user's part may have any
    (*NUMBERS.words, "numbers in brackets"), lambda _: True, lambda: schedules.registry() | batches.registry()
)
# What no text can hold, and what to do instead.
NOT_AS_TEXT = {
    "Step": "write it after the step it pulls, as in storm(eta=0.1)+normalized(gamma=0.1)+anchored(weight=0.5)",
    "Transformation": "name a method that is made of it, adam(gamma=0.1) or dog, or compose it in Python",
}


def parse_method(
    text: str, given: Mapping[str, Any] | None = None, quantities: Mapping[str, Maker] | None = None
) -> Method:
    """The method a text stands for.

    Args:
        text: A named method, or parts joined by +.
        given: Values for the arguments that the text leaves out, lists side by side. `Defaults` remembers which.
        quantities: Functions that the text may call in place of a number, such as {"twice": lambda x: 2 * x}.

    Raises:
        ValueError: If the text is no method; the sentence names what is wrong and, of a name, the nearest one.

    >>> parse_method("storm(eta=1e-3)+normalized(gamma=5e-3)").step
    Normalized(gamma=0.005)
    >>> parse_method("nsgdm(eta=[0.1, 0.2])", {"gamma": [1, 2]}).step.gamma.tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    parts = [name for kind in (estimators, steps, batches, averages) for name in kind.registry()]
    lists = {name: np.asarray(value, np.float64) for name, value in (given or {}).items() if isinstance(value, list)}
    shared, longest = Defaults({**(given or {}), **lists}), max(map(len, lists.values()), default=1)
    pieces = read_calls("method", text, {*METHODS, *parts}, longest)
    make = partial(_make, given=shared, quantities=quantities or {})
    average = None
    if len(pieces) > 1 and _is_average(pieces[-1].name):
        average = make(pieces.pop(), averages.registry(), "average")
    if len(pieces) == 1:
        method = make(pieces[0], {name: METHODS[name].make for name in sorted(METHODS)}, "")
    else:
        method = _compose(pieces, shared, make)
    if not isinstance(method, Method):
        raise ValueError(
            f"method: {pieces[0].name} must make a Method, or be joined with other parts by +; got {shown(method)}."
        )
    if isinstance(given, Defaults):
        given.taken |= shared.taken
    method = method if average is None else dataclasses.replace(method, average=average)
    shape = np.broadcast_shapes(*(np.shape(number) for number in jax.tree.leaves(method)))
    crossed: Method = jax.tree.map(
        lambda number: np.broadcast_to(number, shape).ravel("F") if np.ndim(number) else number, method
    )
    return crossed


def _is_average(name: str) -> bool:
    if not is_own(name):
        return name in averages.registry()
    made = import_own("method", name)
    return inspect.isclass(made) and issubclass(made, averages.Average)


def _compose(pieces: list[Call], given: Defaults, make: Callable[[Call, Mapping[str, Maker], str], Any]) -> Method:
    """An estimator, a step and a batch rule, with what pulls the step to an anchor."""
    kinds: dict[str, Mapping[str, Maker]] = {
        "estimator": estimators.registry(),
        "step": steps.registry(),
        "batch rule": batches.registry(),
    }
    if len(pieces) > len(kinds) + 1:
        raise ValueError(f"method: parts must be an estimator, a step and a batch rule; got {len(pieces)} parts.")
    parts: list[Any] = []
    for piece in pieces:
        if piece.name == "anchored" and len(parts) == 2:
            parts[1] = make(piece, {"anchored": partial(steps.Anchored, parts[1])}, "step")
        elif len(parts) < len(kinds):
            kind = list(kinds)[len(parts)]
            parts.append(make(piece, kinds[kind], kind))
        else:
            raise ValueError(
                f"method: parts must be an estimator, a step and a batch rule; got {piece.name!r} after those three."
            )
    if len(parts) < len(kinds) and "batch" in given:
        parts.append(given.take("batch"))
    return Method(*parts)


def _make(piece: Call, known: Mapping[str, Maker], what: str, given: Defaults, quantities: Mapping[str, Maker]) -> Any:
    """Call what a name stands for, with its own arguments and, for those it leaves out, the given ones."""
    make, piece = find_part("method", piece, known, what)
    name, of_user = piece.name, is_own(piece.name)
    takes = inspect.signature(make).parameters
    for argument, parameter in takes.items():
        if not of_user and (way_out := NOT_AS_TEXT.get(str(parameter.annotation))):
            raise ValueError(f"method: {argument} of {name} cannot be written as text: {way_out}.")

    def value_of(argument: str, written: Any) -> Any:
        kind = OWN if of_user else KINDS[str(takes[argument].annotation)]
        return _value(written, f"{argument} of {name}", kind, given, quantities)

    values = bind("method", piece, takes, value_of, given)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused by the rule of its part
            return call_with(make, values)
    except (TypeError, ValueError, ArithmeticError) as problem:
        raise ValueError(
            f"method: {name} cannot compute with these values ({str(problem).rstrip('.')}); give it others."
        ) from None


def _value(value: Any, owner: str, kind: ArgumentKind, given: Defaults, quantities: Mapping[str, Maker]) -> Any:
    """The value of an argument, if it is of the kind its parameter takes."""
    nested = {**kind.nested(), **(quantities if kind.holds(1.0) else {})}
    if isinstance(value, Call) and (value.name in nested or (nested and is_own(value.name))):
        return _make(value, nested, owner, given, quantities)
    if not isinstance(value, Call) and kind.holds(value):
        return value
    *others, last = *kind.words, *([f"one of {', '.join(nested)}"] if nested else [])
    words = f"{', '.join(others)} or {last}" if others else last
    plain = value.ravel().tolist() if isinstance(value, np.ndarray) else value
    got = suggest(value.name, nested) if isinstance(value, Call) else f"{plain!r}."
    raise ValueError(f"method: {owner} must be {words}; got {got}")
