"""Closed forms for an accuracy, whose cost has the right order in every constant, and what every method needs.

A9 is the form of NSGDM and B9 that of NSTORM, uniformly in α and a; docs/proofs.md leads to the proofs. `plan` finds
runs that cost less. Lower bounds count stochastic gradients where noise grows with the distance from x⁰.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from gladstorm.core.hardness import Hardness
from gladstorm.theory.every_setting import kind_of, run_at
from gladstorm.theory.problem import Problem
from gladstorm.theory.rules import POSITIVE


@dataclass(frozen=True)
class Uniform:
    """A run that guarantees E‖∇f(x̂)‖ ≤ ε, and the most that it costs."""

    gamma: float  #: γ
    eta: float  #: η
    n_init: int  #: N_init, the samples of v⁰
    horizon: int  #: T
    samples: float  #: no more stochastic gradients are taken
    scale: float  #: s, at which a class of α < 1 is read as one of α = 1
    source: str  #: the closed form, and the bound it makes at most ε
    terms: dict[str, float]  #: that bound, term by term


def uniform(method: str, problem: Problem, eps: float) -> Uniform:
    """The closed form of A9 (nsgdm) or B9 (nstorm) for ε. It needs ε ≤ 8τQ, Q being the noise where the run ends.

    Args:
        method, problem, eps: "nsgdm" or "nstorm", the constants, and ε.

    >>> run = uniform("nstorm", Problem(alpha=1, L0=1, L1=1, B=1, G=0, gap=1), eps=0.1)
    >>> round(run.samples / (4480 * (1 + 40) * 40 / 0.1**3), 3)
    1.0
    """
    POSITIVE.require("uniform", "eps", eps)
    if method not in ("nsgdm", "nstorm"):
        raise ValueError(f"uniform: method must be nsgdm or nstorm; got method={method!r}.")
    norm, decay, D = problem.norm, problem.decay, problem.gap
    share = 1.0 if decay is None else 1 - (decay.inward or 0.0)
    left, away = share * eps, 4 * D / eps if decay is None else decay.radius
    Q = problem.G + problem.B * away**problem.half_growth
    noise = norm.tau * Q
    if left > 8 * noise:
        raise ValueError(f"uniform: eps must be at most {8 * noise / share:.4g}, 8 times the noise; got eps={eps}.")
    eta = (left / (8 * noise)) ** 2
    if method == "nsgdm":
        scale, level = eps, problem.constant(method, "L0")
        bent = level + (problem.constant(method, "L1") * eps**problem.alpha if problem.alpha else 0.0)
        gamma, price = eta * left / ((8 if decay is None else 16) * bent), 2048 * bent * noise / left
    else:
        scale = norm.kappa * noise
        level = problem.constant(method, "L0" if problem.alpha else "L")
        bent = level + (problem.constant(method, "L1") * scale**problem.alpha if problem.alpha else 0.0)
        bent *= norm.widest * norm.nu
        gamma, price = share * left * left / ((560 if decay is None else 1280) * noise * bent), 4480 * bent
    if decay is not None:
        price *= 2 if method == "nsgdm" else 10240 / 4480 / share
    first = 256 * (norm.tau * problem.G / left) ** 2
    n_init, horizon = max(1, math.ceil(first)), math.ceil(4 * D / (left * gamma))
    run = run_at(kind_of(method, problem), problem, horizon, [math.log(gamma), math.log(eta), math.log(scale)]).bound
    run = replace(run, initial_error=norm.tau * problem.G / math.sqrt(n_init))
    source = f"{'A9' if method == 'nsgdm' else 'B9'}: closed form; {run.source}"
    return Uniform(gamma, eta, n_init, horizon, 1 + first + price * D * noise / left**3, scale, source, run.terms())


class SmoothHardness(NamedTuple):
    """Evaluations and rounds that E‖∇f‖ ≤ ε takes at least, if only f is smooth."""

    samples: float  # fewer evaluations are not enough
    rounds: float  # nor are fewer rounds, however many evaluations each has; 0 if rotated, where it is not proved
    largest_eps: float  # ε up to which both hold


def lower_bound(problem: Problem, eps: float, *, rotated: bool = False, blocks: int | None = None) -> Hardness:
    """Count what every method needs for E‖∇f‖ ≤ ε if samples are in E L*_sym(α) and noise grows like r^a.

    Where curvature does not grow (α = 0 or L1 = 0), samples of L allow noise that grows like L‖x − x⁰‖ and no faster:
    then the problem has the smaller growth of B and L/107 (L/214 if rotated), at half the length of the runway.

    Args:
        problem, eps: The constants, those of the oracle, and ε. α = 0 is read as L1 = 0; G does not matter.
        rotated: For all methods (Theorem 1); otherwise for those that respect zeros (Theorem 2), as all here do.
        blocks: r, in another norm than the Euclidean: how many blocks of coordinates with ‖x‖ ≥ max ‖x_i‖₂ and
            ‖v‖_* = Σ ‖v_i‖₂ it has, each as long as the chain and 1 more. For spectral steps, columns (Theorem 10).

    >>> least = lower_bound(Problem(alpha=1, L0=1, L1=120, B=0.25, G=0, gap=1), eps=1e-4)
    >>> f"{least.guaranteed:.3g}", all(least.eps <= largest for largest in least.limits().values())
    ('1.36e+11', True)
    """
    problem, eps = _in_block(problem, eps, blocks, sums=True)
    level = problem.constant("lower_bound", "L0" if problem.L is None else "L")
    alpha, L1 = (problem.alpha, problem.constant("lower_bound", "L1")) if problem.alpha else (1.0, 0.0)
    if L1 and problem.growth > 2:
        raise ValueError(f"lower_bound: growth must be at most 2 where curvature grows; got growth={problem.growth:g}.")
    B, gap, growth = problem.B, problem.gap, problem.growth
    least = Hardness(eps=eps, alpha=alpha, L0=level, L1=L1, B=B, gap=gap, growth=growth, rotated=rotated)
    return least if L1 else least.of_smooth_samples()


def smooth_lower_bound(
    problem: Problem, eps: float, *, rotated: bool = False, blocks: int | None = None
) -> SmoothHardness:
    """Count what every method needs for E‖∇f‖ ≤ ε if f is L0-smooth, noise grows like r^a, and samples may be anything.

    With B′ = B (Δ/(16ε))^(a/2 − 1) it is L0 B′² Δ³/(3.4·10⁹ ε⁶) (Theorem 6), or 4.2·10¹¹ for all methods (Theorem 8).
    Args:
        problem, eps, rotated, blocks: As in `lower_bound`, but L0 is that of f.

    >>> least = smooth_lower_bound(Problem(alpha=0, L0=1, B=1, G=0, gap=1, growth=1), eps=1e-3)
    >>> f"{least.samples:.3g} samples in {least.rounds:.3g} rounds"
    '4.71e+06 samples in 5.88 rounds'
    """
    problem, eps = _in_block(problem, eps, blocks, sums=False)
    L0, B, D, h = problem.constant("lower_bound", "L0"), problem.B, problem.gap, problem.half_growth
    felt = B * (D / (16 * eps)) ** (h - 1)
    samples = L0 * felt**2 * D**3 / ((4.2e11 if rotated else 3.4e9) * eps**6)
    long, rare = (97700, 733) if rotated else (41000, 144)
    noisy = (B * D**h * 16 ** (1 - h) / rare) ** (1 / (1 + h))
    return SmoothHardness(samples, 0.0 if rotated else L0 * D / (1.7e5 * eps**2), min(math.sqrt(L0 * D / long), noisy))


def _in_block(problem: Problem, eps: float, blocks: int | None, *, sums: bool) -> tuple[Problem, float]:
    """Constants of one of r equal blocks whose sum is the problem. With `sums` L is that of samples in mean square."""
    POSITIVE.require("lower_bound", "eps", eps)
    POSITIVE.require("lower_bound", "B", problem.B)
    if problem.decay is not None or not (problem.norm.euclidean or blocks):
        raise ValueError(
            "lower_bound: problem must have no decay, and blocks must be given in another norm than euclid; got "
            f"decay={problem.decay}, norm={problem.norm.name}."
        )
    r = blocks or 1
    if r == 1:
        return problem, eps
    if sums and problem.alpha and problem.L1:
        raise ValueError(f"lower_bound: L1 must be 0 in blocks, for samples; got L1={problem.L1}.")
    level = math.sqrt(r) if sums else r
    smoothness = {name: value / level for name in ("L0", "L") if (value := getattr(problem, name)) is not None}
    return replace(problem, B=problem.B / math.sqrt(r), gap=problem.gap / r, **smoothness), eps / r
