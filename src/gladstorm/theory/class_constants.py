"""Constants with which L*_sym(α) and E L*_sym(α), 0 < α < 1, enter the bounds.

Both classes bound the change of the gradient over a distance r by r (base + gradient·‖∇f‖^α + distance·r^p) with
p = α/(1 − α). The paper calls the three factors K0, K1, K2 in both cases although their values differ; here they are
two classes. Powers such as 2^{α²/(1−α)} leave double precision as α → 1, so everything is computed in logarithms.

What holds for a class of functions holds for every class inside it, so a problem has constants in other classes too: a
wider one, the best of those around it, and that of the BG-0 wrapper. L*_sym(α) with 0 < α < 1 lies in L*_sym(1), at one
pair of constants for every scale s of the gradient (`weaken`). So does E L*_sym(α) in E L*_sym(1): the factor of a
sample grows by the same inequality. The constants of α = 1 stay small where those of α near 1 leave double precision.
With L1 = 0 curvature does not grow, and all α are one class: smooth functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from gladstorm.core.constants import Constants
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import ALPHA, POSITIVE, OutOfRange
from gladstorm.theory.search import lowest


@dataclass(frozen=True)
class Symmetric:
    """f ∈ L*_sym(α): constants of the NSGDM bounds."""

    base: float  # K0 (appendix B), L̄0 (main text)
    gradient: float  # K1, L̄1
    distance: float  # K2, L̄2
    descent: float  # C_α: the part of one step's descent paid for curvature that grows with the gradient
    drift: float  # C̃_α: how far the gradient moves away from the momentum in one step, per unit of length


@dataclass(frozen=True)
class Expected:
    """E L*_sym(α): constants of the NSTORM bounds."""

    base: float  # K0 (Theorem 2, appendix C)
    gradient: float  # K1
    distance: float  # K2
    moment: float  # L_α: the factor of ‖∇f‖^α and of the noise scale^α once the sample moment is bounded
    young: float  # c_α: x^α ≤ λ x + c_α λ^{−p}

    def in_norm(self, problem: Problem) -> Expected:
        """The constants times τν, and L_α also times κ^α: how they enter in the problem's norm."""
        norm, times = problem.norm, problem.norm.tau * problem.norm.nu
        moment = times * norm.kappa**problem.alpha * self.moment
        return replace(self, base=times * self.base, distance=times * self.distance, moment=moment)


@lru_cache(maxsize=256)
def symmetric(L0: float, L1: float, alpha: float) -> Symmetric:
    """The constants of L*_sym(α) from its L0 and L1.

    Doubles end before α = 1 is reached; the refusal says how far away the value is.

    >>> symmetric(1.0, 1.0, 0.97)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    gladstorm.theory.rules.OutOfRange: nsgdm: alpha must be small enough for the descent constant, near 10^338, ...
    """
    p = alpha / (1 - alpha)
    doubling = alpha * p * math.log(2)  # log 2^{α²/(1−α)}
    tripling = alpha * math.log(3)  # log 3^α
    gradient = _log(L1) + doubling + tripling
    distance = (1 + p) * _log(L1) + doubling + tripling + p * math.log(1 - alpha)
    descent = math.log((1 - alpha) / 2) + gradient + p * (math.log(2 * alpha) + gradient)  # R_α
    drift = math.log(1 - alpha) + gradient + p * (math.log(8 * alpha) + gradient)  # R̃_α
    value = partial(_exp, "nsgdm", alpha, L1)
    base = L0 + value("base", _log(L0) + doubling)
    K2 = value("distance", distance)
    return Symmetric(
        base=base,
        gradient=value("gradient", gradient),
        distance=K2,
        descent=K2 + value("descent", descent),
        drift=base + K2 + value("drift", drift),
    )


