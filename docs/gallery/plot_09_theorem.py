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
from gladstorm.plotting.styles import LOOKS

oracle = gs.BlumGladyshev(gs.objectives.named("cauchy", dim=2, start=1.5), B=0.2, G=0.5)
horizons, eps = [300, 1000, 3000, 10_000], np.geomspace(0.05, 1, 12)
bounds, measured, price = {}, {}, {}
for name in ("NSGDM", "NSTORM"):
    statement = gs.theory.for_oracle(oracle, name.lower())
    price[name] = [statement.tune(T).sfo(T) for T in (statement.horizon(each) for each in eps)]
    bounds[name], measured[name] = [], []
    for T in horizons:
        plan = gs.theory.Plan(statement.tune(T), horizon=T)  # the γ0 that makes the bound smallest
        found = gs.run(oracle, plan, seeds=20).against(plan)
        bounds[name].append(found.bound)
        measured[name].append(found.measured)

# %%
# Left: the mean of ‖∇f‖ over the run; smaller is better. Right: how many stochastic gradients guarantee an accuracy ε.
# To halve ε, NSGDM needs 2⁶ = 64 times as many and NSTORM 2⁴ = 16 times.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for name in bounds:
    look = LOOKS[name]
    left.loglog(horizons, bounds[name], color=look.colour, linestyle=look.line, label=f"{name}, guaranteed")
    left.loglog(horizons, measured[name], look.marker, color=look.colour, label=f"{name}, measured")
    right.loglog(eps, price[name], color=look.colour, linestyle=look.line)
    right.annotate(name, (eps[3], price[name][3]), xytext=(-62, 4), textcoords="offset points", color=look.colour)
left.set(xlabel="T, iterates", ylabel="mean of ‖∇f‖ over the run", ylim=(None, 60))
left.legend(frameon=False, ncols=2, fontsize="small")
right.set(xlabel="accuracy ε", ylabel="stochastic gradients that suffice")
right.invert_xaxis()
plt.show()
