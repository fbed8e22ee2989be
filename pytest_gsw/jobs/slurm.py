"""Jobs on a Slurm cluster.

Three pure pieces (build an argument list, parse a text, map a state) around one call of a process.

Where the truth is asked for, in this order:

1. ``squeue``, once for all jobs: is the job waiting or running, or how did it end, with which exit code?
   Mostly this is all, because slurmctld remembers ended jobs for a while (``MinJobAge``, 5 minutes).
2. ``sacct``, once for all jobs that are not there any more, or that squeue gives no exit code for.
3. ``scontrol show job``, for each job that has ended by squeue's word, without an exit code, and that
   accounting cannot tell: accounting is off or down, or its record is late.

What none of them tells is UNKNOWN, with the reason: an empty answer is no end.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pytest_gsw.errors import JobError, RefusedError, RunError, SchedulerAwayError, SubmissionError
from pytest_gsw.jobs import layout
from pytest_gsw.jobs.environment import job_environment, masked_command, query_environment
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus
from pytest_gsw.jobs.orphans import SubmissionLock
from pytest_gsw.jobs.slurm_answers import (
    Answer,
    Output,
    parse_sacct,
    parse_sbatch,
    parse_scontrol,
    parse_squeue,
    parse_version,
    scancel_problem,
)
from pytest_gsw.jobs.slurm_commands import (
    clusters_of,
    sacct_by_name_command,
    sacct_command,
    sbatch_command,
    scancel_command,
    scontrol_command,
    squeue_by_name_command,
    squeue_command,
    version_command,
)

#: A query that takes longer is given up; the jobs are UNKNOWN until the next poll. With Slurm's
#: default MessageTimeout a client takes 10 to 20 s to say that the controller is out of reach.
QUERY_TIMEOUT_S = 45.0
#: Nobody needs Slurm's version badly, and a site's wrapper of sbatch may not know the question.
VERSION_TIMEOUT_S = 5.0
#: A submission or a cancellation is not given up lightly: jobs might start, or go on, all the same.
#: One scancel of 500 running jobs took 41 s on a busy controller with 2 cores; sbatch itself tries for two
#: minutes where slurmctld has all the jobs that it can hold.
COMMAND_TIMEOUT_S = 150.0
#: Ids in one command; an argument may have 128 KiB.
IDS_PER_COMMAND = 1000
#: How far the clocks of this machine and of the controller may be apart.
CLOCK_SKEW_S = 300.0
#: How far they may be apart where a job is ours by nothing but its name and the time of its submission.
SUBMISSION_SKEW_S = 60.0


class SlurmLauncher:
    """Submit, watch and end jobs by Slurm's own commands.

    Args:
        environ: The session's environment; by default that of this process, at the time of each call.
        query_timeout_s: How long one question may take.
        command_timeout_s: How long one submission or cancellation may take.
        lock: Held by each submission while it is under way.
    """

    name = "slurm"
    log_wait_s = 30.0
    #: With one question for all jobs this is 240 an hour, however many jobs there are.
    poll_interval_s = 15.0
    #: sbatch mostly waits for the controller; more at once than this only makes it busier.
    parallel_submissions = 8
    jobs_outlive_session = True

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        query_timeout_s: float = QUERY_TIMEOUT_S,
        command_timeout_s: float = COMMAND_TIMEOUT_S,
        lock: SubmissionLock | None = None,
    ) -> None:
        self._environ: Mapping[str, str] = os.environ if environ is None else environ
        self._query_timeout_s = query_timeout_s
        self._command_timeout_s = command_timeout_s
        self._lock = lock
        self._outputs: dict[str, Path] = {}

    @cached_property
    def version(self) -> str:
        """Slurm's version, ``22.05.8``, as its commands tell it without asking the controller; "" where they do not."""
        try:
            told = _run(version_command(), query_environment(self._environ), VERSION_TIMEOUT_S)
        except OSError:
            return ""
        return parse_version(told.stdout) if told.returncode == 0 else ""

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command that :meth:`submit` runs, in the directory of the recipe."""
        return sbatch_command(spec)

    def submit(self, spec: JobSpec) -> Job:
        """Start one job.

        Raises:
            SchedulerAwayError: The controller is out of reach, and whether it has the job is not known or not so.
            SubmissionError: Slurm refused it, or gave no answer that makes sense.
        """
        command = sbatch_command(spec)
        submitted_s = time.time()
        if spec.batch_output is not None:
            with contextlib.suppress(OSError):  # Slurm says it better: of the job's own user, on the job's own node
                layout.make_directory(Path(spec.batch_output).parent)
        try:
            answer = _run(
                command,
                job_environment(self._environ, spec),
                self._command_timeout_s,
                directory=spec.directory,
                inherited=() if self._lock is None else (self._lock.descriptor(),),
            )
        except OSError as error:
            raise SubmissionError(
                f"sbatch could not be run: {error.strerror or error}",
                _submission_evidence(spec, command),
                advice="is this a login node of the cluster, with Slurm's commands on the PATH?",
            ) from error
        except KeyboardInterrupt:
            # A session spends its first seconds here, so this is where Ctrl-C hits; a job whose id
            # nobody has read would be cancelled by nobody.
            self._cancel_unread(spec, submitted_s)
            raise
        job_id = parse_sbatch(answer.stdout) if answer.returncode == 0 else None
        if job_id is None and _may_have_been_taken(answer):
            try:
                job_id = self._find_submission(spec, submitted_s)
            except SchedulerAwayError:
                raise _refusal(SchedulerAwayError, spec, command, answer) from None
        if job_id is None:
            said_no = RefusedError if answer.returncode and not answer.timed_out else SubmissionError
            raise _refusal(SchedulerAwayError if _is_away(answer) else said_no, spec, command, answer)
        return Job(job_id, spec, submitted_s)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job that was submitted for this spec since then, by its name.

        Raises:
            SchedulerAwayError: The controller is out of reach, so that nobody can tell now.
            SubmissionError: An earlier session's sbatch hangs, so that nobody can tell.
        """
        if self._lock is not None and not self._lock.wait_for_orphans():
            raise SubmissionError(
                f"an sbatch of the session that is resumed still hangs, and may yet submit {spec.row_id}",
                advice="end it (pgrep -a sbatch), and resume again",
            )
        job_id = self._find_submission(spec, since_s)
        return None if job_id is None else Job(job_id, spec, since_s)

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its id. Never raises; what could not be learnt is UNKNOWN."""
        statuses: dict[str, JobStatus] = {}
        for clusters, group in _by_clusters(jobs):
            for some in _chunks(group):
                statuses |= self._poll(clusters, some)
        return statuses

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End all these jobs with one request; those that have ended already are no error.

        Raises:
            JobError: Slurm did not take the request, so that jobs may go on.
        """
        problems = []
        for clusters, group in _by_clusters(jobs):
            for some in _chunks(group):
                command = scancel_command([job.id for job in some], clusters)
                problem = scancel_problem(self._ask(command, self._command_timeout_s))
                if problem:
                    problems.append((command, problem))
        if problems:
            raise JobError(
                f"jobs may still run: scancel failed: {problems[0][1]}",
                advice=" && ".join(shlex.join(command) for command, _ in problems),
            )

    def find_log(self, job: Job) -> Path:
        """The one log that belongs to this job.

        Raises:
            LogError: There is none (yet), or more than one.
        """
        spec = job.spec
        return layout.find_log(spec.stage, spec.log_glob, job.id, layout.is_nccl_traced(spec.environment))

    def batch_output(self, job: Job) -> Path | None:
        """The batch shell's own output, where failures before training show; ``None`` if there is none."""
        chosen = job.spec.batch_output
        usual = Path(chosen.replace("%j", job.id)) if chosen else job.spec.directory / f"slurm-{job.id}.out"
        if usual.is_file():
            return usual
        if job.id not in self._outputs:
            self._ask_scontrol(clusters_of(job.spec), job)
        told = self._outputs.get(job.id)
        return told if told is not None and told.is_file() else None

    def close(self) -> None:
        """Let go of the lock. Jobs that still run are not touched."""
        if self._lock is not None:
            self._lock.close()

    def _poll(self, clusters: tuple[str, ...], jobs: Sequence[Job]) -> dict[str, JobStatus]:
        ids = [job.id for job in jobs]
        asked = self._ask(squeue_command(ids, clusters))
        queued = parse_squeue(asked.stdout) if asked.returncode == 0 else {}
        statuses = {job.id: _ours(job, queued[job.id]) for job in jobs if job.id in queued}
        open_jobs = [job for job in jobs if not _is_clear(statuses.get(job.id))]
        if not open_jobs:
            return statuses
        told = self._ask(sacct_command([job.id for job in open_jobs], clusters))
        recorded = parse_sacct(told.stdout) if told.returncode == 0 else {}
        for job in open_jobs:
            final = _recorded(job, recorded)
            # slurmctld still has the job, so scontrol has it too; one that left it needs no asking.
            if (final is None or not final.state.ended) and job.id in queued:
                final = self._ask_scontrol(clusters, job) or final
            statuses[job.id] = _conclusion(job, statuses.get(job.id), final, asked, told)
        return statuses

    def _ask_scontrol(self, clusters: tuple[str, ...], job: Job) -> JobStatus | None:
        answer = self._ask(scontrol_command(job.id, clusters))
        told = parse_scontrol(answer.stdout).get(job.id) if answer.returncode == 0 else None
        if told is None:
            return None
        status = _ours(job, told)
        if told.output is not None and status.state is not JobState.UNKNOWN:
            self._outputs[job.id] = told.output
        return status

    def _find_submission(self, spec: JobSpec, submitted_s: float) -> str | None:
        """The job of a submission whose answer was lost, found by its name; else it would run unseen.

        Raises:
            SchedulerAwayError: The controller does not answer: no word of a job is not the word that there is none.
        """
        clusters = clusters_of(spec)
        command = squeue_by_name_command(spec.name, clusters)
        asked = self._ask(command)
        if asked.returncode != 0:
            raise _unanswered(spec, command, asked)
        answers = parse_squeue(asked.stdout)
        if not answers:
            # It may have ended, and slurmctld forgets such jobs soon.
            command = sacct_by_name_command(spec.name, submitted_s - CLOCK_SKEW_S, clusters)
            asked = self._ask(command)
            if asked.returncode != 0 and "accounting storage is disabled" not in asked.stderr:
                raise _unanswered(spec, command, asked)
            answers = parse_sacct(asked.stdout)
        named = {job_id: told.status.submit_s or 0 for job_id, told in answers.items() if told.job_name == spec.name}
        if spec.unique_name:
            if len(named) > 1:
                raise SubmissionError(
                    f"{len(named)} jobs have the name that only one can have: {spec.name}",
                    (("jobs", ", ".join(sorted(named))),),
                    advice=shlex.join(scancel_command(sorted(named), clusters)),
                )
            return _only(named)
        # An earlier session's job may have the name as well. One by this machine's clock comes before
        # one that is ours only if the controller's clock is behind; Slurm's times are whole seconds.
        by_our_clock = [job_id for job_id, submit_s in named.items() if submit_s >= submitted_s - 1]
        return _only(
            by_our_clock
            or [job_id for job_id, submit_s in named.items() if submit_s >= submitted_s - SUBMISSION_SKEW_S]
        )

    def _cancel_unread(self, spec: JobSpec, submitted_s: float) -> None:
        try:
            job_id = self._find_submission(spec, submitted_s)
        except RunError:
            return  # out of reach; the journal has the row, and --gsw-resume asks again
        if job_id is not None:
            self._ask(scancel_command([job_id], clusters_of(spec)), self._command_timeout_s)

    def _ask(self, command: tuple[str, ...], timeout_s: float | None = None) -> Output:
        try:
            return _run(command, query_environment(self._environ), timeout_s or self._query_timeout_s)
        except OSError as error:
            return Output(127, "", f"{command[0]}: {error.strerror or error}")


