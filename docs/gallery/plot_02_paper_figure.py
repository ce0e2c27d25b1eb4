"""
2. The paper's figure in ten lines
==================================

The paper's first experiment is phase retrieval: find x from the squares of linear measurements. Five methods run on
the same noise. NSGDM and NSTORM take their step size and momentum from the theorems. The two methods with a *dynamic
batch* average more samples the further they travel, so that their noise stays bounded.

This is a small version (20 unknowns, 200 measurements). ``make reproduce`` runs the paper's size with tuned
baselines, 100 seeds and a verdict on every sentence: see :doc:`/evidence/reproduction/index`.
"""

import matplotlib.pyplot as plt

import gladstorm as gs

B, G, steps = 0.5, 1.0, 3000
oracle = gs.BlumGladyshev(gs.objectives.named("phase-retrieval:200", dim=20), B=B, G=G)
grow = gs.batches.GrowWithDistance(B=B, G=G, sigma2=1.0)
methods = {
    "NSGDM": gs.methods.nsgdm_by_theory(gamma0=10.0, horizon=steps + 1, B=B, G=G),
    "NSTORM": gs.methods.nstorm_by_theory(gamma0=7.5, horizon=steps + 1, B=B, G=G),
    "SGD": gs.sgd(gamma=3e-3),
    "SGD, dynamic batch": gs.sgd(gamma=3e-3, batch=grow),
    "STORM, dynamic batch": gs.storm(gamma=3e-3, eta=0.1, batch=grow),
}
record = gs.sweep(oracle, methods, steps=steps, seeds=5)

# %%
# The left figure compares methods at equal cost: a batch of 100 costs 100 stochastic gradients, and STORM evaluates
# every sample twice. Smaller gradient norms are better.

from gladstorm.plotting.styles import styles

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for row, (name, look) in enumerate(styles(methods).items()):
    axes[0].loglog(record.sfo[row].mean(0)[1:], record.grad_norm[row].mean(0)[1:], label=name, **look)
    axes[1].plot(record.steps, record.drift2[row].mean(0), **look)
    axes[2].semilogy(record.steps, record.batch[row].mean(0), **look)
axes[0].set(xlabel="stochastic gradients", title="gradient norm ‖∇f‖")
axes[1].set(xlabel="steps", title="squared distance from the start")
axes[2].set(xlabel="steps", title="batch size")
figure.legend(loc="outside lower center", ncols=5, frameon=False)
plt.show()
