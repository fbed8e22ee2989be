"""Jobs on a Slurm cluster.

Three pure pieces (build an argument list, parse a text, map a state) around one call of a process.

What has become of jobs is asked for in :mod:`~pytest_gsw.jobs.slurm.poll`.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pytest_gsw.common.files import make_directory
from pytest_gsw.errors import JobError, QueueFullError, RefusedError, RunError, SchedulerAwayError, SubmissionError
from pytest_gsw.jobs import layout
from pytest_gsw.jobs.directives import check_one_job
from pytest_gsw.jobs.environment import job_environment, masked_command, query_environment, session_environment
from pytest_gsw.jobs.model import Job, JobKey, JobSpec, JobState, JobStatus, Named, in_words
from pytest_gsw.jobs.orphans import SubmissionLock
from pytest_gsw.jobs.slurm.answers import (
    Answer,
    Output,
    parse_sacct,
    parse_sbatch,
    parse_squeue,
    parse_version,
    scancel_problem,
    why,
)
from pytest_gsw.jobs.slurm.commands import (
    clusters_with_script,
    is_one,
    sacct_by_name_command,
    sacct_of_user_command,
    sbatch_command,
    scancel_by_name_command,
    scancel_command,
    scancel_commands,
    squeue_by_name_command,
    squeue_ids_command,
    squeue_of_user_command,
    version_command,
)
from pytest_gsw.jobs.slurm.poll import CLOCK_SKEW_S, Poller
from pytest_gsw.jobs.slurm.refusals import full_queue, is_certain

#: A query that takes longer is given up; the jobs are UNKNOWN until the next poll. With Slurm's
#: default MessageTimeout a client takes 10 to 20 s to say that the controller is out of reach.
QUERY_TIMEOUT_S = 45.0
#: Nobody needs Slurm's version badly, and a site's wrapper of sbatch may not know the question.
VERSION_TIMEOUT_S = 5.0
#: A submission or a cancellation is not given up lightly: jobs might start, or go on, all the same.
#: One scancel of 500 running jobs took 41 s on a busy controller with 2 cores; sbatch itself tries for two
#: minutes where slurmctld has all the jobs that it can hold.
COMMAND_TIMEOUT_S = 150.0
#: How far they may be apart where a job is ours by nothing but its name and the time of its submission.
SUBMISSION_SKEW_S = 60.0


class SlurmLauncher:
    """Submit, watch and end jobs by Slurm's own commands.

    Args:
        environ: The session's environment; by default that of this process when the launcher is made.
        query_timeout_s: How long one question may take.
        command_timeout_s: How long one submission or cancellation may take.
        lock: Held by each submission while it is under way.
    """

    name = "slurm"
    #: The keys of ``clusters.yaml`` that say how sbatch is called.
    cluster_keys = frozenset({"account", "partition", "gres", "constraint", "sbatch"})
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
        # Threads submit, and what they walk through must not change under them.
        self._environ = session_environment(environ)
        self._query_timeout_s = query_timeout_s
        self._command_timeout_s = command_timeout_s
        self._lock = lock
        self._poller = Poller(lambda command, *, given=None: self._ask(command, given=given))

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
        check_one_job(spec)
        command = sbatch_command(spec)
        submitted_s = time.time()
        if spec.batch_output is not None:
            with contextlib.suppress(OSError):  # Slurm says it better: of the job's own user, on the job's own node
                make_directory(Path(spec.batch_output).parent)
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
        found = _submitted(answer, spec)
        # Of one that could not even be reached the fleet asks before it submits again.
        if found is None and not is_certain(answer, spec) and (_may_have_been_taken(answer) or not _is_away(answer)):
            try:
                found = self._find_submission(spec, submitted_s)
            except SchedulerAwayError:
                raise _refusal(SchedulerAwayError, spec, command, answer) from None
        if found is None:
            self._check_room(spec, command, answer)
            said_no = RefusedError if answer.returncode and not answer.timed_out else SubmissionError
            raise _refusal(SchedulerAwayError if _is_away(answer) else said_no, spec, command, answer)
        return Job(found[1], spec, submitted_s, cluster=found[0])

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job that was submitted for this spec since then, by its name.

        Raises:
            SchedulerAwayError: The controller is out of reach, so that nobody can tell now.
            SubmissionError: An earlier session's sbatch hangs, so that nobody can tell.
        """
        self._wait_for_orphans(spec.row_id)
        found = self._find_submission(spec, since_s)
        return None if found is None else Job(found[1], spec, since_s, cluster=found[0])

    def named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[Named, ...]:
        """All jobs that bear these rows' own names, whichever attempt they are, with two questions for all of them.

        Args:
            specs: How the rows' first jobs are started.
            since_s: When the first of them may have been submitted, seconds since the epoch.

        Raises:
            SchedulerAwayError: Slurm does not answer, so that nobody can tell.
            SubmissionError: A submission of the session that is resumed hangs, so that nobody can tell.
        """
        self._wait_for_orphans("its rows")
        found: list[Named] = []
        groups: dict[str, list[JobSpec]] = {}
        for spec in specs:
            groups.setdefault(clusters_with_script(spec), []).append(spec)
        for clusters, group in groups.items():
            answers: dict[JobKey, Answer] = {}
            for command, parse in (
                (sacct_of_user_command(since_s - CLOCK_SKEW_S, clusters), parse_sacct),
                (squeue_of_user_command(clusters), parse_squeue),
            ):
                asked = self._ask(command)
                if asked.returncode != 0 and "accounting storage is disabled" not in asked.stderr:
                    raise _unanswered("the run's rows were", group[0], command, asked)
                # squeue comes last: what slurmctld says of a job is newer.
                answers |= _each_once(parse(asked.stdout), clusters)
            found += [
                Named(job_id, told.job_name, told.status, cluster)
                for (cluster, job_id), told in _each_once(answers, clusters).items()
            ]
        return tuple(found)

    def _wait_for_orphans(self, what: str) -> None:
        if self._lock is not None and not self._lock.wait_for_orphans():
            raise SubmissionError(
                f"an sbatch of the session that is resumed still hangs, and may yet submit {what}",
                advice="end it (pgrep -a sbatch), and resume again",
            )

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id. Never raises; what could not be learnt is UNKNOWN."""
        return self._poller.poll(jobs)

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End all these jobs with one request; those that have ended already are no error.

        A job whose id was not yet seen with its name is asked about first: it may be another's.

        Raises:
            JobError: Slurm did not take the request, so that jobs may go on.
        """
        problems = []
        for place, some in self._poller.places.groups(self._confirmed(jobs)):
            command = scancel_command([job.id for job in some], place)
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
        told = self._poller.output_of(job)
        return told if told is not None and told.is_file() else None

    def close(self) -> None:
        """Let go of the lock. Jobs that still run are not touched."""
        if self._lock is not None:
            self._lock.close()

    def _confirmed(self, jobs: Sequence[Job]) -> list[Job]:
        """Those of the jobs that have their ids: an id alone may be another's job by now.

        Raises:
            JobError: Nobody can tell.
        """
        unseen = [job for job in jobs if self._poller.bears_its_name(job) is None]
        problem = self._poller.ask_names(unseen)
        if problem:
            raise JobError(
                f"jobs may still run: whose their ids are is not known: {problem}",
                advice=" && ".join(shlex.join(scancel_by_name_command(job)) for job in unseen),
            )
        return [job for job in jobs if self._poller.bears_its_name(job)]

    def _check_room(self, spec: JobSpec, command: Sequence[str], answer: Output) -> None:
        """Tell a limit that frees itself from one that never will: some job must be there that counts against it.

        Raises:
            QueueFullError: The limit frees itself.
        """
        limit = full_queue(answer)
        if limit is None:
            return
        asked = self._ask(squeue_ids_command(clusters_with_script(spec), mine=limit[1]))
        if asked.returncode != 0 or asked.stdout.strip():
            raise _refusal(QueueFullError, spec, command, answer, f"the queue takes no more jobs ({limit[0]})")

    def _find_submission(self, spec: JobSpec, submitted_s: float) -> JobKey | None:
        """The job of a submission whose answer was lost, found by its name; else it would run unseen.

        Raises:
            SchedulerAwayError: The controller does not answer: no word of a job is not the word that there is none.
        """
        clusters = clusters_with_script(spec)
        command = squeue_by_name_command(spec.name, clusters)
        asked = self._ask(command)
        if asked.returncode != 0:
            raise _unanswered(f"{spec.row_id} was", spec, command, asked)
        answers = _each_once(parse_squeue(asked.stdout), clusters)
        if not answers:
            # It may have ended, and slurmctld forgets such jobs soon.
            command = sacct_by_name_command(spec.name, submitted_s - CLOCK_SKEW_S, clusters)
            asked = self._ask(command)
            if asked.returncode != 0 and "accounting storage is disabled" not in asked.stderr:
                raise _unanswered(f"{spec.row_id} was", spec, command, asked)
            answers = _each_once(parse_sacct(asked.stdout), clusters)
        named = {job: told.status.submit_s or 0 for job, told in answers.items() if told.job_name == spec.name}
        if spec.unique_name:
            if len(named) > 1:
                raise SubmissionError(
                    f"{len(named)} jobs have the name that only one can have: {spec.name}",
                    (("jobs", ", ".join(map(in_words, sorted(named)))),),
                    advice=" && ".join(map(shlex.join, scancel_commands(named))),
                )
            return _only(named)
        # An earlier session's job may have the name as well. One by this machine's clock comes before
        # one that is ours only if the controller's clock is behind; Slurm's times are whole seconds.
        by_our_clock = [job for job, submit_s in named.items() if submit_s >= submitted_s - 1]
        return _only(
            by_our_clock or [job for job, submit_s in named.items() if submit_s >= submitted_s - SUBMISSION_SKEW_S]
        )

    def _cancel_unread(self, spec: JobSpec, submitted_s: float) -> None:
        try:
            found = self._find_submission(spec, submitted_s)
        except RunError:
            return  # out of reach; the journal has the row, and --gsw-resume asks again
        if found is not None:
            self._ask(scancel_command([found[1]], found[0]), self._command_timeout_s)

    def _ask(self, command: tuple[str, ...], timeout_s: float | None = None, given: str | None = None) -> Output:
        try:
            return _run(command, query_environment(self._environ), timeout_s or self._query_timeout_s, given=given)
        except OSError as error:
            return Output(127, "", f"{command[0]}: {error.strerror or error}")


