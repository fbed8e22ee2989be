"""A record as JSON, with its verdict whole; its jobs; the ids of runs."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gsw.history.store import decode, encode
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.results import outcomes
from pytest_gsw.results.junit import read_run
from pytest_gsw.results.record import (
    JobFacts,
    Record,
    read_record,
    read_records,
    used_gpu_hours,
    write_record,
)
from pytest_gsw.results.runs_directory import new_run_id
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.goodput import IN_JOB, INFRASTRUCTURE, PROGRAM, SESSION, Endurance
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.verdict import RankSpread, Reason, Verdict
from pytest_gsw.tables.metrics import Direction
from tests.messages import wording
from tests.unit.results.records import JOB, MEMORY, SLOW, recorded, varied

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
FIGURES = st.dictionaries(st.sampled_from(["step_time_s", "tokens_per_s", "mfu"]), st.none() | NUMBERS)
JOBS = st.builds(
    JobFacts,
    id=TEXTS,
    launcher=TEXTS,
    state=st.sampled_from(JobState),
    exit_code=st.none() | st.integers(0, 255),
    nodes=TEXTS,
    submit_s=st.none() | NUMBERS,
    end_s=st.none() | NUMBERS,
    why_repeated=TEXTS,
    judged=st.none() | NUMBERS,
    log=st.none() | TEXTS,
)
RECORDS = st.builds(
    recorded,
    **dict.fromkeys(("run_id", "row", "baseline", "document", "cluster", "fact", "workload"), TEXTS),
    **dict.fromkeys(("framework", "dtype", "accelerator", "statistic"), TEXTS),
    outcome=st.sampled_from(sorted(set(outcomes.BY_WORD) - outcomes.JUDGED)),
    node_id=st.just("x.yaml::y"),
    document_line=st.integers(1),
    simulated=st.booleans(),
    tolerance=NUMBERS,
    gpus=st.integers(1),
    documented=FIGURES,
    measured=FIGURES,
    steps=st.integers(0),
    median_s=st.none() | NUMBERS,
    series_s=st.lists(NUMBERS).map(tuple),
    job=st.none() | JOBS,
    attempts=st.lists(JOBS, max_size=3).map(tuple),
    repeats=st.lists(JOBS, max_size=3).map(tuple),
    spike_fraction=st.none() | NUMBERS,
    limit=st.none() | NUMBERS,
    canary=st.booleans(),
    environment=st.dictionaries(st.sampled_from(["driver", "nccl", "slurm"]), TEXTS),
    saved_gpu_hours=st.none() | NUMBERS,
    log=st.none() | TEXTS,
    not_comparable=st.none() | TEXTS,
    accepted=FIGURES,
    accepted_note=st.none() | TEXTS,
    definition=TEXTS,
    image=st.none() | TEXTS,
)
ENDURANCES = st.builds(
    Endurance,
    **dict.fromkeys(("attempts", "steps", "steps_lost"), st.integers(0)),
    **dict.fromkeys(("wall_s", "productive_s", "start_s", "checkpoint_s", "lost_s", "other_s", "mtbf_low_s"), NUMBERS),
    **dict.fromkeys(("mtbf_s", "mtbf_high_s", "drift"), st.none() | NUMBERS),
    causes=st.dictionaries(st.sampled_from([INFRASTRUCTURE, PROGRAM, SESSION, IN_JOB]), st.integers(1)),
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


@settings(deadline=None)
@given(record=RECORDS, endured=st.none() | ENDURANCES)
def test_a_record_reads_back_as_it_was_written(scratch: Path, record: Record, endured: Endurance | None) -> None:
    record = replace(record, endurance=endured)
    assert read_record(write_record(scratch, record)) == record == decode(encode(record))


def test_a_record_is_named_after_its_node_id(tmp_path: Path) -> None:
    path = write_record(tmp_path, SLOW)
    name = "baselines_maxtext_llama2_70b.yaml_llama2_70b_fp8_H100x128.json"
    assert path == tmp_path / "records" / name
    assert [entry.name for entry in path.parent.iterdir()] == [name]


def test_records_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b[x8]", "a[x16]", "a[x8-b]", "a[x8]"):
        write_record(tmp_path, varied(SLOW, node_id=name, row=name))
    in_order = ["a[x8]", "a[x8-b]", "a[x16]", "b[x8]"]
    assert [record.row.id for record in read_records(tmp_path)] == in_order
    assert [record.row.id for record in read_run(tmp_path)[0]] == in_order


def test_the_last_record_of_a_row_stands(tmp_path: Path) -> None:
    write_record(tmp_path, SLOW)
    write_record(tmp_path, replace(SLOW, fact="second"))
    assert [record.fact for record in read_records(tmp_path)] == ["second"]


def test_a_write_that_fails_leaves_the_old_record_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_record(tmp_path, SLOW)

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_record(tmp_path, replace(SLOW, fact="second"))
    assert read_records(tmp_path) == (SLOW,)


def test_a_draft_that_was_left_behind_is_no_record(tmp_path: Path) -> None:
    path = write_record(tmp_path, SLOW)
    path.with_name(f".{path.name}.{os.getpid()}").write_text("{")
    assert read_records(tmp_path) == (SLOW,)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_not_finite_is_never_written(tmp_path: Path, number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_record(tmp_path, replace(SLOW, figures=replace(SLOW.figures, measured={"mfu": number})))
    assert read_records(tmp_path) == ()


@pytest.mark.parametrize("version", [3, 0, "1", [1]])
def test_a_record_of_another_version(tmp_path: Path, version: object) -> None:
    path = write_record(tmp_path, SLOW)
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": version}))
    with pytest.raises(ValueError, match="version") as error:
        read_records(tmp_path)
    assert str(error.value) == f"{path} is no record: it is of version {version}, this pytest-gsw reads version 2"


def test_a_record_that_is_nested_to_any_depth_is_refused_in_words(tmp_path: Path) -> None:
    path = write_record(tmp_path, SLOW)
    fact = f'"fact": "{SLOW.fact}"'
    whole = path.read_text()
    assert fact in whole
    for depth in range(700, sys.getrecursionlimit()):
        path.write_text(whole.replace(fact, f'"fact": {"[" * depth}{"]" * depth}'))
        with pytest.raises(ValueError, match="is no record"):
            read_record(path)


WHOLE = json.loads(SLOW.text)


def changed(**values: Any) -> bytes:
    return json.dumps({**WHOLE, **values}).encode()


METRIC = json.loads(varied(SLOW, metrics=(MEMORY,)).text)["verdict"]["metrics"][0]


def decided(**values: Any) -> bytes:
    return changed(verdict={**WHOLE["verdict"], **values})


def by_metric(**values: Any) -> bytes:
    return decided(metrics=[{**METRIC, "metric": {**METRIC["metric"], **values}}])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "{} is no record: Expecting value: line 1 column 1 (char 0)"),
        (b"\xff", "{} is no record: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"[]", "{} is no record: it has no 'schema'"),
        (b'{"schema": 1}', "{} is no record: it has no 'run_id'"),
        (b"[" * 100_000, None),
        (
            changed(job={**WHOLE["job"], "state": "FOO"}),
            "{} is no record: 'job.state' is \"FOO\"",
        ),
        (changed(job={**WHOLE["job"], "colour": 1}), "{} is no record: it has an unknown key 'job.colour'"),
        (changed(job=[]), "{} is no record: 'job' is []"),
        (changed(attempts=[5]), "{} is no record: 'attempts' is [5]"),
        (changed(attempts=[WHOLE["job"], {}]), "{} is no record: it has no 'attempts.state'"),
        (
            changed(attempts=[{**WHOLE["job"], "state": "FOO"}]),
            "{} is no record: 'attempts.state' is \"FOO\"",
        ),
        (changed(gpus=True), "{} is no record: 'gpus' is true"),
        (changed(measured={"mfu": "high"}), '{} is no record: \'measured\' is {"mfu": "high"}'),
        (changed(measured={"mfu": math.inf}), "{} is no record: 'measured' is {\"mfu\": Infinity}"),
        (changed(median_s=10**400), "{} is no record: 'median_s' is 1" + 59 * "0" + "..."),
        (changed(series_s=[1.0, None]), "{} is no record: 'series_s' is [1.0, null]"),
        (
            json.dumps({**WHOLE, "colour": "red"}).encode(),
            "{} is no record: it has an unknown key 'colour'",
        ),
        (
            json.dumps({name: value for name, value in WHOLE.items() if name != "gpus"}).encode(),
            "{} is no record: it has no 'gpus'",
        ),
        (changed(outcome="passed"), '{} is no record: \'outcome\' is "passed", and that of its verdict "regressed"'),
        (changed(verdict=[]), "{} is no record: 'verdict' is []"),
        (changed(verdict={"outcome": "regressed"}), "{} is no record: it has no 'verdict.measured'"),
        (changed(verdict=None), "{} is no record: 'outcome' is \"regressed\", and it has no verdict"),
        (decided(outcome="splendid"), "{} is no record: 'verdict.outcome' is \"splendid\""),
        (decided(measured=math.nan), "{} is no record: 'verdict.measured' is NaN"),
        (decided(ranks={"ranks": [["3"]], "median_s": 5.0}), "{} is no record: 'verdict.ranks.ranks' is [[\"3\"]]"),
        (decided(mood=1), "{} is no record: it has an unknown key 'verdict.mood'"),
        (decided(documented=-1.5), "{} is no record: 'verdict.documented' is -1.5, wanted a number above 0"),
        (decided(jobs=[5.1, 0]), "{} is no record: 'verdict.jobs' is 0, wanted a number above 0"),
        (by_metric(key="Peak {x}"), "{} is no record: 'Peak {x}' is no key of a metric"),
        (by_metric(unit=5), "{} is no record: 'verdict.metrics.metric.unit' is 5"),
        (
            decided(metrics=[{**METRIC, "documented": 0}]),
            "{} is no record: 'peak_memory_gib.documented' is 0, wanted a number above 0",
        ),
        (
            decided(metrics=[{**METRIC, "measured": -1.5}]),
            "{} is no record: 'peak_memory_gib.measured' is -1.5, wanted a number above 0",
        ),
        (
            decided(metrics=[{**METRIC, "colour": "red"}]),
            "{} is no record: it has an unknown key 'verdict.metrics.colour'",
        ),
    ],
)
def test_a_file_that_is_no_record(tmp_path: Path, content: bytes, message: str | None) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is no record") as error:
        read_record(path)
    assert message is None or str(error.value) == message.replace("{}", str(path), 1)


def test_metrics_are_read_back(tmp_path: Path) -> None:
    job = replace(JOB, metrics={"peak_memory_gib": 70.1})
    record = varied(SLOW, metrics=(MEMORY,), own_outcome="passed", job=job)
    assert read_record(write_record(tmp_path, record)) == record
    assert (round(MEMORY.change, 4), MEMORY.allowed_change) == (0.1454, 0.05)
    higher = replace(MEMORY.metric, direction=Direction.HIGHER_IS_BETTER)
    assert replace(MEMORY, metric=higher).allowed_change == -0.05


def test_records_of_one_row_and_one_that_is_not_there_are_told(tmp_path: Path) -> None:
    one, two = (write_record(tmp_path, varied(SLOW, node_id=name)) for name in "ab")
    with pytest.raises(ValueError, match="both") as error:
        read_records(tmp_path)
    assert str(error.value) == f"{one} and {two} are both records of {SLOW.row.id}"
    with pytest.raises(ValueError, match="cannot be read") as error:
        read_record(tmp_path / "x.json")
    assert str(error.value) == wording("cannot be read", what=f"{tmp_path}/x.json", why="") + wording("no such file")


LOST = replace(
    JOB,
    id="481220",
    state=JobState.NODE_FAIL,
    nodes="pool0-0017",
    start_s=1000.0,
    end_s=1120.0,
    why_repeated="node failure",
)


def test_what_a_record_keeps_of_an_attempt() -> None:
    status = JobStatus(
        JobState.NODE_FAIL,
        raw_state="NODE_FAIL",
        exit_code=1,
        reason="NodeDown",
        nodes="n17",
        submit_s=1000.0,
        start_s=1030.0,
        end_s=1150.0,
    )
    kept = JobFacts.of("481220", "slurm", status, why_repeated="node failure")
    assert (kept.queue_s, kept.run_s, kept.why_repeated) == (30.0, 120.0, "node failure")
    assert kept.status == status
    assert JobFacts.of("481220", "slurm", status).why_repeated == ""
    assert JobFacts.of("481220", "slurm", kept).why_repeated == ""  # the status alone counts


@pytest.mark.parametrize(
    ("record", "gpu_seconds"),
    [
        (SLOW, 128 * 662.0),
        (varied(SLOW, attempts=(LOST, replace(LOST, id="481219", end_s=1030.0))), 128 * (662.0 + 120.0 + 30.0)),
        (varied(SLOW, attempts=(replace(LOST, start_s=None),)), 128 * 662.0),
        (varied(SLOW, job=replace(JOB, end_s=None)), 0.0),
        (varied(SLOW, job=None), 0.0),
        (varied(SLOW, job=None, attempts=(LOST,)), 128 * 120.0),
    ],
)
def test_what_the_jobs_of_a_row_have_cost(record: Record, gpu_seconds: float) -> None:
    assert used_gpu_hours(record) == pytest.approx(gpu_seconds / 3600)


def test_the_measured_jobs_are_the_repeats_and_then_the_last_one() -> None:
    first = replace(JOB, id="481220", judged=5.2)
    record = varied(SLOW, repeats=(first,), job=replace(JOB, judged=5.1))
    assert [(job.id, job.judged) for job in record.measured_jobs] == [("481220", 5.2), (JOB.id, 5.1)]
    (only,) = varied(SLOW, job=JOB).measured_jobs
    assert only.judged == SLOW.figures.measured["step_time_s"]


@pytest.mark.parametrize("change", [{"job": None}, {"measured": {}}])
def test_a_record_without_a_figure_or_a_job_has_no_measured_jobs(change: dict[str, Any]) -> None:
    assert varied(SLOW, **change).measured_jobs == ()


def test_runs_are_by_name_in_the_order_in_which_they_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = [1795212000.0, 1795212000.0003, 1795212000.5, 1795212000.99999, 1795212001.0]
    clock = iter(times_s)
    monkeypatch.setattr(time, "time", lambda: next(clock))
    ids = [new_run_id() for _ in times_s]
    assert ids == sorted(ids)
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", one) for one in ids)
    monkeypatch.setattr(time, "time", lambda: 1795212000.0)
    assert len({new_run_id() for _ in range(20)}) > 15


# -- verdicts --------------------------------------------------------------------------------------

#: By a rule of the site's own, with another tolerance than the session's, and with all that a verdict can say.
DECIDED = Verdict(
    Outcome.INCONCLUSIVE,
    measured=5.11,
    documented=4.556,
    tolerance=0.025,
    accepted=4.9,
    limit=0.03,
    noise=Noise(0.01, 24),
    jobs=(5.1, 5.12),
    steady_s=5.1,
    given_reason=Reason.RANKS_DIFFER,
    more=1,
    max_gain=0.25,
    ranks=RankSpread((("3", 6.0), ("node 7", 5.9)), 5.1),
    metrics=(replace(MEMORY, outcome=Outcome.PASSED),),
    own_outcome=Outcome.PASSED,
)


@pytest.mark.parametrize(
    "changes",
    [{}, {"outcome": "profiled", "not_comparable": "a profile"}, {"outcome": "error", "fact": "a hook raised"}],
)
def test_a_verdict_reads_back_as_it_was_decided(tmp_path: Path, changes: dict[str, Any]) -> None:
    record: Record = replace(replace(SLOW, outcome="inconclusive", verdict=DECIDED), **changes)
    read = read_record(write_record(tmp_path, record))
    assert read == record
    assert read.verdict == DECIDED
    assert decode(encode(record)) == record


def test_the_limit_of_a_rule_of_the_site_s_own_is_its_verdict_s() -> None:
    record = varied(SLOW, reason="slower than allowed")
    strict = replace(record, verdict=record.verdict and replace(record.verdict, tolerance=0.025))
    assert (record.limit, strict.limit, strict.row.tolerance) == (0.05, 0.025, 0.05)


def test_what_a_rule_of_the_site_s_own_keeps_beside_its_verdict_is_not_recorded(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Own(Verdict):
        model: object = None

    record = replace(SLOW, verdict=Own(**vars(DECIDED), model=object()), outcome="inconclusive")
    assert read_record(write_record(tmp_path, record)).verdict == DECIDED
