"""
12. NSGDM in a PyTorch loop
===========================

NSGDM replaces ``torch.optim.SGD`` in one line. Its learning rate means something else: it is the length of a step,
whatever the size of the gradient. So a good learning rate of SGD or Adam tells you nothing about it: try several.

Here: a perceptron on digits, 300 steps with a linear decay, at eleven learning rates for each optimizer.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from gladstorm.plotting.styles import LOOKS
from gladstorm.torch import NSGDM

torch.set_num_threads(1)
images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
train, test = slice(0, 1200), slice(1200, None)


def accuracy(make_optimizer, learning_rate, steps=300):
    """Share of test digits recognized after training, in percent."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = make_optimizer(model.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=steps)
    for _ in range(steps):
        batch = torch.randint(1200, (32,))
        optimizer.zero_grad()
        cross_entropy(model(images[train][batch]), labels[train][batch]).backward()
        optimizer.step()
        schedule.step()
    return 100 * (model(images[test]).argmax(1) == labels[test]).float().mean().item()


rates = np.geomspace(1e-4, 1e1, 11)
optimizers = {"NSGDM": NSGDM, "SGD": torch.optim.SGD, "Adam": torch.optim.Adam}
found = {name: [accuracy(make, rate) for rate in rates] for name, make in optimizers.items()}

# %%
# This is one seed and one split of the data. It shows that the useful ranges differ; it cannot rank the optimizers.
# :doc:`/evidence/networks/index` does that.

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, values in found.items():
    look, best = LOOKS[name], int(np.argmax(values))
    ax.semilogx(
        rates,
        values,
        color=look.colour,
        linestyle=look.line,
        marker=look.marker,
        label=f"{name}, best {max(values):.1f} %",
    )
    ax.plot(rates[best], values[best], "o", markersize=14, markerfacecolor="none", color=look.colour)
ax.set(xlabel="learning rate", ylabel="test accuracy, %", title="circle: best of eleven", ylim=(0, 100))
ax.legend(frameon=False)
plt.show()