def _run(
    command: tuple[str, ...],
    environment: Mapping[str, str],
    timeout_s: float,
    directory: Path | None = None,
    inherited: tuple[int, ...] = (),
    given: str | None = None,
) -> Output:
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=directory,
            **({"stdin": subprocess.DEVNULL} if given is None else {"input": given}),
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


def _submitted(answer: Output, spec: JobSpec) -> JobKey | None:
    """The job that sbatch names; ``None`` where it names none, or one of several clusters and not which."""
    found = parse_sbatch(answer.stdout) if answer.returncode == 0 else None
    if found is None or found[0]:
        return found
    clusters = clusters_with_script(spec)
    return (clusters, found[1]) if is_one(clusters) else None


def _each_once(answers: Mapping[JobKey, Answer], clusters: str) -> dict[JobKey, Answer]:
    """Answers of the clusters that were asked; a federation lists a job on each cluster that has it, or has had it."""
    found: dict[tuple[str, str], tuple[JobKey, Answer]] = {}
    for (cluster, job_id), answer in answers.items():
        same = (job_id, answer.job_name)
        if same not in found or found[same][1].status.state is JobState.REVOKED:
            found[same] = (clusters if is_one(clusters) else cluster, job_id), answer
    return dict(found.values())


def _only(jobs: Collection[JobKey]) -> JobKey | None:
    return next(iter(jobs)) if len(jobs) == 1 else None


def _may_have_been_taken(answer: Output) -> bool:
    """Whether the controller was reached, so that it may have the job although sbatch did not say so."""
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


def _unanswered(what: str, spec: JobSpec, command: Sequence[str], asked: Output) -> SchedulerAwayError:
    return SchedulerAwayError(
        f"whether {what} submitted is not known: {command[0]}: {why(asked)}",
        (("command", shlex.join(command)),),
        advice=_advice(asked.stderr, spec),
    )


def _refusal(
    kind: type[SubmissionError], spec: JobSpec, command: Sequence[str], answer: Output, fact: str = ""
) -> SubmissionError:
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
