"""
8. Reading a record
===================

``sweep`` returns a ``Record``: arrays with the axes (configuration, seed, recorded step). This page shows what
people do with one: print it, select from it, take points out of it, turn it into a table, keep it in a file, plot it.
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
# ``record.last`` holds x^K of every run as one vector. If x consists of named arrays, ``tree`` gives them back: here
# the weights and the offset of a line through four points, with the axes (configuration, seed, …).

a, b = np.arange(4.0)[:, None], np.array([1.0, 3.0, 5.0, 7.0])
line = gs.finite_sum(
    lambda x, example: (example[0] @ x["weights"] + x["offset"] - example[1]) ** 2,
    (a, b),
    start={"weights": np.zeros(1), "offset": np.zeros(())},
)
fitted = gs.run(line, gs.sgd(0.05), steps=3000, seeds=2).tree("last")
print({name: (array.shape, array[0, 0].round(2).tolist()) for name, array in fitted.items()})

# %%
# A tidy table has one row per configuration, seed and recorded step.

table = record.to_pandas()
table[["method", "gamma", "seed", "step", "grad_norm", "sfo"]].tail(3)

# %%
# With ``pip install '.[xarray]'``, ``to_xarray`` keeps the axes and names them.

last = record.to_xarray()["grad_norm"].isel(step=-1)
last.mean("seed").sortby("gamma").to_series().round(3)

# %%
# The parquet file keeps numbers, configuration and versions, so that you can draw a figure again next year.

with tempfile.TemporaryDirectory() as folder:
    record.save(Path(folder) / "runs.parquet")
    again = gs.Record.load(Path(folder) / "runs.parquet")
print(again.config["versions"])

# %%
# A first look is one call; a notebook shows what it returns. For your own figure, use the arrays as in the other
# examples.

figure = again.plot()
