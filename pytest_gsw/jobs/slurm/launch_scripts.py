"""Launch scripts that submit their job themselves.

A script's output is kept in a file of the run, created before the script begins. A script that outlives its session
still writes there which job it submitted, and the job's directory.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.common.redact import masked_text, printable
from pytest_gsw.common.text import moment, shortened
from pytest_gsw.errors import RefusedError, SchedulerUnreachableError, SubmissionError
from pytest_gsw.jobs.model import ExperimentInfo, FoundJob, Job, JobSpec, Launch
from pytest_gsw.jobs.scripts import cluster_of
from pytest_gsw.jobs.slurm import client
from pytest_gsw.jobs.slurm.client import Answer, Client, Output
from pytest_gsw.jobs.slurm.job_search import SUBMISSION_SKEW_S, JobSearch, accepted_jobs
from pytest_gsw.jobs.slurm.poll import Poller
from pytest_gsw.jobs.slurm.sbatch_errors import is_away, not_run, submission_evidence
from pytest_gsw.jobs.states import FailedJob, JobState

_SUFFIX = ".launch"
#: The exit code of a command with invalid arguments.
_USAGE = 2
#: Prefixes of the names of sessions' own jobs.
_OF_SESSIONS = ("gsw-", "again")
_SHOWN = 5
_LAST_LINES = 12
_MOST_CHARACTERS = 400


class LaunchScripts:
    """Runs launch scripts, and finds the jobs that they submitted.

    Args:
        slurm: Runs Slurm's commands.
        search: Finds jobs.
        poller: Finds the output files of batch shells.
        directory: Directory of the scripts' outputs.
    """

    def __init__(self, slurm: Client, search: JobSearch, poller: Poller, directory: Path) -> None:
        self._client, self._search, self._poller, self._directory = slurm, search, poller, directory
        #: Launch scripts run one at a time in each directory: they are not written to run in parallel.
        self._directory_locks: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)

    def submit(self, spec: JobSpec) -> Job:
        """Run the launch script, and parse the submitted job's id from its output.

        Raises:
            SchedulerUnreachableError: The controller is unreachable, or the script did not end: there may be a job.
            SubmissionError: The script submitted no job, or several.
        """
        command, output_file = spec.launch.command(spec), self.output_file(spec)
        with self._directory_locks[spec.directory]:
            submitted_s = self._client.now_s()
            try:
                answer = self._client.launch(command, spec, output_file)
                older = spec.launch.older_command(command, answer.stderr) if answer.returncode == _USAGE else None
                if older is not None:
                    command, answer = older, self._client.launch(older, spec, output_file)
            except OSError as error:
                raise not_run(spec, command, error, f"is the recipe set up? ls -l {spec.script}") from error
        info = spec.launch.read_output(answer.stdout)
        if info.job_id is not None:
            job = self._job(spec, info.job_id, info.job_ids, submitted_s)
            if info.directory is None:
                self._poller.output_of(job)  # slurmctld may have purged it when its log is wanted
            return job
        if info.job_ids:
            cancelled = self._cancel(spec, info.job_ids, submitted_s, answer.session_id)
            raise _script_error(SubmissionError, spec, command, answer, f"{command[0]}: {info.problem}{cancelled}")
        lost_job = self.find(spec, submitted_s) if answer.timed_out else self._search.by_name(spec, submitted_s)
        if lost_job is not None:
            return lost_job
        is_of_sbatch = answer.returncode != 0 and "sbatch: error" in answer.stderr
        kind = RefusedError if is_of_sbatch else SubmissionError
        if is_of_sbatch and is_away(answer):
            kind = SchedulerUnreachableError
        may_be = () if kind is SchedulerUnreachableError else self._candidate_jobs(spec, submitted_s)
        fact = _script_failure(command[0], answer, info, is_of_sbatch)
        raise _script_error(kind, spec, command, answer, fact, may_be)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job of a script whose output was not read; no script of an earlier session runs any more.

        Raises:
            SchedulerUnreachableError: The controller is unreachable: there may be a job.
            SubmissionError: There are jobs which may be the row's, without proof.
        """
        output_file = self.output_file(spec)
        if not output_file.exists():
            return None  # the script has not begun
        info = spec.launch.read_output(_text(output_file))
        if info.job_id is not None:
            return self._job(spec, info.job_id, info.job_ids, since_s)
        job = self._search.by_name(spec, since_s)
        if job is not None:
            return job
        may_be = self._candidate_jobs(spec, since_s)
        if may_be:
            raise SubmissionError(
                f"whether {spec.script.name} has submitted {spec.row_id} is not known: it was ended before it said so",
                (*may_be, ("said", str(output_file))),
                advice="end the one that is not wanted (squeue --me; scancel ID), and run the row anew",
            )
        return None

    def counted(self, answers: Mapping[str, Answer], specs: Sequence[JobSpec]) -> tuple[FoundJob, ...]:
        """Those of the user's jobs that no job of these rows waits for.

        A job that is waited for counts nevertheless if it is still active after the row's own job has ended, or did
        not complete although that one COMPLETED: then the row's own job did not wait for it.
        """
        answers = accepted_jobs(answers)
        jobs = [FoundJob(job_id, answer.job_name, answer.status) for job_id, answer in answers.items()]
        # Read last: scripts may have submitted more jobs by now.
        before = self._prerequisites({spec.launch.name: spec.launch for spec in specs}.values())
        states = {job.id: job.status.state for job in jobs}
        ends = {key: states.get(follower or "", JobState.PENDING) for key, follower in before.items()}
        return tuple(job for job in jobs if _is_counted(job.status.state, ends.get((job.name, job.id))))

    def directory_of_job(self, job: Job) -> Path | None:
        """The directory of a job's experiment: as configured, as printed by its launch script, or of its output."""
        if job.spec.batch_output is not None:
            return self._client.here(Path(job.spec.batch_output).parent)
        directory = self._printed_directory(job)
        if directory is not None:
            return directory
        output = self._poller.output_of(job)
        return None if output is None else self._client.here(output.parent)

    def prerequisites_of(self, job: Job) -> list[FoundJob]:
        """The jobs that a job waits for: its launch script submitted them as well, and they are cancelled with it."""
        info = self._experiment_info(job) if job.spec.launch.submits_itself else ExperimentInfo()
        ids = [job_id for job_id, _ in info.waits_for] if info.job_id == job.id else []
        firsts = filter(None, (self._search.by_id(job.spec, job_id) for job_id in ids))
        since_s = job.submitted_s - SUBMISSION_SKEW_S
        return [
            first
            for first in firsts
            if (first.status.submit_s or 0) >= since_s and not _is_another_rows(first, job.spec)
        ]

    def failed_prerequisite(self, job: Job) -> FailedJob | None:
        """The failed job that a job waits for; ``None`` if unknown."""
        for first in self.prerequisites_of(job):
            status = first.status
            if status.state.ended and (status.state is not JobState.COMPLETED or status.exit_code):
                directory = self._printed_directory(replace(job, id=first.id)) or Path()
                log = min(directory.glob(f"*_{first.id}*.out"), default=directory)  # log-… comes before sbatch_…
                return FailedJob(first.id, status.state, status.exit_code, status.signal, str(log))
        return None

    def _printed_directory(self, job: Job) -> Path | None:
        """The directory of a job by its launch script's output; ``None`` if not printed."""
        info = self._experiment_info(job)
        directory = dict(((info.job_id, info.directory), *info.waits_for)).get(job.id)
        return None if directory is None else self._client.here(directory)

    def _job(self, spec: JobSpec, job_id: str, printed_ids: Sequence[str], submitted_s: float) -> Job:
        """The job with the id that a script printed; its name in the scheduler may differ.

        Raises:
            SchedulerUnreachableError: The scheduler does not return it.
            SubmissionError: The job is another user's, another row's, or older than the script's run; or another job
                has the row's own name.
        """
        job = self._search.by_id(spec, job_id)
        if job is None and self._search.by_id(spec, job_id, mine=False) is not None:
            raise _wrong_job_error(spec, job_id, "is another user's", ())
        has_own_name = job is not None and job.name == spec.name
        own = None if has_own_name or not spec.unique_name else self._search.by_name(spec, submitted_s)
        if own is not None and own.id not in printed_ids:
            session_id = self._search.process_sessions(spec, [own.id], submitted_s).get(own.id, "")
            cancelled = self._cancel(spec, printed_ids, submitted_s, session_id)
            raise _wrong_job_error(spec, job_id, f"is not {own.id}, the job of the row's name{cancelled}", ())
        if job is None:
            raise SchedulerUnreachableError(
                f"{spec.script.name} has submitted job {job_id}, and neither squeue nor sacct knows it yet",
                advice=f"squeue -j {job_id}",
            )
        submit_s = job.status.submit_s
        if submit_s is not None and submit_s < submitted_s - SUBMISSION_SKEW_S:
            since = ("submitted", f"{moment(submit_s)}, and the script began at {moment(submitted_s)}")
            raise _wrong_job_error(spec, job_id, "is older than this run of the script", (since,))
        if _is_another_rows(job, spec):
            raise _wrong_job_error(spec, job_id, "is another row's", (("its name", job.name),))
        other = "" if has_own_name else job.name
        return Job(job_id, spec, submitted_s, other_name=other)

    def _cancel(self, spec: JobSpec, job_ids: Sequence[str], since_s: float, session_id: str) -> str:
        """Cancel those of these jobs that a script submitted; return their ids as text.

        Their times alone prove nothing: the user may have submitted another job meanwhile. Nor do ids of process
        sessions, which begin again in each container.
        """
        sessions = self._search.process_sessions(spec, job_ids, since_s)
        own = sorted(job_id for job_id in sessions if sessions[job_id] == session_id)
        if not own:
            return ""
        self._client.act(client.scancel_command(own, cluster_of(spec)))
        return f"; cancelled: {', '.join(own)}"

    def _candidate_jobs(self, spec: JobSpec, since_s: float) -> tuple[tuple[str, str], ...]:
        """Evidence of the user's jobs since then that belong to no session and no other script.

        Raises:
            SchedulerUnreachableError: Slurm does not answer.
        """
        paths = (path for path in self._output_files() if path != self.output_file(spec))
        others = {job_id for path in paths for job_id in spec.launch.read_output(_text(path)).job_ids}
        candidates = [
            f"{job.id} ({job.name})"
            for job in self.counted(self._search.since([spec], since_s), [spec])
            if job.id not in others
            and not job.name.startswith(_OF_SESSIONS)
            and (job.status.submit_s is None or job.status.submit_s >= since_s - 1)
        ]
        return (("may be its job", "; ".join(candidates[:_SHOWN])),) if candidates else ()

    def _prerequisites(self, launches: Iterable[Launch]) -> dict[tuple[str, str], str | None]:
        """Jobs of this run that another one waits for: by name and id, the id of that one."""
        ways = [launch for launch in launches if launch.submits_itself]
        experiments = ((path.stem, launch.read_output(_text(path))) for path in self._output_files() for launch in ways)
        return {(name, job_id): info.job_id for name, info in experiments for job_id, _ in info.waits_for}

    def _experiment_info(self, job: Job) -> ExperimentInfo:
        """The jobs in the output of the launch script that submitted this one."""
        texts = map(_text, (self.output_file(job.spec), *self._output_files()))
        return next(
            (info for info in map(job.spec.launch.read_output, texts) if job.id in info.job_ids), ExperimentInfo()
        )

    def output_file(self, spec: JobSpec) -> Path:
        """The file of a launch script's output."""
        return self._directory / f"{spec.name}{_SUFFIX}"

    def _output_files(self) -> Iterator[Path]:
        return self._directory.glob(f"*{_SUFFIX}")


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
    lines = reversed((answer.stderr + "\n" + answer.stdout).split("\n"))
    beginnings = (printable(line[: 4 * _MOST_CHARACTERS]).strip() for line in lines)
    error = next((line for line in beginnings if line.startswith(("Error:", "ERROR"))), "")
    return re.sub(r"^(?:Error|ERROR):\s{0,9}(?=\S)", "", error)


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


def _is_counted(state: JobState, follower: JobState | None) -> bool:
    """True if a job counts as the row's, by its state and that of its follower, the job waiting for it, if any."""
    if follower is None:
        return True
    return follower is JobState.COMPLETED and state is not follower if state.ended else follower.ended
