"""A model of a Slurm cluster behind the launcher's contract, in virtual time.

Nodes, jobs and the limits of a controller are simulated; the fleet and the journal that are run against it are the
real ones. Everything follows from one seed. Time passes only while somebody waits: in the session's own sleep, in an
answer of the controller that takes its time, or while threads submit.

What of Slurm is modelled, with Slurm's own defaults:

- ``MaxJobCount``: the records that slurmctld holds, those of ended jobs and of other users too. Beyond it sbatch
  sleeps and tries again, 16 times in 120 s, and gives up.
- ``MinJobAge``: when slurmctld forgets an ended job; accounting answers from then on.
- ``rl_enable``: a bucket of tokens for each user; a request that finds it empty waits for its token.
- first come, first served, with backfill for what ends before the first in the queue can start.
- a controller that restarts each day, jobs that fail, lose a node or hang.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import math
import os
import random
import sys
import threading
import time
import types
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from unittest import mock

from pytest_gsw.errors import JobError, LogError, RunError, SchedulerAwayError
from pytest_gsw.fleet.fleet import LOG_LOOK_S, Fleet
from pytest_gsw.fleet.limits import Limits
from pytest_gsw.fleet.watch import Sample, Watch
from pytest_gsw.jobs.journal import NAME, Journal
from pytest_gsw.jobs.model import Attempt, Job, JobSpec, JobState, JobStatus, Stop
from pytest_gsw.jobs.slurm.client import COMMAND_TIMEOUT_S

DAY_S = 86400.0
#: What the controller's clock shows at the beginning; Slurm's times are whole seconds.
_EPOCH_S = 1_900_000_000
#: What sbatch says while slurmctld has MaxJobCount jobs; it sleeps 1, 2, … 15 s between its tries.
QUEUE_FULL = (
    "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
    "sbatch: error: Batch job submission failed: Resource temporarily unavailable",
)
QUEUE_FULL_TRIES = 16
#: What it says while slurmctld restarts.
AWAY = ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",)
#: How long one request takes, and how long a client takes to say that nobody answers.
ANSWER_S = 0.05
NO_ANSWER_S = 10.0
#: How often slurmctld's backfill runs, and how many jobs it looks at.
BACKFILL_S = 30.0
BACKFILL_DEPTH = 100
#: Steps of each job.
STEPS = 50
#: A job that hangs is ended by the session after this time without a step.
STALL_S = 900.0

_SAMPLES = tuple(Sample(steps=steps, of=STEPS, step_time_s=20.0, finished=steps == STEPS) for steps in range(STEPS + 1))
_HUNG = Sample(steps=STEPS // 2, of=STEPS, stop=Stop("stalled", "look for the rank that printed last"))
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


class Threads:
    """Threads that submit, in virtual time; stands in for ``ThreadPoolExecutor``.

    They are real threads of which only one, or the session itself, goes on at a time: whoever waits in
    virtual time hands on, so that everything has one order.
    """

    def __init__(self, clock: Clock, workers: int) -> None:
        self._clock = clock
        self._idle = [_Worker(self) for _ in range(workers)]
        self._all = tuple(self._idle)
        self._queue: deque[Answer] = deque()
        self._asleep: list[tuple[float, int, _Worker]] = []
        self._numbers = itertools.count()
        #: The thread that goes on, ``None`` for the session itself.
        self.current: _Worker | None = None
        #: Processor seconds that the session's own thread takes to hand over.
        self.cpu_s = 0.0

    def submit(self, task: Callable[..., Any], *arguments: Any) -> Answer:
        """Have a thread run this as soon as one is free."""
        answer = Answer(task, arguments)
        self._queue.append(answer)
        self._take_up()
        return answer

    def pause(self, seconds: float) -> None:
        """Called by the thread that goes on: let others go on for so long."""
        worker = self.current
        assert worker is not None
        heapq.heappush(self._asleep, (self._clock.now_s + seconds, next(self._numbers), worker))
        worker.hand_back()

    def wait(self, timeout_s: float) -> None:
        """Called by the session: let time pass until one more task is done, but no longer than this."""
        until_s = self._clock.now_s + timeout_s
        while self._asleep and self._asleep[0][0] <= until_s:
            when_s, _, worker = heapq.heappop(self._asleep)
            self._clock.now_s = max(self._clock.now_s, when_s)
            self._go_on(worker)
            if worker.answer is None:
                self._take_up()
                return
        self._clock.now_s = until_s

    def shutdown(self) -> None:
        """End the threads."""
        for worker in self._all:
            worker.end()

    def _take_up(self) -> None:
        while self._queue and self._idle:
            answer = self._queue.popleft()
            if not answer.dropped:
                worker = self._idle.pop()
                worker.answer = answer
                self._go_on(worker)

    def _go_on(self, worker: _Worker) -> None:
        begin_s = time.thread_time()
        self.current = worker
        worker.go_on()
        self.current = None
        self.cpu_s += time.thread_time() - begin_s
        if worker.answer is None:
            self._idle.append(worker)


class _Worker:
    """One thread, which goes on only while the session waits for it."""

    def __init__(self, threads: Threads) -> None:
        self.answer: Answer | None = None
        self._threads = threads
        self._mine = threading.Semaphore(0)
        self._sessions = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """Called by the session: returns when the thread waits, or has done its task."""
        self._mine.release()
        self._sessions.acquire()

    def hand_back(self) -> None:
        """Called by the thread: returns when it is to go on."""
        self._sessions.release()
        self._mine.acquire()

    def end(self) -> None:
        """Called by the session when the thread has nothing to do."""
        self.answer = None
        self._mine.release()
        self._thread.join()

    def _work(self) -> None:
        self._mine.acquire()
        while self.answer is not None:
            self.answer.run()
            self.answer = None
            self.hand_back()


class Answer:
    """What a task came to; stands in for ``Future``."""

    def __init__(self, task: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._task: Callable[..., Any] | None = task
        self._arguments = arguments
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self.dropped = False

    def run(self) -> None:
        """Run the task."""
        task, self._task = self._task, None
        assert task is not None
        try:
            self._value = task(*self._arguments)
        except BaseException as error:
            self._error = error
        self._done, self._arguments = True, ()

    def done(self) -> bool:
        """Whether the answer is there by now."""
        return self._done

    def cancel(self) -> bool:
        """Drop the task if no thread has taken it up."""
        self.dropped = self._task is not None
        return self.dropped

    def exception(self) -> BaseException | None:
        """What it raised."""
        return self._error

    def result(self) -> Any:
        """What it returned."""
        return self._value


@dataclass(frozen=True)
class Fate:
    """What one attempt at a row is to do: drawn from the seed and the row, not from the order of events."""

    run_s: float
    state: JobState
    #: Seconds between the last step in the log and the job's end.
    linger_s: float
    hangs: bool = False

    @classmethod
    def of(cls, seed: int, row_id: str, attempt: int) -> Fate:
        """The fate of this attempt at this row."""
        dice = random.Random(f"{seed} {row_id} {attempt}")  # noqa: S311
        run_s, luck = dice.uniform(600, 2400), dice.random()
        linger_s = dice.uniform(0.5, 20)
        if luck < 0.005:
            return cls(run_s * dice.random(), JobState.NODE_FAIL, math.inf)
        if luck < 0.01:
            return cls(run_s * dice.random(), JobState.FAILED, math.inf)
        return cls(run_s, JobState.COMPLETED, linger_s, hangs=luck < 0.011)


class _Record:
    """One job as the cluster knows it."""

    __slots__ = ("ended", "fate", "known", "nodes", "spec", "start_s", "status")

    def __init__(self, spec: JobSpec, fate: Fate) -> None:
        self.spec = spec
        self.fate = fate
        self.nodes = spec.nodes
        self.status = _PENDING
        self.start_s = math.inf
        self.ended = False
        #: Whether slurmctld still has it.
        self.known = True


@dataclass
class Tally:
    """What the cluster was asked, and what became of it."""

    #: Requests to slurmctld and slurmdbd by the command that made them.
    requests: Counter[str] = field(default_factory=Counter)
    #: Questions of the fleet about all its jobs; each is a ``squeue`` for every so many ids and mostly a ``sacct``.
    questions: int = 0
    ids: int = 0
    most_ids: int = 0
    #: Between two questions.
    shortest_pause_s: float = math.inf
    delayed: int = 0
    delay_s: float = 0.0
    longest_delay_s: float = 0.0
    most_in_a_second: int = 0
    #: Submissions by row, of those that were taken.
    taken: Counter[str] = field(default_factory=Counter)
    refused_full: int = 0
    refused_away: int = 0
    #: Jobs of a row that was not yet over with its job before; there must be none.
    doubled: list[str] = field(default_factory=list)
    most_records: int = 0
    most_running: int = 0
    looks: int = 0
    #: Moments at which logs showed the last step of at least one job, or jobs were ended early.
    batches: int = 0
    hung: int = 0
    #: Processor seconds of the model itself, without :attr:`looks`.
    cpu_s: float = 0.0


class Cluster:
    """The model, and the launcher that the fleet is given.

    Args:
        clock: The session's clock.
        log: A file that stands in for every job's log.
        seed: Of the fates of all jobs.
        nodes: Nodes of the cluster.
        max_job_count: Records that slurmctld holds.
        others: How many of these are other users'.
        rate: Tokens a second that refill a user's bucket; infinity for no limit on requests.
        bucket: Tokens in a full bucket.
        outage_s: For how long slurmctld is out of reach, once a day.
        first_outage_s: When it is for the first time.
        min_job_age_s: When it forgets an ended job.
        threads: Threads that may submit.
    """

    name = "model"
    log_wait_s = 30.0
    poll_interval_s = 15.0
    jobs_outlive_session = True

    def __init__(
        self,
        clock: Clock,
        log: Path,
        *,
        seed: int = 1,
        nodes: int = 576,
        max_job_count: int = 10_000,
        others: int = 0,
        rate: float = 2.0,
        bucket: float = 30.0,
        outage_s: float = 120.0,
        first_outage_s: float = 3 * 3600.0,
        min_job_age_s: float = 300.0,
        threads: int = 8,
    ) -> None:
        self.clock = clock
        self.tally = Tally()
        self.parallel_submissions = threads
        self.threads = Threads(clock, threads)
        self._log = str(log)
        self._seed = seed
        self._room = max_job_count - others
        self._rate, self._bucket = rate, bucket
        self._tokens, self._filled_s = bucket, clock.now_s
        self._second, self._in_second = -1, 0
        self._outage_s, self._first_outage_s = outage_s, first_outage_s
        self._min_job_age_s = min_job_age_s
        self._asked_s = -math.inf
        self._batch_s = -math.inf
        self._free = nodes
        self._records: dict[str, _Record] = {}
        self._by_name: dict[str, str] = {}
        self._open: dict[str, str] = {}
        self._held = 0
        #: Jobs that wait, in their order; those that backfill has started stay until they are the first.
        self._queue: deque[_Record] = deque()
        self._running: dict[int, tuple[float, int]] = {}
        self._backfill_s = clock.now_s
        self._events: list[tuple[float, int, str, str]] = []
        self._numbers = itertools.count()
        self._ids = itertools.count(1_000_001)

    # -- the launcher -------------------------------------------------------------------------

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """What would be run."""
        return ("sbatch", "-J", spec.name)

    def submit(self, spec: JobSpec) -> Job:
        """Take a job, unless slurmctld is away or full."""
        with self._work():
            begin_s = self.clock.now_s
            for pause_s in itertools.count(1):
                if self._is_away():
                    self._spend(NO_ANSWER_S)
                    self.tally.refused_away += 1
                    raise SchedulerAwayError(f"sbatch refused the job: {AWAY[-1]}", tail=AWAY)
                self._request("sbatch")
                if self._held < self._room:
                    break
                self._sleep_full(pause_s, begin_s)
            if spec.row_id in self._open:
                self.tally.doubled.append(spec.row_id)
            job_id = str(next(self._ids))
            self._records[job_id] = record = _Record(spec, Fate.of(self._seed, spec.row_id, spec.attempt))
            self._by_name[spec.name] = job_id
            self._open[spec.row_id] = job_id
            self._queue.append(record)
            self._held += 1
            self.tally.taken[spec.row_id] += 1
            self.tally.most_records = max(self.tally.most_records, self._held)
            self._start_jobs()
            return Job(job_id, spec, time.time())

    def _sleep_full(self, pause_s: int, begin_s: float) -> None:
        """sbatch sleeps; the launcher ends it when that takes too long, and looks whether the job was taken."""
        left_s = begin_s + COMMAND_TIMEOUT_S - self.clock.now_s
        if pause_s < QUEUE_FULL_TRIES and pause_s <= left_s:
            self._spend(pause_s)
            return
        self.tally.refused_full += 1
        if pause_s < QUEUE_FULL_TRIES:
            self._spend(max(0.0, left_s))
            self._request("squeue")
            self._request("sacct")
        raise SchedulerAwayError(f"sbatch refused the job: {QUEUE_FULL[-1]}", tail=QUEUE_FULL)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job of this name."""
        with self._work():
            if self._is_away():
                self._spend(NO_ANSWER_S)
                raise SchedulerAwayError(f"whether {spec.row_id} was submitted is not known")
            self._request("squeue")
            job_id = self._by_name.get(spec.name)
            if job_id is None or not self._records[job_id].known:
                self._request("sacct")
            return None if job_id is None else Job(job_id, spec, since_s)

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """What squeue says, and sacct of those that it does not know or that have ended."""
        with self._work():
            tally = self.tally
            tally.questions += 1
            tally.ids += len(jobs)
            tally.most_ids = max(tally.most_ids, len(jobs))
            tally.shortest_pause_s = min(tally.shortest_pause_s, self.clock.now_s - self._asked_s)
            self._asked_s = self.clock.now_s
            away = self._is_away()
            answers: dict[str, JobStatus] = {}
            records = self._records
            if away:
                self._spend(NO_ANSWER_S)
            else:
                self._request("squeue")
            for job in jobs:
                record = records[job.id]
                answers[job.spec.row_id] = record.status if record.ended or not away else _SILENCE
            if away or any(records[job.id].ended for job in jobs):
                self._request("sacct")
            return answers

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End jobs; those that have ended are no error."""
        with self._work():
            if self._is_away():
                self._spend(NO_ANSWER_S)
                raise JobError("jobs may still run: scancel failed: Unable to contact slurm controller")
            self._request("scancel")
            for job in jobs:
                record = self._records[job.id]
                if not record.ended:
                    self._end(job.id, record, JobState.CANCELLED)
            self._start_jobs()

    def find_log(self, job: Job) -> Path:
        """Its log, from its start on."""
        record = self._records[job.id]
        if record.start_s > self.clock.now_s:
            raise LogError(f"no log of job {job.id}")
        return Path(f"{self._log}-{job.id}")

    def batch_output(self, job: Job) -> Path | None:
        """No job leaves any."""
        return None

    def close(self) -> None:
        """Nothing is held."""

    # -- the watcher --------------------------------------------------------------------------

    def watch(self, row_id: str) -> Glance:
        """The watch of this row's running job."""
        return Glance(self, self._records[self._open[row_id]])

    def seen_last_step(self, now_s: float) -> None:
        """A look has shown the last step of a job, or that it hangs."""
        if now_s != self._batch_s:
            self._batch_s = now_s
            self.tally.batches += 1

    # -- time and requests --------------------------------------------------------------------

    @contextmanager
    def _work(self) -> Iterator[None]:
        """Let happen what was to happen by now, and count what the model itself costs."""
        begin_s = time.thread_time()
        try:
            self._advance()
            yield
        finally:
            self.tally.cpu_s += time.thread_time() - begin_s

    def _spend(self, seconds: float) -> None:
        if self.threads.current is None:
            self.clock.now_s += seconds
        else:
            self.threads.pause(seconds)
        self._advance()

    def _is_away(self) -> bool:
        return (self.clock.now_s - self._first_outage_s) % DAY_S < self._outage_s

    def _request(self, command: str) -> None:
        """One request: it waits for its token, and for its answer."""
        tally = self.tally
        tally.requests[command] += 1
        now_s = self.clock.now_s
        if int(now_s) != self._second:
            self._second, self._in_second = int(now_s), 0
        self._in_second += 1
        tally.most_in_a_second = max(tally.most_in_a_second, self._in_second)
        delay_s = 0.0
        if command != "sacct" and self._rate < math.inf:  # that one asks slurmdbd
            self._tokens = min(self._bucket, self._tokens + (now_s - self._filled_s) * self._rate) - 1
            self._filled_s = now_s
            delay_s = max(0.0, -self._tokens / self._rate)
        if delay_s:
            tally.delayed += 1
            tally.delay_s += delay_s
            tally.longest_delay_s = max(tally.longest_delay_s, delay_s)
        self._spend(delay_s + ANSWER_S)

    # -- the cluster --------------------------------------------------------------------------

    def _at(self, when_s: float, kind: str, job_id: str) -> None:
        heapq.heappush(self._events, (when_s, next(self._numbers), kind, job_id))

    def _advance(self) -> None:
        """Everything that was to happen by now, in its order."""
        now_s = self.clock.now_s
        while self._events and self._events[0][0] <= now_s:
            when_s, _, kind, job_id = heapq.heappop(self._events)
            record = self._records[job_id]
            if kind == "forget":
                record.known = False
                self._held -= 1
            elif not record.ended:
                self._end(job_id, record, record.fate.state, when_s)
                self._start_jobs(when_s)

    def _end(self, job_id: str, record: _Record, state: JobState, when_s: float | None = None) -> None:
        when_s = self.clock.now_s if when_s is None else when_s
        failed = state in {JobState.FAILED, JobState.NODE_FAIL}
        record.ended = True
        record.status = JobStatus(
            state,
            raw_state=state.value,
            exit_code=1 if failed else 0,
            nodes=record.status.nodes,
            submit_s=_EPOCH_S,
            start_s=_EPOCH_S + int(record.start_s),
            end_s=_EPOCH_S + int(when_s),
        )
        if self._running.pop(id(record), None) is not None:
            self._free += record.nodes
        self._open.pop(record.spec.row_id, None)
        self._at(when_s + self._min_job_age_s, "forget", job_id)

    def _start_jobs(self, when_s: float | None = None) -> None:
        """Start the first in the queue while they fit; now and then, others that delay none of them."""
        when_s = self.clock.now_s if when_s is None else when_s
        queue = self._queue
        while queue and (queue[0].status is not _PENDING or queue[0].nodes <= self._free):
            record = queue.popleft()
            if record.status is _PENDING:
                self._start(record, when_s)
        if queue and self._free and when_s >= self._backfill_s:
            self._backfill_s = when_s + BACKFILL_S
            self._backfill(when_s)

    def _backfill(self, when_s: float) -> None:
        free, shadow_s = self._free, math.inf
        for end_s, nodes in sorted(self._running.values()):
            free += nodes
            if free >= self._queue[0].nodes:
                shadow_s = end_s
                break
        for record in itertools.islice(self._queue, 1, BACKFILL_DEPTH):
            if not self._free:
                return
            fits = record.status is _PENDING and record.nodes <= self._free
            if fits and when_s + record.fate.run_s <= shadow_s:
                self._start(record, when_s)

    def _start(self, record: _Record, when_s: float) -> None:
        self._free -= record.nodes
        record.start_s = when_s
        first = next(self._numbers) % 576
        nodes = f"n{first:04d}" if record.nodes == 1 else f"n[{first:04d}-{first + record.nodes - 1:04d}]"
        record.status = JobStatus(JobState.RUNNING, raw_state="RUNNING", nodes=nodes, start_s=_EPOCH_S + int(when_s))
        end_s = when_s + record.fate.run_s
        self._running[id(record)] = (end_s, record.nodes)
        self.tally.most_running = max(self.tally.most_running, len(self._running))
        job_id = self._open[record.spec.row_id]
        if record.fate.hangs:
            self.tally.hung += 1
            end_s = when_s + DAY_S  # its time limit, unless the session ends it
        self._at(end_s, "end", job_id)


