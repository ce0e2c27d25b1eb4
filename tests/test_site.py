"""The site that `make docs` builds: every page, in a browser, at the width of a phone and of a screen."""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Browser, chromium

ROOT = Path(__file__).parent.parent
SITE = ROOT / "docs/_build"
PAGES = sorted(name for path in SITE.rglob("*.html") if not (name := path.relative_to(SITE).as_posix()).startswith("_"))
REMOTE = re.compile(r"""(?:src|href)="(?:https?:)?//[^"]*\.(?:js|css|woff2?|png|svg)[^"]*\"""")
built = pytest.mark.skipif(not PAGES, reason="the site was not built: make docs")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


SEEN = """
const hidden = box => box.scrollWidth > box.clientWidth;
return {
  sideways: hidden(document.documentElement),
  tables: [...document.querySelectorAll(".pst-scrollable-table-container")].filter(hidden).length,
  figures: [...document.querySelectorAll("article p > a.reference > img")]
    .filter(figure => !figure.closest(".start") && !(figure.naturalWidth <= arguments[0]))
    .map(figure => figure.clientWidth),
};
"""
READABLE = 600  # pixels: narrower, the words of a figure are too small, and it scrolls in its own box
FOR_A_PHONE = 1300  # pixels of a figure that is drawn to be read at any width


@built
@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_no_page_scrolls_sideways_or_complains_and_every_figure_can_be_read(
    browser: Browser, width: int, scheme: str
) -> None:
    wrong = {}
    for name in PAGES:
        browser.open(SITE / name, width=width, scheme=scheme)
        seen = browser.run(SEEN, FOR_A_PHONE)
        errors = [entry["message"] for entry in browser.log("browser") if entry["level"] == "SEVERE"]
        narrow = [figure for figure in seen["figures"] if figure < READABLE]
        whole = width < 1280 or name != "methods.html" or seen["tables"] == 0
        if seen["sideways"] or errors or narrow or not whole:
            wrong[name] = (seen, errors)
    assert wrong == {}


@built
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("Muon", "training.html"),
        ("learning rate", "start_training.html"),
        ("batch size", "batch.html"),
        ("pm.fit", "numpyro.html"),
        ("PyMC", "numpyro.html"),
    ],
)
def test_a_search_leads_to_the_page_that_answers(browser: Browser, words: str, page: str) -> None:
    browser.post("url", url=f"{(SITE / 'search.html').as_uri()}?q={words.replace(' ', '+')}")
    found = browser.post("execute/async", script=FOUND, args=[])
    assert page in [address.partition("?")[0].partition("#")[0] for address in found[:3]], found


FOUND = """
const done = arguments[arguments.length - 1];
const links = () => [...document.querySelectorAll("#search-results li > a")].map(link => link.getAttribute("href"));
const look = () => document.querySelector("#search-results .search-summary")?.textContent.includes("found")
  ? done(links()) : setTimeout(look, 50);
look();
"""

TYPESET = """
const done = arguments[arguments.length - 1];
MathJax.startup.promise.then(() => done({
  formulas: document.querySelectorAll(".math").length,
  typeset: document.querySelectorAll(".math mjx-container").length,
  wrong: [...document.querySelectorAll("mjx-merror, mjx-container [style*='color: red']")].map(e => e.textContent),
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
}));
"""


@built
def test_every_formula_is_typeset_without_a_network_and_on_a_phone(browser: Browser) -> None:
    with_formulas = [name for name in PAGES if 'class="math' in (SITE / name).read_text("utf-8")]
    assert {"theory.html", "proofs.html", "errata.html"} <= set(with_formulas)
    for name in with_formulas:
        browser.open(SITE / name, width=400)
        found = browser.post("execute/async", script=TYPESET, args=[])
        assert found == {"formulas": found["formulas"], "typeset": found["formulas"], "wrong": [], "wide": 0}, name
        assert found["formulas"] > 0
        assert [each for each in browser.requests() if not each.startswith(("file:", "data:"))] == []


@built
def test_the_site_follows_the_reader_s_light_or_dark(browser: Browser) -> None:
    shown = []
    for scheme in ("light", "dark"):
        browser.open(SITE / "index.html", scheme=scheme)
        shown.append(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert shown[0] != shown[1]


@built
def test_the_site_needs_no_network() -> None:
    remote = {name: found for name in PAGES if (found := REMOTE.findall((SITE / name).read_text("utf-8")))}
    assert remote == {}


@built
def test_every_public_name_is_in_the_reference() -> None:
    inventory = (SITE / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = zlib.decompress(inventory).decode().splitlines()
    documented = {line.split(" ")[0].rpartition(".")[2] for line in entries if " py:" in line}
    stub = ast.parse((ROOT / "src/gladstorm/__init__.pyi").read_text("utf-8"))
    public = {
        alias.name
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module != "gladstorm"
        for alias in node.names
    }
    assert public - documented == set()


def test_every_page_has_its_place_in_the_order_of_the_site() -> None:
    listed = set()
    for page in (ROOT / "docs" / name for name in ("index.md", "evidence.md", "api/index.md")):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            names = (line for line in block.splitlines() if line and not line.startswith(":"))
            listed |= {(page.parent / name).relative_to(ROOT / "docs").as_posix() for name in names}
    pages = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").glob("*.md")}
    pages |= {f"api/{path.stem}" for path in (ROOT / "docs/api").glob("*.md")}
    assert pages - listed == {"index"}, "a page of docs/ must stand in a toctree of docs/index.md"
