"""
14. Your own step
=================

A *step* says how x moves along the direction v. A step that needs x and v only inherits ``gs.steps.Memoryless`` and is
one function of both. Its numbers are fields, each with the rule that it must obey. Lists of numbers are swept, and
because the step size is called ``gamma``, ``gs.methods.with_decay`` makes it decay. The step works with every
estimator.

Here: a step that is cut smoothly. It is γv where v is short, and never longer than γc.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import gladstorm as gs
from gladstorm.plotting.styles import styles


@gs.part
class SmoothlyClipped(gs.steps.Memoryless):
    """x − γv/√(1 + ‖v‖²/c²)."""

    gamma: gs.Number = gs.leaf(gs.rules.POSITIVE)  # the step size γ
    c: gs.Number = gs.leaf(gs.rules.POSITIVE, default=1.0)  # about where it is cut

    def __call__(self, x, v):
        """The next x."""
        scale = self.gamma / jnp.sqrt(1 + sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(v)) / self.c**2)
        return jax.tree.map(lambda x, v: x - scale * v, x, v)


oracle = gs.BlumGladyshev(gs.objectives.named("double-well", dim=10), B=0.2, G=1.0)
step_sizes = np.geomspace(1e-3, 1.0, 10)
smooth = gs.Method(gs.estimators.Momentum(eta=0.1), SmoothlyClipped(gamma=step_sizes))
methods = {
    "normalized": gs.nsgdm(gamma=step_sizes, eta=0.1),
    "smoothly clipped": smooth,
    "smoothly clipped, decaying": gs.methods.with_decay(smooth),
}
record = gs.sweep(oracle, methods, steps=3000, seeds=20)

# %%
# A gap in a line is a step size at which some of the 20 runs diverged.

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, look in styles(methods).items():
    final = np.median(record[name].grad_norm[:, :, -1], axis=1)
    ax.loglog(step_sizes, np.where((record[name].diverged < 0).all(axis=1), final, np.nan), label=name, **look)
ax.set(xlabel="step size γ", ylabel="‖∇f‖ after 3,000 steps, median of 20 seeds", title="Double well")
ax.legend(frameon=False)
plt.show()
