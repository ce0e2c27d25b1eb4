"""Values that hold inside a with-block, in its thread only."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a variable this value inside a with-block.

    >>> depth = ContextVar("depth", default=0)
    >>> with within(depth, 1):
    ...     depth.get()
    1
    >>> depth.get()
    0
    """
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)