@lru_cache(maxsize=256)
def expected(L0: float, L1: float, alpha: float) -> Expected:
    """The constants of E L*_sym(α) from its L0 and L1."""
    p = alpha / (1 - alpha)
    doubling = (2 + p) * math.log(2)  # log 2^{(2−α)/(1−α)}
    value = partial(_exp, "nstorm", alpha, L1)
    return Expected(
        base=value("base", _log(L0) + doubling),
        gradient=value("gradient", _log(L1) + doubling),
        distance=value("distance", (1 + p) * _log(5 * L1)),
        moment=value("moment", _log(L1) + doubling + alpha / 2 * math.log(2)),
        young=young(alpha),
    )


def young(alpha: float) -> float:
    """c_α = (1 − α) α^p."""
    return (1 - alpha) * math.pow(alpha, alpha / (1 - alpha))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _exp(owner: str, alpha: float, L1: float, name: str, log: float) -> float:
    if log > 708.0:  # 3e307: room for the sums of two or three of them
        raise OutOfRange(
            f"{owner}: alpha must be small enough for the {name} constant, near 10^{log / math.log(10):.0f}, "
            f"to fit in double precision; got alpha={alpha}, L1={L1}."
        )
    return math.exp(log)


SMALLEST, LARGEST = 1e-30, 1e30  # scales of the gradient that are tried
ABOVE_0 = 1e-300  # an α so small that the constants of its class are their limits at 0


def weaken(constants: Constants, alpha: float, *, scale: float = 1.0) -> Constants:
    """The constants of f for a larger α: every f in L*_sym(a) is also in L*_sym(α) for α ≥ a.

    With r = a/α and any s > 0, t^a ≤ s^a (1 − r) + s^(a−α) r t^α: the weighted mean of 1 and (t/s)^α. So L0 grows by
    L1 s^a (1 − r), and L1 becomes L1 s^(a−α) r. A smooth f (a = 0) is in every class with L1 = 0.

    Args:
        constants, alpha: Those of f, with its own α, here a; and the larger α.
        scale: s > 0: at gradients of this norm nothing is lost.

    >>> weaken(Constants(L0=0.0, L1=4.0, alpha=0.5, f_inf=0.0), alpha=1)
    Constants(L0=2.0, L1=2.0, alpha=1, f_inf=0.0)
    """
    ALPHA.require("weaken", "alpha", alpha)
    POSITIVE.require("weaken", "scale", scale)
    if alpha < constants.alpha:
        raise ValueError(f"weaken: alpha must be ≥ {constants.alpha:g}, the alpha that f declares; got alpha={alpha}.")
    if alpha == constants.alpha:
        return constants
    if constants.alpha == 0:
        return replace(constants, alpha=alpha, L1=0.0)
    r = constants.alpha / alpha
    L0 = constants.L0 + constants.L1 * scale**constants.alpha * (1 - r)
    return replace(constants, alpha=alpha, L0=L0, L1=constants.L1 * scale ** (constants.alpha - alpha) * r)


def wrapped(problem: Problem) -> Problem:
    """The oracle's constants, which NSTORM needs, from f's own, if the noise of `BlumGladyshev` is added to f.

    That noise is ∇f(x; ξ) = ∇f(x) + B ρ (x − x⁰) + G u.

    - Smooth f: E‖∇f(y; ξ) − ∇f(x; ξ)‖² = ‖∇f(y) − ∇f(x)‖² + B²‖y − x‖², so L = √(L0² + B²).
    - f ∈ L*_sym(1): L0 becomes Λ = √(L0² + B²) and L1 stays. With m the largest ‖∇f‖ on the way, (L0 + L1 m)² + B² is
      at most (Λ + L1 m)², and so at most the mean square of Λ + L1 ‖∇f(·; ξ)‖.
    - f ∈ L*_sym(α), α < 1: L0 becomes √(2 L0² + B²), as (L0 + L1 m)² ≤ 2 L0² + 2 L1² m², and L1 √2 L1 if the sample
      gradients' 2α-th moment is at least ‖∇f‖^{2α}: by Jensen for α ≥ 1/2. Below it is at least half, and L1 doubles.

    >>> wrapped(Problem(alpha=0, L0=3, B=4, G=1, gap=1)).L
    5.0
    """
    if not problem.of_paper:
        raise ValueError(
            "wrapped: problem must have growth=2 in the Euclidean norm, as the noise of BlumGladyshev has; got "
            f"growth={problem.growth:g}, norm={problem.norm.name}."
        )
    L0 = problem.constant("wrapped", "L0")
    if problem.smoothness == "smooth":
        return replace(problem, L=math.hypot(L0, problem.B))
    if problem.noise == "deterministic":
        return problem
    if problem.smoothness == "linear":
        problem.constant("wrapped", "L1")
        return replace(problem, L0=math.hypot(L0, problem.B))
    factor = math.sqrt(2) if problem.alpha >= 1 / 2 else 2.0
    L1 = factor * problem.constant("wrapped", "L1")
    return replace(problem, L0=math.hypot(math.sqrt(2) * L0, problem.B), L1=L1)


