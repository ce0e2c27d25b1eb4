"""The report as text: nothing comes from elsewhere, no string of the data is more than text, all of it is said."""

import ast
import copy
import json
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest

from evidence.reproduction.report import PARTS, page
from gladstorm.plotting.styles import COLOURS
from report_data import METHODS, experiments, statistic

HOSTILE = "</script><script>window.hacked=1</script><!--<img src=x onerror=window.hacked=1>\"'&amp;\u2028\u2029]]>`${1}"
VOID = ("meta", "br")


class Document(HTMLParser):
    """The page's elements in order; every one must be closed, innermost first."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    @property
    def shape(self) -> list[tuple[str, list[str]]]:
        return [(tag, list(attributes)) for tag, attributes in self.elements]

    def values(self, attribute: str) -> list[str]:
        return [str(attributes[attribute]) for _, attributes in self.elements if attribute in attributes]


def table(text: str, caption: str) -> list[str]:
    """The rows of the table under a caption, each as its text with bars between the cells."""
    rows = text.split(f"<caption>{caption}</caption>")[1].split("</table>")[0].split("<tr>")[1:]
    return [re.sub(r"<[^>]*>", "", re.sub(r"</t[dh]><t[dh][^>]*>", " | ", row)) for row in rows]


def with_strings(change: Callable[[str], str]) -> list[dict[str, Any]]:
    """The data with every string changed, and every method's name."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {change(key) if key in METHODS else key: walk(item) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        return change(value) if isinstance(value, str) else value

    changed: list[dict[str, Any]] = walk(experiments())
    return changed


def embedded(text: str) -> Any:
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


def test_the_page_is_well_formed_with_every_link_and_no_id_twice() -> None:
    document = Document(page(experiments()))
    ids = document.values("id")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in document.values("href")} <= set(ids)
    assert document.elements[0][0] == "html"


def test_no_string_of_the_data_changes_what_the_page_is_made_of() -> None:
    harmless, hostile = page(with_strings(lambda s: f"x{s}")), page(with_strings(lambda s: HOSTILE + s))
    assert Document(hostile).shape == Document(harmless).shape
    assert any(HOSTILE in text for text in Document(hostile).texts)
    assert [arm["name"] for arm in embedded(hostile)["experiments"][0]["main"]] == [HOSTILE + name for name in METHODS]


def test_the_data_inside_the_script_element_cannot_end_it() -> None:
    block = page(with_strings(lambda s: HOSTILE + s)).split('id="data">')[1].split("</script>")[0]
    assert block.isascii()
    assert not set("<>&") & set(block)


def test_nothing_is_loaded_from_anywhere() -> None:
    document = Document(page(experiments()))
    assert not [
        name for _, attributes in document.elements for name in attributes if name in ("src", "style", "srcset")
    ]
    assert not [name for _, attributes in document.elements for name in attributes if name.startswith("on")]
    assert all(link.startswith("#") for link in document.values("href"))
    assert not {tag for tag, _ in document.elements} & {"link", "img", "iframe", "object", "embed", "form", "base"}
    style, *scripts = (files("evidence.reproduction.report").joinpath(name).read_text("utf-8") for name in PARTS)
    assert not re.search(r"url\(|@import|@font-face", style)
    loading, running = (
        r"fetch|XMLHttp|WebSocket|import|https?:(?!//www\.w3\.org)",
        r"eval|Function\(|innerHTML|document\.write",
    )
    assert not re.search(f"{loading}|{running}", "".join(scripts))


