from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_gsw.errors import (
    JobError,
    LogError,
    QueueFullError,
    RefusedError,
    RunError,
    SchedulerUnreachableError,
    SubmissionError,
)
from pytest_gsw.executor.executor import (
    LOG_LOOK_S,
    LONGEST_BACK_OFF_S,
    MOST_POLLS_PER_INTERVAL,
    SETTLE_S,
    UNKNOWN_LIMIT_S,
    Executor,
)
from pytest_gsw.executor.limits import Limits
from pytest_gsw.executor.progress_monitor import Sample, Watch
from pytest_gsw.executor.row_state import Active, AwaitingLog, Finished, submitted_job_of
from pytest_gsw.jobs.journal import Journal, Submission
from pytest_gsw.jobs.model import Attempt, EarlyStop, Job, JobSpec, JobState, JobStatus
from pytest_gsw.stats.decision import Done, Repeat, Undecided
from pytest_gsw.validation.run import Run

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
        again = f".{spec.attempt}" if spec.attempt > 1 else ""
        return Job(f"job-{spec.row_id}{again}", spec, self.clock.now_s)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        return None

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        self.polls.append([job.spec.row_id for job in jobs])
        answers = {}
        for job in jobs:
            steps = self.script.get(job.spec.row_id, [COMPLETED])
            status = steps.pop(0) if len(steps) > 1 else steps[0]
            if status is not None:
                answers[job.spec.row_id] = status
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
def executor(launcher: FakeLauncher, seen: Seen, clock: Clock) -> Executor:
    return Executor(launcher, POLL_S, observer=seen, clock=clock, sleep=clock.sleep)


def started(launcher: FakeLauncher, rows: Iterable[str], **options: Any) -> Executor:
    """An executor that has submitted these rows."""
    executor = Executor(launcher, POLL_S, clock=launcher.clock, sleep=launcher.clock.sleep, **options)
    executor.submit({row: spec(row) for row in rows})
    return executor


def test_a_row_waits_for_others_and_its_log_is_not_looked_for_again(launcher: FakeLauncher, clock: Clock) -> None:
    launcher.script = {"a": [COMPLETED], "b": [*[RUNNING] * 3, COMPLETED]}
    ended: list[str] = []

    def decide(row_id: str, _run: Run) -> Undecided | Done:
        ended.append(row_id)
        return Done() if "b" in ended else Undecided()

    executor = started(launcher, "ab", decide=decide)

    assert [executor.next_finished(), executor.next_finished()] == ["b", "a"]
    assert launcher.looked_for_log == 2
    assert launcher.submitted == ["a", "b"]
    assert clock.now_s - 1000 > 10
    assert ended == ["a", "b", "a"]  # once when its job has ended, and once when another row's has


def test_a_row_that_waits_is_asked_each_minute_whatever_becomes_of_the_others(
    launcher: FakeLauncher, clock: Clock
) -> None:
    launcher.script = {"a": [COMPLETED], "b": [*[RUNNING] * 20, COMPLETED]}
    asked_s: list[float] = []

    def decide(row_id: str, _run: Run) -> Undecided | Done:
        if row_id == "a":
            asked_s.append(clock.now_s)
        return Undecided() if row_id == "a" and len(asked_s) < 3 else Done()

    executor = started(launcher, "ab", decide=decide)

    assert executor.next_finished() == "a"
    first_s, second_s, third_s = asked_s
    assert 60 <= second_s - first_s <= 62
    assert 60 <= third_s - second_s <= 62


def test_a_row_that_waits_for_others_is_over_when_the_session_is_interrupted(launcher: FakeLauncher) -> None:
    launcher.script = {"b": [RUNNING]}
    executor = started(launcher, "ab", decide=lambda *_: Undecided())
    executor._pump()
    executor._ask()
    executor._pump()
    assert isinstance(executor.phase("a"), AwaitingLog)

    executor.interrupt(detach=False)

    assert executor.result_of("a").job_id == "job-a"
    with pytest.raises(JobError, match="interrupted"):
        executor.result_of("b")


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (JobStatus(JobState.PENDING, reason="ReqNodeNotAvail"), "; it was pending (ReqNodeNotAvail)"),
        (JobStatus(JobState.PENDING, reason="None"), ""),
        (JobStatus(JobState.PENDING), ""),
        (RUNNING, ""),
    ],
)
def test_an_interrupted_row_says_what_its_job_waited_for(launcher: FakeLauncher, status: JobStatus, told: str) -> None:
    launcher.script = {"a": [status]}
    executor = started(launcher, "a")
    executor._pump()
    executor._ask()
    executor._pump()
    executor.interrupt(detach=False)
    with pytest.raises(JobError) as caught:
        executor.result_of("a")
    assert caught.value.fact == f"interrupted: job job-a was cancelled{told}"


def test_every_row_is_submitted_before_the_first_is_waited_for(executor: Executor, launcher: FakeLauncher) -> None:
    executor.submit({name: spec(name) for name in "abc"})
    assert (launcher.submitted, launcher.polls) == (["a", "b", "c"], [])


def test_one_question_for_all_jobs_whatever_their_number(executor: Executor, launcher: FakeLauncher) -> None:
    names = [f"row{number}" for number in range(500)]
    launcher.script = {name: [PENDING, RUNNING, COMPLETED] for name in names}
    executor.submit({name: spec(name) for name in names})
    for name in names:
        executor.result_of(name)
    assert launcher.polls == [names] * 3


def test_jobs_that_have_ended_are_not_asked_about_again(executor: Executor, launcher: FakeLauncher) -> None:
    launcher.script = {"a": [RUNNING, RUNNING, COMPLETED], "b": [COMPLETED]}
    executor.submit({"a": spec("a"), "b": spec("b")})
    executor.result_of("b")
    executor.result_of("a")
    executor.result_of("b")
    assert launcher.polls == [["a", "b"], ["a"], ["a"]]


