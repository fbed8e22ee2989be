"""Jobs that no session ran have records as those of sessions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_gsw.history.imports import figure_alone, imported_record
from pytest_gsw.jobs.model import JobState
from pytest_gsw.results.record import JobFacts, Record
from pytest_gsw.stats.measurement import Measurement, TimedStep, Timing
from pytest_gsw.validation.measure import summarize
from tests.unit.rows import LLAMA2_FP8_X128 as ROW

JOB = JobFacts(JobState.REPLAYED, id="481219", launcher="import", end_s=1794312000.0, log="a.out")


def imported(measurement: Measurement) -> Record:
    return imported_record(ROW, "eos", Path("results"), JOB, measurement, None)


def test_a_figure_alone_has_no_steps() -> None:
    record = imported(figure_alone(ROW, 5.11))
    assert (record.outcome, record.reason, record.judged_s) == ("regressed", "", 5.11)
    assert record.fact == "5.11 s, imported from results"
    assert record.timing == Timing(ROW.statistic)
    assert (record.run.recorded_s, record.run.log, record.jobs.last) == (None, "a.out", replace(JOB, judged_s=5.11))


def test_an_imported_log_has_its_steps_and_is_judged_as_a_replay_is() -> None:
    measurement = summarize(ROW, tuple(TimedStep(number, 4.5) for number in range(20)), 4.5, None)
    record = imported(measurement)
    assert (record.outcome, record.timing.series_s) == ("passed", (4.5,) * 20)
    apart = imported(replace(measurement, ranks_s={"0": 4.5, "1": 4.5, "2": 9.0}))
    assert (apart.outcome, apart.reason) == ("inconclusive", "ranks differ")


def test_a_gain_that_nobody_believes_is_inconclusive() -> None:
    record = imported(figure_alone(ROW, 1.0))
    assert (record.outcome, record.reason) == ("inconclusive", "too good to be true")
