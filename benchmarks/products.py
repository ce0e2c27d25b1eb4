"""The fastest matrix product of the machine: NumPy, torch and XLA, in the shapes of a sweep and in a large one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import numpy as np
import torch
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks.measuring import seconds

LARGE = 1536
REPEATED = 4 * LARGE**3  # floating-point operations that are timed together: dispatching them costs nothing beside


def fastest(rows: int, inner: int, columns: int) -> Callable[[], float]:
    """Measure seconds per floating-point operation of the fastest product: these shapes, both ways, and a large one."""
    shapes = ((rows, inner, columns), (inner, rows, columns), (LARGE, LARGE, LARGE))
    products = [(2 * m * k * n, product) for m, k, n in shapes for product in _products(m, k, n)]

    def once(operations: int, product: Callable[[int], object]) -> float:
        times = max(1, REPEATED // operations)
        return seconds(lambda: product(times)) / (times * operations)

    return lambda: min(once(*each) for each in products)


def _products(m: int, k: int, n: int) -> Iterator[Callable[[int], object]]:
    """Compute one product of float64 matrices several times, in each library and on all cores."""
    rng = np.random.default_rng(0)
    left, right, out = rng.normal(size=(m, k)), rng.normal(size=(k, n)), np.empty((m, n))
    yield lambda times: [np.matmul(left, right, out=out) for _ in range(times)]

    tensors = torch.from_numpy(left), torch.from_numpy(right), torch.empty(m, n, dtype=torch.float64)
    yield lambda times: [torch.matmul(tensors[0], tensors[1], out=tensors[2]) for _ in range(times)]

    mesh = Mesh(np.array(jax.devices()), ("runs",))  # a sweep gives each device its columns
    with jax.enable_x64(True):
        whole = jax.device_put(left, NamedSharding(mesh, PartitionSpec()))
        cut = jax.device_put(right, NamedSharding(mesh, PartitionSpec(None, "runs")))
        compiled = jax.jit(jax.numpy.matmul).lower(whole, cut).compile()
    yield lambda times: jax.block_until_ready([compiled(whole, cut) for _ in range(times)])
