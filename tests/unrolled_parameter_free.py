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


class StormPlusStep:
    """With a⁺ = (1 + Σ‖g‖²)^{−2/3}, which `a` gives."""

    def __init__(self, a: Callable[[], float]) -> None:
        self.a, self.S = a, 0.0

    def __call__(self, k: int, x: Vector, d: Vector) -> Any:
        self.S += d @ d / self.a()
        return x - d / self.S ** (1 / 3)


class SteeredLanding:
    """The numbers of `Steered` written out, and the decay over `horizon` steps."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon

    def __call__(self, k: int, x: Vector, g: Vector) -> Any:
        size = np.linalg.norm(g)
        if k == 0:
            self.x0, self.r = x, 0.1 * (1 + np.linalg.norm(x))
            self.length, self.mark, self.n, self.S, self.s = self.r, self.r, 0, 10.0, size
            self.m, cos = np.zeros_like(g), 0.0
        else:
            cos = g @ self.m / (size * np.linalg.norm(self.m))
        self.r = max(self.r, np.linalg.norm(x - self.x0))
        if cos < 0:
            self.n += 2
        if self.r > 2 * self.mark:
            self.mark, self.n = self.r, 0
        self.S += cos**2
        self.length *= np.exp(cos / np.sqrt(self.S))
        self.length = min(max(self.length, self.r / (self.n + 1)), self.r / np.sqrt(self.n + 1))
        self.s += (size - self.s) / np.sqrt(k + 1)
        u = g / max(1.5 * self.s, size / (self.n + 1) ** 0.25)
        self.m = self.m + (u - self.m) / np.sqrt(k + 1)
        return x - (1 - k / self.horizon) * self.length * u
