"""Every theorem checked by simulation: the engine of `gladstorm verify`."""

from gladstorm.studies.verification.checks import Check, Verdict
from gladstorm.studies.verification.report import VerificationReport
from gladstorm.studies.verification.run import verify
from gladstorm.studies.verification.settings import FULL, QUICK, VerificationSettings

__all__ = ["FULL", "QUICK", "Check", "Verdict", "VerificationReport", "VerificationSettings", "verify"]
