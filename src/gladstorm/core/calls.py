"""The language of the command line for methods, oracles and objectives: NAME(argument=value, …), parts joined by +.

`NAME:value,value` is short for `NAME(value,value)`, values in the order of the arguments. `MODULE:NAME(…)` is a part of
the user's own. Python's parser reads each call, so numbers and lists are written as in Python; nothing is evaluated.
`read_calls` takes a text apart, `find_part` says what a name stands for, and `bind` gives it its arguments.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import math
import re
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 10_000  # characters of a text
MOST_NUMBERS = 10_000  # of a list, or of the combinations of several
EXACT = 2**53  # whole numbers beyond are floats
FORM = "NAME(argument=value, …), for short NAME:value,…"
_OWN = re.compile(r"\b([A-Za-z_][\w.]*):([A-Za-z_]\w*)")  # MODULE:NAME
_OWN_PART = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\s*(\(.*)?", re.DOTALL)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Call:
    """NAME(value, …, argument=value, …); a value is a number, a tuple or an array of numbers, or a call itself.

    The lists of a text are arrays along axes of their own, so that NumPy crosses them: the first along the last axis
    but one, the next along the axis before that.
    """

    name: str
    arguments: dict[str, Any]
    positional: tuple[Any, ...] = ()


class Defaults(dict[str, Any]):
    """Values for arguments that texts leave out. `taken` has the names of those that a text has left out."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self.taken: set[str] = set()

    def take(self, name: str) -> Any:
        """The value of an argument that a text leaves out."""
        self.taken.add(name)
        return self[name]


def read_call(owner: str, text: str, known: Collection[str] = ()) -> Call:
    """Read a text that is one call; `owner` is whose text it is, for errors.

    After one of the `known` names, a colon is never that of MODULE:NAME.

    >>> read_call("oracle", "blum-gladyshev(B=0.5)")
    Call(name='blum_gladyshev', arguments={'B': 0.5}, positional=())
    >>> read_call("objective", "power:3") == read_call("objective", "power(3)")
    True
    >>> read_call("oracle", "mine.noise:Mine(B=0.5)").name
    'mine.noise:Mine'
    """
    return _Reader(owner, text, FORM, [1]).call_of(text, known)


def read_calls(owner: str, text: str, known: Collection[str] = (), beside: int = 1) -> list[Call]:
    """Read the calls of a text that are joined by plus signs; the arguments are those of `read_call`.

    `beside` is how many settings its lists are crossed with, along the last axis.

    >>> [call.name for call in read_calls("method", "storm(eta=1e-3) + three-way-clipped")]
    ['storm', 'three_way_clipped']
    """
    pieces, depth = [""], 0
    for place, character in enumerate(text):  # cut at the plus signs outside brackets, but for those of 1e+3
        depth += (character in "([") - (character in ")]")
        in_number = re.search(r"\d\.?[eE]$", pieces[-1][-3:]) and text[place + 1 : place + 2].isdigit()
        if character == "+" and depth == 0 and not in_number:
            pieces.append("")
        else:
            pieces[-1] += character
    reader = _Reader(owner, text, f"{FORM}, or parts joined by +", [beside])
    calls = [reader.call_of(piece, known) for piece in pieces]
    if (settings := math.prod(reader.sizes)) > MOST_NUMBERS:
        raise ValueError(f"{owner}: lists must make at most {MOST_NUMBERS} settings; got {settings}.")
    return calls


def find_part(owner: str, call: Call, known: Mapping[str, Any], what: str = "") -> tuple[Any, Call]:
    """What the name of a call stands for, one of the known parts or what MODULE:NAME is, and the call with that name.

    In a name, - and _ count as the same. The error where there is none says `what` it must be, and the nearest name.
    """
    if is_own(call.name):
        return import_own(owner, call.name), call
    name = {other.replace("-", "_"): other for other in known}.get(call.name, call.name)
    require_known(f"{owner}: {what}".rstrip(), name, known)
    return known[name], replace(call, name=name)


