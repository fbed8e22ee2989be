"""A model of a Slurm cluster behind the launcher's contract, in virtual time: all follows from one seed.

The executor and the journal that are run against it are the real ones. slurmctld holds so many records, those of ended
jobs too; beyond that it refuses one. It forgets an ended job after a while, and restarts each
day. Jobs are started first come, first served; some fail, lose a node or hang.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from unittest import mock

from pytest_gsw.errors import JobError, LogError, RunError, SchedulerUnreachableError
from pytest_gsw.executor.executor import Executor
from pytest_gsw.executor.limits import Limits
from pytest_gsw.executor.progress_monitor import Sample, Watch
from pytest_gsw.jobs.journal import NAME, Journal
from pytest_gsw.jobs.model import EarlyStop, Job, JobSpec, JobState, JobStatus

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
class Clock:
    """Time that passes only while somebody waits."""

    now_s: float = 0.0

    def __call__(self) -> float:
        """Monotonic seconds."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


@dataclass
class _Record:
    """One job as the cluster knows it, and what it is to do: drawn from the seed and the row, not from the events."""

    spec: JobSpec
    run_s: float
    ends: JobState
    hangs: bool
    #: Seconds a step takes, and when the job has begun.
    step_s: float
    start_s: float = math.inf
    status: JobStatus = _PENDING


def _record(seed: int, spec: JobSpec) -> _Record:
    dice = random.Random(f"{seed} {spec.row_id} {spec.attempt}")  # noqa: S311
    run_s, luck, linger_s = dice.uniform(600, 2400), dice.random(), dice.uniform(0.5, 20)
    if luck < 0.01:
        ends = JobState.NODE_FAIL if luck < 0.005 else JobState.FAILED
        return _Record(spec, run_s * dice.random(), ends, hangs=False, step_s=run_s)
    return _Record(spec, run_s, JobState.COMPLETED, luck < 0.013, (run_s - linger_s) / _STEPS)


@dataclass
class Tally:
    """What the cluster was asked, and what became of it."""

    #: Questions of the executor about all its jobs, the most jobs of one, and the shortest time between two.
    questions: int = 0
    most_ids: int = 0
    shortest_pause_s: float = math.inf
    cancels: int = 0
    #: Submissions by row, of those that were taken; and rows that had a job before theirs had ended.
    taken: Counter[str] = field(default_factory=Counter)
    doubled: list[str] = field(default_factory=list)
    refused_full: int = 0
    most_records: int = 0
    #: Moments at which logs showed the last step of at least one job, or that jobs hang.
    batches: set[float] = field(default_factory=set)
    hung: int = 0