class Glance:
    """Watches one job; stands in for :class:`pytest_gsw.fleet.watch.Watch`."""

    __slots__ = ("_cluster", "_finished", "_record", "_step_s")

    def __init__(self, cluster: Cluster, record: _Record) -> None:
        self._cluster = cluster
        self._record = record
        self._finished = False
        run_s = record.fate.run_s
        linger_s = record.fate.linger_s
        self._step_s = (run_s - linger_s if linger_s < run_s else max(run_s, 600.0) * 1.2) / STEPS

    def look(self, log: Path | None, now_s: float) -> Sample:
        """How far the job is, by the time since its start."""
        self._cluster.tally.looks += 1
        if log is None:
            return _SAMPLES[0]
        passed_s = now_s - self._record.start_s
        if self._record.fate.hangs:
            if passed_s < STALL_S:
                return _SAMPLES[min(STEPS // 2, int(passed_s / self._step_s))]
            self._cluster.seen_last_step(now_s)
            return _HUNG
        steps = int(passed_s / self._step_s)
        if steps < STEPS:
            return _SAMPLES[steps]
        if not self._finished:
            self._finished = True
            self._cluster.seen_last_step(now_s)
        return _SAMPLES[STEPS]


# -- a session ----------------------------------------------------------------------------------------

#: GPUs of a row, and how many rows of a hundred thousand have so many.
SIZES = {8: 45_000, 16: 20_000, 32: 15_000, 64: 10_400, 128: 6000, 256: 2300, 512: 900, 1024: 300, 2048: 100}


@dataclass(frozen=True)
class Scenario:
    """How much a session may take, and of what."""

    name: str
    limits: Limits = field(default_factory=Limits)
    max_job_count: int = 10_000
    others: int = 0
    rate: float = 2.0


@dataclass
class Session:
    """What one session came to."""

    rows: int
    virtual_s: float
    tally: Tally
    #: Rows that came out of the fleet, how often, and by how they ended.
    over: Counter[str]
    outcomes: Counter[str]
    repeats: int
    #: Processor seconds of the fleet and the journal: of this process, without the model.
    cpu_s: float
    model_s: float
    #: Bytes that the fleet holds at the end, with the specs of its rows.
    held: int
    journal: int
    #: Seconds for one look at where all rows stand, which whoever tells the user does.
    standings_s: float

    @property
    def budget(self) -> float:
        """How many questions may be asked: one an interval, and one for each batch of jobs that end."""
        return self.virtual_s / Cluster.poll_interval_s + self.tally.batches + 1

    def problems(self) -> list[str]:
        """What is not as it must be."""
        tally = self.tally
        found = []
        twice = sum(count > 1 for count in self.over.values())
        if len(self.over) != self.rows or twice:
            found.append(f"{len(self.over)} of {self.rows} rows were over, {twice} of them twice")
        lost = {text: count for text, count in self.outcomes.items() if text.startswith("error")}
        if lost:
            found.append(f"rows were lost: {lost}")
        if tally.doubled:
            found.append(f"{len(tally.doubled)} rows were submitted while their job was there: {tally.doubled[:3]}")
        taken = sum(tally.taken.values())
        if taken != self.rows + self.repeats:
            found.append(f"{taken} jobs for {self.rows} rows and {self.repeats} repeats")
        if tally.questions > self.budget:
            found.append(f"{tally.questions} questions, and the budget is {self.budget:.0f}")
        return found


def make_specs(rows: int, seed: int, directory: Path) -> dict[str, JobSpec]:
    """So many rows, those with the most GPUs first, as a session orders them."""
    dice = random.Random(seed)  # noqa: S311
    gpus = sorted(dice.choices(list(SIZES), list(SIZES.values()), k=rows), reverse=True)
    return {
        row_id: JobSpec(
            row_id,
            f"gsw-{number:06d}-{seed:04x}",
            directory / "launch.sh",
            directory,
            directory,
            nodes=size // 8,
            gpus=size,
            environment={"GPUS": str(size), "JOB_TOTAL_GPUS": str(size), "ROW": row_id},
            options=("--partition=batch", "--gres=gpu:8"),
            time_limit_s=3600.0,
            log_glob="results/**/log-*_{job_id}.out",
            unique_name=True,
        )
        for number, size in enumerate(gpus)
        for row_id in (f"baselines/model/table_{number // 50:04d}.yaml::row_{number:06d}[H100x{size}]",)
    }


def simulate(
    rows: int,
    directory: Path,
    scenario: Scenario,
    *,
    seed: int = 1,
    look_s: float = LOG_LOOK_S,
    fsync: bool = True,
) -> Session:
    """Run one session of so many rows to its end.

    Args:
        rows: How many rows.
        directory: Where the journal is written.
        scenario: Limits of the session and of the cluster.
        seed: Of everything.
        look_s: Seconds between two looks at the logs of running jobs.
        fsync: Whether each line of the journal is synced to the disk.
    """
    log = directory / "log.out"
    log.touch()
    os.utime(log, (2**32, 2**32))  # not older than any job
    clock = Clock()
    cluster = Cluster(
        clock, log, seed=seed, max_job_count=scenario.max_job_count, others=scenario.others, rate=scenario.rate
    )
    repeats: list[tuple[str, Attempt]] = []
    specs = make_specs(rows, seed, directory)
    over: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()

    def wait(_futures: object, timeout: float, return_when: str) -> None:
        cluster.threads.wait(timeout)

    with ExitStack() as stack:
        stack.enter_context(
            mock.patch.multiple(
                "pytest_gsw.fleet.fleet",
                ThreadPoolExecutor=lambda *_: cluster.threads,
                wait_for=wait,
            )
        )
        stack.enter_context(mock.patch("pytest_gsw.fleet.fleet.LOG_LOOK_S", look_s))
        if not fsync:
            stack.enter_context(mock.patch("pytest_gsw.jobs.journal.os.fsync"))
        begin_s = time.process_time()
        journal = Journal(directory)
        journal.session("model", list(specs))
        fleet = Fleet(
            cluster,
            cluster.poll_interval_s,
            journal=journal,
            limits=scenario.limits,
            watcher=lambda row_id: cast("Watch", cluster.watch(row_id)),
            retries=1,
            on_repeat=lambda row_id, attempt: repeats.append((row_id, attempt)),
            clock=clock,
            sleep=clock.sleep,
        )
        fleet.submit(specs)
        for _ in range(rows):
            row_id = fleet.next_over()
            over[row_id] += 1
            try:
                outcomes[fleet.take(row_id).status.state.value] += 1
            except RunError as error:
                outcomes[f"error: {error}"] += 1
        used_s = time.process_time() - begin_s
        virtual_s = clock.now_s
        begin_s = time.process_time()
        for _ in fleet.row_statuses():
            pass
        standings_s = time.process_time() - begin_s
        held = _size_of(fleet, without=(cluster, clock, journal, repeats))
        fleet.close()
    tally = cluster.tally
    model_s = tally.cpu_s + cluster.threads.cpu_s + tally.looks * _look_s(cluster)
    return Session(
        rows=rows,
        virtual_s=virtual_s,
        tally=tally,
        over=over,
        outcomes=outcomes,
        repeats=len(repeats),
        cpu_s=used_s - model_s,
        model_s=model_s,
        held=held,
        journal=(directory / NAME).stat().st_size,
        standings_s=standings_s,
    )


def _look_s(cluster: Cluster) -> float:
    """What one look costs the model."""
    spec = JobSpec("row", "row", Path(), Path(), Path(), 1, 8, {})
    record = _Record(spec, Fate(1000.0, JobState.COMPLETED, 5.0))
    record.start_s = 0.0
    looks, log = 20_000, Path()
    before = cluster.tally.looks
    look = Glance(cluster, record).look
    begin_s = time.process_time()
    for _ in range(looks):
        look(log, 400.0)
    used_s = time.process_time() - begin_s
    cluster.tally.looks = before
    return used_s / looks


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
