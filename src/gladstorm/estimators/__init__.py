"""How the direction v is formed from stochastic gradients.

One file per estimator, one class per file, the class named as the file. The folder is the registry: a new file is found
here, by the command line and by the tests that compose every estimator with every step. A state is a pytree like the
gradient: the same equation runs in the simulator and in Optax.
"""

from __future__ import annotations

from gladstorm.estimators.approximate_mars import ApproximateMars
from gladstorm.estimators.error_feedback import ErrorFeedback
from gladstorm.estimators.estimator import Estimator, Grad
from gladstorm.estimators.fresh import Fresh
from gladstorm.estimators.inertia import Inertia
from gladstorm.estimators.loopless_svrg import LooplessSvrg
from gladstorm.estimators.mars import Mars
from gladstorm.estimators.momentum import Momentum
from gladstorm.estimators.page import Page
from gladstorm.estimators.saga import Saga
from gladstorm.estimators.sarah import Sarah
from gladstorm.estimators.snvrg import Snvrg
from gladstorm.estimators.spider import Spider
from gladstorm.estimators.storm import Storm
from gladstorm.estimators.svrg import Svrg
from gladstorm.estimators.transported import Transported
from gladstorm.parts import found

__all__ = [
    "ApproximateMars",
    "ErrorFeedback",
    "Estimator",
    "Fresh",
    "Grad",
    "Inertia",
    "LooplessSvrg",
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
    """Every estimator by its name on the command line.

    >>> registry()["storm"].__name__
    'Storm'
    """
    return found(__name__, Estimator)
