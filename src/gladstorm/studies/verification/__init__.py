"""Every theorem checked by simulation: the engine of `gladstorm verify`."""

from gladstorm.studies.verification.checks import Check, Verdict
from gladstorm.studies.verification.report import Report
from gladstorm.studies.verification.run import verify
from gladstorm.studies.verification.settings import FULL, QUICK, VerificationSettings

__all__ = ["FULL", "QUICK", "Check", "Report", "Verdict", "VerificationSettings", "verify"]
