"""The figures of `gladstorm worst`: a problem as f, f' and its samples; and how much of every bound is attained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gladstorm.plotting.styles import BLACK, GREY, LOOKS, regime_in_words


def instance(result: Mapping[str, Any]) -> Figure:
    """A problem found: f and f' over the part of the line that a run can reach, and what samples add to f' there."""
    data = {name: np.asarray(value, float) for name, value in result["instance"].items()}
    schedule, start = result["schedule"], float(data["start"][0])
    reach = min(schedule["gamma"] * result["horizon"], 2 * _extent(data, start))
    x = np.linspace(start - reach, start + reach, 1001)
    into = np.clip(x[:, None] - data["left"], 0, data["width"])
    slope = data["first"] + into @ data["slope"]
    value = np.concatenate([[0.0], np.cumsum(np.diff(x) * (slope[1:] + slope[:-1]) / 2)])
    loud = np.sqrt((data["B"] * (x - start)) ** 2 + data["G"] ** 2)[:, None] * (data["share"] + into @ data["turns"])
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    of_f, of_slope, of_noise = figure.subplots(1, 3)
    of_f.plot(x, value - value.min(), color="black")
    of_f.set_title("f, above its minimum", fontsize=8)
    of_slope.plot(x, slope, color="black")
    for sign in (-1, 1):
        of_slope.axhline(sign * result["measured"], color=GREY, linestyle="--", linewidth=1)
    of_slope.set_title("∇f; dashed: ± measured E‖∇f(x̂)‖", fontsize=8)
    for channel, q in enumerate(data["q"]):
        if not loud[:, channel].any():
            continue
        colour = (BLACK, GREY)[channel]
        of_noise.plot(x, -loud[:, channel] * np.sqrt(q / (1 - q)), color=colour, label=f"probability {1 - q:.3g}")
        of_noise.plot(x, loud[:, channel] * np.sqrt((1 - q) / q), ":", color=colour, label=f"probability {q:.3g}")
    of_noise.set_yscale("symlog", linthresh=max(1e-12, float(np.abs(loud).max()) / 100))
    of_noise.set_title("what samples add to ∇f, by probability", fontsize=8)
    if loud.any():
        of_noise.legend(fontsize=6, frameon=False)
    for ax in (of_f, of_slope, of_noise):
        ax.axvline(start, color="#bbbbbb", linewidth=0.8)
        ax.set_xlabel("x − x⁰" if start else "x, started at 0", fontsize=7)
        ax.tick_params(labelsize=6)
    return figure


def tightness(result: Mapping[str, Any]) -> Figure:
    """Measured over bound and over the sharper bound, for every setting at the longest horizon."""
    rows = result["rows"]
    figure = Figure(figsize=(7, 1.1 + 0.17 * len(rows)), layout="constrained")
    ax = figure.subplots()
    for place, row in enumerate(rows):
        last, colour = row["rungs"][-1], LOOKS[row["regime"].split("/")[0].upper()].colour
        both = [each for each in (last["ratio"], last["ratio_to_sharper"]) if each is not None]
        ax.plot(both, [place] * len(both), color=colour, linewidth=0.6, alpha=0.5)
        ax.plot([last["ratio"]], [place], "o", color=colour, markerfacecolor="none", markersize=4)
        if last["ratio_to_sharper"] is not None:
            ax.plot([last["ratio_to_sharper"]], [place], "o", color=colour, markersize=4)
    ax.axvline(1 / 3, color="#bbbbbb", linewidth=0.8)
    ax.axvline(1, color="black", linewidth=0.8)
    ax.set(xscale="log", ylim=(len(rows) - 0.3, -0.7))
    ax.set_yticks(range(len(rows)), [f"{regime_in_words(row['regime'])}: {row['leading']}" for row in rows], fontsize=6)
    ax.tick_params(axis="x", labelsize=7)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel(
        "mean gradient norm on the worst problem found, divided by its bound\n"
        "black line, 1: attained; grey line: 1/3; empty: the paper's bound; full: the sharper bound\n"
        "after the colon: which term of the bound leads",
        fontsize=7,
    )
    return figure


def _extent(data: Mapping[str, np.ndarray], start: float) -> float:
    return float(max(data["left"][-1] + data["width"][-1] - start, start - data["left"][0]))
