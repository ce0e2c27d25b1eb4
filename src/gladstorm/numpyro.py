"""The public path of what works with numpyro: `fit` and its families, and parts for a plain SVI."""

from gladstorm.integrations.numpyro import (  # noqa: I001 - one statement
    Fit as Fit,
    Flow as Flow,
    FullRank as FullRank,
    LowRank as LowRank,
    MeanField as MeanField,
    StickingELBO as StickingELBO,
    TwoPoint as TwoPoint,
    fit as fit,
    fit_logdensity as fit_logdensity,
)
