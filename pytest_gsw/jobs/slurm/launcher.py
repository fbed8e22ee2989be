"""Jobs on a Slurm cluster: submission, polling and cancellation.

Slurm's commands, and the parsers of their output, are in :mod:`~pytest_gsw.jobs.slurm.client`. This module combines
their answers into the status of a job, interprets the errors of ``sbatch``, and looks for jobs whose submission got no
answer.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import shutil
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.clusters import LAUNCHER_KEYS
from pytest_gsw.common.files import make_directory
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.redact import masked_text, printable
from pytest_gsw.common.text import moment, shortened
from pytest_gsw.errors import (
    JobError,
    LogError,
    NotListedError,
    QueueFullError,
    RefusedError,
    RunError,
    SchedulerUnreachableError,
    SubmissionError,
)
from pytest_gsw.jobs import layout
from pytest_gsw.jobs.model import VIRTUAL_ENVIRONMENTS, ExperimentInfo, FoundJob, Job, JobSpec, Launch, Launcher
from pytest_gsw.jobs.pending import OF_ONE, reason_of
from pytest_gsw.jobs.run_lock import PATIENCE_S, SubmissionLock
from pytest_gsw.jobs.scripts import STDOUT_BEFORE_23_02, check_one_job, cluster_of
from pytest_gsw.jobs.slurm import client
from pytest_gsw.jobs.slurm.client import Answer, Ask, Client, Output, why
from pytest_gsw.jobs.spec import job_environment, masked_command, session_environment
from pytest_gsw.jobs.states import (
    COMPLETING,
    NEVER_STARTS,
    NODE_LOST,
    NOT_LAUNCHED,
    FailedJob,
    JobState,
    JobStatus,
    JobStep,
)

# -- The status of jobs, from the answers of three commands -----------------------------------------
#
# 1. ``squeue``, once for all jobs: pending, running, or ended with an exit code.
# 2. ``sacct``, once for all jobs that have ended or left the queue: the end of each job and of its steps. A batch
#    script may end with 0 although a step of it failed.
# 3. ``scontrol show job``, in one process, for ended jobs that slurmctld still has and accounting does not cover:
#    accounting is off, did not answer for a while, or may lack the record of a step's own end. It returns the worst
#    exit code of all steps, not the step.
#
# A job in none of the answers is UNKNOWN, with the reason: an empty answer is no end. An answer belongs to a job by
# its id and its name: a controller that lost its state assigns ids again, even to two rows of one session. All jobs
# of a session are on one cluster.


#: Longest wait for accounting to answer, and to record a job that is COMPLETED in squeue. Slurm 22.05 takes less
#: than a fifth of a second.
RECORD_WAIT_S = 60.0
#: sacct shows a step without a record of its end with the state and the end of its job. Unless slurmctld confirms
#: that all steps ended with 0, such an answer counts once it has been the same for this long: slurmctld has sent the
#: record before squeue shows COMPLETED, and slurmdbd may be slow to write it.
SETTLED_S = 10.0

#: Time before scontrol, which gave no answer, is called for an output file again; it was for all jobs of a poll.
SILENT_S = 5.0

#: sacct's error on a cluster without accounting; any other error may be gone at the next poll.
_OFF = "Slurm accounting storage is disabled"
#: The error of squeue and scontrol on an id that slurmctld does not have.
_PURGED = "Invalid job id"
#: The DerivedExitCode of a job without a failed step.
_NO_FAILURE = "0:0"


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
            and (_is_off(sacct) or statuses[job.spec.row_id].exit_code is None or self._is_overdue(job))
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
            self._find_outputs([job for job in over if not _usual_output(job).is_file()])
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
            is_known = status.steps is None and status.derived_exit_code != "" and _is_off(sacct)
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


def _is_off(sacct: Output) -> bool:
    """True if the cluster has no accounting."""
    return sacct.returncode != 0 and sacct.problem == _OFF


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
    if job.has_unique_name or status.submit_s is None or status.submit_s >= job.submitted_s - layout.CLOCK_SKEW_S:
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


# -- Errors of ``sbatch``: certainly no job, perhaps a job, or a full queue -------------------------


_FAILED = "sbatch: error: Batch job submission failed: "

#: Slurm's messages (slurm_errno.c, 22.05 to 24.11) for a job that the controller refused. Any other message may come
#: from a wrapper, or from a failure after the job was accepted: then the job is looked for by its name.
_CERTAIN = re.compile(
    r"(?:Invalid (?:partition name|account or account/partition combination|qos|generic resource \(gres\)|feature|"
    r"Trackable RESource \(TRES\)|node name\(?s?\)?|job array|wckey|dependency|license)[^\n]{0,40}"
    r"|Requested (?:node configuration is not available|time limit is invalid \([^\n]{0,60}|"
    r"partition configuration not available now|reservation is invalid|nodes are busy)"
    r"|Node count specification invalid|More processors requested than permitted"
    r"|Job violates accounting/QOS policy \([^\n]{0,80}"
    r"|User's group not permitted to use this partition|Access/permission denied|Access denied to requested reservation"
    r"|Required (?:partition not available \(inactive or drain\)|node not available \(down, drained or reserved\))"
    r"|Memory (?:required by task is not available|specification can not be satisfied)|Job dependency problem)\.?",
    re.IGNORECASE,
)

#: Slurm's names of limits on jobs in the queue; the group matches the limits of the user's own jobs.
_LIMIT = re.compile(r"(?:Assoc|QOS)(?:(MaxSubmitJobs?(?:PerUser)?)|GrpSubmitJobs?|MaxSubmitJobs?PerAccount)Limit")


def is_certain(answer: Output, spec: JobSpec) -> bool:
    """True if a failed ``sbatch`` certainly left no job: it printed Slurm's refusal and nothing else."""
    if answer.returncode != 1 or answer.timed_out or answer.stdout.strip():
        return False
    last = answer.stderr.strip().rpartition("\n")[2].strip()
    if last == f"sbatch: error: Unable to open file {spec.script}":
        return True
    return last.startswith(_FAILED) and _CERTAIN.fullmatch(last.removeprefix(_FAILED)) is not None


