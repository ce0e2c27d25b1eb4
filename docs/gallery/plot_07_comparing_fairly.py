"""
7. Comparing fairly
===================

There are three ways to fool yourself: to count steps although one method evaluates two gradients per step, to tune
one method more than another, and to report on the seeds that were used for tuning. ``gs.compare`` gives every method
the same number of stochastic gradients and the same number of settings (here step sizes). It tunes on three seeds and
reports on others, each with a random start.
"""

import matplotlib.pyplot as plt
import numpy as np

import gladstorm as gs
from gladstorm.plotting.styles import LOOKS


def problem(seed):
    """Least squares on a stream of samples, noisy by itself; each seed starts elsewhere."""
    objective = gs.objectives.named("streaming-least-squares:0.5", dim=20, seed=seed)
    return gs.oracles.named("streaming-least-squares", objective)


step_sizes = np.geomspace(1e-2, 1, 5)
methods = {
    "NSGDM": gs.nsgdm(gamma=step_sizes, eta=0.1),
    "NSTORM": gs.nstorm(gamma=step_sizes, eta=0.1),
    "SGD": gs.sgd(gamma=step_sizes / 10),
}
results = gs.compare(problem, methods, budget=1000, seeds=20)
first = results["NSGDM"]
relative = {name: results[name].relative_to(first, comparisons=2).grad_norm for name in ("NSTORM", "SGD")}

# %%
# Left: the score of a method is ‖∇f‖ when its budget is spent; smaller is better. Right: the ratio to NSGDM, seed by
# seed; below 1 is better than NSGDM. Both intervals are valid at the same time, with 95 % confidence. Here SGD is best,
# although the noise is of the kind that the paper studies: SGD's steps get shorter as the gradient does.
# :doc:`/evidence/suite/index` has more problems, and also step sizes that decay.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", width_ratios=(3, 2))
for place, (name, each) in enumerate(results.items()):
    look = LOOKS[name]
    left.plot(np.full(20, place) + np.linspace(-0.2, 0.2, 20), np.sort(each.grad_norm), look.marker, color=look.colour)
left.set(yscale="log", ylabel="‖∇f‖ after 1,000 gradients, 20 seeds")
left.set_xticks(range(3), [f"{name}\n{each.tuned}" for name, each in results.items()])
for place, (name, ratio) in enumerate(relative.items()):
    right.plot([ratio.low, ratio.high], [place, place], color=LOOKS[name].colour, linewidth=2)
    right.plot(ratio.value, place, LOOKS[name].marker, color=LOOKS[name].colour, markersize=8)
right.axvline(1, color="#777777", linestyle=":")
right.set_yticks(range(2), list(relative))
right.set(xscale="log", xlabel="‖∇f‖ relative to NSGDM", ylim=(-0.6, 1.6))
right.set_xticks([0.25, 0.5, 1, 2, 4], ["¼", "½", "1", "2", "4"])
right.minorticks_off()
plt.show()
