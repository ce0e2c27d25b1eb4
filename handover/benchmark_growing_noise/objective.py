from benchopt import BaseObjective
from benchopt.stopping_criterion import NoCriterion


class Objective(BaseObjective):
    """How near a point is to a minimum, and how far from the start.

    A solver sees the oracle only: its start, and gradients of samples.
    """

    name = "Noise that grows with the distance"
    url = "https://github.com/benchopt/benchmark_growing_noise"
    min_benchopt_version = "1.9"

    # A stochastic method has no tolerance to reach: all spend their budget.
    stopping_criterion = NoCriterion(strategy="iteration")

    def set_data(self, oracle):
        self.oracle = oracle

    def get_objective(self):
        return dict(oracle=self.oracle)

    def evaluate_result(self, x):
        oracle = self.oracle
        return dict(
            value=oracle.value(x) - oracle.minimum,
            grad_norm=float((oracle.full_gradient(x) ** 2).sum() ** 0.5),
            distance=float(((x - oracle.start) ** 2).sum() ** 0.5),
        )

    def get_one_result(self):
        return dict(x=self.oracle.start)
