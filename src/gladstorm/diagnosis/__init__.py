"""Does the noise of your gradients grow? From a table of probes to estimates, verdicts and advice.

A probe is one measurement of noise and smoothness at one point. Probes come from `gladstorm.torch.diagnose`, from
`gladstorm.optax.diagnose`, or from a `gladstorm.torch.NoiseProbe` during a training. This package needs NumPy, and
neither JAX nor torch.
"""

from gladstorm.diagnosis.advice import Advice
from gladstorm.diagnosis.clipping import Clipping
from gladstorm.diagnosis.finding import Finding
from gladstorm.diagnosis.probes import Probe, Probes, spread
from gladstorm.diagnosis.readings import READINGS, Readings, arrange_charts
from gladstorm.diagnosis.report import Report, diagnose

__all__ = [
    "READINGS",
    "Advice",
    "Clipping",
    "Finding",
    "Probe",
    "Probes",
    "Readings",
    "Report",
    "arrange_charts",
    "diagnose",
    "spread",
]
