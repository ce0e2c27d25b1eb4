"""The recursions of the related work written out in NumPy, one run at a time, fed the library's own noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unrolled import Batch, Trajectory, Vector, noise

Sample = Callable[[Vector], Any]


def key(seed: int, step: int) -> Any:
    return jax.random.wrap_key_data(jnp.array([seed, step], np.uint32), impl="threefry2x32")


def coin(seed: int, step: int) -> float:
    """The coin of a step, by the documented rule."""
    with jax.enable_x64(True):
        return float(jax.random.uniform(jax.random.fold_in(key(seed, step), 2**32 - 1), (), np.float64))


def client_noise(seed: int, step: int, dim: int, client: int) -> Vector:
    """The normals of a further client, by the documented rule."""
    with jax.enable_x64(True):
        own = jax.random.fold_in(key(seed, step), 2**31 + client)
        return np.asarray(jax.random.normal(own, (dim + 1,), np.float64))


class Counted:
    """A sample that counts the points it is evaluated at."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.points: dict[bytes, Any] = {}

    def __call__(self, x: Vector) -> Any:
        return self.points.setdefault(x.tobytes(), self.sample(x))


class Recursion:
    """v by hand: `first` at a fresh start, `then` in between."""

    clients = 1

    def afresh(self, k: int, coin: float) -> bool:
        return False

    def first(self, g: Any, x: Vector) -> Any:
        raise NotImplementedError

    def then(self, g: Any, old: Vector, x: Vector) -> Any:
        raise NotImplementedError


class Spider(Recursion):
    def __init__(self, q: int) -> None:
        self.q = q

    def afresh(self, k: int, coin: float) -> bool:
        return k % self.q == 0

    def first(self, g: Sample, x: Vector) -> Any:
        self.v = g(x)
        return self.v

    def then(self, g: Sample, old: Vector, x: Vector) -> Any:
        self.v = g(x) - g(old) + self.v
        return self.v


class Page(Spider):
    def __init__(self, p: float) -> None:
        self.p = p

    def afresh(self, k: int, coin: float) -> bool:
        return coin < self.p


class Sarah(Spider):
    def __init__(self, m: int, shrink: float) -> None:
        self.m, self.shrink = m, shrink

    def afresh(self, k: int, coin: float) -> bool:
        return self.inner == self.m or bool(self.v @ self.v <= self.shrink * (self.v0 @ self.v0))

    def first(self, g: Sample, x: Vector) -> Any:
        self.inner, self.v0 = 0, g(x)
        return super().first(g, x)

    def then(self, g: Sample, old: Vector, x: Vector) -> Any:
        self.inner += 1
        return super().then(g, old, x)


class Svrg(Spider):
    def first(self, g: Sample, x: Vector) -> Any:
        self.snapshot, self.mu = x, g(x)
        return self.mu

    def then(self, g: Sample, old: Vector, x: Vector) -> Any:
        return g(x) - g(self.snapshot) + self.mu


class Snvrg(Recursion):
    """Two nested loops: T1 rounds of T2 steps."""

    def __init__(self, T1: int, T2: int) -> None:
        self.T1, self.T2 = T1, T2

    def afresh(self, k: int, coin: float) -> bool:
        self.k = k
        return k % (self.T1 * self.T2) == 0

    def first(self, g: Sample, x: Vector) -> Any:
        self.x0 = self.x1 = x
        self.g0, self.g1, self.g2 = g(x), 0 * x, 0 * x
        return self.g0

    def then(self, g: Sample, old: Vector, x: Vector) -> Any:
        if self.k % self.T2 == 0:
            self.g1, self.g2, self.x1 = g(x) - g(self.x0), 0 * x, x
        else:
            self.g2 = g(x) - g(self.x1)
        return self.g0 + self.g1 + self.g2


class Mars(Recursion):
    def __init__(self, beta: float, gamma: float, clip: float) -> None:
        self.beta, self.gamma, self.clip = beta, gamma, clip

    def first(self, g: Sample, x: Vector) -> Any:
        self.m = 0 * x
        return self.then(g, x, x)  # published so: no step has been taken, and m is 0

    def stale(self, g: Sample, old: Vector, x: Vector) -> Any:
        return g(old)

    def then(self, g: Sample, old: Vector, x: Vector) -> Any:
        c = g(x) + self.gamma * self.beta / (1 - self.beta) * (g(x) - self.stale(g, old, x))
        if np.linalg.norm(c) > self.clip:
            c = self.clip * c / np.linalg.norm(c)
        self.m = self.beta * self.m + (1 - self.beta) * c
        return self.m


