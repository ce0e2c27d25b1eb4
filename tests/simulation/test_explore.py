"""The page of `Record.explore`, in a browser: every control, and every number that it shows."""

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gladstorm as gs
from benchmarks.pages import SLIDER_TIMES, large
from browser import Browser, chromium, opened
from gladstorm.plotting.explore import NOT_FINITE, _thinned, explore, in_decimals, packed
from gladstorm.plotting.landscape import _box

GAMMAS, ETAS = [0.001, 0.01, 0.1], [0.01, 0.1]
RIGHT, LEFT, HOME, END, ESCAPE = "\ue014", "\ue012", "\ue011", "\ue010", "\ue00c"
PANELS = ("grad_norm", "gap", "drift2", "batch", "error")

# What a chart draws of a method: its rows, as Vega has them.
ROWS = """const {view} = charts.find(({id}) => id === arguments[0]);
    return view.data("rows").filter(({s}) => s === arguments[1]).map(({x, y, low, high}) => [x, y, low, high])"""
SLIDE = """const input = document.getElementById(`slide-${arguments[0]}`);
    input.value = arguments[1]; input.dispatchEvent(new Event("input")); return input.nextSibling.value"""
CHOOSE = """const menu = document.getElementById(`choose-${arguments[0]}`);
    menu.value = arguments[1]; menu.dispatchEvent(new Event("change")); return built.then(() => menu.value)"""
READOUT = "return document.querySelector(`#${arguments[0]} .readout`).textContent"


@pytest.fixture(scope="module")
def oracle() -> gs.BlumGladyshev:
    return gs.BlumGladyshev(gs.objectives.named("power:3", dim=2, start=3.0), B=0.5, G=0.5)


@pytest.fixture(scope="module")
def record(oracle: gs.BlumGladyshev) -> gs.Record:
    gamma, eta = np.meshgrid(GAMMAS, ETAS)
    methods = {"NSGDM": gs.nsgdm(gamma.ravel().tolist(), eta=eta.ravel().tolist()), "SGD": gs.sgd([1e-4, 1e-3])}
    return gs.sweep(oracle, methods, steps=200, seeds=4)


