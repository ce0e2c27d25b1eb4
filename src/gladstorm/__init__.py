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
_HERE = Path(__file__).parent
_MODULE_OF = {
    alias.name: str(node.module)
    for node in ast.parse((_HERE / "__init__.pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
# Packages for other libraries, and the diagnosis: reached as attributes, but no part of `from gladstorm import *`.
_PACKAGES = ("diagnosis", "lightning", "numpyro", "optax", "pymc", "torch", "transformers")
__all__ = [name for name in _MODULE_OF if name not in _PACKAGES]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        place = None if name.startswith("_") else _place_of(name)
        way_out = f"; it is {place}" if place else ""
        raise AttributeError(f"module 'gladstorm' has no attribute {name!r}{way_out}")
    from gladstorm.core.extras import needing_extras

    with needing_extras(f"gladstorm.{name}"):
        module = importlib.import_module(_MODULE_OF[name])
        if module is sys.modules[__name__] or not hasattr(module, name):  # a package or module inside it
            return importlib.import_module(f"{_MODULE_OF[name]}.{name}")
        return getattr(module, name)


def __dir__() -> list[str]:
    return [*_MODULE_OF, "__version__"]


def _place_of(name: str) -> str | None:
    """Find the group that has a name, without importing it."""
    for group, module in _MODULE_OF.items():
        path = _HERE.joinpath(*f"{module}.{group}".split(".")[1:])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        nodes = ast.parse(file.read_text(encoding="utf-8")).body if file.exists() else []
        shown = {
            alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
        }
        if name in shown | {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}:
            return f"gladstorm.{group}.{name}"
    return None
