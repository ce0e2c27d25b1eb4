"""A Stan model's log density is fitted as the page says; building one downloads Stan, so Python stands in for it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

MEAN, SDS = np.arange(3.0), np.array([1.0, 4.0, 100.0])


class StanModel:
    """What the page uses of BridgeStan's class of this name: independent normal parameters."""

    def __init__(self, *_: str) -> None: ...

    def param_unc_num(self) -> int:
        return 3

    def param_unc_names(self) -> list[str]:
        return ["a", "b", "c"]

    def log_density_gradient(self, theta_unc: np.ndarray) -> tuple[float, np.ndarray]:
        assert theta_unc.dtype == np.float64  # BridgeStan refuses others
        off = (theta_unc - MEAN) / SDS
        return float(-0.5 * off @ off), -off / SDS


def test_the_page_s_lines_fit_a_stan_model(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("bridgestan")
    module.StanModel = StanModel
    monkeypatch.setitem(sys.modules, "bridgestan", module)
    page = (Path(__file__).parent.parent.parent / "docs/numpyro.md").read_text("utf-8")
    code = page.partition("in place of Stan's -->\n```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(code.replace("names=", "steps=1000, starts=2, progress=False, names="), names)
    fitted = names["fitted"]
    assert fitted.location == pytest.approx(MEAN, abs=0.01)
    assert np.diagonal(fitted.scale_tril) == pytest.approx(SDS, rel=0.01)
    assert set(fitted.summary()) == {"a", "b", "c"}
