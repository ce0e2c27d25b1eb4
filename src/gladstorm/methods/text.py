"""Methods as text: a named one, `nstorm(gamma=5e-3, eta=1e-3)`, or parts, `storm(eta=1e-3)+normalized(gamma=5e-3)`.

Parts are an estimator, a step, and a batch rule if it is not single samples. `anchored(…)` or `weight_decay(…)` after a
step or a named method says what pulls it, and what the method is to report comes last, as in
`sgd(gamma=0.1)+tail-average`. Lists, and `grid(FROM, TO, HOW MANY)`, are crossed: two of them stand for every pair, and
the one written last varies fastest.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from gladstorm.core.calls import Call, Defaults, bind, find_part, read_call, read_calls
from gladstorm.core.names import suggest
from gladstorm.core.screen import shown
from gladstorm.methods import METHODS, Method, averages, batches, estimators, norms, schedules, steps

Maker = Callable[..., Any]  # a named method, or the class of a part
KINDS: tuple[tuple[str, Any], ...] = (("estimator", estimators), ("step", steps), ("batch rule", batches))
PULLS: dict[str, Maker] = {"anchored": steps.Anchored, "weight_decay": steps.WeightDecay}  # of a step, written after it
MOST = 10_000  # numbers of a grid, or settings of a method


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
    make = partial(_make, given=shared, quantities={"grid": grid} | dict(quantities or {}), axes=itertools.count(1))
    calls, average = read_calls("method", text, METHODS), None
    if len(calls) > 1 and (":" in calls[-1].name or calls[-1].name in averages.registry()):
        average = make(calls[-1], averages.registry(), "average")
        calls = calls[:-1] if isinstance(average, averages.Average) else calls
    first, *others = calls
    if others and (others[0].name not in PULLS or first.name in estimators.registry()):
        parts = [make(first, estimators.registry(), "estimator")]
    else:
        method = make(first, {name: METHODS[name].make for name in sorted(METHODS)})
        if not isinstance(method, Method):
            must = "must make a Method, or be joined with other parts by +"
            raise ValueError(f"method: {first.name} {must}; got {shown(method)}.")
        parts, average = [method.estimator, method.step, method.batch], average or method.average
    for call in others:
        if call.name in PULLS and len(parts) > 1:
            parts[1] = make(call, {call.name: partial(PULLS[call.name], parts[1])})
        elif call.name in PULLS or len(parts) == len(KINDS):
            must = "be an estimator, a step, what pulls it, a batch rule and an average, in this order"
            raise ValueError(f"method: parts must {must}; got {call.name} after {len(parts)} of them.")
        else:
            kind, module = KINDS[len(parts)]
            parts.append(make(call, module.registry(), kind))
    if len(parts) < len(KINDS) and "batch" in shared:
        shared.taken.add("batch")
        parts.append(shared["batch"])
    if isinstance(given, Defaults):
        given.taken |= shared.taken
    whole = dataclasses.replace(Method(*parts), average=average if isinstance(average, averages.Average) else None)
    shape = np.broadcast_shapes(*(np.shape(number) for number in jax.tree.leaves(whole)))
    if math.prod(shape) > MOST:
        raise ValueError(f"method: lists must make at most {MOST} settings; got {math.prod(shape)}.")
    crossed: Method = jax.tree.map(
        lambda each: np.broadcast_to(each, shape).ravel("F") if np.ndim(each) else each, whole
    )
    return crossed


def _make(
    call: Call, makers: Mapping[str, Maker], what: str = "", *, given: Defaults, quantities: Any, axes: Iterator[int]
) -> Any:
    """Call what a name stands for, with its own arguments and, for those it leaves out, the given ones."""
    function, call = find_part("method", call, makers, what)

    def value_of(argument: str, value: Any) -> Any:
        kind, what = str(inspect.signature(function).parameters[argument].annotation), f"{argument} of {call.name}"
        nested = batches.registry() if "Batch" in kind else schedules.registry() | quantities
        nested = norms.registry() if kind == "StepNorm" else nested
        name = value.name if isinstance(value, Call) else str(value)
        if name not in nested and ":" not in call.name + name and (isinstance(value, Call) or kind == "StepNorm"):
            must = f"must be {'' if kind == 'StepNorm' else 'a number, a list or '}one of {', '.join(nested)}"
            raise ValueError(f"method: {what} {must}; got {suggest(name, nested)}")
        if isinstance(value, Call):
            value = _make(value, nested, given=given, quantities=quantities, axes=axes)
        elif kind == "BatchRule":
            value = batches.Fixed(value)
        if isinstance(value, list | tuple) and not kind.startswith("tuple"):  # an axis of its own: NumPy crosses lists
            value = np.reshape(np.asarray(value, np.float64), (-1, *[1] * next(axes)))
        return value

    bound = bind("method", call, function, given, value_of)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused by the rule of its part
            return function(*bound.args, **bound.kwargs)
    except (TypeError, ValueError, ArithmeticError) as problem:
        why = str(problem).rstrip(".")
        raise ValueError(f"method: {call.name} cannot compute with these values ({why}); give it others.") from None


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
    return grid(*bind("grid", read_call("grid", f"grid({text})"), grid).args)
