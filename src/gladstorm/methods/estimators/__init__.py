"""How the direction v is formed from stochastic gradients.

One file per estimator, one class per file, the class named as the file. The folder is the registry: a new file is found
here, by the command line and by the tests that compose every estimator with every step. A state is a pytree like the
gradient: the same equation runs in the simulator and in Optax.
"""

from __future__ import annotations

from gladstorm.core.parts import discover
from gladstorm.methods.estimators.error_feedback import ErrorFeedback
from gladstorm.methods.estimators.estimator import Estimator, Grad
from gladstorm.methods.estimators.fresh import Fresh
from gladstorm.methods.estimators.inertia import Inertia
from gladstorm.methods.estimators.mars import Mars
from gladstorm.methods.estimators.momentum import Momentum
from gladstorm.methods.estimators.page import Page
from gladstorm.methods.estimators.saga import Saga
from gladstorm.methods.estimators.sarah import Sarah
from gladstorm.methods.estimators.snvrg import Snvrg
from gladstorm.methods.estimators.spider import Spider
from gladstorm.methods.estimators.storm import Storm
from gladstorm.methods.estimators.svrg import Svrg
from gladstorm.methods.estimators.transported import Transported

__all__ = [
    "ErrorFeedback",
    "Estimator",
    "Fresh",
    "Grad",
    "Inertia",
    "Mars",
    "Momentum",
    "Page",
    "Saga",
    "Sarah",
    "Snvrg",
    "Spider",
    "Storm",
    "Svrg",
    "Transported",
    "registry",
]


def registry() -> dict[str, type[Estimator]]:
    """The classes of all estimators, by their names on the command line.

    >>> registry()["storm"].__name__
    'Storm'
    """
    return discover(__name__, Estimator)
