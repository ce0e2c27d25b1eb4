"""The figure of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gladstorm.plotting.figures import Figure
from gladstorm.plotting.styles import BLUE, GREY

if TYPE_CHECKING:
    from gladstorm.variational.fit import Fit


def along_the_run(fit: Fit) -> Figure:
    """ELBO and noise along the run, a line for each start; the best start is blue."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    best = int(np.argmax(fit.elbos))
    order = [start for start in range(len(fit.elbos)) if start != best] + [best]
    for start in order:
        style = {"color": BLUE, "linewidth": 1.8} if start == best else {"color": GREY, "linewidth": 1.0}
        label = "best start" if start == best else ("other starts" if start == order[0] else None)
        left.plot(fit.steps, fit.curve[start], label=label, **style)
        right.semilogy(fit.steps, fit.noise[start], **style)
    late = fit.curve[np.isfinite(fit.curve)]
    if late.size and np.isfinite(fit.elbo):
        low = max(late.min(), fit.elbo - 20 * max(1.0, fit.elbo - float(np.median(late))))
        left.set_ylim(low, max(late.max(), fit.elbo) + 0.05 * (late.max() - low) + 1e-9)
    left.axhline(fit.elbo, color="black", linestyle=":", linewidth=1, label="ELBO at the end")
    left.set(xlabel="steps", ylabel="ELBO, nats", title=f"{fit.elbo:.2f} ± {fit.elbo_error:.2g}")
    right.set(xlabel="steps", ylabel="squared length of the gradient, in sds of q", title="noise along the run")
    left.legend(frameon=False, fontsize=8)
    return figure
