"""Jobs on a Slurm cluster.

Three pure pieces (build an argument list, parse a text, map a state) around one call of a process.

What has become of jobs is asked for in :mod:`~pytest_gsw.jobs.slurm.launcher`.
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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pytest_gsw.common.files import make_directory
from pytest_gsw.common.redact import masked_text, printable
from pytest_gsw.common.text import duration, moment, plural, shortened
from pytest_gsw.errors import (
    JobError,
    LogError,
    QueueFullError,
    RefusedError,
    RunError,
    SchedulerUnreachableError,
    SubmissionError,
)
from pytest_gsw.jobs import layout
from pytest_gsw.jobs.environment import job_environment, masked_command, session_environment
from pytest_gsw.jobs.model import (
    NEVER_STARTS,
    ExperimentInfo,
    FoundJob,
    Job,
    JobSpec,
    JobState,
    JobStatus,
    JobStep,
    Launch,
)
from pytest_gsw.jobs.run_lock import PATIENCE_S, SubmissionLock
from pytest_gsw.jobs.scripts import (
    CLUSTER_VARIABLES,
    STDOUT_BEFORE_23_02,
    check_one_job,
    cluster_of,
    directive_words,
    seconds_of,
    value_of,
)
from pytest_gsw.jobs.slurm import client
from pytest_gsw.jobs.slurm.client import Answer, Ask, Client, Output, why
from pytest_gsw.tables.value_types import nearest

# -- What has become of jobs, as Slurm's commands tell it together ----------------------------------
#
# Where the truth is asked for, in this order:
#
# 1. ``squeue``, once for all jobs: is the job waiting or running, or how did it end, with which exit code?
# 2. ``sacct``, once for all jobs that have ended or left the queue: how did they and their steps end? A batch
#    script may end with 0 although a step of it failed.
# 3. ``scontrol show job``, with one process for those of them that slurmctld still has and accounting does not
#    tell for sure: it is off, or did not answer for a while, or may have no record of a step's own end yet. It knows
#    the worst exit code of all steps, not which step it was.
#
# What none of them tells is UNKNOWN, with the reason: an empty answer is no end. An answer is a job's by its id and
# its name: a controller that lost its state gives ids out again, and two rows of a session may have the same one. All
# jobs of a session are on one cluster.


#: How long accounting may take to answer, and to have the record of a job that squeue says has COMPLETED. On 22.05 it
#: is there within a fifth of a second.
RECORD_WAIT_S = 60.0
#: sacct gives a step that has no record of its end yet the state and the end of its job, once it has those. Where
#: slurmctld does not know either that all steps ended with 0, such an answer is taken when it has been the same for so
#: long: slurmctld has sent the record by the time that squeue says COMPLETED, and slurmdbd may be slow to write it.
SETTLED_S = 10.0

_COMPLETING = "COMPLETING"
#: What sacct says where a cluster has no accounting; any other complaint may be gone with the next question.
_OFF = "Slurm accounting storage is disabled"
#: A DerivedExitCode by which no step failed.
_NO_FAILURE = "0:0"


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
        if not jobs:
            return {}
        asked, queued = self._squeue(jobs)
        statuses = {job.spec.row_id: _ours(job, queued[job.id]) for job in jobs if job.id in queued}
        # squeue says of the others that they wait or run.
        open_ = {JobState.PENDING, JobState.RUNNING}
        ended = [job for job in jobs if job.id not in queued or statuses[job.spec.row_id].state not in open_]
        if not ended:
            return _with_siblings(jobs, statuses, queued.items())
        told = self._ask(client.sacct_command(_ids(ended), cluster_of(jobs[0].spec)))
        recorded = client.parse_ends(told.stdout) if told.returncode == 0 else {}
        finals = {job.spec.row_id: _recorded(job, recorded) for job in ended}
        # slurmctld still has the job, so scontrol has it too; one that left it needs no asking.
        untold = [
            job
            for job in ended
            if job.id in queued
            and not ((final := finals[job.spec.row_id]) is not None and final.state.ended)
            and (_is_off(told) or statuses[job.spec.row_id].exit_code is None or self._waited(job))
        ]
        doubted = [job for job in ended if job.id in queued and _may_lack_ends(finals[job.spec.row_id])]
        shown = self._scontrol([*untold, *doubted]) if untold or doubted else {}
        for job in untold:
            if job.id not in shown:
                continue
            row_id, status = job.spec.row_id, _ours(job, shown[job.id])
            if status.state.ended or finals[row_id] is None:
                what = "which of its steps failed, if any, is not known, only their worst exit code"
                is_short = status.state.ended and status.derived_exit_code
                finals[row_id] = replace(status, unchecked=f"{what}: sacct: {why(told)}" if is_short else "")
        for job in ended:
            row_id = job.spec.row_id
            status = _conclusion(job, statuses.get(row_id), finals[row_id], asked, told)
            controller = _ours(job, shown[job.id]) if job.id in shown else None
            statuses[row_id] = self._if_its_steps_are_known(job, status, asked, told, controller)
        return _with_siblings(jobs, statuses, [*queued.items(), *recorded.items()])

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
            asked = self._ask(client.scontrol_command(ids[0], cluster))
        else:
            asked = self._ask(client.scontrol_all_command(cluster), given=client.scontrol_requests(ids))
        told = client.parse_scontrol(asked.stdout)
        for job in jobs:
            output = told[job.id].output if job.id in told else None
            if output is not None and _ours(job, told[job.id]).state is not JobState.UNKNOWN:
                self._outputs[_key(job)] = output
        return told

    def _squeue(self, jobs: Sequence[Job]) -> tuple[Output, dict[str, Answer]]:
        asked = self._ask(client.squeue_command(cluster_of(jobs[0].spec), ids=_ids(jobs)))
        queued = client.parse_squeue(asked.stdout) if asked.returncode == 0 else {}
        self._names |= {job_id: answer.job_name for job_id, answer in queued.items()}
        return asked, queued

    def _if_its_steps_are_known(
        self, job: Job, status: JobStatus, asked: Output, told: Output, controller: JobStatus | None
    ) -> JobStatus:
        """The end of a job; one that looks good is no end before it is known, for a while, how its steps ended.

        Args:
            job: The job.
            status: What squeue, sacct and scontrol say of it together.
            asked: The answer of squeue.
            told: The answer of sacct.
            controller: What slurmctld says of the job, where it was asked.
        """
        if status.state is not JobState.COMPLETED or status.exit_code or status.signal:
            self._forget(job)
            return status
        have_ended = status.steps is not None and all(step.state.ended for step in status.steps)
        if have_ended:
            is_known = self._is_settled(job, status, asked, controller)
            why_not = "accounting may lack the record of a step's own end"
        else:
            is_known = status.steps is None and status.derived_exit_code != "" and _is_off(told)
            why_not = f"sacct: {why(told)}"
        if is_known:
            self._forget(job)
        elif have_ended or not self._waited(job):
            return replace(
                status,
                state=JobState.RUNNING,
                raw_state=_COMPLETING,
                exit_code=None,
                end_s=None,
                steps=None,
                reason=f"how its steps ended is not known yet: {why_not}",
            )
        if status.steps is not None or status.derived_exit_code:
            return status  # whoever judges the job says which step it is
        return _unknown(f"ended, but nobody tells how its steps did: {why(told)}", status)

    def _is_settled(self, job: Job, status: JobStatus, asked: Output, controller: JobStatus | None) -> bool:
        """Whether accounting tells each step's own end."""
        if not _may_lack_ends(status):
            return True
        if controller is not None and controller.state.ended and controller.derived_exit_code == _NO_FAILURE:
            return True
        steps, now_s = status.steps or (), self._clock()
        if _key(job) not in self._steps or self._steps[_key(job)][0] != steps:
            self._steps[_key(job)] = steps, now_s
        # Without squeue nobody says COMPLETING, which a job is as long as its steps have KillWait to end.
        is_queue_known = asked.returncode == 0 or _knows_no_such_job(asked)
        return now_s - self._steps[_key(job)][1] >= (SETTLED_S if is_queue_known else RECORD_WAIT_S)

    def _forget(self, job: Job) -> None:
        """Nothing of this job is awaited any longer."""
        self._awaited_s.pop(_key(job), None)
        self._steps.pop(_key(job), None)

    def _waited(self, job: Job) -> bool:
        """Whether the record of an ended job has been awaited for long enough."""
        now_s = self._clock()
        return now_s - self._awaited_s.setdefault(_key(job), now_s) >= RECORD_WAIT_S


