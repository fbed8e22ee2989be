"""Whether a measured row is as fast as documented: a value, from which text is made elsewhere."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from pytest_gsw.performance.measurement import Measurement
from pytest_gsw.tables.model import Accepted, Baseline

#: A run exactly on the limit passes; what binary fractions make of the decimal numbers on
#: both sides differs by less than this.
_ROUNDING = 1e-12


class Outcome(enum.Enum):
    """How a measured run compares with its document."""

    PASSED = "passed"
    IMPROVED = "improved"
    REGRESSED = "regressed"


@dataclass(frozen=True)
class Verdict:
    """The outcome for one row, and the numbers it rests on."""

    outcome: Outcome
    measured_s: float
    documented_s: float
    #: Accepted loss (and gain) of throughput, as a fraction.
    tolerance: float
    #: What the cluster has accepted in the document's place; ``None`` where the outcome rests on the document.
    accepted_s: float | None = None

    @property
    def reference_s(self) -> float:
        """The seconds that the outcome rests on."""
        return self.documented_s if self.accepted_s is None else self.accepted_s

    @property
    def time_change(self) -> float:
        """Measured time over that of the reference, less one: 0.12 is 12 % more time."""
        return self.measured_s / self.reference_s - 1

    @property
    def throughput_change(self) -> float:
        """Measured throughput over that of the reference, less one: -0.1 is 10 % less throughput."""
        return self.reference_s / self.measured_s - 1

    @property
    def documented_throughput_change(self) -> float:
        """Measured over documented throughput, less one, whatever the outcome rests on."""
        return self.documented_s / self.measured_s - 1

    @property
    def documented_outcome(self) -> Outcome:
        """What the outcome is by the document, whatever it rests on."""
        return compare(self.measured_s, self.documented_s, self.tolerance)

    @property
    def allowed_throughput_change(self) -> float:
        """The limit on the side where the run is, or, within tolerance, the one on the slow side."""
        return self.tolerance if self.outcome is Outcome.IMPROVED else -self.tolerance

    @property
    def allowed_time_change(self) -> float:
        """The same limit as a change of time: 5 % less throughput is 5.3 % more time."""
        change = self.allowed_throughput_change
        return 1 / (1 + change) - 1 if change > -1 else math.inf


def compare(measured_s: float, reference_s: float, tolerance: float) -> Outcome:
    """How a measured time compares with the one that it is held against; all are finite and above zero.

    The tolerance is stated on throughput: with 5 %, the time may be up to 1/0.95 of the reference.
    """
    ratio = reference_s / measured_s  # throughput, measured over reference
    if ratio < (1 - tolerance) * (1 - _ROUNDING):
        return Outcome.REGRESSED
    if ratio > (1 + tolerance) * (1 + _ROUNDING):
        return Outcome.IMPROVED
    return Outcome.PASSED


def judge(baseline: Baseline, measurement: Measurement, tolerance: float, accepted: Accepted | None = None) -> Verdict:
    """Compare one measured run with its document, or with what its cluster has accepted beside that.

    Args:
        baseline: The row.
        measurement: What was measured.
        tolerance: Accepted loss (and gain) of throughput as a fraction.
        accepted: The cluster's figure, which then is what the outcome rests on.

    Raises:
        ValueError: There is no documented figure to judge by, or a number is not finite
            and above zero. Missing never passes, and NaN never compares.
    """
    documented_s = baseline.judged_s
    accepted_s = None if accepted is None else accepted.judged_s
    numbers = {"documented": documented_s, "measured": measurement.judged_s, "tolerance": tolerance}
    if accepted_s is not None:
        numbers["accepted"] = accepted_s
    for name, number in numbers.items():
        if number is None or not math.isfinite(number) or number <= 0:
            raise ValueError(f"cannot judge {baseline.id}: its {name} figure is {number}")
    assert documented_s is not None  # the loop above has made sure of it
    reference_s = documented_s if accepted_s is None else accepted_s
    outcome = compare(measurement.judged_s, reference_s, tolerance)
    return Verdict(outcome, measurement.judged_s, documented_s, tolerance, accepted_s)
