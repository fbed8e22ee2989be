"""Submissions: one sbatch, and what became of one whose answer was lost."""

from __future__ import annotations

import contextlib
import re
import shlex
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.common.files import make_directory
from pytest_gsw.common.redact import masked_text, printable
from pytest_gsw.common.words import moment, shortened
from pytest_gsw.errors import QueueFullError, RefusedError, RunError, SchedulerAwayError, SubmissionError
from pytest_gsw.jobs.environment import masked_command
from pytest_gsw.jobs.model import Job, JobSpec, JobState, Launch, Named, Told
from pytest_gsw.jobs.ownership import PATIENCE_S, SubmissionLock
from pytest_gsw.jobs.scripts import STDOUT_BEFORE_23_02, check_one_job, cluster_of
from pytest_gsw.jobs.slurm.answers import Answer, Output, parse_sacct, parse_sbatch, parse_squeue, why
from pytest_gsw.jobs.slurm.client import LAUNCH_TIMEOUT_S, Client
from pytest_gsw.jobs.slurm.commands import (
    sacct_by_name_command,
    sacct_of_id_command,
    sacct_of_user_command,
    scancel_command,
    squeue_by_name_command,
    squeue_ids_command,
    squeue_of_id_command,
    squeue_of_user_command,
)
from pytest_gsw.jobs.slurm.poll import CLOCK_SKEW_S

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

#: Slurm's names of limits on how many jobs may be in the queue: the user's own, and those of a group.
_OWN_LIMIT = re.compile(r"(?:Assoc|QOS)MaxSubmitJobs?(?:PerUser)?Limit")
_GROUP_LIMIT = re.compile(r"(?:Assoc|QOS)(?:GrpSubmitJobs?|MaxSubmitJobs?PerAccount)Limit")


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
    for line in answer.complaints:
        if _OWN_LIMIT.fullmatch(line):
            return line, True
        if _GROUP_LIMIT.fullmatch(line):
            return line, False
    return None


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


