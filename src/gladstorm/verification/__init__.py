"""Every theorem checked by simulation: the engine of `gladstorm verify`."""

from gladstorm.verification.checks import Check, Verdict
from gladstorm.verification.report import Report, verify
from gladstorm.verification.runs import FULL, QUICK, Settings

__all__ = ["FULL", "QUICK", "Check", "Report", "Settings", "Verdict", "verify"]