def _run(
    command: tuple[str, ...],
    environment: Mapping[str, str],
    timeout_s: float,
    directory: Path | None = None,
    inherited: tuple[int, ...] = (),
) -> Output:
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            pass_fds=inherited,
            # Ctrl-C goes to all processes of a terminal: an sbatch that it ends has perhaps submitted its job.
            start_new_session=True,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Output(124, "", f"{command[0]} gave no answer within {timeout_s:g} s", timed_out=True)
    return Output(done.returncode, done.stdout, done.stderr)


def _only(ids: Collection[str]) -> str | None:
    return next(iter(ids)) if len(ids) == 1 else None


def _by_clusters(jobs: Iterable[Job]) -> list[tuple[tuple[str, ...], list[Job]]]:
    groups: dict[tuple[str, ...], list[Job]] = {}
    for job in jobs:
        groups.setdefault(clusters_of(job.spec), []).append(job)
    return list(groups.items())


def _chunks(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    for start in range(0, len(jobs), IDS_PER_COMMAND):
        yield jobs[start : start + IDS_PER_COMMAND]


def _is_clear(status: JobStatus | None) -> bool:
    """Whether squeue's word is all that there is to know: the job goes on, or has ended with an exit code."""
    if status is None or status.state is JobState.UNKNOWN:
        return False
    return not status.state.ended or status.exit_code is not None


def _ours(job: Job, answer: Answer) -> JobStatus:
    """The status, or UNKNOWN if the answer is about another job that has the same id.

    Ids start again when a controller loses its state, and accounting then answers with the old job
    (submitit#1660).
    """
    status = answer.status
    if answer.job_name != job.spec.name:
        return _unknown(f'job {job.id} is another one by now: its name is "{answer.job_name}"', status)
    # A name of this session's own can be nobody else's job, whatever the clocks say.
    if job.spec.unique_name:
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
    if answer is None:
        return None
    return _ours(job, answer) if answer.status.state.ended else answer.status


def _unknown(reason: str, status: JobStatus) -> JobStatus:
    return JobStatus(JobState.UNKNOWN, raw_state=status.raw_state, reason=reason)


def _conclusion(job: Job, queued: JobStatus | None, final: JobStatus | None, asked: Output, told: Output) -> JobStatus:
    """What is known of a job that squeue does not show waiting or running."""
    if final is not None and final.state.ended:
        # The reason of a pending job is gone by then; squeue's word on the end is better than none.
        return final if final.reason or queued is None else replace(final, reason=queued.reason)
    if queued is not None and queued.state.ended:
        if queued.state is not JobState.COMPLETED:
            return queued
        return replace(queued, state=JobState.UNKNOWN, reason=f"ended, but nobody tells the exit code: {_why(told)}")
    if queued is not None:  # a word that is not in the table, or another's job
        return queued if queued.reason else replace(queued, reason=f'squeue says "{queued.raw_state}"')
    if final is not None and final.state is JobState.UNKNOWN:
        return final if final.reason else replace(final, reason=f'sacct says "{final.raw_state}"')
    if asked.returncode != 0 and not _knows_no_such_job(asked):
        return JobStatus(JobState.UNKNOWN, reason=f"squeue: {_why(asked)}")
    if final is not None:  # a late record; it must not make a job run for ever that has left the queue
        reason = f"left the queue, but accounting still says {final.raw_state}"
        return replace(final, state=JobState.UNKNOWN, reason=reason)
    if told.returncode != 0:
        return JobStatus(JobState.UNKNOWN, reason=f"left the queue, and sacct: {_why(told)}")
    return JobStatus(JobState.UNKNOWN, reason=f"neither squeue nor sacct knows job {job.id}")


def _knows_no_such_job(asked: Output) -> bool:
    """Whether squeue failed only because it knows none of the ids: they have been purged."""
    return "Invalid job id" in asked.stderr


def _why(output: Output) -> str:
    if output.problem:
        return output.problem
    return f"exit code {output.returncode}" if output.returncode else "no record yet"


def _may_have_been_taken(answer: Output) -> bool:
    """Whether the controller may have the job although sbatch did not say so."""
    return answer.timed_out or answer.returncode <= 0 or "timed out" in answer.stderr or "Zero Bytes" in answer.stderr


#: What sbatch says while the controller restarts, or has too much to do.
_AWAY = re.compile(
    r"[Uu]nable to contact slurm controller|timed out|Zero Bytes were transmitted|temporarily unable"
    r"|Resource temporarily unavailable|Connection (?:refused|reset)|in standby mode|controller not responding"
)


def _is_away(answer: Output) -> bool:
    """Whether the same submission may succeed in a while."""
    if answer.timed_out or answer.returncode < 0:  # below 0, a signal ended it: nobody knows how far it was
        return True
    # The last complaint is the outcome; sbatch complains of each try before it as well.
    return answer.returncode != 0 and _AWAY.search(answer.problem) is not None


def _submission_evidence(spec: JobSpec, command: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return (("command", shlex.join(masked_command(command))), ("directory", str(spec.directory)))


def _unanswered(spec: JobSpec, command: Sequence[str], asked: Output) -> SchedulerAwayError:
    return SchedulerAwayError(
        f"whether {spec.row_id} was submitted is not known: {command[0]}: {_why(asked)}",
        (("command", shlex.join(command)),),
        advice=_advice(asked.stderr, spec),
    )


def _refusal(kind: type[SubmissionError], spec: JobSpec, command: Sequence[str], answer: Output) -> SubmissionError:
    said = (answer.stderr + answer.stdout).strip()
    if answer.returncode == 0:
        fact = "sbatch gave no job id"
    elif answer.timed_out:
        fact = answer.problem
    else:
        fact = f"sbatch refused the job: {_why(answer)}"
    return kind(
        fact,
        (*_submission_evidence(spec, command), ("exit code", str(answer.returncode))),
        tail=tuple(said.split("\n")) if said else (),
        advice=_advice(said, spec),
    )


#: What sbatch says → what to type. The first that fits counts.
_ADVICE = (
    (r"without GPU|generic resource|gres", "this cluster counts GPUs: set `gres: gpu:8` in its cluster file"),
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
