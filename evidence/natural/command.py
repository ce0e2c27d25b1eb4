"""`python -m evidence natural`."""

from evidence.study import Out, Quick
from gladstorm.cli.job import computing

WORK = ("noise_along_path.noise_along_path",)


def command(out: Out, quick: Quick = False) -> None:
    """Measure the variance of stochastic gradients along a run of SGD on streaming least squares, in seconds.

    Example: python -m evidence natural --out docs/evidence/natural
    """
    import numpy as np

    from evidence.natural.noise_along_path import noise_along_path
    from evidence.results import save
    from gladstorm.methods import sgd
    from gladstorm.problems import objectives
    from gladstorm.problems.oracles import StreamingLeastSquaresOracle

    stream = StreamingLeastSquaresOracle(objectives.named("streaming-least-squares:0.5", dim=20))
    with computing(None, None, None):
        path = noise_along_path(stream, sgd(0.01), steps=400, points=3 if quick else 30)
    save(out / "noise.json", {name: np.asarray(column).tolist() for name, column in path.items()})
