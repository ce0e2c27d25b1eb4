"""What all solvers share: a budget of stochastic gradients, not of steps."""

import numpy as np
from benchopt import BaseSolver


class BudgetSolver(BaseSolver):
    """A stochastic method that knows how many gradients it may evaluate.

    A subclass writes ``solve(budget)``, which returns the last point. Budgets
    double from run to run, and each run begins at the start: steps may depend
    on the budget, as they do in theorems.
    """

    sampling_strategy = "iteration"
    parameters = {"gamma": [0.03, 0.1, 0.3, 1.0]}

    def set_objective(self, oracle):
        self.oracle = oracle
        # All solvers see the same noise, and other noise in each repetition.
        self.seed = self.get_seed(use_dataset=True, use_repetition=True)

    def run(self, n_iter):
        self.rng = np.random.default_rng([self.seed, n_iter])
        self.x = self.solve(n_iter) if n_iter else self.oracle.start

    def get_next(self, n_iter):
        return max(1, 2 * n_iter)

    def get_result(self):
        return dict(x=self.x)

    def draw(self):
        return self.oracle.sample(self.rng)


def length(v):
    return max(float(np.linalg.norm(v)), 1e-300)
