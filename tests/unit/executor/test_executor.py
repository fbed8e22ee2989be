from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_gsw.errors import (
    IncompleteLogError,
    JobError,
    LogError,
    NoLogError,
    QueueFullError,
    RunError,
    SchedulerUnreachableError,
    SubmissionError,
)
from pytest_gsw.executor.ended_jobs import HOLD_S
from pytest_gsw.executor.limits import Limits
from pytest_gsw.executor.phases import Active, AwaitingLog, Finished
from pytest_gsw.executor.polls import MOST_POLLS_PER_INTERVAL, SETTLE_S
from pytest_gsw.executor.progress_monitor import Sample, Watch
from pytest_gsw.executor.running_logs import LOG_LOOK_S
from pytest_gsw.executor.submitter import LONGEST_BACK_OFF_S
from pytest_gsw.jobs.journal import Journal, Submission
from pytest_gsw.jobs.model import AT_ONCE, Attempt, EarlyStop, Job, JobSpec
from pytest_gsw.jobs.states import NODE_LOST, NOT_LAUNCHED, JobState, JobStatus
from pytest_gsw.stats.decision import Done, Repeat, Undecided
from pytest_gsw.validation.run import Run
from tests.messages import wording
from tests.unit.executor.conftest import (
    CANCELLED,
    COMPLETED,
    DONE,
    FAILED,
    LOST_NODE,
    PENDING,
    POLL_S,
    RUNNING,
    AwayLauncher,
    Clock,
    FakeLauncher,
    NumberedLauncher,
    Repeats,
    error_of,
    executor_of,
    run_of,
    spec,
    started,
    status_of,
)

REPLAYED = JobStatus(JobState.REPLAYED)
UNKNOWN = JobStatus(JobState.UNKNOWN, reason="slurmctld is out of reach")
COMPLETING = JobStatus(JobState.RUNNING, raw_state="COMPLETING")


@dataclass
class Seen:
    """Every change that an observer is told of."""

    changes: list[tuple[str, str, JobStatus]] = field(default_factory=list)

    def __call__(self, row_id: str, job_id: str, status: JobStatus) -> None:
        self.changes.append((row_id, job_id, status))


@pytest.fixture
def seen() -> Seen:
    return Seen()


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

    assert started(launcher, "ab", decide=decide).next_finished() == "a"
    assert len(asked_s) == 3
    assert all(60 <= later_s - at_s <= 62 for at_s, later_s in itertools.pairwise(asked_s))


def test_a_row_that_waits_for_others_is_over_when_the_session_is_interrupted(launcher: FakeLauncher) -> None:
    launcher.script = {"b": [RUNNING]}
    executor = started(launcher, "ab", decide=lambda *_: Undecided())
    executor._wait()
    executor._pump()
    assert isinstance(executor.rows.phases.get("a"), AwaitingLog)
    executor.interrupt(detach=False)
    assert executor.result_of("a").job_id == "job-a"
    assert error_of(executor, "b").fact == wording("interrupted", job="job-b", fate="cancelled")


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (JobStatus(JobState.PENDING, reason="ReqNodeNotAvail"), "; it was pending (ReqNodeNotAvail)"),
        (JobStatus(JobState.PENDING, reason="None"), ""),
        (PENDING, ""),
        (RUNNING, ""),
    ],
)
def test_an_interrupted_row_says_what_its_job_waited_for(launcher: FakeLauncher, status: JobStatus, told: str) -> None:
    launcher.script = {"a": [status]}
    executor = started(launcher)
    executor._wait()
    executor.interrupt(detach=False)
    assert error_of(executor).fact == wording("interrupted", job="job-a", fate=f"cancelled{told}")


def test_every_row_is_submitted_at_once_and_one_question_is_for_all_jobs(launcher: FakeLauncher) -> None:
    names = [f"row{number}" for number in range(500)]
    launcher.script = {name: [PENDING, RUNNING, COMPLETED] for name in names}
    executor = started(launcher, names)
    assert (launcher.submitted, launcher.polls) == (names, [])
    for name in names:
        executor.result_of(name)
    assert launcher.polls == [names] * 3


def test_questions_are_the_poll_interval_apart_and_never_about_jobs_that_have_ended(
    launcher: FakeLauncher, clock: Clock
) -> None:
    launcher.script = {"a": [PENDING, RUNNING, COMPLETED], "b": [COMPLETED]}
    executor = started(launcher, "ab")
    for row in "bab":
        executor.result_of(row)
    assert launcher.polls == [["a", "b"], ["a"], ["a"]]
    assert clock.slept_s == [POLL_S, POLL_S]


def test_where_all_jobs_are_about_to_be_over_they_are_asked_about_sooner(launcher: FakeLauncher, clock: Clock) -> None:
    launcher.script = {"a": [COMPLETING] * 5 + [COMPLETED], "b": [RUNNING, COMPLETED]}
    started(launcher, "ab").result_of("a")
    soon_s = POLL_S / MOST_POLLS_PER_INTERVAL
    assert clock.slept_s == [POLL_S, soon_s, 2 * soon_s, 4 * soon_s, POLL_S]


def test_a_row_that_cannot_be_submitted_keeps_its_error(launcher: FakeLauncher) -> None:
    unfit = SubmissionError("100 GPUs do not fill whole nodes")
    launcher.refused = ("refused",)
    executor = executor_of(launcher)
    executor.submit({"unfit": unfit, "refused": spec("refused"), "fine": spec("fine")})
    assert error_of(executor, "unfit", SubmissionError) is unfit
    assert error_of(executor, "refused", SubmissionError).fact == "refused was refused"
    assert executor.result_of("fine").status is COMPLETED
    assert launcher.submitted == ["refused", "fine"]
    assert launcher.polls == [["fine"]]
    assert (executor.close(), launcher.cancelled, launcher.closed) == (0, [], 1)


