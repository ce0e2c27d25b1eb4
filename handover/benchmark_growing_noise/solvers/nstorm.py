from benchmark_utils.budget import BudgetSolver, length


class Solver(BudgetSolver):
    """Normalized STORM: each sample's gradient at the new and the old point.

    Steps have length γ T^(−3/4), the momentum is 1 − 1/T, and the first
    estimate is the mean of √T gradients. A step costs two.
    """

    name = "NSTORM"
    parameters = {"gamma": [0.3, 1.0, 3.0, 10.0]}

    def solve(self, budget):
        oracle, x = self.oracle, self.oracle.start
        gamma, eta, first = (
            self.gamma * budget**-0.75,
            1 / budget,
            round(budget**0.5),
        )
        v = sum(oracle.gradient(x, self.draw()) for _ in range(first)) / first
        for _ in range((budget - first) // 2):
            before, x = x, x - gamma * v / length(v)
            sample = self.draw()
            new, old = (
                oracle.gradient(x, sample),
                oracle.gradient(before, sample),
            )
            v = new + (1 - eta) * (v - old)
        return x
