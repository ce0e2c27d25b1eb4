"""
1. Hello, noise
===============

Most theory assumes that a stochastic gradient is equally noisy everywhere. In the Blum-Gladyshev model (BG-0) the
noise grows with the distance from the start: its variance is at most B²‖x − x⁰‖² + G².

Below, two methods minimise f(x) = ‖x‖³ in ten dimensions, once with noise that stays the same (B = 0) and once with
noise that grows (B = 2). The solution x = 0 is 16 away from the start. So the growing noise is large just where the
methods have to stop.
"""

import matplotlib.pyplot as plt
import numpy as np

import gladstorm as gs
from gladstorm.plotting.styles import LOOKS

objective = gs.objectives.named("power:3", dim=10)  # ‖x‖³
noises = {"B = 0": gs.BlumGladyshev(objective, B=0.0, G=0.5), "B = 2": gs.BlumGladyshev(objective, B=2.0, G=0.5)}
methods = {"NSGDM": gs.nsgdm(gamma=5e-3, eta=0.1), "SGD": gs.sgd(gamma=2e-3)}
records = {noise: gs.sweep(oracle, methods, steps=5000, seeds=50) for noise, oracle in noises.items()}
print(records["B = 2"])

# %%
# ``gamma`` is the step size γ. A step of SGD is γ times the gradient. NSGDM, normalized SGD with momentum, averages
# gradients, where ``eta`` is the weight of the new one, and every step of it has length γ.
#
# Left: the noise. Right: the median of 50 seeds. SGD arrives sooner, because its first steps are long. The growing
# noise raises the level at which each method stops: about a hundredfold for SGD and about eightfold for NSGDM. A
# gradient with large noise makes a large step for SGD and a step of the usual length for NSGDM.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=(2, 3))
for noise, oracle in noises.items():
    distance, variance = gs.oracles.measured_variance(oracle, np.linspace(1, -0.2, 30)[:, None] * objective.start)
    left.plot(distance, variance, "k.-" if oracle.B else "k:", label=noise)
    for row, (name, look) in enumerate((name, LOOKS[name]) for name in methods):
        curve = np.median(records[noise].grad_norm[row], axis=0)
        style = {"color": look.colour, "linestyle": "-" if oracle.B else ":"}
        right.semilogy(records[noise].steps, curve, label=f"{name}, {noise}", **style)
left.set(xlabel="distance from the start", ylabel="variance of one gradient", title="The noise")
right.set(xlabel="steps", ylabel="gradient norm ‖∇f‖ (smaller is better)", title="What it does to two methods")
left.legend(frameon=False)
right.legend(frameon=False)
plt.show()