def test_what_is_known_of_a_row(launcher: FakeLauncher) -> None:
    launcher.refused = ("refused",)
    launcher.script = {"a": [RUNNING], "b": [COMPLETED]}
    executor = started(launcher, ["a", "b", "refused"])
    assert (status_of(executor, "a"), executor.rows.submitted("a").job.id) == (PENDING, "job-a")
    executor.result_of("b")
    assert (status_of(executor, "a"), status_of(executor, "b")) == (RUNNING, COMPLETED)
    assert isinstance(executor.rows.phases.get("refused"), Finished)
    assert executor.rows.phases.get("other") is None
    assert {executor.rows.submitted(row) for row in ("refused", "other")} == {None}


@pytest.mark.parametrize("unknown", [UNKNOWN, None], ids=["unknown", "no-answer"])
def test_unknown_is_not_an_end_before_the_limit(launcher: FakeLauncher, seen: Seen, unknown: JobStatus | None) -> None:
    below_limit = int(FakeLauncher.unknown_limit_s / LONGEST_BACK_OFF_S)
    run = run_of(launcher, RUNNING, *[unknown] * below_limit, RUNNING, COMPLETED, observer=seen)
    assert run.status is COMPLETED
    assert [status for _, _, status in seen.changes] == [RUNNING, COMPLETED]


def test_while_a_job_is_unknown_its_last_known_state_stands(launcher: FakeLauncher) -> None:
    launcher.script = {"a": [RUNNING, UNKNOWN], "b": [RUNNING, RUNNING, COMPLETED]}
    executor = started(launcher, "ab")
    executor.result_of("b")
    assert status_of(executor, "a") is RUNNING


@pytest.mark.parametrize(("log_at_s", "log"), [(None, None), (0.0, Path("/stage/job-a.out"))])
def test_a_job_that_stays_unknown_is_given_up_and_never_completed(
    launcher: FakeLauncher, clock: Clock, seen: Seen, log_at_s: float | None, log: Path | None
) -> None:
    launcher.log_at_s = {"a": log_at_s}
    run = run_of(launcher, RUNNING, UNKNOWN, observer=seen)
    assert run == Run("job-a", UNKNOWN, log, Path("/stage/slurm-job-a.out"))
    assert (
        FakeLauncher.unknown_limit_s
        <= clock.now_s - 1000.0 - POLL_S
        <= FakeLauncher.unknown_limit_s + LONGEST_BACK_OFF_S
    )
    assert seen.changes == [("a", "job-a", RUNNING), ("a", "job-a", UNKNOWN)]


def test_the_limit_counts_from_the_last_answer(launcher: FakeLauncher, clock: Clock) -> None:
    many = [UNKNOWN] * 10
    assert run_of(launcher, *many, RUNNING, *many, RUNNING, *many, COMPLETED).status is COMPLETED
    assert clock.now_s - 1000.0 > 2 * FakeLauncher.unknown_limit_s
    assert max(clock.slept_s) == LONGEST_BACK_OFF_S  # it is asked less and less often


def test_a_log_that_appears_late_is_waited_for(launcher: FakeLauncher, clock: Clock) -> None:
    launcher.log_at_s = {"a": clock.now_s + 30.5}
    assert run_of(launcher, COMPLETED).log == Path("/stage/job-a.out")
    assert 1030.5 <= clock.now_s <= 1031.5
    assert max(clock.slept_s) <= 1.0


@pytest.mark.parametrize("status", [COMPLETED, REPLAYED])
def test_a_log_that_never_appears_is_an_error(launcher: FakeLauncher, clock: Clock, status: JobStatus) -> None:
    launcher.log_at_s = {"a": None}
    with pytest.raises(LogError, match="no log of job-a"):
        run_of(launcher, status)
    assert sum(clock.slept_s) == pytest.approx(launcher.log_wait_s, abs=1.0)


@pytest.mark.parametrize(
    "status", [FAILED, replace(COMPLETED, exit_code=1), JobStatus(JobState.TIMEOUT, exit_code=0), CANCELLED]
)
def test_the_log_of_a_job_that_did_not_end_well_is_not_waited_for(
    launcher: FakeLauncher, clock: Clock, status: JobStatus
) -> None:
    launcher.log_at_s = {"a": None}
    assert run_of(launcher, status) == Run("job-a", status, None, Path("/stage/slurm-job-a.out"))
    assert (clock.slept_s, launcher.looked_for_log) == ([], 1)


@dataclass
class LateLauncher(FakeLauncher):
    """A file server that shows each part of a file only from a certain time on; a part that is no text truncates it."""

    log_wait_s: float = 30.0
    directory: Path = Path()
    parts: dict[str, list[tuple[float, str | None]]] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        return self.directory / f"log-x_{name}"

    def show(self) -> None:
        for name, parts in self.parts.items():
            while parts and self.clock.now_s - 1000.0 >= parts[0][0]:
                _, text = parts.pop(0)
                with self.path(name).open("w" if text is None else "a") as file:
                    file.write(text or "")

    def find_log(self, job: Job) -> Path:
        self.show()
        path = self.path(f"{job.spec.row_id}.out")
        if not path.exists():
            raise NoLogError(f"no log of {job.id}")
        return path


def check_late(row_id: str, run: Run) -> RunError | None:
    """A log is whole once it has the step 2."""
    text = "".join(path.read_text() for _, path in run.outputs if path.is_file())
    if "error" in text:
        return LogError("it shows a failure")
    return None if "2\n" in text else IncompleteLogError("the log holds 1 step")


@pytest.fixture
def late(clock: Clock, tmp_path: Path) -> LateLauncher:
    return LateLauncher(clock, directory=tmp_path)


