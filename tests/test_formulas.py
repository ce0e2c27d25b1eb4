"""Formulas of the pages: GitHub shows them too, links to them lead somewhere, and the bounds are the code's."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from gladstorm.theory import Problem, class_constants, growing_steps, master_bounds, sharper_bounds

ROOT = Path(__file__).parent.parent
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\$([^$]*)\$")
TAG = re.compile(r"\\tag\{([^}]*)\}")
FILES = sorted((*ROOT.glob("docs/*.md"), *ROOT.glob("paper/proofs/*.md")))
PAGES = {path.name: text for path in FILES if "$" in (text := path.read_text("utf-8"))}


@pytest.mark.parametrize("name", PAGES)
def test_markdown_leaves_every_formula_as_it_is(name: str) -> None:
    """GitHub reads Markdown first and formulas after: `\\|`, `}_{` and `*` inside one would be taken for Markdown's."""
    prose = re.sub(r"`[^`\n]*`", "", FENCED.sub("", PAGES[name]))
    kept: list[str] = []
    for token in MarkdownIt("commonmark").enable("table").parse(PAGES[name]):
        parts = token.children or []
        texts = (each.content if each.type == "text" else "\n" if each.type == "softbreak" else "" for each in parts)
        kept += INLINE.findall("".join(texts))
    assert kept == INLINE.findall(prose)
    assert [formula for formula in kept if "\n" in formula or formula != formula.strip()] == []
    around = [prose[found.start() - 1] + prose[found.end()] for found in INLINE.finditer(prose)]
    assert [pair for pair in around if re.match(r"[\w-]|.\w", pair)] == []  # where a dollar is one, and no formula


def test_every_number_of_a_formula_is_a_place_and_every_link_to_a_formula_leads_to_one() -> None:
    places = {(name, place) for name, text in PAGES.items() for place in re.findall(r'<a id="(eq-[^"]+)"></a>', text)}
    numbered = {
        (name, f"eq-{number.lower().replace(' ', '-')}") for name, text in PAGES.items() for number in TAG.findall(text)
    }
    assert len(numbered) > 25
    assert numbered <= places
    links = {
        (target or name, place)
        for name, text in PAGES.items()
        for target, place in re.findall(r"\]\(([\w.]*)#(eq-[^)]+)\)", text)
    }
    assert len(links) > 10
    assert links <= places


PROBLEM = {"Delta": 3.0, "B": 0.4, "G": 0.7, "L_0": 1.5, "L_1": 0.25, "L": 2.0}
RUN = {"gamma": 0.003, "eta": 0.02, "b_0": 0.6, "T": 1000.0, "K": 999.0}
STATED = [
    ("upper_bounds.md", "20", master_bounds.MomentumLinear, 1.0),
    ("upper_bounds.md", "32", master_bounds.MomentumSublinear, 0.4),
    ("upper_bounds.md", "49", master_bounds.StormMeanSquare, 0.0),
    ("upper_bounds.md", "50", master_bounds.StormSublinear, 0.4),
    ("upper_bounds.md", "51", master_bounds.StormLinear, 1.0),
    ("upper_bounds.md", "S1", sharper_bounds.MomentumSmooth, 0.0),
    ("upper_bounds.md", "S2", sharper_bounds.StormSmooth, 0.0),
    ("upper_bounds.md", "S3", sharper_bounds.MomentumLongStep, 0.4),
    ("upper_bounds.md", "S6", sharper_bounds.ExactLinear, 1.0),
    ("upper_bounds.md", "S7", sharper_bounds.MomentumFeedback, 1.0),
    ("upper_bounds.md", "S8", sharper_bounds.StormFeedback, 1.0),
]


@pytest.mark.parametrize(("page", "number", "kind", "alpha"), STATED, ids=[number for _, number, _, _ in STATED])
def test_a_displayed_bound_has_the_code_s_value(
    page: str, number: str, kind: type[master_bounds.Bound], alpha: float
) -> None:
    names = PROBLEM | RUN | {"alpha": alpha, "e": math.e, "E": math.exp(PROBLEM["L_1"] * RUN["gamma"])}
    if kind is sharper_bounds.MomentumLongStep:  # its constants are those of (32)
        symmetric = class_constants.symmetric(PROBLEM["L_0"], PROBLEM["L_1"], alpha)
        names |= {"C": symmetric.descent, "tilde C": symmetric.drift, "K_0": symmetric.base}
    if kind is master_bounds.StormSublinear:
        moment = class_constants.expected(PROBLEM["L_0"], PROBLEM["L_1"], alpha).moment
        names |= {"lambda": RUN["eta"] / (8 * moment * RUN["gamma"])}
    shown = displayed(page, number, names)
    own: dict[str, Any] = {"L": PROBLEM["L"]} if kind.method == "nstorm" and alpha == 0 else {"L0": PROBLEM["L_0"]}
    own |= {"L1": PROBLEM["L_1"]} if alpha else {}
    problem = Problem(alpha=alpha, B=PROBLEM["B"], G=PROBLEM["G"], gap=PROBLEM["Delta"], **own)
    bound = kind(problem, RUN["gamma"], RUN["eta"], RUN["b_0"], int(RUN["T"]))
    assert shown == pytest.approx(bound.bound, rel=1e-12)


