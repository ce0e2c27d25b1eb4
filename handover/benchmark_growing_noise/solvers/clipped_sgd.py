from benchmark_utils.budget import BudgetSolver, length


class Solver(BudgetSolver):
    """SGD whose gradients are cut to a length of 1."""

    name = "Clipped SGD"

    def solve(self, budget):
        x, step = self.oracle.start, self.gamma / budget**0.5
        for _ in range(budget):
            g = self.oracle.gradient(x, self.draw())
            x = x - step * min(1.0, 1.0 / length(g)) * g
        return x
