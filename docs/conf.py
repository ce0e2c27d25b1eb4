"""The site: `make docs` builds it from docs/*.md, the scripts of docs/gallery, the docstrings and `--help`."""

from __future__ import annotations

import re
import shutil
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import typer
from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util.images import get_image_size

import gladstorm
from gladstorm.cli.app import app as command_line
from gladstorm.jobs.progress import quietly
from gladstorm.jobs.provenance import digest, source

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))  # gallery_scraper.py
MADE = DOCS / "made"  # what this file and sphinx-gallery write; ignored by git, and made again when the source changes

project, author, copyright = "Gladstorm", "Gladstorm maintainers", "Gladstorm maintainers"
version = release = gladstorm.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax and its fonts, copied into the site: nothing is loaded from elsewhere
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["gallery/**", "_build/**"]
nitpicky = True
smartquotes_action = "q"  # only quotes: -- begins an option and is no dash
# The site is built without a network, so nothing outside it has an address: types of other packages stay plain text.
nitpick_ignore_regex = [("py:.*", ".*")]
suppress_warnings = ["ref.python"]  # A, a type variable, is also the name of fields

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_fence_as_directive = ["math"]  # ```math, as GitHub writes a displayed formula

autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
default_role = "code"  # docstrings write code as Markdown does, in single backticks
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
# Shown by these names, of which docs/api/methods.md explains the last three: written out, each is a line long.
autodoc_type_aliases = {name: name for name in ("ArrayLike", "Tunable", "Numbers", "BatchSizes")}
autodoc_mock_imports = [name for name in ("lightning", "pymc", "transformers") if find_spec(name) is None]
python_display_short_literal_types = True
python_maximum_signature_line_length = 88
add_module_names = False

html_theme = "sphinx_book_theme"
html_title = "Gladstorm"
html_static_path = ["assets"]
html_extra_path = ["made/pages"]  # pages of their own, copied as they are
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_navbar_depth": 1,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "home_page_in_toc": True,
}
html_domain_indices = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader has it

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "made/gallery",
    "filename_pattern": "plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 10**6,  # times are of the machine that built the page
    "remove_config_comments": True,
    "first_notebook_cell": "# In a copy of the repository: pip install '.[all]'",
    "matplotlib_animations": False,
    "abort_on_example_error": True,
    "thumbnail_size": (480, 320),
    "image_scrapers": ("matplotlib", "gallery_scraper.returned", "gallery_scraper.written"),
}


_QUIET = ExitStack()


def _forget_what_older_source_made() -> None:
    """Scripts run again when their text changes, which sphinx-gallery sees to, and when the package does."""
    scripts = sorted((Path(gladstorm.__file__).parent / "plotting" / "page").iterdir())  # of the pages to explore
    stamp, made_of = MADE / "source.txt", source() + digest(b"".join(path.read_bytes() for path in scripts))
    if not stamp.exists() or stamp.read_text() != made_of:
        shutil.rmtree(MADE, ignore_errors=True)
        (MADE / "pages").mkdir(parents=True)
        stamp.write_text(made_of)


def _command_line_page() -> str:
    """Every command's `--help`."""
    group: Any = typer.main.get_command(command_line)
    root = click.Context(group, info_name="gladstorm", terminal_width=88)
    texts = {"gladstorm": group.get_help(root)}
    for name, command in group.commands.items():
        texts[f"gladstorm {name}"] = command.get_help(click.Context(command, root, name, terminal_width=88))
    opening = """# Command line

`gladstorm` and `python -m gladstorm` are the same program. Tables and JSON go to standard output, progress and remarks
to standard error. The exit code is 0 if all went well, 1 if a check failed, 2 if the command was not understood, and
130 or 143 if it was interrupted. [File formats](../formats.md) describes the fields of `--json`.
"""
    return "\n".join([opening, *(f"## {name}\n\n```text\n{text}\n```\n" for name, text in texts.items())])


# What readers search for, beside the words of titles, and the pages that answer.
SOUGHT = {
    "start_training": ("learning rate",),
    "training": ("Muon",),
    "batch": ("batch size",),
    "numpyro": ("PyMC", "pm.fit"),
}
FOR_A_PHONE = 1300  # pixels: figures of at most 6.5 inches have words that can be read at a phone's width

# Folders whose docstring tells contributors how they are arranged; their page says what they are for.
GROUPS = ("problems.objectives", "problems.oracles", "methods", "methods.estimators", "methods.steps")
FOLDERS = {f"gladstorm.{name}" for name in GROUPS}


