from benchmark_utils.budget import BudgetSolver, length


class Solver(BudgetSolver):
    """Normalized SGD with momentum, on the schedule for noise that grows.

    Steps have length γ T^(−5/6), and the momentum is 1 − T^(−2/3).
    """

    name = "NSGDM"
    parameters = {"gamma": [0.3, 1.0, 3.0, 10.0]}

    def solve(self, budget):
        x, v = self.oracle.start, None
        gamma, eta = self.gamma * budget ** (-5 / 6), budget ** (-2 / 3)
        for _ in range(budget):
            g = self.oracle.gradient(x, self.draw())
            v = g if v is None else (1 - eta) * v + eta * g
            x = x - gamma * v / length(v)
        return x
