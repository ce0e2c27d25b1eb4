"""The report in a browser: what is drawn, what can be done with it, at every width."""

from collections.abc import Callable, Iterator
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import pytest
from test_report import HOSTILE, with_strings

from browser import Browser, chromium
from evidence.reproduction.report import page
from evidence.reproduction.report.words import AXES, CURVES, SETTINGS, number, spread
from report_data import METHODS, experiments


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


# Everything each panel of the first experiment draws.
PICTURE = """const content = (e) => e.getAttribute("d") ?? e.textContent;
    return [...document.querySelectorAll("#phase-retrieval .panel")].map((panel) =>
        [...panel.querySelectorAll("path, .label, .title, .note")].map(content).join())"""
PRESS = """const button = [...document.querySelector("figure").querySelectorAll("button")]
    .filter((button) => button.textContent === arguments[0])[arguments[1]];
    button.click(); return button.getAttribute("aria-pressed")"""
PLOT = """const plot = document.querySelectorAll(".plot > svg")[arguments[0]];
    plot.scrollIntoView({block: "center"});
    const {left, top, width, height} = plot.querySelector(".frame").getBoundingClientRect();
    return [left, top, width, height]"""
READOUT = """return [...document.querySelectorAll(".readout:not([hidden])")].map((box) =>
    [box.querySelector("strong").textContent, ...[...box.querySelectorAll("dt")].map((dt) =>
        `${dt.textContent}: ${dt.nextSibling.textContent}`)])"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(experiments()), "utf-8")
    return path


@pytest.fixture
def shown(browser: Browser, report: Path) -> Browser:
    """The report, freshly opened."""
    browser.open(report)
    return browser


def press(browser: Browser, text: str, which: int = 0) -> bool:
    """Press a button of the first chart; whether it is down afterwards."""
    return bool(browser.run(PRESS, text, which) == "true")


def drag(browser: Browser, start: tuple[float, float], end: tuple[float, float], panel: int = 0) -> None:
    """Drag over a panel, from and to fractions of its width and height."""
    left, top, width, height = browser.run(PLOT, panel)
    (x, y), (to_x, to_y) = [(left + width * u, top + height * v) for u, v in (start, end)]
    browser.pointer((x, y), "down", ((x + to_x) / 2, (y + to_y) / 2), (to_x, to_y), "up")


def labels(browser: Browser, axis: str) -> list[list[str]]:
    script = """return [...document.querySelectorAll("#phase-retrieval .panel")].map((panel) =>
        [...panel.querySelectorAll(`.label.${arguments[0]}`)].map((label) => label.textContent))"""
    found: list[list[str]] = browser.run(script, axis)
    return found


def test_the_page_opens_from_disk_without_a_word_on_the_console_and_asks_nobody_for_anything(
    shown: Browser, report: Path
) -> None:
    assert shown.run("return document.querySelectorAll('g[data-method] .mean').length") == 2 * 3 * len(METHODS)
    assert shown.requests() == [report.as_uri()]
    assert shown.log("browser") == []


def test_hiding_a_method_takes_it_from_every_panel_and_showing_it_again_brings_the_same_picture(shown: Browser) -> None:
    drawn = 'return document.querySelectorAll(`#phase-retrieval g[data-method="${arguments[0]}"]`).length'
    before = shown.run(PICTURE)
    for method in METHODS:
        assert press(shown, method) is False
        assert shown.run(drawn, method) == 0
        assert all(one != other for one, other in zip(shown.run(PICTURE), before, strict=True))
        assert press(shown, method) is True
        assert shown.run(drawn, method) == 3
    assert shown.run(PICTURE) == before


def test_a_hidden_method_is_hidden_in_one_experiment_only(shown: Browser) -> None:
    press(shown, "SGD")
    assert shown.run("return document.querySelectorAll('g[data-method=\"SGD\"]').length") == 3


def test_every_axis_button_redraws_what_it_names_and_pressing_back_undoes_it(shown: Browser) -> None:
    before = shown.run(PICTURE)
    for text, which, back, panels in [
        ("iterations", 0, "SFO calls", {0, 1, 2}),
        ("equal SFO budget", 0, "equal iterations, as in the paper", {0, 1, 2}),
        ("log x", 0, "log x", {0, 1, 2}),
        ("log y", 0, "log y", {0}),
        ("log y", 1, "log y", {1}),
        ("log y", 2, "log y", {2}),
    ]:
        press(shown, text, which)
        after = shown.run(PICTURE)
        assert {i for i in range(3) if after[i] != before[i]} == panels, text
        press(shown, back, which)
        assert shown.run(PICTURE) == before


def test_a_log_axis_is_even_in_powers_of_ten(shown: Browser) -> None:
    assert labels(shown, "y")[0] == ["0.01", "0.1", "1", "10", "100"]
    heights = shown.run("""const panel = document.querySelector(".panel");
        return [...panel.querySelectorAll(".label.y")].map((label) => Number(label.getAttribute("y")))""")
    gaps = [low - high for low, high in pairwise(heights)]
    assert gaps == pytest.approx([gaps[0]] * len(gaps))
    assert labels(shown, "x")[0] == ["10⁰", "10²", "10⁴", "10⁶"]


def test_curves_and_bands_are_drawn_where_the_axes_say(shown: Browser) -> None:
    press(shown, "iterations"), press(shown, "log x")
    script = """const panel = document.querySelectorAll(".panel")[1];
        const labels = (axis) => [...panel.querySelectorAll(`.label.${axis}`)].map((label) =>
            [Number(label.textContent.replace(",", "")), Number(label.getAttribute(axis))]);
        const paths = [...panel.querySelectorAll("[data-method=NSTORM] path")].map((path) =>
            path.getAttribute("d").match(/[-0-9.]+/g).map(Number));
        return [labels("x"), labels("y"), ...paths]"""
    x_labels, y_labels, band, mean = shown.run(script)

    def value(pixel: float, labels: list[list[float]], baseline: float = 0) -> float:
        (first, start), (last, end) = labels[0], labels[1]
        return first + (last - first) * (pixel + baseline - start) / (end - start)

    recorded = experiments()[0]["curves"]["main"]["NSTORM"]
    heights, spreads = (recorded["drift2"][column] for column in ("mean", "std"))
    assert [value(px, x_labels) for px in mean[::2]] == pytest.approx(recorded["step"], abs=10)
    assert [value(px, y_labels, 4) for px in mean[1::2]] == pytest.approx(heights, abs=2)
    edges = [value(px, y_labels, 4) for px in band[1::2]]
    assert edges[: len(heights)] == pytest.approx([m + s for m, s in zip(heights, spreads, strict=True)], abs=2)
    assert edges[: len(heights) - 1 : -1] == pytest.approx(
        [m - s for m, s in zip(heights, spreads, strict=True)], abs=2
    )


def test_pointing_at_a_panel_shows_the_recorded_values_of_every_visible_method(shown: Browser) -> None:
    press(shown, "iterations")
    press(shown, "SGD")
    visible = [method for method in METHODS if method != "SGD"]
    curves = experiments()[0]["curves"]["main"]
    for index, key in enumerate(CURVES):
        left, top, width, height = shown.run(PLOT, index)
        shown.pointer((left + width - 1, top + height / 2))
        recorded = {m: {name: curves[m][key][name][-1] for name in ("mean", "std")} for m in visible}
        ends = {m: {**one, "std": one["std"] or None} for m, one in recorded.items()}
        assert shown.run(READOUT) == [["iterations: 10,000", *(f"{m}: {spread(ends[m])}" for m in visible)]]
        assert shown.run("return document.querySelectorAll('.cursor circle').length") == 3 * len(visible)
    shown.pointer((1, 1))
    assert shown.run(READOUT) == []


def test_a_method_has_no_value_beyond_its_end(shown: Browser) -> None:
    left, top, width, height = shown.run(PLOT, 0)
    shown.pointer((left + width - 1, top + height / 2))
    [readout] = shown.run(READOUT)
    assert [row.endswith("no run here") for row in readout[1:]] == [True, True, True, True, False]


def test_dragging_zooms_every_panel_alike_and_a_double_click_the_button_and_escape_each_undo_it(shown: Browser) -> None:
    before, disabled = shown.run(PICTURE), "return document.querySelector('.reset').disabled"
    left, top, width, height = shown.run(PLOT, 0)
    middle = (left + width / 2, top + height / 2)
    undo: dict[str, Callable[[], object]] = {
        "double click": lambda: shown.pointer(middle, "down", "up", "down", "up"),
        "button": lambda: press(shown, "Reset zoom"),
        "escape": lambda: shown.keys("\ue00c"),
    }
    for way, action in undo.items():
        drag(shown, (0.5, 0.5), (0.8, 0.52))
        assert labels(shown, "x")[0] == labels(shown, "x")[1] == labels(shown, "x")[2]
        assert labels(shown, "x")[0] != ["10⁰", "10²", "10⁴", "10⁶"]
        assert shown.run(disabled) is False
        action()
        assert shown.run(PICTURE) == before, way
        assert shown.run(disabled) is True


def test_a_box_dragged_in_one_panel_zooms_its_own_height_only(shown: Browser) -> None:
    before = labels(shown, "y")
    drag(shown, (0.1, 0.1), (0.99, 0.6))
    after = labels(shown, "y")
    assert after[0] != before[0]
    assert after[1:] == before[1:]
    assert {float(label) >= 0.2 for label in after[0]} == {True}
    drag(shown, (0.0, 0.5), (0.99, 0.5))
    assert labels(shown, "y")[0] == before[0]


def test_a_click_does_not_zoom(shown: Browser) -> None:
    before = shown.run(PICTURE)
    drag(shown, (0.5, 0.5), (0.505, 0.51))
    assert shown.run(PICTURE) == before


def test_the_keyboard_reads_and_zooms(shown: Browser) -> None:
    before = shown.run(PICTURE)
    shown.run("document.querySelector('.plot > svg').focus()")
    right, left, home, end = "\ue014", "\ue012", "\ue011", "\ue010"
    seen = []
    for keys in (right, right, right, left, end, home):
        shown.keys(keys)
        seen.append(shown.run(READOUT)[0][0])
    assert seen[0] == seen[5] == "SFO calls: 1"
    assert seen[1] == seen[3] != seen[2]
    assert seen[4] == f"SFO calls: {number(experiments()[0]['curves']['main'][METHODS[-1]]['sfo']['mean'][-1])}"
    shown.keys("+")
    assert shown.run(PICTURE) != before
    assert len(shown.run(READOUT)) == 1
    shown.keys("-")
    assert shown.run(PICTURE) == before


def test_a_chart_says_in_words_what_it_shows(shown: Browser) -> None:
    press(shown, "STORM, dynamic batch")
    words = "return [...document.querySelectorAll('.plot > svg')].map((svg) => svg.getAttribute('aria-label'))"
    gradient, drift, *_ = shown.run(words)
    assert gradient.startswith(
        "gradient norm ‖∇f(xᵏ)‖ against SFO calls, equal iterations, as in the paper; log vertical"
    )
    assert "NSGDM from 80.1 to 0.251, NSTORM from 80.2 to 0.229" in gradient
    assert "STORM, dynamic batch" not in gradient
    assert "linear vertical" in drift


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (375, "dark"), (768, "light"), (1280, "dark")])
def test_no_width_makes_the_page_scroll_sideways(browser: Browser, report: Path, width: int, scheme: str) -> None:
    browser.open(report, width=width, scheme=scheme)
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth && innerWidth") == width
    wide = """const room = document.documentElement.clientWidth + 1;
        return [...document.querySelectorAll("main *")].filter((e) => !e.closest(".scroll, pre, svg, [hidden]"))
            .filter((e) => e.getBoundingClientRect().right > room).map((e) => e.outerHTML.slice(0, 80))"""
    assert browser.run(wide) == []
    dark = browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(22, 23, 26)"
    assert dark == (scheme == "dark")


def check_labels(browser: Browser) -> None:
    """At least two labels on each axis, inside the plot's box, none touching another; no tick beyond the axes."""
    script = """return [...document.querySelectorAll("#phase-retrieval .panel")].map((panel) => {
        const box = (e) => ["left", "right", "top", "bottom"].map((side) => e.getBoundingClientRect()[side]);
        const [x, y] = ["x", "y"].map((axis) => panel.querySelectorAll(`.label.${axis}`).length);
        const [texts, ticks] = [".axes text", ".axes line"].map((kind) => [...panel.querySelectorAll(kind)].map(box));
        return {x, y, texts, ticks, plot: box(panel.querySelector(".plot")), frame: box(panel.querySelector(".frame"))};
    })"""
    for panel in browser.run(script):
        assert panel["x"] >= 2, panel
        assert panel["y"] >= 2, panel
        left, right, *_ = panel["plot"]
        assert all(left - 1 < text[0] and text[1] < right + 1 for text in panel["texts"])
        left, right, top, bottom = panel["frame"]
        assert all(left - 6 < tick[0] and tick[1] < right + 1 for tick in panel["ticks"])
        assert all(top - 1 < tick[2] and tick[3] < bottom + 6 for tick in panel["ticks"])
        for one, other in combinations(panel["texts"], 2):  # a text's box is higher than its figures by about 3 px
            beside = one[1] <= other[0] or other[1] <= one[0]
            assert beside or one[3] <= other[2] + 3 or other[3] <= one[2] + 3, (one, other)


