"""Jobs are counted by name: after submissions, before a row is handed over, and when the session ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from pytest_gsw.errors import JobError, SchedulerUnreachableError, SubmissionError
from pytest_gsw.executor.limits import Limits
from pytest_gsw.executor.phases import Queued, RowJobs, RowTable, SubmittedJob
from pytest_gsw.jobs.journal import Submission
from pytest_gsw.jobs.model import FoundJob, Job, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.stats.decision import Done, Repeat
from pytest_gsw.validation.run import Run
from tests.messages import wording
from tests.unit.executor.conftest import (
    COMPLETED,
    LOST_NODE,
    RUNNING,
    Clock,
    FakeLauncher,
    error_of,
    executor_of,
    spec,
    started,
)

FAILED = JobStatus(JobState.FAILED, exit_code=7, nodes="n001")
#: A job of the row ``a`` that no submission named.
STRAY = FoundJob("12", "gsw-a", RUNNING)
NO_ROWS = "the row has 1 job that no submission of it named: 12"


@dataclass
class Counted(FakeLauncher):
    """Knows all jobs by name: its own, and those that something else has submitted."""

    jobs: list[FoundJob] = field(default_factory=list)
    others: list[FoundJob] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    is_away: bool = False

    def submit(self, spec: JobSpec) -> Job:
        job = super().submit(spec)
        self.jobs.append(FoundJob(job.id, spec.name, COMPLETED))
        return job

    def named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[FoundJob, ...]:
        self.asked.append(len(specs))
        if self.is_away:
            raise SchedulerUnreachableError("nobody answers", advice="squeue --me")
        return (*self.jobs, *self.others)


def test_a_job_that_no_submission_named_is_ended_and_its_row_is_an_error(clock: Clock) -> None:
    launcher = Counted(clock, {"a": [RUNNING]}, others=[STRAY, FoundJob("3", "x", RUNNING)])
    executor = started(launcher, "ab")
    assert str(error_of(executor)) == (
        f"{NO_ROWS}\n\n"
        "no row's   12 gsw-a RUNNING\n"
        "next       let the recipe submit one job for a row, and name it; then run the row again"
    )
    assert launcher.cancelled == [["a", "a"]], "the row's own job and the other one, with one request"
    assert [seen.cancelled for seen in executor.rows.strays.values()] == [True]
    assert executor.result_of("b").job_id == "job-b"
    assert executor.close() == 0
    assert executor.rows.late == {}


def test_a_child_that_its_job_submits_as_it_ends(clock: Clock) -> None:
    launcher = Counted(clock, {"a": [RUNNING, RUNNING, COMPLETED]})
    executor = started(launcher)
    executor.attach(launcher.submit(spec("b")), Submission(0.0))
    assert executor.result_of("b").job_id == "job-b"
    launcher.others.append(FoundJob("12", "gsw-a", FAILED))
    assert error_of(executor).fact == NO_ROWS
    assert not any(launcher.cancelled), "both have ended"


def test_many_submissions_and_ends_are_one_question(clock: Clock) -> None:
    launcher = Counted(clock, {str(row): [RUNNING] * 4 + [COMPLETED] for row in range(100)}, parallel_submissions=1)
    executor = started(launcher, [str(row) for row in range(100)])
    for _ in range(100):
        executor.result_of(executor.next_finished())
    assert len(launcher.polls) == 5
    executor.count()
    executor.close()
    assert launcher.asked == [100, 100], "after the submissions, and as all have ended"


def test_polls_that_list_all_jobs_count_them(clock: Clock) -> None:
    class Listing(Counted):
        def named_in_poll(self, specs: Sequence[JobSpec]) -> Sequence[FoundJob]:
            listed = (*self.jobs, *self.others)
            self.others.append(STRAY)
            return listed

    launcher = Listing(clock, {"a": [RUNNING, RUNNING, COMPLETED], "b": [RUNNING]})
    executor = started(launcher, "ab")
    assert error_of(executor).fact == NO_ROWS
    assert len(launcher.polls) == 2, "the first one was before that job"
    assert launcher.asked == []
    executor.count()
    executor.close()
    assert launcher.asked == [2], "once more, after the last submission"


@pytest.mark.parametrize("after", ["an end", "unknown", "a submission", "a refusal", "a failed count"])
def test_what_the_last_poll_does_not_prove_is_counted_as_the_session_ends(clock: Clock, after: str) -> None:
    """A poll counts all jobs; what follows it, and a job whose end it does not show, are counted once more."""
    last = replace(COMPLETED, state=JobState.UNKNOWN) if after == "unknown" else COMPLETED
    launcher = Counted(clock, {"a": [RUNNING, last]}, refused=("b",), is_away=after == "a failed count")
    executor = started(launcher)
    executor.result_of("a")
    launcher.asked, launcher.is_away = [], False
    if after in {"a submission", "a refusal"}:
        executor.submit({row: spec(row) for row in ("c" if after == "a submission" else "b")})
    launcher.others.append(STRAY)
    executor.close(detach=True)
    is_counted = after == "an end"
    assert launcher.asked == ([] if is_counted else [2] if after in {"a submission", "a refusal"} else [1])
    assert list(executor.rows.strays) == ([] if is_counted else ["12"])


def test_a_count_at_the_end_that_failed_is_repeated(clock: Clock) -> None:
    launcher = Counted(clock, is_away=True)
    executor = started(launcher)
    executor.result_of("a")
    launcher.asked = []
    executor.count()
    launcher.is_away = False
    executor.close()
    assert launcher.asked == [1, 1]


def test_a_job_that_is_found_when_its_row_was_handed_out(clock: Clock) -> None:
    launcher = Counted(clock, {"b": [RUNNING] * 9})
    executor = started(launcher, "ab")
    executor.result_of("a")
    launcher.others.append(STRAY)
    assert executor.close(detach=True) == 0
    assert launcher.cancelled == [["a"]], "nobody else would end it"
    assert list(executor.rows.late) == ["a"]


def test_a_job_that_cannot_be_ended_is_told(clock: Clock) -> None:
    class Deaf(Counted):
        def cancel(self, jobs: Sequence[Job]) -> None:
            raise JobError("jobs may still run", advice="scancel 12")

    launcher = Deaf(clock, others=[STRAY])
    executor = started(launcher)
    assert error_of(executor).fact == NO_ROWS
    with pytest.raises(JobError, match="jobs may still run"):
        executor.close()


def test_repeats_retries_and_what_went_before_are_the_rows_own(clock: Clock) -> None:
    wanted = [Repeat("to be confirmed")]

    def decide(_row_id: str, _run: Run) -> Repeat | Done:
        return wanted.pop() if wanted else Done()

    launcher = Counted(clock, {"a": [LOST_NODE, COMPLETED]})
    executor = started(launcher, retries=1, decide=decide)
    assert executor.result_of("a").job_id == "job-a.3"
    assert [job.name for job in launcher.jobs] == ["gsw-a", "again2.gsw-a", "again3.gsw-a"]
    executor.close()
    assert executor.rows.strays == {}


def test_a_job_of_an_attempt_that_no_submission_named(clock: Clock) -> None:
    """While its row waits to be submitted again: it is not."""
    launcher = Counted(clock, {"a": [LOST_NODE], "b": [RUNNING] * 3 + [COMPLETED]})
    executor = started(launcher, "ab", retries=1)
    launcher.others.append(STRAY)
    assert error_of(executor).fact == NO_ROWS
    executor.result_of("b")
    assert launcher.submitted == ["a", "b"]


def test_names_that_other_sessions_have_as_well_tell_nothing(clock: Clock) -> None:
    launcher = Counted(clock, others=[STRAY])
    executor = executor_of(launcher)
    executor.submit({"a": spec(unique_name=False)})
    assert executor.result_of("a").job_id == "job-a"
    executor.close()
    assert (launcher.asked, launcher.cancelled) == ([], [])


def test_a_refused_row_may_have_left_a_job(clock: Clock) -> None:
    launcher = Counted(clock, refused=("a",), others=[STRAY])
    executor = started(launcher)
    assert error_of(executor, kind=SubmissionError).fact == "a was refused"
    executor.close()
    assert launcher.cancelled == [["a"]]
    assert [seen.job.id for seen in executor.rows.strays.values()] == ["12"]
    assert executor.rows.late == {}


def test_a_submission_whose_answer_is_awaited_may_own_the_job(clock: Clock) -> None:
    class Slow(Counted):
        def submit(self, spec: JobSpec) -> Job:
            job = super().submit(spec)
            if spec.row_id == "b" and not self.asked:
                raise SchedulerUnreachableError("slurmctld does not answer")
            return job

        def find(self, spec: JobSpec, since_s: float) -> Job | None:
            return Job(f"job-{spec.row_id}", spec, since_s) if self.asked else None

    launcher = Slow(clock)
    executor = started(launcher, "ab")
    assert [executor.result_of(row).job_id for row in ("a", "b")] == ["job-a", "job-b"]
    executor.close()
    assert (launcher.cancelled, executor.rows.strays) == ([], {})


def test_an_answer_that_is_missing_is_asked_for_again_and_told_in_the_end(clock: Clock) -> None:
    launcher = Counted(clock, {"a": [RUNNING, COMPLETED]}, is_away=True)
    executor = started(launcher)
    executor.result_of("a")
    assert launcher.asked == [1, 1]
    with pytest.raises(JobError) as told:
        executor.close()
    assert str(told.value) == (wording("other jobs unknown", why="nobody answers") + "\n\nnext       squeue --me")
    assert launcher.closed == 1


def test_a_job_that_a_script_names_while_the_jobs_are_counted(clock: Clock) -> None:
    """As one that imports a checkpoint: the scheduler lists it before its launch script has said that it is the row's."""
    launcher = Counted(clock, others=[FoundJob("11", "gsw-a", RUNNING), FoundJob("12", "gsw-b", RUNNING)])
    rows = RowTable(launcher, Limits())

    def answer(row_id: str) -> None:
        job = launcher.submit(spec(row_id))
        rows.claims.job(job)
        rows.activate(RowJobs(row_id, spec(row_id)), SubmittedJob(job))

    for row_id in ("a", "b"):
        rows.queue(Queued(RowJobs(row_id, spec(row_id))), first=False)
        rows.begin()
    answer("b")
    count = rows.count(has_reason=True)
    answer("a")
    rows.hold(count)
    assert [seen.job.id for seen in rows.strays.values()] == ["12"]
    assert list(rows.active) == ["a"]