def flat_classes(problem: Problem, level: float) -> tuple[Problem, ...]:
    """The problem as one of α = 0, of α just above 0, and of α = 1, if its curvature does not grow; otherwise none.

    `level` is its smoothness constant, which is L0 and L in all of them.

    >>> [each.alpha for each in flat_classes(Problem(alpha=0.5, L0=2, L1=0, B=0, G=1, gap=1), 2.0)]
    [0.0, 1e-300, 1.0]
    """
    if problem.smoothness != "smooth" and problem.L1 != 0:
        return ()
    return tuple(replace(problem, alpha=alpha, L0=level, L1=0.0, L=level) for alpha in (0.0, ABOVE_0, 1.0))


def best_linear_class(problem: Problem, bound: Callable[[Problem], float]) -> Problem | None:
    """The problem as one of α = 1, at the scale of the smallest bound; None if its class is not in one of α = 1 only.

    Bounds are convex in log s, and infinite at small scales, where L1 is too large for γ: the search is in 1/s.
    """
    if problem.smoothness != "sublinear" or problem.L0 is None or problem.L1 is None:
        return None

    def cost(divisor: float) -> float:
        try:
            return bound(in_linear_class(problem, 1 / divisor))
        except OutOfRange:
            return math.inf

    return in_linear_class(problem, 1 / lowest(cost, 1 / LARGEST, 1 / SMALLEST))


def in_linear_class(problem: Problem, scale: float) -> Problem:
    """A problem of 0 < α < 1 as one of α = 1, with the constants at the scale s of the gradient."""
    L0, L1 = problem.constant("plan", "L0"), problem.constant("plan", "L1")
    wider = weaken(Constants(L0=L0, L1=L1, alpha=problem.alpha, f_inf=0.0), 1.0, scale=scale)
    return replace(problem, alpha=1.0, L0=wider.L0, L1=wider.L1)


def in_norm(problem: Problem, *, of_samples: bool) -> Problem:
    """The problem with constants of its norm, from Euclidean ones: ‖x‖_2 ≤ ρ‖x‖, ‖v‖_* ≤ ρ‖v‖_2 and ‖v‖_2 ≤ κ‖v‖_*.

    So r_2^h ≤ ρ^h r^h in the noise. A change of ∇f has the factor ρ² and L1 also κ^α; one of samples, which is measured
    in the Euclidean norm in either case, the factor ρ. Measured in the right norms, constants are often much smaller.

    >>> from gladstorm.theory import Norm
    >>> signs = Problem(alpha=0, L0=1, L=1, B=1, G=1, gap=1, norm=Norm.from_text("sign(100)"))
    >>> both = [in_norm(signs, of_samples=each) for each in (False, True)]
    >>> [(round(each.L0, 9), round(each.L, 9), round(each.B, 9)) for each in both]
    [(100.0, 10.0, 10.0), (10.0, 10.0, 10.0)]
    """
    rho = problem.norm.widest
    times = rho if of_samples else rho * rho
    bent = times if of_samples else times * problem.norm.kappa**problem.alpha
    given = {name: getattr(problem, name) for name in ("L0", "L1", "L")}
    factors = {"L0": times, "L1": bent, "L": rho}
    changed = {name: factors[name] * value for name, value in given.items() if value is not None}
    return replace(problem, B=problem.B * rho**problem.half_growth, **changed)
