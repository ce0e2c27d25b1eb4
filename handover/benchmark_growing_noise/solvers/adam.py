import numpy as np
from benchmark_utils.budget import BudgetSolver


class Solver(BudgetSolver):
    """Adam with a step size that falls with the square root of the budget."""

    name = "Adam"

    def solve(self, budget):
        x, step = self.oracle.start, self.gamma / budget**0.5
        m, s = np.zeros_like(x), np.zeros_like(x)
        for k in range(1, budget + 1):
            g = self.oracle.gradient(x, self.draw())
            m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g**2
            unbiased = (m / (1 - 0.9**k)) / (np.sqrt(s / (1 - 0.999**k)) + 1e-8)
            x = x - step * unbiased
        return x
