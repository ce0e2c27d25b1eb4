"""The figures: two schedules, the hard problem, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from evidence.optimality.measuring import counted
from gladstorm.plotting.styles import BLUE, COLOURS, GREEN, GREY, VERMILION
from gladstorm.problems.objectives import NoisyRunway
from gladstorm.problems.oracles import NoisyRunwayOracle
from gladstorm.theory import Problem, trade_off

ACCURACY = 1e-6  # of the curves of batches: so small that only leading terms are left
LETTERS = {"L0": "L0", "L1": "L1", "B": "B", "G": "G", "gap": "Δ", "alpha": "α"}
SCHEDULES = {"Theorem 2(ii)": (GREY, "^:"), "paper's best": (BLUE, "o-"), "S9": (VERMILION, "s--")}
SHOWN = {"eps": 0.005, "alpha": 1.0, "L0": 1.0, "L1": 120.0, "B": 0.25, "gap": 1.0}  # of docs/optimal.md


def schedules(result: Mapping[str, Any]) -> Figure:
    """T that guarantees ε, against every constant and against α."""
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    panels = list(figure.subplots(2, 3).flat)
    for ax in panels[1:-1]:  # all but α, where the theorem's constants explode
        ax.sharey(panels[0])
    for ax, (name, letter) in zip(panels, LETTERS.items(), strict=True):
        rows = [row for row in result["plans"] if row["varied"] == name]
        for schedule, (colour, line) in SCHEDULES.items():
            at, horizons = [row["value"] for row in rows], [row[schedule] for row in rows]
            ax.plot(at, horizons, line, color=colour, markersize=3, label=schedule)
        ax.set(yscale="log", xlabel=letter, **({} if name == "alpha" else {"xscale": "log"}))
        ax.tick_params(labelsize=7)
    panels[0].legend(frameon=False, fontsize=7)
    figure.supylabel(f"iterates T that guarantee ε = {result['eps']:g}", fontsize=8)
    return figure


def batches() -> Figure:
    """Steps against samples of SGD with three kinds of batches, and what the growth of a batch is worth, against a."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    growths, excess = np.linspace(0, 2, 41), np.geomspace(0.05, 20, 60)
    looks = {
        "sigma": ("b like the deviation", VERMILION, "-"),
        "sigma2": ("b constant, or like the variance", BLUE, "--"),
    }
    problem = Problem(alpha=0, L0=1.0, B=1.0, G=0.0, gap=1.0)
    fewest = trade_off(problem, ACCURACY, "sigma").samples
    for batch, (label, colour, line) in looks.items():
        curve = trade_off(problem, ACCURACY, batch)
        steps, samples = np.array([curve.at(float(x)) for x in excess]).T
        left.loglog(samples / fewest, steps / curve.steps, color=colour, linestyle=line, label=label)
        prices = [trade_off(replace(problem, growth=float(a)), ACCURACY, batch).samples for a in growths]
        best = [trade_off(replace(problem, growth=float(a)), ACCURACY, "sigma").samples for a in growths]
        right.plot(growths, np.divide(prices, best), color=colour, linestyle=line)
    left.set(xlabel="samples, in units of the fewest", ylabel="steps, in units of the fewest", title="a = 2")
    left.legend(frameon=False, fontsize=7)
    right.set(xlabel="a, growth of the variance", ylabel="price in samples at the same steps")
    return figure