@pytest.mark.parametrize("width", [360, 1280])
def test_labels_never_touch_each_other_nor_leave_the_plot(browser: Browser, report: Path, width: int) -> None:
    browser.open(report, width=width)
    for axis, setting in product(AXES.values(), SETTINGS.values()):
        press(browser, axis), press(browser, setting)
        for switch in (["log x"], ["log y"] * 3, ["log x"]):
            for which, text in enumerate(switch):
                press(browser, text, which)
            check_labels(browser)


def test_labels_stay_apart_however_far_one_zooms(browser: Browser, report: Path) -> None:
    browser.open(report, width=375)
    press(browser, "iterations"), press(browser, "log x")
    drag(browser, (0.5, 0.5), (0.973, 0.5))  # 10,000 is at the very end
    check_labels(browser)
    press(browser, "SFO calls"), press(browser, "log x")
    for start, end in [((0.5, 0.1), (0.8, 0.6)), ((0.1, 0.5), (0.6, 0.5)), *[((0.4, 0.3), (0.65, 0.6))] * 6]:
        drag(browser, start, end)
        check_labels(browser)
    assert browser.log("browser") == []


def test_the_script_prints_numbers_as_the_tables_do(shown: Browser) -> None:
    small, large = (
        [0, 0.5, 0.001, 1e-5, 2.154e-4, 0.0799998, 0.00464159],
        [1, 99.96, 10001, 123456.7, -5.9412345e6, 1.5e9],
    )
    values = small + large
    assert shown.run("return arguments[0].map((v) => format(v))", values) == [number(value) for value in values]


