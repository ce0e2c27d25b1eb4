"""Show in the gallery the figures that Gladstorm returns: they belong to no window, so pyplot does not know them."""

from __future__ import annotations

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
