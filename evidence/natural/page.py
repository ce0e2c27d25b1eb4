"""Draw the figure of docs/natural.md:

python docs/draw_natural.py
"""

from __future__ import annotations

from pathlib import Path

from gladstorm import StreamingLeastSquares, sgd
from gladstorm.problems import objectives
from gladstorm.jobs.progress import remark
from gladstorm.plotting import figures
from evidence.natural.views import noise_views
from evidence.natural.noise_along_path import noise_along_path

FIGURE = Path(__file__).parent / "natural" / "noise-along-a-run.png"


def main() -> None:
    """SGD on least squares in 20 dimensions."""
    stream = StreamingLeastSquares(objectives.named("streaming-least-squares:0.5", dim=20))
    path = noise_along_path(stream, sgd(0.01), steps=400, points=30)
    figures.save(noise_views(path, "SGD on streaming least squares, d = 20"), FIGURE)
    remark(f"variance from {path.variance[0]:.0f} to {path.variance[-1]:.0f}, ‖x − x⁰‖ up to {path.from_start[-1]:.1f}")


if __name__ == "__main__":
    main()
