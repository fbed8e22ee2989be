from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError, RunError, SubmissionError
from pytest_gsw.examine import Run
from pytest_gsw.fleet import UNKNOWN_LIMIT_S, Fleet
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus

POLL_S = 15.0
PENDING = JobStatus(JobState.PENDING)
RUNNING = JobStatus(JobState.RUNNING)
COMPLETED = JobStatus(JobState.COMPLETED, exit_code=0)
FAILED = JobStatus(JobState.FAILED, exit_code=1)
REPLAYED = JobStatus(JobState.REPLAYED)
UNKNOWN = JobStatus(JobState.UNKNOWN, reason="slurmctld is out of reach")


def spec(row_id: str) -> JobSpec:
    stage = Path("/stage")
    return JobSpec(row_id, row_id, stage / "launch.sh", stage, stage, nodes=1, gpus=8, environment={})


@dataclass
class Clock:
    """Time that passes only while somebody sleeps."""

    now_s: float = 1000.0
    slept_s: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds
        self.slept_s.append(seconds)


@dataclass
class FakeLauncher:
    """A launcher that answers from a script: for each row its statuses, the last of them for ever."""

    clock: Clock
    script: dict[str, list[JobStatus | None]] = field(default_factory=dict)
    #: When each row's log appears; ``None`` for never.
    log_at_s: dict[str, float | None] = field(default_factory=dict)
    log_wait_s: float = 60.0
    poll_interval_s: float = 15.0
    parallel_submissions: int = 1
    jobs_outlive_session: bool = True
    name: str = "fake"
    refused: tuple[str, ...] = ()
    polls: list[list[str]] = field(default_factory=list)
    cancelled: list[list[str]] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    looked_for_log: int = 0
    closed: int = 0

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        return (spec.name,)

    def submit(self, spec: JobSpec) -> Job:
        self.submitted.append(spec.row_id)
        if spec.row_id in self.refused:
            raise SubmissionError(f"{spec.row_id} was refused")
        return Job(f"job-{spec.row_id}", spec, self.clock.now_s)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        return None

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        self.polls.append([job.spec.row_id for job in jobs])
        answers = {}
        for job in jobs:
            steps = self.script.get(job.spec.row_id, [COMPLETED])
            status = steps.pop(0) if len(steps) > 1 else steps[0]
            if status is not None:
                answers[job.id] = status
        return answers

    def cancel(self, jobs: Sequence[Job]) -> None:
        self.cancelled.append([job.spec.row_id for job in jobs])

    def find_log(self, job: Job) -> Path:
        self.looked_for_log += 1
        appears_s = self.log_at_s.get(job.spec.row_id, 0.0)
        if appears_s is None or self.clock.now_s < appears_s:
            raise LogError(f"no log of {job.id}")
        return Path(f"/stage/{job.id}.out")

    def batch_output(self, job: Job) -> Path | None:
        return Path(f"/stage/slurm-{job.id}.out")

    def close(self) -> None:
        self.closed += 1


@dataclass
class Seen:
    """Every change that an observer is told of."""

    changes: list[tuple[str, str, JobStatus]] = field(default_factory=list)

    def __call__(self, row_id: str, job_id: str, status: JobStatus) -> None:
        self.changes.append((row_id, job_id, status))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def launcher(clock: Clock) -> FakeLauncher:
    return FakeLauncher(clock)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def fleet(launcher: FakeLauncher, seen: Seen, clock: Clock) -> Fleet:
    return Fleet(launcher, POLL_S, observer=seen, clock=clock, sleep=clock.sleep)


def test_an_ended_job_comes_with_its_log(fleet: Fleet) -> None:
    fleet.submit({"a": spec("a")})
    assert fleet.take("a") == Run("job-a", COMPLETED, Path("/stage/job-a.out"), Path("/stage/slurm-job-a.out"))


def test_every_row_is_submitted_before_the_first_is_waited_for(fleet: Fleet, launcher: FakeLauncher) -> None:
    fleet.submit({name: spec(name) for name in "abc"})
    assert (launcher.submitted, launcher.polls) == (["a", "b", "c"], [])


def test_one_question_for_all_jobs_whatever_their_number(fleet: Fleet, launcher: FakeLauncher) -> None:
    names = [f"row{number}" for number in range(500)]
    launcher.script = {name: [PENDING, RUNNING, COMPLETED] for name in names}
    fleet.submit({name: spec(name) for name in names})
    for name in names:
        fleet.take(name)
    assert launcher.polls == [names] * 3


def test_jobs_that_have_ended_are_not_asked_about_again(fleet: Fleet, launcher: FakeLauncher) -> None:
    launcher.script = {"a": [RUNNING, RUNNING, COMPLETED], "b": [COMPLETED]}
    fleet.submit({"a": spec("a"), "b": spec("b")})
    fleet.take("b")
    fleet.take("a")
    fleet.take("b")
    assert launcher.polls == [["a", "b"], ["a"], ["a"]]


