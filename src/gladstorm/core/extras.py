"""Packages that come with an extra: one sentence says which extra to install where one is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

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
