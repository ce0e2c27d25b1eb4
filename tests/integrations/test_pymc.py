"""`gladstorm.pymc.fit` is the posterior of a PyMC model, with its names, dimensions and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pymc = pytest.importorskip("pymc")

from gladstorm.pymc import fit  # noqa: E402
from gladstorm.variational import MeanField  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # of PyMC's dependencies
RNG = np.random.default_rng(0)
SHOP, COUNTS = np.repeat(np.arange(3), 40), RNG.poisson(np.repeat([2.0, 5.0, 9.0], 40))


@pytest.fixture
def shops() -> Any:
    with pymc.Model(coords={"shop": ["a", "b", "c"]}) as model:
        rate = pymc.Gamma("rate", 2.0, 0.5, dims="shop")
        pymc.Deterministic("total", rate.sum())
        pymc.Poisson("counts", rate[SHOP], observed=COUNTS)
    return model


def test_a_fit_is_the_posterior_with_the_names_and_labels_of_the_model(shops: Any) -> None:
    """Rates are Gamma(2 + Σy, ½ + n)."""
    tree = fit(shops, draws=4000, steps=2000, starts=2, progress=False)
    rates = tree.posterior["rate"]
    assert rates.dims == ("chain", "draw", "shop")
    assert set(tree.posterior.data_vars) == {"rate", "total"}
    for at, shop in enumerate("abc"):
        shape = 2 + COUNTS[at == SHOP].sum()
        assert float(rates.sel(shop=shop).mean()) == pytest.approx(shape / 40.5, rel=0.01)
        assert float(rates.sel(shop=shop).std()) == pytest.approx(np.sqrt(shape) / 40.5, rel=0.08)
    assert np.allclose(tree.posterior["total"], rates.sum("shop"), rtol=1e-5)
    assert tree["fit"].attrs["khat"] < 0.7
    assert list(tree["fit"].attrs["warnings"]) == []


def test_reasons_to_doubt_a_fit_are_warnings_and_what_cannot_be_fitted_is_refused(shops: Any) -> None:
    with pytest.warns(UserWarning, match="gladstorm.pymc.fit: The fit is too narrow"):
        fit(shops, steps=3, starts=2, family=MeanField(), progress=False)
    with pymc.Model() as discrete:
        pymc.Poisson("n", 3.0)
        pymc.Normal("z", 0.0, 1.0)
    with pytest.raises(ValueError, match="continuous variables only; got n"), discrete:
        fit(progress=False)


def test_the_page_s_lines_for_any_log_density_run() -> None:
    page = (Path(__file__).parent.parent.parent / "docs/numpyro.md").read_text("utf-8")
    code = page.partition("where PyMC is installed -->\n```python\n")[2].partition("```")[0]
    with pymc.Model() as model:
        pymc.Normal("z", 3.0, 2.0)
    names: dict[str, Any] = {"model": model}
    exec(code, names)
    assert float(names["tree"].posterior["z"].std()) == pytest.approx(2.0, rel=0.1)