class Cluster:
    """The model, and the launcher that the executor is given.

    Args:
        clock: The session's clock.
        log: A file beside which each job's log would be.
        seed: Of what jobs do.
        room: Records that slurmctld has room for.
    """

    name = "model"
    log_wait_s = 30.0
    poll_interval_s = 15.0
    parallel_submissions = 1
    jobs_outlive_session = True

    def __init__(self, clock: Clock, log: Path, seed: int, room: int) -> None:
        self.tally = Tally()
        self._clock, self._log, self._seed, self._room = clock, str(log), seed, room
        self._asked_s = -math.inf
        self._free = 576
        self._held = 0
        self._records: dict[str, _Record] = {}
        self._open: dict[str, str] = {}
        self._queue: deque[str] = deque()
        self._events: list[tuple[float, str, str]] = []
        self._ids = itertools.count(1_000_001)

    # -- the launcher -------------------------------------------------------------------------

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """What would be run."""
        return ("sbatch", "-J", spec.name)

    def submit(self, spec: JobSpec) -> Job:
        """Take a job, unless slurmctld is away or full."""
        self._answer("sbatch")
        if self._held >= self._room:
            self.tally.refused_full += 1
            raise SchedulerUnreachableError("sbatch refused the job: Resource temporarily unavailable")
        if spec.row_id in self._open:
            self.tally.doubled.append(spec.row_id)
        job_id = self._open[spec.row_id] = str(next(self._ids))
        self._records[job_id] = _record(self._seed, spec)
        self._queue.append(job_id)
        self._held += 1
        self.tally.taken[spec.row_id] += 1
        self.tally.most_records = max(self.tally.most_records, self._held)
        self._start_jobs(self._clock())
        return Job(job_id, spec, time.time())

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job of this row."""
        self._answer("squeue")
        job_id = self._open.get(spec.row_id)
        return None if job_id is None else Job(job_id, spec, since_s)

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """What squeue says, and sacct of those that have ended."""
        tally, now_s = self.tally, self._clock()
        tally.questions += 1
        tally.most_ids = max(tally.most_ids, len(jobs))
        tally.shortest_pause_s = min(tally.shortest_pause_s, now_s - self._asked_s)
        self._asked_s = now_s
        try:
            self._answer("squeue")
            away = False
        except SchedulerUnreachableError:
            away = True
        told = ((job.spec.row_id, self._records[job.id].status) for job in jobs)
        return {row_id: _SILENCE if away and not status.state.ended else status for row_id, status in told}

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End jobs; those that have ended are no error."""
        try:
            self._answer("scancel")
        except SchedulerUnreachableError as error:
            raise JobError(error.fact) from None
        self.tally.cancels += 1
        for job in jobs:
            self._end(job.id, JobState.CANCELLED, self._clock())

    def find_log(self, job: Job) -> Path:
        """Its log, from its start on."""
        if self._records[job.id].start_s > self._clock():
            raise LogError(f"no log of job {job.id}")
        return Path(f"{self._log}-{job.id}")

    def batch_output(self, job: Job) -> Path | None:
        """No job leaves any."""
        return None

    def close(self) -> None:
        """Nothing is held."""

    # -- the cluster --------------------------------------------------------------------------

    def watch(self, row_id: str) -> Glance:
        """The watch of this row's running job."""
        return Glance(self.tally, self._records[self._open[row_id]])

    def _answer(self, command: str) -> None:
        """Let happen what was to happen by now, and answer a request.

        Raises:
            SchedulerUnreachableError: slurmctld restarts.
        """
        self._advance()
        if (self._clock() - _FIRST_OUTAGE_S) % _DAY_S < _OUTAGE_S:
            self._clock.sleep(_NO_ANSWER_S)
            raise SchedulerUnreachableError(f"{command}: Unable to contact slurm controller (connect failure)")

    def _advance(self) -> None:
        while self._events and self._events[0][0] <= self._clock():
            when_s, kind, job_id = heapq.heappop(self._events)
            if kind == "forget":
                self._held -= 1
            else:
                self._end(job_id, self._records[job_id].ends, when_s)

    def _end(self, job_id: str, state: JobState, when_s: float) -> None:
        record = self._records[job_id]
        if record.status.state.ended:
            return
        if record.status is _PENDING:
            self._queue.remove(job_id)
        else:
            self._free += record.spec.nodes
        record.status = JobStatus(
            state,
            raw_state=state.value,
            exit_code=1 if state in {JobState.FAILED, JobState.NODE_FAIL} else 0,
            nodes=record.status.nodes,
            submit_s=_EPOCH_S,
            start_s=record.status.start_s,
            end_s=_EPOCH_S + int(when_s),
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
            self.tally.hung += record.hangs
            # One that hangs ends with its time limit, unless the session ends it.
            heapq.heappush(self._events, (when_s + (_DAY_S if record.hangs else record.run_s), "end", job_id))


class Glance:
    """Watches one job; stands in for :class:`pytest_gsw.executor.progress_monitor.Watch`."""

    def __init__(self, tally: Tally, record: _Record) -> None:
        self._tally, self._record = tally, record
        self._finished = False

    def look(self, log: Path | None, now_s: float) -> Sample:
        """How far the job is, by the time since its start."""
        passed_s = 0.0 if log is None else now_s - self._record.start_s
        steps = min(_STEPS // 2 if self._record.hangs else _STEPS, int(passed_s / self._record.step_s))
        finished = steps == _STEPS
        stop = EarlyStop("stalled", "look for the rank that printed last") if passed_s >= _STALL_S else None
        stop = stop if self._record.hangs else None
        if stop is not None or (finished and not self._finished):
            self._tally.batches.add(now_s)
        self._finished = finished
        return Sample(steps=steps, of=_STEPS, step_time_s=20.0, finished=finished, stop=stop)


# -- a session ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """How much a session may take, and for how many jobs slurmctld has room."""

    name: str
    limits: Limits = field(default_factory=Limits)
    room: int = 10_000


@dataclass
class Session:
    """What one session came to."""

    tally: Tally
    #: Rows that came out of the executor, how often, and by how they ended.
    over: Counter[str]
    outcomes: Counter[str]
    repeats: int
    #: How many questions may be asked: one an interval, and one for each batch of jobs that end.
    budget: float
    #: Bytes that the executor holds at the end, with the specs of its rows; and those of the journal.
    held: int
    journal: int


def simulate(rows: int, directory: Path, scenario: Scenario, *, seed: int) -> Session:
    """Run one session of so many rows to its end; its journal is in the directory."""
    log = directory / "log.out"
    log.touch()
    os.utime(log, (2**32, 2**32))  # not older than any job
    clock = Clock()
    cluster = Cluster(clock, log, seed, scenario.room)
    repeats: list[str] = []
    specs = _specs(rows, seed, directory)
    over: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    with (
        mock.patch("pytest_gsw.executor.executor.LOG_LOOK_S", _LOOK_S),
        mock.patch("pytest_gsw.jobs.journal.os.fsync"),
    ):
        journal = Journal(directory)
        journal.session("model", list(specs))
        executor = Executor(
            cluster,
            cluster.poll_interval_s,
            journal=journal,
            limits=scenario.limits,
            watcher=lambda row_id: cast("Watch", cluster.watch(row_id)),
            retries=1,
            on_repeat=lambda row_id, _: repeats.append(row_id),
            clock=clock,
            sleep=clock.sleep,
        )
        executor.submit(specs)
        for _ in range(rows):
            row_id = executor.next_finished()
            over[row_id] += 1
            try:
                outcomes[executor.result_of(row_id).status.state.value] += 1
            except RunError as error:
                outcomes[f"error: {error}"] += 1
        held = _size_of(executor, without=(cluster, clock, journal, repeats))
        executor.close()
    budget = clock.now_s / cluster.poll_interval_s + len(cluster.tally.batches) + 1
    size = (directory / NAME).stat().st_size
    return Session(cluster.tally, over, outcomes, len(repeats), budget, held, size)


def _specs(rows: int, seed: int, directory: Path) -> dict[str, JobSpec]:
    """So many rows, those with the most GPUs first, as a session orders them."""
    dice = random.Random(seed)  # noqa: S311
    gpus = sorted(dice.choices(list(_SIZES), list(_SIZES.values()), k=rows), reverse=True)
    return {
        row_id: JobSpec(
            row_id,
            f"gsw-{number:06d}-{seed:04x}",
            directory / "launch.sh",
            directory,
            directory,
            nodes=size // 8,
            gpus=size,
            environment={"GPUS": str(size), "ROW": row_id},
            time_limit_s=3600.0,
            log_glob="results/**/log-*_{job_id}.out",
            unique_name=True,
        )
        for number, size in enumerate(gpus)
        for row_id in (f"baselines/model/table_{number // 50:04d}.yaml::row_{number:06d}[H100x{size}]",)
    }


def _size_of(root: object, without: tuple[object, ...]) -> int:
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