# Pages by the path that docstrings name, and the documents of the site that they are.
PAGES = {f"docs/{path.name}": f"/{path.stem}" for path in DOCS.glob("*.md")}
PAGES |= {
    f"docs/evidence/{path.parent.name}": f"/evidence/{path.parent.name}/index"
    for path in DOCS.glob("evidence/*/index.md")
}


def _prepare_docstring(_app: Any, what: str, name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Leave out what a folder tells contributors, and link the pages that a docstring names by their path."""
    if what == "module" and name in FOLDERS:
        lines.clear()
    lines[:] = [" ".join(map(_linked, line.split(" "))) for line in lines]


def _linked(word: str) -> str:
    path = word.strip("().,;:")
    return word.replace(path, f":doc:`{path} <{PAGES[path]}>`") if path in PAGES else word


def _without_blank_ends(_app: Any, _docname: str, source: list[str]) -> None:
    """Doctests in Markdown need an empty line before the fence that ends them; readers do not."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def _with_sought_words(_app: Any, docname: str, source: list[str]) -> None:
    """Make what readers search for main entries of the index of the page that answers: the search ranks them first."""
    if docname in SOUGHT:
        entries = "".join(f"   ! single: {words}\n" for words in SOUGHT[docname])
        source[0] += f"\n```{{eval-rst}}\n.. index::\n{entries}```\n"


def _with_the_report(_app: Any, _docname: str, source: list[str]) -> None:
    """Lead links to the texts of the proofs, which the site has not, to the report that `make paper` sets of them."""
    report = DOCS.parent / "out" / "paper" / "report.pdf"
    shown = r"\1 (`\2`)"
    if report.exists():
        shutil.copy(report, MADE / "pages")
        shown = r'<a href="report.pdf">\1</a>'
    source[0] = re.sub(r"\[([^]]*)\]\(\.\./(paper/proofs/\w+\.md)\)", shown, source[0])


def _with_texts_of_the_study(_app: Any, docname: str, source: list[str]) -> None:
    """Put what a study registered below its page in the order of the site: every text of its folder has a place."""
    if docname.startswith("evidence/") and docname.endswith("/index"):
        folder = (DOCS / docname).parent
        texts = sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md"))
        listed = "\n".join(text for text in texts if text != "index")
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n" if listed else ""


def _with_links_to_figures(app: Any, doctree: Any) -> None:
    """Let a click on a figure show it alone, as Sphinx links what has a scale; mark what was not drawn for a phone."""
    if not app.env.docname.startswith("made/"):
        for image in doctree.findall(lambda node: node.tagname == "image"):
            image["scale"] = 100
            size = get_image_size(str(DOCS / image["uri"].lstrip("/")))
            if size is None or size[0] > FOR_A_PHONE:
                image["classes"].append("wide")


class _Anchors(SphinxTransform):  # type: ignore[misc]  # where Sphinx is not installed, its classes have no type
    """Let links lead to `<a id="eq-1"></a>` beside a formula, which is how Markdown on GitHub names a place too."""

    default_priority = 500  # before MyST resolves links within a page

    def apply(self, **_: Any) -> None:
        for opening in list(self.document.findall(nodes.raw)):
            if found := re.fullmatch(r'<a id="([\w-]+)">', opening.astext()):
                opening.parent.remove(opening.next_node(descend=False, siblings=True))  # </a>
                target = nodes.target("", "", ids=[found[1]], names=[found[1]])
                opening.replace_self(target)
                self.document.note_explicit_target(target)


def _without_aliases(_app: Any, _what: str, _name: str, obj: Any, _skip: bool, _options: Any) -> bool | None:
    """Leave out the fields of named tuples, which the signature shows: Python documents them as aliases for numbers."""
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def setup(app: Any) -> None:
    """Write the pages that are made from the code, and read docstrings as what they are."""
    _forget_what_older_source_made()
    _QUIET.enter_context(quietly())  # how long a script took to simulate is no part of its page
    (MADE / "command_line.md").write_text(_command_line_page(), encoding="utf-8")
    app.connect("source-read", _without_blank_ends)
    app.connect("source-read", _with_sought_words)
    app.connect("source-read", _with_texts_of_the_study)
    app.connect("source-read", _with_the_report)
    app.connect("doctree-read", _with_links_to_figures)
    app.connect("autodoc-process-docstring", _prepare_docstring)
    app.connect("autodoc-skip-member", _without_aliases)
    app.add_transform(_Anchors)