def test_questions_are_the_poll_interval_apart(fleet: Fleet, launcher: FakeLauncher, clock: Clock) -> None:
    launcher.script = {"a": [PENDING, RUNNING, COMPLETED]}
    fleet.submit({"a": spec("a")})
    fleet.take("a")
    assert clock.slept_s == [POLL_S, POLL_S]


def test_a_row_that_cannot_be_submitted_keeps_its_error(fleet: Fleet, launcher: FakeLauncher) -> None:
    unfit = SubmissionError("100 GPUs do not fill whole nodes")
    launcher.refused = ("refused",)
    fleet.submit({"unfit": unfit, "refused": spec("refused"), "fine": spec("fine")})
    with pytest.raises(SubmissionError) as raised:
        fleet.take("unfit")
    assert raised.value is unfit
    with pytest.raises(SubmissionError, match="refused was refused"):
        fleet.take("refused")
    assert fleet.take("fine").status is COMPLETED
    assert launcher.submitted == ["refused", "fine"]
    assert launcher.polls == [["fine"]]


def test_what_is_known_of_a_row(fleet: Fleet, launcher: FakeLauncher) -> None:
    launcher.refused = ("refused",)
    launcher.script = {"a": [RUNNING], "b": [COMPLETED]}
    fleet.submit({"a": spec("a"), "b": spec("b"), "refused": spec("refused")})
    assert (fleet.status("a"), fleet.job_id("a")) == (PENDING, "job-a")
    fleet.take("b")
    assert (fleet.status("a"), fleet.status("b")) == (RUNNING, COMPLETED)
    assert (fleet.knows("refused"), fleet.status("refused"), fleet.job_id("refused")) == (True, None, None)
    assert (fleet.knows("other"), fleet.status("other"), fleet.job_id("other")) == (False, None, None)


@pytest.mark.parametrize("unknown", [UNKNOWN, None], ids=["unknown", "no-answer"])
def test_unknown_is_not_an_end_before_the_limit(
    fleet: Fleet, launcher: FakeLauncher, seen: Seen, unknown: JobStatus | None
) -> None:
    below_limit = int(UNKNOWN_LIMIT_S / POLL_S)
    launcher.script = {"a": [RUNNING, *[unknown] * below_limit, RUNNING, COMPLETED]}
    fleet.submit({"a": spec("a")})
    assert fleet.take("a").status is COMPLETED
    assert [status for _, _, status in seen.changes] == [RUNNING, COMPLETED]


def test_while_a_job_is_unknown_its_last_known_state_stands(fleet: Fleet, launcher: FakeLauncher) -> None:
    launcher.script = {"a": [RUNNING, UNKNOWN], "b": [RUNNING, RUNNING, COMPLETED]}
    fleet.submit({"a": spec("a"), "b": spec("b")})
    fleet.take("b")
    assert fleet.status("a") is RUNNING


def test_a_job_that_stays_unknown_is_given_up_and_never_completed(
    fleet: Fleet, launcher: FakeLauncher, clock: Clock, seen: Seen
) -> None:
    launcher.script = {"a": [RUNNING, UNKNOWN]}
    launcher.log_at_s = {"a": None}
    started_s = clock.now_s
    fleet.submit({"a": spec("a")})
    assert fleet.take("a") == Run("job-a", UNKNOWN, None, Path("/stage/slurm-job-a.out"))
    assert clock.now_s - started_s == POLL_S + UNKNOWN_LIMIT_S
    assert seen.changes == [("a", "job-a", RUNNING), ("a", "job-a", UNKNOWN)]


def test_a_job_that_is_given_up_has_its_log_but_not_a_good_end(fleet: Fleet, launcher: FakeLauncher) -> None:
    launcher.script = {"a": [UNKNOWN]}
    fleet.submit({"a": spec("a")})
    run = fleet.take("a")
    assert (run.status.state, run.status.exit_code) == (JobState.UNKNOWN, None)
    assert run.log == Path("/stage/job-a.out")


def test_the_limit_counts_from_the_last_answer(fleet: Fleet, launcher: FakeLauncher, clock: Clock) -> None:
    many = [UNKNOWN] * 30
    launcher.script = {"a": [*many, RUNNING, *many, RUNNING, *many, COMPLETED]}
    fleet.submit({"a": spec("a")})
    started_s = clock.now_s
    assert fleet.take("a").status is COMPLETED
    assert clock.now_s - started_s > 2 * UNKNOWN_LIMIT_S


def test_one_lost_job_does_not_hold_up_the_others(fleet: Fleet, launcher: FakeLauncher, clock: Clock) -> None:
    launcher.script = {"lost": [UNKNOWN], "fine": [RUNNING, COMPLETED]}
    fleet.submit({"lost": spec("lost"), "fine": spec("fine")})
    started_s = clock.now_s
    assert fleet.take("fine").status is COMPLETED
    assert clock.now_s - started_s == POLL_S