def test_questions_are_the_poll_interval_apart(executor: Executor, launcher: FakeLauncher, clock: Clock) -> None:
    launcher.script = {"a": [PENDING, RUNNING, COMPLETED]}
    executor.submit({"a": spec("a")})
    executor.result_of("a")
    assert clock.slept_s == [POLL_S, POLL_S]


COMPLETING = JobStatus(JobState.RUNNING, raw_state="COMPLETING")


def test_where_all_jobs_are_about_to_be_over_they_are_asked_about_sooner(
    executor: Executor, launcher: FakeLauncher, clock: Clock
) -> None:
    launcher.script = {"a": [COMPLETING] * 5 + [COMPLETED], "b": [RUNNING, COMPLETED]}
    executor.submit({"a": spec("a"), "b": spec("b")})
    executor.result_of("a")
    soon_s = POLL_S / MOST_POLLS_PER_INTERVAL
    assert clock.slept_s == [POLL_S, soon_s, 2 * soon_s, 4 * soon_s, POLL_S]


def test_a_row_that_cannot_be_submitted_keeps_its_error(executor: Executor, launcher: FakeLauncher) -> None:
    unfit = SubmissionError("100 GPUs do not fill whole nodes")
    launcher.refused = ("refused",)
    executor.submit({"unfit": unfit, "refused": spec("refused"), "fine": spec("fine")})
    with pytest.raises(SubmissionError) as raised:
        executor.result_of("unfit")
    assert raised.value is unfit
    with pytest.raises(SubmissionError, match="refused was refused"):
        executor.result_of("refused")
    assert executor.result_of("fine").status is COMPLETED
    assert launcher.submitted == ["refused", "fine"]
    assert launcher.polls == [["fine"]]


def test_what_is_known_of_a_row(executor: Executor, launcher: FakeLauncher) -> None:
    launcher.refused = ("refused",)
    launcher.script = {"a": [RUNNING], "b": [COMPLETED]}
    executor.submit({"a": spec("a"), "b": spec("b"), "refused": spec("refused")})
    assert (executor.status("a"), executor.job_id("a")) == (PENDING, "job-a")
    executor.result_of("b")
    assert (executor.status("a"), executor.status("b")) == (RUNNING, COMPLETED)
    assert (
        isinstance(executor.phase("refused"), Finished),
        executor.status("refused"),
        executor.job_id("refused"),
    ) == (
        True,
        None,
        None,
    )
    assert (executor.phase("other"), executor.status("other"), executor.job_id("other")) == (None, None, None)


@pytest.mark.parametrize("unknown", [UNKNOWN, None], ids=["unknown", "no-answer"])
def test_unknown_is_not_an_end_before_the_limit(
    executor: Executor, launcher: FakeLauncher, seen: Seen, unknown: JobStatus | None
) -> None:
    below_limit = int(UNKNOWN_LIMIT_S / LONGEST_BACK_OFF_S)
    launcher.script = {"a": [RUNNING, *[unknown] * below_limit, RUNNING, COMPLETED]}
    executor.submit({"a": spec("a")})
    assert executor.result_of("a").status is COMPLETED
    assert [status for _, _, status in seen.changes] == [RUNNING, COMPLETED]


def test_while_a_job_is_unknown_its_last_known_state_stands(executor: Executor, launcher: FakeLauncher) -> None:
    launcher.script = {"a": [RUNNING, UNKNOWN], "b": [RUNNING, RUNNING, COMPLETED]}
    executor.submit({"a": spec("a"), "b": spec("b")})
    executor.result_of("b")
    assert executor.status("a") is RUNNING


def test_a_job_that_stays_unknown_is_given_up_and_never_completed(
    executor: Executor, launcher: FakeLauncher, clock: Clock, seen: Seen
) -> None:
    launcher.script = {"a": [RUNNING, UNKNOWN]}
    launcher.log_at_s = {"a": None}
    started_s = clock.now_s
    executor.submit({"a": spec("a")})
    assert executor.result_of("a") == Run("job-a", UNKNOWN, None, Path("/stage/slurm-job-a.out"))
    assert UNKNOWN_LIMIT_S <= clock.now_s - started_s - POLL_S <= UNKNOWN_LIMIT_S + LONGEST_BACK_OFF_S
    assert seen.changes == [("a", "job-a", RUNNING), ("a", "job-a", UNKNOWN)]


def test_a_job_that_is_given_up_has_its_log_but_not_a_good_end(executor: Executor, launcher: FakeLauncher) -> None:
    launcher.script = {"a": [UNKNOWN]}
    executor.submit({"a": spec("a")})
    run = executor.result_of("a")
    assert (run.status.state, run.status.exit_code) == (JobState.UNKNOWN, None)
    assert run.log == Path("/stage/job-a.out")


def test_the_limit_counts_from_the_last_answer(executor: Executor, launcher: FakeLauncher, clock: Clock) -> None:
    many = [UNKNOWN] * 10
    launcher.script = {"a": [*many, RUNNING, *many, RUNNING, *many, COMPLETED]}
    executor.submit({"a": spec("a")})
    started_s = clock.now_s
    assert executor.result_of("a").status is COMPLETED
    assert clock.now_s - started_s > 2 * UNKNOWN_LIMIT_S
    assert max(clock.slept_s) == LONGEST_BACK_OFF_S  # it is asked less and less often


def test_a_log_that_appears_late_is_waited_for(executor: Executor, launcher: FakeLauncher, clock: Clock) -> None:
    launcher.log_at_s = {"a": clock.now_s + 30.5}
    executor.submit({"a": spec("a")})
    assert executor.result_of("a").log == Path("/stage/job-a.out")
    assert 1030.5 <= clock.now_s <= 1031.5
    assert max(clock.slept_s) <= 1.0