def unanswered(what: str, spec: JobSpec, command: Sequence[str], asked: Output) -> SchedulerAwayError:
    """The error where a question after jobs has no answer."""
    return SchedulerAwayError(
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
# One call of a script, and what became of one whose answer was lost. What a script says is kept in a file of the run,
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

#: Finds the job of a spec by its name, submitted since then.
ByName = Callable[[JobSpec, float], Job | None]
#: All of the user's jobs since then, on the cluster of these rows.
AllSince = Callable[[Sequence[JobSpec], float], Sequence[Named]]


class LaunchScripts:
    """Runs launch scripts, one at a time in each directory: they were not written to run side by side.

    Args:
        client: Runs commands.
        lock: Held by each script while it runs.
        directory: Where what scripts say is kept.
        by_name: Finds a job by its name.
        all_since: Finds all jobs of the user.
    """

    def __init__(
        self, client: Client, lock: SubmissionLock | None, directory: Path, by_name: ByName, all_since: AllSince
    ) -> None:
        self._client = client
        self._lock = lock
        self._directory = directory
        self._by_name = by_name
        self._all_since = all_since
        self._turns: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)

    def submit(self, spec: JobSpec) -> Job:
        """Run the launch script, and read from what it says which job it has submitted.

        Raises:
            SchedulerAwayError: The controller was out of reach, or the script gave no answer: there may be a job.
            SubmissionError: The script submitted none, or several.
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
        found = self.find(spec, submitted_s) if answer.timed_out else self._by_name(spec, submitted_s)
        if found is not None:
            return found
        is_of_sbatch = answer.returncode != 0 and "sbatch: error" in answer.stderr
        kind = RefusedError if is_of_sbatch else SubmissionError
        if is_of_sbatch and is_away(answer):
            kind = SchedulerAwayError
        may_be = () if kind is SchedulerAwayError else self._may_be_its_jobs(spec, submitted_s)
        raise _failed(kind, spec, command, answer, _fact(command[0], answer, told, is_of_sbatch), may_be)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job that a script has submitted whose answer nobody has read; no script of an earlier session runs.

        Raises:
            SchedulerAwayError: The controller is out of reach, so that nobody can tell now.
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

    def directory_of(self, job: Job) -> Path | None:
        """Where a job writes, as its launch script has said; ``None`` where it has not."""
        told = self._told_of(job)
        return dict(((told.job_id, told.directory), *told.waits_for)).get(job.id)

    def before(self, job: Job) -> list[Named]:
        """The jobs that a job waits for: its launch script has submitted them as well, so that they end with it."""
        told = self._told_of(job) if job.spec.submits_itself else Told()
        ids = [job_id for job_id, _ in told.waits_for] if told.job_id == job.id else []
        return self._own(job.spec, ids, job.submitted_s - SUBMISSION_SKEW_S)

    def all_before(self, launches: Iterable[Launch]) -> dict[tuple[str, str], str | None]:
        """By name and id, the jobs of this run that another one waits for, and which one that is."""
        ways = [launch for launch in launches if launch.submits_itself]
        told = ((said.stem, launch.told_by(_text(said))) for said in self._all_said() for launch in ways)
        return {(name, job_id): one.job_id for name, one in told for job_id, _ in one.waits_for}

    def _told_of(self, job: Job) -> Told:
        """What the launch script has said that has submitted a job."""
        texts = map(_text, (self._said_by(job.spec), *self._all_said()))
        return next((told for told in map(job.spec.launch.told_by, texts) if job.id in told.job_ids), Told())

    def _job(self, spec: JobSpec, job_id: str, told_ids: Sequence[str], submitted_s: float) -> Job:
        """The job of an id that a script has named; the scheduler may have another name for it.

        Raises:
            SchedulerAwayError: The scheduler does not say.
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
            raise SchedulerAwayError(
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
        self._client.act(scancel_command(own, cluster_of(spec)))
        return f"; cancelled: {', '.join(own)}"

    def _own(self, spec: JobSpec, job_ids: Sequence[str], since_s: float) -> list[Named]:
        """Those of these jobs that are the user's and no other row's, and were submitted since then."""
        known = filter(None, (self._by_id(spec, job_id) for job_id in job_ids))
        return [one for one in known if (one.status.submit_s or 0) >= since_s and not _is_another_rows(one, spec)]

    def _by_id(self, spec: JobSpec, job_id: str, *, mine: bool = True) -> Named | None:
        """The user's job of an id, or anybody's; an id alone may be another's job."""
        cluster = cluster_of(spec)
        for command, parse in (
            (squeue_of_id_command(job_id, cluster, mine=mine), parse_squeue),
            (sacct_of_id_command(job_id, cluster, mine=mine), parse_sacct),
        ):
            asked = self._client.ask(command)
            answer = parse(asked.stdout).get(job_id) if asked.returncode == 0 else None
            if answer is not None:
                return Named(job_id, answer.job_name, answer.status)
        return None

    def _may_be_its_jobs(self, spec: JobSpec, since_s: float) -> tuple[tuple[str, str], ...]:
        """The user's jobs since then that are no session's and no other script's, as a message names them.

        Raises:
            SchedulerAwayError: Slurm does not answer.
        """
        other = (said for said in self._all_said() if said != self._said_by(spec))
        others = {job_id for said in other for job_id in spec.launch.told_by(_text(said)).job_ids}
        found = [
            f"{job.id} ({job.name})"
            for job in self._all_since([spec], since_s)
            if job.id not in others
            and not job.name.startswith(_OF_SESSIONS)
            and (job.status.submit_s is None or job.status.submit_s >= since_s - 1)
        ]
        return (("may be its job", "; ".join(found[:_SHOWN])),) if found else ()

    def _said_by(self, spec: JobSpec) -> Path:
        return self._directory / f"{spec.name}{_SUFFIX}"

    def _all_said(self) -> Iterator[Path]:
        return self._directory.glob(f"*{_SUFFIX}")


def _is_another_rows(job: Named, spec: JobSpec) -> bool:
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


def _fact(name: str, answer: Output, told: Told, is_of_sbatch: bool) -> str:
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


class Submissions:
    """Submits jobs, and finds them again by their names.

    Args:
        client: Runs Slurm's commands.
        lock: Held by each submission while it is under way.
        directory: Where it is kept what launch scripts say.
    """

    def __init__(self, client: Client, lock: SubmissionLock | None, directory: Path) -> None:
        self._client = client
        self._lock = lock
        self.scripts = LaunchScripts(client, lock, directory, self._by_name, self._all_of)

    def submit(self, spec: JobSpec) -> Job:
        """Start one job.

        Raises:
            SchedulerAwayError: The controller is out of reach, and whether it has the job is not known or not so.
            SubmissionError: Slurm refused it, or gave no answer that makes sense.
        """
        check_one_job(spec)
        if spec.submits_itself:
            return self.scripts.submit(spec)
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
        found = self._submitted(answer, spec, command)
        # Of one that could not even be reached the fleet asks before it submits again.
        if found is None and not is_certain(answer, spec) and (may_have_been_taken(answer) or not is_away(answer)):
            try:
                found = self._find_submission(spec, submitted_s)
            except SchedulerAwayError:
                raise refusal(SchedulerAwayError, spec, command, answer) from None
        if found is None:
            self._check_room(spec, command, answer)
            said_no = RefusedError if answer.returncode and not answer.timed_out else SubmissionError
            raise refusal(SchedulerAwayError if is_away(answer) else said_no, spec, command, answer)
        return Job(found, spec, submitted_s)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job that was submitted for this spec since then, by its name.

        Raises:
            SchedulerAwayError: The controller is out of reach, so that nobody can tell now.
            SubmissionError: An earlier session's sbatch hangs, so that nobody can tell.
        """
        self._wait_for_orphans(spec.row_id, [spec])
        return self.scripts.find(spec, since_s) if spec.submits_itself else self._by_name(spec, since_s)

    def _by_name(self, spec: JobSpec, since_s: float) -> Job | None:
        found = self._find_submission(spec, since_s)
        return None if found is None else Job(found, spec, since_s)

    def named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[Named, ...]:
        """All jobs that bear these rows' own names, whichever attempt they are, with two questions for all of them.

        Args:
            specs: How the rows' first jobs are started.
            since_s: When the first of them may have been submitted, seconds since the epoch.

        Raises:
            SchedulerAwayError: Slurm does not answer, so that nobody can tell.
            SubmissionError: A submission of the session that is resumed hangs, so that nobody can tell.
        """
        self._wait_for_orphans("its rows", specs)
        return self._all_of(specs, since_s)

    def _all_of(self, specs: Sequence[JobSpec], since_s: float) -> tuple[Named, ...]:
        """All of the user's jobs since then, but those that a row's own waits for.

        One that goes on when that has ended, or failed when that COMPLETED, is none of these: it was not waited for.
        """
        answers: dict[str, Answer] = {}
        cluster = cluster_of(specs[0])
        for command, parse in (
            (sacct_of_user_command(since_s - CLOCK_SKEW_S, cluster), parse_sacct),
            (squeue_of_user_command(cluster), parse_squeue),
        ):
            asked = self._client.ask(command)
            if asked.returncode != 0 and "accounting storage is disabled" not in asked.stderr:
                raise unanswered("the run's rows were", specs[0], command, asked)
            # squeue comes last: what slurmctld says of a job is newer.
            answers |= parse(asked.stdout)
        found = [Named(job_id, told.job_name, told.status) for job_id, told in answers.items()]
        before = self.scripts.all_before(
            {spec.launch.name: spec.launch for spec in specs}.values()
        )  # as scripts have said by now
        states = {job.id: job.status.state for job in found}
        ends = {key: states.get(follower or "", JobState.PENDING) for key, follower in before.items()}
        return tuple(job for job in found if _is_counted(job.status.state, ends.get((job.name, job.id))))

    def close(self) -> None:
        """Let go of the lock."""
        if self._lock is not None:
            self._lock.close()

    def _wait_for_orphans(self, what: str, specs: Sequence[JobSpec]) -> None:
        if self._lock is None:
            return
        script = next((spec.script.name for spec in specs if spec.submits_itself), None)
        if not self._lock.wait_for_orphans(PATIENCE_S if script is None else LAUNCH_TIMEOUT_S):
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
        asked = self._client.ask(squeue_ids_command(cluster_of(spec), mine=limit[1]))
        if asked.returncode != 0 or asked.stdout.strip():
            raise refusal(QueueFullError, spec, command, answer, f"the queue takes no more jobs ({limit[0]})")

    def _submitted(self, answer: Output, spec: JobSpec, command: Sequence[str]) -> str | None:
        """The job that sbatch names; ``None`` if it names none.

        Raises:
            SubmissionError: It is on a cluster that nobody would ask about it.
        """
        found = parse_sbatch(answer.stdout) if answer.returncode == 0 else None
        if found is None:
            return None
        cluster, job_id = found
        if cluster.lower() not in {"", cluster_of(spec).lower()}:
            self._client.act(scancel_command([job_id], cluster))
            raise SubmissionError(
                f"sbatch sent the job to the cluster {cluster}, which is not the session's: cancelled",
                submission_evidence(spec, command),
                advice=f"name it in the cluster file: sbatch: [--clusters={cluster}]",
            )
        return job_id

    def _find_submission(self, spec: JobSpec, submitted_s: float) -> str | None:
        """The job of a submission whose answer was lost, found by its name; else it would run unseen.

        Raises:
            SchedulerAwayError: The controller does not answer: no word of a job is not the word that there is none.
        """
        cluster = cluster_of(spec)
        command = squeue_by_name_command(spec.name, cluster)
        asked = self._client.ask(command)
        if asked.returncode != 0:
            raise unanswered(f"{spec.row_id} was", spec, command, asked)
        answers = parse_squeue(asked.stdout)
        if not answers:
            # It may have ended, and slurmctld forgets such jobs soon.
            command = sacct_by_name_command(spec.name, submitted_s - CLOCK_SKEW_S, cluster)
            asked = self._client.ask(command)
            if asked.returncode != 0 and "accounting storage is disabled" not in asked.stderr:
                raise unanswered(f"{spec.row_id} was", spec, command, asked)
            answers = parse_sacct(asked.stdout)
        named = {job: told.status.submit_s or 0 for job, told in answers.items() if told.job_name == spec.name}
        if spec.unique_name:
            if len(named) > 1:
                raise SubmissionError(
                    f"{len(named)} jobs have the name that only one can have: {spec.name}",
                    (("jobs", ", ".join(sorted(named))),),
                    advice=shlex.join(scancel_command(sorted(named), cluster)),
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
            self._client.act(scancel_command([found], cluster_of(spec)))


def _is_counted(state: JobState, follower: JobState | None) -> bool:
    """Whether a job counts as the row's: by its state, and by that of the one which waits for it, if any does."""
    if follower is None:
        return True
    return follower is JobState.COMPLETED and state is not follower if state.ended else follower.ended


def _only(jobs: Collection[str]) -> str | None:
    return next(iter(jobs)) if len(jobs) == 1 else None
