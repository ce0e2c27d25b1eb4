"""Methods, oracles and objectives as text: NAME(value, argument=value, …), parts joined by +, read by Python's parser.

NAME:value,value is short for NAME(value,value), and MODULE:NAME(…) is a part of the user's own. A value is a number, a
list or a tuple of numbers, or a call. `read_calls` takes a text apart, `bind` says what a call stands for.
"""

import ast
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from gladstorm.core.extras import import_own
from gladstorm.core.names import require_known, shortened, suggest

FORM = "NAME(argument=value, …) with numbers, lists of numbers or calls, NAME:value,…, or parts of a method joined by +"
LISTS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Defaults(dict[str, Any]):
    """Values for arguments that texts leave out, lists as arrays; `taken` has the names of those that were left out."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(
            {key: np.array(each, float) if isinstance(each, list) else each for key, each in values.items()}
        )
        self.taken: set[str] = set()


def read_calls(owner: str, text: str, names: Collection[str] = (), most: int = 1) -> list[ast.expr]:
    """Read a text of at most so many parts; `owner` is for errors. After one of the `names`, a colon begins its values.

    >>> [name_of(call) for call in read_calls("method", "storm(eta=1) + three-way", most=2)]
    ['storm', 'three_way']
    """
    written = re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", "_", text.strip())
    name, colon, values = written.partition(":")
    if colon and (name in {each.replace("-", "_") for each in names} or not values[:1].isalpha()):
        written = f"{name}({values})"
    try:
        with warnings.catch_warnings(action="ignore"):  # of Python, about spaces that are missing
            compile(source := written.replace(":", "."), "", "eval")  # it alone refuses an argument that comes twice
        calls = [ast.parse(source, mode="eval").body]
        while isinstance(joined := calls[0], ast.BinOp) and isinstance(joined.op, ast.Add):
            calls[:1] = [joined.left, joined.right]
        if len(calls) <= most and all(map(name_of, calls)):
            return calls
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        pass
    raise ValueError(f"{owner}: must be {FORM}; got {shortened(text)!r}.")


def name_of(call: ast.expr) -> str:
    """The NAME or MODULE:NAME of a call, with or without arguments; nothing of what is no call."""
    function = call.func if isinstance(call, ast.Call) else call
    return ":".join(ast.unparse(function).rsplit(".", 1)) if isinstance(function, ast.Name | ast.Attribute) else ""


def numbers_of(whose: str, written: ast.expr, several: bool = True) -> Any:
    """Return the finite number, or several, that is written; an error says `whose` it is."""
    try:
        value = ast.literal_eval(written)
        numbers = value if several and isinstance(value, list | tuple) else [value]
        if numbers and all(type(number) in (int, float) and abs(number) <= sys.float_info.max for number in numbers):
            return value
    except ValueError:
        pass
    must = "a finite number, or a list of such" if several else "one number"
    raise ValueError(f"{whose} must be {must}; got {shortened(ast.unparse(written))!r}.")


def bind(
    owner: str,
    call: ast.expr,
    makers: Mapping[str, Any],
    convert: Callable[[str, inspect.Parameter, Any], Any],
    given: Defaults,
    hidden: Collection[str] = (),
    made_by: str = "",
) -> tuple[str, Any, inspect.BoundArguments]:
    """Find a call's name among the makers, or import it, and bind its arguments to those that are not `hidden`.

    `convert` makes a value of whose it is, the parameter and what is written; `given` has values for what is left out.
    `made_by` is the class method, if there is one, that takes them. A ValueError says what is unknown, given twice, or
    missing.
    """
    written, whose = name_of(call) or ast.unparse(call), owner.partition(":")[0]
    name = {each.replace("-", "_"): each for each in makers}.get(written, written)
    if ":" not in name:
        require_known(owner, name, makers)
    maker = import_own(whose, name) if ":" in name else makers[name]
    signature = inspect.signature(getattr(maker, made_by, maker))
    parameters = {key: each for key, each in signature.parameters.items() if key not in hidden}
    takes = f"{whose}: {name} takes {', '.join(parameters) or 'no arguments'}"
    values, keywords = (call.args, call.keywords) if isinstance(call, ast.Call) else ([], [])
    arguments = {str(each.arg): each.value for each in keywords}
    if unknown := [key for key in arguments if key not in parameters]:
        raise ValueError(f"{takes}; got {suggest(unknown[0], parameters)}")
    try:
        bound = inspect.Signature(list(parameters.values())).bind_partial(*values, **arguments)
    except TypeError as problem:
        raise ValueError(f"{takes}; got {problem}.") from None
    for key, parameter in parameters.items():
        if key in bound.arguments:
            bound.arguments[key] = convert(f"{whose}: {key} of {name}", parameter, bound.arguments[key])
        elif key in given:
            bound.arguments[key] = given[key]
            given.taken.add(key)
        elif parameter.default is parameter.empty and parameter.kind not in LISTS:
            raise ValueError(f"{whose}: {name} needs {key}, as in {name}({key}=0.1); got none.")
    return name, maker, bound
