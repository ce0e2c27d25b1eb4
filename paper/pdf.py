"""Set paper.md and report.typ as PDF, in out/paper, with pandoc and Typst alone: the second half of `make paper`."""

import re
from pathlib import Path

import pypandoc
import typst

ROOT = Path(__file__).parent.parent
MADE = ROOT / "out" / "paper"
PROOFS = ("upper_bounds", "lower_bounds")  # of paper/proofs: the appendices of the report
TAG = re.compile(r"\\tag\{([^}]*)\}\n```")


def main() -> None:
    """Both."""
    source = MADE / "paper.typ"
    here = ROOT / "paper"
    options = ["--citeproc", f"--resource-path={here}", f"--template={here / 'joss.typ'}"]
    pypandoc.convert_file(str(here / "paper.md"), "typst", outputfile=str(source), extra_args=options)
    for name in PROOFS:
        (MADE / f"{name}.typ").write_text(appendix((here / "proofs" / f"{name}.md").read_text("utf-8"), name), "utf-8")
    for text, name in ((source, "paper"), (here / "report" / "report.typ", "report")):
        typst.compile(str(text), root=str(ROOT), output=str(MADE / f"{name}.pdf"))


def appendix(text: str, name: str) -> str:
    """A text of the proofs in Typst, its formulas numbered as in the text, with links that lead within the report."""
    text = re.sub(r"\[([^]]*)\]\(\.\./\.\./docs/[^)]*\)", r"*\1*", text)  # pages of the site
    text = re.sub(r"\]\((\w+)\.md\)", r"](#\1)", text)
    text = re.sub(r"\]\((\w+)\.md#eq-", r"](#\1-eq-", text)
    text = re.sub(r"\]\(\w+\.md#", "](#", text).replace("](#eq-", f"](#{name}-eq-")
    text = TAG.sub(r"\\text{NUMBER \1}\n```", text).replace(r"\cr", r"\\")
    text = re.sub(r"\\[bB]ig([lr])", lambda side: {"l": r"\left", "r": r"\right"}[side[1]], text)
    text = text.replace(r"\lvert", r"\left|").replace(r"\rvert", r"\right|")
    numbers = {f"eq-{each.lower().replace(' ', '-')}" for each in re.findall(r"\\text\{NUMBER ([^}]*)\}", text)}
    places = (each for each in re.findall(r'<a id="([^"]+)"></a>', text) if each not in numbers)
    for place in places:
        text = text.replace(f'<a id="{place}"></a>', f"`#metadata(none) <{name}-{place}>`{{=typst}}")
    made = pypandoc.convert_text(text, "typst", format="gfm+tex_math_gfm+raw_attribute", extra_args=["--wrap=none"])
    made = re.sub(r"\bsect\b", "inter", made)  # as Typst calls it by now

    def numbered(found: re.Match[str]) -> str:
        label = f"{name}-eq-{found[2].lower().replace(' ', '-')}"
        return f"#numbered([{found[2]}], $ {found[1]} $) <{label}>"

    made = re.sub(r'^\$ ([^$]*) upright\("NUMBER ([^"]*)"\) \$', numbered, made, flags=re.MULTILINE)
    return f'#import "/paper/report/common.typ": numbered\n{made}\n#metadata(none) <{name}>\n'


if __name__ == "__main__":
    main()
