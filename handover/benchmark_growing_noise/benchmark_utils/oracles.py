"""Stochastic gradients whose variance grows with the distance from the start.

An oracle draws a *sample*, the randomness of a step, and evaluates the gradient
of one sample at any point: methods of variance reduction need it at two.
"""

import numpy as np


class GrowingNoise:
    """The noise of Blum (1954) and Gladyshev (1965), added to a function f.

        g(x; sample) = ∇f(x) + B ρ (x − start) + G u,  ρ = ±1,  u ~ N(0, I/d)

    Its variance is B²‖x − start‖² + G². Usually B = 0 is assumed.
    """

    def __init__(self, value, gradient, start, B, G, minimum=0.0):
        self.value, self.full_gradient = value, gradient
        self.start, self.B, self.G, self.minimum = start, B, G, minimum

    def sample(self, rng):
        d = self.start.size
        return rng.choice([-1.0, 1.0]), rng.normal(size=d) / np.sqrt(d)

    def gradient(self, x, sample):
        rho, u = sample
        noise = self.B * rho * (x - self.start) + self.G * u
        return self.full_gradient(x) + noise


class LeastSquares:
    """Least squares, one row at a time: noise that nobody has added.

    The gradient of a row, (aᵀx − b) a, has a variance that grows like the
    square of the distance, since the residual does.
    """

    def __init__(self, A, b, start):
        self.A, self.b, self.start = A, b, start
        self.minimum = self.value(np.linalg.lstsq(A, b, rcond=None)[0])

    def value(self, x):
        return 0.5 * np.mean((self.A @ x - self.b) ** 2)

    def full_gradient(self, x):
        return self.A.T @ (self.A @ x - self.b) / len(self.b)

    def sample(self, rng):
        return rng.integers(len(self.b))

    def gradient(self, x, sample):
        row = self.A[sample]
        return (row @ x - self.b[sample]) * row
