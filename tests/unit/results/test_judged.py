"""The verdict of a record is the one that it was written with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_gsw.performance.noise import Noise
from pytest_gsw.performance.verdict import Outcome, Reason
from pytest_gsw.results.row_line import figures
from tests.unit.results.records import SEVERAL, SLOW, varied


def test_a_verdict_that_is_too_good_is_the_same_from_its_record() -> None:
    record = varied(
        SLOW, outcome="inconclusive", reason="too good to be true", max_gain=0.25, measured={"step_time_s": 0.4556}
    )
    found = record.judged
    assert found is not None
    assert (found.reason, found.max_gain, found.is_too_fast) == (Reason.TOO_GOOD, 0.25, True)
    assert found.greatest_gain == pytest.approx(9.0)
    assert "too good to be true" in figures(record)


def test_a_verdict_is_the_same_from_its_record() -> None:
    record = varied(SEVERAL, reason="slower than allowed", limit=0.08, sigma=0.03, sigma_jobs=12)
    found = record.judged
    assert found is not None
    assert (found.outcome, found.limit, found.noise, found.jobs_s) == (
        Outcome.REGRESSED,
        0.08,
        Noise(0.03, 12),
        (5.2, 5.02),
    )
    assert replace(record, outcome="error").judged is None