def test_strings_of_the_data_are_shown_and_never_run(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(page(with_strings(lambda s: HOSTILE + s)), "utf-8")
    browser.open(path)
    assert browser.run("return window.hacked ?? document.images.length") == 0
    names = browser.run(
        "return [...document.querySelector('.legend').querySelectorAll('span')].map((e) => e.textContent)"
    )
    assert names == [HOSTILE + method for method in METHODS]
    assert browser.log("browser") == []


def test_the_policy_stops_a_script_that_got_in_all_the_same(shown: Browser) -> None:
    intrude = """const script = document.createElement("script"); script.textContent = "window.hacked = 1";
        document.body.append(script); return window.hacked ?? "stopped" """
    assert shown.run(intrude) == "stopped"
    assert "Content Security Policy" in shown.log("browser")[0]["message"]


def odd_data() -> dict[str, dict[str, Any]]:
    """Curves no run should give, and a run can."""

    def arm(step: list[int], values: list[float | None]) -> dict[str, Any]:
        column = {"mean": values, "std": [None if v is None else abs(v) / 2 for v in values]}
        return {
            "step": step,
            "sfo": {"mean": [float(k) for k in step]},
            "grad_norm": column,
            "drift2": column,
            "batch": column,
        }

    steps, gaps = [0, 1, 10, 100], [3.0, None, 2.0, 1.0]
    return {
        "gaps": {"main": {"A": arm(steps, gaps), "B": arm(steps, [None] * 4)}},
        "zeros and negatives": {"main": {"A": arm(steps, [0.0, -1.0, 0.0, 5.0])}, "budget": {}},
        "never positive": {"main": {"A": arm(steps, [0.0, -1.0, -2.0, 0.0])}},
        "one method at budget only": {"main": {}, "budget": {"A": arm(steps, gaps)}},
        "one point": {"main": {"A": arm([0], [1.0])}},
        "constant": {"main": {"A": arm(steps, [1.0] * 4), "B": arm(steps, [0.0] * 4)}},
        "no point": {"main": {"A": arm([], [])}},
        "huge and tiny": {"main": {"A": arm(steps, [1e300, 1.0, 1e-300, 1e-10])}},
        "nothing": {},
        "many methods": {"main": {f"{i}": arm(steps, [float(i + 1)] * 4) for i in range(12)}},
    }


@pytest.fixture
def odd(browser: Browser, tmp_path: Path) -> Browser:
    """A page with an experiment for each of the odd curves, named after it."""
    path = tmp_path / "odd.html"
    summary = experiments()[0]["summary"]
    pages = [{"summary": {**summary, "experiment": case}, "curves": curves} for case, curves in odd_data().items()]
    path.write_text(page(pages), "utf-8")
    browser.open(path)
    return browser


def test_odd_curves_are_drawn_as_far_as_they_can_be(odd: Browser) -> None:
    bad = """return [...document.querySelectorAll("figure *")].filter((e) =>
        [e.textContent, ...[...e.attributes].map((a) => a.value)].some((text) => /NaN|Infinity|undefined/.test(text)))
        .map((e) => `${e.closest("section[id]").id}: ${e.outerHTML.slice(0, 80)}`)"""
    everywhere = """for (const button of document.querySelectorAll("figure button"))
            if (button.textContent === arguments[0]) button.click();
        for (const svg of document.querySelectorAll(".plot > svg")) {
            const {left, top} = svg.getBoundingClientRect();
            svg.dispatchEvent(new PointerEvent("pointermove", {clientX: left + 150, clientY: top + 99}));
        }"""
    assert odd.run("return document.querySelectorAll('.panel').length") == 3 * (len(odd_data()) - 1)
    for text in ("", "log x", "log y", "iterations", "log x", "log y", "A", "A"):
        odd.run(everywhere, text)
        assert odd.run(bad) == [], text
    assert odd.log("browser") == []


def test_what_cannot_be_drawn_is_said(odd: Browser) -> None:
    notes = """return Object.fromEntries([...document.querySelectorAll("main > section")].map((section) =>
        [section.id, section.querySelector(".note")?.textContent]))"""
    said = odd.run(notes)
    assert said["gaps"] == said["no point"].replace("A", "B") == "Nothing to draw for B."
    assert said["zeros and negatives"] == "Values ≤ 0 have no place on a log axis."
    assert said["never positive"] == "Nothing to draw for A. Values ≤ 0 have no place on a log axis."
    assert said["nothing"] is None
    assert said["many methods"] == said["huge and tiny"] == ""


def test_methods_are_told_apart_without_their_names(odd: Browser) -> None:
    looks = """return [...document.getElementById("many methods").querySelectorAll(".legend path")]
        .map((line) => getComputedStyle(line)).map((look) => `${look.stroke} ${look.strokeDasharray}`)"""
    assert len(set(odd.run(looks))) == 12


def test_paper_shows_what_is_folded_and_the_screen_folds_it_again(shown: Browser) -> None:
    folded = "return document.querySelectorAll('details:not([open], .alternative)').length"
    before = shown.run(folded)
    shown.run("window.dispatchEvent(new Event('beforeprint'))")
    assert (shown.run(folded), before > 0) == (0, True)
    shown.run("window.dispatchEvent(new Event('afterprint'))")
    assert shown.run(folded) == before
