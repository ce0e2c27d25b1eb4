"""Methods as text: a named one, `nstorm(gamma=5e-3, eta=1e-3)`, or parts, `storm(eta=1e-3)+normalized(gamma=5e-3)`.

Parts are an estimator, a step, and a batch rule if it is not single samples. `anchored(…)` or `weight_decay(…)` after a
step or a named method says what pulls it, and what the method is to report comes last, as in
`sgd(gamma=0.1)+tail-average`. Lists, and `grid(FROM, TO, HOW MANY)`, are crossed: two of them stand for every pair, and
the one written last varies fastest.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter
from typing import Any

import jax
import numpy as np

from gladstorm.core.calls import Defaults, bind, name_of, numbers_of, read_calls
from gladstorm.core.screen import shown
from gladstorm.methods import METHODS, Method, averages, batches, estimators, norms, schedules, steps

KINDS: dict[str, Any] = {"estimator": estimators, "step": steps, "batch": batches, "average": averages}  # in this order
PULLS: dict[str, Any] = {"anchored": steps.Anchored, "weight_decay": steps.WeightDecay}  # of a step, written after it
MOST = 10_000  # numbers of a grid, settings of a method, or parts


def parse_method(
    text: str, given: Mapping[str, Any] | None = None, quantities: Mapping[str, Callable[..., Any]] | None = None
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
    shared = given if isinstance(given, Defaults) else Defaults(given or {})
    make = partial(_make, given=shared, quantities={"grid": grid} | dict(quantities or {}), axes=itertools.count(1))
    first, *others = read_calls("method", text, METHODS, MOST)
    if others and (name_of(first) not in METHODS or name_of(others[0]) not in PULLS | averages.registry()):
        whole = make("method: estimator", first, estimators.registry())
    else:
        whole = make("method:", first, {name: METHODS[name].make for name in sorted(METHODS)})
    fields = dict(vars(whole)) if isinstance(whole, Method) else {"estimator": whole}
    average = fields.pop("average", None)
    for call in others:
        kinds = [kind for kind in KINDS if kind not in fields] if "step" in fields else ["step"]
        if name_of(call) in PULLS and "step" in fields:
            pulls = {name: partial(pull, fields["step"]) for name, pull in PULLS.items()}
            fields["step"] = make("method:", call, pulls)
        elif kinds:
            makers = {name: maker for kind in kinds for name, maker in KINDS[kind].registry().items()}
            part = make(f"method: {' or '.join(kinds)}", call, makers)
            fields["average" if isinstance(part, averages.Average) else kinds[0]] = part
        else:
            raise ValueError(f"method: parts must be {', '.join(KINDS)}, one of each; got {name_of(call)} after all.")
    if "step" not in fields:
        must = "must make a Method, or be joined with other parts by +"
        raise ValueError(f"method: {name_of(first)} {must}; got {shown(whole)}.")
    method = Method(**{"average": average} | fields)
    shape = np.broadcast_shapes(*(np.shape(number) for number in jax.tree.leaves(method)))
    if math.prod(shape) > MOST:
        raise ValueError(f"method: lists must make at most {MOST} settings; got {math.prod(shape)}.")
    crossed: Method = jax.tree.map(lambda n: np.broadcast_to(n, shape).ravel("F") if np.ndim(n) else n, method)
    return crossed


def _make(owner: str, call: ast.expr, makers: Mapping[str, Any], **shared: Any) -> Any:
    """Call what a name stands for, with its own arguments and, for those it leaves out, the given ones."""

    def value_of(whose: str, parameter: Parameter, written: ast.expr) -> Any:
        kind = str(parameter.annotation)
        if name_of(written) or kind == "StepNorm":
            nested = norms if kind == "StepNorm" else batches if "Batch" in kind else schedules
            whose += "" if kind == "StepNorm" else ", if no number,"
            value = _make(whose, written, nested.registry() | shared["quantities"], **shared)
        else:
            value = numbers_of(whose, written)
        if isinstance(value, list | tuple) and not kind.startswith("tuple"):  # an axis of its own: NumPy crosses lists
            value = np.reshape(np.asarray(value, np.float64), (-1, *[1] * next(shared["axes"])))
        if kind == "BatchRule" and not isinstance(value, batches.BatchRule):
            value = batches.Fixed(value)
        return value

    name, function, bound = bind(owner, call, makers, value_of, shared["given"])
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused by the rule of its part
            return function(*bound.args, **bound.kwargs)
    except (TypeError, ValueError, ArithmeticError) as problem:
        why = str(problem).rstrip(".")
        raise ValueError(f"method: {name} cannot compute with these values ({why}); give it others.") from None


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
    (call,) = read_calls("grid", f"grid({text})")
    return grid(
        *bind("grid:", call, {"grid": grid}, lambda whose, _, value: numbers_of(whose, value), Defaults({}))[2].args
    )
