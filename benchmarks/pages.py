"""A page of 10 methods × 9 × 5 settings × 20 seeds: how large it is, and how fast a slider answers in Chromium."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import gladstorm as gs
from benchmarks.measuring import Row
from gladstorm.simulation.configurations import Configuration
from gladstorm.simulation.one_run import CURVES

METHODS = ["nsgdm", "nstorm", "sgd", "clipped_sgd", "adam", "dog", "storm", "page", "svrg", "pasta"]
MEGABYTES, MILLISECONDS = 6.0, 100.0  # the goals
# How long the charts take to follow a slider, three times over all of its nine values.
SLIDER_TIMES = """const input = document.getElementById("slide-gamma"), times = [];
    for (let k = 0; k < 27; k++) {
        input.value = k % 9;
        const start = performance.now();
        input.dispatchEvent(new Event("input"));
        times.push(performance.now() - start);
    }
    return times"""


def large() -> gs.Record:
    """A record of that size, of noise that nothing compresses."""
    oracle = gs.BlumGladyshev(gs.objectives.named("power:3", dim=2, start=3.0), B=0.5, G=0.5)
    record = gs.run(oracle, gs.sgd(0.001), steps=1, progress=False)
    rng, steps = np.random.default_rng(0), np.arange(200) * 50
    numbers = [{"gamma": gamma, "eta": eta} for gamma in np.geomspace(1e-4, 1, 9) for eta in np.geomspace(1e-3, 1, 5)]
    configurations = tuple(Configuration(name, each, ("gamma", "eta")) for name in METHODS for each in numbers)
    shape = (len(configurations), 20, steps.size)
    curves: dict[str, Any] = {name: np.exp(rng.normal(size=shape).cumsum(axis=2) / 5) for name in CURVES}
    curves["sfo"] = np.broadcast_to(1 + 2 * steps, shape)
    curves["batch"] = np.rint(1e3 * curves["batch"])
    return dataclasses.replace(record, configurations=configurations, seeds=np.arange(20), steps=steps, **curves)


def rows() -> list[Row]:
    """The size, and where there is a Chromium, the median answer of a slider."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        large().explore(page)
        size = page.stat().st_size / 1e6
        found = [
            Row("page of 450 configurations × 20 seeds", f"{size:.1f} MB", f"< {MEGABYTES:g} MB", size < MEGABYTES)
        ]
        sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
        from browser import CHROMIUM, DRIVER, chromium

        if CHROMIUM and DRIVER:
            with chromium(Path(folder) / "profile") as browser:
                browser.open(page)
                while not browser.run("return document.body.dataset.ready"):
                    time.sleep(0.1)
                took = float(np.median(browser.run(SLIDER_TIMES)))
            goal = f"< {MILLISECONDS:g} ms"
            found.append(Row("a slider of that page, all charts", f"{took:.0f} ms", goal, took < MILLISECONDS))
    return found