def bind(
    owner: str,
    call: Call,
    takes: Mapping[str, inspect.Parameter],
    convert: Callable[[str, Any], Any],
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The arguments of a call by name; a ValueError if one is unknown, given twice, or missing.

    `takes` are the parameters of what is called. `convert` makes a value of an argument's name and what is written.
    `given` has values for arguments that are left out; `Defaults` remembers which.
    """
    names = [name for name, parameter in takes.items() if parameter.kind not in _VARIADIC]
    ordered = [name for name in names if takes[name].kind is not inspect.Parameter.KEYWORD_ONLY]
    rest = next((name for name, parameter in takes.items() if parameter.kind is inspect.Parameter.VAR_POSITIONAL), None)
    more = call.positional[len(ordered) :]
    if more and rest is None:
        most = f"at most {len(ordered)} of its arguments" if ordered else "no values"
        raise ValueError(f"{owner}: {call.name} takes {most} without a name; got {len(call.positional)} values.")
    if unknown := [name for name in call.arguments if name not in names]:
        known = ", ".join(names) or "no arguments"
        raise ValueError(f"{owner}: {call.name} takes {known}; got {suggest(unknown[0], names)}")
    written = dict(zip(ordered, call.positional, strict=False))
    if twice := [name for name in call.arguments if name in written]:
        raise ValueError(f"{owner}: {call.name} must get every argument once; got {twice[0]!r} twice.")
    written |= call.arguments
    values: dict[str, Any] = {}
    for name in names:
        if name in written:
            values[name] = convert(name, written[name])
        elif given is not None and name in given:
            values[name] = given.take(name) if isinstance(given, Defaults) else given[name]
        elif takes[name].default is inspect.Parameter.empty:
            raise ValueError(f"{owner}: {call.name} needs {name}, as in {call.name}({name}=0.1); got none.")
    return values | ({rest: tuple(convert(rest, value) for value in more)} if rest and more else {})


def call_with(make: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a function with values by name, as `bind` gives them."""
    arguments = inspect.BoundArguments(inspect.signature(make), OrderedDict(values))
    return make(*arguments.args, **arguments.kwargs)


def grid(text: str) -> list[float]:
    """The numbers FROM,TO,HOW MANY stands for, in equal ratios.

    >>> grid("1e-2,1,3")
    [0.01, 0.1, 1.0]
    """
    try:
        low, high, count = (float(word) for word in text.split(","))
        if not (0 < low <= high < math.inf and 1 <= count <= MOST_NUMBERS and count == int(count)):
            raise ValueError
    except ValueError:
        form = f"FROM,TO,HOW MANY with 0 < FROM ≤ TO and at most {MOST_NUMBERS} numbers, such as 1e-4,1,9"
        raise ValueError(f"grid: must be {form}; got {shortened(text)!r}.") from None
    return [float(number) for number in np.geomspace(low, high, int(count))]


@dataclass(frozen=True)
class _Reader:
    """One text being read."""

    owner: str
    text: str
    form: str  # what it must be
    sizes: list[int]  # of the last axis, and of its lists so far

    def call_of(self, piece: str, known: Collection[str]) -> Call:
        if len(self.text) > LONGEST:
            raise ValueError(f"{self.owner}: a text must have at most {LONGEST} characters; got {len(self.text)}.")
        identifiers = re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", "_", piece.strip())
        name, colon, values = identifiers.partition(":")
        if colon and name.isidentifier():
            is_known = name in {other.replace("-", "_") for other in known}
            if is_known or not _OWN_PART.fullmatch(identifiers):
                identifiers = f"{name}({values})"
        try:
            with warnings.catch_warnings():  # of Python, about spaces that are missing
                warnings.simplefilter("ignore")
                tree = ast.parse(_OWN.sub(r"\1.\2", identifiers), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise self.malformed() from None
        users = {f"{module}.{name}": f"{module}:{name}" for module, name in _OWN.findall(identifiers)}
        return self.call(tree, users)

    def call(self, tree: ast.expr, users: Mapping[str, str]) -> Call:
        """A name, alone or with arguments in brackets; `users` has MODULE:NAME by how Python's parser has read it."""
        called = tree.func if isinstance(tree, ast.Call) else tree
        name = users.get(ast.unparse(called)) if isinstance(called, ast.Attribute) else getattr(called, "id", None)
        if name is None:
            raise self.malformed()
        if not isinstance(tree, ast.Call):
            return Call(name, {})
        positional = tuple(self.value(value, f"a value of {name}", users) for value in tree.args)
        arguments: dict[str, Any] = {}
        for keyword in tree.keywords:
            if keyword.arg is None:
                raise self.malformed()
            if keyword.arg in arguments:
                raise ValueError(f"{self.owner}: {name} must get every argument once; got {keyword.arg!r} twice.")
            arguments[keyword.arg] = self.value(keyword.value, f"{keyword.arg} of {name}", users)
        return Call(name, arguments, positional)

    def value(self, tree: ast.expr, whose: str, users: Mapping[str, str]) -> Any:
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "grid":
            return self.listed(grid(",".join(_source(argument) for argument in (*tree.args, *tree.keywords))))
        if isinstance(tree, ast.Name | ast.Attribute | ast.Call):
            return self.call(tree, users)
        if isinstance(tree, ast.List | ast.Tuple):
            numbers = [self.number(element, whose) for element in tree.elts]
            if not numbers:
                raise ValueError(f"{self.owner}: {whose} must be at least one number; got none.")
            return self.listed(numbers) if isinstance(tree, ast.List) else tuple(numbers)
        return self.number(tree, whose)

    def listed(self, numbers: list[float]) -> np.ndarray:
        """A list along an axis of its own."""
        self.sizes.append(len(numbers))
        return np.reshape(np.asarray(numbers, np.float64), (-1, *[1] * (len(self.sizes) - 1)))

    def number(self, tree: ast.expr, whose: str) -> int | float:
        """A number and its sign; whole ones stay whole where floats hold them exactly."""
        sign, digits = 1, tree
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub | ast.UAdd):
            sign, digits = (-1 if isinstance(tree.op, ast.USub) else 1), tree.operand
        value = digits.value if isinstance(digits, ast.Constant) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{self.owner}: {whose} must be a number; got {_source(tree)}.")
        if abs(value) > sys.float_info.max:
            raise ValueError(f"{self.owner}: {whose} must be at most 1.8e308, what a float holds; got {_source(tree)}.")
        return sign * (value if abs(value) <= EXACT else float(value))

    def malformed(self) -> ValueError:
        return ValueError(f"{self.owner}: must be {self.form}; got {shortened(self.text)!r}.")


def _source(tree: ast.AST) -> str:
    try:
        return shortened(ast.unparse(tree))
    except RecursionError:
        return "something nested too deeply"


SHOWN = 60  # characters of a text that an error quotes


def require_known(what: str, name: str, known: Iterable[str]) -> None:
    """Raise a ValueError that lists the names and suggests the nearest one, unless the name is among them.

    >>> require_known("method:", "NSGDM", ["nsgdm", "sgd"])
    Traceback (most recent call last):
    ...
    ValueError: method: must be one of nsgdm, sgd; got 'NSGDM'; did you mean nsgdm?
    """
    known = list(known)
    if name not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}; got {suggest(name, known)}")


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error about a name: the name, and the nearest known one if any is near.

    Small and capital letters, and the two dashes - and _, count as the same.

    >>> suggest("Three-way", ["plain", "three_way_clipped"]), suggest("x", ["plain"])
    ("'Three-way'; did you mean three_way_clipped?", "'x'.")
    """
    shown = shortened(name)
    folded = {_fold(other): other for other in known}
    near = difflib.get_close_matches(_fold(name), folded, n=1)
    if not near and len(name) > 2:
        near = [other for other in folded if other.startswith(_fold(name))]
    return f"{shown!r}; did you mean {folded[near[0]]}?" if near else f"{shown!r}."


def shortened(text: str) -> str:
    """A text that an error quotes, cut where it is too long."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _fold(name: str) -> str:
    return name.lower().replace("_", "-")


def is_own(name: str) -> bool:
    """Whether a name is that of a user's own part, written MODULE:NAME."""
    return ":" in name


def import_own(owner: str, name: str) -> Any:
    """What MODULE:NAME stands for: a module of the current folder, or of an installed package, is imported for it.

    The module may be inside packages, as in package.module:Name. `owner` is whose text it is, for errors.
    """
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # it stays: processes that compute for this one import the module too
    try:
        imported = importlib.import_module(module)
    except Exception as problem:
        where = f"a module in this folder, {module.replace('.', '/')}.py, or of an installed package"
        why = " ".join(f"{type(problem).__name__}: {problem}".split())
        raise ValueError(f"{owner}: {module!r} of {name!r} must be {where}, that can be imported; got {why}.") from None
    known = {key: value for key, value in vars(imported).items() if callable(value) and not key.startswith("_")}
    if attribute not in known:
        what = f"a class or a function of {module}"
        raise ValueError(f"{owner}: {name!r} must name {what}; got {suggest(attribute, known)}")
    return known[attribute]
