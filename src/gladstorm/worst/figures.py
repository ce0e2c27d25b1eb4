"""The figure of `gladstorm worst`: a problem as f, f' and its samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gladstorm.plotting.styles import BLACK, GREY


def instance(result: Mapping[str, Any]) -> Figure:
    """A problem found: f and f' over the part of the line that a run can reach, and what samples add to f' there."""
    data = {name: np.asarray(value, float) for name, value in result["instance"].items()}
    schedule, start = result["schedule"], float(data["start"][0])
    extent = float(max(data["left"][-1] + data["width"][-1] - start, start - data["left"][0]))
    reach = min(schedule["gamma"] * result["horizon"], 2 * extent)
    x = np.linspace(start - reach, start + reach, 1001)
    into = np.clip(x[:, None] - data["left"], 0, data["width"])
    slope = data["first"] + into @ data["slope"]
    value = np.concatenate([[0.0], np.cumsum(np.diff(x) * (slope[1:] + slope[:-1]) / 2)])
    sigma = np.sqrt((data["B"] * (x - start)) ** 2 + data["G"] ** 2)[:, None]
    deviation = sigma * (data["share"] + into @ data["turns"])
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    of_f, of_slope, of_noise = figure.subplots(1, 3)
    of_f.plot(x, value - value.min(), color="black")
    of_f.set_title("f, above its minimum", fontsize=8)
    of_slope.plot(x, slope, color="black")
    for sign in (-1, 1):
        of_slope.axhline(sign * result["measured"], color=GREY, linestyle="--", linewidth=1)
    of_slope.set_title("∇f; dashed: ± measured E‖∇f(x̂)‖", fontsize=8)
    for channel, q in enumerate(data["q"]):
        if not deviation[:, channel].any():
            continue
        colour = (BLACK, GREY)[channel]
        of_noise.plot(x, -deviation[:, channel] * np.sqrt(q / (1 - q)), color=colour, label=f"probability {1 - q:.3g}")
        of_noise.plot(x, deviation[:, channel] * np.sqrt((1 - q) / q), ":", color=colour, label=f"probability {q:.3g}")
    of_noise.set_yscale("symlog", linthresh=max(1e-12, float(np.abs(deviation).max()) / 100))
    of_noise.set_title("what samples add to ∇f, by probability", fontsize=8)
    if deviation.any():
        of_noise.legend(fontsize=6, frameon=False)
    for ax in (of_f, of_slope, of_noise):
        ax.axvline(start, color="#bbbbbb", linewidth=0.8)
        ax.set_xlabel("x − x⁰" if start else "x, started at 0", fontsize=7)
        ax.tick_params(labelsize=6)
    return figure
