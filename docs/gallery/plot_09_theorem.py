"""
9. What a theorem guarantees, and what it costs
===============================================

You know some constants of your problem: how smooth f is (L0), how noisy a gradient is at the start (G) and how fast
that grows (B), and how far f(x⁰) is above its infimum (the gap). ``gs.theory.plan`` finds the theorem for them, its
step size and momentum, and the number of steps after which the gradient norm is at most ε, on average. When the
problem is simulated, as here, ``gs.theory.for_oracle`` reads the constants from it.

A guarantee holds for every problem with these constants, so most problems end far below it. This page compares the
guaranteed and the measured gradient norm for f(x) = Σ log(1 + x²).
"""

import matplotlib.pyplot as plt
import numpy as np

import gladstorm as gs
from gladstorm.pages.styles import LOOKS

oracle = gs.BlumGladyshev(gs.objectives.named("cauchy", dim=2, start=1.5), B=0.2, G=0.5)
horizons = [300, 1000, 3000, 10_000]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for name in ("nsgdm", "nstorm"):
    look, statement = LOOKS[name.upper()], gs.theory.for_oracle(oracle, name)
    measured, bounds = [], []
    for T in horizons:
        best = statement.tune(T)  # the γ0 that makes the bound smallest
        schedule = best.schedule(T)
        method = gs.methods.Method(
            gs.Momentum(schedule.eta) if name == "nsgdm" else gs.Storm(schedule.eta),
            gs.Normalized(schedule.gamma),
            gs.FirstLarge(schedule.n_init),
        )
        measured.append(gs.run(oracle, method, steps=T - 1, seeds=20).mean_grad_norm[0, :, -1].mean())
        bounds.append(best.bound(T))
    left.loglog(horizons, bounds, color=look.colour, linestyle=look.line, label=f"{name.upper()}, guaranteed")
    left.loglog(horizons, measured, look.marker, color=look.colour, label=f"{name.upper()}, measured")
    eps = np.geomspace(0.05, 1, 12)
    price = [statement.tune(T).sfo(T) for T in (statement.horizon(each) for each in eps)]
    right.loglog(eps, price, color=look.colour, linestyle=look.line)
    right.annotate(name.upper(), (eps[3], price[3]), xytext=(-52, 8), textcoords="offset points", color=look.colour)

# %%
# Left: the mean of ‖∇f‖ over the run; smaller is better. Right: how many stochastic gradients guarantee an accuracy ε.
# To halve ε, NSGDM needs 2⁶ = 64 times as many and NSTORM 2⁴ = 16 times.

left.set(xlabel="T, iterates", ylabel="mean of ‖∇f‖ over the run")
left.legend(frameon=False)
right.set(xlabel="accuracy ε", ylabel="stochastic gradients that suffice")
right.invert_xaxis()
plt.show()
