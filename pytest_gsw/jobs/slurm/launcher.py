"""Jobs on a Slurm cluster.

Three pure pieces (build an argument list, parse a text, map a state) around one call of a process.

Jobs are submitted in :mod:`~pytest_gsw.jobs.slurm.submission`; what has become of them is asked for in
:mod:`~pytest_gsw.jobs.slurm.poll`.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pytest_gsw.errors import JobError, LogError, SubmissionError
from pytest_gsw.jobs import layout
from pytest_gsw.jobs.directives import cluster_of
from pytest_gsw.jobs.environment import session_environment
from pytest_gsw.jobs.model import NEVER_STARTS, Job, JobSpec, JobState, JobStatus, Named
from pytest_gsw.jobs.orphans import SubmissionLock
from pytest_gsw.jobs.slurm.answers import scancel_problem
from pytest_gsw.jobs.slurm.client import COMMAND_TIMEOUT_S, QUERY_TIMEOUT_S, Client
from pytest_gsw.jobs.slurm.commands import scancel_by_name_command, scancel_command
from pytest_gsw.jobs.slurm.poll import Poller
from pytest_gsw.jobs.slurm.ready import unready
from pytest_gsw.jobs.slurm.submission import Submissions


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
        query_timeout_s: float = QUERY_TIMEOUT_S,
        command_timeout_s: float = COMMAND_TIMEOUT_S,
        lock: SubmissionLock | None = None,
        work_directory: Path | None = None,
    ) -> None:
        # Threads submit, and what they walk through must not change under them.
        self._client = Client(session_environment(environ), query_timeout_s, command_timeout_s)
        self._submissions = Submissions(self._client, lock, work_directory or Path(tempfile.gettempdir()))
        self._poller = Poller(self._client.ask)

    @cached_property
    def version(self) -> str:
        """Slurm's version, ``22.05.8``, as its commands tell it without asking the controller; "" where they do not."""
        return self._client.version

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command that :meth:`submit` runs, in the directory of the recipe."""
        return spec.launch.command(spec) if spec.submits_itself else self._client.sbatch_command(spec)

    def unready(self, specs: Sequence[JobSpec]) -> dict[str, SubmissionError]:
        """By row, why its job would not run, as far as that is certain before anything is submitted."""
        return unready(specs, self._client.ask, self._client.environ)

    def submit(self, spec: JobSpec) -> Job:
        """Start one job; see :meth:`.Submissions.submit`."""
        return self._submissions.submit(spec)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """A job whose answer was lost; see :meth:`.Submissions.find`."""
        return self._submissions.find(spec, since_s)

    def named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[Named, ...]:
        """All jobs of these rows; see :meth:`.Submissions.named`."""
        return self._submissions.named(specs, since_s)

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
        before = sorted(one.id for job in jobs for one in self._submissions.scripts.before(job))
        ids = [*(job.id for job in self._confirmed(jobs)), *before]
        if not ids:
            return
        command = scancel_command(ids, cluster_of(jobs[0].spec))
        problem = scancel_problem(self._client.act(command))
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

    def close(self) -> None:
        """Let go of the lock. Jobs that still run are not touched."""
        self._submissions.close()

    def _experiment_of(self, job: Job) -> Path | None:
        """The directory of a job's experiment: as configured, as its launch script has said, or where it writes."""
        if job.spec.batch_output is not None:
            return Path(job.spec.batch_output).parent
        told = self._submissions.scripts.directory_of(job)
        if told is not None:
            return told
        output = self._poller.output_of(job)
        return None if output is None else output.parent

    def _failed_before(self, job: Job) -> str:
        """Which of the jobs that a job waits for has failed, and where its log is; empty if unknown."""
        for one in self._submissions.scripts.before(job):
            its = one.status
            if its.state.ended and (its.state is not JobState.COMPLETED or its.exit_code):
                directory = self._submissions.scripts.directory_of(replace(job, id=one.id)) or Path()
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
                advice=" && ".join(shlex.join(scancel_by_name_command(job)) for job in unseen),
            )
        return [job for job in jobs if self._poller.bears_its_name(job)]
