"""python -m evidence.posterior"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from examples import command_line
from gladstorm.plotting import figures

from . import page, study

DESCRIPTION = """NSGDM, NSTORM, SGD, Adam and ClippedAdam in numpyro's SVI, over four decades of learning rates and at
equally many gradients. Writes OUT/numpyro.md, OUT/posterior/figure.png and OUT/posterior/results.json."""
EPILOG = """examples:
  python -m evidence.posterior --quick      everything once, badly trained
  python -m evidence.posterior --out docs   how docs/numpyro.md was made: about a minute on two cores
needs:
  pip install 'gladstorm[numpyro,report,data]'"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it all, then write the page."""
    out, quick = command_line.read("evidence.posterior", DESCRIPTION, EPILOG, arguments)

    results = study.measure(study.QUICK if quick else study.FULL)
    folder = out / "posterior"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    figures.save(page.draw(results), folder / "figure.png")
    (out / "numpyro.md").write_text(page.text(results), encoding="utf-8")
    sys.stderr.write(f"wrote {out / 'numpyro.md'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
