"""
11. Diagnose a network
======================

Does the gradient noise of *your* model grow with the distance from where training starts? ``diagnose`` evaluates
mini-batches around the parameters and answers with an interval for every quantity, or says that it cannot tell. Often
the noise does not grow; then the batch size and the clip threshold are what is left to gain.

Here: a small perceptron on scikit-learn's digits, probed along the path that 300 steps of Adam take.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from gladstorm.torch import diagnose

torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
data = torch.utils.data.TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
start = {name: value.clone() for name, value in model.state_dict().items()}


def loss_of(model, batch):
    """The mean loss over a mini-batch."""
    return cross_entropy(model(batch[0]), batch[1])


optimizer, batches = torch.optim.Adam(model.parameters(), lr=1e-2), iter(loader)
for _ in range(300):
    batch = next(batches, None) or next(batches := iter(loader))
    optimizer.zero_grad()
    loss_of(model, batch).backward()
    optimizer.step()
end = {name: value.clone() for name, value in model.state_dict().items()}
model.load_state_dict(start)

report = diagnose(loss_of, model, loader, budget=96, checkpoint=end)
print(report)

# %%
# Each dot is one mini-batch. Along the path of training the noise is smaller than in random directions. So a model of
# the noise around the start may be true and still not describe what training meets.

probes = report.probes
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for direction, marker, colour in (("random", "^", "#E69F00"), ("along", "o", "#0072B2"), ("against", "s", "#CC79A7")):
    chosen = (probes.direction == direction) | (probes.direction == "start")
    ax.semilogy(probes.distance[chosen], probes.noise[chosen], marker, color=colour, alpha=0.35, markersize=4)
    at = np.unique(probes.distance[chosen])
    means = [probes.noise[chosen & (probes.distance == each)].mean() for each in at]
    ax.plot(
        at,
        means,
        color=colour,
        marker=marker,
        label=f"{direction} the path" if direction != "random" else "random directions",
    )
ax.set(xlabel="distance from the start", ylabel="variance of one sample's gradient")
ax.legend(frameon=False)
plt.show()
