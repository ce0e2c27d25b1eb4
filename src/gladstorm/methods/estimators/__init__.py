"""How the direction v is formed from stochastic gradients: one file for each family of estimators.

What is imported here is found by its name, by the command line and by the tests that compose every estimator with every
step. A state is a pytree like the gradient: the same equation runs in the simulator and in Optax.
"""

from __future__ import annotations

from gladstorm.core.parts import parts_of
from gladstorm.methods.estimators.estimator import ErrorFeedback as ErrorFeedback
from gladstorm.methods.estimators.estimator import Estimator as Estimator
from gladstorm.methods.estimators.estimator import Fresh as Fresh
from gladstorm.methods.estimators.estimator import Grad as Grad
from gladstorm.methods.estimators.estimator import LaggedMars as LaggedMars
from gladstorm.methods.estimators.estimator import Mars as Mars
from gladstorm.methods.estimators.estimator import Momentum as Momentum
from gladstorm.methods.estimators.estimator import Storm as Storm
from gladstorm.methods.estimators.estimator import Transported as Transported
from gladstorm.methods.estimators.refreshing import Page as Page
from gladstorm.methods.estimators.refreshing import Saga as Saga
from gladstorm.methods.estimators.refreshing import Sarah as Sarah
from gladstorm.methods.estimators.refreshing import Snvrg as Snvrg
from gladstorm.methods.estimators.refreshing import Spider as Spider
from gladstorm.methods.estimators.refreshing import Svrg as Svrg


def registry() -> dict[str, type[Estimator]]:
    """The classes of all estimators, by their names on the command line."""
    return dict(sorted(parts_of(globals(), Estimator).items()))


__all__ = ["Estimator", "Grad", "registry", *(cls.__name__ for cls in registry().values())]