def instance() -> Figure:
    """f, ‖∇f‖ and the noise along the way of an ideal method: down the runway, through the gate, along the chain."""
    f = NoisyRunway.from_eps(**SHOWN)
    oracle, R, T = NoisyRunwayOracle(f), float(f.runway), f.links
    y = np.concatenate([np.linspace(0, 2 * R, 300), np.full(300, 2 * R)])
    along = np.concatenate([np.zeros(300), np.linspace(0, T, 300)])
    omega = 5 * np.clip(along[:, None] - np.arange(T), 0, 1)
    x = np.column_stack([y, omega * float(f.scale)])
    with jax.enable_x64(True):
        points = jax.vmap(oracle.at)(jnp.asarray(x))
        value = np.asarray(jax.vmap(f.value)(jnp.asarray(x)))
        norm = np.linalg.norm(np.asarray(points.grad), axis=1)
        noise = {
            "carrier": np.linalg.norm(np.asarray(points.carrier), axis=1),
            "hidden link": np.linalg.norm(np.asarray(points.hidden), axis=1) / np.sqrt(float(oracle.p)),
        }
    place = np.concatenate([np.linspace(0, 2, 300), 2 + 2 * along[300:] / T])
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    top.plot(place, value, color="black")
    top.set_ylabel("f")
    middle.plot(place, norm / f.eps, color="black")
    middle.axhline(2, color=GREY, linewidth=0.8, linestyle=":")
    middle.set(ylabel="‖∇f‖/ε", ylim=(0, None))
    for (name, size), colour in zip(noise.items(), (GREEN, VERMILION), strict=True):
        bottom.plot(place, size, color=colour, label=name)
    bottom.plot(place, f.B * np.linalg.norm(x, axis=1), color=GREY, linestyle="--", linewidth=0.8, label="B‖x − x⁰‖")
    bottom.set(ylabel="noise", xlabel="the way of a method that never waits")
    bottom.legend(frameon=False, fontsize=7)
    for ax in (top, middle, bottom):
        ax.axvspan(0.5, 1, color=GREY, alpha=0.15, linewidth=0)
        ax.axvline(2, color=GREY, linewidth=0.8)
        ax.tick_params(labelsize=7)
    bottom.set_xticks([0, 0.5, 1, 2, 4], ["x⁰", "R/2", "R", "2R, first link", "last link"])
    top.text(0.25, 0.1, "runway", transform=top.get_xaxis_transform(), ha="center", va="bottom", fontsize=8)
    top.text(0.75, 0.95, "gate", transform=top.get_xaxis_transform(), ha="center", va="top", fontsize=8)
    top.text(3, 0.95, f"chain of {T} links", transform=top.get_xaxis_transform(), ha="center", va="top", fontsize=8)
    return figure


def costs(result: Mapping[str, Any]) -> Figure:
    """Stochastic gradients until ‖∇f‖ ≤ ε against 1/ε, a panel for each α; of a method the median over seeds."""
    alphas = list(dict.fromkeys(row["alpha"] for row in result["needed"]))
    figure = Figure(figsize=(8, 3.1), layout="constrained")
    for ax, alpha in zip(figure.subplots(1, len(alphas), sharey=True), alphas, strict=True):
        own = [row for row in result["needed"] if row["alpha"] == alpha]
        at = [1 / row["eps"] for row in own]
        low, middle, high = zip(*(row["ideal"]["quantiles"] for row in own), strict=True)
        ax.fill_between(at, low, high, color=GREY, alpha=0.3, linewidth=0)
        ax.plot(at, middle, color=GREY, label="ideal method")
        ax.plot(at, [row["needed"] for row in own], "k--", label="needed by every method")
        methods = dict.fromkeys(row["method"] for row in result["measured"])
        for method, colour in zip(methods, COLOURS, strict=False):
            rows = [row for row in result["measured"] if (row["alpha"], row["method"]) == (alpha, method)]
            medians = [np.median(counted(row)) for row in rows]
            ax.plot([1 / row["eps"] for row in rows], medians, "o-", color=colour, markersize=3, label=method)
        ax.set(xscale="log", yscale="log", xlabel="1/ε", title=f"α = {alpha:g}")
        ax.set_xticks(at, [f"{each:.0f}" for each in at])
        ax.set_xticks([], minor=True)
        ax.tick_params(which="both", labelsize=7)
    figure.axes[0].set_ylabel("stochastic gradients to ‖∇f‖ ≤ ε", fontsize=8)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=7, fontsize=7)
    return figure