@pytest.mark.parametrize("status", [COMPLETED, REPLAYED])
def test_a_log_that_never_appears_is_an_error(
    executor: Executor, launcher: FakeLauncher, clock: Clock, status: JobStatus
) -> None:
    launcher.script = {"a": [status]}
    launcher.log_at_s = {"a": None}
    executor.submit({"a": spec("a")})
    with pytest.raises(LogError, match="no log of job-a"):
        executor.result_of("a")
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
    executor: Executor, launcher: FakeLauncher, clock: Clock, status: JobStatus
) -> None:
    launcher.script = {"a": [status]}
    launcher.log_at_s = {"a": None}
    executor.submit({"a": spec("a")})
    assert executor.result_of("a") == Run("job-a", status, None, Path("/stage/slurm-job-a.out"))
    assert (clock.slept_s, launcher.looked_for_log) == ([], 1)


def test_observers_are_told_of_each_change_once(executor: Executor, launcher: FakeLauncher, seen: Seen) -> None:
    launcher.script = {"a": [PENDING, PENDING, RUNNING, RUNNING, RUNNING, COMPLETED], "b": [RUNNING, FAILED]}
    executor.submit({"a": spec("a"), "b": spec("b")})
    executor.result_of("a")
    executor.result_of("b")
    assert seen.changes == [
        ("b", "job-b", RUNNING),
        ("b", "job-b", FAILED),
        ("a", "job-a", RUNNING),
        ("a", "job-a", COMPLETED),
    ]


def test_what_is_newly_known_of_a_state_is_kept(executor: Executor, launcher: FakeLauncher, seen: Seen) -> None:
    placed = JobStatus(JobState.RUNNING, nodes="pool0-17")
    launcher.script = {"a": [RUNNING, placed], "b": [RUNNING, RUNNING, COMPLETED]}
    executor.submit({"a": spec("a"), "b": spec("b")})
    executor.result_of("b")
    assert executor.status("a") is placed
    assert [status for row_id, _, status in seen.changes if row_id == "a"] == [RUNNING]


def test_closing_cancels_what_is_left_with_one_request(executor: Executor, launcher: FakeLauncher) -> None:
    launcher.refused = ("refused",)
    launcher.script = {"done": [COMPLETED], "pending": [PENDING], "running": [RUNNING], "lost": [UNKNOWN]}
    executor.submit({name: spec(name) for name in ("done", "pending", "refused", "running", "lost")})
    executor.result_of("done")
    assert executor.close() == 3
    # Those that wait come first: they would start on the nodes that "running" leaves.
    assert launcher.cancelled == [["pending", "lost", "running"]]
    assert launcher.closed == 1


def test_a_job_that_was_given_up_is_cancelled_too(executor: Executor, launcher: FakeLauncher) -> None:
    launcher.script = {"lost": [UNKNOWN]}
    executor.submit({"lost": spec("lost")})
    executor.result_of("lost")
    assert executor.close() == 1
    assert launcher.cancelled == [["lost"]]


def test_closing_when_all_is_done_cancels_nothing(executor: Executor, launcher: FakeLauncher) -> None:
    executor.submit({"a": spec("a")})
    executor.result_of("a")
    assert (executor.close(), launcher.cancelled, launcher.closed) == (0, [], 1)


