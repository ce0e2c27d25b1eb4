import numpy as np
from benchmark_utils.oracles import GrowingNoise
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """A quadratic of a given condition, with noise of either kind."""

    name = "Quadratic"
    parameters = {
        "dim": [20],
        "condition": [100.0],
        "B": [0.0, 2.0],
        "G": [1.0],
    }

    def get_data(self):
        curvature = np.geomspace(1 / self.condition, 1, self.dim)
        return dict(
            oracle=GrowingNoise(
                value=lambda x: 0.5 * (curvature * x**2).sum(),
                gradient=lambda x: curvature * x,
                start=np.ones(self.dim),
                B=self.B,
                G=self.G,
            )
        )
