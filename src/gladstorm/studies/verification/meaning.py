"""What each kind of check says, and what it does not."""

from __future__ import annotations

from typing import Final

from gladstorm.studies.verification import bounds, noise_exponents

MEANING: Final = {
    "bound": "The theorem's bound on E‖∇f(x̂)‖, corrected where the paper's is wrong. It is measured on problems of the "
    "class, not on all of them: a bound that holds here may still fail elsewhere.",
    "sharper bound": "A smaller bound of this project for the same run.",
    "wrapper bound": "A smaller bound of this project that knows the noise to be the wrapper's (NSTORM).",
    "slope": f"Of log E‖∇f(x̂)‖ against log T, within {bounds.MARGIN} of −rate. Two-sided: a normalized run that "
    "descends by Δ meets at least Δ/(γT) on average and γT = γ0 T^rate, so it cannot be steeper in the limit, and the "
    "bound says that it cannot be flatter. It confirms the schedule's exponents and proves nothing about the noise: "
    "without noise the same γ gives the same slope.",
    "trajectory": "‖x^k − x⁰‖/(kγ) ≤ 1 at every recorded step of every run.",
    "travel": "What a run must have met on its way down, relative to what it met: at most 1 on every path (smooth f).",
    "estimator error": "(1/T) Σ‖v^k − ∇f(x^k)‖, less the proof's feedback times the mean of ‖∇f‖, against the proof's "
    "bound. Without noise: relative to the mean of ‖∇f‖, zero but for rounding.",
    "error identity": "E‖v^k − ∇f(x^k)‖² less the sum of its conditional variances, relative to it: 0 exactly for "
    "NSTORM under the wrapper's noise, and for NSGDM where the gradient is constant. The interval must contain 0; its "
    "width says which error would be found.",
    "initial error identity": "E‖v⁰ − ∇f(x⁰)‖² relative to G²/N_init: 1 exactly.",
    "oracle": "Mean, second moment and the same sample at two points, at three distances from x⁰. Of noise that a "
    "problem has by itself the second moment is a closed form, and at most the allowance the theorems are told.",
    "noise exponent": "The slope where Δ = 0 and noise alone moves the iterate, within "
    f"{noise_exponents.MARGIN} of that of the bound's slowest noise term. Terms of other exponents are further away: "
    "this one shows. It is not equality, and says nothing about the term's constant.",
    "printed bound is false": "The counterexample of docs/errata.md exceeds the bound as the paper prints it.",
    "chain progress": "Coordinates of a zero-chain reached, relative to p times the samples drawn: at most 1 on "
    "average for every method that stays in the span of what it was shown. A chain that is never waited for attains 1, "
    "so the claim is only that the interval does not lie above it.",
}