def _is_off(told: Output) -> bool:
    """Whether the cluster has no accounting."""
    return told.returncode != 0 and told.problem == _OFF


def _may_lack_ends(final: JobStatus | None) -> bool:
    """Whether accounting may have given a step the good end of its job, for want of the step's own."""
    return (
        final is not None
        and final.state is JobState.COMPLETED
        and any(step.state is final.state and step.end_s == final.end_s for step in final.steps or ())
    )


def _ids(jobs: Iterable[Job]) -> list[str]:
    """The jobs' ids, each once."""
    return list(dict.fromkeys(job.id for job in jobs))


def _key(job: Job) -> tuple[str, str]:
    """Identify a row's job, also if a controller has given out its id twice."""
    return job.spec.row_id, job.id


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
    if status.submit_s is not None and status.submit_s < job.submitted_s - layout.CLOCK_SKEW_S:
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


# -- What a failed ``sbatch`` means -----------------------------------------------------------------
#
# That there is certainly no job, that there may be one, or that there will be room.


_FAILED = "sbatch: error: Batch job submission failed: "

#: Slurm's own words (slurm_errno.c, 22.05 to 24.11) for a job that the controller has looked at and not taken. What is
#: not among them may be a wrapper's, or a failure after the job was taken: then the job is looked for by its name.
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

#: Slurm's names of limits on how many jobs may be in the queue: the user's own, which is the group, and others.
_LIMIT = re.compile(r"(?:Assoc|QOS)(?:(MaxSubmitJobs?(?:PerUser)?)|GrpSubmitJobs?|MaxSubmitJobs?PerAccount)Limit")


def is_certain(answer: Output, spec: JobSpec) -> bool:
    """Whether a failed ``sbatch`` has certainly left no job: Slurm's own refusal, and nothing else was said."""
    if answer.returncode != 1 or answer.timed_out or answer.stdout.strip():
        return False
    last = answer.stderr.strip().rpartition("\n")[2].strip()
    if last == f"sbatch: error: Unable to open file {spec.script}":
        return True
    return last.startswith(_FAILED) and _CERTAIN.fullmatch(last.removeprefix(_FAILED)) is not None


def full_queue(answer: Output) -> tuple[str, bool] | None:
    """The limit on jobs in the queue that a refusal names, and whether it is this user's own; ``None`` for no such."""
    if answer.returncode != 1 or "Job violates accounting/QOS policy" not in answer.stderr:
        return None
    limits = filter(None, map(_LIMIT.fullmatch, answer.complaints))
    return next(((limit[0], limit[1] is not None) for limit in limits), None)


def may_have_been_taken(answer: Output) -> bool:
    """Whether the controller was reached, so that it may have the job although sbatch did not say so."""
    return answer.timed_out or answer.returncode <= 0 or "timed out" in answer.stderr or "Zero Bytes" in answer.stderr


#: What sbatch says while the controller restarts, or has too much to do.
_AWAY = re.compile(
    r"[Uu]nable to contact slurm controller|timed out|Zero Bytes were transmitted|temporarily unable"
    r"|Resource temporarily unavailable|Connection (?:refused|reset)|in standby mode|controller not responding"
)


def is_away(answer: Output) -> bool:
    """Whether the same submission may succeed in a while."""
    if answer.timed_out or answer.returncode < 0:  # below 0, a signal ended it: how far it was is not known
        return True
    # The last complaint is the outcome; sbatch complains of each try before it as well.
    return answer.returncode != 0 and _AWAY.search(answer.problem) is not None


