from benchmark_utils.budget import BudgetSolver


class Solver(BudgetSolver):
    """SGD with a step size that falls with the square root of the budget."""

    name = "SGD"

    def solve(self, budget):
        x, step = self.oracle.start, self.gamma / budget**0.5
        for _ in range(budget):
            x = x - step * self.oracle.gradient(x, self.draw())
        return x
