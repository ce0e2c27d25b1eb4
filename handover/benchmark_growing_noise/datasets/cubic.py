import numpy as np
from benchmark_utils.oracles import GrowingNoise
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """f(x) = ‖x‖³, whose curvature grows with x, with noise of either kind."""

    name = "Cubic"
    parameters = {"dim": [10], "B": [0.0, 2.0], "G": [1.0]}

    def get_data(self):
        return dict(
            oracle=GrowingNoise(
                value=lambda x: np.linalg.norm(x) ** 3,
                gradient=lambda x: 3 * np.linalg.norm(x) * x,
                start=np.ones(self.dim) / np.sqrt(self.dim),
                B=self.B,
                G=self.G,
            )
        )
