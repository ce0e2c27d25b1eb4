"""
4. Your own data
================

``gs.finite_sum`` makes a problem from a loss of one example and a table of examples. Samples are then rows drawn at
random, as in training, and the exact gradient over all rows is known for comparison.

Does the noise of *your* data grow with the distance from the start? ``gs.oracles.measured_variance`` answers for any
problem. Here: logistic regression on scikit-learn's breast-cancer data.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import gladstorm as gs
from gladstorm.plotting.styles import LOOKS

features, labels = load_breast_cancer(return_X_y=True)
features = StandardScaler().fit_transform(features)
signs = 2.0 * labels - 1


def loss(x, example):
    """Logistic loss of one patient, with a little weight decay."""
    row, sign = example
    return jax.nn.softplus(-sign * (row @ x)) + 0.005 * (x @ x)


oracle = gs.finite_sum(loss, (features, signs), start=np.zeros(features.shape[1]))
methods = {"NSGDM": gs.nsgdm(gamma=0.01, eta=0.1), "NSTORM": gs.nstorm(gamma=0.01, eta=0.1), "SGD": gs.sgd(gamma=0.01)}
record = gs.sweep(oracle, methods, steps=2000, seeds=10)

# %%
# Left: along the line from the start to where SGD ends, and beyond, the noise *falls*. The model then tells most
# patients apart, and their gradients are small. So this problem has no growing noise, and SGD does as well as the
# others. Right: NSTORM evaluates two gradients per step, so the axis counts stochastic gradients and not steps.

direction = record["SGD"].last[0].mean(axis=0)
steps_out = np.linspace(0, 6, 25)[:, None] * direction
distance, variance = gs.oracles.measured_variance(oracle, steps_out)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(distance, variance, "k.-")
left.axvline(np.linalg.norm(direction), color="#777777", linestyle=":")
left.annotate(
    "where SGD ends", (np.linalg.norm(direction), variance.max() * 0.95), xytext=(5, 0), textcoords="offset points"
)
left.set(xlabel="distance from the start", ylabel="variance of one example's gradient", ylim=0)
for row, name in enumerate(methods):
    look = LOOKS[name]
    calls, norm = record.sfo[row].mean(0), record.grad_norm[row].mean(0)
    right.loglog(calls[1:], norm[1:], color=look.colour, linestyle=look.line, label=name)
right.set(xlabel="stochastic gradients", ylabel="gradient norm ‖∇f‖")
right.legend(frameon=False)
plt.show()
