"""What has become of jobs, as Slurm's commands tell it together.

Where the truth is asked for, in this order:

1. ``squeue``, once for all jobs: is the job waiting or running, or how did it end, with which exit code?
2. ``sacct``, once for all jobs that have ended or left the queue: how did they and their steps end? A batch
   script may end with 0 although a step of it failed.
3. ``scontrol show job``, with one process for those of them that slurmctld still has and accounting does not
   tell: it is off, or did not answer or had no record for a while. It knows the worst exit code of all steps, not which
   step it was.

What none of them tells is UNKNOWN, with the reason: an empty answer is no end. An answer is a job's by its id and
its name: a controller that lost its state gives ids out again, and two rows of a session may have the same one. All
jobs of a session are on one cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.jobs.directives import cluster_of
from pytest_gsw.jobs.model import Job, JobState, JobStatus, JobStep
from pytest_gsw.jobs.slurm.answers import Answer, Output, parse_ends, parse_scontrol, parse_squeue, why
from pytest_gsw.jobs.slurm.client import Ask
from pytest_gsw.jobs.slurm.commands import (
    sacct_command,
    scontrol_all_command,
    scontrol_command,
    scontrol_requests,
    squeue_command,
)

#: How far the clocks of this machine and of the controller may be apart.
CLOCK_SKEW_S = 300.0
#: How long accounting may take to answer, and to have the record of a job that squeue says has COMPLETED. On 22.05 it
#: is there within a fifth of a second.
RECORD_WAIT_S = 60.0
#: sacct gives a step that has no record of its end yet the state and the end of its job, once it has those. Such an
#: answer is taken when it has been the same for so long: slurmctld has sent the record by the time that squeue says
#: COMPLETED, and slurmdbd may be slow to write it.
SETTLED_S = 10.0

_COMPLETING = "COMPLETING"
#: What sacct says where a cluster has no accounting; any other complaint may be gone with the next question.
_OFF = "Slurm accounting storage is disabled"


class Poller:
    """Asks about jobs, and remembers what a later question needs."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        #: Since when the accounting record of a row's ended job is awaited.
        self._awaited_s: dict[tuple[str, str], float] = {}
        #: The steps that accounting told last of an ended job, and since when it tells the same.
        self._steps: dict[tuple[str, str], tuple[tuple[JobStep, ...], float]] = {}
        #: The names of jobs by id, as squeue told them last.
        self._names: dict[str, str] = {}
        #: Where batch shells write to, as far as scontrol has told.
        self._outputs: dict[tuple[str, str], Path] = {}

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row. Never raises; what could not be learnt is UNKNOWN."""
        return self._poll(jobs) if jobs else {}

    def bears_its_name(self, job: Job) -> bool | None:
        """Whether the job that has this id is this one, by what squeue told last; ``None`` where it did not."""
        name = self._names.get(job.id)
        return None if name is None else name == job.name

    def ask_names(self, jobs: Sequence[Job]) -> str:
        """Ask squeue for the names of these jobs; why it did not tell, empty where it did."""
        if not jobs:
            return ""
        asked, _ = self._squeue(jobs)
        return f"squeue: {why(asked)}" if asked.returncode != 0 and not _knows_no_such_job(asked) else ""

    def output_of(self, job: Job) -> Path | None:
        """Where a job's batch shell writes to; ``None`` where scontrol does not tell."""
        if _key(job) not in self._outputs:
            self._scontrol([job])
        return self._outputs.get(_key(job))

    def _scontrol(self, jobs: Sequence[Job]) -> dict[str, Answer]:
        """What slurmctld knows of these jobs, by their ids."""
        ids, cluster = _ids(jobs), cluster_of(jobs[0].spec)
        if len(ids) == 1:
            asked = self._ask(scontrol_command(ids[0], cluster))
        else:
            asked = self._ask(scontrol_all_command(cluster), given=scontrol_requests(ids))
        told = parse_scontrol(asked.stdout)
        for job in jobs:
            output = told[job.id].output if job.id in told else None
            if output is not None and _ours(job, told[job.id]).state is not JobState.UNKNOWN:
                self._outputs[_key(job)] = output
        return told

    def _squeue(self, jobs: Sequence[Job]) -> tuple[Output, dict[str, Answer]]:
        asked = self._ask(squeue_command(_ids(jobs), cluster_of(jobs[0].spec)))
        queued = parse_squeue(asked.stdout) if asked.returncode == 0 else {}
        self._names |= {job_id: answer.job_name for job_id, answer in queued.items()}
        return asked, queued

    def _poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        asked, queued = self._squeue(jobs)
        statuses = {job.spec.row_id: _ours(job, queued[job.id]) for job in jobs if job.id in queued}
        ended = [job for job in jobs if not _goes_on(statuses.get(job.spec.row_id))]
        if not ended:
            return _with_siblings(jobs, statuses, queued.items())
        told = self._ask(sacct_command(_ids(ended), cluster_of(jobs[0].spec)))
        recorded = parse_ends(told.stdout) if told.returncode == 0 else {}
        finals = {job.spec.row_id: _recorded(job, recorded) for job in ended}
        # slurmctld still has the job, so scontrol has it too; one that left it needs no asking.
        untold = [
            job
            for job in ended
            if job.id in queued
            and not _has_ended(finals[job.spec.row_id])
            and (_is_off(told) or not _has_code(statuses[job.spec.row_id]) or self._waited(job))
        ]
        shown = self._scontrol(untold) if untold else {}
        for job in untold:
            if job.id not in shown:
                continue
            row_id, status = job.spec.row_id, _ours(job, shown[job.id])
            if status.state.ended or finals[row_id] is None:
                finals[row_id] = replace(status, unchecked=_unchecked(status, told))
        for job in ended:
            row_id = job.spec.row_id
            status = _conclusion(job, statuses.get(row_id), finals[row_id], asked, told)
            statuses[row_id] = self._if_its_steps_are_known(job, status, asked, told)
        return _with_siblings(jobs, statuses, [*queued.items(), *recorded.items()])

    def _if_its_steps_are_known(self, job: Job, status: JobStatus, asked: Output, told: Output) -> JobStatus:
        """The end of a job; one that looks good is no end before it is known, for a while, how its steps ended."""
        if status.state is not JobState.COMPLETED or status.exit_code or status.signal:
            self._awaited_s.pop(_key(job), None)
            return status
        have_ended = status.steps is not None and all(step.state.ended for step in status.steps)
        is_without = status.steps is None and status.derived_exit_code != "" and _is_off(told)
        if self._is_settled(job, status, asked) if have_ended else is_without:
            self._awaited_s.pop(_key(job), None)
        elif have_ended or not self._waited(job):
            return replace(
                status,
                state=JobState.RUNNING,
                raw_state=_COMPLETING,
                exit_code=None,
                end_s=None,
                steps=None,
                reason=f"how its steps ended is not known yet: sacct: {why(told)}",
            )
        if status.steps is not None or status.derived_exit_code:
            return status  # whoever judges the job says which step it is
        return _unknown(f"ended, but nobody tells how its steps did: {why(told)}", status)

    def _is_settled(self, job: Job, status: JobStatus, asked: Output) -> bool:
        """Whether accounting tells each step's own end."""
        steps = status.steps or ()
        if not any(step.state is status.state and step.end_s == status.end_s for step in steps):
            return True
        now_s = self._clock()
        if _key(job) not in self._steps or self._steps[_key(job)][0] != steps:
            self._steps[_key(job)] = steps, now_s
        # Without squeue nobody says COMPLETING, which a job is as long as its steps have KillWait to end.
        is_queue_known = asked.returncode == 0 or _knows_no_such_job(asked)
        return now_s - self._steps[_key(job)][1] >= (SETTLED_S if is_queue_known else RECORD_WAIT_S)

    def _waited(self, job: Job) -> bool:
        """Whether the record of an ended job has been awaited for long enough."""
        now_s = self._clock()
        return now_s - self._awaited_s.setdefault(_key(job), now_s) >= RECORD_WAIT_S


