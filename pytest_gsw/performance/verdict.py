"""Whether a measured row is as fast as documented: a value, from which text is made elsewhere."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from pytest_gsw.performance.measurement import Measurement
from pytest_gsw.tables.model import Baseline

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

    @property
    def time_change(self) -> float:
        """Measured over documented time, less one: 0.12 is 12 % more time."""
        return self.measured_s / self.documented_s - 1

    @property
    def throughput_change(self) -> float:
        """Measured over documented throughput, less one: -0.1 is 10 % less throughput."""
        return self.documented_s / self.measured_s - 1

    @property
    def allowed_throughput_change(self) -> float:
        """The limit on the side where the run is, or, within tolerance, the one on the slow side."""
        return self.tolerance if self.outcome is Outcome.IMPROVED else -self.tolerance

    @property
    def allowed_time_change(self) -> float:
        """The same limit as a change of time: 5 % less throughput is 5.3 % more time."""
        change = self.allowed_throughput_change
        return 1 / (1 + change) - 1 if change > -1 else math.inf


def judge(baseline: Baseline, measurement: Measurement, tolerance: float) -> Verdict:
    """Compare one measured run with its document.

    The tolerance is stated on throughput: with 5 %, the time may be up to 1/0.95 of the
    documented one.

    Raises:
        ValueError: There is no documented figure to judge by, or a number is not finite
            and above zero. Missing never passes, and NaN never compares.
    """
    documented_s = baseline.judged_s
    numbers = {"documented": documented_s, "measured": measurement.judged_s, "tolerance": tolerance}
    for name, number in numbers.items():
        if number is None or not math.isfinite(number) or number <= 0:
            raise ValueError(f"cannot judge {baseline.id}: its {name} figure is {number}")
    assert documented_s is not None  # the loop above has made sure of it
    ratio = documented_s / measurement.judged_s  # throughput, measured over documented
    if ratio < (1 - tolerance) * (1 - _ROUNDING):
        outcome = Outcome.REGRESSED
    elif ratio > (1 + tolerance) * (1 + _ROUNDING):
        outcome = Outcome.IMPROVED
    else:
        outcome = Outcome.PASSED
    return Verdict(outcome, measurement.judged_s, documented_s, tolerance)
