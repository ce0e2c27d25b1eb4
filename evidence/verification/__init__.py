"""Every theorem checked by simulation: the engine of `gladstorm verify`."""

from evidence.verification.checks import Check, Verdict
from evidence.verification.report import VerificationReport
from evidence.verification.run import verify
from evidence.verification.settings import FULL, QUICK, VerificationSettings

__all__ = ["FULL", "QUICK", "Check", "Verdict", "VerificationReport", "VerificationSettings", "verify"]