def test_the_launcher_is_closed_even_if_cancelling_fails(
    executor: Executor, launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(jobs: Sequence[Job]) -> None:
        raise RunError("scancel: no answer")

    monkeypatch.setattr(launcher, "cancel", refuse)
    executor.submit({"a": spec("a")})
    with pytest.raises(RunError, match="no answer"):
        executor.close()
    assert launcher.closed == 1


# -- limits, logs of running jobs, retries, a scheduler that is away ------------------------------


def test_no_more_jobs_are_pending_than_allowed(launcher: FakeLauncher) -> None:
    launcher.script = {name: [PENDING, PENDING, RUNNING, RUNNING, COMPLETED] for name in "abcd"}
    executor = started(launcher, "abcd", limits=Limits(pending=2))
    assert launcher.submitted == ["a", "b"]
    most = 0
    for _ in "abcd":
        executor.next_finished()
        most = max(most, sum(executor.status(name) is PENDING for name in "abcd"))
    assert (launcher.submitted, most <= 2) == (["a", "b", "c", "d"], True)
    assert [len(asked) for asked in launcher.polls[:3]] == [2, 2, 2]  # c and d only when a and b run


@dataclass
class FakeWatch:
    """A watch that shows one sample after the other, the last of them for ever."""

    sights: list[Sample]
    looked_s: list[float] = field(default_factory=list)
    logs: list[Path | None] = field(default_factory=list)

    def look(self, log: Path | None, now_s: float) -> Sample:
        self.looked_s.append(now_s)
        self.logs.append(log)
        return self.sights.pop(0) if len(self.sights) > 1 else self.sights[0]


def watched(launcher: FakeLauncher, clock: Clock, watches: dict[str, FakeWatch]) -> Executor:
    def watcher(row_id: str) -> Watch | None:
        return cast("Watch | None", watches.get(row_id))

    return Executor(launcher, POLL_S, watcher=watcher, clock=clock, sleep=clock.sleep)


def test_running_jobs_logs_are_looked_at_between_polls(launcher: FakeLauncher, clock: Clock) -> None:
    watch = FakeWatch([Sample(steps=3, of=50)])
    executor = watched(launcher, clock, {"a": watch})
    launcher.script = {"a": [PENDING, RUNNING, RUNNING, COMPLETED]}
    executor.submit({"a": spec("a")})
    executor.result_of("a")
    # Not while it is pending; then every two seconds, without a question to the scheduler.
    assert watch.looked_s[0] == 1015.0
    assert {round(b - a, 6) for a, b in itertools.pairwise(watch.looked_s)} <= {1.0, LOG_LOOK_S}
    assert len(launcher.polls) == 4


def test_the_last_step_makes_the_scheduler_be_asked_at_once(launcher: FakeLauncher, clock: Clock) -> None:
    going, last = Sample(steps=49, of=50), Sample(steps=50, of=50, finished=True)
    executor = watched(launcher, clock, {"a": FakeWatch([going, going, last])})
    launcher.script = {"a": [RUNNING, COMPLETED]}
    executor.submit({"a": spec("a")})
    executor.result_of("a")
    assert clock.now_s - 1000.0 == 2 * LOG_LOOK_S + SETTLE_S  # not 15 s
    assert len(launcher.polls) == 2


def test_progress_is_there_for_whoever_asks(launcher: FakeLauncher, clock: Clock) -> None:
    sample = Sample(steps=23, of=50, step_time_s=4.33)
    executor = watched(launcher, clock, {"a": FakeWatch([sample])})
    launcher.script = {"a": [RUNNING], "b": [RUNNING, RUNNING, COMPLETED], "c": [PENDING]}
    executor.submit({"a": spec("a"), "b": spec("b"), "c": spec("c"), "x": SubmissionError("no")})
    executor.result_of("b")
    found = [(row, phase, submitted_job_of(phase)) for row, phase in executor.phases.items()]
    assert [
        (row, seen and seen.status, seen and seen.sample, isinstance(phase, Finished)) for row, phase, seen in found
    ] == [
        ("a", RUNNING, sample, False),
        ("b", COMPLETED, None, True),
        ("c", PENDING, None, False),
        ("x", None, None, True),
    ]


def test_jobs_that_are_not_worth_going_on_are_ended_with_one_request(launcher: FakeLauncher, clock: Clock) -> None:
    stop = EarlyStop("stalled at step 17 of 50: no new step for 10m00s")
    watches = {name: FakeWatch([Sample(steps=17), Sample(steps=17, stop=stop)]) for name in "ab"}
    executor = watched(launcher, clock, {**watches, "c": FakeWatch([Sample(steps=17)])})
    cancelled: JobStatus | None = JobStatus(JobState.CANCELLED, exit_code=0)
    launcher.script = {"a": [RUNNING, cancelled], "b": [RUNNING, cancelled], "c": [RUNNING, RUNNING, COMPLETED]}
    executor.submit({name: spec(name) for name in "abc"})
    assert (executor.result_of("a").stopped, executor.result_of("b").stopped, executor.result_of("c").stopped) == (
        stop,
        stop,
        None,
    )
    assert launcher.cancelled == [["a", "b"]]
    assert executor.close() == 0


def test_a_job_that_cannot_be_ended_is_tried_again(
    launcher: FakeLauncher, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def cancel(jobs: Sequence[Job]) -> None:
        tries.append(clock.now_s)
        if len(tries) < 3:
            raise JobError("jobs may still run: scancel failed: Unable to contact slurm controller")

    monkeypatch.setattr(launcher, "cancel", cancel)
    executor = watched(launcher, clock, {"a": FakeWatch([Sample(stop=EarlyStop("stalled"))])})
    launcher.script = {"a": [RUNNING, JobStatus(JobState.CANCELLED)]}
    executor.submit({"a": spec("a")})
    run = executor.result_of("a")
    assert len(tries) == 3
    assert run.stopped == EarlyStop("stalled")


def test_a_job_that_is_put_back_into_the_queue_is_watched_anew(launcher: FakeLauncher) -> None:
    made = []

    def watcher(row_id: str) -> Watch:
        made.append(row_id)
        return cast("Watch", FakeWatch([Sample(steps=1)]))

    launcher.script = {"a": [RUNNING, RUNNING, PENDING, RUNNING, COMPLETED]}
    executor = started(launcher, "a", watcher=watcher)
    executor.result_of("a")
    assert made == ["a", "a"]


LOST_NODE = JobStatus(JobState.NODE_FAIL, exit_code=0, nodes="n17")


def repeating(launcher: FakeLauncher, clock: Clock, **options: Any) -> tuple[Executor, list[tuple[str, Attempt]]]:
    """An executor, and the repeats that it reports."""
    told: list[tuple[str, Attempt]] = []
    executor = Executor(
        launcher,
        POLL_S,
        on_repeat=lambda row_id, attempt: told.append((row_id, attempt)),
        clock=clock,
        sleep=clock.sleep,
        **options,
    )
    return executor, told


def test_a_row_that_lost_its_node_is_run_again_without_it(launcher: FakeLauncher, clock: Clock) -> None:
    executor, told = repeating(launcher, clock, retries=2)
    launcher.script = {"a": [LOST_NODE, RUNNING, COMPLETED]}
    executor.submit({"a": replace(spec("a"), unique_name=True)})
    run = executor.result_of("a")
    attempt = Attempt("job-a", LOST_NODE, "node failure", ("n17",))
    assert (run.status, run.earlier, told) == (COMPLETED, (), [("a", attempt)])
    again = executor.spec("a")
    assert again is not None
    assert (again.name, again.attempt, again.excluded_nodes) == ("again2.a", 2, ("n17",))
    assert executor.attempts("a") == (attempt,)


def test_a_row_is_not_run_more_often_than_allowed(launcher: FakeLauncher, clock: Clock) -> None:
    executor, told = repeating(launcher, clock, retries=2)
    launcher.script = {"a": [LOST_NODE]}
    executor.submit({"a": spec("a")})
    run = executor.result_of("a")
    assert (run.status, len(executor.attempts("a")), len(told)) == (LOST_NODE, 2, 2)
    assert launcher.submitted == ["a", "a", "a"]


@pytest.mark.parametrize(
    "status",
    [COMPLETED, FAILED, JobStatus(JobState.TIMEOUT), JobStatus(JobState.OUT_OF_MEMORY), JobStatus(JobState.CANCELLED)],
    ids=lambda status: str(status.state.value),
)
def test_what_is_not_the_infrastructures_fault_is_never_run_again(
    launcher: FakeLauncher, clock: Clock, status: JobStatus
) -> None:
    executor, told = repeating(launcher, clock, retries=5)
    launcher.script = {"a": [status]}
    executor.submit({"a": spec("a")})
    assert (executor.result_of("a").status, told, launcher.submitted) == (status, [], ["a"])


@dataclass
class NumberedLauncher(FakeLauncher):
    """Its jobs have ids of their own; jobs that must do without ``full`` nodes are refused."""

    full: tuple[str, ...] = ()
    specs: list[JobSpec] = field(default_factory=list)

    def submit(self, spec: JobSpec) -> Job:
        self.submitted.append(spec.row_id)
        if set(spec.avoided_nodes) & set(self.full):
            raise RefusedError("Requested node configuration is not available")
        self.specs.append(spec)
        return Job(f"job-{spec.row_id}-{spec.attempt}", spec, self.clock.now_s)


DONE = replace(COMPLETED, nodes="n1")


def wanting(
    launcher: FakeLauncher, clock: Clock, jobs: int, **options: Any
) -> tuple[Executor, list[tuple[str, Attempt]]]:
    """An executor whose rows want so many jobs that end well."""

    def decide(row_id: str, run: Run) -> Repeat | Done:
        return Repeat(f"{len(run.jobs)} of {jobs}", (run.status.nodes,)) if len(run.jobs) < jobs else Done()

    return repeating(launcher, clock, decide=decide, **options)


def test_a_row_has_as_many_jobs_as_are_wanted(clock: Clock) -> None:
    launcher = NumberedLauncher(clock, script={"a": [DONE]})
    executor, told = wanting(launcher, clock, jobs=3)
    executor.submit({"a": spec("a")})
    run = executor.result_of("a")
    assert [job.job_id for job in run.jobs] == ["job-a-1", "job-a-2", "job-a-3"]
    assert [job.log for job in run.jobs] == [Path(f"/stage/job-a-{n}.out") for n in (1, 2, 3)]
    assert told == [
        ("a", Attempt("job-a-1", DONE, "1 of 3", ("n1",), measured=True)),
        ("a", Attempt("job-a-2", DONE, "2 of 3", ("n1",), measured=True)),
    ]
    assert executor.attempts("a") == ()  # none of them failed


def test_further_jobs_avoid_the_nodes_of_those_before(clock: Clock) -> None:
    launcher = NumberedLauncher(clock, script={"a": [DONE]})
    executor, _ = wanting(launcher, clock, jobs=2)
    executor.submit({"a": spec("a")})
    executor.result_of("a")
    assert [(one.avoided_nodes, one.excluded_nodes) for one in launcher.specs] == [((), ()), (("n1",), ())]
    assert launcher.specs[1].environment == {"GSW_ATTEMPT": "2"}


def test_further_jobs_take_the_same_nodes_where_there_are_no_others(clock: Clock) -> None:
    launcher = NumberedLauncher(clock, script={"a": [DONE]}, full=("n1",))
    executor, _ = wanting(launcher, clock, jobs=2)
    executor.submit({"a": spec("a")})
    assert len(executor.result_of("a").jobs) == 2
    assert launcher.submitted == ["a", "a", "a"]  # the second of them was refused
    assert launcher.specs[-1].avoided_nodes == ()


def test_an_answer_that_is_no_refusal_is_not_followed_by_a_second_submission(clock: Clock) -> None:
    @dataclass
    class Mumbling(NumberedLauncher):
        def submit(self, spec: JobSpec) -> Job:
            job = super().submit(spec)
            if spec.avoided_nodes:
                raise SubmissionError("sbatch gave no job id")
            return job

    launcher = Mumbling(clock, script={"a": [DONE]})
    executor, _ = wanting(launcher, clock, jobs=2)
    executor.submit({"a": spec("a")})
    with pytest.raises(SubmissionError, match="sbatch gave no job id"):
        executor.result_of("a")
    assert launcher.submitted == ["a", "a"]
    assert [run.job_id for run in executor.earlier("a")] == ["job-a-1"]


def test_a_job_whose_other_nodes_are_not_there_is_submitted_to_any(clock: Clock) -> None:
    waits = JobStatus(JobState.PENDING, reason="ReqNodeNotAvail, UnavailableNodes:n[2-8]")
    launcher = NumberedLauncher(clock, script={"a": [DONE, waits, DONE]})
    executor, told = wanting(launcher, clock, jobs=2)
    executor.submit({"a": spec("a")})
    run = executor.result_of("a")
    assert [job.job_id for job in run.jobs] == ["job-a-1", "job-a-3"]
    assert launcher.cancelled == [["a"]]
    assert [(one.job_id, one.why) for one in executor.attempts("a")] == [("job-a-2", "no other node was available")]
    assert launcher.specs[-1].avoided_nodes == ()
    assert len(told) == 2


def test_a_job_that_is_not_alone_and_waits_for_other_nodes_is_given_up(clock: Clock) -> None:
    """One answer says both."""
    waits = JobStatus(JobState.PENDING, reason="ReqNodeNotAvail", siblings=("9",))
    launcher = NumberedLauncher(clock, script={"a": [DONE, waits]})
    executor, _ = wanting(launcher, clock, jobs=2)
    executor.submit({"a": spec("a")})
    with pytest.raises(JobError, match=r"^2 jobs are behind the one submission of job job-a-2"):
        executor.result_of("a")
    assert launcher.cancelled == [["a"]]
    assert launcher.submitted == ["a", "a"]


def test_a_job_that_waits_for_nodes_that_are_busy_is_waited_for(clock: Clock) -> None:
    waits = JobStatus(JobState.PENDING, reason="Resources")
    launcher = NumberedLauncher(clock, script={"a": [DONE, waits, waits, DONE]})
    executor, _ = wanting(launcher, clock, jobs=2)
    executor.submit({"a": spec("a")})
    assert len(executor.result_of("a").jobs) == 2
    assert launcher.cancelled == []


def test_a_job_that_the_infrastructure_failed_is_none_of_the_measured_ones(clock: Clock) -> None:
    launcher = NumberedLauncher(clock, script={"a": [DONE, LOST_NODE, DONE]})
    executor, _ = wanting(launcher, clock, jobs=2, retries=1)
    executor.submit({"a": spec("a")})
    run = executor.result_of("a")
    assert [job.job_id for job in run.jobs] == ["job-a-1", "job-a-3"]
    assert [attempt.job_id for attempt in executor.attempts("a")] == ["job-a-2"]
    assert (launcher.specs[-1].avoided_nodes, launcher.specs[-1].excluded_nodes) == (("n1",), ("n17",))


@pytest.mark.parametrize("status", [FAILED, JobStatus(JobState.TIMEOUT), replace(DONE, exit_code=3)])
def test_a_further_job_that_fails_ends_the_row(clock: Clock, status: JobStatus) -> None:
    launcher = NumberedLauncher(clock, script={"a": [DONE, status]})
    executor, _ = wanting(launcher, clock, jobs=3)
    executor.submit({"a": spec("a")})
    run = executor.result_of("a")
    assert (run.status, [job.job_id for job in run.earlier]) == (status, ["job-a-1"])


def test_a_rule_that_breaks_wants_no_further_job(launcher: FakeLauncher) -> None:
    def broken(row_id: str, run: Run) -> Repeat | Done:
        raise ZeroDivisionError

    executor = started(launcher, "a", decide=broken)
    assert executor.result_of("a").earlier == ()


def test_an_interrupted_session_wants_no_further_job(clock: Clock) -> None:
    launcher = NumberedLauncher(clock, script={"a": [DONE]})
    executor, told = wanting(launcher, clock, jobs=3)
    executor.submit({"a": spec("a")})
    executor._wait()
    executor.interrupt(detach=False)
    assert (executor.result_of("a").earlier, told) == ((), [])


MEASURED = Attempt("job-a-1", DONE, "1 of 2", ("n1",), measured=True)


def test_a_measured_job_whose_log_is_gone_is_an_error(clock: Clock) -> None:
    launcher = NumberedLauncher(clock, log_at_s={"a": None})
    executor, _ = wanting(launcher, clock, jobs=2)
    executor.submit({"a": spec("a")}, {"a": Submission(0.0, attempts=(MEASURED,))})
    with pytest.raises(LogError, match="no log of job-a-1"):
        executor.result_of("a")
    assert launcher.submitted == []


@dataclass
class AwayLauncher(FakeLauncher):
    """A scheduler that is out of reach for a while; it may have taken the first submission all the same."""

    back_at_s: float = math.inf
    took_it: bool = False
    tries_s: list[float] = field(default_factory=list)
    sought: list[str] = field(default_factory=list)

    def submit(self, spec: JobSpec) -> Job:
        self.tries_s.append(self.clock.now_s)
        if self.clock.now_s < self.back_at_s:
            raise SchedulerUnreachableError(
                "sbatch refused the job: Unable to contact slurm controller (connect failure)"
            )
        return super().submit(spec)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        self.sought.append(spec.row_id)
        if self.clock.now_s < self.back_at_s:
            raise SchedulerUnreachableError("whether a was submitted is not known")
        return Job("job-found", spec, since_s) if self.took_it else None


def test_a_scheduler_that_is_away_is_waited_for_with_longer_and_longer_pauses(clock: Clock) -> None:
    launcher = AwayLauncher(clock, back_at_s=clock.now_s + 100)
    executor = started(launcher, "ab")
    assert (executor.result_of("a").job_id, executor.result_of("b").job_id) == ("job-a", "job-b")
    assert launcher.submitted == ["a", "b"]
    assert launcher.sought[:3] == ["a", "a", "a"]  # 5, 10, 20 … s apart; b is not even tried meanwhile
    assert "b" not in launcher.sought
    assert 1100 <= clock.now_s <= 1160 + POLL_S


def test_what_a_scheduler_took_before_it_went_away_is_found_and_not_submitted_again(clock: Clock) -> None:
    launcher = AwayLauncher(clock, back_at_s=clock.now_s + 30, took_it=True)
    executor = started(launcher, "a")
    assert executor.result_of("a").job_id == "job-found"
    assert (launcher.submitted, len(launcher.tries_s)) == ([], 1)


def test_a_scheduler_that_stays_away_is_an_error_with_its_own_words(clock: Clock) -> None:
    launcher = AwayLauncher(clock)
    executor = started(launcher, "ab")
    for name in "ab":
        with pytest.raises(SchedulerUnreachableError, match=r"not known|Unable to contact slurm controller"):
            executor.result_of(name)
    assert UNKNOWN_LIMIT_S <= clock.now_s - 1000.0 <= 2 * (UNKNOWN_LIMIT_S + LONGEST_BACK_OFF_S)


def test_a_submission_that_an_earlier_session_lost_is_looked_for_first(clock: Clock) -> None:
    launcher = AwayLauncher(clock, back_at_s=0.0, took_it=True)
    executor = Executor(launcher, POLL_S, clock=clock, sleep=clock.sleep)
    earlier = Attempt("job-1", LOST_NODE, "node failure", ("n17",))
    executor.submit({"a": spec("a")}, {"a": Submission(900.0, attempts=(earlier,))})
    run = executor.result_of("a")
    assert (run.job_id, executor.attempts("a"), launcher.submitted) == ("job-found", (earlier,), [])


def test_interrupting_waits_for_no_log(launcher: FakeLauncher, clock: Clock) -> None:
    launcher.script = {"a": [COMPLETED], "b": [RUNNING]}
    launcher.log_at_s = {"a": None}
    executor = started(launcher, "ab")
    executor._wait()  # the moment at which Ctrl-C hits
    assert executor.interrupt(detach=False) == 1
    before_s = clock.now_s
    with pytest.raises(LogError, match="no log of job-a"):
        executor.result_of("a")
    with pytest.raises(JobError, match="interrupted: job job-b was cancelled"):
        executor.result_of("b")
    assert (clock.now_s, launcher.cancelled) == (before_s, [["b"]])


def test_a_stop_that_an_earlier_session_meant_to_send_is_not_blamed_for_another_end(
    launcher: FakeLauncher, clock: Clock
) -> None:
    past = Submission(900.0, "job-a", stopped=EarlyStop("stalled"))
    for status, stopped in ((FAILED, None), (JobStatus(JobState.CANCELLED), EarlyStop("stalled"))):
        executor = Executor(launcher, POLL_S, clock=clock, sleep=clock.sleep)
        launcher.script = {"a": [RUNNING, status]}
        executor.attach(Job("job-a", spec("a"), 900.0), past)
        assert executor.result_of("a").stopped == stopped


def test_a_job_that_an_earlier_session_meant_to_stop_is_still_watched(launcher: FakeLauncher, clock: Clock) -> None:
    executor = watched(launcher, clock, {"a": FakeWatch([Sample(stop=EarlyStop("stalled again"))])})
    launcher.script = {"a": [RUNNING, JobStatus(JobState.CANCELLED)]}
    executor.attach(Job("job-a", spec("a"), 900.0), Submission(900.0, "job-a", stopped=EarlyStop("stalled")))
    assert executor.result_of("a").stopped == EarlyStop("stalled again")
    assert launcher.cancelled == [["a"]]


class FullDisk:
    """A journal on a disk that is full from some event on."""

    def __init__(self, good: int) -> None:
        self.good = good

    def write(self, *_: object) -> None:
        self.good -= 1
        if self.good < 0:
            raise OSError(28, "No space left on device")

    intents = submitted = refused = ended = stopped = repeated = write

    def close(self) -> None:
        pass


def test_nothing_is_submitted_that_the_journal_cannot_tell_of(
    launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = started(launcher, "a", journal=cast("Journal", FullDisk(0)))
    with pytest.raises(SubmissionError) as error:
        executor.result_of("a")
    assert error.value.fact == "nothing was submitted: the run's journal cannot be written: No space left on device"
    assert launcher.submitted == []


def test_a_disk_that_gets_full_costs_no_result(launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(1)
    for name in ("submitted", "ended"):
        monkeypatch.setattr(Journal, name, lambda _, *facts: disk.write(*facts))
    executor = started(launcher, "a", journal=cast("Journal", disk))
    assert executor.result_of("a").status is COMPLETED
    assert executor.journal_problem == "No space left on device"


@dataclass
class ManyThreads(FakeLauncher):
    parallel_submissions: int = 4
    problem: JobError | None = None

    def cancel(self, jobs: Sequence[Job]) -> None:
        super().cancel(jobs)
        if self.problem is not None:
            problem, self.problem = self.problem, None
            raise problem


@pytest.mark.parametrize("problem", [None, JobError("jobs may still run: scancel failed")])
def test_interrupted_jobs_are_cancelled_while_rows_are_reported(clock: Clock, problem: JobError | None) -> None:
    launcher = ManyThreads(clock, script={"a": [RUNNING]}, problem=problem)
    executor = started(launcher, "a")
    while executor.status("a") is not RUNNING:
        executor._pump()
        executor._wait()
    assert executor.interrupt(detach=False) == 1
    with pytest.raises(JobError, match="interrupted: job job-a was cancelled"):
        executor.result_of("a")
    # A request that failed is made once more at the end.
    assert executor.close() == (1 if problem else 0)
    assert launcher.cancelled == ([["a"], ["a"]] if problem else [["a"]])


def test_a_row_whose_repetition_is_interrupted_is_judged_by_the_job_that_it_had(launcher: FakeLauncher) -> None:
    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    launcher.script = {"a": [LOST_NODE]}
    executor = started(launcher, "a", retries=2, on_repeat=ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        executor.result_of("a")
    assert executor.interrupt(detach=False) == 0
    assert executor.result_of("a").status is LOST_NODE


def test_ctrl_c_while_an_ended_jobs_files_are_looked_for_loses_no_row(
    launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(job: Job) -> Path | None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(launcher, "batch_output", interrupted)
    executor = started(launcher, "a")
    with pytest.raises(KeyboardInterrupt):
        executor.next_finished()
    executor.interrupt(detach=False)
    assert executor.result_of("a").status is COMPLETED


def test_a_file_system_that_is_away_for_a_moment_costs_nothing(
    launcher: FakeLauncher, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = launcher.find_log
    tries = []

    def find_log(job: Job) -> Path:
        tries.append(job.id)
        if len(tries) < 3:
            raise OSError(116, "Stale file handle")
        return found(job)

    monkeypatch.setattr(launcher, "find_log", find_log)
    executor = watched(launcher, clock, {"a": FakeWatch([Sample()])})
    launcher.script = {"a": [RUNNING, COMPLETED]}
    executor.submit({"a": spec("a")})
    assert executor.result_of("a").log == Path("/stage/job-a.out")


def test_a_log_format_that_fails_while_a_job_runs_costs_only_its_progress(launcher: FakeLauncher) -> None:
    class Faulty:
        def look(self, log: Path | None, now_s: float) -> Sample:
            raise AttributeError("shows_progress")

    launcher.script = {"a": [RUNNING, RUNNING, COMPLETED]}
    executor = started(launcher, "a", watcher=lambda _: cast("Watch", Faulty()))
    assert executor.result_of("a").status is COMPLETED


def test_a_suspended_job_is_not_watched(launcher: FakeLauncher, clock: Clock) -> None:
    suspended = JobStatus(JobState.RUNNING, "SUSPENDED")
    executor = watched(launcher, clock, {"a": FakeWatch([Sample(stop=EarlyStop("stalled"))])})
    launcher.script = {"a": [suspended, suspended, COMPLETED]}
    executor.submit({"a": spec("a")})
    assert (executor.result_of("a").stopped, launcher.cancelled) == (None, [])


def test_a_cancellation_that_failed_is_tried_again_at_the_end(
    launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel = launcher.cancel

    def refuse_once(jobs: Sequence[Job]) -> None:
        monkeypatch.setattr(launcher, "cancel", cancel)
        raise JobError("one does not end")

    monkeypatch.setattr(launcher, "cancel", refuse_once)
    executor = started(launcher, "a")
    with pytest.raises(JobError, match="one does not end"):
        executor.interrupt(detach=False)
    assert (executor.close(), launcher.cancelled) == (1, [["a"]])


def test_what_an_away_scheduler_may_have_taken_is_looked_for_at_the_end(clock: Clock) -> None:
    launcher = AwayLauncher(clock, back_at_s=clock.now_s + 1, took_it=True)
    executor = started(launcher, "a")
    executor.interrupt(detach=False)
    with pytest.raises(JobError, match="interrupted: whether it was submitted is not known"):
        executor.result_of("a")
    clock.sleep(2)
    assert (executor.close(), launcher.cancelled) == (1, [["a"]])


def test_a_retry_never_takes_its_own_failed_attempt_for_its_job(clock: Clock) -> None:
    launcher = AwayLauncher(clock, back_at_s=0.0, took_it=True)
    executor = Executor(launcher, POLL_S, clock=clock, sleep=clock.sleep)
    earlier = Attempt("job-found", LOST_NODE, "node failure", ("n17",))
    executor.submit({"a": spec("a")}, {"a": Submission(900.0, attempts=(earlier,))})
    assert executor.result_of("a").job_id == "job-a"


def test_what_a_log_says_of_a_secret_reaches_no_journal(
    launcher: FakeLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "not-for-the-journal")
    watch = FakeWatch([Sample(stop=EarlyStop("not finite: loss: nan not-for-the-journal"))])
    launcher.script = {"a": [RUNNING, JobStatus(JobState.CANCELLED)]}
    executor = started(launcher, "a", journal=Journal(tmp_path), watcher=lambda _: cast("Watch", watch))
    assert executor.result_of("a").stopped == EarlyStop("not finite: loss: nan ***")
    assert "not-for-the-journal" not in (tmp_path / "journal.jsonl").read_text()


# -- one row, one job, one log --------------------------------------------------------------------


class ForgetfulLauncher(FakeLauncher):
    """Gives out one id for every job, and one log where it is told to."""

    shared_log = False
    ids: tuple[str, ...] = ()

    def submit(self, spec: JobSpec) -> Job:
        number = len(self.submitted)
        self.submitted.append(spec.row_id)
        return Job(self.ids[number] if self.ids else "7", spec, self.clock.now_s)

    def find_log(self, job: Job) -> Path:
        return Path("/stage/shared.out") if self.shared_log else super().find_log(job)


def test_an_id_that_two_rows_have_makes_errors_of_both_and_their_jobs_are_ended(clock: Clock) -> None:
    launcher = ForgetfulLauncher(clock)
    launcher.ids = ("7", "8", "7")
    executor = started(launcher, "abc")
    assert {executor.next_finished() for _ in "ac"} == {"a", "c"}
    for row in "ac":
        with pytest.raises(JobError, match=r"^the scheduler gave the id 7 twice, to a and c\n"):
            executor.result_of(row)
    assert executor.result_of("b").status is COMPLETED
    assert launcher.cancelled == [["a", "c"]]


def test_a_row_that_was_handed_out_keeps_its_end_where_its_id_is_given_out_again(clock: Clock) -> None:
    launcher = ForgetfulLauncher(clock)
    executor = started(launcher, "a")
    assert executor.result_of("a").status is COMPLETED
    executor.submit({"b": spec("b")})
    with pytest.raises(JobError, match=r"^the scheduler gave the id 7 twice, to a and b\n"):
        executor.result_of("b")
    assert executor.result_of("a").status is COMPLETED


def test_a_row_whose_next_job_has_its_last_ones_id_is_an_error(clock: Clock) -> None:
    launcher = ForgetfulLauncher(clock)
    launcher.script = {"a": [JobStatus(JobState.NODE_FAIL, exit_code=0)]}
    executor = started(launcher, "a", retries=1)
    with pytest.raises(JobError, match=r"^the scheduler gave the id 7 twice, to two jobs of a\n"):
        executor.result_of("a")


def test_a_log_that_two_rows_have_makes_errors_of_both(clock: Clock) -> None:
    launcher = ForgetfulLauncher(clock)
    launcher.shared_log, launcher.ids = True, ("7", "8")
    executor = started(launcher, "ab")
    for row in "ab":
        with pytest.raises(LogError, match=r"^one log is that of two jobs, of a and b\n"):
            executor.result_of(row)


def test_a_row_behind_whose_submission_are_several_jobs_is_an_error_at_once(
    executor: Executor, launcher: FakeLauncher
) -> None:
    launcher.script = {"a": [replace(RUNNING, siblings=("9",))], "b": [RUNNING, COMPLETED]}
    executor.submit({name: spec(name) for name in "ab"})
    with pytest.raises(JobError) as told:
        executor.result_of("a")
    assert told.value.fact == "2 jobs are behind the one submission of job job-a, and one row is one job"
    assert dict(told.value.evidence)["jobs"] == "job-a, 9"
    assert told.value.advice.startswith("scancel job-a ends all of them")
    assert launcher.cancelled == [["a"]]
    assert executor.result_of("b").status is COMPLETED


def test_a_queue_that_is_full_is_waited_for_and_said(clock: Clock) -> None:
    launcher = FakeLauncher(clock)
    names = [f"row{number}" for number in range(8)]
    launcher.script = {name: [PENDING, RUNNING, COMPLETED] for name in names}
    executor = Executor(launcher, POLL_S, clock=clock, sleep=clock.sleep)
    submit, tries, told = launcher.submit, 0, []

    def limited(spec: JobSpec) -> Job:
        nonlocal tries
        tries += 1
        if sum(isinstance(one, Active) for one in executor.phases.values()) >= 3:
            raise QueueFullError("the queue takes no more jobs (AssocMaxSubmitJobLimit)")
        return submit(spec)

    launcher.submit = limited  # type: ignore[method-assign]
    executor.submit({name: spec(name) for name in names})
    told.append(executor.full)
    assert all(executor.result_of(name).status is COMPLETED for name in names)
    assert told == ["the queue takes no more jobs (AssocMaxSubmitJobLimit)"]
    assert (executor.full, launcher.submitted) == ("", names)
    assert tries <= 8 + 3  # one refusal for each time that there was room