class LaggedMars(Mars):
    before: Any = None

    def stale(self, g: Sample, old: Vector, x: Vector) -> Any:
        before, self.before = self.before, g(x)
        return g(x) if before is None else before


class Fading(Recursion):
    """Momentum with η_k = η (1 − k/K)."""

    def __init__(self, eta: float, steps: int) -> None:
        self.eta, self.steps, self.k = eta, steps, 0

    def first(self, g: Sample, x: Vector) -> Any:
        self.m = g(x)
        return self.m

    def then(self, g: Sample, old: Vector, x: Vector) -> Any:
        self.k += 1
        eta = self.eta * (1 - self.k / self.steps)
        self.m = (1 - eta) * self.m + eta * g(x)
        return self.m


class Transported(Recursion):
    def __init__(self, beta: float) -> None:
        self.beta = beta

    def first(self, g: Sample, x: Vector) -> Any:
        self.m = g(x)
        return self.m

    def then(self, g: Sample, old: Vector, x: Vector) -> Any:
        self.m = self.beta * self.m + (1 - self.beta) * g(x + self.beta / (1 - self.beta) * (x - old))
        return self.m


class ErrorFeedback(Recursion):
    def __init__(self, eta: float, k: int, clients: int) -> None:
        self.eta, self.k, self.clients = eta, k, clients

    def top(self, v: Vector) -> Vector:
        kept = np.zeros_like(v)
        largest = np.argsort(-np.abs(v))[: self.k]
        kept[largest] = v[largest]
        return kept

    def first(self, g: list[Sample], x: Vector) -> Any:
        self.v = [each(x) for each in g]
        self.g = [self.top(v) for v in self.v]
        return np.mean(self.g, axis=0)

    def then(self, g: list[Sample], old: Vector, x: Vector) -> Any:
        self.v = [(1 - self.eta) * v + self.eta * each(x) for v, each in zip(self.v, g, strict=True)]
        self.g = [known + self.top(v - known) for known, v in zip(self.g, self.v, strict=True)]
        return np.mean(self.g, axis=0)


class Storm(Recursion):
    """With the adaptive a = min(1, c η²), η = k/(w + Σ‖g‖²)^{1/3}, which `pace` also gives the step."""

    def __init__(self, k: float, w: float, c: float) -> None:
        self.k, self.w, self.c, self.total = k, w, c, 0.0

    def pace(self) -> float:
        return float(self.k / (self.w + self.total) ** (1 / 3))

    def first(self, g: Sample, x: Vector) -> Any:
        self.d = g(x)
        self.total += g(x) @ g(x)
        return self.d

    def then(self, g: Sample, old: Vector, x: Vector) -> Any:
        a = min(1.0, self.c * self.pace() ** 2)
        self.d = g(x) + (1 - a) * (self.d - g(old))
        self.total += g(x) @ g(x)
        return self.d


def unrolled_family(
    recursion: Recursion,
    step: Callable[[int, Vector, Vector], Vector],
    grad: Any,
    start: Vector,
    B: float,
    G: float,
    steps: int,
    seed: int,
    size: Callable[[int, float, bool], int],
) -> Trajectory:
    """K = `steps` steps; batch sizes by (k, squared distance, fresh start?)."""
    out = Trajectory()
    x, v = start.copy(), np.zeros_like(start)
    for k in range(steps + 1):
        previous = x
        if k > 0:
            x = step(k - 1, x, v)
        afresh = k == 0 or recursion.afresh(k, coin(seed, k))
        b = size(k, float(np.sum((x - start) ** 2)), afresh)
        normals = [noise(seed, k, start.size)]
        normals += [client_noise(seed, k, start.size, client) for client in range(1, recursion.clients)]
        samples = [Counted(Batch(each, b, grad, start, B, G)) for each in normals]
        g: Any = samples if isinstance(recursion, ErrorFeedback) else samples[0]
        v = recursion.first(g, x) if afresh else recursion.then(g, previous, x)
        cost = b * sum(len(sample.points) for sample in samples)
        out.x.append(x)
        out.v.append(v)
        out.batch.append(b)
        out.sfo.append(cost + (out.sfo[-1] if out.sfo else 0))
    return out
