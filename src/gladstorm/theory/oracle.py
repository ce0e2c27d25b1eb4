"""From an oracle of the simulator to the theorem about it; noise that is smallest elsewhere is brought to x⁰."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from gladstorm.core.constants import Bg0
from gladstorm.theory.class_constants import weaken
from gladstorm.theory.planning import regime, theorem
from gladstorm.theory.problem import Problem
from gladstorm.theory.statement import Statement

if TYPE_CHECKING:
    import jax
    import numpy as np

    from gladstorm.problems.oracles import Oracle


def problem_of(oracle: Oracle, *, alpha: float | None = None) -> Problem:
    """The `Problem` of an oracle, with f's own constants and BG-0 noise around x⁰, as NSGDM's theorems need it.

    α may be larger than the one that the objective declares (`weaken`). Noise that is smallest at another point than x⁰
    has its constants moved there (`around_start`).

    Raises:
        ValueError: If the theorems say nothing about this oracle, or f(x⁰) = inf f.
    """
    import jax

    from gladstorm.core.parts import check

    check(oracle)
    objective, noise = oracle.objective, around_start(_noise(oracle), oracle.objective.start)
    constants = objective.constants
    if constants is None:
        name = type(objective).__name__
        raise ValueError(f"for_oracle: objective must declare its constants; got objective={name} with constants=None.")
    if alpha is not None:
        constants = weaken(constants, alpha)
    with jax.enable_x64(True):
        gap = float(objective.value(objective.start)) - constants.f_inf
    if gap <= 0:
        raise ValueError(
            "for_oracle: start must be a point where f is above its infimum, or there is nothing to bound; "
            f"got f(x⁰) − inf f = {gap:g}."
        )
    return Problem(alpha=constants.alpha, L0=constants.L0, L1=constants.L1, B=noise.B, G=noise.G, gap=gap)


def for_oracle(
    oracle: Oracle, method: str, *, alpha: float | None = None, gamma0: float | None = None, eta0: float = 1.0
) -> Statement:
    """State the paper's theorem about a method on this oracle: NSGDM with f's own constants, NSTORM with the oracle's.

    Args:
        oracle, alpha: As in `problem_of`.
        method, gamma0, eta0: As in `theorem`; `tune(T)` then improves γ0 for one horizon.

    If the noise is smallest at another point than x⁰, its constants are moved to x⁰ and become larger;
    `cost_of_moving(oracle.bg0, oracle.objective.start)` says by how much.

    >>> import gladstorm as gs
    >>> oracle = gs.BlumGladyshev(gs.objectives.named("quadratic", dim=2, start=1.0), B=0.5, G=0.5)
    >>> for_oracle(oracle, "nstorm").rate
    Fraction(1, 4)
    """
    problem, noise = problem_of(oracle, alpha=alpha), _noise(oracle)
    kind = regime(method, problem)
    if kind.corrects_drift and (expected := oracle.expected_constants) is not None:
        expected = expected if alpha is None else weaken(expected, alpha)  # the class of its samples, or a wider one
        of_samples = replace(problem, alpha=expected.alpha, L0=expected.L0, L1=expected.L1)
        return theorem(method, of_samples, gamma0=gamma0, eta0=eta0)
    if kind.corrects_drift and not noise.affine:
        name = type(oracle).__name__
        raise ValueError(
            f"for_oracle: {method} needs an oracle whose noise changes by at most B‖y − x‖ from x to y; got {name}."
        )
    # How one sample's noise differs at two points does not depend on where it is smallest: the oracle's own B says it.
    read = kind.reads(replace(problem, B=noise.B))
    return theorem(method, replace(read, B=problem.B), gamma0=gamma0, eta0=eta0)


def _noise(oracle: Oracle) -> Bg0:
    """BG-0 of an oracle that the theorems speak about."""
    name = type(oracle).__name__
    if oracle.no_theorem is not None:
        raise ValueError(f"for_oracle: the theorems say nothing about {name}: {oracle.no_theorem}.")
    if oracle.bg0 is None:
        raise ValueError(f"for_oracle: oracle must declare BG-0 constants; got oracle={name} with bg0=None.")
    return oracle.bg0


def around_start(noise: Bg0, start: jax.Array | np.ndarray) -> Bg0:
    """Constants for BG-0 around x⁰, where the theorems need it, from those around another point a.

    By ‖x − a‖² ≤ 2‖x − x⁰‖² + 2‖x⁰ − a‖², B² doubles and G² grows by 2B²‖x⁰ − a‖². The new constants are valid but
    pessimistic: they allow noise to grow even on the way from x⁰ to a, where it falls.

    >>> import numpy as np
    >>> around_x0 = around_start(Bg0(B=1.0, G=1.0, anchor=np.zeros(2), where="x*"), np.array([3.0, 4.0]))
    >>> f"{around_x0.B:.3f} {around_x0.G:.3f} {around_x0.where}"
    '1.414 7.141 x⁰'
    """
    distance = math.dist(noise.anchor.tolist(), start.tolist())
    if distance == 0:
        return replace(noise, where="x⁰")
    G = math.hypot(noise.G, math.sqrt(2) * noise.B * distance)
    return replace(noise, B=math.sqrt(2) * noise.B, G=G, anchor=start, where="x⁰")


def cost_of_moving(noise: Bg0, start: jax.Array | np.ndarray) -> str:
    """A sentence that says how much larger `around_start` makes B and G.

    >>> import numpy as np
    >>> cost_of_moving(Bg0(B=1.0, G=1.0, anchor=np.zeros(2), where="x*"), np.array([3.0, 4.0]))
    'The noise is smallest at x*, 5 from x⁰: around x⁰ B is 1.414 instead of 1 and G is 7.141 instead of 1.'
    """
    distance, around_x0 = math.dist(noise.anchor.tolist(), start.tolist()), around_start(noise, start)
    if distance == 0:
        return "The noise is smallest at x⁰: nothing is lost."
    return (
        f"The noise is smallest at {noise.where}, {distance:.4g} from x⁰: around x⁰ B is {around_x0.B:.4g} instead of "
        f"{noise.B:.4g} and G is {around_x0.G:.4g} instead of {noise.G:.4g}."
    )
