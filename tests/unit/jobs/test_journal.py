"""What a session has submitted, written down line by line, and read again after its end."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.journal import COPY, NAME, Journal, RunState, Submission, read_journal
from pytest_gsw.jobs.model import Attempt, EarlyStop, Job, JobSpec, LogBefore
from pytest_gsw.jobs.states import JobState, JobStatus, JobStep
from tests.messages import wording

SPEC = JobSpec("a", "gsw-a", Path("/r/launch.sh"), Path("/r"), Path("/s"), 1, 8, {})
LOST = JobStatus(
    JobState.NODE_FAIL,
    raw_state="NODE_FAIL",
    exit_code=1,
    signal=9,
    reason="NodeDown",
    nodes="n[17-18]",
    submit_s=1000.0,
    start_s=1030.5,
    end_s=1100.0,
)
GOOD = JobStatus(JobState.COMPLETED, exit_code=0)
AGAIN = Attempt("7", LOST, "node failure", ("n17", "n18"))
STOP = EarlyStop("stalled at step 17 of 50: no new step for 10m00s", "look for the rank", 1234.5)


def spec(row_id: str = "a") -> JobSpec:
    return replace(SPEC, row_id=row_id, name=f"gsw-{row_id}")


def job(job_id: str, row_id: str = "a", submitted_s: float = 1000.0) -> Job:
    return Job(job_id, spec(row_id), submitted_s)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    journal.session("eos", ["t.yaml::a", "t.yaml::b"])
    return journal


@pytest.fixture
def running(journal: Journal) -> Journal:
    """A journal that tells of job 7."""
    journal.intents([spec()], 999.5)
    journal.submitted(job("7"))
    return journal


def read(tmp_path: Path, row_id: str = "a") -> Submission | None:
    return read_journal(tmp_path).submissions.get(row_id)


def known(tmp_path: Path, row_id: str = "a") -> Submission:
    submission = read(tmp_path, row_id)
    assert submission is not None
    return submission


def test_the_journal_is_the_users_own(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        journal = Journal(tmp_path / "run")
        journal.session("eos", [])
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "run", *(tmp_path / "run").iterdir())}
    assert modes == {"run": 0o700, "journal.jsonl": 0o600, "session.jsonl": 0o600}


def test_each_line_is_on_the_disk_at_once(tmp_path: Path, journal: Journal) -> None:
    journal.intents([spec()], 999.5)
    assert read(tmp_path) == Submission(999.5)
    journal.submitted(job("7"))
    assert read(tmp_path) == Submission(1000.0, "7")
    journal.ended((job("7"), LOST))
    assert read(tmp_path) == Submission(1000.0, "7", ended=LOST)


def test_what_a_row_was_when_it_was_submitted(tmp_path: Path, journal: Journal) -> None:
    first = replace(spec(), definition="3f2a9c1d0e4b", image="x.sqsh")
    journal.intents([first], 999.5)
    line = (tmp_path / NAME).read_text().splitlines()[-1]
    assert json.loads(line)["definition"] == "3f2a9c1d0e4b"
    assert read(tmp_path) == Submission(999.5, definition="3f2a9c1d0e4b", image="x.sqsh")
    journal.submitted(job("7"))
    assert read(tmp_path) == Submission(1000.0, "7", definition="3f2a9c1d0e4b", image="x.sqsh")
    journal.ended((job("7"), LOST))
    journal.repeated("a", AGAIN)
    journal.intents([replace(first, definition="000000000000")], 1999.5)
    assert read(tmp_path) == Submission(1999.5, attempts=(AGAIN,), definition="000000000000", image="x.sqsh")


def test_of_two_submissions_without_an_answer_nobody_knows_which_got_through(tmp_path: Path, journal: Journal) -> None:
    first = replace(spec(), definition="3f2a9c1d0e4b")
    journal.intents([first], 999.5)
    journal.intents([first], 1999.5)
    assert read(tmp_path) == Submission(999.5, definition="3f2a9c1d0e4b")
    journal.intents([replace(first, definition="000000000000")], 2999.5)
    assert read(tmp_path) == Submission(999.5)


def test_the_variables_that_a_job_was_given(tmp_path: Path, journal: Journal) -> None:
    first = replace(spec(), definition="3f2a9c1d0e4b", variables={"NCCL_IB_DISABLE": "1"})
    journal.intents([first], 999.5)
    assert read(tmp_path) == Submission(999.5, definition="3f2a9c1d0e4b", variables={"NCCL_IB_DISABLE": "1"})
    journal.intents([replace(first, variables={})], 1999.5)  # nobody knows which of the two got through
    assert read(tmp_path) == Submission(999.5, definition="3f2a9c1d0e4b")


def test_which_jobs_may_be_a_submissions() -> None:
    assert Submission(1.0, "7").is_of("7")
    assert not Submission(1.0, "7").is_of("8")
    assert Submission(1.0).is_of("8")
    assert not Submission(0.0).is_of("8")


@pytest.mark.parametrize("state", JobState)
def test_how_a_job_ended_reads_back_in_full(tmp_path: Path, running: Journal, state: JobState) -> None:
    status = replace(LOST, state=state)
    running.ended((job("7"), status))
    assert known(tmp_path).ended == status


def test_a_row_that_was_refused_was_not_submitted(tmp_path: Path, journal: Journal) -> None:
    journal.intents([spec()], 999.5)
    journal.refused("a")
    assert read(tmp_path) is None
    journal.intents([spec()], 1999.5)
    assert read(tmp_path) == Submission(1999.5)


def test_why_a_job_was_ended_early(tmp_path: Path, running: Journal) -> None:
    running.stopped(job("7"), STOP)
    assert read(tmp_path) == Submission(1000.0, "7", stopped=STOP)
    running.ended((job("7"), GOOD))
    assert read(tmp_path) == Submission(1000.0, "7", ended=GOOD, stopped=STOP)
    running.stopped(job("7"), EarlyStop("slow start"))
    assert known(tmp_path).stopped == EarlyStop("slow start")


def test_a_job_that_its_session_cancelled(tmp_path: Path, running: Journal) -> None:
    running.cancelled(job("8"))  # of no concern to the row's job
    assert read(tmp_path) == Submission(1000.0, "7")
    running.cancelled(job("7"))
    assert read(tmp_path) == Submission(1000.0, "7", cancelled=True)
    running.ended((job("7"), GOOD))
    assert read(tmp_path) == Submission(1000.0, "7", ended=GOOD, cancelled=True)
    running.repeated("a", AGAIN)
    running.intents([spec()], 1999.5)
    running.submitted(job("9", submitted_s=2000.0))
    assert not known(tmp_path).cancelled


def test_a_row_of_three_attempts(tmp_path: Path, journal: Journal) -> None:
    second = Attempt("8", replace(LOST, state=JobState.PREEMPTED), "preemption")
    for attempt in (AGAIN, second):
        journal.intents([spec()], 999.5)
        journal.submitted(job(attempt.job_id))
        journal.stopped(job(attempt.job_id), STOP)  # of no concern to the next attempt
        journal.ended((job(attempt.job_id), attempt.status))
        journal.repeated("a", attempt)
    journal.intents([spec()], 1999.5)
    assert read(tmp_path) == Submission(1999.5, attempts=(AGAIN, second))
    journal.submitted(job("9", submitted_s=2000.0))
    assert read(tmp_path) == Submission(2000.0, "9", attempts=(AGAIN, second))
    journal.ended((job("9"), GOOD))
    assert read(tmp_path) == Submission(2000.0, "9", ended=GOOD, attempts=(AGAIN, second))


def test_an_attempt_that_is_refused_keeps_the_earlier_ones(tmp_path: Path, running: Journal) -> None:
    running.ended((job("7"), LOST))
    running.repeated("a", AGAIN)
    running.intents([spec()], 1999.5)
    running.refused("a")
    assert read(tmp_path) == Submission(0.0, attempts=(AGAIN,))


def test_an_intent_after_a_lost_answer_keeps_the_first_time(tmp_path: Path, running: Journal) -> None:
    running.ended((job("7"), LOST))
    running.repeated("a", AGAIN)
    running.intents([spec()], 2000.0)
    running.intents([spec()], 2500.0)
    assert read(tmp_path) == Submission(2000.0, attempts=(AGAIN,))


def test_a_row_that_is_submitted_anew_has_a_new_submission(tmp_path: Path, running: Journal) -> None:
    # As of jobs that end with their session.
    running.stopped(job("7"), STOP)
    running.intents([spec()], 1999.5)
    assert read(tmp_path) == Submission(1999.5)


def test_rows_do_not_mix(tmp_path: Path, journal: Journal) -> None:
    for number, row_id in enumerate("ab"):
        journal.intents([spec(row_id)], 999.5 + number)
    journal.submitted(job("8", "b"))
    journal.submitted(job("7", "a"))
    journal.ended((job("8", "b"), GOOD))
    journal.refused("c")
    journal.ended((job("9", "c"), GOOD))
    assert read_journal(tmp_path).submissions == {
        "a": Submission(1000.0, "7"),
        "b": Submission(1000.0, "8", ended=GOOD),
    }


def test_a_later_session_has_other_rows_and_the_same_jobs(tmp_path: Path, running: Journal) -> None:
    running.close()
    later = Journal(tmp_path)
    later.session("eos", ["t.yaml::a"])
    later.ended((job("7"), LOST))
    later.repeated("a", AGAIN)
    later.close()
    rows = ("t.yaml::a", "t.yaml::b")  # of the run, though the later session left one out
    assert read_journal(tmp_path) == RunState("eos", rows, {"a": Submission(0.0, attempts=(AGAIN,))})


def test_a_repetition_of_a_job_whose_end_was_not_written_says_nothing(tmp_path: Path, running: Journal) -> None:
    running.repeated("a", AGAIN)
    assert read(tmp_path) == Submission(1000.0, "7")


def test_a_repetition_whose_own_end_is_lost_has_not_the_times_of_another_job(tmp_path: Path, journal: Journal) -> None:
    ended = JobStatus(JobState.COMPLETED, exit_code=0, submit_s=1.0, start_s=2.0, end_s=3.0)
    journal.intents([SPEC], 1.0)
    journal.ended((Job("1", SPEC, 1.0), ended))
    journal.repeated(SPEC.row_id, Attempt("2", ended, "1 of 2", measured=True))
    (attempt,) = read_journal(tmp_path).submissions[SPEC.row_id].attempts
    assert (attempt.status.submit_s, attempt.status.start_s, attempt.status.end_s) == (None, None, None)
    assert attempt.status.state is JobState.COMPLETED


def test_one_event_is_one_line_whatever_its_text_holds(tmp_path: Path, journal: Journal) -> None:
    reason = 'a\nb\r\u2028"\\\ud800'
    journal.intents([spec("a\nb")], 999.5)
    journal.submitted(job("7", "a\nb"))
    journal.ended((job("7", "a\nb"), replace(LOST, reason=reason)))
    assert (tmp_path / NAME).read_bytes().count(b"\n") == 4
    assert known(tmp_path, "a\nb").ended == replace(LOST, reason=reason)


def test_a_disk_that_takes_a_line_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journal: Journal) -> None:
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, data[:7]))
    journal.intents([spec()], 999.5)
    journal.submitted(job("7"))
    assert read(tmp_path) == Submission(1000.0, "7")


def test_no_journal_or_one_of_no_session(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_journal(tmp_path)
    assert str(error.value) == wording("no run to resume", path=tmp_path, why="journal.jsonl: ") + wording(
        "no such file"
    )
    Journal(tmp_path).intents([spec()], 999.5)
    with pytest.raises(ConfigurationError) as error:
        read_journal(tmp_path)
    assert str(error.value) == f"no run to resume in {tmp_path}: journal.jsonl names no session"


# -- any life of a journal ----------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["intents", "submitted", "refused", "ended", "stopped", "repeated", "session", "reopened"]),
        st.sampled_from(["a", "b", "ä::[x]"]),
        st.integers(1, 99).map(str),
    ),
    max_size=25,
)


def write_all(folder: Path, events: list[tuple[str, str, str]]) -> None:
    journal = Journal(folder)
    journal.session("eos", ["a", "b"])
    for event, row_id, job_id in events:
        if event == "reopened":
            journal.close()
            journal = Journal(folder)
            continue
        its = job(job_id, row_id)
        arguments: dict[str, tuple[object, ...]] = {
            "session": ("eos", ["a"]),
            "intents": ([its.spec], 999.5),
            "submitted": (its,),
            "refused": (row_id,),
            "ended": ((its, LOST),),
            "stopped": (its, STOP),
            "repeated": (row_id, Attempt(job_id, LOST, "node failure", ("n17",))),
        }
        getattr(journal, event)(*arguments[event])
    journal.close()
    (folder / COPY).unlink()  # of which other tests are


def job_ids(past: RunState) -> set[tuple[str, str]]:
    """By row, the jobs that a journal tells of."""
    found = set()
    for row_id, submission in past.submissions.items():
        found |= {(row_id, attempt.job_id) for attempt in submission.attempts}
        if submission.job_id is not None:
            found.add((row_id, submission.job_id))
    return found


@given(events=EVENTS, data=st.data())
def test_any_beginning_of_a_journal_is_readable_and_tells_of_no_job_that_was_not_written(
    events: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_all(folder, events)
        content = (folder / NAME).read_bytes()
        written = {(row_id, job_id) for event, row_id, job_id in events if event != "session"}
        first = content.index(b"\n")
        for cut in {len(content), data.draw(st.integers(first, len(content))), data.draw(st.integers(0, first - 1))}:
            (folder / NAME).write_bytes(content[:cut])
            if cut < first:
                with pytest.raises(ConfigurationError):
                    read_journal(folder)
                continue
            past = read_journal(folder)
            assert (past.cluster, set(past.rows) <= {"a", "b"}) == ("eos", True)
            assert job_ids(past) <= written
            # A later session writes on, and loses nothing but the line that is cut.
            later = Journal(folder)
            later.intents([spec("later")], 1999.5)
            later.close()
            assert read_journal(folder).submissions == {**past.submissions, "later": Submission(1999.5)}


def test_what_was_there_before_a_job_and_how_its_steps_ended_is_kept(tmp_path: Path, journal: Journal) -> None:
    there = (LogBefore("results/24.11/log_7.out", 12, 345, 1_700_000_000_123_456_789),)
    steps = (JobStep("0", "train", JobState.FAILED, "FAILED", 1, 0, "n1", 1001.0, 1002.0),)
    ended = replace(GOOD, steps=steps, derived_exit_code="1:0", unchecked="nobody tells", siblings=("8",))
    for noted in (there, (), None):
        journal.intents([spec()], 1000.0)
        journal.submitted(replace(job("7"), logs_before=noted))
        journal.ended((job("7"), ended))
        told = known(tmp_path)
        assert told.logs_before == noted
        assert told.ended is not None
        assert replace(told.ended, raw_state="") == ended
