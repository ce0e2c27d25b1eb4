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

LONGEST = 10_000  # characters of a text
EXACT = 2**53  # whole numbers beyond are floats
FORM = "NAME(argument=value, …), for short NAME:value,…, or such parts joined by +"
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

    >>> [call.name for call in read_calls("method", "storm(eta=1e-3) + three-way-clipped")]
    ['storm', 'three_way_clipped']
    >>> read_calls("objective", "power:3") == read_calls("objective", "power(3)")
    True
    """
    if len(text) > LONGEST:
        raise ValueError(f"{owner}: a text must have at most {LONGEST} characters; got {len(text)}.")
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
        return [_call(owner, part) for part in (tree, *parts)]
    except (SyntaxError, UnicodeError, MemoryError, RecursionError):
        raise ValueError(f"{owner}: must be {FORM}; got {shortened(text)!r}.") from None


def read_call(owner: str, text: str, names: Collection[str] = ()) -> Call:
    """Read a text that is one call, as `read_calls` does.

    >>> read_call("oracle", "mine.noise:Mine(B=0.5)")
    Call(name='mine.noise:Mine', arguments={'B': 0.5}, positional=())
    """
    call, *more = read_calls(owner, text, names)
    if more:
        raise ValueError(f"{owner}: must be one part; got {len(more) + 1} joined by +.")
    return call


def _call(owner: str, tree: ast.expr) -> Call:
    function = tree.func if isinstance(tree, ast.Call) else tree
    if not isinstance(function, ast.Name | ast.Attribute):
        raise SyntaxError
    name, keywords, values = ":".join(ast.unparse(function).rsplit(".", 1)), [], []
    if isinstance(tree, ast.Call):
        keywords, values = tree.keywords, tree.args
    arguments = {str(each.arg): _value(owner, f"{each.arg} of {name}", each.value) for each in keywords}
    if len(arguments) < len(keywords):
        raise ValueError(f"{owner}: {name} must get every argument once; got {shortened(ast.unparse(tree))}.")
    return Call(name, arguments, tuple(_value(owner, f"a value of {name}", each) for each in values))


def _value(owner: str, what: str, tree: ast.expr) -> Any:
    if isinstance(tree, ast.Name | ast.Attribute | ast.Call):
        return _call(owner, tree)
    try:
        value = ast.literal_eval(tree)
        listed = value if isinstance(value, list | tuple) else [value]
        if listed and all(type(number) in (int, float) and np.isfinite(float(number)) for number in listed):
            exact = [number if abs(number) <= EXACT else float(number) for number in listed]
            return exact[0] if listed is not value else type(value)(exact)
    except (ValueError, OverflowError):
        pass
    must_be = "must be a number of at most 1.8e308, or several in brackets"
    raise ValueError(f"{owner}: {what} {must_be}; got {shortened(ast.unparse(tree))}.")


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
    signature = inspect.signature(function)
    parameters = {name: each for name, each in signature.parameters.items() if name not in hidden}
    named = [name for name, each in parameters.items() if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    takes = f"{owner}: {call.name} takes {', '.join(named) or 'no arguments'}"
    if unknown := [name for name in call.arguments if name not in named]:
        raise ValueError(f"{takes}; got {suggest(unknown[0], named)}")
    try:
        bound = signature.replace(parameters=[*parameters.values()]).bind_partial(*call.positional, **call.arguments)
    except TypeError as problem:
        raise ValueError(f"{takes}; got {problem}.") from None
    bound.arguments = {name: convert(name, value) for name, value in bound.arguments.items()}
    for name in named:
        if name not in bound.arguments and given is not None and name in given:
            bound.arguments[name] = given[name]
            given.taken.add(name)
        elif name not in bound.arguments and parameters[name].default is inspect.Parameter.empty:
            raise ValueError(f"{owner}: {call.name} needs {name}, as in {call.name}({name}=0.1); got none.")
    return bound