def test_a_launcher_that_cannot_be_asked_by_name(clock: Clock) -> None:
    executor = started(FakeLauncher(clock))
    assert executor.result_of("a").job_id == "job-a"
    assert executor.close() == 0


def test_a_resumed_rows_jobs_are_its_own(clock: Clock) -> None:
    launcher = Counted(clock, {"a": [RUNNING, COMPLETED]}, others=[FoundJob("7", "gsw-a", RUNNING)])
    executor = executor_of(launcher)
    executor.attach(replace(launcher.submit(spec()), id="7"), Submission(0.0))
    launcher.jobs.clear()
    assert executor.result_of("a").job_id == "7"
    executor.close()
    assert executor.rows.strays == {}


def test_the_jobs_of_a_resumed_row_that_cannot_be_taken_over_are_ended(clock: Clock) -> None:
    launcher = Counted(clock, others=[FoundJob("7", "gsw-a", RUNNING), FoundJob("8", "gsw-a", RUNNING)])
    executor = executor_of(launcher)
    executor.rows.started["a"] = spec()
    executor.submit({"a": SubmissionError("2 jobs have the name")})
    assert error_of(executor, kind=SubmissionError).fact == "2 jobs have the name"
    executor.count()
    executor.close()
    assert [seen.job.id for seen in executor.rows.strays.values()] == ["7", "8"]
    assert launcher.cancelled == [["a", "a"]]
    assert executor.rows.late == {}
