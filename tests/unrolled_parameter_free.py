"""The steps that find their own size, written out in NumPy: x^{k+1} from (k, x^k, g^k)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unrolled import Vector


class Dog:
    def __init__(self) -> None:
        self.G = 0.0

    def __call__(self, k: int, x: Vector, g: Vector) -> Any:
        if k == 0:
            self.x0, self.r = x, 1e-6 * (1 + np.linalg.norm(x))
        self.r = max(self.r, np.linalg.norm(x - self.x0))
        self.G += g @ g
        return x - self.r / np.sqrt(self.G + 1e-8) * g


class Dowg:
    def __init__(self) -> None:
        self.V, self.r2 = 0.0, 1e-4

    def __call__(self, k: int, x: Vector, g: Vector) -> Any:
        if k == 0:
            self.x0 = x
        self.r2 = max(self.r2, np.sum((x - self.x0) ** 2))
        self.V += self.r2 * (g @ g)
        return x - self.r2 / (np.sqrt(self.V) + 1e-4) * g


class DAdaptation:
    """Adam, β₁ = 0.9, β₂ = 0.999, with bias correction in the step size d."""

    def __init__(self, d: float = 1e-6) -> None:
        self.d, self.r = d, 0.0
        self.m: Any = 0.0
        self.u: Any = 0.0
        self.s: Any = 0.0

    def __call__(self, k: int, x: Vector, g: Vector) -> Any:
        b = np.sqrt(0.999)
        rate = self.d * np.sqrt(1 - 0.999 ** (k + 1)) / (1 - 0.9 ** (k + 1))
        product = np.sum(g * self.s / (np.sqrt(self.u) + 1e-8))
        self.m = 0.9 * self.m + 0.1 * rate * g
        self.u = 0.999 * self.u + 0.001 * g**2
        self.s = b * self.s + (1 - b) * rate * g
        self.r = b * self.r + (1 - b) * rate * product
        self.d = max(self.d, self.r / ((1 - b) * np.abs(self.s).sum()))
        return x - self.m / (np.sqrt(self.u) + 1e-8)


class Prodigy:
    def __init__(self, d: float = 1e-6) -> None:
        self.d0, self.d, self.r = d, d, 0.0
        self.m: Any = 0.0
        self.u: Any = 0.0
        self.s: Any = 0.0

    def __call__(self, k: int, x: Vector, g: Vector) -> Any:
        if k == 0:
            self.x0 = x
        d, b = self.d, np.sqrt(0.999)
        rate = d * np.sqrt(1 - 0.999 ** (k + 1)) / (1 - 0.9 ** (k + 1))
        self.m = 0.9 * self.m + 0.1 * d * g
        self.u = 0.999 * self.u + 0.001 * (d * g) ** 2
        self.s = b * self.s + rate * d * g / self.d0
        self.r = b * self.r + d / self.d0 * rate * (g @ (self.x0 - x))
        self.d = max(d, self.r / np.abs(self.s).sum())
        return x - rate * self.m / (np.sqrt(self.u) + self.d * 1e-8)


class ScheduleFree:
    """The iterate is y; what is reported is x."""

    def __init__(self, gamma: float, beta: float = 0.9) -> None:
        self.gamma, self.beta = gamma, beta

    def __call__(self, k: int, y: Vector, g: Vector) -> Any:
        if k == 0:
            self.x = self.z = y
        self.z = self.z - self.gamma * g
        c = 1 / (k + 1)
        self.x = (1 - c) * self.x + c * self.z
        return self.beta * self.x + (1 - self.beta) * self.z


class Momo:
    def __init__(self, gamma: float, value: Callable[[Vector], float], beta: float = 0.9) -> None:
        self.gamma, self.value, self.beta = gamma, value, beta
        self.means: Any = ()

    def __call__(self, k: int, x: Vector, g: Vector) -> Any:
        new = self.value(x), g, g @ x
        old = self.means or new
        f, d, c = self.means = [self.beta * a + (1 - self.beta) * b for a, b in zip(old, new, strict=True)]
        return x - min(self.gamma, max(f + d @ x - c, 0.0) / (d @ d)) * d


class Untuned:
    """The equations of `Untuned` written out, over `horizon` steps, with the numbers of its fields."""

    def __init__(
        self, horizon: int, gamma: float = 1.0, first: float = 0.01, decay: float = 0.4, share: float = 0.5
    ) -> None:
        self.K, self.gamma, self.first, self.decay, self.share = horizon, gamma, first, decay, share

    def __call__(self, k: int, x: Vector, g: Vector) -> Any:
        size, c, K = np.linalg.norm(g), 2 * (k + 1) ** 0.25, self.K
        if k == 0:
            self.x0 = self.mean = x
            self.E, self.m = np.zeros_like(x), np.zeros_like(x)
            self.s, self.V, self.z, self.tau, self.r = size, 0.0, 1.0, 0.0, self.first * (1 + np.linalg.norm(x))
        self.s += (min(size, c * self.s) - self.s) * 4 / (k + 4)
        u = g * min(1 / self.s, c / size)
        before = self.r
        self.r = max(before, min(np.linalg.norm(self.mean - self.x0), before * (1 + 8 / np.sqrt(K * (k + 1)))))
        self.E = (before / self.r) ** 4 * self.E + u**2
        phi = self.z**-4 if self.z > 1 else min(max(0.5 / self.z, 1), 4)
        self.tau += phi * max((1 - self.tau) / max(K - k, 1), 1 / K)
        delta = self.gamma * self.r * K ** (-self.decay * self.tau) * u / np.sqrt(x.size * self.E)
        self.m = (1 - self.share) * self.m + self.share * delta
        x = x - self.m
        self.V += delta @ delta
        self.z = (x - self.mean) @ (x - self.mean) / self.V
        w = 7 / (k + 8)
        self.mean, self.V = self.mean + w * (x - self.mean), (1 - w) ** 2 * self.V
        return x