def test_the_policy_forbids_everything_but_the_two_own_parts() -> None:
    policy = next(a["content"] for _, a in Document(page(experiments())).elements if "http-equiv" in a)
    rules = dict(rule.strip().split(" ", 1) for rule in str(policy).split(";"))
    assert rules.pop("default-src") == rules.pop("base-uri") == rules.pop("form-action") == "'none'"
    assert set(rules) == {"style-src", "script-src"}
    assert all(re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", rule) for rule in rules.values())


def test_the_same_results_are_the_same_bytes_and_stay_as_they_were() -> None:
    results = experiments()
    before = copy.deepcopy(results)
    assert page(results) == page(copy.deepcopy(results))
    assert results == before


def test_the_curves_of_the_page_are_the_recorded_ones_to_six_digits() -> None:
    recorded = experiments()[1]["curves"]["budget"]
    for arm in embedded(page(experiments()))["experiments"][1]["budget"]:
        assert arm["step"] == recorded[arm["name"]]["step"]
        assert arm["sfo"] == pytest.approx(recorded[arm["name"]]["sfo"]["mean"], rel=5e-6)
        for curve in ("grad_norm", "drift2", "batch"):
            for column in ("mean", "std"):
                assert arm[curve][column] == pytest.approx(recorded[arm["name"]][curve][column], rel=5e-6)


def test_a_claim_has_one_row_with_its_verdicts_side_by_side_fewest_seeds_first() -> None:
    results = experiments()
    results[0]["summary"]["claims"].reverse()
    head, *rows = table(page(results), "The paper’s claims")
    assert head == "the paper says | 3 seeds | 100 seeds"
    assert len(rows) == 3
    claim = next(row for row in rows if row.startswith("NSTORM reaches a lower"))
    assert re.search(r"\| ✓ holds 0\.667.* \| ✗ does not hold 0\.27 \[0\.18, 0\.36\]", claim)
    assert any("? depends on B²/σ² 0.98" in row for row in rows)


def test_claims_checked_on_different_numbers_of_seeds_share_the_table() -> None:
    results = experiments()[:1]
    results[0]["summary"]["claims"][1]["seeds"] = 20
    assert table(page(results), "The paper’s claims")[0] == "the paper says | 3 seeds | more seeds"
    assert "20 seeds" in page(results)


def test_the_opening_counts_the_verdicts_on_the_most_seeds_once_for_each_sentence() -> None:
    results = experiments()
    for result in results:
        claims = result["summary"]["claims"]
        claims.append(claims[0] | {"id": "another-reading", "verdict": "holds"})
    texts = Document(page(results)).texts
    assert texts.count("3 sentences tested, 1 held up, 1 did not, 1 undecided or a matter of reading") == 2


def test_a_violated_condition_is_marked_with_word_and_sentence_and_its_bound_is_not_promised() -> None:
    results = experiments()[:1]
    results[0]["summary"]["schedule"]["NSGDM"]["bound"] = 88.0
    text = page(results)
    conditions = table(text, "The theorems’ conditions")
    assert [row for row in conditions if "✗ violated" in row] == ["NSGDM | γ0 ≤ 1 | 10 | 1 | ✗ violated"]
    assert "exceeds 1: the theorem promises nothing here." in text
    assert ["not promised" in row for row in table(text, "What the theorems prescribe")[1:]] == [True, False]
    assert "Outside the theorem" not in page(experiments()[1:])


def test_the_travel_budget_stands_beside_the_distance_to_the_solution() -> None:
    text = page(experiments()[:1])
    assert "<strong>54.7 ± 1.6</strong> away" in text
    nsgdm, nstorm = table(text, "How far the normalized methods can go")[1:]
    assert nsgdm == "NSGDM | 46.4 |  85 % | stops 8.35 short at best"
    assert nstorm == "NSTORM | 55.6 |  102 % | can arrive"


def test_the_grid_is_shown_whole_with_what_was_picked_and_added() -> None:
    text = page(experiments()[:1])
    rows = table(text, "Grid of SGD")[1:]
    assert len(rows) == 7
    assert [row.split(" | ")[-1] for row in rows] == ["", "", "", "picked", "picked at budget", "", "added"]
    assert "which was extended by 0.1." in text
    assert rows[-1].startswith("0.1 | not finite | ")


def test_what_was_not_recorded_is_left_out_and_what_is_not_finite_is_said() -> None:
    bare = experiments()[0]
    for part in ("tuning", "sensitivity", "schedule"):
        bare["summary"][part] = {}
    bare["summary"]["claims"] = []
    bare["summary"]["config"]["choices"] = []
    bare["summary"]["travel"]["distance_to_solution"] = statistic(None)
    bare["summary"]["methods"]["SGD"]["final_grad_norm"] = statistic(None)
    text = page([{**bare, "curves": {"main": {}, "budget": {}}}])
    said = Document(text).texts
    assert "No curves were recorded." in said
    assert "<strong>not finite</strong> away" in text
    assert "SGD | 0.003 | 10,001 | not finite |" in "\n".join(table(text, "Equal iterations, as in the paper"))
    absent = {"Step sizes tried", "Sensitivity to γ₀", "Verdicts", "Our choices, where the paper is silent"}
    assert not absent & set(said)
    assert absent < set(Document(page(experiments())).texts)


def test_a_page_of_nothing_is_still_a_page() -> None:
    assert embedded(page([]))["experiments"] == []
    Document(page([]))


def test_a_number_that_json_cannot_hold_is_refused() -> None:
    results = experiments()
    results[0]["curves"]["main"]["SGD"]["grad_norm"]["mean"][3] = float("nan")
    with pytest.raises(ValueError, match="not JSON compliant"):
        page(results)


def test_methods_have_the_colours_of_the_figures() -> None:
    style = files("evidence.reproduction.report").joinpath("page.css").read_text("utf-8")
    colours = re.findall(r"\.colour-\d \{ --colour: (.*?); \}", style)
    assert (*colours[:-1], "#000000") == COLOURS
    assert colours[-1] == "var(--ink)"  # black, on either background


def test_writing_a_report_needs_the_standard_library_a_template_rounding_and_the_colours_only() -> None:
    sources = [path for path in files("evidence.reproduction.report").iterdir() if path.name.endswith(".py")]
    nodes = [node for path in sources for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    imported = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    others = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    others = {name for name in others if not name.startswith("evidence.reproduction.report")}
    assert others == {"gladstorm.core.statistics", "gladstorm.plotting.styles", "jinja2"}
