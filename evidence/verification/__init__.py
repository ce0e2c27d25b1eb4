"""Does every theorem hold in simulation? Bounds, rates, step sizes, estimator errors, the oracle."""

from evidence.verification.checks import Check, Verdict
from evidence.verification.run import VerificationReport, verify
from evidence.verification.settings import FULL, QUICK, VerificationSettings

__all__ = ["FULL", "QUICK", "Check", "Verdict", "VerificationReport", "VerificationSettings", "verify"]