@pytest.mark.parametrize(
    ("parts", "from_s", "to_s"),
    [
        ([(0.0, "1\n2\n")], 0.0, 0.0),  # whole: not a second more
        ([(0.0, ""), (15.0, "1\n2\n")], 15.0, 17.5),
        ([(0.0, "1\n"), (15.0, "2\n")], 15.0, 17.5),
        ([(0.0, "1\n"), (29.0, "2\n")], 29.0, 30.5),
        ([(5.0, ""), (15.0, "1\n2\n")], 15.0, 17.5),  # not there at first
        ([(0.0, "1\n1\n"), (3.0, None), (15.0, "1\n2\n")], 15.0, 17.5),  # rotated
        ([(0.0, "1\n2")], 30.0, 31.0),  # torn for ever
        ([(0.0, "1\nerror\n")], 0.0, 0.0),  # nothing is awaited
        ([(0.0, "1\n"), (15.0, "2\n"), (15.5, "error\n")], 15.5, 18.0),
        ([(0.0, "1\n"), (14.0, "1\n"), (28.0, "1\n"), (31.0, "2\n")], 30.0, 31.0),  # one deadline
    ],
)
def test_a_log_whose_end_comes_late_is_waited_for_as_one_that_is_not_there(
    late: LateLauncher, clock: Clock, parts: list[tuple[float, str | None]], from_s: float, to_s: float
) -> None:
    late.parts = {"a.out": parts}
    run = run_of(late, COMPLETED, check=check_late)
    assert from_s <= clock.now_s - 1000.0 <= to_s
    assert run.log == late.path("a.out")
    assert "error" not in late.path("a.out").read_text() or check_late("a", run) is not None


@pytest.mark.parametrize("status", [FAILED, CANCELLED, replace(COMPLETED, exit_code=1)])
def test_the_end_of_a_failed_jobs_log_is_not_waited_for(late: LateLauncher, clock: Clock, status: JobStatus) -> None:
    late.parts = {"a.out": [(0.0, "1\n"), (15.0, "2\n")]}
    run_of(late, status, check=check_late)
    assert clock.slept_s == []


def test_rows_do_not_wait_for_the_one_whose_log_is_late(late: LateLauncher, clock: Clock) -> None:
    late.parts = {f"{row}.out": [(0.0, "1\n"), (0.0 if row != "b" else 15.0, "2\n")] for row in "abc"}
    executor = started(late, "abc", check=check_late)
    assert [executor.next_finished() for _ in "ac"] == ["a", "c"]
    assert clock.now_s == 1000.0
    executor.interrupt(detach=False)  # Ctrl-C: it is judged as it is
    assert executor.result_of("b").log == late.path("b.out")
    assert clock.now_s == 1000.0


@pytest.mark.parametrize(
    ("name", "text", "is_late"),
    [
        ("a.out", "error\n", True),
        ("a.err", "error\n", True),  # there was none before
        ("a.out", "harmless\n", False),
        ("a.out", None, False),  # rotated: it was measured when it was whole
    ],
)
def test_last_words_behind_a_whole_log_are_looked_for_at_the_sessions_end(
    late: LateLauncher, clock: Clock, name: str, text: str | None, is_late: bool
) -> None:
    late.parts = {"a.out": [(0.0, "1\n2\n")]}
    executor = started(late, "a", check=check_late)
    executor.result_of("a")
    clock.now_s += 15.0
    late.parts = {name: [(15.0, text)]}
    late.show()
    executor.count()
    assert list(executor.rows.late) == (["a"] if is_late else [])


def test_observers_are_told_of_each_change_once(launcher: FakeLauncher, seen: Seen) -> None:
    launcher.script = {"a": [PENDING, PENDING, RUNNING, RUNNING, RUNNING, COMPLETED], "b": [RUNNING, FAILED]}
    started(launcher, "ab", observer=seen).result_of("a")
    assert seen.changes == [
        ("b", "job-b", RUNNING),
        ("b", "job-b", FAILED),
        ("a", "job-a", RUNNING),
        ("a", "job-a", COMPLETED),
    ]


def test_what_is_newly_known_of_a_state_is_kept(launcher: FakeLauncher, seen: Seen) -> None:
    placed = JobStatus(JobState.RUNNING, nodes="pool0-17")
    launcher.script = {"a": [RUNNING, placed], "b": [RUNNING, RUNNING, COMPLETED]}
    executor = started(launcher, "ab", observer=seen)
    executor.result_of("b")
    assert status_of(executor, "a") is placed
    assert [status for row_id, _, status in seen.changes if row_id == "a"] == [RUNNING]


def test_closing_cancels_what_is_left_with_one_request(launcher: FakeLauncher) -> None:
    launcher.refused = ("refused",)
    launcher.script = {"pending": [PENDING], "running": [RUNNING], "lost": [UNKNOWN]}
    executor = started(launcher, ["done", "pending", "refused", "running", "lost"])
    executor.result_of("done")
    assert executor.close() == 3
    # Those that wait come first: they would start on the nodes that "running" leaves.
    assert launcher.cancelled == [["pending", "lost", "running"]]
    assert launcher.closed == 1


def test_a_job_that_was_given_up_is_cancelled_too(launcher: FakeLauncher) -> None:
    launcher.script = {"a": [UNKNOWN]}
    executor = started(launcher)
    executor.result_of("a")
    assert (executor.close(), launcher.cancelled) == (1, [["a"]])


def failing(launcher: FakeLauncher, times: int, error: Exception) -> Callable[[Sequence[Job]], None]:
    """A cancellation that fails so often, and then is the launcher's own."""
    cancel, tries = launcher.cancel, iter(range(times))

    def fail(jobs: Sequence[Job]) -> None:
        if next(tries, None) is not None:
            raise error
        cancel(jobs)

    return fail


def test_the_launcher_is_closed_even_if_cancelling_fails(
    launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "cancel", failing(launcher, 1, RunError("scancel: no answer")))
    executor = started(launcher)
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
        most = max(most, sum(status_of(executor, name) is PENDING for name in "abcd"))
    assert (launcher.submitted, most <= 2) == (["a", "b", "c", "d"], True)
    assert [len(asked) for asked in launcher.polls[:3]] == [2, 2, 2]  # c and d only when a and b run


@dataclass
class FakeWatch:
    """A watch that shows one sample after the other, the last of them for ever."""

    sights: list[Sample]
    looked_s: list[float] = field(default_factory=list)

    def look(self, log: Path | None, now_s: float) -> Sample:
        self.looked_s.append(now_s)
        return self.sights.pop(0) if len(self.sights) > 1 else self.sights[0]


