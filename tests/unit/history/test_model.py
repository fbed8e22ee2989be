from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.history.imports import imported_record
from pytest_gsw.history.model import by_run, job_time_s, points_of, record_time_s
from pytest_gsw.history.store import decode, encode, failed_jobs
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.record import JobFacts, Record
from pytest_gsw.stats.goodput import TrainingAttempt, endurance
from pytest_gsw.stats.measurement import Measurement, TimedStep, Timing
from pytest_gsw.stats.verdict import verdict_of
from pytest_gsw.validation.measure import summarize
from tests.unit.history.runs import FIRST_S, imported_figure, job, run_record
from tests.unit.results.records import MEMORY, varied
from tests.unit.results.test_record import RECORDS
from tests.unit.rows import LLAMA2_FP8_X128 as ROW


@given(record=RECORDS)
def test_points_are_finite_and_of_jobs(record: Record) -> None:
    for one in points_of(record):
        assert one.judged > 0
        assert one.job_id


@given(records=st.lists(RECORDS, max_size=5), seed=st.randoms())
def test_the_order_of_records_does_not_matter(records: list[Record], seed: object) -> None:
    dated = [varied(record, recorded_s=float(number)) for number, record in enumerate(records)]
    shuffled = list(dated)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    assert by_run(shuffled) == by_run(dated)


@given(records=st.lists(RECORDS, max_size=5), seed=st.randoms())
def test_an_error_takes_no_measurement_s_place(records: list[Record], seed: object) -> None:
    one_row = [
        varied(record, run_id="r", node_id="n", recorded_s=float(number)) for number, record in enumerate(records)
    ]
    seed.shuffle(one_row)  # type: ignore[attr-defined]
    measured = [record for record in one_row if record.outcome != "error"]
    assert list(by_run(one_row).values()) == sorted(measured or one_row, key=lambda one: one.run.recorded_s or 0)[-1:]


def test_a_row_s_further_metrics_come_back_and_its_points_are_of_its_own() -> None:
    of_job = replace(job(0), metrics={"peak_memory_gib": 70.1})
    record = varied(run_record(0), outcome="regressed", own_outcome="passed", metrics=(MEMORY,), job=of_job)
    assert decode(encode(record)) == record
    (one,) = points_of(record)
    assert (one.outcome, one.metrics) == ("passed", {"peak_memory_gib": 70.1})


def test_a_row_that_ran_for_a_time_has_no_points() -> None:
    used = endurance([TrainingAttempt(0.0, 3600.0)])
    assert len(points_of(run_record(0))) == 1
    assert points_of(replace(run_record(0), endurance=used)) == ()


@pytest.mark.parametrize(
    ("why", "is_evidence"), [("node failure", True), ("its program failed", False), ("time limit", False)]
)
def test_a_job_after_which_its_row_went_on_is_evidence_on_nodes(why: str, is_evidence: bool) -> None:
    ended = replace(job(0), state=JobState.NODE_FAIL if is_evidence else JobState.FAILED, why_repeated=why, nodes="n17")
    assert bool(failed_jobs(varied(run_record(0), attempts=(ended,)))) == is_evidence


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"no zlib", "it is no record: Error -3 while decompressing data: incorrect header check"),
        (zlib.compress(b'{"schema": 3}'), "it is of version 3, this pytest-gsw reads version 2"),
    ],
)
def test_what_cannot_be_read_says_why(body: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{why}$"):
        decode(body)


@pytest.fixture
def los_angeles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place whose evenings are the next day elsewhere."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/Los_Angeles")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("los_angeles")
def test_a_run_is_named_after_the_local_time() -> None:
    unknown = varied(run_record(0), job=None, recorded_s=None, run_id="20261101-210000-7f3a")
    assert time.strftime("%Y-%m-%d %H:%M", time.localtime(record_time_s(unknown))) == "2026-11-01 21:00"


