"""python -m evidence.digits"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from examples import command_line
from gladstorm.plotting import figures

from . import figure, page, study

DESCRIPTION = """NSGDM, NSTORM, SGD, SGD + clipping and Adam on scikit-learn's digits, in PyTorch and in JAX, with
gradient noise that grows with the distance from the start and without. Writes OUT/digits.md, OUT/digits/figure.png and
OUT/digits/results.json. Stop it with Ctrl-C at any time: the same command goes on with the first method not finished.
"""
EPILOG = """examples:
  python -m evidence.digits --quick        every method once, badly trained, in about a minute
  python -m evidence.digits --out docs     how docs/evidence/digits/index.md was made: about 15 minutes of one core
needs:
  pip install 'gladstorm[torch,optax,report,data]'"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then write the page."""
    out, quick = command_line.read("evidence.digits", DESCRIPTION, EPILOG, arguments)

    torch.set_num_threads(1)  # these networks are too small to share
    size = study.QUICK if quick else study.FULL
    folder = out / "digits"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "results.json"
    try:
        results = study.begun(size, kept)
    except ValueError as problem:
        sys.stderr.write(f"{problem}\n")
        return 2
    try:
        study.finish(results, size, kept)
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped; finished methods are in {kept}, the same command goes on\n")
        return 130
    figures.save(figure.draw(results), folder / "figure.png")
    (out / "digits.md").write_text(page.text(results), encoding="utf-8")
    sys.stderr.write(f"wrote {out / 'digits.md'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
