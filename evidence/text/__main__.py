"""python -m evidence.text"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from examples import command_line
from gladstorm.plotting import figures

from . import figure, page, study

DESCRIPTION = """AdamW, SGD, NSGDM, NSTORM and Steered on a small transformer that learns the documentation of Python
character by character, with constant and with decayed step sizes. Writes OUT/text.md, OUT/text/figure.png and
OUT/text/results.json. Stop it with Ctrl-C at any time: the same command goes on with the first run not finished.
"""
EPILOG = """examples:
  python -m evidence.text --quick        every method once, badly trained, in about a minute
  python -m evidence.text --out docs     how docs/evidence/text/index.md was made: about 15 minutes of one core
needs:
  pip install 'gladstorm[torch,report]'"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then write the page."""
    out, quick = command_line.read("evidence.text", DESCRIPTION, EPILOG, arguments)

    torch.set_num_threads(1)  # so small a network is not worth sharing
    size = study.QUICK if quick else study.FULL
    folder = out / "text"
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
        sys.stderr.write(f"stopped; finished runs are in {kept}, the same command goes on\n")
        return 130
    figures.save(figure.draw(results), folder / "figure.png")
    (out / "text.md").write_text(page.text(results), encoding="utf-8")
    sys.stderr.write(f"wrote {out / 'text.md'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
