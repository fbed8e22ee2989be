"""What a session says of jobs and rows of the run that it resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.journal import Journal, RunState, Submission
from pytest_gsw.jobs.run_lock import RunLock
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.results.record import write_record
from pytest_gsw.session import resume
from pytest_gsw.session.state import SESSION, Session
from pytest_gsw.tables.model import BLANK
from tests.messages import wording
from tests.unit.results.records import SLOW
from tests.unit.session.sessions import EOS, SETTINGS, replay_of, state_of

RUNNING = Submission(1.0, "7", name="gsw-a")
LOST = Submission(1.0, None, name="gsw-b")
ENDED = Submission(1.0, "9", ended=JobStatus(JobState.COMPLETED), name="gsw-c")
NEVER = Submission(0.0)


def config(state: Session) -> Any:
    stash = pytest.Stash()
    stash[SESSION] = state
    return SimpleNamespace(stash=stash)


def vanished(submission: Submission | None, row_id: str = "a[H100x8]", **settings: Any) -> str:
    return resume._vanished_text(row_id, submission, config(state_of(**settings)))


def test_only_jobs_that_may_run_are_left_alone() -> None:
    past = RunState("eos", (), submissions={"a": RUNNING, "b": LOST, "c": ENDED, "d": NEVER})
    assert resume._active_submissions(past, ["a", "b", "c", "d", "e"]) == [RUNNING, LOST]
    text = resume._left_alone_text(past, ["t::a", "t::b", "t::c"])
    assert "2 jobs" in text
    assert "7, one called gsw-b" in text
    assert resume._left_alone_text(past, ["t::c"]) == ""


@pytest.mark.parametrize(
    ("submission", "words"),
    [
        (RUNNING, "scancel 7"),
        (LOST, "squeue --me --name=gsw-b"),
        (ENDED, "its job 9 has ended COMPLETED"),
        (NEVER, "it was never submitted"),
        (None, "it was never submitted"),
    ],
)
def test_a_row_that_vanished_and_its_job(submission: Submission | None, words: str) -> None:
    assert words in vanished(submission, cluster=EOS)


def test_the_job_of_another_cluster_of_slurm_is_ended_there() -> None:
    assert "scancel --clusters=other 7" in vanished(
        RUNNING, cluster=replace(EOS, submission=replace(EOS.submission, sbatch=("--clusters=other",)))
    )


def test_a_row_that_was_filled_in_has_another_name() -> None:
    assert "run the row anew" in vanished(None, f"a[{BLANK}x8]")


def test_a_replayed_row_that_vanished_has_no_job() -> None:
    assert "--gsw-baselines" in vanished(RUNNING, replay=replay_of("/run"))


def test_a_run_that_goes_on_and_what_is_left_of_it(tmp_path: Path) -> None:
    past = RunState("eos", (SLOW.row.node_id, "t.yaml::b", "t.yaml::c"))
    assert resume.resume_summary(tmp_path, past).endswith(wording("rows judged", done=0, rows=3, left="3 are"))
    write_record(tmp_path, SLOW)
    assert resume.resume_summary(tmp_path, past).endswith(wording("row judged", done=1, rows=3, left="2 are"))


def test_a_session_owns_its_run_and_goes_on_with_the_journal(tmp_path: Path) -> None:
    state = state_of(output=replace(SETTINGS.output, results=tmp_path), past=RunState("eos", ()))
    directory = state.settings.run_directory
    Journal(directory).session("eos", ["t.yaml::a"])
    past, journal = resume.own_run(state, print)
    assert past is not None
    assert (past.rows, journal is None, state.lock is None) == (("t.yaml::a",), False, False)
    with pytest.raises(ConfigurationError):
        RunLock(directory).take(print)
    assert state.lock is not None
    state.lock.release()


def test_a_replay_owns_nothing(tmp_path: Path) -> None:
    state = state_of(output=replace(SETTINGS.output, results=tmp_path), replay=replay_of("/run"))
    assert resume.own_run(state, print) == (None, None)
    assert state.lock is None
    assert state.settings.run_directory.is_dir()


def test_a_directory_without_room() -> None:
    full, other = OSError(28, "No space left on device"), OSError(13, "Permission denied")
    assert "make room there" in str(resume.unwritable(Path("/x"), full))
    assert "make room there" not in str(resume.unwritable(Path("/x"), other))
