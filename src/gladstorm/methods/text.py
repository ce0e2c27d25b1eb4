"""Methods as text: a named one, `nstorm(gamma=5e-3, eta=1e-3)`, or parts, `storm(eta=1e-3)+normalized(gamma=5e-3)`.

Parts are an estimator, a step, and a batch rule if it is not single samples. `anchored(…)` or `weight_decay(…)` after a
step or a named method says what pulls it, and what the method is to report comes last, as in
`sgd(gamma=0.1)+tail-average`. Lists, and `grid(FROM, TO, HOW MANY)`, are crossed: two of them stand for every pair, and
the one written last varies fastest.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from gladstorm.core.calls import Call, Defaults, bind, find_part, read_call, read_calls
from gladstorm.core.names import suggest
from gladstorm.core.screen import shown
from gladstorm.methods import METHODS, Method, averages, batches, estimators, norms, schedules, steps

Maker = Callable[..., Any]  # a named method, or the class of a part
KINDS: dict[str, Any] = {"estimator": estimators, "step": steps, "batch rule": batches}
PULLS: dict[str, Maker] = {"anchored": steps.Anchored, "weight_decay": steps.WeightDecay}  # of a step, written after it
MOST = 10_000  # numbers of a list, or settings of a method


def parse_method(
    text: str, given: Mapping[str, Any] | None = None, quantities: Mapping[str, Maker] | None = None
) -> Method:
    """Return the method that a text stands for, or raise a ValueError that says what is wrong.

    Args:
        text: A named method, or parts joined by +.
        given: Values for the arguments that the text leaves out, lists side by side. `Defaults` remembers which.
        quantities: Functions that the text may call in place of a number, such as {"twice": lambda x: 2 * x}.

    >>> parse_method("storm(eta=1e-3)+normalized(gamma=5e-3)").step
    Normalized(gamma=0.005, norm=Euclid())
    >>> parse_method("nsgdm(eta=[0.1, 0.2])", {"gamma": [1, 2]}).step.gamma.tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    shared = Defaults({k: np.asarray(v, float) if isinstance(v, list) else v for k, v in (given or {}).items()})
    sizes = [max((np.size(value) for value in shared.values()), default=1)]
    make = partial(_make, sizes=sizes, given=shared, quantities={"grid": grid} | dict(quantities or {}))
    calls, named = read_calls("method", text, METHODS), {name: METHODS[name].make for name in sorted(METHODS)}
    average = None
    if len(calls) > 1 and (":" in calls[-1].name or calls[-1].name in averages.registry()):
        average = make(calls[-1], averages.registry(), "average")
    parts = calls[:-1] if isinstance(average, averages.Average) else calls
    composed = len(parts) > 1 and (parts[1].name not in PULLS or parts[0].name in estimators.registry())
    method = _compose(parts, shared, make) if composed else _pulled(make(parts[0], named), parts[1:], make)
    if not isinstance(method, Method):
        must = "must make a Method, or be joined with other parts by +"
        raise ValueError(f"method: {parts[0].name} {must}; got {shown(method)}.")
    if isinstance(given, Defaults):
        given.taken |= shared.taken
    if math.prod(sizes) > MOST:
        raise ValueError(f"method: lists must make at most {MOST} settings; got {math.prod(sizes)}.")
    method = method if parts is calls else dataclasses.replace(method, average=average)
    shape = np.broadcast_shapes(*(np.shape(number) for number in jax.tree.leaves(method)))
    crossed: Method = jax.tree.map(
        lambda number: np.broadcast_to(number, shape).ravel("F") if np.ndim(number) else number, method
    )
    return crossed


def _pulled(method: Any, calls: list[Call], make: Callable[..., Any]) -> Any:
    """A named method, with what pulls its step."""
    for call in calls:
        step = make(call, {name: partial(pull, method.step) for name, pull in PULLS.items()})
        method = dataclasses.replace(method, step=step)
    return method


def grid(low: float, high: float, count: float) -> list[float]:
    """Return so many numbers from `low` to `high` in equal ratios.

    >>> grid(1e-2, 1, 3)
    [0.01, 0.1, 1.0]
    """
    if not (0 < low <= high and 1 <= count <= MOST and count == int(count)):
        form = f"FROM,TO,HOW MANY with 0 < FROM ≤ TO and at most {MOST} numbers, such as 1e-4,1,9"
        raise ValueError(f"grid: must be {form}; got {low:g},{high:g},{count:g}.")
    return [float(number) for number in np.geomspace(low, high, int(count))]


def parse_grid(text: str) -> list[float]:
    """Return the numbers that FROM,TO,HOW MANY stands for, as in `grid`."""
    bound = bind("grid", read_call("grid", f"grid({text})"), grid)
    return grid(*bound.args)


def _compose(calls: list[Call], given: Defaults, make: Callable[..., Any]) -> Method:
    """An estimator, a step and a batch rule, with what pulls the step to an anchor."""
    parts: list[Any] = []
    for call in calls:
        if call.name in PULLS and len(parts) == 1:
            way_out = "storm(eta=0.1)+normalized(gamma=0.1)+anchored(weight=0.5)"
            raise ValueError(f"method: {call.name} must follow the step that it pulls, as in {way_out}; got no step.")
        if call.name in PULLS and len(parts) == 2:
            parts[1] = make(call, {call.name: partial(PULLS[call.name], parts[1])})
        elif len(parts) < len(KINDS):
            kind = list(KINDS)[len(parts)]
            parts.append(make(call, KINDS[kind].registry(), kind))
        else:
            raise ValueError(f"method: parts must be an estimator, a step and a batch rule; got {len(calls)} parts.")
    if len(parts) < len(KINDS) and "batch" in given:
        given.taken.add("batch")
        parts.append(given["batch"])
    return Method(*parts)


def _make(
    call: Call, makers: Mapping[str, Maker], what: str = "", *, sizes: list[int], given: Defaults, quantities: Any
) -> Any:
    """Call what a name stands for, with its own arguments and, for those it leaves out, the given ones."""
    function, call = find_part("method", call, makers, what)

    def value_of(argument: str, value: Any) -> Any:
        kind = str(inspect.signature(function).parameters[argument].annotation)
        nested = batches.registry() if "Batch" in kind else schedules.registry() | quantities
        if kind == "StepNorm":
            nested = norms.registry()
        own = ":" in call.name or (isinstance(value, Call) and (":" in value.name or value.name in nested))
        wrong = kind == "StepNorm" or isinstance(value, tuple) != kind.startswith("tuple")
        if not own and (wrong or isinstance(value, Call)):
            must = f"must be {'' if kind == 'StepNorm' else 'a number, a list or '}one of {', '.join(nested)}"
            got = suggest(value.name, nested) if isinstance(value, Call) else f"{value!r}."
            raise ValueError(f"method: {argument} of {call.name} {must}; got {got}")
        if isinstance(value, Call):
            value = _make(value, nested, sizes=sizes, given=given, quantities=quantities)
        elif kind == "BatchRule":
            value = batches.Fixed(value)
        if isinstance(value, list):  # along an axis of its own, so that NumPy crosses lists
            sizes.append(len(value))
            value = np.reshape(np.asarray(value, np.float64), (-1, *[1] * (len(sizes) - 1)))
        return value

    bound = bind("method", call, function, given, value_of)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused by the rule of its part
            return function(*bound.args, **bound.kwargs)
    except (TypeError, ValueError, ArithmeticError) as problem:
        why = str(problem).rstrip(".")
        raise ValueError(f"method: {call.name} cannot compute with these values ({why}); give it others.") from None
