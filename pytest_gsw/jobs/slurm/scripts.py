"""Launch scripts that submit their job themselves: one call of a script, and what became of one whose answer was lost.

What a script says is kept in a file of the run, which is there before the script begins: a script that outlives its
session still says in it which job it has submitted, and where that writes.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from pytest_gsw.common.redact import masked_text, printable
from pytest_gsw.common.words import moment, shortened
from pytest_gsw.errors import RefusedError, SchedulerAwayError, SubmissionError
from pytest_gsw.jobs.directives import cluster_of
from pytest_gsw.jobs.model import Job, JobSpec, Launch, Named, Told
from pytest_gsw.jobs.orphans import SubmissionLock
from pytest_gsw.jobs.slurm.answers import Output, parse_sacct, parse_squeue
from pytest_gsw.jobs.slurm.client import Client
from pytest_gsw.jobs.slurm.commands import sacct_of_id_command, scancel_command, squeue_of_id_command
from pytest_gsw.jobs.slurm.refusals import is_away, submission_evidence

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
