"""Methods, oracles and objectives as text: NAME(value, argument=value, …), parts joined by +, read by Python's parser.

NAME:value,value is short for NAME(value,value), and MODULE:NAME(…) is a part of the user's own. A value is a number, a
list or a tuple of numbers, or a call. `read_calls` takes a text apart, `find_part` and `bind` say what it stands for.
"""

import ast
import inspect
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from gladstorm.core.extras import import_own
from gladstorm.core.names import require_known, shortened, suggest

FORM = "NAME(argument=value, …) with numbers, lists of numbers or calls, NAME:value,…, or such parts joined by +"
LISTS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_OWN = re.compile(r"\b([A-Za-z_][\w.]*):([A-Za-z_]\w*)")  # MODULE:NAME


class Call(NamedTuple):
    """A name with its arguments: numbers, lists and tuples of numbers, or calls themselves."""

    name: str
    arguments: dict[str, Any]
    positional: tuple[Any, ...]


class Defaults(dict[str, Any]):
    """Values for arguments that texts leave out; `taken` has the names of those that a text has left out."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.taken: set[str] = set()


def read_calls(owner: str, text: str, names: Collection[str] = ()) -> list[Call]:
    """Read a text; `owner` is whose text it is, for errors. After one of the `names`, a colon begins its values.

    >>> read_calls("objective", "power:3"), [call.name for call in read_calls("method", "storm(eta=1) + three-way")]
    ([Call(name='power', arguments={}, positional=(3,))], ['storm', 'three_way'])
    """
    written = re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", "_", text.strip())
    name, colon, values = written.partition(":")
    if colon and (name in {each.replace("-", "_") for each in names} or not _OWN.search(written)):
        written = f"{name}({values})"
    try:
        with warnings.catch_warnings():  # of Python, about spaces that are missing
            warnings.simplefilter("ignore")
            tree = ast.parse(_OWN.sub(r"\1.\2", written), mode="eval").body
        parts: list[ast.expr] = []
        while isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add):
            parts.insert(0, tree.right)
            tree = tree.left
        calls = [_value(part) for part in (tree, *parts)]
        if all(isinstance(call, Call) for call in calls):
            return calls
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
        pass
    raise ValueError(f"{owner}: must be {FORM}; got {shortened(text)!r}.")


def read_call(owner: str, text: str, names: Collection[str] = ()) -> Call:
    """Read a text that is one call, as `read_calls` does."""
    call, *more = read_calls(owner, text, names)
    if more:
        raise ValueError(f"{owner}: must be one part; got {len(more) + 1} joined by +.")
    return call


def _value(tree: ast.expr) -> Any:
    """A call, a number or several; a ValueError if it is none of these."""
    function = tree.func if isinstance(tree, ast.Call) else tree
    if isinstance(function, ast.Name | ast.Attribute):
        keywords, values = (tree.keywords, tree.args) if isinstance(tree, ast.Call) else ([], [])
        arguments = {str(each.arg): _value(each.value) for each in keywords}
        if len(arguments) < len(keywords):
            raise ValueError("an argument is given twice")
        return Call(":".join(ast.unparse(function).rsplit(".", 1)), arguments, tuple(map(_value, values)))
    value = ast.literal_eval(tree)
    numbers = value if isinstance(value, list | tuple) else [value]
    if not numbers or not all(type(number) in (int, float) and np.isfinite(float(number)) for number in numbers):
        raise ValueError("it must be a number, or several")
    return value


def find_part(owner: str, call: Call, names: Mapping[str, Any], what: str = "") -> tuple[Any, Call]:
    """Return what the name of a call stands for, MODULE:NAME or a part of that name, and the call by it."""
    if ":" in call.name:
        return import_own(owner, call.name), call
    name = {each.replace("-", "_"): each for each in names}.get(call.name, call.name)
    require_known(f"{owner}: {what}".rstrip(), name, names)
    return names[name], call._replace(name=name)


def bind(
    owner: str,
    call: Call,
    function: Callable[..., Any],
    given: Defaults | None = None,
    convert: Callable[[str, Any], Any] = lambda _, value: value,
    hidden: Collection[str] = (),
) -> inspect.BoundArguments:
    """Bind the arguments of a call to a function's; a ValueError if one is unknown, given twice, or missing.

    `convert` makes a value of an argument's name and what is written. `given` has values for arguments that are left
    out. The `hidden` arguments cannot be written.
    """
    whole = inspect.signature(function)
    signature = whole.replace(parameters=[each for each in whole.parameters.values() if each.name not in hidden])
    takes = f"{owner}: {call.name} takes {', '.join(signature.parameters) or 'no arguments'}"
    if unknown := [name for name in call.arguments if name not in signature.parameters]:
        raise ValueError(f"{takes}; got {suggest(unknown[0], signature.parameters)}")
    try:
        bound = signature.bind_partial(*call.positional, **call.arguments)
    except TypeError as problem:
        raise ValueError(f"{takes}; got {problem}.") from None
    bound.arguments = {name: convert(name, value) for name, value in bound.arguments.items()}
    for name, parameter in signature.parameters.items():
        if name not in bound.arguments and given is not None and name in given:
            bound.arguments[name] = given[name]
            given.taken.add(name)
        elif name not in bound.arguments and parameter.default is parameter.empty and parameter.kind not in LISTS:
            raise ValueError(f"{owner}: {call.name} needs {name}, as in {call.name}({name}=0.1); got none.")
    return bound
