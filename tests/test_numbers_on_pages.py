"""Numbers and names that a page repeats from results or from the code are those of the results and the code."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import gladstorm as gs
from fuzz_command_line import programs
from gladstorm.methods import rows

ROOT = Path(__file__).parent.parent
NOT_CONVEX = ("double well, d = 5, wrapper", "network on diabetes", "network on digits")


def page(name: str) -> str:
    return " ".join((ROOT / name).read_text().split())


def ratios(variant: str) -> Iterator[tuple[str, int, float]]:
    """Problem, budget, and ‖∇f‖ of a variant of the untuned method divided by the best tuned rival's."""
    for path in sorted((ROOT / "docs/evidence/untuned").glob("*.json")):
        result = json.loads(path.read_text())
        if result["kind"] == "held-out":
            best = min(np.mean(rival["best"]["norm"]) for rival in result["rivals"].values())
            yield result["problem"], result["budget"], float(np.mean(result["ours"][variant]["norm"]) / best)


def test_what_the_readme_says_of_the_untuned_optimizer_is_what_was_found_for_its_default_the_last_iterate() -> None:
    last = list(ratios("the last iterate, no average"))
    short = [ratio for _, budget, ratio in last if budget == 1000]
    averaged = [ratio for _, budget, ratio in ratios("steered landing") if budget == 1000]
    long = [ratio for problem, budget, ratio in last if budget > 1000 and problem in NOT_CONVEX]
    assert (len(short), len(averaged), len(long)) == (8, 8, 6)
    mean, with_average = (math.exp(np.mean(np.log(each))) for each in (short, averaged))
    said = page("README.md")
    assert f"its gradient norm was {mean:.2f} times that of the best tuned method on eight held-out problems" in said
    assert f"(at worst {max(short):.2f} times), or {with_average:.2f} times with `average=True`" in said
    assert f"on nonconvex problems it was {min(long):.1f} to {max(long):.0f} times that of the best" in said


def test_how_far_measured_norms_are_below_the_bounds_is_what_verify_found() -> None:
    report = json.loads((ROOT / "docs/evidence/verification/published.json").read_text())
    assert report["settings"]["horizons"][-1] == 100_000

    def percent(method: str, smoothness: str) -> list[float]:
        regime = f"{method}/{smoothness}/bg0"
        return [100 * case["tightness"]["bound"][-1] for case in report["cases"] if case["regime"] == regime]

    nsgdm, nstorm = percent("nsgdm", "smooth"), percent("nstorm", "smooth")
    said = page("docs/start_bound.md")
    assert f"was {min(nsgdm):.0f} to {max(nsgdm):.0f} % of NSGDM's bound" in said
    assert f"and {min(nstorm):.0f} to {max(nstorm):.0f} % of NSTORM's at T = 100,000" in said
    assert max(percent("nsgdm", "sublinear") + percent("nstorm", "sublinear")) < 1


def test_how_tight_the_bounds_are_on_natural_noise_is_what_verify_found() -> None:
    report = json.loads((ROOT / "docs/evidence/verification/published.json").read_text())
    at = report["settings"]["horizons"].index(10_000)
    found = {(case["regime"], case["instance"]): case["tightness"]["bound"][at] for case in report["cases"]}
    least, gaussian = (
        [found[f"{method}/smooth/bg0", instance] for method in ("nsgdm", "nstorm")]
        for instance in ("streaming least squares, d = 2", "variational Gaussian, d = 1")
    )
    assert (
        f"is {least[0]:.0%} (NSGDM) and {least[1]:.0%} (NSTORM) of the bound on the first, "
        f"{gaussian[0]:.0%} and {gaussian[1]:.0%} on the second."
    ).replace("%", " %") in page("docs/natural.md")


def test_the_bound_and_the_horizons_in_the_text_of_the_page_about_bounds_are_those_of_plan() -> None:
    constants: dict[str, Any] = {"alpha": 0, "L0": 1.0, "B": 0.1, "G": 0.5, "gap": 1.0}
    assert f"needs {gs.theory.plan('nsgdm', eps=0.5, **constants).horizon:,} iterates" in page("docs/start_bound.md")


def test_the_release_notes_require_what_the_package_requires() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        *project["optional-dependencies"]["sim"],
        *project["optional-dependencies"]["torch"],
        *project["optional-dependencies"]["optax"],
    ]
    oldest = dict(line.partition(";")[0].split(">=") for line in lines if line.startswith(("jax>", "torch>", "optax>")))
    said = page("docs/release_notes.md")
    python = project["requires-python"].removeprefix(">=")
    for name, version in {
        "Python": python,
        "JAX": oldest["jax"],
        "PyTorch": oldest["torch"],
        "Optax": oldest["optax"],
    }.items():
        assert f"{name} {version} or newer" in said
    assert f"Python {python} or newer" in page("docs/index.md")
    assert f"Python ≥ {python}" in page("README.md")


def test_every_command_that_takes_long_can_resume_and_its_page_says_with_which_option() -> None:
    said = page("docs/start_research.md")
    (words,) = re.findall(r"`--store DIR` for ((?:`\w+`(?:, | and )?)+)", said)
    options = {
        (program, name): {each for option in command.params for each in option.opts}
        for program, group in programs().items()
        for name, command in group.commands.items()
    }
    long = {name for (program, name), has in options.items() if program == "gladstorm" and "--workers" in has}
    assert sorted(re.findall(r"`(\w+)`", words)) == sorted(long)
    assert "`--out DIR` for `python -m evidence NAME`" in said
    for (program, name), has in options.items():
        assert "--json" in has, name
        assert "--store" in has or "--workers" not in has, name
        assert "--out" in has or program != "evidence", name


def test_the_metadata_of_a_saved_record_is_what_the_page_of_formats_says(tmp_path: Path) -> None:
    oracle = gs.BlumGladyshev(gs.objectives.named("power:3", dim=2), B=0.5, G=0.5)
    gs.sweep(oracle, {"SGD": gs.sgd(gamma=0.1)}, steps=2, seeds=1).save(tmp_path / "record.parquet")
    ((key, text),) = pq.read_schema(tmp_path / "record.parquet").metadata.items()
    said = page("docs/formats.md").partition("## Records")[2].partition("| column")[0]
    assert f"has one key, `{key.decode()}`," in said
    held = json.loads(text)
    assert f'`format` is "{held["format"]}"' in said
    assert all(f"`{name}`" in said for name in held)


@pytest.mark.parametrize("words", [["methods"], ["methods", "--json"]], ids=" ".join)
def test_the_command_methods_prints_every_cell_of_the_table_on_its_page(
    gladstorm: Callable[..., tuple[int, str, str]], words: list[str]
) -> None:
    _, out, _ = gladstorm(*words)
    printed = " ".join(out.split())
    for row in rows():
        for cell in row.values():
            assert cell in printed
