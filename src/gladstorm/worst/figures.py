"""The figure of `gladstorm worst`: a problem as f, f' and its samples."""

import numpy as np
from matplotlib.figure import Figure

from gladstorm.plotting.styles import BLACK, GREY
from gladstorm.worst.search import WorstProblem


def draw_problem(result: WorstProblem) -> Figure:
    """Draw f and f' over the part of the line that a run can reach, and what samples add to f' there."""
    problem, noise = result.instance, result.problem
    nodes, share = np.array(problem.x), np.array(problem.share)
    extent = float(np.abs(nodes).max())
    reach = min(result.schedule["gamma"] * result.horizon, 2 * extent)
    x = np.linspace(-reach, reach, 1001)
    slope = np.interp(x, nodes, problem.slope)
    value = np.concatenate([[0.0], np.cumsum(np.diff(x) * (slope[1:] + slope[:-1]) / 2)])
    sigma = np.hypot(noise.B * np.abs(x) ** noise.half_growth, noise.G)
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    of_f, of_slope, of_noise = figure.subplots(1, 3)
    of_f.plot(x, value - value.min(), color="black")
    of_f.set_title("f, above its minimum", fontsize=8)
    of_slope.plot(x, slope, color="black")
    for sign in (-1, 1):
        of_slope.axhline(sign * result.mean, color=GREY, linestyle="--", linewidth=1)
    of_slope.set_title("∇f; dashed: ± measured E‖∇f(x̂)‖", fontsize=8)
    for q, shares, colour in zip(problem.q, share.T, (BLACK, GREY), strict=True):
        if shares.any() and sigma.any():
            deviation = sigma * np.interp(x, nodes, shares)
            of_noise.plot(x, -deviation * np.sqrt(q / (1 - q)), color=colour, label=f"probability {1 - q:.3g}")
            of_noise.plot(x, deviation * np.sqrt((1 - q) / q), ":", color=colour, label=f"probability {q:.3g}")
    of_noise.set_yscale("symlog", linthresh=max(1e-12, float(sigma.max() * np.abs(share).max()) / 100))
    of_noise.set_title("what samples add to ∇f, by probability", fontsize=8)
    if of_noise.lines:
        of_noise.legend(fontsize=6, frameon=False)
    for ax in (of_f, of_slope, of_noise):
        ax.axvline(0, color="#bbbbbb", linewidth=0.8)
        ax.set_xlabel("x, started at 0", fontsize=7)
        ax.tick_params(labelsize=6)
    return figure
