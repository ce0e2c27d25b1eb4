"""
5. Your own noise
=================

Noise is a class with three methods: ``draw`` the randomness of one step, turn it into the mean of a ``batch``, and
give the stochastic ``grad`` of that sample at a point. Drawing and evaluating are separate so that a method such as
NSTORM can evaluate one sample at two points. ``@gs.part`` lets the class be compiled, and ``gs.leaf`` declares a
number of it and the rule that the number must obey.

Here: gradients are multiplied by a random factor, as happens when examples are dropped at random. So the noise grows
with the gradient and not with the distance.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import gladstorm as gs
from gladstorm.core.rules import NON_NEGATIVE
from gladstorm.plotting.styles import LOOKS


@gs.part
class Multiplicative(gs.Oracle):
    """∇f(x; ξ) = (1 + s ε) ∇f(x) with ε standard normal."""

    objective: gs.objectives.Objective
    s: float = gs.leaf(NON_NEGATIVE)

    def draw(self, key):
        """One normal number."""
        return jax.random.normal(key, (), jnp.result_type(float))

    def batch(self, noise, size):
        """The mean of b normal numbers is normal with a b-th of the variance."""
        return noise / jnp.sqrt(jnp.asarray(size, noise.dtype))

    def grad(self, point, sample):
        """The exact gradient, which the point remembers, times the factor."""
        return (1 + self.s * sample) * point.grad


objective = gs.objectives.named("quadratic:1,10", dim=2, start=3.0)
noises = {
    "multiplied by 1 + 2ε": Multiplicative(objective, s=2.0),
    "added, growing (BG-0)": gs.BlumGladyshev(objective, B=0.5, G=0.5),
}
methods = {"NSGDM": gs.nsgdm(gamma=1e-2, eta=0.1), "SGD": gs.sgd(gamma=1e-2)}

# %%
# Left: multiplied noise vanishes at the solution, so SGD converges. NSGDM does not, because its steps keep their
# length. Right: noise that grows with the distance from the start is largest at the solution, and neither converges.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
for ax, (title, oracle) in zip(axes, noises.items(), strict=True):
    record = gs.sweep(oracle, methods, steps=3000, seeds=20)
    for row, name in enumerate(methods):
        look = LOOKS[name]
        ax.semilogy(
            record.steps, np.median(record.grad_norm[row], axis=0), color=look.colour, linestyle=look.line, label=name
        )
    ax.set(title=f"noise {title}", xlabel="steps")
axes[0].set(ylabel="gradient norm ‖∇f‖, median of 20 seeds", ylim=1e-8)
axes[0].legend(frameon=False)
plt.show()
