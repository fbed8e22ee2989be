"""What a log says of the machine's own speed."""

from __future__ import annotations

import pytest

from pytest_gsw.logs.calibration import EXAMPLE, calibration_flops
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.reader import read_log
from tests.unit.logs.conftest import WriteLog
from tests.unit.logs.lines import maxtext


def test_the_example_is_one() -> None:
    assert calibration_flops([EXAMPLE.encode()]) == 9.5e10


@pytest.mark.parametrize(
    ("record", "flops"),
    [
        (b"0: GSW: CALIBRATION_FLOPS=1.853e+11", 1.853e11),
        (b"GSW: CALIBRATION_FLOPS=95000000000 (mean of 2 ranks)", 9.5e10),
        (b"GSW: CALIBRATION_FLOPS=0", None),
        (b"GSW: CALIBRATION_FLOPS=-1e10", None),
        (b"GSW: CALIBRATION_FLOPS=nan", None),
        (b"GSW: CALIBRATION_FLOPS=inf", None),
        (b"GSW: CALIBRATION_FLOPS=1e999", None),
        (b"GSW: CALIBRATION_FLOPS=", None),
        (b"GSW: CALIBRATION_FLOPS=9.5e+1x", None),
        (b"GSW: CALIBRATION_FLOPS=$FLOPS", None),
    ],
)
def test_one_line(record: bytes, flops: float | None) -> None:
    assert calibration_flops([record]) == flops


def test_the_last_line_counts() -> None:
    assert calibration_flops([b"GSW: CALIBRATION_FLOPS=1e10", b"GSW: CALIBRATION_FLOPS=2e10"]) == 2e10
    # One that is no number does not let an older one stand.
    assert calibration_flops([b"GSW: CALIBRATION_FLOPS=1e10", b"GSW: CALIBRATION_FLOPS=nan"]) is None


STEPS = b"".join(maxtext(step, "4.0") for step in range(5))
LINE = b"GSW: CALIBRATION_FLOPS=9.5e+10\n"


@pytest.mark.parametrize(
    ("content", "flops"),
    [
        (STEPS, None),
        (STEPS + LINE, 9.5e10),
        (STEPS + b"\n" * 9000 + LINE + b"the end\n", 9.5e10),
        # It was cut while it was written.
        (STEPS + LINE[:-1], None),
        # It is of a run before this one.
        (STEPS + LINE + STEPS, None),
        (LINE + STEPS, None),
    ],
)
def test_it_is_told_behind_the_last_step(write_log: WriteLog, content: bytes, flops: float | None) -> None:
    assert read_log(write_log(content), FORMATS["maxtext"]).calibration_flops == flops
