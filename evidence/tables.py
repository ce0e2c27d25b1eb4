"""Write the tables and the marked numbers of README, CONTRIBUTING.md and docs from the code and the published results:

python -m evidence.tables
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote_plus

from evidence.numbers import MARKED, renewed_numbers
from evidence.optimality import verdicts as optimality
from evidence.page import markdown_table, typeset
from gladstorm.core import references
from gladstorm.methods import part_rows, rows

ROOT = Path(__file__).parent.parent
METHOD_COLUMNS = {"method": "method", "parts": "made of", "sfo": "stochastic gradients"}
METHOD_COLUMNS |= {"complexity": "known complexity", "source": "source"}
PART_COLUMNS = {"kind": "kind", "part": "part", "meaning": "what it is"}
NOTE = "written by python -m evidence.tables; a test compares it with the code"


def with_table(text: str, name: str, table: str) -> str:
    """The text with the table after the comment of that name renewed."""
    comment = f"<!-- {name}: {NOTE} -->\n"
    before, marker, after = text.partition(comment)
    if not marker:
        raise ValueError(f"tables: a document must have the line {comment.strip()!r}; got none.")
    rest = "".join(after.splitlines(keepends=True)[_length(after) :])
    return f"{before}{comment}{table}\n{rest}"


def _length(text: str) -> int:
    lines = text.splitlines()
    return next((i for i, line in enumerate(lines) if not line.startswith(("|", "- "))), len(lines))


def methods() -> str:
    """Return the named methods, in columns that a screen has room for."""
    lines = []
    for row in rows():
        made_of = " + ".join(row[kind] for kind in ("estimator", "step", "batch", "average") if row[kind])
        complexity = f"{row['complexity']}: {row['assumptions']}" if row["complexity"] else ""
        lines.append({**row, "method": f"`{row['method']}`", "parts": made_of, "complexity": complexity})
    return _columns(METHOD_COLUMNS, lines)


def parts() -> str:
    """Parts of methods, objectives and oracles."""
    return _columns(PART_COLUMNS, [{**row, "part": f"`{row['part']}`"} for row in part_rows()])


def _columns(headings: dict[str, str], lines: list[dict[str, str]]) -> str:
    """Return a table of the values under some keys, each with its heading; powers and indices are typeset."""
    return markdown_table(list(headings.values()), [[typeset(line[key]) for key in headings] for line in lines])


def verdicts() -> str:
    """Upper and lower bound of each regime."""
    lines = [verdict.as_dict() for verdict in optimality.verdicts()]
    return _columns({key: key for key in lines[0]}, lines)


def works() -> str:
    """The works that are cited, each with its page on arXiv if it is there, else with a search for its title."""
    lines = []
    for work in sorted(references.works().values(), key=str):
        title = re.sub("[{}]", "", work.fields["title"])  # braces keep capitals in BibTeX
        link = f"https://scholar.google.com/scholar?q={quote_plus(title)}"
        if "eprint" in work.fields:
            link = f"https://arxiv.org/abs/{work.fields['eprint']}"
        full = f"{', '.join(work.authors)}. {title}. {_venue(work.fields)}, {work.fields['year']}."
        lines.append(f"- **{work}**. {full} [Find it]({link}).")
    return "\n".join(lines)


def _venue(fields: Mapping[str, str]) -> str:
    """Return where a work appeared, with volume and pages where there are any."""
    if "eprint" in fields:
        return f"{fields['archiveprefix']} {fields['eprint']}"
    if "journal" not in fields:
        return fields.get("booktitle") or fields["howpublished"]
    number = f"({fields['number']})" if "number" in fields else ""
    return f"{fields['journal']} {fields['volume']}{number}, {fields['pages'].replace('--', '–')}"


PAGES: dict[str, dict[str, Callable[[], str]]] = {  # the tables of each
    "docs/methods.md": {"methods": methods, "parts": parts},
    "docs/theory.md": {"verdicts": verdicts},
    "docs/bibliography.md": {"works": works},
}


def pages() -> list[str]:
    """Return the documents with a table or a marked number."""
    documents = ["README.md", *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("docs/*.md")))]
    return [
        *PAGES,
        *(name for name in documents if name not in PAGES and MARKED.search((ROOT / name).read_text("utf-8"))),
    ]


def renewed(page: str) -> str:
    """Return a document with its tables and marked numbers as code and results have them now."""
    text = renewed_numbers((ROOT / page).read_text("utf-8"))
    for name, written in PAGES.get(page, {}).items():
        text = with_table(text, name, written())
    return text


if __name__ == "__main__":
    for page in pages():
        (ROOT / page).write_text(renewed(page), "utf-8")
