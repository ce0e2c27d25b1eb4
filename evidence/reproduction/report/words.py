"""What the report says, in words and numbers: numbers as papers print them, verdicts counted, curves as tables."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Data = Mapping[str, Any]

PAPER = (
    "Beyond Bounded Variance: Variance-Reduced Normalized Methods for Nonconvex Optimization under Blum–Gladyshev Noise"
)
SETTINGS = {"main": "equal iterations, as in the paper", "budget": "equal SFO budget"}
CURVES = {"grad_norm": "gradient norm ‖∇f(xᵏ)‖", "drift2": "drift ‖xᵏ − x⁰‖²", "batch": "batch size"}
AXES = {"step": "iterations", "sfo": "SFO calls"}
SYMBOLS = {"alpha": "α", "B": "B", "G": "G", "sigma2": "σ²", "steps": "K, steps", "horizon": "T, iterates"}
ROWS = 9  # of each curve, in the table that stands beside the plots
SCHEDULE = {"gamma": "γ", "eta": "η", "n_init": "N_init", "gamma0": "γ₀", "eta0": "η₀"}
NORMS = {
    "final_grad_norm": "‖∇f‖ at xᴷ",
    "last10_grad_norm": "‖∇f‖, last 10\u00a0%",
    "mean_grad_norm": "‖∇f‖, whole run",
    "drift2_final": "‖xᴷ − x⁰‖²",
}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, digits: int = 3) -> str:
    """A number to `digits` significant digits; whole numbers in full, powers of ten beyond six places.

    Trailing zeros stay where rounding made them: 0.5 is exact, 0.080 is not.

    >>> [number(v) for v in (10001, 0.00464159, 0.0799998, 0.5, 2.154e-4, -5.9412345e6, 1e-5, 0, None)]
    ['10,001', '0.00464', '0.0800', '0.5', '2.15×10⁻⁴', '−5.94×10⁶', '10⁻⁵', '0', 'not finite']
    """
    if value is None or not math.isfinite(value):
        return "not finite"
    if float(value).is_integer() and abs(value) < 1e8:
        return f"{value:,.0f}".replace("-", "−")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power, rounded = int(exponent), float(f"{mantissa}e{exponent}")
    if -4 < power < 6:
        return _exact(f"{rounded:,.{max(0, digits - 1 - power)}f}", math.isclose(rounded, value, rel_tol=1e-9)).replace(
            "-", "−"
        )
    ten = f"10{str(power).translate(SUPERSCRIPTS)}"
    mantissa = _exact(mantissa, math.isclose(rounded, value, rel_tol=1e-9))
    return ten if mantissa == "1" else f"{mantissa}×{ten}".replace("-", "−")


def _exact(text: str, exact: bool) -> str:
    return text.rstrip("0").rstrip(".") if exact and "." in text else text


def spread(statistic: Mapping[str, Any]) -> str:
    """Mean ± standard deviation.

    >>> spread({"mean": 0.171, "std": 0.0803}), spread({"mean": 0.5, "std": None}), spread({"mean": None, "std": None})
    ('0.171 ± 0.080', '0.5', 'not finite')
    """
    mean, std = statistic["mean"], statistic["std"]
    if mean is None or std is None or not math.isfinite(std):
        return number(mean)
    return f"{number(mean)} ± {number(std, 2)}"


def tally(claims: Sequence[Data]) -> str:
    """The verdicts on the most seeds, counted: one for each sentence."""
    verdicts = [claim["verdict"] for claim in sentences(claims)]
    held, failed = verdicts.count("holds"), verdicts.count("does not hold")
    rest = len(verdicts) - held - failed
    tested = f"{count(len(verdicts), 'sentence')} tested, {held} held up, {failed} did not"
    return f"{tested}, {rest} undecided or a matter of reading"


def by_claim(claims: Iterable[Data]) -> list[list[Data]]:
    """The verdicts of each claim, fewest seeds first."""
    groups: dict[str, list[Data]] = {}
    for one in claims:
        groups.setdefault(one["id"], []).append(one)
    return [sorted(group, key=lambda one: int(one["seeds"])) for group in groups.values()]


def sentences(claims: Iterable[Data]) -> list[Data]:
    """Of every sentence of the paper the finding on the most seeds; its first claim is the sentence as a whole."""
    by_statement: dict[str, Data] = {}
    for group in by_claim(claims):
        by_statement.setdefault(group[-1]["statement"], group[-1])
    return list(by_statement.values())


def headings(groups: Sequence[Sequence[Data]]) -> list[str]:
    """Over each column of verdicts, on how many seeds they are."""
    found = []
    for column in range(max(map(len, groups))):
        seeds = {group[column]["seeds"] for group in groups if len(group) > column}
        found.append(count(seeds.pop(), "seed") if len(seeds) == 1 else "more seeds")
    return found


def pairs(schedule: Data, key: str) -> list[tuple[str, Any]]:
    """The conditions or violations of all methods, each with its method."""
    return [(method, one) for method, plan in schedule.items() for one in plan[key]]


def samples(arms: Data) -> list[list[str]]:
    """A few points of each curve: the text a chart stands for."""
    rows = []
    for method, arm in arms.items():
        last = len(arm["step"]) - 1
        for point in sorted({round(last * i / (ROWS - 1)) for i in range(ROWS)} if last >= 0 else ()):
            values = [spread({name: arm[key][name][point] for name in ("mean", "std")}) for key in CURVES]
            rows.append([method, number(arm["step"][point]), number(arm["sfo"]["mean"][point]), *values])
    return rows


def whole(config: Data) -> str:
    """A configuration, a line for each entry."""
    return "\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in config.items())


def count(n: int, thing: str) -> str:
    """So many things."""
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


def plain(value: Any) -> str:
    """A configuration value as words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {plain(item)}" for key, item in value.items())
    return number(value) if isinstance(value, int | float) else str(value)


def ranges(seeds: Sequence[int]) -> str:
    """How many, and which, with runs of neighbours as ranges."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    ranges = ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
    return f"{len(seeds):,} ({ranges})"