def submission_evidence(spec: JobSpec, command: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """What was run, and where."""
    return (("command", shlex.join(masked_command(command))), ("directory", str(spec.directory)))


def unanswered(what: str, spec: JobSpec, command: Sequence[str], asked: Output) -> SchedulerUnreachableError:
    """The error where a question after jobs has no answer."""
    return SchedulerUnreachableError(
        f"whether {what} submitted is not known: {command[0]}: {masked_text(why(asked), spec.environment)}",
        (("command", shlex.join(masked_command(command))),),
        advice=_advice(asked.stderr, spec),
    )


def refusal(
    kind: type[SubmissionError], spec: JobSpec, command: Sequence[str], answer: Output, fact: str = ""
) -> SubmissionError:
    """The error that a failed sbatch makes, of this kind, by sbatch's own words where no other fact is given."""
    # A cluster's own variables are not in the session's environment, whose secrets are masked later.
    out, err = (masked_text(text, spec.environment) for text in (answer.stdout, answer.stderr))
    answer = replace(answer, stdout=out, stderr=err)
    said = (answer.stderr + answer.stdout).strip()
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
        tail=tuple(said.split("\n")) if said else (),
        advice=_advice(said, spec),
    )


#: What sbatch says → what to type. The first that fits counts.
_ADVICE = (
    (r"without GPU|generic resource|gres", "this cluster counts GPUs: set `gres: gpu:8` in its cluster file"),
    # The name of the limit stands above the refusal.
    (
        r"(?:Assoc|QOS)MaxWall",
        (
            "the account or QOS allows less time: ask for it with --gsw-timeout=MINUTES; "
            "sacctmgr show qos format=name,maxwall tells the longest"
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
    (r"QOS|policy", "sacctmgr show qos; squeue --me tells which of your jobs count against a limit"),
    (r"account|association", "set `account:` in the cluster file; sacctmgr show assoc user=$USER lists yours"),
    (r"partition", "set `partition:` in the cluster file; sinfo -s lists them"),
    (r"configuration is not available|[Nn]ode count", "sinfo -o '%P %D %G' tells what this cluster has"),
    (r"time limit", "set a shorter time limit; sinfo -o '%P %l' tells the longest"),
    (r"Unable to open file", "is the recipe set up? The script must exist: ls -l {script}"),
    (
        r"contact slurm controller|timed out|gave no answer",
        "scontrol ping; squeue --name={name} tells whether the job was taken all the same",
    ),
)


def _advice(said: str, spec: JobSpec) -> str:
    for pattern, advice in _ADVICE:
        if re.search(pattern, said):
            return advice.format(script=spec.script, name=spec.name)
    return "run the command by hand in that directory"


# -- Launch scripts that submit their job themselves ------------------------------------------------
#
# What a script says is kept in a file of the run,
# which is there before the script begins: a script that outlives its session still says in it which job it has
# submitted, and where that writes.


_SUFFIX = ".launch"
#: The exit code of a command that does not know its arguments.
_USAGE = 2
#: How the names of sessions' own jobs begin.
_OF_SESSIONS = ("gsw-", "again")
_SHOWN = 5
_LAST_LINES = 12
_MOST_CHARACTERS = 400
#: How far they may be apart where a job is ours by nothing but a name or a script's word, and its time of submission.
SUBMISSION_SKEW_S = 60.0


def _is_another_rows(job: FoundJob, spec: JobSpec) -> bool:
    return job.name != spec.name and job.name.startswith(_OF_SESSIONS)


def _not_its_job(spec: JobSpec, job_id: str, why: str, evidence: tuple[tuple[str, str], ...]) -> SubmissionError:
    return SubmissionError(
        f"{spec.script.name} names job {job_id}, which {why}",
        evidence,
        advice=f"does the script show what an earlier run said? squeue -j {job_id}",
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _fact(name: str, answer: Output, told: ExperimentInfo, is_of_sbatch: bool) -> str:
    """What is wrong with a script's end."""
    if answer.timed_out:
        return answer.problem
    if answer.returncode == 0:
        return f"{name} submitted nothing, although its exit code is 0: {told.problem}"
    reason = (not is_of_sbatch and _own_reason(answer)) or answer.problem
    why = f": {reason}" if reason else ""
    return f"{name} submitted nothing, and ended with exit code {answer.returncode}{why}"


def _own_reason(answer: Output) -> str:
    """The script's own last word on why it ends, without its ``Error:``; empty where no line begins with one."""
    lines = map(_line, reversed((answer.stderr + "\n" + answer.stdout).split("\n")))
    found = next((line for line in lines if line.startswith(("Error:", "ERROR"))), "")
    return re.sub(r"^(?:Error|ERROR):\s{0,9}(?=\S)", "", found)


def _line(text: str) -> str:
    """A line as it is searched and shown: its beginning, without escape sequences."""
    return printable(text[: 4 * _MOST_CHARACTERS]).strip()


def _shown(text: str, spec: JobSpec) -> str:
    """A line without secrets: a cluster's own variables are not in the session's environment, which is masked later."""
    return shortened(masked_text(text[: 4 * _MOST_CHARACTERS], spec.environment), _MOST_CHARACTERS)


def _failed(
    kind: type[SubmissionError],
    spec: JobSpec,
    command: Sequence[str],
    answer: Output,
    fact: str,
    may_be: tuple[tuple[str, str], ...] = (),
) -> SubmissionError:
    said = (answer.stderr + answer.stdout).strip()
    last = [_shown(line, spec) for line in said.split("\n")[-_LAST_LINES:]]
    return kind(
        _shown(fact, spec),
        (*submission_evidence(spec, command), *may_be),
        tail=tuple(last) if said else (),
        advice=f"run the command by hand in that directory, with the variables that --gsw-plan shows for {spec.row_id}",
    )


def _is_counted(state: JobState, follower: JobState | None) -> bool:
    """Whether a job counts as the row's: by its state, and by that of the one which waits for it, if any does."""
    if follower is None:
        return True
    return follower is JobState.COMPLETED and state is not follower if state.ended else follower.ended


# -- Partitions as ``scontrol`` tells of them, and jobs that would wait in one for ever -------------
#
# Slurm takes them all the same.


@dataclass(frozen=True)
class Partition:
    """What one partition has and allows; infinity stands for what has no limit, or is not told."""

    name: str
    is_default: bool
    nodes: float
    gpus: float
    least_nodes: float
    most_nodes: float
    longest_s: float


@dataclass(frozen=True)
class Request:
    """What jobs ask of Slurm by their options, by the environment, or by the launch script."""

    #: Any of them will do; none where it is the cluster's default one.
    partitions: tuple[str, ...]
    #: Where they ask for none by name, what they get is the nodes' affair.
    asks_for_gpus: bool
    #: Where a job has no limit of its own; ``None`` for the partition's.
    time_s: float | None
    #: They take less time, too.
    is_flexible: bool


@dataclass(frozen=True)
class Excess:
    """What a job asks for, and its partition does not give."""

    fact: str
    advice: str
    #: A QOS may allow it all the same.
    by_limit: bool = False


def parse_partitions(text: str) -> dict[str, Partition]:
    """The partitions in the answer to ``scontrol -o show partition``, one a line, by their names."""
    found: dict[str, Partition] = {}
    for line in text.split("\n"):
        facts = _pairs(line.split())
        name = facts.get("PartitionName")
        if name:
            found[name] = Partition(
                name,
                is_default=facts.get("Default") == "YES",
                nodes=_number(facts.get("TotalNodes")) or math.inf,
                gpus=_number(_pairs(facts.get("TRES", "").split(",")).get("gres/gpu")),
                least_nodes=_number(facts.get("MinNodes", "0")),
                most_nodes=_number(facts.get("MaxNodes")),
                longest_s=seconds_of(facts.get("MaxTime", "")) or math.inf,
            )
    return found


#: What else of the environment such a request rests on.
VARIABLES = ("SBATCH_PARTITION", "SBATCH_TIMELIMIT", "SBATCH_GRES", "SBATCH_GPUS_PER_NODE")


def request_of(spec: JobSpec, environ: Mapping[str, str]) -> Request:
    """What a job asks for. Options count before the environment, and that before the launch script."""
    script = directive_words(spec.script)

    def told(name: str, variable: str) -> str:
        given = spec.environment.get(variable, environ.get(variable, ""))
        return value_of(spec.options, name) or given or value_of(script, name) or ""

    named = told("partition", "SBATCH_PARTITION")
    gpus = "gpu" in told("gres", "SBATCH_GRES") or told("gpus-per-node", "SBATCH_GPUS_PER_NODE") != ""
    time_s = seconds_of(told("time", "SBATCH_TIMELIMIT"))
    is_flexible = value_of((*spec.options, *script), "time-min") is not None
    return Request(tuple(filter(None, named.split(","))), gpus, time_s, is_flexible)


def excess_of(spec: JobSpec, request: Request, partitions: Mapping[str, Partition]) -> Excess | None:
    """What keeps a job waiting for ever in each of its partitions, told of the first; ``None`` where one takes it."""
    names = request.partitions or [one.name for one in partitions.values() if one.is_default]
    excesses = [_excess_in(name, spec, request, partitions) for name in names]
    return excesses[0] if excesses and all(excesses) else None


def _excess_in(name: str, spec: JobSpec, request: Request, partitions: Mapping[str, Partition]) -> Excess | None:
    there = partitions.get(name)
    if there is None:
        return Excess(
            f"there is no partition {name}{nearest(name, partitions)}",
            "set `partition` in the cluster file; sinfo -a -s lists them",
        )
    nodes, advice = plural(spec.nodes, "node"), "run it in a partition that is large enough, or leave the row out"
    if spec.nodes > there.nodes:
        return Excess(f"the row needs {nodes}, and the partition {name} has {there.nodes:g}", advice)
    if request.asks_for_gpus and spec.gpus > there.gpus:
        return Excess(f"the row needs {spec.gpus} GPUs, and the partition {name} has {there.gpus:g}", advice)
    if spec.nodes > there.most_nodes:
        fact = f"the row needs {nodes}, and the partition {name} allows no more than {there.most_nodes:g}"
        return Excess(fact, advice, by_limit=True)
    if spec.nodes < there.least_nodes:
        fact = f"the row needs {nodes}, and the partition {name} takes jobs of {there.least_nodes:g} or more"
        return Excess(fact, "name another partition in the cluster file", by_limit=True)
    time_s = spec.time_limit_s or request.time_s
    if time_s is not None and time_s > there.longest_s and not request.is_flexible:
        return Excess(
            f"the job asks for {duration(time_s)}, and the partition {name} allows {duration(there.longest_s)}",
            f"--gsw-timeout={there.longest_s / 60:.0f} asks for no more; or name another partition in the cluster file",
            by_limit=True,
        )
    return None


def _pairs(words: Iterable[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if "=" in word)


def _number(text: str | None) -> float:
    """A whole number; infinity for any other word, such as UNLIMITED."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else math.inf


# -- What of Slurm itself would keep jobs from running ----------------------------------------------
#
# Found before any is submitted, with one question for all of them. Only what is certain is found: where Slurm does
# not answer, or something may change what a job asks for, nothing is.


#: What of a job's own environment tells how it is submitted.
_VARIABLES = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", *CLUSTER_VARIABLES, *VARIABLES)
#: A site's plugins that change what a job asks for, in ``scontrol show config``; these change no partition or limit.
_PLUGINS = re.compile(r"^(?:JobSubmitPlugins|CliFilterPlugins)\s*=\s*(.+?)\s*$", re.MULTILINE)
_HARMLESS_PLUGINS = frozenset({"(null)", "logging", "none", "require_timelimit", "throttle"})
#: A QOS with one of these flags lets its jobs take more than their partition allows; which one a job has is not known.
_OVER_LIMITS = re.compile(r"Partition(?:Max|Min)Nodes|PartitionTimeLimit")


def unready(specs: Sequence[JobSpec], ask: Ask, environ: Mapping[str, str]) -> dict[str, SubmissionError]:
    """By row, why its job would not run: there is no ``sbatch``, or its partition has too little for it."""
    found: dict[str, SubmissionError] = {}
    some: list[_Alike] = []
    for alike in _alike(specs):
        first = alike[0]
        # With the recipe's virtual environment, which has its program.
        path = job_environment(environ, first).get("PATH", os.defpath)
        command = first.launch.program
        if shutil.which(command, path=path) is None:
            found |= {spec.row_id: _not_on_path(command, path) for spec in alike}
        else:
            some.append((request_of(first, environ), alike))
    return found | _beyond_partitions(some, ask, cluster_of(specs[0])) if some else found


#: Jobs that ask for the same but for their sizes and limits.
_Alike = tuple[Request, Sequence[JobSpec]]


def _alike(specs: Sequence[JobSpec]) -> list[list[JobSpec]]:
    """The jobs by what tells Slurm what they ask for: many rows have one script, which is looked at once."""
    groups: dict[tuple[object, ...], list[JobSpec]] = {}
    for spec in specs:
        told = tuple([spec.environment.get(name) for name in _VARIABLES])
        groups.setdefault((spec.options, spec.script, spec.launch.name, told), []).append(spec)
    return list(groups.values())


def _not_on_path(command: str, path: str) -> SubmissionError:
    advice = "run pytest on a login node of the cluster, where Slurm's commands are; or: module load slurm"
    if command != "sbatch":
        advice = f"name the virtual environment that has {command}: VIRTUAL_ENV in `environment` of the cluster"
    return SubmissionError(f"{command} is not on the PATH", (("PATH", path),), advice=advice)


def _beyond_partitions(some: Sequence[_Alike], ask: Ask, cluster: str) -> dict[str, SubmissionError]:
    command = client.scontrol_partitions_command(cluster)
    asked = ask(command)
    partitions = parse_partitions(asked.stdout) if asked.returncode == 0 else {}
    if not partitions:
        return {}
    excesses = {spec.row_id: excess_of(spec, request, partitions) for request, alike in some for spec in alike}
    sure = _certain([excess for excess in excesses.values() if excess is not None], ask, cluster)
    return {
        row_id: SubmissionError(excess.fact, (("asked", " ".join(command)),), advice=excess.advice)
        for row_id, excess in excesses.items()
        if excess in sure
    }


def _certain(excesses: Sequence[Excess], ask: Ask, cluster: str) -> list[Excess]:
    """Those that neither a site's plugin nor a QOS may set aside; asked only where there are any."""
    if not excesses:
        return []
    asked = ask(client.scontrol_config_command(cluster))
    plugins = {name.strip() for names in _PLUGINS.findall(asked.stdout) for name in names.split(",")}
    if asked.returncode or not plugins or plugins - _HARMLESS_PLUGINS:
        return []
    if any(excess.by_limit for excess in excesses):
        asked = ask(client.sacctmgr_qos_command())
        has_none = "not running a supported accounting_storage plugin" in asked.stderr
        if not has_none and (asked.returncode or _OVER_LIMITS.search(asked.stdout)):
            return [excess for excess in excesses if not excess.by_limit]
    return list(excesses)


class SlurmLauncher:
    """Submit, watch and end jobs by Slurm's own commands.

    Args:
        environ: The session's environment; by default that of this process when the launcher is made.
        query_timeout_s: How long one question may take.
        command_timeout_s: How long one submission or cancellation may take.
        lock: Held by each submission while it is under way.
        work_directory: Where what launch scripts say is kept; by default one of the machine's for temporary files.
    """

    name = "slurm"
    #: The keys of ``clusters.yaml`` that say how sbatch is called.
    cluster_keys = frozenset({"account", "partition", "gres", "constraint", "launcher", "sbatch", "arguments"})
    log_wait_s = 30.0
    #: With one question for all jobs this is 240 an hour, however many jobs there are.
    poll_interval_s = 15.0
    #: sbatch mostly waits for the controller; more at once than this only makes it busier.
    parallel_submissions = 8
    #: Questions take seconds on a busy controller; submissions and judging go on meanwhile.
    polls_in_a_thread = True
    jobs_outlive_session = True

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        query_timeout_s: float = client.QUERY_TIMEOUT_S,
        command_timeout_s: float = client.COMMAND_TIMEOUT_S,
        lock: SubmissionLock | None = None,
        work_directory: Path | None = None,
    ) -> None:
        # Threads submit, and what they walk through must not change under them.
        self._client = Client(session_environment(environ), query_timeout_s, command_timeout_s)
        self._lock = lock
        self._directory = work_directory or Path(tempfile.gettempdir())
        self._poller = Poller(self._client.ask)
        #: Launch scripts run one at a time in each directory: they were not written to run side by side.
        self._turns: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)

    @cached_property
    def version(self) -> str:
        """Slurm's version, ``22.05.8``, as its commands tell it without asking the controller; "" where they do not."""
        return self._client.version

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command that :meth:`submit` runs, in the directory of the recipe."""
        return spec.launch.command(spec) if spec.submits_itself else self._client.sbatch_command(spec)

    def submit(self, spec: JobSpec) -> Job:
        """Start one job.

        Raises:
            SchedulerUnreachableError: The controller is out of reach, and whether it has the job is not known or not
            so. SubmissionError: Slurm refused it, or gave no answer that makes sense.
        """
        check_one_job(spec)
        if spec.submits_itself:
            return self._submit_by_script(spec)
        command = self._client.sbatch_command(spec)
        submitted_s = time.time()
        # To a directory that is not there srun does not write, and waits until the job's time is over.
        for output in filter(None, (spec.batch_output, spec.environment.get(STDOUT_BEFORE_23_02))):
            with contextlib.suppress(OSError):  # Slurm says it better: of the job's own user, on the job's own node
                make_directory(Path(output).parent)
        try:
            answer = self._client.submit(command, spec, () if self._lock is None else (self._lock.descriptor(),))
        except OSError as error:
            raise SubmissionError(
                f"sbatch could not be run: {error.strerror or error}",
                submission_evidence(spec, command),
                advice="is this a login node of the cluster, with Slurm's commands on the PATH?",
            ) from error
        except KeyboardInterrupt:
            # A session spends its first seconds here, so this is where Ctrl-C hits; a job whose id
            # nobody has read would be cancelled by nobody.
            self._cancel_unread(spec, submitted_s)
            raise
        job_id = self._submitted(answer, spec, command)
        found = None if job_id is None else Job(job_id, spec, submitted_s)
        # Of one that could not even be reached the executor asks before it submits again.
        if found is None and not is_certain(answer, spec) and (may_have_been_taken(answer) or not is_away(answer)):
            try:
                found = self._by_name(spec, submitted_s)
            except SchedulerUnreachableError:
                raise refusal(SchedulerUnreachableError, spec, command, answer) from None
        if found is None:
            self._check_room(spec, command, answer)
            said_no = RefusedError if answer.returncode and not answer.timed_out else SubmissionError
            raise refusal(SchedulerUnreachableError if is_away(answer) else said_no, spec, command, answer)
        return found

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job that was submitted for this spec since then, by its name.

        Raises:
            SchedulerUnreachableError: The controller is out of reach, so that nobody can tell now.
            SubmissionError: An earlier session's sbatch hangs, so that nobody can tell.
        """
        self._wait_for_orphans(spec.row_id, [spec])
        return self._find_of_script(spec, since_s) if spec.submits_itself else self._by_name(spec, since_s)

    def named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[FoundJob, ...]:
        """All jobs that bear these rows' own names, whichever attempt they are, with two questions for all of them.

        Args:
            specs: How the rows' first jobs are started.
            since_s: When the first of them may have been submitted, seconds since the epoch.

        Raises:
            SchedulerUnreachableError: Slurm does not answer, so that nobody can tell.
            SubmissionError: A submission of the session that is resumed hangs, so that nobody can tell.
        """
        self._wait_for_orphans("its rows", specs)
        return self._all_of(specs, since_s)

    def unready(self, specs: Sequence[JobSpec]) -> dict[str, SubmissionError]:
        """By row, why its job would not run, as far as that is certain before anything is submitted."""
        return unready(specs, self._client.ask, self._client.environ)

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id. Never raises; what could not be learnt is UNKNOWN."""
        statuses = self._poller.poll(jobs)
        for job in (job for job in jobs if statuses[job.spec.row_id].reason == NEVER_STARTS):
            status, why = statuses[job.spec.row_id], f"{NEVER_STARTS}{self._failed_before(job)}"
            statuses[job.spec.row_id] = replace(status, reason=why)
        return statuses

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End all these jobs, and those that they wait for, with one request; those that have ended are no error.

        A job whose id was not yet seen with its name is asked about first: it may be another's.

        Raises:
            JobError: Slurm did not take the request, so that jobs may go on.
        """
        before = sorted(one.id for job in jobs for one in self._before(job))
        ids = [*(job.id for job in self._confirmed(jobs)), *before]
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
                f"where job {job.id} writes is not known: its launch script did not say so",
                advice=f"scontrol show job {job.id} may tell; run the row again",
            )
        return job.spec.launch.log_in(directory, job.id)

    def batch_output(self, job: Job) -> Path | None:
        """The batch shell's own output, where failures before training show; ``None`` if there is none."""
        if job.spec.launch.has_directory:
            directory = self._experiment_of(job)
            return None if directory is None else job.spec.launch.batch_output_in(directory, job.id)
        chosen = job.spec.batch_output
        usual = Path(chosen.replace("%j", job.id)) if chosen else job.spec.directory / f"slurm-{job.id}.out"
        if usual.is_file():
            return usual
        told = self._poller.output_of(job)
        return told if told is not None and told.is_file() else None

    def _experiment_of(self, job: Job) -> Path | None:
        """The directory of a job's experiment: as configured, as its launch script has said, or where it writes."""
        if job.spec.batch_output is not None:
            return Path(job.spec.batch_output).parent
        told = self._directory_of(job)
        if told is not None:
            return told
        output = self._poller.output_of(job)
        return None if output is None else output.parent

    def _failed_before(self, job: Job) -> str:
        """Which of the jobs that a job waits for has failed, and where its log is; empty if unknown."""
        for one in self._before(job):
            its = one.status
            if its.state.ended and (its.state is not JobState.COMPLETED or its.exit_code):
                directory = self._directory_of(replace(job, id=one.id)) or Path()
                log = min(directory.glob(f"*_{one.id}*.out"), default=directory)  # log-… comes before sbatch_…
                return f": job {one.id} {its.state.value} {its.exit_code}:{its.signal}: look at {log}"
        return ""

    def _confirmed(self, jobs: Sequence[Job]) -> list[Job]:
        """Those of the jobs that have their ids: an id alone may be another's job by now.

        Raises:
            JobError: That is not known.
        """
        unseen = [job for job in jobs if self._poller.bears_its_name(job) is None]
        problem = self._poller.ask_names(unseen)
        if problem:
            raise JobError(
                f"jobs may still run: whose their ids are is not known: {problem}",
                advice=" && ".join(shlex.join(client.scancel_by_name_command(job)) for job in unseen),
            )
        return [job for job in jobs if self._poller.bears_its_name(job)]

    def close(self) -> None:
        """Let go of the lock. Jobs that still run are not touched."""
        if self._lock is not None:
            self._lock.close()

    # -- one submission, and one whose answer was lost ----

    def _all_of(self, specs: Sequence[JobSpec], since_s: float) -> tuple[FoundJob, ...]:
        """All of the user's jobs since then, but those that a row's own waits for.

        One that goes on when that has ended, or failed when that COMPLETED, is none of these: it was not waited for.
        """
        what, cluster = "the run's rows were", cluster_of(specs[0])
        recorded = self._asked(
            client.sacct_jobs_command(cluster, since_s=since_s - layout.CLOCK_SKEW_S), what, specs[0]
        )
        queued = self._asked(client.squeue_command(cluster, mine=True), what, specs[0])
        answers = client.parse_sacct(recorded) | client.parse_squeue(queued)  # what slurmctld says of a job is newer
        found = [FoundJob(job_id, told.job_name, told.status) for job_id, told in answers.items()]
        # As scripts have said by now.
        before = self._all_before({spec.launch.name: spec.launch for spec in specs}.values())
        states = {job.id: job.status.state for job in found}
        ends = {key: states.get(follower or "", JobState.PENDING) for key, follower in before.items()}
        return tuple(job for job in found if _is_counted(job.status.state, ends.get((job.name, job.id))))

    def _asked(self, command: tuple[str, ...], what: str, spec: JobSpec) -> str:
        """What Slurm says of jobs.

        Raises:
            SchedulerUnreachableError: It does not answer: no word of a job is not the word that there is none.
        """
        asked = self._client.ask(command)
        if asked.returncode != 0 and "accounting storage is disabled" not in asked.stderr:
            raise unanswered(what, spec, command, asked)
        return asked.stdout

    def _wait_for_orphans(self, what: str, specs: Sequence[JobSpec]) -> None:
        if self._lock is None:
            return
        script = next((spec.script.name for spec in specs if spec.submits_itself), None)
        if not self._lock.wait_for_orphans(PATIENCE_S if script is None else client.LAUNCH_TIMEOUT_S):
            what_hangs = script or "an sbatch"
            raise SubmissionError(
                f"{what_hangs} of the session that is resumed still hangs, and may yet submit {what}",
                advice=f"end it (pgrep -a {script or 'sbatch'}), and resume again",
            )

    def _check_room(self, spec: JobSpec, command: Sequence[str], answer: Output) -> None:
        """Tell a limit that frees itself from one that never will: some job must be there that counts against it.

        Raises:
            QueueFullError: The limit frees itself.
        """
        limit = full_queue(answer)
        if limit is None:
            return
        asked = self._client.ask(client.squeue_ids_command(cluster_of(spec), mine=limit[1]))
        if asked.returncode != 0 or asked.stdout.strip():
            raise refusal(QueueFullError, spec, command, answer, f"the queue takes no more jobs ({limit[0]})")

    def _submitted(self, answer: Output, spec: JobSpec, command: Sequence[str]) -> str | None:
        """The job that sbatch names; ``None`` if it names none.

        Raises:
            SubmissionError: It is on a cluster that nobody would ask about it.
        """
        found = client.parse_sbatch(answer.stdout) if answer.returncode == 0 else None
        if found is None:
            return None
        cluster, job_id = found
        if cluster.lower() not in {"", cluster_of(spec).lower()}:
            self._client.act(client.scancel_command([job_id], cluster))
            raise SubmissionError(
                f"sbatch sent the job to the cluster {cluster}, which is not the session's: cancelled",
                submission_evidence(spec, command),
                advice=f"name it in the cluster file: sbatch: [--clusters={cluster}]",
            )
        return job_id

    def _by_name(self, spec: JobSpec, submitted_s: float) -> Job | None:
        """The job of a submission whose answer was lost, found by its name; else it would run unseen."""
        what, cluster = f"{spec.row_id} was", cluster_of(spec)
        answers = client.parse_squeue(
            self._asked(client.squeue_command(cluster, name=spec.name, mine=True), what, spec)
        )
        if not answers:
            # It may have ended, and slurmctld forgets such jobs soon.
            command = client.sacct_jobs_command(cluster, name=spec.name, since_s=submitted_s - layout.CLOCK_SKEW_S)
            answers = client.parse_sacct(self._asked(command, what, spec))
        named = {job: told.status.submit_s or 0 for job, told in answers.items() if told.job_name == spec.name}
        if spec.unique_name and len(named) > 1:
            raise SubmissionError(
                f"{len(named)} jobs have the name that only one can have: {spec.name}",
                (("jobs", ", ".join(sorted(named))),),
                advice=shlex.join(client.scancel_command(sorted(named), cluster)),
            )
        # An earlier session's job may have the name as well. One by this machine's clock comes before
        # one that is ours only if the controller's clock is behind; Slurm's times are whole seconds.
        by_our_clock = [job for job, submit_s in named.items() if submit_s >= submitted_s - 1]
        by_any_clock = [job for job, submit_s in named.items() if submit_s >= submitted_s - SUBMISSION_SKEW_S]
        ours = list(named) if spec.unique_name else by_our_clock or by_any_clock
        return Job(ours[0], spec, submitted_s) if len(ours) == 1 else None

    def _cancel_unread(self, spec: JobSpec, submitted_s: float) -> None:
        try:
            found = self._by_name(spec, submitted_s)
        except RunError:
            return  # out of reach; the journal has the row, and --gsw-resume asks again
        if found is not None:
            self._client.act(client.scancel_command([found.id], cluster_of(spec)))

    # -- launch scripts that submit their job themselves ----

    def _submit_by_script(self, spec: JobSpec) -> Job:
        """Run the launch script, and read from what it says which job it has submitted.

        Raises:
            SchedulerUnreachableError: The controller was out of reach, or the script gave no answer: there may be a
            job. SubmissionError: The script submitted none, or several.
        """
        command, said = spec.launch.command(spec), self._said_by(spec)
        with self._turns[spec.directory]:
            submitted_s = time.time()
            try:
                inherited = () if self._lock is None else (self._lock.descriptor(),)
                answer = self._client.launch(command, spec, said, inherited)
                if answer.returncode == _USAGE and "invalid choice: 'submit'" in answer.stderr:
                    command = tuple("single" if word == "submit" else word for word in command)  # llmb-run before 26.02
                    answer = self._client.launch(command, spec, said, inherited)
            except OSError as error:
                raise SubmissionError(
                    f"{command[0]} could not be run: {error.strerror or error}",
                    submission_evidence(spec, command),
                    advice=f"is the recipe set up? ls -l {spec.script}",
                ) from error
        told = spec.launch.told_by(answer.stdout)
        if told.job_id is not None:
            return self._job(spec, told.job_id, told.job_ids, submitted_s)
        if told.job_ids:
            cancelled = self._cancel(spec, told.job_ids, submitted_s)
            raise _failed(SubmissionError, spec, command, answer, f"{command[0]}: {told.problem}{cancelled}")
        found = self._find_of_script(spec, submitted_s) if answer.timed_out else self._by_name(spec, submitted_s)
        if found is not None:
            return found
        is_of_sbatch = answer.returncode != 0 and "sbatch: error" in answer.stderr
        kind = RefusedError if is_of_sbatch else SubmissionError
        if is_of_sbatch and is_away(answer):
            kind = SchedulerUnreachableError
        may_be = () if kind is SchedulerUnreachableError else self._may_be_its_jobs(spec, submitted_s)
        raise _failed(kind, spec, command, answer, _fact(command[0], answer, told, is_of_sbatch), may_be)

    def _find_of_script(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job that a script has submitted whose answer nobody has read; no script of an earlier session runs.

        Raises:
            SchedulerUnreachableError: The controller is out of reach, so that nobody can tell now.
            SubmissionError: There are jobs which may be the row's, and nothing tells.
        """
        said = self._said_by(spec)
        if not said.exists():
            return None  # the script has not begun
        told = spec.launch.told_by(_text(said))
        if told.job_id is not None:
            return self._job(spec, told.job_id, told.job_ids, since_s)
        found = self._by_name(spec, since_s)
        if found is not None:
            return found
        may_be = self._may_be_its_jobs(spec, since_s)
        if may_be:
            raise SubmissionError(
                f"whether {spec.script.name} has submitted {spec.row_id} is not known: it was ended before it said so",
                (*may_be, ("said", str(said))),
                advice="end the one that is not wanted (squeue --me; scancel ID), and run the row anew",
            )
        return None

    def _directory_of(self, job: Job) -> Path | None:
        """Where a job writes, as its launch script has said; ``None`` where it has not."""
        told = self._told_of(job)
        return dict(((told.job_id, told.directory), *told.waits_for)).get(job.id)

    def _before(self, job: Job) -> list[FoundJob]:
        """The jobs that a job waits for: its launch script has submitted them as well, so that they end with it."""
        told = self._told_of(job) if job.spec.submits_itself else ExperimentInfo()
        ids = [job_id for job_id, _ in told.waits_for] if told.job_id == job.id else []
        return self._own(job.spec, ids, job.submitted_s - SUBMISSION_SKEW_S)

    def _all_before(self, launches: Iterable[Launch]) -> dict[tuple[str, str], str | None]:
        """By name and id, the jobs of this run that another one waits for, and which one that is."""
        ways = [launch for launch in launches if launch.submits_itself]
        told = ((said.stem, launch.told_by(_text(said))) for said in self._all_said() for launch in ways)
        return {(name, job_id): one.job_id for name, one in told for job_id, _ in one.waits_for}

    def _told_of(self, job: Job) -> ExperimentInfo:
        """What the launch script has said that has submitted a job."""
        texts = map(_text, (self._said_by(job.spec), *self._all_said()))
        return next((told for told in map(job.spec.launch.told_by, texts) if job.id in told.job_ids), ExperimentInfo())

    def _job(self, spec: JobSpec, job_id: str, told_ids: Sequence[str], submitted_s: float) -> Job:
        """The job of an id that a script has named; the scheduler may have another name for it.

        Raises:
            SchedulerUnreachableError: The scheduler does not say.
            SubmissionError: The job is another user's, another row's, or older than the script's run; or another job
                bears the row's own name.
        """
        found = self._by_id(spec, job_id)
        if found is None and self._by_id(spec, job_id, mine=False) is not None:
            raise _not_its_job(spec, job_id, "is another user's", ())
        bears_its_name = found is not None and found.name == spec.name
        own = None if bears_its_name or not spec.unique_name else self._by_name(spec, submitted_s)
        if own is not None and own.id not in told_ids:
            cancelled = self._cancel(spec, told_ids, submitted_s)
            raise _not_its_job(spec, job_id, f"is not {own.id}, the job of the row's name{cancelled}", ())
        if found is None:
            raise SchedulerUnreachableError(
                f"{spec.script.name} has submitted job {job_id}, and neither squeue nor sacct knows it yet",
                advice=f"squeue -j {job_id}",
            )
        told_s = found.status.submit_s
        if told_s is not None and told_s < submitted_s - SUBMISSION_SKEW_S:
            since = ("submitted", f"{moment(told_s)}, and the script began at {moment(submitted_s)}")
            raise _not_its_job(spec, job_id, "is older than this run of the script", (since,))
        if _is_another_rows(found, spec):
            raise _not_its_job(spec, job_id, "is another row's", (("its name", found.name),))
        other = "" if bears_its_name else found.name
        return Job(job_id, spec, submitted_s, other_name=other)

    def _cancel(self, spec: JobSpec, job_ids: Sequence[str], since_s: float) -> str:
        """End those of these jobs that are the user's and were submitted since then; which they are, in words."""
        own = sorted(one.id for one in self._own(spec, job_ids, since_s - 1))
        if not own:
            return ""
        self._client.act(client.scancel_command(own, cluster_of(spec)))
        return f"; cancelled: {', '.join(own)}"

    def _own(self, spec: JobSpec, job_ids: Sequence[str], since_s: float) -> list[FoundJob]:
        """Those of these jobs that are the user's and no other row's, and were submitted since then."""
        known = filter(None, (self._by_id(spec, job_id) for job_id in job_ids))
        return [one for one in known if (one.status.submit_s or 0) >= since_s and not _is_another_rows(one, spec)]

    def _by_id(self, spec: JobSpec, job_id: str, *, mine: bool = True) -> FoundJob | None:
        """The user's job of an id, or anybody's; an id alone may be another's job."""
        cluster = cluster_of(spec)
        for command, parse in (
            (client.squeue_command(cluster, ids=[job_id], mine=mine), client.parse_squeue),
            (client.sacct_jobs_command(cluster, job_id=job_id, mine=mine), client.parse_sacct),
        ):
            asked = self._client.ask(command)
            answer = parse(asked.stdout).get(job_id) if asked.returncode == 0 else None
            if answer is not None:
                return FoundJob(job_id, answer.job_name, answer.status)
        return None

    def _may_be_its_jobs(self, spec: JobSpec, since_s: float) -> tuple[tuple[str, str], ...]:
        """The user's jobs since then that are no session's and no other script's, as a message names them.

        Raises:
            SchedulerUnreachableError: Slurm does not answer.
        """
        other = (said for said in self._all_said() if said != self._said_by(spec))
        others = {job_id for said in other for job_id in spec.launch.told_by(_text(said)).job_ids}
        found = [
            f"{job.id} ({job.name})"
            for job in self._all_of([spec], since_s)
            if job.id not in others
            and not job.name.startswith(_OF_SESSIONS)
            and (job.status.submit_s is None or job.status.submit_s >= since_s - 1)
        ]
        return (("may be its job", "; ".join(found[:_SHOWN])),) if found else ()

    def _said_by(self, spec: JobSpec) -> Path:
        return self._directory / f"{spec.name}{_SUFFIX}"

    def _all_said(self) -> Iterator[Path]:
        return self._directory.glob(f"*{_SUFFIX}")
