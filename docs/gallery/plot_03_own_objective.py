"""
3. Your own objective
=====================

Any function written with ``jax.numpy`` is an objective: give the function and where to start. Gladstorm takes the
gradient by automatic differentiation, adds the noise you ask for, and runs as many methods, step sizes and seeds as
you like in one compiled program.

Here: Rosenbrock's curved valley in two dimensions, NSGDM against SGD, each at nine step sizes.
"""

import matplotlib.pyplot as plt
import numpy as np

import gladstorm as gs
from gladstorm.plotting.styles import LOOKS


def rosenbrock(x):
    """A narrow curved valley; the minimum, 0, is at (1, 1)."""
    return (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2


objective = gs.objectives.from_function(rosenbrock, start=np.array([-1.5, 2.0]))
oracle = gs.BlumGladyshev(objective, B=0.5, G=0.5)
step_sizes = np.geomspace(1e-4, 1e-1, 9)
methods = {"NSGDM": gs.nsgdm(gamma=step_sizes, eta=0.1), "SGD": gs.sgd(gamma=step_sizes)}
record = gs.sweep(oracle, methods, steps=5000, seeds=20)

# %%
# Both methods get the same nine step sizes. A step size is drawn if none of its 20 runs diverged. SGD diverges at the
# larger ones.

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name in methods:
    runs, look = record[name], LOOKS[name]
    final = runs.grad_norm[:, :, -1]
    final = np.where(np.isfinite(final), final, np.nan)
    typical = np.where(np.isnan(final).any(axis=1), np.nan, np.median(final, axis=1))
    ax.loglog(runs.numbers("gamma"), typical, color=look.colour, linestyle=look.line, marker=look.marker, label=name)
    best = np.nanargmin(typical)
    ax.plot(step_sizes[best], typical[best], "o", markersize=14, markerfacecolor="none", color=look.colour)
    print(f"{name}: best step size {step_sizes[best]:.2g}; diverged at {int(np.isnan(typical).sum())} of 9 step sizes")
ax.set(xlabel="step size γ", ylabel="‖∇f‖ after 5,000 steps, median of 20 seeds", title="Rosenbrock (circle: best)")
ax.legend(frameon=False)
plt.show()
