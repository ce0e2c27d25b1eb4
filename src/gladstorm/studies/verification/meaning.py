"""What each kind of check says, and what it does not."""

from __future__ import annotations

from typing import Final

from gladstorm.studies.verification import bounds, feedback, noise_exponents

MEANING: Final = {
    "bound": "E‖∇f(x̂)‖ against the smallest bound that is known to hold for the run: the theorem's, corrected where "
    "the paper's is wrong, or a sharper one of this project. It is measured on problems of the class, not on all of "
    "them: a bound that holds here may still fail elsewhere.",
    "slope": f"Of log E‖∇f(x̂)‖ against log T, within {bounds.MARGIN} of −rate. Two-sided: a normalized run that "
    "descends by Δ meets at least Δ/(γT) on average and γT = γ0 T^rate, so it cannot be steeper in the limit, and the "
    "bound says that it cannot be flatter. It proves nothing about the noise: without noise the same γ gives the same "
    "slope.",
    "travel": "How far a run without noise gets on a tilted plane: γ0 T^rate (1 − 1/T) exactly. A wrong γ, in its "
    "factor or in its exponent, fails.",
    "estimator error": "(1/T) Σ‖v^k − ∇f(x^k)‖, less the proof's feedback times the mean of ‖∇f‖, against the proof's "
    "bound.",
    "error identity": "E‖v^k − ∇f(x^k)‖² less the sum of its conditional variances, relative to it: exactly 0 where "
    "the gradient is constant (a plane in 100 dimensions, every noisy regime), and for NSTORM under the wrapper's "
    "noise on every function. A wrong η fails. The interval must contain 0; the test can refute an identity, it "
    "cannot prove one.",
    "initial error identity": "E‖v⁰ − ∇f(x⁰)‖² relative to G²/N_init: exactly 1.",
    "oracle": "For each law of noise its mean, along whichever direction it points, and its second moment at three "
    "distances from x⁰, and how much one sample changes between two points.",
    "noise exponent": "The slope where Δ = 0 and noise alone moves the iterate, within "
    f"{noise_exponents.MARGIN} of that of the bound's slowest noise term. Terms of other exponents are further away: "
    "this one shows. It is not equality, and says nothing about the term's constant.",
    "feedback exponent": "The slope of the mean of ‖v − ∇f‖ where a sample's curvature grows with its noise, within "
    f"{feedback.MARGIN} of that of L1 (B γT)^α γ/√η, under the schedule of the class and under that of the smooth one.",
    "printed bound is false": "The counterexample of docs/errata.md exceeds three bounds as the paper prints them, and "
    "none of them as corrected.",
    "chain progress": "Coordinates of a zero-chain reached, relative to p times the samples drawn: at most 1 on "
    "average for every method that stays in the span of what it was shown. A chain that is never waited for attains 1, "
    "so the claim is only that the interval does not lie above it.",
}
