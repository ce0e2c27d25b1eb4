"""
10. Variational inference with numpyro
======================================

Black-box variational inference fits a simple distribution to a posterior by stochastic gradients. Its noise comes
from drawing parameters and grows with the width of the fitted distribution. So the noise grows without anybody adding
it. The loss is the negative ELBO, an upper bound on the negative log evidence.

NSGDM works in numpyro's ``SVI`` like any Optax optimizer. NSTORM evaluates each draw at two points; ``TwoPoint`` takes
care of that. The model is a logistic regression on breast-cancer data. See :doc:`/numpyro` for a careful comparison.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import optax
from numpyro.distributions import Bernoulli, Normal
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from gladstorm.numpyro import TwoPoint
from gladstorm.optax import nsgdm, nstorm
from gladstorm.plotting.styles import LOOKS

features, labels = load_breast_cancer(return_X_y=True)
features = StandardScaler().fit_transform(features).astype(np.float32)


def model(features, labels):
    """Standard normal weights, one for each feature."""
    weights = numpyro.sample("weights", Normal(0, 1).expand([features.shape[1]]).to_event(1))
    numpyro.sample("labels", Bernoulli(logits=features @ weights), obs=labels)


steps = 1500
optimizers = {  # a step of NSTORM takes two gradients: half as many steps are an equal budget
    "NSGDM": (nsgdm(optax.linear_schedule(0.1, 0.0, steps)), steps),
    "NSTORM": (TwoPoint(nstorm(optax.linear_schedule(0.1, 0.0, steps // 2))), steps // 2),
    "Adam": (optax.adam(optax.linear_schedule(0.1, 0.0, steps)), steps),
}
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, (optimizer, count) in optimizers.items():
    svi = SVI(model, AutoNormal(model), optimizer, Trace_ELBO())
    result = svi.run(jax.random.key(0), count, features, labels, progress_bar=False)
    losses = np.convolve(result.losses, np.ones(25) / 25, mode="valid")  # single draws are noisy
    look, price = LOOKS[name], steps // count
    ax.plot(price * np.arange(losses.size), losses, color=look.colour, linestyle=look.line, label=name)
    print(f"{name}: negative ELBO, mean of the last 25 draws: {losses[-1]:.1f}")
ax.set(yscale="log", xlabel="gradients computed", ylabel="negative ELBO (smaller is better)")
ax.legend(frameon=False)
plt.show()