def watching(**watches: FakeWatch) -> Callable[[str], Watch | None]:
    return lambda row_id: cast("Watch | None", watches.get(row_id))


STALLED = EarlyStop("stalled at step 17 of 50: no new step for 10m00s")


def test_running_jobs_logs_are_looked_at_between_polls(launcher: FakeLauncher) -> None:
    watch = FakeWatch([Sample(steps=3, of=50)])
    run_of(launcher, PENDING, RUNNING, RUNNING, COMPLETED, watcher=watching(a=watch))
    # Not while it is pending; then every two seconds, without a question to the scheduler.
    assert watch.looked_s[0] == 1015.0
    assert {round(b - a, 6) for a, b in itertools.pairwise(watch.looked_s)} <= {1.0, LOG_LOOK_S}
    assert len(launcher.polls) == 4


def test_the_last_step_makes_the_scheduler_be_asked_at_once(launcher: FakeLauncher, clock: Clock) -> None:
    going, last = Sample(steps=49, of=50), Sample(steps=50, of=50, finished=True)
    run_of(launcher, RUNNING, COMPLETED, watcher=watching(a=FakeWatch([going, going, last])))
    assert clock.now_s - 1000.0 == 2 * LOG_LOOK_S + SETTLE_S  # not 15 s
    assert len(launcher.polls) == 2


def test_progress_is_there_for_whoever_asks(launcher: FakeLauncher) -> None:
    sample = Sample(steps=23, of=50, step_time_s=4.33)
    launcher.script = {"a": [RUNNING], "b": [RUNNING, RUNNING, COMPLETED], "c": [PENDING]}
    executor = executor_of(launcher, watcher=watching(a=FakeWatch([sample])))
    executor.submit({**{row: spec(row) for row in "abc"}, "x": SubmissionError("no")})
    executor.result_of("b")
    found = [(row, phase, phase.submitted) for row, phase in executor.rows.phases.items()]
    assert [
        (row, seen and seen.status, seen and seen.sample, isinstance(phase, Finished)) for row, phase, seen in found
    ] == [
        ("a", RUNNING, sample, False),
        ("b", COMPLETED, None, True),
        ("c", PENDING, None, False),
        ("x", None, None, True),
    ]


def test_jobs_that_are_not_worth_going_on_are_ended_with_one_request(launcher: FakeLauncher) -> None:
    watches = {name: FakeWatch([Sample(steps=17), Sample(steps=17, stop=STALLED)]) for name in "ab"}
    launcher.script = {"a": [RUNNING, CANCELLED], "b": [RUNNING, CANCELLED], "c": [RUNNING, RUNNING, COMPLETED]}
    executor = started(launcher, "abc", watcher=watching(**watches, c=FakeWatch([Sample(steps=17)])))
    assert [executor.result_of(row).stopped for row in "abc"] == [STALLED, STALLED, None]
    assert launcher.cancelled == [["a", "b"]]
    assert executor.close() == 0


