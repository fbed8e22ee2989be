"""Whole sessions against a model of a Slurm cluster, in virtual time: all follows from one seed.

The executor and the journal are the real ones. slurmctld holds so many records, those of ended jobs too; beyond that it
refuses one. It forgets an ended job after a while, and restarts each day. Jobs are started first come, first served; some
fail, lose a node or hang.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import math
import os
import random
import sys
import time
import types
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import cast
from unittest import mock

import pytest

from pytest_gsw.errors import JobError, LogError, RunError, SchedulerUnreachableError
from pytest_gsw.executor.limits import Limits
from pytest_gsw.executor.polls import MOST_POLLS_PER_INTERVAL
from pytest_gsw.executor.progress_monitor import Sample, Watch
from pytest_gsw.jobs.journal import NAME, Journal, read_journal
from pytest_gsw.jobs.model import EarlyStop, Job, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from tests.unit.executor.conftest import POLL_S, Clock, FakeLauncher, Repeats, executor_of, spec

ROWS = 200
_DAY_S = 86400.0
#: What the controller's clock shows at the beginning; Slurm's times are whole seconds.
_EPOCH_S = 1_900_000_000
#: When slurmctld is away for the first time, for how long, and how long a client takes to say so.
_FIRST_OUTAGE_S, _OUTAGE_S, _NO_ANSWER_S = 3 * 3600.0, 120.0, 10.0
#: When slurmctld forgets an ended job.
_MIN_JOB_AGE_S = 300.0
#: Steps of each job, and after which time without one the session ends it.
_STEPS, _STALL_S = 50, 900.0
#: Between two looks at running jobs' logs: each costs the test, and changes nothing.
_LOOK_S = 10.0
#: GPUs of a row, and how many of a hundred thousand rows have so many.
_SIZES = {8: 45_000, 16: 20_000, 32: 15_000, 64: 10_400, 128: 6000, 256: 2300, 512: 900, 1024: 300, 2048: 100}

_PENDING = JobStatus(JobState.PENDING, raw_state="PENDING", reason="Resources")
_SILENCE = JobStatus(JobState.UNKNOWN, reason="squeue: Unable to contact slurm controller (connect failure)")


@dataclass
class Record:
    """One job as the cluster knows it, and what it is to do: drawn from the seed and the row, not from the events."""

    spec: JobSpec
    run_s: float
    ends: JobState
    hangs: bool
    #: Seconds a step takes, and when the job has begun.
    step_s: float
    start_s: float = math.inf
    status: JobStatus = _PENDING


def record_of(seed: int, spec: JobSpec) -> Record:
    dice = random.Random(f"{seed} {spec.row_id} {spec.attempt}")  # noqa: S311
    run_s, luck, linger_s = dice.uniform(600, 2400), dice.random(), dice.uniform(0.5, 20)
    if luck < 0.01:
        ends = JobState.NODE_FAIL if luck < 0.005 else JobState.FAILED
        return Record(spec, run_s * dice.random(), ends, hangs=False, step_s=run_s)
    return Record(spec, run_s, JobState.COMPLETED, luck < 0.013, (run_s - linger_s) / _STEPS)


@dataclass
class Cluster(FakeLauncher):
    """The model, and the launcher that the executor is given."""

    #: A file beside which each job's log would be.
    log: Path = Path()
    #: Of what jobs do.
    seed: int = 0
    #: Records that slurmctld has room for.
    room: int = 0
    #: Times of the executor's questions about all its jobs, the most jobs of one, and its requests to end jobs.
    asked_s: list[float] = field(default_factory=list)
    most_ids: int = 0
    cancels: int = 0
    #: Submissions by row, of those that were taken; and rows that had a job before theirs had ended.
    taken: Counter[str] = field(default_factory=Counter)
    doubled: list[str] = field(default_factory=list)
    refused_full: int = 0
    most_held: int = 0
    #: Moments at which logs showed the last step of at least one job, or that jobs hang.
    batches: set[float] = field(default_factory=set)
    hung: int = 0

    def __post_init__(self) -> None:
        self._free = 576
        self._held = 0
        self._records: dict[str, Record] = {}
        self._open: dict[str, str] = {}
        self._queue: deque[str] = deque()
        self._events: list[tuple[float, str, str]] = []
        self._ids = itertools.count(1_000_001)

    # -- the launcher -------------------------------------------------------------------------

    def submit(self, spec: JobSpec) -> Job:
        self._answer("sbatch")
        if self._held >= self.room:
            self.refused_full += 1
            raise SchedulerUnreachableError("sbatch refused the job: Resource temporarily unavailable")
        if spec.row_id in self._open:
            self.doubled.append(spec.row_id)
        job_id = self._open[spec.row_id] = str(next(self._ids))
        self._records[job_id] = record_of(self.seed, spec)
        self._queue.append(job_id)
        self._held += 1
        self.taken[spec.row_id] += 1
        self.most_held = max(self.most_held, self._held)
        self._start_jobs(self.clock())
        return Job(job_id, spec, time.time())

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        self._answer("squeue")
        job_id = self._open.get(spec.row_id)
        return None if job_id is None else Job(job_id, spec, since_s)

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """What squeue says, and sacct of those that have ended."""
        self.asked_s.append(self.clock())
        self.most_ids = max(self.most_ids, len(jobs))
        try:
            self._answer("squeue")
            away = False
        except SchedulerUnreachableError:
            away = True
        told = ((job.spec.row_id, self._records[job.id].status) for job in jobs)
        return {row_id: _SILENCE if away and not status.state.ended else status for row_id, status in told}

    def cancel(self, jobs: Sequence[Job]) -> None:
        try:
            self._answer("scancel")
        except SchedulerUnreachableError as error:
            raise JobError(error.fact) from None
        self.cancels += 1
        for job in jobs:
            self._end(job.id, JobState.CANCELLED, self.clock())

    def find_log(self, job: Job) -> Path:
        if self._records[job.id].start_s > self.clock():
            raise LogError(f"no log of job {job.id}")
        return Path(f"{self.log}-{job.id}")

    # -- the cluster --------------------------------------------------------------------------

    def watch(self, row_id: str) -> Watch:
        return cast("Watch", Glance(self, self._records[self._open[row_id]]))

    def _answer(self, command: str) -> None:
        """Let happen what was to happen by now, and answer a request unless slurmctld restarts."""
        while self._events and self._events[0][0] <= self.clock():
            when_s, kind, job_id = heapq.heappop(self._events)
            if kind == "forget":
                self._held -= 1
            else:
                self._end(job_id, self._records[job_id].ends, when_s)
        if (self.clock() - _FIRST_OUTAGE_S) % _DAY_S < _OUTAGE_S:
            self.clock.sleep(_NO_ANSWER_S)
            raise SchedulerUnreachableError(f"{command}: Unable to contact slurm controller (connect failure)")

    def _end(self, job_id: str, state: JobState, when_s: float) -> None:
        record = self._records[job_id]
        if record.status.state.ended:
            return
        if record.status is _PENDING:
            self._queue.remove(job_id)
        else:
            self._free += record.spec.nodes
        exit_code = 1 if state in {JobState.FAILED, JobState.NODE_FAIL} else 0
        times = {"submit_s": _EPOCH_S, "end_s": _EPOCH_S + int(when_s)}
        record.status = replace(
            record.status, state=state, raw_state=state.value, exit_code=exit_code, reason="", **times
        )
        del self._open[record.spec.row_id]
        heapq.heappush(self._events, (when_s + _MIN_JOB_AGE_S, "forget", job_id))
        self._start_jobs(when_s)

    def _start_jobs(self, when_s: float) -> None:
        """Start the first in the queue while they fit."""
        while self._queue and self._records[self._queue[0]].spec.nodes <= self._free:
            job_id = self._queue.popleft()
            record = self._records[job_id]
            self._free -= record.spec.nodes
            record.start_s = when_s
            record.status = JobStatus(
                JobState.RUNNING, raw_state="RUNNING", nodes=f"n{job_id}", start_s=_EPOCH_S + int(when_s)
            )
            self.hung += record.hangs
            # One that hangs ends with its time limit, unless the session ends it.
            heapq.heappush(self._events, (when_s + (_DAY_S if record.hangs else record.run_s), "end", job_id))


@dataclass
class Glance:
    """Watches one job, by the time since its start."""

    cluster: Cluster
    record: Record
    finished: bool = False

    def look(self, log: Path | None, now_s: float) -> Sample:
        passed_s = 0.0 if log is None else now_s - self.record.start_s
        steps = min(_STEPS // 2 if self.record.hangs else _STEPS, int(passed_s / self.record.step_s))
        stop = EarlyStop("stalled") if passed_s >= _STALL_S and self.record.hangs else None
        was_finished, self.finished = self.finished, steps == _STEPS
        if stop is not None or (self.finished and not was_finished):
            self.cluster.batches.add(now_s)
        return Sample(steps=steps, of=_STEPS, step_time_s=20.0, finished=self.finished, stop=stop)


# -- a session ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """How much a session may take, and for how many jobs slurmctld has room."""

    name: str
    limits: Limits = field(default_factory=Limits)
    room: int = 10_000


FULL, LIMITED = Scenario("full", room=60), Scenario("pending", Limits(pending=20))
SCENARIOS = [FULL, LIMITED, Scenario("jobs", Limits(jobs=50)), Scenario("alone")]


@dataclass
class Session:
    """What one session came to."""

    cluster: Cluster
    directory: Path
    #: Rows that came out of the executor, and how they ended.
    outcomes: Counter[str]
    #: Bytes that the executor holds at the end, with the specs of its rows.
    held: int


def simulate(rows: int, directory: Path, scenario: Scenario, seed: int) -> Session:
    """Run one session of so many rows to its end; each row is over once, with one job at a time, and none is lost."""
    log = directory / "log.out"
    log.touch()
    os.utime(log, (2**32, 2**32))  # not older than any job
    clock, repeats = Clock(0.0), Repeats()
    cluster = Cluster(clock, log=log, seed=seed, room=scenario.room)
    specs = specs_of(rows, seed, directory)
    over: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    with (
        mock.patch("pytest_gsw.executor.running_logs.LOG_LOOK_S", _LOOK_S),
        mock.patch("pytest_gsw.jobs.journal.os.fsync"),
    ):
        journal = Journal(directory)
        journal.session("model", list(specs))
        options = {"limits": scenario.limits, "watcher": cluster.watch, "retries": 1, "on_repeat": repeats}
        executor = executor_of(cluster, journal=journal, **options)
        executor.submit(specs)
        for _ in range(rows):
            row_id = executor.next_finished()
            over[row_id] += 1
            try:
                outcomes[executor.result_of(row_id).status.state.value] += 1
            except RunError as error:
                outcomes[f"error: {error}"] += 1
        held = size_of(executor, without=(cluster, clock, journal, repeats))
        executor.close()
    assert len(over) == sum(over.values()) == sum(outcomes.values()) == rows
    assert not [text for text in outcomes if text.startswith("error")]
    assert cluster.doubled == []
    assert sum(cluster.taken.values()) == rows + len(repeats.attempts)
    # One question an interval, and one for each batch of jobs that end.
    assert len(cluster.asked_s) <= clock.now_s / POLL_S + len(cluster.batches) + 1
    assert set(read_journal(directory).submissions) == set(over)
    return Session(cluster, directory, outcomes, held)


def specs_of(rows: int, seed: int, directory: Path) -> dict[str, JobSpec]:
    """So many rows, those with the most GPUs first, as a session orders them."""
    dice = random.Random(seed)  # noqa: S311
    gpus = sorted(dice.choices(list(_SIZES), list(_SIZES.values()), k=rows), reverse=True)
    ids = [f"baselines/model/table_{n // 50:04d}.yaml::row_{n:06d}[H100x{size}]" for n, size in enumerate(gpus)]
    facts = {"stage": directory, "time_limit_s": 3600.0, "log_glob": "results/**/log-*_{job_id}.out"}
    return {
        row_id: spec(row_id, nodes=size // 8, gpus=size, environment={"GPUS": str(size), "ROW": row_id}, **facts)
        for row_id, size in zip(ids, gpus, strict=True)
    }


def size_of(root: object, without: tuple[object, ...]) -> int:
    """Bytes of all objects that can be reached from here, those of the program itself left out."""
    program = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
    seen = {id(one) for one in without}
    total, waiting = 0, [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, program):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        waiting.extend(gc.get_referents(one))
    return total


Run = Callable[..., Session]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Each session is run once."""

    @cache
    def run(scenario: Scenario, rows: int = ROWS) -> Session:
        return simulate(rows, tmp_path_factory.mktemp(scenario.name), scenario, seed=6)

    return run


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_row_is_over_once_and_slurm_is_asked_no_more_than_budgeted(run: Run, scenario: Scenario) -> None:
    cluster = run(scenario).cluster
    pauses_s = [later_s - at_s for at_s, later_s in itertools.pairwise(cluster.asked_s)]
    assert min(pauses_s) >= POLL_S / MOST_POLLS_PER_INTERVAL
    assert cluster.most_ids <= min(scenario.room, scenario.limits.jobs, ROWS)


def test_a_queue_that_stays_full_for_long_costs_no_row(run: Run) -> None:
    session = run(FULL)
    assert session.cluster.most_held == FULL.room
    # Nearly every job had to wait for a place.
    assert session.cluster.refused_full > ROWS / 10
    past = read_journal(session.directory)
    assert set(past.submissions) == set(past.rows)
    assert all(one.ended is not None for one in past.submissions.values())


def test_rows_that_lost_a_node_run_again_and_jobs_that_hang_are_ended(run: Run) -> None:
    session = run(LIMITED)
    assert max(session.cluster.taken.values()) > 1
    assert session.outcomes["CANCELLED"] == session.cluster.hung == session.cluster.cancels > 0


def test_a_row_takes_as_much_memory_and_journal_however_many_there_are(run: Run) -> None:
    few, many = run(LIMITED, ROWS // 3), run(LIMITED)
    assert many.held / ROWS <= 1.1 * few.held / (ROWS // 3)
    assert many.held / ROWS < 4096
    few_bytes, many_bytes = ((one.directory / NAME).stat().st_size for one in (few, many))
    assert many_bytes / ROWS <= 1.1 * few_bytes / (ROWS // 3)
