"""Stochastic optimization when gradient noise grows with the distance travelled.

>>> import gladstorm as gs
>>> oracle = gs.BlumGladyshev(gs.objectives.named("power:3", dim=10), B=0.5, G=0.5)
>>> record = gs.run(oracle, gs.nsgdm(gamma=1e-3, eta=0.1), steps=100, seeds=3)
>>> record.sfo[..., -1].tolist()
[[101, 101, 101]]
"""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

# `__init__.pyi` is the one list of public names. It is what type checkers read, and says where each name comes from; a
# name is imported when first used: `gladstorm --help` and the theory need neither JAX nor pandas.
# `lazy_loader` would be one more package for everybody, and not faster: all it saves are pathlib and typing, which the
# rest imports anyway.
_MODULE_OF = {
    alias.name: node.module
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gladstorm' has no attribute {name!r}")
    from gladstorm.core.extras import needing_extras

    with needing_extras(f"gladstorm.{name}"):
        module = importlib.import_module(_MODULE_OF[name])
        if module is sys.modules[__name__] or not hasattr(module, name):  # a package or module inside it
            return importlib.import_module(f"{_MODULE_OF[name]}.{name}")
        return getattr(module, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