def test_a_log_that_appears_late_is_waited_for(fleet: Fleet, launcher: FakeLauncher, clock: Clock) -> None:
    launcher.log_at_s = {"a": clock.now_s + 30.5}
    fleet.submit({"a": spec("a")})
    assert fleet.take("a").log == Path("/stage/job-a.out")
    assert 1030.5 <= clock.now_s <= 1031.5
    assert max(clock.slept_s) <= 1.0


@pytest.mark.parametrize("status", [COMPLETED, REPLAYED])
def test_a_log_that_never_appears_is_an_error(
    fleet: Fleet, launcher: FakeLauncher, clock: Clock, status: JobStatus
) -> None:
    launcher.script = {"a": [status]}
    launcher.log_at_s = {"a": None}
    fleet.submit({"a": spec("a")})
    with pytest.raises(LogError, match="no log of job-a"):
        fleet.take("a")
    assert sum(clock.slept_s) == pytest.approx(launcher.log_wait_s, abs=1.0)


@pytest.mark.parametrize(
    "status",
    [
        FAILED,
        JobStatus(JobState.COMPLETED, exit_code=1),
        JobStatus(JobState.TIMEOUT, exit_code=0),
        JobStatus(JobState.CANCELLED),
        JobStatus(JobState.OUT_OF_MEMORY),
        JobStatus(JobState.NODE_FAIL),
    ],
    ids=lambda status: f"{status.state.value}-{status.exit_code}",
)
def test_the_log_of_a_job_that_did_not_end_well_is_not_waited_for(
    fleet: Fleet, launcher: FakeLauncher, clock: Clock, status: JobStatus
) -> None:
    launcher.script = {"a": [status]}
    launcher.log_at_s = {"a": None}
    fleet.submit({"a": spec("a")})
    assert fleet.take("a") == Run("job-a", status, None, Path("/stage/slurm-job-a.out"))
    assert (clock.slept_s, launcher.looked_for_log) == ([], 1)


def test_observers_are_told_of_each_change_once(fleet: Fleet, launcher: FakeLauncher, seen: Seen) -> None:
    launcher.script = {"a": [PENDING, PENDING, RUNNING, RUNNING, RUNNING, COMPLETED], "b": [RUNNING, FAILED]}
    fleet.submit({"a": spec("a"), "b": spec("b")})
    fleet.take("a")
    fleet.take("b")
    assert seen.changes == [
        ("b", "job-b", RUNNING),
        ("b", "job-b", FAILED),
        ("a", "job-a", RUNNING),
        ("a", "job-a", COMPLETED),
    ]


def test_what_is_newly_known_of_a_state_is_kept(fleet: Fleet, launcher: FakeLauncher, seen: Seen) -> None:
    placed = JobStatus(JobState.RUNNING, nodes="pool0-17")
    launcher.script = {"a": [RUNNING, placed], "b": [RUNNING, RUNNING, COMPLETED]}
    fleet.submit({"a": spec("a"), "b": spec("b")})
    fleet.take("b")
    assert fleet.status("a") is placed
    assert [status for row_id, _, status in seen.changes if row_id == "a"] == [RUNNING]


def test_closing_cancels_what_is_left_with_one_request(fleet: Fleet, launcher: FakeLauncher) -> None:
    launcher.refused = ("refused",)
    launcher.script = {"done": [COMPLETED], "pending": [PENDING], "running": [RUNNING], "lost": [UNKNOWN]}
    fleet.submit({name: spec(name) for name in ("done", "pending", "refused", "running", "lost")})
    fleet.take("done")
    assert fleet.close() == 3
    assert launcher.cancelled == [["pending", "running", "lost"]]
    assert launcher.closed == 1


def test_a_job_that_was_given_up_is_cancelled_too(fleet: Fleet, launcher: FakeLauncher) -> None:
    launcher.script = {"lost": [UNKNOWN]}
    fleet.submit({"lost": spec("lost")})
    fleet.take("lost")
    assert fleet.close() == 1
    assert launcher.cancelled == [["lost"]]


def test_closing_when_all_is_done_cancels_nothing(fleet: Fleet, launcher: FakeLauncher) -> None:
    fleet.submit({"a": spec("a")})
    fleet.take("a")
    assert (fleet.close(), launcher.cancelled, launcher.closed) == (0, [], 1)


def test_the_launcher_is_closed_even_if_cancelling_fails(
    fleet: Fleet, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(jobs: Sequence[Job]) -> None:
        raise RunError("scancel: no answer")

    monkeypatch.setattr(launcher, "cancel", refuse)
    fleet.submit({"a": spec("a")})
    with pytest.raises(RunError, match="no answer"):
        fleet.close()
    assert launcher.closed == 1
