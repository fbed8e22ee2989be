from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.history.model import by_run, job_time_s, points_of, record_time_s
from pytest_gsw.history.store import decode, encode
from pytest_gsw.results.record import Record
from tests.unit.history.runs import FIRST_S, job, run_record
from tests.unit.results.records import MEMORY, varied
from tests.unit.results.test_record import RECORDS


@given(record=RECORDS)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    assert decode(encode(record)) == record


@given(record=RECORDS)
def test_points_are_finite_and_of_jobs(record: Record) -> None:
    for one in points_of(record):
        assert one.point.judged_s > 0
        assert one.point.job_id


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
    assert (one.point.outcome, one.point.metrics) == ("passed", {"peak_memory_gib": 70.1})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"no zlib", "it is no record: Error -3 while decompressing data: incorrect header check"),
        (zlib.compress(b'{"schema": 3}'), "it is of version 3, this pytest-gsw reads version 1"),
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