def test_times_are_those_of_jobs_else_of_records_else_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    record = run_record(0, recorded_s=FIRST_S + 60)
    assert record_time_s(record) == FIRST_S
    nameless = job(0, end_s=None, start_s=None, submit_s=None)
    assert job_time_s(replace(nameless, start_s=FIRST_S - 5), record) == FIRST_S - 5
    assert record_time_s(varied(record, job=nameless)) == FIRST_S + 60
    assert record_time_s(varied(record, job=None)) == FIRST_S + 60
    assert record_time_s(varied(record, job=None, recorded_s=None)) == FIRST_S
    assert record_time_s(varied(record, job=None, recorded_s=None, run_id="import-1")) == 0.0


# -- jobs that failed ------------------------------------------------------------------------------


def failed(record: Record) -> list[tuple[str, str]]:
    return [(one.id, why) for one, why in failed_jobs(record)]


def test_a_row_that_passed_has_failed_attempts_all_the_same() -> None:
    attempts = (job(8, state=JobState.NODE_FAIL, why_repeated="node failure"), job(9, why_repeated="NCCL time-out"))
    assert failed(run_record(0, attempts=attempts)) == [("481228", "node failure"), ("481229", "NCCL time-out")]


@pytest.mark.parametrize("why", ["preemption", "requeued"])
def test_what_a_scheduler_took_away_says_nothing(why: str) -> None:
    assert failed(run_record(0, attempts=(job(8, state=JobState.PREEMPTED, why_repeated=why),))) == []


def test_jobs_that_a_session_cancelled_or_measured_have_not_failed() -> None:
    assert (
        failed(run_record(0, attempts=(job(8, state=JobState.CANCELLED, why_repeated="its session ended early"),)))
        == []
    )
    assert failed(run_record(0, repeats=(job(8, 5.0, why_repeated="to be confirmed"),))) == []


@pytest.mark.parametrize(
    ("state", "fact", "why"),
    [
        ("NODE_FAIL", "job 481220 failed: node failure", "node failure"),
        ("FAILED", "job 481220 failed: ECC error", "ECC error"),
        ("FAILED", "job 481220 failed: CUDA out of memory", None),  # the row's own
        ("FAILED", "job 481220 failed: exit code 1", None),
        ("CANCELLED", "job 481220 was cancelled", None),
        ("TIMEOUT", "job 481220 failed: time limit", None),
        ("COMPLETED", "the log of job 481220 has 3 steps, the row needs 20", None),
    ],
)
def test_the_last_job_of_a_row_that_could_not_be_measured(state: str, fact: str, why: str | None) -> None:
    record = run_record(0, outcome="error", fact=fact, measured={}, job=job(0, state=state))
    assert failed(record) == ([] if why is None else [("481220", why)])


def test_a_job_without_nodes_blames_none() -> None:
    assert failed(run_record(0, attempts=(job(8, nodes="", why_repeated="boot failure"),))) == []


# -- jobs that no session ran ----------------------------------------------------------------------

JOB = JobFacts(JobState.REPLAYED, id="481219", launcher="import", end_s=1794312000.0, log="a.out")


def imported(measurement: Measurement) -> Record:
    verdict = verdict_of(ROW, measurement, ROW.criterion.tolerance)
    return imported_record(ROW, "eos", Path("results"), JOB, measurement, None, verdict)


def test_a_figure_alone_has_no_steps() -> None:
    record = imported_figure(ROW, Path("results"), JOB, 5.11)
    assert (record.outcome, record.reason, record.measured) == ("regressed", "", 5.11)
    assert record.fact == "5.11 s, imported from results"
    assert record.timing == Timing(ROW.criterion.statistic)
    assert (record.run.recorded_s, record.run.log, record.jobs.last) == (None, "a.out", replace(JOB, judged=5.11))


def test_an_imported_log_has_its_steps_and_is_judged_as_a_replay_is() -> None:
    measurement = summarize(ROW, tuple(TimedStep(number, 4.5) for number in range(20)), 4.5, None)
    record = imported(measurement)
    assert (record.outcome, record.timing.series_s) == ("passed", (4.5,) * 20)
    apart = imported(replace(measurement, ranks_s={"0": 4.5, "1": 4.5, "2": 9.0}))
    assert (apart.outcome, apart.reason) == ("inconclusive", "ranks differ")


def test_a_gain_that_nobody_believes_is_inconclusive() -> None:
    record = imported_figure(ROW, Path("results"), JOB, 1.0)
    assert (record.outcome, record.reason) == ("inconclusive", "too good to be true")