def test_the_displayed_bound_of_growing_steps_has_the_code_s_value() -> None:
    growing = growing_steps.GrowingSteps(
        Problem(alpha=0, L0=1.5, B=0.4, G=0.6, gap=3.0), RUN["gamma"], ratio=50.0, steps=200
    )
    S, mean, eta = growing.length(150), growing.mean_step(150), growing.eta
    forgotten = sum(RUN["gamma"] * 50 ** (i / 200) * (1 - eta) ** i for i in range(150)) / S
    names = PROBLEM | {"eta": eta, "b_0": 0.6, "G": 0.6, "S_k": S, "bar": 1.0, "gamma_k": mean, "w_k": forgotten}
    assert displayed("upper_bounds.md", "S10", names) == pytest.approx(growing.bound(150), rel=1e-12)


def displayed(page: str, number: str, names: dict[str, float]) -> float:
    """The value of a displayed bound, once its page has defined what `names` does not."""
    (block,) = re.findall(rf"```math\n((?:(?!```).)*\\tag\{{{number}\}})", PAGES[page], re.DOTALL)
    before, _, after = PAGES[page].partition(block)
    section = before.rpartition("\n## ")[2]
    above = section.rpartition("\n\n```math")[0].rpartition("\n\n")[2]
    for text in (above, block, section, after.partition("\n## ")[0]):  # the nearest definition counts
        for name, formula in re.findall(r"(?:\$|&)((?:\\tilde )?\\?[A-Za-z](?:\w*)(?:_\\?\w+)?) = ([^$\n>,]+)", text):
            if plain(name) not in names:
                try:
                    names[plain(name)] = Reader(formula, names).value()
                except (KeyError, ValueError, ZeroDivisionError):
                    continue  # not a number, or not at this α
    left, _, right = TAG.sub("", block).rpartition(r"\le")
    right = right.split(r"\cr")[0] if left else right
    for mean, largest in ((r"\mathbb E[q_k^\alpha]", r"Q_T^\alpha"), (r"\mathbb E[q_k]", "Q_T")):
        right = right.replace(r"\frac{1}{T}\sum_{k=0}^K " + mean, largest)
    share = left.partition(r"\mathbb E")[0].removeprefix("\\begin{aligned}\n")
    return Reader(right, names).value() / (Reader(share, names).value() if share else 1.0)


def plain(name: str) -> str:
    return name.replace("\\", "")


class Reader:
    """Evaluates a formula: sums, products without a sign, quotients, powers, roots and fractions of named numbers."""

    IGNORED = re.compile(r"\\[Bb]igl?r?(?![a-z])|\\cr|\\(?:begin|end)\{aligned\}|&|[.,]?\s*$")

    def __init__(self, formula: str, names: dict[str, float]) -> None:
        formula = re.sub(r"\\tfrac(\d)(\d)", r"\\frac{\1}{\2}", self.IGNORED.sub("", formula))
        name = r"(?:\\tilde )?(?:\\[A-Za-z]+|[A-Za-z])(?:_(?:\\[a-z]+|\w))?'?"
        self.tokens: list[str] = re.findall(rf"\d+(?:\.\d+)?|\\(?:frac|sqrt)|{name}|\S", formula)
        self.names = names

    def value(self) -> float:
        value = self.sum()
        if self.tokens:
            raise ValueError(self.tokens)
        return value

    def next(self, *wanted: str) -> str:
        return self.tokens.pop(0) if self.tokens and (not wanted or self.tokens[0] in wanted) else ""

    def sum(self) -> float:
        value = -self.product() if self.next("-") else (self.next("+"), self.product())[1]
        while sign := self.next("+", "-"):
            value += self.product() if sign == "+" else -self.product()
        return value

    def product(self) -> float:
        value = self.power()
        while self.tokens and self.tokens[0] not in ("+", "-", ")", "]", "}"):
            value = value / self.power() if self.next("/") else value * self.power()
        return value

    def power(self) -> float:
        value = self.atom()
        return value ** self.atom() if self.next("^") else value

    def atom(self) -> float:
        token = self.next()
        if token in ("(", "[", "{"):
            value = self.sum()
            if not self.next({"(": ")", "[": "]", "{": "}"}[token]):
                raise ValueError(self.tokens)
            return value
        if token == r"\frac":
            return self.atom() / self.atom()
        if token == r"\sqrt":
            return math.sqrt(self.atom())
        return float(token) if token[:1].isdigit() else self.names[plain(token)]


def formulas() -> Iterator[str]:
    for text in PAGES.values():
        yield from re.findall(r"^```math\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        yield from INLINE.findall(FENCED.sub("", text))


def test_braces_and_brackets_of_every_formula_are_closed() -> None:
    for formula in formulas():
        assert formula.count("{") == formula.count("}"), formula
        for left, right in (("lVert", "rVert"), ("lvert", "rvert"), ("lbrace", "rbrace"), ("Bigl", "Bigr")):
            assert len(re.findall(rf"\\{left}", formula)) == len(re.findall(rf"\\{right}", formula)), formula
