"""Methods that find their own step size: γ multiplies it, and γ = 1 is the authors' choice.

Most are Optax's, with its other defaults. Some report an average, as their authors do.
"""

from __future__ import annotations

from typing import Any

from gladstorm.core.parts import Array
from gladstorm.core.references import (
    DEFAZIO_2024,
    DEFAZIO_MISHCHENKO_2023,
    IVGI_2023,
    KHALED_2023,
    LEVY_2021,
    MISHCHENKO_DEFAZIO_2024,
    SCHAIPP_2024,
)
from gladstorm.methods.averages import PolynomialAverage, ScheduleFreeAverage
from gladstorm.methods.batches import BatchSizes
from gladstorm.methods.declaration import declared
from gladstorm.methods.estimators import Fresh, Storm
from gladstorm.methods.method import Method, rule
from gladstorm.methods.schedules import CubeRootDecay, SquareOf, Tunable
from gladstorm.methods.steps import CubeRoot, FromOptax


@declared(source=f"{IVGI_2023}, Optax's", sfo="K + 1")
def dog(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """DoG, distance over gradients: x ← x − γ r g/√(Σ‖g‖²), r the largest distance so far. It reports an average."""
    return Method(Fresh(), FromOptax(gamma, _dog), rule(batch), PolynomialAverage())


@declared(source=f"{KHALED_2023}, Optax's", sfo="K + 1")
def dowg(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """DoWG, distance over weighted gradients: x ← x − γ r² g/√(Σ r²‖g‖²), r as in DoG. It reports an average."""
    return Method(Fresh(), FromOptax(gamma, _dowg), rule(batch), PolynomialAverage())


@declared(source=f"{DEFAZIO_MISHCHENKO_2023}, with Adam, Optax's", sfo="K + 1")
def d_adaptation(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """D-Adaptation: Adam with a step size from a lower bound on the distance to the solution, found during the run."""
    return Method(Fresh(), FromOptax(gamma, _d_adaptation), rule(batch))


@declared(source=f"{MISHCHENKO_DEFAZIO_2024}, Optax's", sfo="K + 1")
def prodigy(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """Prodigy: D-Adaptation that weights late gradients more, and so finds its step size sooner."""
    return Method(Fresh(), FromOptax(gamma, _prodigy), rule(batch))


@declared(source=f"{DEFAZIO_2024}, Optax's", sfo="K + 1")
def schedule_free(gamma: Tunable, *, batch: BatchSizes = 1) -> Method:
    """Schedule-Free SGD: z ← z − γ ∇f(y; ξ), x ← (1 − 1/k) x + z/k, y = z/10 + 9x/10; it iterates y and reports x.

    Its step size has to be tuned; it needs no decay.
    """
    return Method(Fresh(), FromOptax(gamma, _schedule_free), rule(batch), ScheduleFreeAverage(SCHEDULE_FREE_BETA))


@declared(source=f"{SCHAIPP_2024}, Optax's, from the exact value of f", sfo="K + 1")
def momo(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """MoMo: momentum with Polyak's step size, from a model of f with f ≥ 0; the step size is at most γ."""
    return Method(Fresh(), FromOptax(gamma, _momo), rule(batch))


@declared(
    source=str(LEVY_2021),
    sfo="1 + 2K",
    complexity="Õ(ε^-3)",
    assumptions="bounded f, every sample smooth and Lipschitz",
)
def storm_plus(gamma: Tunable = 1.0, *, batch: BatchSizes = 1) -> Method:
    """STORM+: η_{k+1} = (1 + Σ_{i≤k} ‖∇f(x^i; ξ^i)‖²)^{−2/3}, x ← x − γ v/(Σ_{i≤k} ‖v^i‖²/η_{i+1})^{1/3}."""
    eta = SquareOf(1.0, CubeRootDecay(1.0, 1.0))
    return Method(Storm(eta), CubeRoot(gamma, eta), rule(batch))


SCHEDULE_FREE_BETA = 0.9


# Optax is not imported before it is used: a method can be named and listed without it.


def _dog(rate: Array | float) -> Any:
    import optax.contrib

    return optax.contrib.dog(rate)


def _dowg(rate: Array | float) -> Any:
    import optax.contrib

    return optax.contrib.dowg(rate)


def _d_adaptation(rate: Array | float) -> Any:
    import optax.contrib

    return optax.contrib.dadapt_adamw(rate)


def _prodigy(rate: Array | float) -> Any:
    import optax.contrib

    return optax.contrib.prodigy(rate)


def _schedule_free(rate: Array | float) -> Any:
    import optax.contrib

    return optax.contrib.schedule_free_sgd(rate, b1=SCHEDULE_FREE_BETA)


def _momo(rate: Array | float) -> Any:
    import optax.contrib

    return optax.contrib.momo(rate)
