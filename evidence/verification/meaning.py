"""What each kind of check says, and what it does not."""

from __future__ import annotations

from typing import Final

from evidence.verification import bounds, feedback, noise_exponents

MEANING: Final = {
    "bound": "E‖∇f(x̂)‖ is at most the smallest bound that is known to hold for the run: the theorem's, corrected where "
    "the paper's is wrong, or a sharper one of this project. It is measured on some problems of the class: a bound "
    "that holds here may still fail elsewhere.",
    "slope": f"The slope of log E‖∇f(x̂)‖ against log T is within {bounds.MARGIN} of −rate. It cannot be steeper in the "
    "limit, because a normalized run that descends by Δ meets at least Δ/(γT) on average, and γT = γ0 T^rate. The "
    "bound says that it cannot be flatter. This says nothing about noise: without it the same γ gives the same slope.",
    "travel": "A run without noise on a tilted plane travels exactly γ0 T^rate (1 − 1/T). A γ with a wrong factor or a "
    "wrong exponent fails.",
    "estimator error": "The mean error of the estimate, (1/T) Σ‖v^k − ∇f(x^k)‖, minus the proof's feedback times the "
    "mean of ‖∇f‖, is at most the proof's bound.",
    "error identity": "E‖v^k − ∇f(x^k)‖² equals the expected sum of its conditional variances; what is shown is the "
    "relative difference, exactly 0. This holds where the gradient is constant (a plane in 100 dimensions, every noisy "
    "regime), and for NSTORM under the paper's added noise on every function. A wrong η fails. The interval must "
    "contain 0; the test can refute an identity, it cannot prove one.",
    "initial error identity": "E‖v⁰ − ∇f(x⁰)‖² divided by G²/N_init is exactly 1.",
    "oracle": "Each law of noise has the mean and, at three distances from x⁰, the second moment that it should have, "
    "and one sample changes between two points as much as it should. The mean is looked at along whichever direction "
    "it points.",
    "noise exponent": "Where Δ = 0 and noise alone moves the iterate, the slope is within "
    f"{noise_exponents.MARGIN} of that of the bound's slowest noise term. The exponents of the other terms are further "
    "away. It is not equality, and says nothing about the term's constant.",
    "feedback exponent": "Where a sample's curvature grows with its noise, the slope of the mean of ‖v − ∇f‖ is within "
    f"{feedback.MARGIN} of that of L1 (B γT)^α γ/√η, with the schedule of the class and with that of the smooth class.",
    "printed bound is false": "The counterexample of docs/errata.md exceeds three bounds as the paper prints them, and "
    "none of them as corrected.",
    "chain progress": "The coordinates of a zero-chain that a run has reached, divided by p times the samples drawn, "
    "are at most 1 on average for every method that stays in the span of what it was shown. A method that never keeps "
    "the chain waiting attains 1, so the claim is only that the interval does not lie above 1.",
}
