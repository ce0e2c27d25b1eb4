"""Stochastic optimization when gradient noise grows with the distance travelled.

>>> import gladstorm as gs
>>> oracle = gs.BlumGladyshev(gs.objectives.named("power:3", start=5.0), B=0.5, G=0.5)
>>> record = gs.run(oracle, gs.nsgdm(gamma=1e-3, eta=0.1), steps=100, seeds=3)
>>> record.sfo[..., -1].tolist()
[[101, 101, 101]]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gladstorm import objectives, theory
    from gladstorm.batches import FirstLarge, Fixed, GrowWithDistance, LargeOnRefresh
    from gladstorm.estimators import Fresh, Momentum, Storm
    from gladstorm.finite_sums import FiniteSum, finite_sum, measured_variance
    from gladstorm.methods import Method, nsgdm, nstorm, pasta, sgd, storm
    from gladstorm.oracles import BlumGladyshev
    from gladstorm.record import Record
    from gladstorm.schedules import PowerDecay
    from gladstorm.simulate import run, sweep
    from gladstorm.steps import Normalized, Plain

__version__ = "0.1.0"

# Looked up here when first used: `gladstorm --help` and the theory need neither JAX nor pandas.
_MODULES = (
    "simulate",
    "record",
    "methods",
    "batches",
    "steps",
    "estimators",
    "schedules",
    "finite_sums",
    "oracles",
)

__all__ = [
    "BlumGladyshev",
    "FiniteSum",
    "FirstLarge",
    "Fixed",
    "Fresh",
    "GrowWithDistance",
    "LargeOnRefresh",
    "Method",
    "Momentum",
    "Normalized",
    "Plain",
    "PowerDecay",
    "Record",
    "Storm",
    "finite_sum",
    "measured_variance",
    "nsgdm",
    "nstorm",
    "objectives",
    "pasta",
    "run",
    "sgd",
    "storm",
    "sweep",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in ("objectives", "theory"):
        return importlib.import_module(f"gladstorm.{name}")
    if name in __all__:
        modules = (importlib.import_module(f"gladstorm.{module}") for module in _MODULES)
        return next(getattr(module, name) for module in modules if hasattr(module, name))
    raise AttributeError(f"module 'gladstorm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
