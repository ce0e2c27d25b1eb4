"""
6. Your own estimator
=====================

A method is an *estimator* (how the direction v is made from stochastic gradients), a *step* (how x moves along v) and
a *batch rule* (how many samples are averaged). A new estimator is a class with one equation. It works with every step
and every batch rule.

Here: half of STORM. Momentum averages gradients that were taken at older points. STORM corrects them: it evaluates
each sample at both ends of a step and adds the difference. This estimator adds half of the difference.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

import gladstorm as gs
from gladstorm.plotting.styles import styles


@gs.part
class HalfStorm(gs.Estimator):
    """v ← (1 − η) (v + ½ (g − g')) + η g, with g and g' the sample's gradients at the new and the old point."""

    eta: gs.Number = gs.leaf(gs.rules.SHARE)
    queries = 2  # gradients per sample: this is how its cost is counted

    def update(self, state, grad, previous, point):
        """One step of the recursion; `grad` evaluates the current sample at a point."""

        def combine(v, g, stale):
            return (1 - self.eta) * (v + 0.5 * (g - stale)) + self.eta * g

        return jax.tree.map(combine, state, grad(point), grad(previous))


oracle = gs.BlumGladyshev(gs.objectives.named("double-well", dim=10), B=0.2, G=1.0)
step = gs.steps.Normalized(gamma=3e-3)
methods = {
    "NSGDM": gs.Method(gs.estimators.Momentum(eta=0.01), step, gs.batches.Fixed(1)),
    "half of STORM": gs.Method(HalfStorm(eta=0.01), step, gs.batches.Fixed(1)),
    "NSTORM": gs.Method(gs.estimators.Storm(eta=0.01), step, gs.batches.Fixed(1)),
}
record = gs.sweep(oracle, methods, steps=8000, seeds=20)

# %%
# The record has the error of the estimate, ‖v − ∇f‖, beside the gradient norm. Both are better if smaller. The
# simulator computes the cost of a step from ``queries``.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for row, (name, look) in enumerate(styles(methods).items()):
    calls = record.sfo[row].mean(axis=0)[1:]
    for ax, values in zip(axes, (record.error, record.grad_norm), strict=True):
        ax.loglog(calls, np.median(values[row], axis=0)[1:], label=name, **look)
axes[0].set(title="error of the estimate ‖v − ∇f‖", xlabel="stochastic gradients")
axes[1].set(title="gradient norm ‖∇f‖", xlabel="stochastic gradients")
axes[0].legend(frameon=False)
plt.show()
