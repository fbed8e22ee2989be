"""Rows that run for a time: another job follows whatever the end of the one before, until they have enough."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pytest_gsw.executor.executor import Executor
from pytest_gsw.jobs.journal import Journal, read_journal
from pytest_gsw.jobs.model import Attempt
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.session.resume import take_over
from pytest_gsw.stats.decision import Done, Repeat
from pytest_gsw.validation.run import Run
from tests.unit.executor.conftest import (
    CANCELLED,
    DONE,
    FAILED,
    LOST_NODE,
    PENDING,
    RUNNING,
    Clock,
    NumberedLauncher,
    Repeats,
    executor_of,
    spec,
)

TIMEOUT = JobStatus(JobState.TIMEOUT, nodes="n2")


@dataclass
class Jobs:
    """A row wants so many jobs, however they end, and avoids the nodes of lost ones."""

    most: int
    asked: int = 0

    def __call__(self, _: str, run: Run) -> Repeat | Done:
        self.asked += 1
        nodes = (run.status.nodes,) if run.status.state is JobState.NODE_FAIL else ()
        return Repeat(run.status.state.value, nodes) if self.asked < self.most else Done()


@pytest.fixture
def numbered(clock: Clock) -> NumberedLauncher:
    return NumberedLauncher(clock)


def ran(executor: Executor) -> list[tuple[str, JobState]]:
    return [(job.job_id, job.status.state) for job in executor.runs_of("a")]


def test_another_job_follows_a_failed_one_and_excludes_its_nodes(numbered: NumberedLauncher) -> None:
    repeats = Repeats()
    numbered.script["a"] = [FAILED, LOST_NODE, DONE, TIMEOUT, CANCELLED]
    executor = executor_of(numbered, decide=Jobs(5), on_repeat=repeats)
    executor.submit({"a": spec()})
    run = executor.result_of("a")
    assert repeats.attempts == [
        ("a", Attempt("job-a-1", FAILED, "FAILED")),
        ("a", Attempt("job-a-2", LOST_NODE, "NODE_FAIL", ("n17",))),
        ("a", Attempt("job-a-3", DONE, "COMPLETED", measured=True)),
        ("a", Attempt("job-a-4", TIMEOUT, "TIMEOUT")),
    ]
    assert [one.excluded_nodes for one in numbered.specs] == [(), (), ("n17",), ("n17",), ("n17",)]
    assert [job.job_id for job in run.jobs] == ["job-a-3", "job-a-5"]
    assert ran(executor) == [
        (f"job-a-{number}", status.state)
        for number, status in enumerate((FAILED, LOST_NODE, DONE, TIMEOUT, CANCELLED), start=1)
    ]
    assert [job.log for job in executor.runs_of("a")] == [Path(f"/stage/job-a-{number}.out") for number in range(1, 6)]


def test_a_failure_that_is_retried_is_not_decided(numbered: NumberedLauncher) -> None:
    numbered.script["a"] = [LOST_NODE, LOST_NODE, DONE]
    decide = Jobs(2)
    executor = executor_of(numbered, decide=decide, retries=1)
    executor.submit({"a": spec()})
    assert executor.result_of("a").status is DONE
    assert (len(numbered.specs), decide.asked) == (3, 2)


def test_many_jobs_know_only_those_before_them(numbered: NumberedLauncher) -> None:
    numbered.script["a"] = [DONE]
    executor = executor_of(numbered, decide=Jobs(40))
    executor.submit({"a": spec()})
    run = executor.result_of("a")
    assert len(run.jobs) == 40
    assert {job.earlier for job in run.earlier} == {()}


def test_a_log_that_is_gone_is_no_loss_of_its_job(numbered: NumberedLauncher) -> None:
    numbered.script["a"] = [FAILED, DONE]
    numbered.log_at_s["a"] = numbered.clock.now_s + 1
    executor = executor_of(numbered, decide=Jobs(2))
    executor.submit({"a": spec()})
    executor.result_of("a")
    numbered.log_at_s["a"] = None
    assert [(job.job_id, job.log) for job in executor.runs_of("a")] == [
        ("job-a-1", None),
        ("job-a-2", Path("/stage/job-a-2.out")),
    ]


def test_a_row_without_a_job_has_none(numbered: NumberedLauncher) -> None:
    assert executor_of(numbered).runs_of("a") == ()


def test_the_time_that_is_left_limits_the_next_job() -> None:
    """A reservation may end soon after the row's time: Slurm starts no job that may last longer."""
    first = spec(left_s=3600.0, time_limit_s=3900.0)
    failed = replace(LOST_NODE, start_s=1000.0, end_s=2800.0)
    second = Attempt("7", failed, "node failure", ("n17",)).after(first)
    assert (second.left_s, second.time_limit_s, second.excluded_nodes) == (1800.0, 2100.0, ("n17",))
    third = Attempt("8", replace(failed, end_s=4600.0), "node failure").after(second)
    assert (third.left_s, third.time_limit_s) == (0.0, 300.0)
    # One that never began has used nothing, and a limit below the time stays.
    assert Attempt("7", PENDING, "node lost").after(first).left_s == 3600.0
    short = Attempt("7", failed, "time limit").after(replace(first, time_limit_s=900.0))
    assert (short.left_s, short.time_limit_s) == (1800.0, 900.0)
    assert Attempt("7", failed, "node failure").after(spec(time_limit_s=900.0)).time_limit_s == 900.0


@pytest.mark.parametrize("dies_after", [1, 2, 3])
def test_a_resumed_session_goes_on_with_the_jobs_of_the_row(
    numbered: NumberedLauncher, tmp_path: Path, dies_after: int
) -> None:
    lost = replace(LOST_NODE, start_s=1000.0, end_s=1600.0)
    numbered.script["a"] = [lost, replace(FAILED, start_s=1700.0, end_s=2000.0), RUNNING, replace(DONE, end_s=4600.0)]
    planned = {"a": spec(left_s=3600.0, time_limit_s=3900.0)}
    journal = Journal(tmp_path)
    journal.session("eos", ["t.yaml::a"])
    executor = executor_of(numbered, decide=(decide := Jobs(3)), journal=journal)
    executor.submit(planned)
    while len(numbered.specs) < dies_after:
        executor._pump()
        executor._wait()
    journal.close()
    resumed = executor_of(numbered, decide=Jobs(3, decide.asked), journal=Journal(tmp_path))
    specs = dict(planned)
    resumed.submit(specs, take_over(resumed, read_journal(tmp_path), specs, print))
    assert resumed.result_of("a").status.state is JobState.COMPLETED
    assert [one.attempt for one in numbered.specs] == [1, 2, 3]
    assert [one.left_s for one in numbered.specs] == [3600.0, 3000.0, 2700.0]
    assert ran(resumed) == [
        ("job-a-1", JobState.NODE_FAIL),
        ("job-a-2", JobState.FAILED),
        ("job-a-3", JobState.COMPLETED),
    ]
