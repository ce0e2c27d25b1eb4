"""How each method looks: the same colour and line in every figure, and its name in words."""

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

# Okabe and Ito's palette, for any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, BLACK = COLOURS
GREY = "#7F7F7F"
DASHES = ("--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
LONG_DASHES = (0, (7, 1))
LINES = ("-", LONG_DASHES, *DASHES)


class Look(NamedTuple):
    """Colour and line: either alone tells the methods apart that usually share a figure, so grey paper will do."""

    colour: str
    line: Any
    marker: str


LOOKS = {
    "NSGDM": Look(BLUE, "-", "o"),
    "NSTORM": Look(VERMILION, LONG_DASHES, "s"),
    "SGD": Look(GREEN, "--", "D"),
    "clipped SGD": Look(PINK, "-.", "^"),
    "Adam": Look(ORANGE, ":", "v"),
    "DoG": Look(SKY, DASHES[-1], "P"),
    "STORM": Look(BLACK, DASHES[-1], "X"),
    "ClippedAdam": Look(GREY, ":", "<"),
}
OTHER_NAMES = {
    "momentum": "NSGDM",  # as an estimator under a normalized step
    "momentum+normalized": "NSGDM",
    "storm+normalized": "NSTORM",
    "fresh+plain": "SGD",
    "fresh+clipped": "clipped SGD",
    "clipped_sgd": "clipped SGD",
    "sgd + clipping": "clipped SGD",
    "storm+plain": "STORM",
}
# Methods that have a usual name and share the colours that a figure leaves over.
USUAL_NAMES = {
    "beta_ngd": "β-normalized SGD",
    "clipped_spider": "clipped SPIDER",
    "ef21_sgdm": "‖EF21-SGDM‖",
    "normalized_page": "normalized PAGE",
    "normalized_spider": "normalized SPIDER",
    "normalized_svrg": "normalized SVRG",
    "page": "PAGE",
    "pasta": "PASTA",
    "storm+normalized+anchored": "anchored NSTORM",
    "svrg": "SVRG",
}
SYMBOLS = {"gamma": "γ", "eta": "η", "sigma2": "σ²", "beta": "β", "size": "batch", "large.size": "large batch"}
_BY_NAME = {name.lower(): name for name in LOOKS} | OTHER_NAMES


def method_of(label: str) -> str | None:
    """The method that a label is a variant of: the label up to a remark such as ", dynamic batch" or " (gamma=0.1)".

    >>> method_of("SGD, dynamic batch"), method_of("nsgdm (eta=0.1)"), method_of("normalized PAGE")
    ('SGD', 'NSGDM', None)
    """
    return _BY_NAME.get(_beginning(label).lower())


def in_words(label: str) -> str:
    """A label with its method's usual name instead of that of the command line.

    >>> in_words("nstorm (eta=0.1)"), in_words("clipped_spider"), in_words("page+plain")
    ('NSTORM (eta=0.1)', 'clipped SPIDER', 'page+plain')
    """
    beginning = _beginning(label)
    return label.replace(beginning, method_of(label) or USUAL_NAMES.get(beginning, beginning), 1)


def legend_names(texts: Sequence[str], as_tuned: Sequence[str], tuned: Sequence[str]) -> list[str]:
    """Names of compared methods for a legend: in words with the numbers that tuning chose, else the text as tuned.

    >>> texts, tuned = ["sgd", "sgd(batch=grow_with_distance(B=1))"], ["gamma=0.1", "gamma=0.0316228"]
    >>> legend_names(texts, texts, tuned)
    ['SGD (γ = 0.1)', 'SGD, dynamic batch (γ = 0.0316)']
    >>> legend_names(["sgd(batch=[1,4])", "sgd(batch=2)"], ["sgd(batch=4)", "sgd(batch=2)"], ["size=4", ""])
    ['sgd(batch=4)', 'sgd(batch=2)']
    """
    words = [in_words(_beginning(text)) + ", dynamic batch" * ("grow_with_distance" in text) for text in texts]
    return [
        text if words.count(word) > 1 else f"{word} ({in_symbols(numbers)})" if numbers else word
        for word, text, numbers in zip(words, as_tuned, tuned, strict=True)
    ]


def in_symbols(numbers: str) -> str:
    """Numbers as tuning prints them, in the paper's letters.

    >>> in_symbols("eta=0.1, step.gamma=0.0316228, size=4, large.size=50")
    'η = 0.1, γ = 0.0316, batch = 4, large batch = 50'
    """
    equations = []
    for field, value in re.findall(r"([\w.]+)=([^,\s]+)", numbers):
        with contextlib.suppress(ValueError):  # a word stays as it is
            value = f"{float(value):.3g}"
        name = field.rpartition(".")[2]
        equations.append(f"{SYMBOLS.get(field) or SYMBOLS.get(name, name)} = {value}")
    return ", ".join(equations)


def _beginning(label: str) -> str:
    """Return a label up to a remark, without what stands in parentheses."""
    while (shorter := re.sub(r"\s*\([^()]*\)", "", label)) != label:
        label = shorter
    return re.split(r"[,:]| with ", label)[0].strip()


def styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour and line for every label of a figure. Variants of a method share its colour and differ in their lines.

    >>> styles(["NSGDM", "SGD", "SGD, dynamic batch"])["SGD, dynamic batch"]
    {'color': '#009E73', 'linestyle': '-.'}
    """
    methods = {label: method_of(label) for label in labels}
    taken = {LOOKS[method].colour for method in methods.values() if method}
    free = [colour for colour in reversed(COLOURS) if colour not in taken] or [GREY]  # SGD's green last
    spare = ((free[i % len(free)], LINES[(i + i // len(free)) % len(LINES)]) for i in itertools.count())
    many, seen = Counter(methods.values()), Counter[str]()
    looks = {}
    for label, method in methods.items():
        if method is None:
            colour, line = next(spare)
        else:
            look = LOOKS[method]
            lines = [look.line, *(line for line in (*DASHES, *LINES[:2]) if line != look.line)]
            line, paler = lines[seen[method] % len(lines)], many[method] > len(lines)
            white = 0.7 * seen[method] / many[method] if paler else 0.0
            channels = (int(look.colour[i : i + 2], 16) for i in (1, 3, 5))
            colour = "#" + "".join(f"{round(channel + white * (255 - channel)):02X}" for channel in channels)
            seen[method] += 1
        looks[label] = {"color": colour, "linestyle": line}
    return looks
