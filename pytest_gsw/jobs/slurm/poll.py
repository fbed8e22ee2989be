"""The status of jobs, from the answers of three commands.

1. ``squeue``, once for all jobs: pending, running, or ended with an exit code.
2. ``sacct``, once for all jobs that have ended or left the queue: the end of each job and of its steps. A batch
   script may end with 0 although a step of it failed.
3. ``scontrol show job``, in one process, for ended jobs that slurmctld still has and accounting does not cover:
   accounting is off, did not answer for a while, or may lack the record of a step's own end. It returns the worst
   exit code of all steps, not the step.

A job in none of the answers is UNKNOWN, with the reason: an empty answer is no end. An answer belongs to a job by
its id and its name: a controller that lost its state assigns ids again, even to two rows of one session. All jobs
of a session are on one cluster.
"""

from __future__ import annotations

import math
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.common.node_lists import expand
from pytest_gsw.errors import JobError
from pytest_gsw.jobs.layout import CLOCK_SKEW_S
from pytest_gsw.jobs.model import Job
from pytest_gsw.jobs.pending import OF_ONE, reason_of
from pytest_gsw.jobs.scripts import cluster_of
from pytest_gsw.jobs.slurm import client
from pytest_gsw.jobs.slurm.client import Answer, Ask, Output, why
from pytest_gsw.jobs.states import COMPLETING, NODE_LOST, NOT_LAUNCHED, JobState, JobStatus, JobStep

#: Longest wait for accounting to answer, and to record a job that is COMPLETED in squeue. Slurm 22.05 takes less
#: than a fifth of a second.
RECORD_WAIT_S = 60.0
#: sacct shows a step without a record of its end with the state and the end of its job. Unless slurmctld confirms
#: that all steps ended with 0, such an answer counts once it has been the same for this long: slurmctld has sent the
#: record before squeue shows COMPLETED, and slurmdbd may be slow to write it.
SETTLED_S = 10.0

#: Time before scontrol, which gave no answer, is called for an output file again; it was for all jobs of a poll.
SILENT_S = 5.0

#: The error of squeue and scontrol on an id that slurmctld does not have.
_PURGED = "Invalid job id"
#: The DerivedExitCode of a job without a failed step.
_NO_FAILURE = "0:0"
#: Reasons of pending jobs for nodes that are lost, reserved, or not yet free of their last job.
_NODES_WAITED_FOR = re.compile("ReqNodeNotAvail|Nodes[ _]required")
#: Ends of jobs that lost a node.
_NODE_ENDS = frozenset({JobState.NODE_FAIL, JobState.BOOT_FAIL})


