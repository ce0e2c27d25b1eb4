"""Set paper.md and report.typ as PDF, in out/paper, with pandoc and Typst alone: the second half of `make paper`."""

from pathlib import Path

import pypandoc
import typst

ROOT = Path(__file__).parent.parent
MADE = ROOT / "out" / "paper"


def main() -> None:
    """Both."""
    source = MADE / "paper.typ"
    here = ROOT / "paper"
    options = ["--citeproc", f"--resource-path={here}", f"--template={here / 'joss.typ'}"]
    pypandoc.convert_file(str(here / "paper.md"), "typst", outputfile=str(source), extra_args=options)
    for text, name in ((source, "paper"), (here / "report" / "report.typ", "report")):
        typst.compile(str(text), root=str(ROOT), output=str(MADE / f"{name}.pdf"))


if __name__ == "__main__":
    main()
