"""
8. Reading a record
===================

``sweep`` returns a ``Record``: arrays with the axes (configuration, seed, recorded step). This page shows the four
things people do with one: print it, select from it, turn it into a pandas table, and keep it in a file.
"""

import tempfile
from pathlib import Path

import numpy as np

import gladstorm as gs

oracle = gs.BlumGladyshev(gs.objectives.named("cauchy", dim=5), B=0.3, G=1.0)
step_sizes = np.geomspace(1e-3, 1e-1, 3)
record = gs.sweep(oracle, {"NSGDM": gs.nsgdm(step_sizes, eta=0.1), "SGD": gs.sgd(step_sizes)}, steps=3000, seeds=10)
record  # in a notebook, a table

# %%
# Select a method by its name and a setting by its number. ``mean_grad_norm`` is the mean over *all* steps, recorded or
# not. This is the quantity that the theorems bound.

best = record["NSGDM"].mean_grad_norm[:, :, -1].mean(axis=1)
print("NSGDM, mean of ‖∇f‖ over the run, for each step size:", best.round(3))
print(
    "SGD at γ = 0.01, stochastic gradients per seed:", record["SGD"].where(gamma=0.01).sfo[0, :, -1].tolist()[:3], "…"
)

# %%
# A tidy table has one row per configuration, seed and recorded step.

table = record.to_pandas()
table[["method", "gamma", "seed", "step", "grad_norm", "sfo"]].tail(3)

# %%
# The parquet file keeps numbers, configuration and versions, so that you can draw a figure again next year.

with tempfile.TemporaryDirectory() as folder:
    record.save(Path(folder) / "runs.parquet")
    again = gs.Record.load(Path(folder) / "runs.parquet")
print(again.config["versions"])

# %%
# A first look is one call. For your own figure, use the arrays as in the other examples.

figure = again.plot()
