"""`python -m evidence natural`."""

from evidence.study import Out, Quick
from gladstorm.cli.app import AsJson
from gladstorm.cli.job import computing


def command(
    out: Out,
    quick: Quick = False,
    as_json: AsJson = False,  # noqa: ARG001 - for StudyCommand
) -> None:
    """Measure the variance of stochastic gradients along a run of SGD on streaming least squares, in seconds.

    Example: python -m evidence natural --out docs/evidence/natural
    """
    import dataclasses
    import json

    import numpy as np

    from evidence.natural.noise_along_path import noise_along_path
    from gladstorm import objectives, sgd
    from gladstorm.jobs.files import write_text
    from gladstorm.problems.oracles import StreamingLeastSquares

    stream = StreamingLeastSquares(objectives.named("streaming-least-squares:0.5", dim=20))
    with computing(None, None, None):
        path = noise_along_path(stream, sgd(0.01), steps=400, points=3 if quick else 30)
    columns = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in dataclasses.asdict(path).items()
    }
    write_text(out / "noise.json", json.dumps(columns, indent=1) + "\n")
