"""Imports by name: packages that come with an extra, and modules of the user's own."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gladstorm.core.names import suggest

# By the name under which a package is imported: the extra that brings it, and what people call it.
EXTRAS = {
    "jax": ("sim", "JAX"),
    "scipy": ("sim", "SciPy"),
    "pyarrow": ("sim", "Arrow (pyarrow)"),
    "cmaes": ("sim", "cmaes"),
    "pandas": ("pandas", "pandas"),
    "matplotlib": ("plot", "Matplotlib"),
    "vl_convert": ("page", "Vega (vl-convert-python)"),
    "torch": ("torch", "PyTorch"),
    "optax": ("optax", "Optax"),
    "distributed": ("dask", "Dask"),
    "numpyro": ("numpyro", "numpyro"),
    "pymc": ("pymc", "PyMC"),
    "lightning": ("lightning", "Lightning"),
    "transformers": ("transformers", "transformers"),
    "sklearn": ("data", "scikit-learn"),
}


class MissingExtraError(ImportError):
    """Something needs a package of an extra that is not installed."""


@contextmanager
def needing_extras(what: str) -> Iterator[None]:
    """Import packages of extras in a with-block: a missing one is a sentence that names the extra.

    Raises:
        MissingExtraError: If a package that an extra brings is not installed.

    >>> with needing_extras("This"):
    ...     raise ModuleNotFoundError("No module named 'torch'", name="torch")
    Traceback (most recent call last):
    gladstorm.core.extras.MissingExtraError: This needs PyTorch, which is not installed: pip install 'gladstorm[torch]'
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in EXTRAS:  # something that a package itself needs
            raise
        extra, called = EXTRAS[package]
        way_out = f"pip install 'gladstorm[{extra}]'"
        raise MissingExtraError(f"{what} needs {called}, which is not installed: {way_out}") from None


def import_own(owner: str, name: str) -> Any:
    """Import what MODULE:NAME stands for, from the current folder or an installed package; `owner` is for errors."""
    module, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # it stays: processes that compute for this one import the module too
    try:
        imported = importlib.import_module(module)
    except Exception as problem:
        where = f"a module in this folder, {module.replace('.', '/')}.py, or of an installed package"
        why = " ".join(f"{type(problem).__name__}: {problem}".split())
        raise ValueError(f"{owner}: {module!r} of {name!r} must be {where}, that can be imported; got {why}.") from None
    public = {key: value for key, value in vars(imported).items() if callable(value) and not key.startswith("_")}
    if attribute not in public:
        what = f"a class or a function of {module}"
        raise ValueError(f"{owner}: {name!r} must name {what}; got {suggest(attribute, public)}")
    return public[attribute]