def test_a_job_that_cannot_be_ended_is_tried_again(launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = failing(launcher, 2, JobError("jobs may still run: scancel failed"))
    monkeypatch.setattr(launcher, "cancel", refuse)
    run = run_of(launcher, RUNNING, CANCELLED, watcher=watching(a=FakeWatch([Sample(stop=STALLED)])))
    assert run.stopped == STALLED
    assert launcher.cancelled == [["a"]]


def test_a_job_that_is_put_back_into_the_queue_is_watched_anew(launcher: FakeLauncher) -> None:
    made = []

    def watcher(row_id: str) -> Watch:
        made.append(row_id)
        return cast("Watch", FakeWatch([Sample(steps=1)]))

    run_of(launcher, RUNNING, RUNNING, PENDING, RUNNING, COMPLETED, watcher=watcher)
    assert made == ["a", "a"]


def test_a_row_that_lost_its_node_is_run_again_without_it(launcher: FakeLauncher) -> None:
    repeats = Repeats()
    launcher.script = {"a": [LOST_NODE, RUNNING, COMPLETED]}
    executor = started(launcher, retries=2, on_repeat=repeats)
    run = executor.result_of("a")
    attempt = Attempt("job-a", LOST_NODE, "node failure", ("n17",))
    assert (run.status, run.earlier, repeats.attempts) == (COMPLETED, (), [("a", attempt)])
    again = executor.rows.row("a").spec
    assert again is not None
    assert (again.name, again.attempt, again.excluded_nodes) == ("again2.gsw-a", 2, ("n17",))
    assert executor.rows.row("a").failures == (attempt,)


def test_a_row_is_not_run_more_often_than_allowed(launcher: FakeLauncher) -> None:
    repeats = Repeats()
    launcher.script = {"a": [LOST_NODE]}
    executor = started(launcher, retries=2, on_repeat=repeats)
    run = executor.result_of("a")
    assert (run.status, len(executor.rows.row("a").failures), len(repeats.attempts)) == (LOST_NODE, 2, 2)
    assert launcher.submitted == ["a", "a", "a"]


@pytest.mark.parametrize(
    "status",
    [COMPLETED, FAILED, JobStatus(JobState.TIMEOUT), JobStatus(JobState.OUT_OF_MEMORY), CANCELLED],
    ids=lambda status: str(status.state.value),
)
def test_what_is_not_the_infrastructures_fault_is_never_run_again(launcher: FakeLauncher, status: JobStatus) -> None:
    repeats = Repeats()
    run = run_of(launcher, status, retries=5, on_repeat=repeats)
    assert (run.status, repeats.attempts, launcher.submitted) == (status, [], ["a"])


def died(node: str, at_s: float = 100.0) -> JobStatus:
    return JobStatus(JobState.FAILED, exit_code=1, nodes=node, start_s=at_s, end_s=at_s + 1)


def worked(node: str) -> JobStatus:
    return replace(COMPLETED, nodes=node, start_s=90.0, end_s=190.0)


def test_a_job_that_fails_at_once_is_repeated_once_elsewhere(launcher: FakeLauncher) -> None:
    repeats = Repeats()
    launcher.script = {"a": [died("n1"), worked("n2")], "b": [died("n1"), died("n2")]}
    executor = started(launcher, "ab", retries=3, on_repeat=repeats)
    assert executor.result_of("a").status == worked("n2")
    assert executor.result_of("b").status == died("n2")
    assert repeats.attempts == [(row, Attempt("job-" + row, died("n1"), AT_ONCE, ("n1",))) for row in "ab"]
    again = executor.rows.row("a").spec
    assert again is not None
    assert (again.avoided_nodes, again.excluded_nodes) == (("n1",), ())


@pytest.mark.parametrize(("rows", "attempts"), [("a", [0]), ("ab", [1, 1])])
def test_a_job_that_runs_out_of_memory_at_once_is_repeated_if_its_node_fails_other_rows(
    launcher: FakeLauncher, tmp_path: Path, rows: str, attempts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "slurm.out"
    output.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n")
    monkeypatch.setattr(launcher, "batch_output", lambda _: output)
    launcher.script = {row: [died("n1"), worked("n2")] for row in rows} | {"x": [worked("n3")]}
    executor = started(launcher, f"x{rows}", retries=2)
    assert [(executor.result_of(row).status.nodes != "n1") for row in rows] == [one > 0 for one in attempts]
    assert [len(executor.rows.row(row).failures) for row in rows] == attempts


@pytest.mark.parametrize(
    ("first", "changes"),
    [
        (replace(died("n1"), end_s=190.0), {}),  # it ran for longer
        (replace(died("n1"), start_s=None), {}),
        (died("n1"), {"node_list": "n1"}),  # a tile has no other nodes
    ],
)
def test_a_job_that_is_not_repeated_elsewhere(
    launcher: FakeLauncher, first: JobStatus, changes: dict[str, Any]
) -> None:
    launcher.script = {"a": [first, worked("n2")]}
    executor = executor_of(launcher, retries=3)
    executor.submit({"a": spec(**changes)})
    assert executor.result_of("a").status == first


def test_a_node_that_fails_the_jobs_of_several_rows_gets_no_more(launcher: FakeLauncher) -> None:
    """Without retries, too: these jobs cost the rows nothing."""
    numbered = NumberedLauncher(launcher.clock)
    numbered.script = {"x": [RUNNING] * 3 + [worked("n3")], "c": [RUNNING] * 5 + [worked("n2")]}
    numbered.script |= {row: [died("n1"), worked("n2")] for row in "ab"}
    executor = started(numbered, "xabc", limits=Limits(jobs=3))
    assert {executor.result_of(row).status.nodes for row in "xabc"} == {"n2", "n3"}
    # c was submitted before anything had worked, the others afterwards.
    avoided = {(spec.row_id, spec.attempt): spec.avoided_nodes for spec in numbered.specs}
    assert avoided[("a", 2)] == avoided[("b", 2)] == ("n1",)
    assert numbered.clock.now_s < 1000 + 2 * HOLD_S


@pytest.mark.parametrize("retries", [0, 2])
def test_a_recipe_that_fails_on_each_node_ends(launcher: FakeLauncher, retries: int) -> None:
    launcher.script = {row: [died("n1"), died("n2"), died("n3")] for row in "abc"}
    executor = started(launcher, "abc", retries=retries)
    assert [len(executor.rows.row(row).failures) for row in "abc" if executor.result_of(row)] == [min(retries, 1)] * 3


def test_a_row_that_no_other_node_can_run_ends_on_the_one_that_fails_it(launcher: FakeLauncher) -> None:
    numbered = NumberedLauncher(launcher.clock, full=("n1",))
    numbered.script = {row: [died("n1")] for row in "ab"} | {"x": [RUNNING, RUNNING, worked("n3")]}
    executor = started(numbered, "xab", retries=2)
    assert [executor.result_of(row).status.nodes for row in "xab"] == ["n3", "n1", "n1"]
    assert [len(executor.rows.row(row).failures) for row in "ab"] == [1, 1]


DRAINED = "n1 (drained: Prolog error)"


@pytest.mark.parametrize(
    ("first", "cancelled"),
    [
        (replace(CANCELLED, reason=f"{NODE_LOST}: {DRAINED}"), []),
        (replace(PENDING, reason=f"{NOT_LAUNCHED}: {DRAINED}", nodes="n1"), [["a"]]),
    ],
)
def test_a_job_whose_node_was_lost_at_its_start_is_retried(
    launcher: FakeLauncher, first: JobStatus, cancelled: list[list[str]]
) -> None:
    repeats = Repeats()
    launcher.script = {"a": [first, COMPLETED]}
    launcher.log_at_s = {"a": launcher.clock.now_s + POLL_S + 1}
    executor = started(launcher, retries=1, on_repeat=repeats)
    assert executor.result_of("a").status == COMPLETED
    assert (repeats.why, launcher.cancelled) == ([f"node lost: {DRAINED}"], cancelled)
    launcher.script = {"a": [first, COMPLETED]}
    if not cancelled:
        assert started(launcher).result_of("a").status == first


@dataclass
class Wanting:
    """Rows want so many jobs that end well."""

    jobs: int

    def __call__(self, row_id: str, run: Run) -> Repeat | Done:
        done = len(run.jobs)
        is_wanted = run.is_whole and done < self.jobs
        return Repeat(f"{done} of {self.jobs}", (run.status.nodes,)) if is_wanted else Done()


@pytest.fixture
def numbered(clock: Clock) -> NumberedLauncher:
    return NumberedLauncher(clock, script={"a": [DONE]})


def test_a_row_has_as_many_jobs_as_are_wanted_on_other_nodes_than_those_before(numbered: NumberedLauncher) -> None:
    repeats = Repeats()
    executor = started(numbered, decide=Wanting(3), on_repeat=repeats)
    run = executor.result_of("a")
    assert [job.job_id for job in run.jobs] == ["job-a-1", "job-a-2", "job-a-3"]
    assert [job.log for job in run.jobs] == [Path(f"/stage/job-a-{n}.out") for n in (1, 2, 3)]
    assert repeats.attempts == [
        ("a", Attempt("job-a-1", DONE, "1 of 3", ("n1",), measured=True)),
        ("a", Attempt("job-a-2", DONE, "2 of 3", ("n1",), measured=True)),
    ]
    assert executor.rows.row("a").failures == ()  # none of them failed
    assert [(one.avoided_nodes, one.excluded_nodes) for one in numbered.specs[:2]] == [((), ()), (("n1",), ())]
    assert numbered.specs[1].environment == {"GSW_ATTEMPT": "2"}


def test_further_jobs_of_a_tile_avoid_nothing(numbered: NumberedLauncher) -> None:
    repeats = Repeats()
    executor = executor_of(numbered, decide=Wanting(2), on_repeat=repeats)
    executor.submit({"a": replace(spec("a"), node_list="n1")})
    executor.result_of("a")
    assert [attempt.excluded_nodes for _, attempt in repeats.attempts] == [()]
    assert [(one.node_list, one.avoided_nodes) for one in numbered.specs] == [("n1", ())] * 2


def test_further_jobs_take_the_same_nodes_where_there_are_no_others(numbered: NumberedLauncher) -> None:
    numbered.full = ("n1",)
    assert len(run_of(numbered, DONE, decide=Wanting(2)).jobs) == 2
    assert numbered.submitted == ["a", "a", "a"]  # the second of them was refused
    assert numbered.specs[-1].avoided_nodes == ()


def test_an_answer_that_is_no_refusal_is_not_followed_by_a_second_submission(
    numbered: NumberedLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = numbered.submit

    def mumble(spec: JobSpec) -> Job:
        job = submit(spec)
        if spec.avoided_nodes:
            raise SubmissionError("sbatch gave no job id")
        return job

    monkeypatch.setattr(numbered, "submit", mumble)
    executor = started(numbered, decide=Wanting(2))
    assert error_of(executor, kind=SubmissionError).fact == "sbatch gave no job id"
    assert numbered.submitted == ["a", "a"]
    assert [run.job_id for run in executor.rows.row("a").earlier] == ["job-a-1"]


def test_a_job_whose_other_nodes_are_not_there_is_submitted_to_any(numbered: NumberedLauncher) -> None:
    repeats = Repeats()
    waits = JobStatus(JobState.PENDING, reason="ReqNodeNotAvail, UnavailableNodes:n[2-8]")
    numbered.script = {"a": [DONE, waits, DONE]}
    executor = started(numbered, decide=Wanting(2), on_repeat=repeats)
    assert [job.job_id for job in executor.result_of("a").jobs] == ["job-a-1", "job-a-3"]
    assert numbered.cancelled == [["a"]]
    assert [(one.job_id, one.why) for one in executor.rows.row("a").failures] == [("job-a-2", wording("no other node"))]
    assert numbered.specs[-1].avoided_nodes == ()
    assert len(repeats.attempts) == 2


def test_a_job_that_is_not_alone_and_waits_for_other_nodes_is_given_up(numbered: NumberedLauncher) -> None:
    """One answer says both."""
    waits = JobStatus(JobState.PENDING, reason="ReqNodeNotAvail", siblings=("9",))
    with pytest.raises(JobError, match=wording("jobs of a submission", count="^2", job="job-a-2")):
        run_of(numbered, DONE, waits, decide=Wanting(2))
    assert numbered.cancelled == [["a"]]
    assert numbered.submitted == ["a", "a"]


def test_a_job_that_waits_for_nodes_that_are_busy_is_waited_for(numbered: NumberedLauncher) -> None:
    waits = JobStatus(JobState.PENDING, reason="Resources")
    assert len(run_of(numbered, DONE, waits, waits, DONE, decide=Wanting(2)).jobs) == 2
    assert numbered.cancelled == []


def test_a_job_that_the_infrastructure_failed_is_none_of_the_measured_ones(numbered: NumberedLauncher) -> None:
    numbered.script = {"a": [DONE, LOST_NODE, DONE]}
    executor = started(numbered, decide=Wanting(2), retries=1)
    assert [job.job_id for job in executor.result_of("a").jobs] == ["job-a-1", "job-a-3"]
    assert [attempt.job_id for attempt in executor.rows.row("a").failures] == ["job-a-2"]
    assert (numbered.specs[-1].avoided_nodes, numbered.specs[-1].excluded_nodes) == (("n1",), ("n17",))


@pytest.mark.parametrize("status", [FAILED, replace(DONE, exit_code=3)])
def test_a_further_job_that_fails_ends_the_row(numbered: NumberedLauncher, status: JobStatus) -> None:
    run = run_of(numbered, DONE, status, decide=Wanting(3))
    assert (run.status, [job.job_id for job in run.earlier]) == (status, ["job-a-1"])


def test_a_rule_that_breaks_wants_no_further_job(launcher: FakeLauncher) -> None:
    def broken(row_id: str, run: Run) -> Repeat | Done:
        raise ZeroDivisionError

    assert run_of(launcher, COMPLETED, decide=broken).earlier == ()


def test_an_interrupted_session_wants_no_further_job(numbered: NumberedLauncher) -> None:
    repeats = Repeats()
    executor = started(numbered, decide=Wanting(3), on_repeat=repeats)
    executor._wait()
    executor.interrupt(detach=False)
    assert (executor.result_of("a").earlier, repeats.attempts) == ((), [])


def test_a_measured_job_whose_log_is_gone_is_an_error(numbered: NumberedLauncher) -> None:
    numbered.log_at_s = {"a": None}
    measured = Attempt("job-a-1", DONE, "1 of 2", ("n1",), measured=True)
    executor = executor_of(numbered, decide=Wanting(2))
    executor.submit({"a": spec()}, {"a": Submission(0.0, attempts=(measured,))})
    assert error_of(executor, kind=LogError).fact == "no log of job-a-1"
    assert numbered.submitted == []


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
    assert started(launcher).result_of("a").job_id == "job-found"
    assert (launcher.submitted, len(launcher.tries_s)) == ([], 1)


def test_a_scheduler_that_stays_away_is_an_error_with_its_own_words(clock: Clock) -> None:
    """All rows wait for it once, not one after the other."""
    executor = started(AwayLauncher(clock), "abcd")
    for name in "abcd":
        with pytest.raises(SchedulerUnreachableError, match="not known|" + wording("no controller")):
            executor.result_of(name)
    assert 0 <= clock.now_s - 1000.0 - FakeLauncher.unknown_limit_s <= 4 * LONGEST_BACK_OFF_S


@pytest.mark.parametrize(("earlier_id", "job_id"), [("job-1", "job-found"), ("job-found", "job-a")])
def test_a_submission_that_an_earlier_session_lost_is_looked_for_first(
    clock: Clock, earlier_id: str, job_id: str
) -> None:
    """A retry never takes its own failed attempt for its job."""
    launcher = AwayLauncher(clock, back_at_s=0.0, took_it=True)
    executor = executor_of(launcher)
    earlier = Attempt(earlier_id, LOST_NODE, "node failure", ("n17",))
    executor.submit({"a": spec(unique_name=False)}, {"a": Submission(900.0, attempts=(earlier,))})
    assert (executor.result_of("a").job_id, executor.rows.row("a").failures) == (job_id, (earlier,))
    assert launcher.submitted == (["a"] if job_id == "job-a" else [])


def test_interrupting_waits_for_no_log(launcher: FakeLauncher, clock: Clock) -> None:
    launcher.script = {"a": [COMPLETED], "b": [RUNNING]}
    launcher.log_at_s = {"a": None}
    executor = started(launcher, "ab")
    executor._wait()  # the moment at which Ctrl-C hits
    assert executor.interrupt(detach=False) == 1
    before_s = clock.now_s
    assert error_of(executor, "a", LogError).fact == "no log of job-a"
    assert error_of(executor, "b").fact == wording("interrupted", job="job-b", fate="cancelled")
    assert (clock.now_s, launcher.cancelled) == (before_s, [["b"]])


def test_a_stop_that_an_earlier_session_meant_to_send_is_not_blamed_for_another_end(launcher: FakeLauncher) -> None:
    past = Submission(900.0, "job-a", stopped=STALLED)
    for status, stopped in ((FAILED, None), (CANCELLED, STALLED)):
        launcher.script = {"a": [RUNNING, status]}
        executor = executor_of(launcher)
        executor.attach(Job("job-a", spec(), 900.0), past)
        assert executor.result_of("a").stopped == stopped


def test_a_job_that_an_earlier_session_meant_to_stop_is_still_watched(launcher: FakeLauncher) -> None:
    launcher.script = {"a": [RUNNING, CANCELLED]}
    executor = executor_of(launcher, watcher=watching(a=FakeWatch([Sample(stop=EarlyStop("stalled again"))])))
    executor.attach(Job("job-a", spec(), 900.0), Submission(900.0, "job-a", stopped=STALLED))
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

    intents = write

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_nothing_is_submitted_that_the_journal_cannot_tell_of(launcher: FakeLauncher) -> None:
    executor = started(launcher, journal=cast("Journal", FullDisk(0)))
    assert error_of(executor, kind=SubmissionError).fact == (
        wording("journal not written", why="No space left on device")
    )
    assert launcher.submitted == []


def test_a_disk_that_gets_full_costs_no_result(launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(1)
    for name in ("submitted", "ended"):
        monkeypatch.setattr(Journal, name, lambda _, *facts: disk.write(*facts))
    executor = started(launcher, journal=cast("Journal", disk))
    assert executor.result_of("a").status is COMPLETED
    assert executor.journal.problem == "No space left on device"


@pytest.mark.parametrize("failures", [0, 1])
def test_interrupted_jobs_are_cancelled_while_rows_are_reported(
    launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """A request that failed is made once more at the end."""
    refuse = failing(launcher, failures, JobError("jobs may still run: scancel failed"))
    monkeypatch.setattr(launcher, "cancel", refuse)
    launcher.script, launcher.parallel_submissions = {"a": [RUNNING]}, 4
    executor = started(launcher)
    while status_of(executor, "a") is not RUNNING:
        executor._pump()
        executor._wait()
    assert executor.interrupt(detach=False) == 1
    assert error_of(executor).fact == wording("interrupted", job="job-a", fate="cancelled")
    assert (executor.close(), launcher.cancelled) == (failures, [["a"]])


def test_a_cancellation_that_failed_is_tried_again_at_the_end(
    launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "cancel", failing(launcher, 1, JobError("one does not end")))
    launcher.script = {"a": [RUNNING]}
    executor = started(launcher)
    with pytest.raises(JobError, match="one does not end"):
        executor.interrupt(detach=False)
    assert (executor.close(), launcher.cancelled) == (1, [["a"]])


def test_a_row_whose_repetition_is_interrupted_is_judged_by_the_job_that_it_had(launcher: FakeLauncher) -> None:
    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    launcher.script = {"a": [LOST_NODE]}
    executor = started(launcher, retries=2, on_repeat=ctrl_c)
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
    executor = started(launcher)
    with pytest.raises(KeyboardInterrupt):
        executor.next_finished()
    executor.interrupt(detach=False)
    assert executor.result_of("a").status is COMPLETED


def test_a_file_system_that_is_away_for_a_moment_costs_nothing(
    launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, tries = launcher.find_log, iter(range(2))

    def find_log(job: Job) -> Path:
        if next(tries, None) is not None:
            raise OSError(116, "Stale file handle")
        return found(job)

    monkeypatch.setattr(launcher, "find_log", find_log)
    run = run_of(launcher, RUNNING, COMPLETED, watcher=watching(a=FakeWatch([Sample()])))
    assert run.log == Path("/stage/job-a.out")


def test_a_log_format_that_fails_while_a_job_runs_costs_only_its_progress(launcher: FakeLauncher) -> None:
    faulty = FakeWatch([])  # it raises an IndexError
    assert run_of(launcher, RUNNING, RUNNING, COMPLETED, watcher=watching(a=faulty)).status is COMPLETED
    assert len(faulty.looked_s) == 1


def test_a_suspended_job_is_not_watched(launcher: FakeLauncher) -> None:
    suspended = JobStatus(JobState.RUNNING, "SUSPENDED")
    watch = FakeWatch([Sample(stop=STALLED)])
    run = run_of(launcher, suspended, suspended, COMPLETED, watcher=watching(a=watch))
    assert (run.stopped, launcher.cancelled) == (None, [])


def test_what_an_away_scheduler_may_have_taken_is_looked_for_at_the_end(clock: Clock) -> None:
    launcher = AwayLauncher(clock, back_at_s=clock.now_s + 1, took_it=True)
    executor = started(launcher)
    executor.interrupt(detach=False)
    assert error_of(executor).fact == wording("own submission unknown")
    clock.sleep(2)
    assert (executor.close(), launcher.cancelled) == (1, [["a"]])


def test_what_a_log_says_of_a_secret_reaches_no_journal(
    launcher: FakeLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "not-for-the-journal")
    watch = FakeWatch([Sample(stop=EarlyStop("not finite: loss: nan not-for-the-journal"))])
    run = run_of(launcher, RUNNING, CANCELLED, journal=Journal(tmp_path), watcher=watching(a=watch))
    assert run.stopped == EarlyStop("not finite: loss: nan ***")
    assert "not-for-the-journal" not in (tmp_path / "journal.jsonl").read_text()


# -- one row, one job, one log --------------------------------------------------------------------


@dataclass
class ForgetfulLauncher(FakeLauncher):
    """Gives out one id for every job, or those that it is told; and the logs that it is told."""

    ids: str = "777"
    logs: dict[str, Path] = field(default_factory=dict)

    def submit(self, spec: JobSpec) -> Job:
        super().submit(spec)
        return Job(self.ids[len(self.submitted) - 1], spec, self.clock.now_s)

    def find_log(self, job: Job) -> Path:
        return self.logs.get(job.id) or super().find_log(job)


def test_an_id_that_two_rows_have_makes_errors_of_both_and_their_jobs_are_ended(clock: Clock) -> None:
    launcher = ForgetfulLauncher(clock, ids="787")
    executor = started(launcher, "abc")
    assert {executor.next_finished() for _ in "ac"} == {"a", "c"}
    of_a, of_c = (str(error_of(executor, row)) for row in "ac")
    assert of_a == of_c
    assert of_a == (
        "the scheduler gave the id 7 twice, to a and c\n"
        "\n"
        "job        7\n"
        "job name   gsw-a\n"
        "job name   gsw-c\n"
        "next       it has lost its state, as in a restart; once job 7 is gone, run again: a c"
    )
    assert executor.result_of("b").status is COMPLETED
    assert launcher.cancelled == [["a", "c"]]


def test_a_row_that_was_handed_out_keeps_its_end_where_its_id_is_given_out_again(clock: Clock) -> None:
    executor = started(ForgetfulLauncher(clock))
    assert executor.result_of("a").status is COMPLETED
    executor.submit({"b": spec("b")})
    assert error_of(executor, "b").fact == wording("id given twice", id=7) + ", to a and b"
    assert executor.result_of("a").status is COMPLETED


@pytest.mark.parametrize("submitted_s", [1000.0, 0.0], ids=["submitted", "replayed"])
def test_a_log_that_two_rows_have_makes_errors_of_both(clock: Clock, tmp_path: Path, submitted_s: float) -> None:
    """By whatever name; a log that is replayed may be that of two rows, since nothing was submitted."""
    logs = {"7": tmp_path / "log", "8": tmp_path / "link"}
    logs["8"].symlink_to(logs["7"])
    clock.now_s = submitted_s
    launcher = ForgetfulLauncher(clock, {row: [REPLAYED] for row in "ab"}, ids="78", logs=logs)
    executor = started(launcher, "ab")
    if submitted_s:
        assert {error_of(executor, row, LogError).fact for row in "ab"} == {wording("one log of two", rows="a and b")}
    else:
        assert [executor.result_of(row).log for row in "ab"] == list(logs.values())


def test_a_row_behind_whose_submission_are_several_jobs_is_an_error_at_once(launcher: FakeLauncher) -> None:
    launcher.script = {"a": [replace(RUNNING, siblings=("9",))], "b": [RUNNING, COMPLETED]}
    executor = started(launcher, "ab")
    told = error_of(executor)
    assert told.fact == wording("jobs of a submission", count=2, job="job-a, and " + wording("two rows of two"))
    assert dict(told.evidence)["jobs"] == "job-a, 9"
    assert told.advice.startswith(wording("all of them", job="job-a"))
    assert launcher.cancelled == [["a"]]
    assert executor.result_of("b").status is COMPLETED


def test_a_queue_that_is_full_is_waited_for_and_said(launcher: FakeLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"row{number}" for number in range(8)]
    launcher.script = {name: [PENDING, RUNNING, COMPLETED] for name in names}
    executor = executor_of(launcher)
    submit, tries_s = launcher.submit, []

    def limited(spec: JobSpec) -> Job:
        tries_s.append(launcher.clock())
        if sum(isinstance(one, Active) for one in executor.rows.phases.values()) >= 3:
            raise QueueFullError("the queue takes no more jobs (AssocMaxSubmitJobLimit)")
        return submit(spec)

    monkeypatch.setattr(launcher, "submit", limited)
    executor.submit({name: spec(name) for name in names})
    assert executor.full == wording("queue is full", why="AssocMaxSubmitJobLimit)")
    assert all(executor.result_of(name).status is COMPLETED for name in names)
    assert (executor.full, launcher.submitted) == ("", names)
    # As soon as jobs have left the queue, and one refusal for each time that there was room.
    assert tries_s == [*[1000.0] * 4, *[1000.0 + 2 * POLL_S] * 4, *[1000.0 + 5 * POLL_S] * 2]