def full_queue(answer: Output) -> tuple[str, bool] | None:
    """The limit on queued jobs in a refusal, and true if it counts this user's jobs only; ``None`` for others."""
    if answer.returncode != 1 or "Job violates accounting/QOS policy" not in answer.stderr:
        return None
    limits = filter(None, map(_LIMIT.fullmatch, answer.complaints))
    return next(((limit[0], limit[1] is not None) for limit in limits), None)


def may_have_been_taken(answer: Output) -> bool:
    """True if the controller was reached and may have the job although sbatch did not confirm it."""
    return answer.timed_out or answer.returncode <= 0 or "timed out" in answer.stderr or "Zero Bytes" in answer.stderr


#: Errors of sbatch while the controller restarts or is overloaded.
_AWAY = re.compile(
    r"[Uu]nable to contact slurm controller|timed out|Zero Bytes were transmitted|temporarily unable"
    r"|Resource temporarily unavailable|Connection (?:refused|reset)|in standby mode|controller not responding"
)


def is_away(answer: Output) -> bool:
    """True if the same submission may succeed later."""
    if answer.timed_out or answer.returncode < 0:  # below 0, a signal ended it at an unknown point
        return True
    # The last error is the outcome; sbatch prints one for each earlier try as well.
    return answer.returncode != 0 and _AWAY.search(answer.problem) is not None