@pytest.fixture(scope="module")
def page(record: gs.Record, oracle: gs.BlumGladyshev, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    record.explore(path, oracle=oracle)
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def shown(browser: Browser, page: Path) -> Browser:
    return opened(browser, page)


def four_digits(values: np.ndarray) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def expected(record: gs.Record, name: str, seed: int | None = None) -> list[list[float]]:
    """What a chart of one configuration must draw: x, mean, lower and upper quantile, to four digits."""
    curve, sfo = getattr(record, name)[0], record.sfo[0]
    if seed is not None:
        columns = [sfo[seed], *[curve[seed]] * 3]
    else:
        columns = [sfo.mean(axis=0), curve.mean(axis=0), *np.quantile(curve, [0.1, 0.9], axis=0)]
    rows: list[list[float]] = np.array([columns[0].astype(float), *map(four_digits, columns[1:])]).T.tolist()
    return rows


def drawn_alike(drawn: list[list[Any]], rows: list[list[float]]) -> bool:
    """Whether a chart draws these rows; on its logarithmic axis it has no place for what is not positive."""
    kept = [[x, *(value if value > 0 else None for value in others)] for x, *others in rows]
    filled = [[x, y, low if low is not None else y, high if high is not None else y] for x, y, low, high in kept]
    return drawn == filled


def test_the_page_opens_from_disk_without_a_word_on_the_console_and_asks_nobody_for_anything(
    shown: Browser, page: Path
) -> None:
    assert shown.requests() == [page.as_uri()]
    assert shown.log("browser") == []
    assert shown.run("return charts.map(({id}) => id)") == ["path", *PANELS, "score-eta", "score-gamma", "map"]


def test_sliders_move_every_curve_to_the_numbers_of_the_record(shown: Browser, record: gs.Record) -> None:
    for i, eta in enumerate(ETAS):
        assert shown.run(SLIDE, "eta", i) == f"{eta:g}"
        for k, gamma in enumerate([1e-4, *GAMMAS]):
            assert shown.run(SLIDE, "gamma", k) == f"{gamma:g}"
            now = record["NSGDM"].where(gamma=max(gamma, 1e-3), eta=eta)
            for name in PANELS:
                assert drawn_alike(shown.run(ROWS, name, 0), expected(now, name)), (name, gamma, eta)
            plain = record["SGD"].where(gamma=min(gamma, 1e-3))
            assert drawn_alike(shown.run(ROWS, "grad_norm", 1), expected(plain, "grad_norm"))


def test_the_path_is_that_of_the_record_on_contours_of_f_with_the_noise_along_it(
    shown: Browser, record: gs.Record, oracle: gs.BlumGladyshev
) -> None:
    shown.run(SLIDE, "gamma", 3), shown.run(SLIDE, "eta", 0), shown.run(CHOOSE, "seed", 2)
    path = record["NSGDM"].where(gamma=0.1, eta=0.01).path[0, 2]
    data = "return charts[0].view.data(arguments[0]).filter(({s}) => s === arguments[1]).map(({x, y}) => [x, y])"
    assert shown.run(data, "paths", 0) == [four_digits(x) for x in path]
    lines = np.array([row for row in shown.run(data, "contours", 0) if row[0] is not None])
    levels = shown.run("return content.landscapes[0].levels")
    values = np.linalg.norm(lines, axis=1) ** 3
    assert lines.shape[0] > 500
    assert np.abs(values[:, None] - levels).min(axis=1).max() < 0.01 * max(levels)
    # The noise is B r (x − x⁰) + G u with r = ±1: B²‖x − x⁰‖² along x − x⁰, and G²/2 along every axis.
    for x in (path[0], path[50], path[-1]):
        away, (a, b, c) = (
            x - oracle.objective.start,
            shown.run("return noiseAt(content.noises[0], content.landscapes[0].box, arguments[0])", x.tolist()),
        )
        wanted = 0.5**2 * np.outer(away, away) + 0.5**2 / 2 * np.eye(2)
        np.testing.assert_allclose([[a, c], [c, b]], wanted, atol=0.03 * (1 + np.trace(wanted)))
    corners = shown.run("return ellipse([2, 2, 1], 0.1, [5, 7]).map(({x, y}) => [x, y])")
    from_middle = (np.array(corners) - [5, 7]) / 0.1
    inverse = np.linalg.inv([[2, 1], [1, 2]])
    np.testing.assert_allclose(np.einsum("ki,ij,kj->k", from_middle, inverse, from_middle), 1.0, rtol=1e-9)


def test_on_a_line_the_path_runs_along_the_graph_of_f(browser: Browser, tmp_path: Path) -> None:
    oracle = gs.BlumGladyshev(gs.objectives.named("power:3", dim=1, start=2.0), B=0.5, G=0.1)
    record = gs.run(oracle, gs.sgd(0.01), steps=50, seeds=2)
    record.explore(tmp_path / "page.html", oracle=oracle)
    shown = opened(browser, tmp_path / "page.html")
    rows = shown.run("return charts[0].view.data('paths').map(({x, y}) => [x, y])")
    assert rows == [four_digits(np.array([x, abs(x) ** 3])) for x in record.path[0, 0, :, 0]]
    graph = np.array(shown.run("return charts[0].view.data('contours').map(({x, y}) => [x, y])"))
    np.testing.assert_allclose(np.abs(graph[:, 0]) ** 3, graph[:, 1], rtol=1e-2, atol=1e-3)
    assert shown.log("browser") == []


def test_a_seed_iterations_and_linear_axes_can_be_chosen(shown: Browser, record: gs.Record) -> None:
    now = record["NSGDM"].where(gamma=0.1, eta=0.1)
    shown.run(SLIDE, "gamma", 3), shown.run(SLIDE, "eta", 1)
    for seed in range(4):
        shown.run(CHOOSE, "seed", seed)
        assert drawn_alike(shown.run(ROWS, "error", 0), expected(now, "error", seed))
    shown.run(CHOOSE, "x", "step"), shown.run(CHOOSE, "xscale", "linear"), shown.run(CHOOSE, "yscale", "linear")
    rows = shown.run(ROWS, "drift2", 0)
    assert [row[0] for row in rows] == record.steps.tolist()
    assert [row[1] for row in rows] == four_digits(now.drift2[0, 3])
    assert shown.log("browser") == []


def test_scores_are_those_of_the_record_along_each_number_and_over_two(shown: Browser, record: gs.Record) -> None:
    shown.run(SLIDE, "gamma", 2), shown.run(SLIDE, "eta", 0)
    for key, name in (("reported", "reported_grad_norm"), ("mean", "mean_grad_norm"), ("best", "best_grad_norm")):
        shown.run(CHOOSE, "score", key)
        scores = {
            (gamma, eta): float(f"{getattr(record['NSGDM'].where(gamma=gamma, eta=eta), name)[..., -1].mean():.4g}")
            for gamma in GAMMAS
            for eta in ETAS
        }
        assert [row[:2] for row in shown.run(ROWS, "score-gamma", 0)] == [[g, scores[g, 0.01]] for g in GAMMAS]
        assert [row[:2] for row in shown.run(ROWS, "score-eta", 0)] == [[eta, scores[0.01, eta]] for eta in ETAS]
        cells = shown.run("return charts.at(-1).view.data('cells').map(({at, score}) => [at.gamma, at.eta, score])")
        assert {(gamma, eta): score for gamma, eta, score in cells} == scores


def test_a_click_into_the_map_moves_the_sliders(shown: Browser) -> None:
    x, y = shown.run("""const cells = [...document.querySelectorAll("#map .mark-rect path")];
        const cell = cells.find(({ariaLabel}) => /γ = 0.001, η = 0.1/.test(ariaLabel));
        cell.scrollIntoView({block: "center"});
        const {left, top, width, height} = cell.getBoundingClientRect(); return [left + width / 2, top + height / 2]""")
    shown.pointer((x, y), "down", "up")
    assert shown.run("return [state.gamma, state.eta, document.getElementById('slide-gamma').value]") == [
        0.001,
        0.1,
        "1",
    ]


def test_a_link_restores_the_view(browser: Browser, page: Path) -> None:
    shown = opened(browser, page)
    shown.run(SLIDE, "gamma", 1), shown.run(SLIDE, "eta", 0), shown.run(CHOOSE, "seed", 2)
    shown.run(CHOOSE, "x", "step"), shown.run(CHOOSE, "yscale", "linear"), shown.run(CHOOSE, "score", "best")
    shown.run("document.querySelectorAll('#methods button')[1].click()"), shown.run("set({zoom: '5,50'})")
    link, state = shown.run("return [location.hash.slice(1), state]")
    rows = shown.run(ROWS, "gap", 0)
    again = opened(browser, page, link)
    assert again.run("return state") == state
    assert again.run(ROWS, "gap", 0) == rows
    assert again.run(ROWS, "gap", 1) == []
    assert again.run("return charts[1].view.signal('xs')") == [5, 50]
    assert opened(browser, page).run("return location.hash") == ""


@pytest.mark.parametrize("fragment", ["gamma=x", "gamma=7&eta=-1", "seed=99", "hide=0,1", "zoom=1", "score=none&x=y"])
def test_a_link_that_makes_no_sense_shows_what_it_can(browser: Browser, page: Path, fragment: str) -> None:
    shown = opened(browser, page, fragment)
    assert shown.log("browser") == []
    assert shown.run("return document.querySelectorAll('.chart svg').length") == 9


def test_the_keyboard_moves_sliders_reads_and_zooms(shown: Browser, record: gs.Record) -> None:
    shown.run(SLIDE, "gamma", 2), shown.run(SLIDE, "eta", 0)
    shown.run("document.getElementById('slide-gamma').focus()")
    shown.keys(RIGHT)
    assert shown.run("return state.gamma") == 0.1
    now = record["NSGDM"].where(gamma=0.1, eta=0.01)
    assert drawn_alike(shown.run(ROWS, "grad_norm", 0), expected(now, "grad_norm"))
    shown.run("document.querySelector('#grad_norm .chart').focus()")
    shown.keys(HOME)
    first = f"{now.grad_norm[0, :, 0].mean():.4g}"
    assert shown.run(READOUT, "grad_norm").startswith(f"stochastic gradients 1 NSGDM: {first}")
    shown.keys(RIGHT + RIGHT + LEFT)
    assert shown.run(READOUT, "drift2").startswith("stochastic gradients 2 ")  # all charts follow, the path too
    marked = "return charts[0].view.data('marks').filter(({s, shape}) => s === 0 && shape === 'square')"
    (mark,) = shown.run(marked)
    assert [mark["x"], mark["y"]] == four_digits(now.path[0, 0, 1])
    shown.keys(END + "+")
    low, high = shown.run("return charts[2].view.signal('xs')")
    assert (1 < low < high, high) == (True, pytest.approx(201))
    shown.keys(ESCAPE)
    assert shown.run("return charts[2].view.signal('xs')") == [1, 201]


def test_dragging_zooms_all_curves_and_a_double_click_and_the_button_undo_it(shown: Browser) -> None:
    box = """const svg = document.querySelector("#gap .chart svg"); svg.scrollIntoView({block: "center"});
        const {left, top, width, height} = svg.getBoundingClientRect(); return [left, top, width, height]"""
    undo: list[Callable[[float, float], object]] = [
        lambda x, y: shown.pointer((x, y), "down", "up", "down", "up"),
        lambda *_: shown.run("document.getElementById('reset').click()"),
    ]
    for back in undo:
        left, top, width, height = shown.run(box)
        middle = top + height / 2
        shown.pointer(
            (left + width * 0.5, middle), "down", (left + width * 0.6, middle), (left + width * 0.8, middle), "up"
        )
        zoomed = [shown.run(f"return charts[{i}].view.signal('xs')") for i in range(1, 6)]
        assert all(each == zoomed[0] and 1 < each[0] < each[1] < 201 for each in zoomed)
        back(left + width * 0.5, middle)
        assert shown.run("return charts[1].view.signal('xs')") == [1, 201]


def test_pointing_reads_the_recorded_numbers(shown: Browser) -> None:
    x, y = (
        shown.run("""const svg = document.querySelector("#grad_norm .chart svg"); svg.scrollIntoView({block: "center"});
        const {left, top, width, height} = svg.getBoundingClientRect(); return [left + width / 2, top + height / 2]""")
    )
    shown.pointer((x, y))
    at = shown.run("return cursors.zoom")
    k, value = shown.run(
        "const {rows} = charts[1].drawn[0], k = rows.findIndex(({x}) => x === cursors.zoom); return [k, rows[k].y]"
    )
    assert k > 0
    assert shown.run(READOUT, "grad_norm").startswith(f"stochastic gradients {at} NSGDM: {value}")


def test_a_value_of_another_point_than_the_one_that_is_read_comes_with_that_point(
    shown: Browser, record: gs.Record
) -> None:
    shown.run(SLIDE, "gamma", 3), shown.run(SLIDE, "eta", 0)  # γ = 0.1: SGD ran at 0.001 at most
    plain = record["SGD"].where(gamma=0.001)
    assert f"SGD: {plain.reported_grad_norm[0, :, -1].mean():.4g}" in shown.run(READOUT, "score-gamma")
    assert shown.run(READOUT, "score-gamma").startswith("γ 0.1 NSGDM: ")
    assert shown.run(READOUT, "score-gamma").endswith(" at γ 0.001")
    assert shown.run(READOUT, "grad_norm").endswith(" at γ 0.001")
    shown.run(SLIDE, "gamma", 1)
    assert " at " not in shown.run(READOUT, "grad_norm") + shown.run(READOUT, "score-gamma")


def test_a_run_that_ended_earlier_is_read_at_its_own_last_point(browser: Browser, tmp_path: Path) -> None:
    oracle = gs.BlumGladyshev(gs.objectives.named("power:3", dim=2, start=3.0), B=0.5, G=0.5)
    record = gs.sweep(oracle, {"NSTORM": gs.nstorm(0.01, eta=0.1), "SGD": gs.sgd(0.01)}, steps=50, seeds=2)
    record.explore(tmp_path / "page.html")
    shown = opened(browser, tmp_path / "page.html")
    last = [f"{record[name].grad_norm[0, :, -1].mean():.4g}" for name in ("NSTORM", "SGD")]
    words = shown.run(READOUT, "grad_norm")
    assert words.startswith(f"stochastic gradients {record['NSTORM'].sfo[0, 0, -1]} NSTORM: {last[0]}")
    assert f"SGD: {last[1]}" in words
    assert words.endswith(f" at stochastic gradients {record['SGD'].sfo[0, 0, -1]}")


def test_behind_every_chart_is_its_table(shown: Browser, record: gs.Record) -> None:
    shown.run("for (const details of document.querySelectorAll('details')) details.open = true")
    shown.run("return new Promise((done) => setTimeout(done, 50))")
    rows = shown.run(
        "return [...document.querySelectorAll('figure')].map((f) => f.querySelectorAll('tbody tr').length)"
    )
    assert rows == [2 * record.steps.size] * 6 + [2, 5, 6]
    shown.run(SLIDE, "gamma", 3), shown.run(SLIDE, "eta", 1)
    last = shown.run(
        "return [...document.querySelectorAll('#gap tbody tr')][arguments[0]].innerText", record.steps.size - 1
    )
    gap = expected(record["NSGDM"].where(gamma=0.1, eta=0.1), "gap")[-1]
    assert last.split("\t")[:2] == ["NSGDM", "201"]
    assert [float(cell) for cell in last.split("\t")[2:]] == gap[1:]


@pytest.mark.parametrize("width", [400, 800, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window_and_words_stand_out(
    browser: Browser, page: Path, width: int, scheme: str
) -> None:
    shown = opened(browser, page, width=width, scheme=scheme)
    assert shown.run("return document.documentElement.scrollWidth") <= width
    assert shown.run("return document.getElementById('more').open") == (width > 640)
    shown.run("document.getElementById('more').open = true")
    assert shown.run("return document.documentElement.scrollWidth") <= width
    wider = """return [...document.querySelectorAll(".chart")]
        .filter((e) => e.querySelector("svg").clientWidth > e.clientWidth)"""
    assert shown.run(wider) == []
    luminance = """const light = (css) => { const [r, g, b] = css.match(/[0-9.]+/g).map((v) => v / 255)
            .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const paper = light(getComputedStyle(document.body).backgroundColor);
        const words = [...document.querySelectorAll(".chart svg text, .readout, button, label, figcaption")];
        return Math.min(...words.map((e) => light(getComputedStyle(e)[e.ownerSVGElement ? "fill" : "color"]))
            .map((ink) => (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)))"""
    assert shown.run(luminance) >= 4.5
    assert shown.log("browser") == []


def test_charts_say_in_words_what_they_show(shown: Browser) -> None:
    said = "return [...document.querySelectorAll('#grad_norm svg [aria-label]')].map((e) => e.ariaLabel)"
    labels = shown.run(said)
    assert any(label.startswith("NSGDM: from ") for label in labels), labels
    unnamed = """return [...document.querySelectorAll("input, select")].filter((e) => !e.labels.length).length"""
    assert shown.run(unnamed) == 0


def test_what_is_copied_selects_the_runs_that_are_shown(shown: Browser, record: gs.Record) -> None:
    shown.run(SLIDE, "gamma", 3), shown.run(SLIDE, "eta", 0)
    nsgdm, sgd = shown.run("return command()").split("\n")
    assert eval(nsgdm, {"record": record}).labels == ("NSGDM (eta=0.01, gamma=0.1)",)
    assert eval(sgd, {"record": record}).labels == ("SGD (gamma=0.001)",)


def test_the_command_that_a_page_of_the_command_line_copies_runs_the_same(
    browser: Browser, tmp_path: Path, gladstorm: Callable[..., tuple[int, str, str]]
) -> None:
    page, saved = tmp_path / "page.html", tmp_path / "runs.parquet"
    command = "simulate --objective power:3 --dim 2 --steps 50 --seeds 2 --eta 0.1 --eta 0.5".split()
    methods = ["--method", "nsgdm(gamma=grid(0.01,0.1,2))", "--method", "sgd(gamma=[0.001,0.01],batch=2)"]
    code, _, err = gladstorm(*command, *methods, "--page", str(page), "--save", str(saved))
    assert (code, err) == (0, "")
    shown = opened(browser, page)
    shown.run(SLIDE, "gamma", 2), shown.run(SLIDE, "eta", 1)
    again = shlex.split(shown.run("return command()"))
    assert again[:2] == ["gladstorm", "simulate"]
    code, _, err = gladstorm(*again[1:], "--save", str(tmp_path / "again.parquet"))
    assert (code, err) == (0, "")
    one, all_runs = gs.Record.load(tmp_path / "again.parquet"), gs.Record.load(saved)
    assert len(one) == 2
    for name, numbers in ((methods[1], {"gamma": 0.1, "eta": 0.5}), (methods[3], {"gamma": 0.01})):
        (same,) = (k for k, text in enumerate(one.labels) if text.startswith(name.partition("(")[0]))
        np.testing.assert_array_equal(one.grad_norm[same], all_runs[name].where(**numbers).grad_norm[0])


def test_a_comparison_has_its_reported_and_its_tuning_runs_on_one_page(
    browser: Browser, tmp_path: Path, gladstorm: Callable[..., tuple[int, str, str]]
) -> None:
    page = tmp_path / "page.html"
    command = "compare --objective power:3 --dim 2 --budget 100 --seeds 3 --grid 0.01,0.1,3 --method nsgdm(eta=0.1)"
    code, _, err = gladstorm(*command.split(), "--method", "sgd", "--page", str(page), "--quiet")
    assert (code, err) == (0, "")
    shown = opened(browser, page)
    assert shown.run("return content.methods.map(({words}) => words)") == ["NSGDM", "SGD"]
    assert shown.run("return charts.at(-1).drawn.map(({rows}) => rows.length)") == [1, 1]
    shown.run(CHOOSE, "runs", "on the tuning seeds, every setting")
    assert shown.run("return charts.at(-1).drawn.map(({rows}) => rows.length)") == [3, 3]
    assert shown.log("browser") == []


def test_a_plan_draws_its_bound_and_how_far_steps_can_lead(browser: Browser, tmp_path: Path) -> None:
    oracle = gs.BlumGladyshev(gs.objectives.named("quadratic", dim=2, start=1.0), B=0.1, G=0.1)
    plan = gs.theory.Plan(gs.theory.for_oracle(oracle, "nsgdm"), horizon=101)
    record = gs.run(oracle, plan, seeds=2)
    record.explore(tmp_path / "page.html", plan=plan, title="<b>A plan & its page</b>")
    shown = opened(browser, tmp_path / "page.html")
    rules = "return charts.find(({id}) => id === arguments[0]).view.data('rules').map(({y}) => y)"
    answer = plan.as_dict()
    assert shown.run(rules, "mean_grad_norm") == [answer["bound"]] * record.steps.size
    reach = [None if k == 0 else pytest.approx((answer["gamma"] * k) ** 2) for k in record.steps.tolist()]
    assert shown.run(rules, "drift2") == reach
    assert (
        shown.run("return [document.title, document.querySelector('h1').textContent]")
        == ["<b>A plan & its page</b>"] * 2
    )


def test_several_records_are_told_apart_by_a_slider(browser: Browser, tmp_path: Path) -> None:
    records = []
    for B in (0.0, 0.1, 1.0):
        oracle = gs.BlumGladyshev(gs.objectives.named("power:3", dim=2, start=3.0), B=B, G=0.5)
        records.append(({"B": B}, gs.sweep(oracle, {"SGD": gs.sgd([1e-3, 1e-2])}, steps=50, seeds=2)))
    explore(records, tmp_path / "page.html")
    shown = opened(browser, tmp_path / "page.html")
    for place, (_, record) in enumerate(records):
        shown.run(SLIDE, "B", place), shown.run(SLIDE, "gamma", 1)
        assert drawn_alike(shown.run(ROWS, "error", 0), expected(record.where(gamma=0.01), "error"))
    assert shown.log("browser") == []


def test_runs_that_diverge_and_names_with_markup_are_shown(browser: Browser, tmp_path: Path) -> None:
    oracle = gs.BlumGladyshev(gs.objectives.named("power:3", dim=2, start=3.0), B=0.5, G=0.5)
    hostile = "</script><script>window.hacked=1</script>"
    record = gs.sweep(oracle, {hostile: gs.sgd([1e-3, 10.0]), "\x1b[31m": gs.sgd(0.01)}, steps=50, seeds=2)
    record.explore(tmp_path / "page.html")
    shown = opened(browser, tmp_path / "page.html")
    shown.run(SLIDE, "gamma", 1)
    assert shown.run("return [window.hacked ?? 'safe', document.querySelector('#methods button').textContent]") == [
        "safe",
        hostile,
    ]
    assert "not finite" in shown.run(READOUT, "grad_norm")
    assert shown.log("browser") == []


def test_a_large_sweep_fits_into_six_megabytes_and_its_sliders_move(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    large().explore(page)
    assert page.stat().st_size < 6e6
    shown = opened(browser, page)
    assert len(shown.run(SLIDER_TIMES)) == 27
    assert shown.log("browser") == []


def test_numbers_keep_their_digits() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate(
        [np.exp(rng.normal(size=20_000) * 20), -rng.random(1000), np.arange(12_000.0), [0.0, 0.5, 99_995]]
    )
    whole, exponents = in_decimals(values, 4)
    assert [float(f"{m}e{e}") for m, e in zip(whole, exponents, strict=True)] == four_digits(values)
    assert in_decimals(np.array([np.nan, np.inf, 1e200]), 4)[0].tolist() == [NOT_FINITE] * 3
    counts = rng.integers(0, 10**9, 1000).astype(float)
    assert [float(f"{m}e{e}") for m, e in zip(*in_decimals(counts, 9), strict=True)] == counts.tolist()


def test_the_box_of_a_landscape_holds_the_points_that_are_not_above_the_start_and_has_the_shape_of_a_chart() -> None:
    def box(path: Any, value: Any) -> Any:
        low, high = _box([SimpleNamespace(path=np.array([[path]], float), value=np.array([[value]], float))])  # type: ignore[list-item]
        return low, high, (high - low)[0] / (high - low)[1]

    level = [[x, 0.0] for x in np.linspace(0, 10, 101)]
    above = [[0.0, 1000.0], [-1000.0, 0.0]]
    low, high, ratio = box([*level, *above], [1.0] * 101 + [2.0, 2.0])
    assert -10 < low[0] < 0 < 9.5 < high[0] < 20
    assert max(-low[1], high[1]) < 10
    assert ratio == pytest.approx(1.6)
    assert box([[y, x] for x, y in level], [1.0] * 101)[2] == pytest.approx(1.6)
    assert box(level, [1.0] + [2.0] * 100)[1][0] < 1  # all but the start are above it


def test_the_same_numbers_are_the_same_bytes_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"sfo": np.arange(24.0).reshape(2, 3, 4)}
    first = packed(numbers)
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert packed(numbers) == first


def test_of_many_steps_half_are_shown_evenly_and_half_in_equal_ratios() -> None:
    shown_steps = _thinned(np.arange(10_001), 101)
    assert shown_steps[0] == 0
    assert shown_steps[-1] == 10_000
    assert shown_steps.size <= 101
    assert np.diff(shown_steps).max() <= 10_000 / 50 + 1
    assert set(range(1, 6)) <= set(shown_steps.tolist())
    assert np.sum(shown_steps >= 5000) >= 25
    assert _thinned(np.arange(5), 5).tolist() == [0, 1, 2, 3, 4]


def test_without_the_extra_one_sentence_says_so(
    record: gs.Record, tmp_path: Path, gladstorm: Callable[..., tuple[int, str, str]]
) -> None:
    script = (
        "import sys; sys.modules['vl_convert'] = None\n"
        "from gladstorm.plotting.explore import vega\n"
        "try: vega()\nexcept ImportError as problem: print(problem)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "Record.explore needs Vega (vl-convert-python), which is not installed: pip install 'gladstorm[page]'\n"
    )
    with pytest.raises(ValueError, match="there must be a record, and a folder for the file; got 1 records"):
        record.explore(tmp_path / "nowhere" / "page.html")
    code, _, err = gladstorm(*"simulate --objective power:3 --method sgd(gamma=0.1) --page page.txt".split())
    assert (code, err) == (2, "Error: simulate: --page must end in .html; got 'page.txt'.\n")