def _ids(jobs: Iterable[Job]) -> list[str]:
    """The jobs' ids, each once."""
    return list(dict.fromkeys(job.id for job in jobs))


def _key(job: Job) -> tuple[str, str]:
    """Identify a row's job, also if a controller has given out its id twice."""
    return job.spec.row_id, job.id


def _goes_on(status: JobStatus | None) -> bool:
    """True if squeue says that the job waits or runs."""
    return status is not None and status.state is not JobState.UNKNOWN and not status.state.ended


def _has_code(queued: JobStatus) -> bool:
    return queued.state.ended and queued.exit_code is not None


def _is_off(told: Output) -> bool:
    """Whether the cluster has no accounting."""
    return told.returncode != 0 and told.problem == _OFF


def _has_ended(final: JobStatus | None) -> bool:
    """Whether accounting has recorded an end."""
    return final is not None and final.state.ended


def _unchecked(status: JobStatus, told: Output) -> str:
    """What is not known of a job's end where slurmctld alone tells it."""
    if not status.state.ended or not status.derived_exit_code:
        return ""
    return f"which of its steps failed, if any, is not known, only their worst exit code: sacct: {why(told)}"


def _ours(job: Job, answer: Answer) -> JobStatus:
    """The status, or UNKNOWN if the answer is about another job that has the same id.

    Ids start again when a controller loses its state, and accounting then answers with the old job
    (submitit#1660).
    """
    status = answer.status
    if answer.job_name != job.name:
        return _unknown(f'job {job.id} is another one by now: its name is "{answer.job_name}"', status)
    # A name of this session's own can be nobody else's job, whatever the clocks say.
    if job.has_unique_name:
        return status
    if status.submit_s is not None and status.submit_s < job.submitted_s - CLOCK_SKEW_S:
        earlier_s = job.submitted_s - status.submit_s
        return _unknown(f"job {job.id} is another one: it was submitted {earlier_s:.0f} s before ours", status)
    return status


