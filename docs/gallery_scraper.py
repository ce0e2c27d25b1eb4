"""Show in the gallery what Gladstorm returns or writes: figures that pyplot does not know, and pages."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

from gladstorm.plotting import figures


def returned(block: tuple[Any, ...], variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Save what a block calls `figure`, unless pyplot made it, and return the markup that shows it."""
    figure = variables["example_globals"].get("figure")
    made_here = block[0] == "code" and "figure = " in block[1]
    if not (made_here and isinstance(figure, Figure) and not hasattr(figure, "number")):
        return ""
    path = next(variables["image_path_iterator"])
    figures.save(figure, Path(path))
    return str(figure_rst([path], settings["src_dir"]))


def written(_block: tuple[Any, ...], variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Move the pages that a block wrote beside its script to the root of the site, and return what shows them there."""
    shown = ""
    for page in Path(variables["src_file"]).parent.glob("*.html"):
        shutil.move(page, Path(settings["src_dir"]) / "made" / "pages" / page.name)
        frame = f'<iframe class="playground" src="../../{page.name}" title="{page.stem}" loading="lazy"></iframe>'
        shown += f"\n.. raw:: html\n\n    {frame}\n\n"
    return shown