def submission_evidence(spec: JobSpec, command: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The command of a submission and its directory, as evidence."""
    return (("command", shlex.join(masked_command(command))), ("directory", str(spec.directory)))


def _not_run(spec: JobSpec, command: Sequence[str], error: OSError, advice: str) -> SubmissionError:
    """The error of a program that could not be started."""
    fact = f"{command[0]} could not be run: {error.strerror or error}"
    return SubmissionError(fact, submission_evidence(spec, command), advice=advice)


def unanswered(what: str, spec: JobSpec, command: Sequence[str], answer: Output) -> SchedulerUnreachableError:
    """The error of a query for jobs without an answer."""
    return SchedulerUnreachableError(
        f"whether {what} submitted is not known: {command[0]}: {masked_text(why(answer), spec.environment)}",
        (("command", shlex.join(masked_command(command))),),
        advice=_advice(answer.stderr, spec),
    )


def refusal(
    kind: type[SubmissionError], spec: JobSpec, command: Sequence[str], answer: Output, fact: str = ""
) -> SubmissionError:
    """An error of this kind for a failed sbatch; the fact is sbatch's own message unless another is given."""
    # A cluster's own variables are not in the session's environment, whose secrets are masked later.
    out, err = (masked_text(text, spec.environment) for text in (answer.stdout, answer.stderr))
    answer = replace(answer, stdout=out, stderr=err)
    text = (answer.stderr + answer.stdout).strip()
    if fact:
        pass
    elif answer.returncode == 0:
        fact = "sbatch gave no job id"
    elif answer.timed_out:
        fact = answer.problem
    else:
        fact = f"sbatch refused the job: {why(answer)}"
    return kind(
        fact,
        (*submission_evidence(spec, command), ("exit code", str(answer.returncode))),
        tail=tuple(text.split("\n")) if text else (),
        advice=_advice(text, spec),
    )


#: Patterns of sbatch's errors, and the advice for each; the first match counts.
_ADVICE = (
    (r"without GPU|generic resource|gres", "this cluster counts GPUs: set `gres: gpu:8` in its cluster file"),
    # The name of the limit precedes the refusal.
    (
        r"(?:Assoc|QOS)MaxWall",
        (
            "the account or QOS allows less time: ask for it with timeout: MINUTES at the cluster; "
            "sacctmgr show qos format=name,maxwall shows the longest"
        ),
    ),
    (
        r"(?:Assoc|QOS)(?:Grp|Max|Min)(?:Nodes?|C[Pp][Uu]s?|GRES|TRES|Mem|Billing)",
        (
            "the account or QOS allows another size: name one that does with --qos=NAME under `sbatch` of the cluster; "
            "sacctmgr show qos format=name,mintres,maxtres,maxtrespu,grptres lists them"
        ),
    ),
    (
        r"[Ii]nvalid qos",
        (
            "name a QOS of yours with --qos=NAME under `sbatch` of the cluster; "
            "sacctmgr show assoc user=$USER format=account,qos lists them"
        ),
    ),
    (r"QOS|policy", "sacctmgr show qos; squeue --me shows which of your jobs count against a limit"),
    (r"account|association", "set `account:` in the cluster file; sacctmgr show assoc user=$USER lists yours"),
    (r"partition", "set `partition:` in the cluster file; sinfo -s lists them"),
    (r"configuration is not available|[Nn]ode count", "sinfo -o '%P %D %G' shows what this cluster has"),
    (r"time limit", "set a shorter time limit; sinfo -o '%P %l' shows the longest"),
    (r"feature", "set `constraint:` in the cluster file; sinfo -o '%P %f' lists the features"),
    (r"reservation|node name|unrecognized option|Invalid --", "correct `sbatch:` of the cluster; sbatch --help"),
    (r"Unable to open file", "is the recipe set up? The script must exist: ls -l {script}"),
    (
        r"contact slurm controller|timed out|gave no answer",
        "scontrol ping; squeue --name={name} shows whether the job was accepted after all",
    ),
)


def _advice(text: str, spec: JobSpec) -> str:
    for pattern, advice in _ADVICE:
        if re.search(pattern, text):
            return advice.format(script=spec.script, name=spec.name)
    return "run the command by hand in that directory"


# -- Launch scripts that submit their job themselves ------------------------------------------------
#
# A script's output is kept in a file of the run, created before the script begins. A script that outlives its session
# still writes there which job it submitted, and the job's directory.


_SUFFIX = ".launch"
#: The exit code of a command with invalid arguments.
_USAGE = 2
#: Prefixes of the names of sessions' own jobs.
_OF_SESSIONS = ("gsw-", "again")
_SHOWN = 5
_LAST_LINES = 12
_MOST_CHARACTERS = 400
#: Largest clock difference if only a name or a script's output, and the time of submission, identify a job.
SUBMISSION_SKEW_S = 60.0


def _is_another_rows(job: FoundJob, spec: JobSpec) -> bool:
    return job.name != spec.name and job.name.startswith(_OF_SESSIONS)


def _wrong_job_error(spec: JobSpec, job_id: str, why: str, evidence: tuple[tuple[str, str], ...]) -> SubmissionError:
    return SubmissionError(
        f"{spec.script.name} names job {job_id}, which {why}",
        evidence,
        advice=f"does the script print the output of an earlier run? squeue -j {job_id}",
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _script_failure(name: str, answer: Output, experiment: ExperimentInfo, is_of_sbatch: bool) -> str:
    """The failure of a script, in one line."""
    if answer.timed_out:
        return answer.problem
    if answer.returncode == 0:
        return f"{name} submitted nothing, although its exit code is 0: {experiment.problem}"
    reason = (not is_of_sbatch and _error_line(answer)) or answer.problem
    why = f": {reason}" if reason else ""
    return f"{name} submitted nothing, and ended with exit code {answer.returncode}{why}"


def _error_line(answer: Output) -> str:
    """The last line with the script's own error, without its ``Error:``; empty if there is none."""
    lines = map(_line, reversed((answer.stderr + "\n" + answer.stdout).split("\n")))
    found = next((line for line in lines if line.startswith(("Error:", "ERROR"))), "")
    return re.sub(r"^(?:Error|ERROR):\s{0,9}(?=\S)", "", found)


def _line(text: str) -> str:
    """The beginning of a line without escape sequences."""
    return printable(text[: 4 * _MOST_CHARACTERS]).strip()


def _masked_line(text: str, spec: JobSpec) -> str:
    """A line with the cluster's own variables masked: the later masking covers the session's environment only."""
    return shortened(masked_text(text[: 4 * _MOST_CHARACTERS], spec.environment), _MOST_CHARACTERS)


def _script_error(
    kind: type[SubmissionError],
    spec: JobSpec,
    command: Sequence[str],
    answer: Output,
    fact: str,
    may_be: tuple[tuple[str, str], ...] = (),
) -> SubmissionError:
    text = (answer.stderr + answer.stdout).strip()
    last = [_masked_line(line, spec) for line in text.split("\n")[-_LAST_LINES:]]
    return kind(
        _masked_line(fact, spec),
        (*submission_evidence(spec, command), *may_be),
        tail=tuple(last) if text else (),
        advice=f"run the command by hand in that directory, with the variables that --gsw-plan shows for {spec.row_id}",
    )


def _accepted(answers: Mapping[str, client.Answer]) -> dict[str, client.Answer]:
    """The jobs without those whose submission Slurm refused: it records them as failed, without nodes and a run.

    They start when they end on Slurm 22.05, and never since 24.11.
    """
    return {
        job_id: answer
        for job_id, answer in answers.items()
        if answer.status.state is not JobState.FAILED or answer.status.nodes or answer.status.run_s
    }


def _is_counted(state: JobState, follower: JobState | None) -> bool:
    """True if a job counts as the row's, by its state and that of its follower, the job waiting for it, if any."""
    if follower is None:
        return True
    return follower is JobState.COMPLETED and state is not follower if state.ended else follower.ended


# -- The check before any submission ----------------------------------------------------------------


def _missing_program(program: str, path: str) -> SubmissionError | None:
    if shutil.which(program, path=path) is not None:
        return None
    advice = "run pytest on a login node of the cluster, where Slurm's commands are; or: module load slurm"
    if program != "sbatch":
        advice = f"name the virtual environment that has {program}: VIRTUAL_ENV in `environment` of the cluster"
    return SubmissionError(f"{program} is not on the PATH", (("PATH", path),), advice=advice)


def _usual_output(job: Job) -> Path:
    """The output file of a job's batch shell, unless its launch script names another one."""
    chosen = job.spec.batch_output or f"{job.spec.directory}/slurm-%j.out"
    return Path(chosen.replace("%j", job.id))


_NO_SLURM = "is this a login node of the cluster, with Slurm's commands on the PATH?"


#: Reasons of pending jobs for nodes that are lost, reserved, or not yet free of their last job.
_NODES_WAITED_FOR = re.compile("ReqNodeNotAvail|Nodes[ _]required")
#: Ends of jobs that lost a node.
_NODE_ENDS = frozenset({JobState.NODE_FAIL, JobState.BOOT_FAIL})


class SlurmLauncher(Launcher):
    """Submits, polls and cancels jobs with Slurm's own commands.

    Args:
        environ: The session's environment; by default that of this process when the launcher is made.
        lock: Taken by each submission while it is under way.
        work_directory: Directory of launch scripts' outputs; by default the system's for temporary files.
    """

    name = "slurm"
    #: The keys of ``clusters.yaml`` that determine the call of sbatch.
    cluster_keys = LAUNCHER_KEYS
    #: Time in which a job appears in squeue or in accounting after a submission whose answer was lost.
    lost_wait_s = 60.0
    #: sbatch mostly waits for the controller; more at once would only increase its load.
    parallel_submissions = 8
    #: Polls take seconds on a busy controller; submissions and judging continue meanwhile.
    polls_in_a_thread = True
    jobs_outlive_session = True

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        lock: SubmissionLock | None = None,
        work_directory: Path | None = None,
    ) -> None:
        # Threads submit: the environment that they iterate over must not change meanwhile.
        self._client = Client(session_environment(environ))
        self.patience = self._client.patience
        self._lock = lock
        #: Time of each submission, by the job's name, whose answer was lost; and the names of those that were repeated.
        self._lost: dict[str, float] = {}
        self._repeated: set[str] = set()
        #: True if Slurm answered the last query for jobs from its accounting.
        self._has_accounting = True
        self._directory = work_directory or Path(tempfile.gettempdir())
        self._poller = Poller(self._client.ask)
        #: Launch scripts run one at a time in each directory: they are not written to run in parallel.
        self._turns: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)

    @property
    def version(self) -> str:
        """Slurm's version, ``22.05.8``, from its commands without the controller; "" if unknown."""
        return self._client.version

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command of :meth:`submit`, run in the directory of the recipe."""
        return spec.launch.command(spec) if spec.launch.submits_itself else self._client.sbatch_command(spec)

    def submit(self, spec: JobSpec) -> Job:
        """Submit one job.

        Raises:
            SchedulerUnreachableError: The controller is unreachable; the job may exist.
            SubmissionError: Slurm refused it, or its answer is invalid.
        """
        check_one_job(spec)
        if spec.launch.submits_itself:
            return self._submit_by_script(spec)
        command = self._client.sbatch_command(spec)
        submitted_s = time.time()
        # If its output directory is missing, srun writes nothing and hangs until the job's time limit.
        for output in filter(None, (spec.batch_output, spec.environment.get(STDOUT_BEFORE_23_02))):
            with contextlib.suppress(OSError):  # Slurm reports it better: for the job's user, on the job's node
                make_directory(Path(output).parent)
        try:
            answer = self._client.submit(command, spec, () if self._lock is None else (self._lock.descriptor(),))
        except OSError as error:
            raise _not_run(spec, command, error, _NO_SLURM) from error
        except KeyboardInterrupt:
            # A session spends its first seconds here, where Ctrl-C is likely; without its id the job would
            # never be cancelled.
            self._cancel_unanswered(spec, submitted_s)
            raise
        job_id = self._parse_submission(answer, spec, command)
        found = None if job_id is None else Job(job_id, spec, submitted_s)
        # If the controller was unreachable, the executor looks for the job before it submits again.
        if found is None and not is_certain(answer, spec) and (may_have_been_taken(answer) or not is_away(answer)):
            try:
                found = self._by_name(spec, submitted_s)
            except SchedulerUnreachableError:
                self._lost[spec.name] = time.monotonic()
                raise refusal(SchedulerUnreachableError, spec, command, answer) from None
        if found is None:
            if may_have_been_taken(answer):
                self._lost[spec.name] = time.monotonic()
            self._check_room(spec, command, answer)
            failure = RefusedError if answer.returncode and not answer.timed_out else SubmissionError
            raise refusal(SchedulerUnreachableError if is_away(answer) else failure, spec, command, answer)
        return found

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job submitted for this spec since then, by its name.

        Raises:
            SchedulerUnreachableError: The controller is unreachable: there may be a job.
            SubmissionError: An earlier session's sbatch hangs, and may yet submit one; or Slurm may have one that it
                does not list.
        """
        self._wait_for_orphans(spec.row_id, [spec])
        found = self._find_of_script(spec, since_s) if spec.launch.submits_itself else self._by_name(spec, since_s)
        if found is None and spec.name in self._lost:
            self._check_lost(spec)
        return found

    def _check_lost(self, spec: JobSpec) -> None:
        """Raise unless a submission whose answer was lost has certainly left no job, so that it may be repeated.

        A controller that is too busy to answer may take the job later, and list it later still: only accounting that
        has no such job after a while proves it, and no more than once.

        Raises:
            NotListedError: It is too early.
            SubmissionError: Nothing can prove it.
        """
        what = f"whether {spec.row_id} was submitted is not known: sbatch did not answer"
        if time.monotonic() < self._lost[spec.name] + self.lost_wait_s:
            raise NotListedError(f"{what}, and Slurm has not listed the job yet")
        if not self._has_accounting or spec.name in self._repeated:
            lists = "accounting has no job of the name" if self._has_accounting else "there is no accounting"
            end = shlex.join(client.scancel_by_name_command(Job("", spec, 0.0)))
            raise SubmissionError(
                what,
                (("may run", spec.name), ("squeue", f"has no job of the name after {self.lost_wait_s:.0f} s; {lists}")),
                advice=f"squeue --me --name={spec.name} shows it, {end} ends it; run the row again then",
            )
        del self._lost[spec.name]
        self._repeated.add(spec.name)

    def named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[FoundJob, ...]:
        """All jobs with these rows' own names, of any attempt, with two queries for all of them.

        Args:
            specs: The specs of the rows' first jobs.
            since_s: Earliest submission of one of them, seconds since the epoch.

        Raises:
            SchedulerUnreachableError: Slurm does not answer.
            SubmissionError: A submission of the resumed session hangs, and may yet submit a job.
        """
        self._wait_for_orphans("its rows", specs)
        return self._jobs_since(specs, since_s)

    def unready(self, specs: Sequence[JobSpec]) -> dict[str, SubmissionError]:
        """The errors of jobs whose submission cannot begin, by row: a program is missing.

        A recipe's virtual environment may contain the program of its launcher.
        """
        environ, names, errors = self._client.environ, ("PATH", *VIRTUAL_ENVIRONMENTS), dict[str, SubmissionError]()
        no_sbatch = _missing_program("sbatch", environ.get("PATH", os.defpath))
        alike = grouped([((spec.launch.program, *map(spec.environment.get, names)), spec) for spec in specs]).values()
        for same in alike:
            path = job_environment(environ, same[0]).get("PATH", os.defpath)
            if error := no_sbatch or _missing_program(same[0].launch.program, path):
                errors |= dict.fromkeys([spec.row_id for spec in same], error)
        return errors

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id; UNKNOWN if no command returned it. Never raises."""
        statuses = self._poller.poll(jobs)
        for job in (job for job in jobs if statuses[job.spec.row_id].reason == NEVER_STARTS):
            if (first := self._failed_prerequisite(job)) is not None:
                status, reason = statuses[job.spec.row_id], f"{first.why}: look at {first.log}"
                statuses[job.spec.row_id] = replace(status, reason=reason, failed_first=first)
        self._poller.mark_alternatives(jobs, statuses)
        if places := self._places_in_doubt(jobs, statuses):
            from pytest_gsw.jobs.slurm.nodes import lost_nodes  # in few sessions a node is lost

            lost = lost_nodes(self._client.ask, cluster_of(jobs[0].spec))
            for row_id, (begin, nodes) in places.items():
                why = ", ".join(f"{node} ({lost[node]})" for node in expand(nodes) if node in lost)
                if why:
                    statuses[row_id] = replace(statuses[row_id], reason=f"{begin}: {why}")
        return statuses

    def named_in_poll(self, specs: Sequence[JobSpec]) -> tuple[FoundJob, ...] | None:
        """The jobs of these rows by the last answer of squeue; ``None`` if it has not all jobs of the user."""
        return None if self._poller.listed is None else self._counted(self._poller.listed, specs)

    def _places_in_doubt(self, jobs: Sequence[Job], statuses: dict[str, JobStatus]) -> dict[str, tuple[str, str]]:
        """The nodes, by row, of jobs that wait for their tile, were not launched, or ended without a step of theirs.

        Each has the beginning of the reason if one of the nodes is lost. A job that was requeued gets its nodes here.
        """
        held = [job for job in jobs if statuses[job.spec.row_id].reason == NOT_LAUNCHED]
        if held:
            command = client.sacct_jobs_command(cluster_of(held[0].spec), job_id=",".join(_ids(held)), mine=False)
            # -D: their starts before they were requeued as well.
            nodes_of = client.parse_requeued(self._client.ask((*command, "-D")).stdout)
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

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Cancel these jobs and the jobs they wait for with one request; ended ones are no error.

        A job whose id was not yet seen with its name is queried first: the id may belong to another job.

        Raises:
            JobError: Slurm did not accept the request: jobs may still run.
        """
        before = sorted(one.id for job in jobs for one in self._prerequisite_jobs(job))
        ids = [*(job.id for job in self._poller.confirm_ids(jobs)), *before]
        if not ids:
            return
        command = client.scancel_command(ids, cluster_of(jobs[0].spec))
        problem = client.scancel_problem(self._client.act(command))
        if problem:
            raise JobError(f"jobs may still run: scancel failed: {problem}", advice=shlex.join(command))

    def find_log(self, job: Job) -> Path:
        """The one log of a job, where its recipe puts it.

        Raises:
            LogError: There is none (yet), or more than one.
        """
        if not job.spec.launch.has_directory:
            return layout.log_of(job)
        directory = self._experiment_of(job)
        if directory is None:
            raise LogError(
                f"the directory of job {job.id} is unknown: its launch script did not print it",
                advice=f"scontrol show job {job.id} may show it; run the row again",
            )
        return job.spec.launch.log_in(directory, job.id)

    def batch_output(self, job: Job) -> Path | None:
        """Output of the batch shell, which shows failures before training; ``None`` if there is none."""
        if job.spec.launch.has_directory:
            directory = self._experiment_of(job)
            return None if directory is None else job.spec.launch.batch_output_in(directory, job.id)
        if (usual := _usual_output(job)).is_file():
            return usual
        output = self._poller.output_of(job)
        return output if output is not None and output.is_file() else None

    def _experiment_of(self, job: Job) -> Path | None:
        """The directory of a job's experiment: as configured, as printed by its launch script, or of its output."""
        if job.spec.batch_output is not None:
            return Path(job.spec.batch_output).parent
        directory = self._directory_of(job)
        if directory is not None:
            return directory
        output = self._poller.output_of(job)
        return None if output is None else output.parent

    def _failed_prerequisite(self, job: Job) -> FailedJob | None:
        """The failed job that a job waits for; ``None`` if unknown."""
        for one in self._prerequisite_jobs(job):
            its = one.status
            if its.state.ended and (its.state is not JobState.COMPLETED or its.exit_code):
                directory = self._directory_of(replace(job, id=one.id)) or Path()
                log = min(directory.glob(f"*_{one.id}*.out"), default=directory)  # log-… comes before sbatch_…
                return FailedJob(one.id, its.state, its.exit_code, its.signal, str(log))
        return None

    def switches(self, spec: JobSpec) -> Mapping[str, str] | None:
        """The node list of each leaf switch or block by its name, ``switch s1``; ``None`` if Slurm does not answer."""
        from pytest_gsw.jobs.slurm.nodes import parse_topology  # asked once a week

        answer = self._client.ask(client.scontrol_show_command("topology", cluster_of(spec)))
        leaves, is_block = parse_topology(str(answer.stdout))
        kind = "block" if is_block else "switch"
        found = {f"{kind} {name}": compressed(nodes) for name, nodes in leaves.items()}
        return None if answer.returncode else found

    def report_by(self, write: Callable[[str], None]) -> None:
        """Write a line by this function once Slurm is silent."""
        self.patience.report = write

    def end_waits(self) -> None:
        """Wait no longer for a silent Slurm."""
        self.patience.ends = True

    def close(self) -> None:
        """Release the lock. Jobs that still run are not touched."""
        if self._lock is not None:
            self._lock.close()

    # -- a submission, and the search for one whose answer was lost ----

    def _jobs_since(self, specs: Sequence[JobSpec], since_s: float) -> tuple[FoundJob, ...]:
        """All jobs of the user since then, except those that a row's own job waits for."""
        what, cluster = "the run's rows were", cluster_of(specs[0])
        # In this order: what slurmctld has purged is recorded by then.
        queued = self._query_jobs(client.squeue_command(cluster, mine=True), what, specs[0])
        recorded = self._query_jobs(
            client.sacct_jobs_command(cluster, since_s=since_s - layout.CLOCK_SKEW_S), what, specs[0]
        )
        # All states are of the time of squeue, where it has the job: accounting may lag behind it.
        return self._counted(client.parse_sacct(recorded) | client.parse_squeue(queued), specs)

    def _counted(self, answers: Mapping[str, Answer], specs: Sequence[JobSpec]) -> tuple[FoundJob, ...]:
        """Those of the user's jobs that no job of these rows waits for.

        A job that is waited for counts nevertheless if it is still active after the row's own job has ended, or did
        not complete although that one COMPLETED: then the row's own job did not wait for it.
        """
        answers = _accepted(answers)
        found = [FoundJob(job_id, answer.job_name, answer.status) for job_id, answer in answers.items()]
        # Read last: scripts may have submitted more jobs by now.
        before = self._prerequisites({spec.launch.name: spec.launch for spec in specs}.values())
        states = {job.id: job.status.state for job in found}
        ends = {key: states.get(follower or "", JobState.PENDING) for key, follower in before.items()}
        return tuple(job for job in found if _is_counted(job.status.state, ends.get((job.name, job.id))))

    def _query_jobs(self, command: tuple[str, ...], what: str, spec: JobSpec) -> str:
        """Slurm's answer to a query for jobs.

        Raises:
            SchedulerUnreachableError: There is no answer, which does not mean that there is no job.
        """
        answer = self._client.ask(command)
        is_off = "accounting storage is disabled" in answer.stderr
        if answer.returncode != 0 and not is_off:
            raise unanswered(what, spec, command, answer)
        if command[0] == "sacct":
            self._has_accounting = not is_off
        return answer.stdout

    def _wait_for_orphans(self, what: str, specs: Sequence[JobSpec]) -> None:
        if self._lock is None:
            return
        script = next((spec.script.name for spec in specs if spec.launch.submits_itself), None)
        if not self._lock.wait_for_orphans(PATIENCE_S if script is None else client.LAUNCH_TIMEOUT_S):
            what_hangs = script or "an sbatch"
            raise SubmissionError(
                f"{what_hangs} of the session that is resumed still hangs, and may yet submit {what}",
                advice=f"end it (pgrep -a {script or 'sbatch'}), and resume again",
            )

    def _check_room(self, spec: JobSpec, command: Sequence[str], answer: Output) -> None:
        """Raise if a limit on queued jobs will free itself: only if some job counts against it.

        Raises:
            QueueFullError: The limit will free itself.
        """
        if (limit := full_queue(answer)) is None:
            return
        squeue = self._client.ask(client.squeue_ids_command(cluster_of(spec), mine=limit[1]))
        if squeue.returncode != 0 or squeue.stdout.strip():
            raise refusal(QueueFullError, spec, command, answer, f"the queue takes no more jobs ({limit[0]})")

    def _parse_submission(self, answer: Output, spec: JobSpec, command: Sequence[str]) -> str | None:
        """The id of the submitted job; ``None`` if sbatch printed none.

        Raises:
            SubmissionError: The job is on another cluster, which the session does not poll.
        """
        found = client.parse_sbatch(answer.stdout) if answer.returncode == 0 else None
        if found is None:
            return None
        cluster, job_id = found
        if cluster and cluster.lower() != cluster_of(spec).lower():
            self._client.act(client.scancel_command([job_id], cluster))
            raise SubmissionError(
                f"sbatch sent the job to the cluster {cluster}, which is not the session's: cancelled",
                submission_evidence(spec, command),
                advice=f"name it in the cluster file: sbatch: [--clusters={cluster}]",
            )
        return job_id

    def _by_name(self, spec: JobSpec, submitted_s: float) -> Job | None:
        """The job of a submission whose answer was lost, found by its name; else it would run unmonitored."""
        what, cluster = f"{spec.row_id} was", cluster_of(spec)
        queued = self._query_jobs(client.squeue_command(cluster, name=spec.name, mine=True), what, spec)
        answers = _accepted(client.parse_squeue(queued))
        if not answers:
            # It may have ended, and slurmctld purges such jobs soon.
            command = client.sacct_jobs_command(cluster, name=spec.name, since_s=submitted_s - layout.CLOCK_SKEW_S)
            answers = _accepted(client.parse_sacct(self._query_jobs(command, what, spec)))
        submit_times = {job: one.status.submit_s or 0 for job, one in answers.items() if one.job_name == spec.name}
        if spec.unique_name and len(submit_times) > 1:
            raise SubmissionError(
                f"{len(submit_times)} jobs have the name that only one can have: {spec.name}",
                (("jobs", ", ".join(sorted(submit_times))),),
                advice=shlex.join(client.scancel_command(sorted(submit_times), cluster)),
            )
        # An earlier session's job may have the name as well. A match by this machine's clock takes precedence over one
        # that requires the controller's clock to be behind; Slurm's times are whole seconds.
        by_our_clock = [job for job, submit_s in submit_times.items() if submit_s >= submitted_s - 1]
        by_any_clock = [job for job, submit_s in submit_times.items() if submit_s >= submitted_s - SUBMISSION_SKEW_S]
        ours = list(submit_times) if spec.unique_name else by_our_clock or by_any_clock
        return Job(ours[0], spec, submitted_s) if len(ours) == 1 else None

    def _cancel_unanswered(self, spec: JobSpec, submitted_s: float) -> None:
        try:
            found = self._by_name(spec, submitted_s)
        except RunError:
            return  # unreachable; the journal has the row, and --gsw-resume looks for its job again
        if found is not None:
            self._client.act(client.scancel_command([found.id], cluster_of(spec)))

    # -- launch scripts that submit their job themselves ----

    def _submit_by_script(self, spec: JobSpec) -> Job:
        """Run the launch script, and parse the submitted job's id from its output.

        Raises:
            SchedulerUnreachableError: The controller is unreachable, or the script did not end: there may be a job.
            SubmissionError: The script submitted no job, or several.
        """
        command, output_file = spec.launch.command(spec), self._output_file(spec)
        with self._turns[spec.directory]:
            submitted_s = time.time()
            try:
                inherited = () if self._lock is None else (self._lock.descriptor(),)
                answer = self._client.launch(command, spec, output_file, inherited)
                if answer.returncode == _USAGE and "invalid choice: 'submit'" in answer.stderr:
                    command = tuple("single" if word == "submit" else word for word in command)  # llmb-run before 26.02
                    answer = self._client.launch(command, spec, output_file, inherited)
            except OSError as error:
                raise _not_run(spec, command, error, f"is the recipe set up? ls -l {spec.script}") from error
        info = spec.launch.read_output(answer.stdout)
        if info.job_id is not None:
            job = self._job(spec, info.job_id, info.job_ids, submitted_s)
            if info.directory is None:
                self._poller.output_of(job)  # slurmctld may have purged it when its log is wanted
            return job
        if info.job_ids:
            cancelled = self._cancel(spec, info.job_ids, submitted_s, answer.session_id)
            raise _script_error(SubmissionError, spec, command, answer, f"{command[0]}: {info.problem}{cancelled}")
        found = self._find_of_script(spec, submitted_s) if answer.timed_out else self._by_name(spec, submitted_s)
        if found is not None:
            return found
        is_of_sbatch = answer.returncode != 0 and "sbatch: error" in answer.stderr
        kind = RefusedError if is_of_sbatch else SubmissionError
        if is_of_sbatch and is_away(answer):
            kind = SchedulerUnreachableError
        may_be = () if kind is SchedulerUnreachableError else self._candidate_jobs(spec, submitted_s)
        fact = _script_failure(command[0], answer, info, is_of_sbatch)
        raise _script_error(kind, spec, command, answer, fact, may_be)

    def _find_of_script(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job of a script whose output was not read; no script of an earlier session runs any more.

        Raises:
            SchedulerUnreachableError: The controller is unreachable: there may be a job.
            SubmissionError: There are jobs which may be the row's, without proof.
        """
        output_file = self._output_file(spec)
        if not output_file.exists():
            return None  # the script has not begun
        info = spec.launch.read_output(_text(output_file))
        if info.job_id is not None:
            return self._job(spec, info.job_id, info.job_ids, since_s)
        found = self._by_name(spec, since_s)
        if found is not None:
            return found
        may_be = self._candidate_jobs(spec, since_s)
        if may_be:
            raise SubmissionError(
                f"whether {spec.script.name} has submitted {spec.row_id} is not known: it was ended before it said so",
                (*may_be, ("said", str(output_file))),
                advice="end the one that is not wanted (squeue --me; scancel ID), and run the row anew",
            )
        return None

    def _directory_of(self, job: Job) -> Path | None:
        """The directory of a job by its launch script's output; ``None`` if not printed."""
        info = self._experiment_info(job)
        return dict(((info.job_id, info.directory), *info.waits_for)).get(job.id)

    def _prerequisite_jobs(self, job: Job) -> list[FoundJob]:
        """The jobs that a job waits for: its launch script submitted them as well, and they are cancelled with it."""
        info = self._experiment_info(job) if job.spec.launch.submits_itself else ExperimentInfo()
        ids = [job_id for job_id, _ in info.waits_for] if info.job_id == job.id else []
        found = filter(None, (self._by_id(job.spec, job_id) for job_id in ids))
        since_s = job.submitted_s - SUBMISSION_SKEW_S
        return [one for one in found if (one.status.submit_s or 0) >= since_s and not _is_another_rows(one, job.spec)]

    def _prerequisites(self, launches: Iterable[Launch]) -> dict[tuple[str, str], str | None]:
        """Jobs of this run that another one waits for: by name and id, the id of that one."""
        ways = [launch for launch in launches if launch.submits_itself]
        experiments = ((path.stem, launch.read_output(_text(path))) for path in self._output_files() for launch in ways)
        return {(name, job_id): one.job_id for name, one in experiments for job_id, _ in one.waits_for}

    def _experiment_info(self, job: Job) -> ExperimentInfo:
        """The jobs in the output of the launch script that submitted this one."""
        texts = map(_text, (self._output_file(job.spec), *self._output_files()))
        return next(
            (info for info in map(job.spec.launch.read_output, texts) if job.id in info.job_ids), ExperimentInfo()
        )

    def _job(self, spec: JobSpec, job_id: str, printed_ids: Sequence[str], submitted_s: float) -> Job:
        """The job with the id that a script printed; its name in the scheduler may differ.

        Raises:
            SchedulerUnreachableError: The scheduler does not return it.
            SubmissionError: The job is another user's, another row's, or older than the script's run; or another job
                has the row's own name.
        """
        found = self._by_id(spec, job_id)
        if found is None and self._by_id(spec, job_id, mine=False) is not None:
            raise _wrong_job_error(spec, job_id, "is another user's", ())
        has_own_name = found is not None and found.name == spec.name
        own = None if has_own_name or not spec.unique_name else self._by_name(spec, submitted_s)
        if own is not None and own.id not in printed_ids:
            session_id = self._process_sessions(spec, [own.id], submitted_s).get(own.id, "")
            cancelled = self._cancel(spec, printed_ids, submitted_s, session_id)
            raise _wrong_job_error(spec, job_id, f"is not {own.id}, the job of the row's name{cancelled}", ())
        if found is None:
            raise SchedulerUnreachableError(
                f"{spec.script.name} has submitted job {job_id}, and neither squeue nor sacct knows it yet",
                advice=f"squeue -j {job_id}",
            )
        submit_s = found.status.submit_s
        if submit_s is not None and submit_s < submitted_s - SUBMISSION_SKEW_S:
            since = ("submitted", f"{moment(submit_s)}, and the script began at {moment(submitted_s)}")
            raise _wrong_job_error(spec, job_id, "is older than this run of the script", (since,))
        if _is_another_rows(found, spec):
            raise _wrong_job_error(spec, job_id, "is another row's", (("its name", found.name),))
        other = "" if has_own_name else found.name
        return Job(job_id, spec, submitted_s, other_name=other)

    def _cancel(self, spec: JobSpec, job_ids: Sequence[str], since_s: float, session_id: str) -> str:
        """Cancel those of these jobs that a script submitted; return their ids as text.

        Their times alone prove nothing: the user may have submitted another job meanwhile. Nor do ids of process
        sessions, which begin again in each container.
        """
        sessions = self._process_sessions(spec, job_ids, since_s)
        own = sorted(job_id for job_id in sessions if sessions[job_id] == session_id)
        if not own:
            return ""
        self._client.act(client.scancel_command(own, cluster_of(spec)))
        return f"; cancelled: {', '.join(own)}"

    def _process_sessions(self, spec: JobSpec, job_ids: Sequence[str], since_s: float) -> dict[str, str]:
        """The process session of each of these jobs that slurmctld still has and that was submitted since then."""
        command, given = client.scontrol_command(cluster_of(spec)), client.scontrol_requests(job_ids)
        answers = client.parse_scontrol(self._client.ask(command, given=given).stdout)
        known = [(job_id, answers[job_id]) for job_id in job_ids if job_id in answers and answers[job_id].session_id]
        return {job: one.session_id for job, one in known if (one.status.submit_s or 0) >= since_s - SUBMISSION_SKEW_S}

    def _by_id(self, spec: JobSpec, job_id: str, *, mine: bool = True) -> FoundJob | None:
        """The job with an id, of this user or of any; an id alone may belong to another job."""
        cluster = cluster_of(spec)
        for command, parse in (
            (client.squeue_command(cluster, ids=[job_id], mine=mine), client.parse_squeue),
            (client.sacct_jobs_command(cluster, job_id=job_id, mine=mine), client.parse_sacct),
        ):
            answer = self._client.ask(command)
            job = parse(answer.stdout).get(job_id) if answer.returncode == 0 else None
            if job is not None:
                return FoundJob(job_id, job.job_name, job.status)
        return None

    def _candidate_jobs(self, spec: JobSpec, since_s: float) -> tuple[tuple[str, str], ...]:
        """Evidence of the user's jobs since then that belong to no session and no other script.

        Raises:
            SchedulerUnreachableError: Slurm does not answer.
        """
        paths = (path for path in self._output_files() if path != self._output_file(spec))
        others = {job_id for path in paths for job_id in spec.launch.read_output(_text(path)).job_ids}
        found = [
            f"{job.id} ({job.name})"
            for job in self._jobs_since([spec], since_s)
            if job.id not in others
            and not job.name.startswith(_OF_SESSIONS)
            and (job.status.submit_s is None or job.status.submit_s >= since_s - 1)
        ]
        return (("may be its job", "; ".join(found[:_SHOWN])),) if found else ()

    def _output_file(self, spec: JobSpec) -> Path:
        return self._directory / f"{spec.name}{_SUFFIX}"

    def _output_files(self) -> Iterator[Path]:
        return self._directory.glob(f"*{_SUFFIX}")
