import numpy as np
from benchmark_utils.oracles import LeastSquares
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Rows drawn at random, and the noise of taking one of them."""

    name = "Least squares"
    parameters = {"rows": [500], "dim": [20], "residual": [0.5]}

    def get_data(self):
        rng = np.random.default_rng(0)
        A = rng.normal(size=(self.rows, self.dim))
        b = A @ rng.normal(size=self.dim)
        b += self.residual * rng.normal(size=self.rows)
        return dict(oracle=LeastSquares(A, b, np.zeros(self.dim)))
