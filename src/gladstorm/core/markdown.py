"""Tables as documents have them, and what a reader opens on request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table in Markdown; a bar inside a cell is escaped.

    >>> print(markdown_table(["x", "|x|"], [["-1", "1"]]))
    | x | \|x\| |
    | --- | --- |
    | -1 | 1 |
    """
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def folded(summary: str, text: str) -> str:
    """Text behind a line that opens it; blank lines around it let Markdown go on inside.

    >>> print(folded("More", "*text*"))
    <details><summary>More</summary>
    <BLANKLINE>
    *text*
    <BLANKLINE>
    </details>
    """
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"
