"""
13. On a cluster
================

A long sweep is a list of tasks that take about two seconds each. A folder (``store=``) keeps the finished tasks, so
that a job which was killed continues where it was. A Dask client (``executor=``) spreads the tasks over processes or
machines. The numbers do not depend on either.

Here: 900 runs on two worker processes of this machine. The figure shows for each step size the median over 50 seeds and
the range of the middle 80 %; smaller is better. Where SGD has no value, a run diverged. Dask starts a worker by
importing the script, so what only the main process should do stands below ``if __name__ == "__main__"``. For Slurm, and
for what happens when a worker dies, see :doc:`/cluster`.
"""

import tempfile
import time

import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client, LocalCluster

import gladstorm as gs
from gladstorm.plotting.styles import LOOKS

oracle = gs.BlumGladyshev(gs.objectives.named("power:3", dim=10), B=0.5, G=0.5)
step_sizes = np.geomspace(1e-4, 1e-1, 9)
methods = {"NSGDM": gs.nsgdm(step_sizes, eta=0.01), "SGD": gs.sgd(step_sizes)}
job = {"steps": 10_000, "seeds": 50, "progress": False}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as store:
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL") as cluster,
            Client(cluster) as client,
        ):
            record = gs.sweep(oracle, methods, store=store, executor=client, **job)
        begun = time.perf_counter()
        again = gs.sweep(oracle, methods, store=store, **job)
        print(f"read again from the store in {time.perf_counter() - begun:.1f} s")
    print("the same numbers:", bool(np.array_equal(record.grad_norm, again.grad_norm, equal_nan=True)))

    figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for name in methods:
        look, final = LOOKS[name], record[name].grad_norm[:, :, -1]
        final = np.where(np.isfinite(final).all(axis=1, keepdims=True), final, np.nan)
        low, middle, high = np.quantile(final, [0.1, 0.5, 0.9], axis=1)
        ax.loglog(step_sizes, middle, color=look.colour, linestyle=look.line, marker=look.marker, label=name)
        ax.fill_between(step_sizes, low, high, color=look.colour, alpha=0.15)
    ax.set(xlabel="step size γ", ylabel="‖∇f‖ after 10,000 steps")
    ax.legend(frameon=False)
    plt.show()