def _recorded(job: Job, recorded: Mapping[str, Answer]) -> JobStatus | None:
    """What accounting has on record; only an end must be checked to be ours, the rest proves nothing.

    A controller that stops soon after a job's start leaves a stub in accounting: PENDING, without a
    time, and named "allocation".
    """
    answer = recorded.get(job.id)
    if answer is None or (answer.status.state.ended and answer.status.end_s is None):
        return None  # the state may be there before the end, and before the last steps
    return _ours(job, answer) if answer.status.state.ended else answer.status


def _unknown(reason: str, status: JobStatus) -> JobStatus:
    return JobStatus(JobState.UNKNOWN, raw_state=status.raw_state, reason=reason)


def _conclusion(job: Job, queued: JobStatus | None, final: JobStatus | None, asked: Output, told: Output) -> JobStatus:
    """What is known of a job that squeue does not show waiting or running."""
    if final is not None and final.state.ended:
        # The reason of a pending job is gone by then; squeue's word on the end is better than none.
        return final if final.reason or queued is None else replace(final, reason=queued.reason)
    if queued is not None and queued.state.ended:
        if queued.state is not JobState.COMPLETED or queued.exit_code is not None:
            return queued
        return replace(queued, state=JobState.UNKNOWN, reason=f"ended, but nobody tells the exit code: {why(told)}")
    if queued is not None:  # a word that is not in the table, or another's job
        return queued if queued.reason else replace(queued, reason=f'squeue says "{queued.raw_state}"')
    if final is not None and final.state is JobState.UNKNOWN:
        return final if final.reason else replace(final, reason=f'sacct says "{final.raw_state}"')
    if asked.returncode != 0 and not _knows_no_such_job(asked):
        return JobStatus(JobState.UNKNOWN, reason=f"squeue: {why(asked)}")
    if final is not None:  # a late record; it must not make a job run for ever that has left the queue
        reason = f"left the queue, but accounting still says {final.raw_state}"
        return replace(final, state=JobState.UNKNOWN, reason=reason)
    if told.returncode != 0:
        return JobStatus(JobState.UNKNOWN, reason=f"left the queue, and sacct: {why(told)}")
    return JobStatus(JobState.UNKNOWN, reason=f"neither squeue nor sacct knows job {job.id}")


def _knows_no_such_job(asked: Output) -> bool:
    """Whether squeue failed only because it knows none of the ids: they have been purged."""
    return "Invalid job id" in asked.stderr


def _with_siblings(
    jobs: Sequence[Job], statuses: dict[str, JobStatus], answers: Iterable[tuple[str, Answer]]
) -> dict[str, JobStatus]:
    """The statuses, with the further jobs that Slurm names beside one it was asked for: it does so of arrays alone."""
    asked = {job.id for job in jobs}
    more = dict.fromkeys((answer.job_name, job_id) for job_id, answer in answers if job_id not in asked)
    for job in jobs if more else ():
        siblings = tuple(job_id for name, job_id in more if name == job.name)
        statuses[job.spec.row_id] = replace(statuses[job.spec.row_id], siblings=siblings)
    return statuses
