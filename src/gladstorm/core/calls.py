"""Methods, oracles and objectives as text: NAME(argument=number, …) taken apart into names, arguments and numbers.

Python's own parser reads each call, so numbers and lists are written as in Python; nothing is evaluated. What the names
stand for is for those who ask to say: `methods.text`, `oracles.named`, `objectives.named`. A name may be a user's own
part, MODULE:NAME.
"""

from __future__ import annotations

import ast
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

LONGEST = 10_000  # characters of a text
MOST_NUMBERS = 10_000  # of a list
EXACT = 2**53  # whole numbers beyond are floats
OWN = re.compile(r"\b([A-Za-z_][\w.]*):([A-Za-z_]\w*)")  # MODULE:NAME


@dataclass(frozen=True)
class Call:
    """NAME(argument=value, …); a value is a number, a tuple or list of numbers, or written like this itself."""

    name: str
    arguments: dict[str, Any]

    def leaves(self) -> Iterator[Any]:
        """Every value that is not written like this itself, in the order of the text."""
        for value in self.arguments.values():
            if isinstance(value, Call):
                yield from value.leaves()
            else:
                yield value

    def map(self, change: Callable[[Any], Any]) -> Call:
        """The same with every leaf changed, in the order of the text."""
        changed = {
            name: value.map(change) if isinstance(value, Call) else change(value)
            for name, value in self.arguments.items()
        }
        return Call(self.name, changed)


class Defaults(dict[str, Any]):
    """Values for arguments that texts leave out. `taken` has the names of those that a text has left out."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self.taken: set[str] = set()

    def take(self, name: str) -> Any:
        """The value of an argument that a text leaves out."""
        self.taken.add(name)
        return self[name]


def read_call(owner: str, text: str) -> Call:
    """The call a text consists of; `owner` is whose text it is, for errors.

    >>> read_call("oracle", "blum-gladyshev(B=0.5)")
    Call(name='blum_gladyshev', arguments={'B': 0.5})
    >>> read_call("oracle", "mine.noise:Mine(B=0.5)").name
    'mine.noise:Mine'
    """
    reader = _Reader(owner, text, "NAME(argument=number, …)")
    return reader.call(reader.expression(reader.underscored()))


def read_calls(owner: str, text: str) -> list[Call]:
    """The calls of a text that are joined by plus signs.

    >>> read_calls("method", "storm(eta=1e-3) + three-way-clipped")
    [Call(name='storm', arguments={'eta': 0.001}), Call(name='three_way_clipped', arguments={})]
    """
    reader = _Reader(owner, text, "NAME(argument=number, …), or parts joined by +")
    return [reader.call(reader.expression(piece)) for piece in _between_plus_signs(reader.underscored())]


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
        raise ValueError(
            f"grid: must be FROM,TO,HOW MANY with 0 < FROM ≤ TO and at most {MOST_NUMBERS} numbers, such as 1e-4,1,9; "
            f"got {_short(text)}."
        ) from None
    return [float(number) for number in np.geomspace(low, high, int(count))]


def _between_plus_signs(text: str) -> list[str]:
    """The text cut at the plus signs outside brackets."""
    pieces, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "+" and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return pieces


@dataclass
class _Reader:
    """One text being read."""

    owner: str
    text: str
    form: str  # what it must be

    def underscored(self) -> str:
        """The text with names that Python can read."""
        if len(self.text) > LONGEST:
            raise ValueError(f"{self.owner}: a text must have at most {LONGEST} characters; got {len(self.text)}.")
        return OWN.sub(r"\1.\2", self._identifiers)

    @cached_property
    def _identifiers(self) -> str:
        return re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", "_", self.text.strip())

    def name(self, tree: ast.expr) -> str | None:
        """The name that is called: one word, or MODULE:NAME, which Python's parser has read as MODULE.NAME."""
        if isinstance(tree, ast.Attribute):
            own = {f"{module}.{name}": f"{module}:{name}" for module, name in OWN.findall(self._identifiers)}
            return own.get(ast.unparse(tree))
        return tree.id if isinstance(tree, ast.Name) else None

    def expression(self, piece: str) -> ast.expr:
        try:
            with warnings.catch_warnings():  # of Python, about spaces that are missing
                warnings.simplefilter("ignore")
                return ast.parse(piece.strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise self.malformed() from None

    def call(self, tree: ast.expr) -> Call:
        """A name, alone or with arguments in brackets."""
        name = self.name(tree.func if isinstance(tree, ast.Call) else tree)
        if name is None:
            raise self.malformed()
        if not isinstance(tree, ast.Call):
            return Call(name, {})
        arguments: dict[str, Any] = {}
        for keyword in tree.keywords:
            if keyword.arg in arguments:
                raise ValueError(f"{self.owner}: {name} must get every argument once; got {keyword.arg!r} twice.")
            if keyword.arg is not None:
                arguments[keyword.arg] = self.value(keyword.value, f"{keyword.arg} of {name}")
        if tree.args or len(arguments) < len(tree.keywords):
            raise ValueError(
                f"{self.owner}: {name} takes its arguments by name, NAME(argument=number); got a value without a name."
            )
        return Call(name, arguments)

    def value(self, tree: ast.expr, whose: str) -> Any:
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "grid":
            return grid(",".join(_source(each) for each in (*tree.args, *tree.keywords)))
        if isinstance(tree, ast.Name | ast.Attribute | ast.Call):
            return self.call(tree)
        if isinstance(tree, ast.List | ast.Tuple):
            numbers = [self.number(each, whose) for each in tree.elts]
            if not numbers:
                raise ValueError(f"{self.owner}: {whose} must be at least one number; got none.")
            return numbers if isinstance(tree, ast.List) else tuple(numbers)
        return self.number(tree, whose)

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
        return ValueError(f"{self.owner}: must be {self.form}; got {_short(self.text)}.")


def _source(tree: ast.AST) -> str:
    try:
        source = ast.unparse(tree)
    except RecursionError:
        source = "something nested too deeply"
    return source if len(source) <= 60 else f"{source[:57]}..."


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
