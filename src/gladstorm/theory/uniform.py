"""Closed forms for an accuracy: schedules whose cost has the right order in every constant, uniformly in α and a.

A9 is about NSGDM and B9 about NSTORM; docs/proofs.md has the proofs. `plan` finds runs that cost less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    return Uniform(
        gamma=gamma,
        eta=eta,
        n_init=max(1, math.ceil(first)),
        horizon=math.ceil(4 * D / (left * gamma)),
        samples=1 + first + price * D * noise / left**3,
        scale=scale,
    )