class Poller:
    """Polls jobs, and caches names, steps and outputs for later polls."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        #: Start of the wait for the accounting record of a row's ended job; monotonic seconds.
        self._awaited_s: dict[tuple[str, str], float] = {}
        #: The steps of an ended job in the last answer of accounting, and since when they are the same.
        self._steps: dict[tuple[str, str], tuple[tuple[JobStep, ...], float]] = {}
        #: The names of jobs by id in squeue's last answer with them.
        self._names: dict[str, str] = {}
        #: All jobs of the user in squeue's last answer. ``None`` if it was requested by ids, failed, or lacks a
        #: polled job: then another job of its row may have been purged as well, and accounting alone has it.
        self.listed: Mapping[str, Answer] | None = None
        #: Output files of batch shells; ``None`` if scontrol did not return one, although it answered.
        self._outputs: dict[tuple[str, str], Path | None] = {}
        #: No further output is requested before this time, after scontrol gave no answer; monotonic seconds.
        self._outputs_due_s = -math.inf
        #: True for a pending job that a limit of one partition or QOS does not keep from starting, by scontrol.
        self._has_alternatives: dict[tuple[str, str], bool] = {}

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row; UNKNOWN if no command returned it. Never raises."""
        if not jobs:
            return {}
        squeue, queued = self._squeue(jobs)
        statuses = {job.spec.row_id: _own_status(job, queued[job.id]) for job in jobs if job.id in queued}
        # The other jobs are pending or running.
        open_ = {JobState.PENDING, JobState.RUNNING}
        ended = [job for job in jobs if job.id not in queued or statuses[job.spec.row_id].state not in open_]
        if not ended:
            return _add_siblings(jobs, statuses, queued.items())
        sacct = self._ask(client.sacct_command(_ids(ended), cluster_of(jobs[0].spec)))
        recorded = client.parse_ends(sacct.stdout) if sacct.returncode == 0 else {}
        finals = {job.spec.row_id: _accounting_status(job, recorded) for job in ended}
        # scontrol has only jobs that slurmctld still has.
        unrecorded = [
            job
            for job in ended
            if job.id in queued
            and not ((final := finals[job.spec.row_id]) is not None and final.state.ended)
            and (sacct.is_accounting_off or statuses[job.spec.row_id].exit_code is None or self._is_overdue(job))
        ]
        uncertain = [job for job in ended if job.id in queued and _may_lack_ends(finals[job.spec.row_id])]
        scontrol = self._scontrol([*unrecorded, *uncertain]) if unrecorded or uncertain else {}
        for job in unrecorded:
            if job.id not in scontrol:
                continue
            row_id, status = job.spec.row_id, _own_status(job, scontrol[job.id])
            if status.state.ended or finals[row_id] is None:
                what = "which of its steps failed, if any, is not known, only their worst exit code"
                is_short = status.state.ended and status.derived_exit_code
                finals[row_id] = replace(status, unchecked=f"{what}: sacct: {why(sacct)}" if is_short else "")
        for job in ended:
            row_id = job.spec.row_id
            status = _combine(job, statuses.get(row_id), finals[row_id], squeue, sacct)
            controller = _own_status(job, scontrol[job.id]) if job.id in scontrol else None
            statuses[row_id] = self._check_step_ends(job, status, squeue, sacct, controller)
        if squeue.returncode == 0 or _are_ids_purged(squeue):
            over = [job for job in ended if statuses[job.spec.row_id].state.ended and not job.spec.launch.has_directory]
            self._find_outputs([job for job in over if not usual_output(job).is_file()])
        return _add_siblings(jobs, statuses, [*queued.items(), *recorded.items()])

    def confirm_ids(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs that still own their ids: an id alone may belong to another job by now.

        Raises:
            JobError: The owner of an id is unknown.
        """
        if unseen := [job for job in jobs if job.id not in self._names]:
            squeue, _ = self._squeue(unseen)
            if squeue.returncode != 0 and not _are_ids_purged(squeue):
                raise JobError(
                    f"jobs may still run: whose their ids are is not known: squeue: {why(squeue)}",
                    advice=" && ".join(shlex.join(client.scancel_by_name_command(job)) for job in unseen),
                )
        return [job for job in jobs if self._names.get(job.id) == job.name]

    def output_of(self, job: Job) -> Path | None:
        """Output file of a job's batch shell; ``None`` if scontrol does not return it."""
        self._find_outputs([job])
        return self._outputs.get(_key(job))

    def known_output_of(self, job: Job) -> Path | None:
        """The same as known by now."""
        return self._outputs.get(_key(job))

    def _find_outputs(self, jobs: Sequence[Job]) -> None:
        """Request the output files of the batch shells of these jobs at once, as far as they are unknown."""
        new = [job for job in jobs if _key(job) not in self._outputs]
        if new and self._clock() >= self._outputs_due_s:
            self._scontrol(new)

    def mark_alternatives(self, jobs: Sequence[Job], statuses: dict[str, JobStatus]) -> None:
        """Mark the reasons of jobs that may start in another of their partitions, by another QOS, or for less time.

        A job is certain to have none only if scontrol returns it.
        """
        pending = [job for job in jobs if statuses[job.spec.row_id].state is JobState.PENDING]
        limited = [job for job in pending if reason_of(statuses[job.spec.row_id].reason).has_alternatives]
        new = [job for job in limited if _key(job) not in self._has_alternatives]
        answers = self._scontrol(new) if new else {}
        self._has_alternatives |= {_key(job): answers[job.id].has_alternatives for job in new if job.id in answers}
        for job in limited:
            if self._has_alternatives.get(_key(job), True):
                status = statuses[job.spec.row_id]
                statuses[job.spec.row_id] = replace(status, reason=f"{status.reason}{OF_ONE}")

    def mark_lost_nodes(self, jobs: Sequence[Job], statuses: dict[str, JobStatus]) -> None:
        """Give the lost nodes as the reason of jobs that wait for them, or have ended with them."""
        if places := self._places_in_doubt(jobs, statuses):
            from pytest_gsw.jobs.slurm.nodes import lost_nodes  # in few sessions a node is lost

            lost = lost_nodes(self._ask, cluster_of(jobs[0].spec))
            for row_id, (begin, nodes) in places.items():
                why = ", ".join(f"{node} ({lost[node]})" for node in expand(nodes) if node in lost)
                if why:
                    statuses[row_id] = replace(statuses[row_id], reason=f"{begin}: {why}")

    def _places_in_doubt(self, jobs: Sequence[Job], statuses: dict[str, JobStatus]) -> dict[str, tuple[str, str]]:
        """The nodes, by row, of jobs that wait for their tile, were not launched, or ended without a step of theirs.

        Each has the beginning of the reason if one of the nodes is lost. A job that was requeued gets its nodes here.
        """
        held = [job for job in jobs if statuses[job.spec.row_id].reason == NOT_LAUNCHED]
        if held:
            command = client.sacct_jobs_command(cluster_of(held[0].spec), job_id=",".join(_ids(held)))
            # -D: their starts before they were requeued as well.
            nodes_of = client.parse_requeued(self._ask((*command, "-D")).stdout)
            for job in (job for job in held if job.id in nodes_of):
                statuses[job.spec.row_id] = replace(statuses[job.spec.row_id], nodes=nodes_of[job.id])
        places = {}
        for job in jobs:
            row_id, status = job.spec.row_id, statuses[job.spec.row_id]
            has_ended = (status.state is JobState.CANCELLED and not status.steps) or status.state in _NODE_ENDS
            if status.reason == NOT_LAUNCHED:
                places[row_id] = NOT_LAUNCHED, status.nodes
            elif has_ended or (job.spec.node_list and _NODES_WAITED_FOR.match(status.reason)):
                places[row_id] = NODE_LOST, status.nodes if has_ended else job.spec.node_list
        return {row_id: place for row_id, place in places.items() if place[1]}

    def _scontrol(self, jobs: Sequence[Job]) -> dict[str, Answer]:
        """Answers of slurmctld on these jobs by their ids."""
        ids, cluster = _ids(jobs), cluster_of(jobs[0].spec)
        scontrol = self._ask(client.scontrol_command(cluster), given=client.scontrol_requests(ids))
        answers = client.parse_scontrol(scontrol.stdout)
        # There is a complaint about each job that was purged; none about some if scontrol was killed, or gave up.
        are_others_purged = len({*ids} - answers.keys()) <= scontrol.stderr.count(_PURGED)
        if not are_others_purged:
            self._outputs_due_s = self._clock() + SILENT_S
        for job in (job for job in jobs if are_others_purged or job.id in answers):
            is_own = job.id in answers and _own_status(job, answers[job.id]).state is not JobState.UNKNOWN
            self._outputs[_key(job)] = answers[job.id].output if is_own else None
        return answers

    def _squeue(self, jobs: Sequence[Job]) -> tuple[Output, dict[str, Answer]]:
        """The answer of squeue on these jobs, by one request for all of the user if no other job ever has their names.

        slurmctld sends squeue all jobs in either case. Requested by id are those that this answer lacks, as it failed,
        they were purged, or the user has another name there, and those that share their name with another one in it.
        """
        cluster, ids, mine = cluster_of(jobs[0].spec), _ids(jobs), all(job.has_unique_name for job in jobs)
        squeue = self._ask(client.squeue_command(cluster, ids=() if mine else ids, mine=mine))
        queued = client.parse_squeue(squeue.stdout) if squeue.returncode == 0 else {}
        self.listed = queued if mine and squeue.returncode == 0 and queued.keys() >= {*ids} else None
        if mine and not squeue.timed_out:
            names = Counter([answer.job_name for answer in queued.values()])
            queued = {job.id: queued[job.id] for job in jobs if job.id in queued and names[job.name] <= 1}
            if ids := [job_id for job_id in ids if job_id not in queued]:
                squeue = self._ask(client.squeue_command(cluster, ids=ids))
                queued |= client.parse_squeue(squeue.stdout) if squeue.returncode == 0 else {}
        self._names |= {job_id: answer.job_name for job_id, answer in queued.items()}
        return squeue, queued

    def _check_step_ends(
        self, job: Job, status: JobStatus, squeue: Output, sacct: Output, controller: JobStatus | None
    ) -> JobStatus:
        """The status of a job: one that looks successful counts as RUNNING until the ends of its steps are known.

        After a limited time it is returned without them, or as UNKNOWN.

        Args:
            job: The job.
            status: Its status by squeue, sacct and scontrol together.
            squeue: The answer of squeue.
            sacct: The answer of sacct.
            controller: The status by slurmctld, if scontrol was called for it.
        """
        if status.state is not JobState.COMPLETED or status.exit_code or status.signal:
            self._forget(job)
            return status
        have_ended = status.steps is not None and all(step.state.ended for step in status.steps)
        if have_ended:
            is_known = self._is_settled(job, status, squeue, controller)
            why_not = "accounting may lack the record of a step's own end"
        else:
            is_known = status.steps is None and status.derived_exit_code != "" and sacct.is_accounting_off
            why_not = f"sacct: {why(sacct)}"
        if is_known:
            self._forget(job)
        elif have_ended or not self._is_overdue(job):
            return replace(
                status,
                state=JobState.RUNNING,
                raw_state=COMPLETING,
                exit_code=None,
                end_s=None,
                steps=None,
                reason=f"how its steps ended is not known yet: {why_not}",
            )
        if status.steps is not None or status.derived_exit_code:
            return status  # the verdict names the step
        return _unknown(f"ended, but the ends of its steps are unknown: {why(sacct)}", status)

    def _is_settled(self, job: Job, status: JobStatus, squeue: Output, controller: JobStatus | None) -> bool:
        """True if accounting has each step's own end."""
        if not _may_lack_ends(status):
            return True
        if controller is not None and controller.state.ended and controller.derived_exit_code == _NO_FAILURE:
            return True
        steps, now_s = status.steps or (), self._clock()
        if _key(job) not in self._steps or self._steps[_key(job)][0] != steps:
            self._steps[_key(job)] = steps, now_s
        # Without squeue, a job whose steps still have KillWait to end does not show as COMPLETING.
        is_queue_known = squeue.returncode == 0 or _are_ids_purged(squeue)
        return now_s - self._steps[_key(job)][1] >= (SETTLED_S if is_queue_known else RECORD_WAIT_S)

    def _forget(self, job: Job) -> None:
        """Drop the waiting times of this job."""
        self._awaited_s.pop(_key(job), None)
        self._steps.pop(_key(job), None)

    def _is_overdue(self, job: Job) -> bool:
        """True if the record of an ended job has been awaited for long enough."""
        return (now_s := self._clock()) - self._awaited_s.setdefault(_key(job), now_s) >= RECORD_WAIT_S


def usual_output(job: Job) -> Path:
    """The output file of a job's batch shell, unless its launch script names another one."""
    chosen = job.spec.batch_output or f"{job.spec.directory}/slurm-%j.out"
    return Path(chosen.replace("%j", job.id))


def _may_lack_ends(final: JobStatus | None) -> bool:
    """True if accounting may have no end of a step's own and shows the good end of the job instead."""
    return (
        final is not None
        and final.state is JobState.COMPLETED
        and any(step.state is final.state and step.end_s == final.end_s for step in final.steps or ())
    )


def _ids(jobs: Iterable[Job]) -> list[str]:
    """The jobs' ids without duplicates."""
    return list(dict.fromkeys(job.id for job in jobs))


def _key(job: Job) -> tuple[str, str]:
    """A unique key of a row's job, even if a controller assigned its id twice."""
    return job.spec.row_id, job.id


def _own_status(job: Job, answer: Answer) -> JobStatus:
    """The status, or UNKNOWN if the answer belongs to another job with the same id.

    Ids start again when a controller loses its state, and accounting then answers with the old job
    (submitit#1660).
    """
    status = answer.status
    if answer.job_name != job.name:
        return _unknown(f'job {job.id} is another one by now: its name is "{answer.job_name}"', status)
    # A name of this session's own identifies the job, whatever the clocks show.
    if job.has_unique_name or status.submit_s is None or status.submit_s >= job.submitted_s - CLOCK_SKEW_S:
        return status
    earlier_s = job.submitted_s - status.submit_s
    return _unknown(f"job {job.id} is another one: it was submitted {earlier_s:.0f} s before ours", status)


def _accounting_status(job: Job, recorded: Mapping[str, Answer]) -> JobStatus | None:
    """The status in accounting. An end must belong to this job; any other state proves nothing and is kept.

    A controller that stops soon after a job's start leaves a stub in accounting: PENDING, without a
    time, and named "allocation".
    """
    answer = recorded.get(job.id)
    if answer is None or (answer.status.state.ended and answer.status.end_s is None):
        return None  # the state may be recorded before the end, and before the last steps
    return _own_status(job, answer) if answer.status.state.ended else answer.status


def _unknown(reason: str, status: JobStatus) -> JobStatus:
    return JobStatus(JobState.UNKNOWN, raw_state=status.raw_state, reason=reason)


def _combine(job: Job, queued: JobStatus | None, final: JobStatus | None, squeue: Output, sacct: Output) -> JobStatus:
    """The status of a job that squeue does not show as pending or running."""
    if final is not None and final.state.ended:
        # The reason for a pending job is gone by then; squeue's reason for the end is better than none.
        return final if final.reason or queued is None else replace(final, reason=queued.reason)
    if queued is not None and queued.state.ended:
        if queued.state is not JobState.COMPLETED or queued.exit_code is not None:
            return queued
        return replace(queued, state=JobState.UNKNOWN, reason=f"ended, but its exit code is unknown: {why(sacct)}")
    if queued is not None:  # a state that is not in the table, or another job with this id
        return queued if queued.reason else replace(queued, reason=f'squeue says "{queued.raw_state}"')
    if final is not None and final.state is JobState.UNKNOWN:
        return final if final.reason else replace(final, reason=f'sacct says "{final.raw_state}"')
    if squeue.returncode != 0 and not _are_ids_purged(squeue):
        return JobStatus(JobState.UNKNOWN, reason=f"squeue: {why(squeue)}")
    if final is not None:  # a late record: a job that left the queue must not stay RUNNING for ever
        reason = f"left the queue, but accounting still says {final.raw_state}"
        return replace(final, state=JobState.UNKNOWN, reason=reason)
    if sacct.returncode != 0:
        return JobStatus(JobState.UNKNOWN, reason=f"left the queue, and sacct: {why(sacct)}")
    return JobStatus(JobState.UNKNOWN, reason=f"neither squeue nor sacct knows job {job.id}")


def _are_ids_purged(answer: Output) -> bool:
    """True if a query failed only because slurmctld has none of the ids: they have been purged."""
    return _PURGED in answer.stderr


def _add_siblings(
    jobs: Sequence[Job], statuses: dict[str, JobStatus], answers: Iterable[tuple[str, Answer]]
) -> dict[str, JobStatus]:
    """The statuses with the additional jobs that Slurm returns: it does so for job arrays only."""
    polled_ids = {job.id for job in jobs}
    more = dict.fromkeys((answer.job_name, job_id) for job_id, answer in answers if job_id not in polled_ids)
    for job in jobs if more else ():
        siblings = tuple(job_id for name, job_id in more if name == job.name)
        statuses[job.spec.row_id] = replace(statuses[job.spec.row_id], siblings=siblings)
    return statuses
