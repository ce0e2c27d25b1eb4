"""Is this my noise? From a table of probes to G, B, smoothness, verdicts and advice: NumPy, no JAX, no torch.

The probes come from `gladstorm.torch.diagnose`, `gladstorm.optax.diagnose`, or from a training that a
`gladstorm.torch.NoiseProbe` rode along.
"""

from gladstorm.diagnosis.advice import Advice
from gladstorm.diagnosis.alternatives import Alternative
from gladstorm.diagnosis.finding import Finding
from gladstorm.diagnosis.probes import Probe, Probes, spread
from gladstorm.diagnosis.report import Report, diagnose

__all__ = ["Advice", "Alternative", "Finding", "Probe", "Probes", "Report", "diagnose", "spread"]
