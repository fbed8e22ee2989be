"""The contract of launchers."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.layout import FileFacts, file_facts, log_of
from pytest_gsw.jobs.model import FoundJob, Job, JobSpec
from pytest_gsw.jobs.states import JobStatus


class Launcher(ABC):
    """The way jobs start on one cluster. One object serves a whole session.

    A site's launcher is a subclass with a name, :meth:`submit`, :meth:`poll` and :meth:`cancel`.
    """

    #: ``slurm``, ``local``, ``replay``, or a plugin's own word.
    name: str
    #: Seconds that a finished job's log may take to appear on a shared file system.
    log_wait_s: float = 30.0
    #: Seconds between two polls of all jobs, long enough not to burden the scheduler.
    poll_interval_s: float = 15.0
    #: Number of threads that may call :meth:`submit` at once; 1 if it must be the session's own.
    parallel_submissions: int = 1
    #: True if a later session can poll the jobs of an earlier one.
    jobs_outlive_session: bool = False
    #: True if :meth:`poll` may be called while other methods are; a site's own launcher is never called so.
    polls_in_a_thread: bool = False
    #: True if this machine sees the files of jobs; else which of them are older than a job is the launcher's to know.
    sees_files: bool = True
    #: Seconds for which the state of all jobs may be unknown before their rows are errors: longer than a restart.
    unknown_limit_s: float = 600.0
    #: Those of the launchers' keys in ``clusters.yaml`` that it uses; others are refused.
    cluster_keys: Collection[str] = ()

    @property
    def version(self) -> str:
        """The scheduler's version, for records; empty if unknown."""
        return ""

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command that :meth:`submit` runs, for ``--gsw-plan``."""
        return ()

    def unready(self, specs: Sequence[JobSpec]) -> dict[str, SubmissionError]:
        """The errors of jobs that certainly cannot be submitted, by row."""
        return {}

    @abstractmethod
    def submit(self, spec: JobSpec) -> Job:
        """Start one job.

        Raises:
            SchedulerUnreachableError: The scheduler gave no answer, but may have the job, see :meth:`find`.
            SubmissionError: The scheduler refused it.
            LogError: A log is replayed, and there is none, or more than one.
        """

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job that was submitted for this spec at or after a time (seconds since the epoch), by its name.

        Called for submissions whose answer was lost: the scheduler was out of reach, or the session
        that submitted did not live to read it. ``None`` if there is no such job, or if jobs do
        not outlive their session.

        Raises:
            SchedulerUnreachableError: The scheduler does not answer.
        """
        return None

    def named(self, specs: Sequence[JobSpec], since_s: float) -> Sequence[FoundJob] | None:
        """All jobs of these rows since then, by their names; ``None`` if the scheduler cannot list them.

        By these a run is resumed, and its jobs are counted: one that is no row's is ended.

        Raises:
            SchedulerUnreachableError: The scheduler does not answer.
        """
        return None

    @abstractmethod
    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id (``job.spec.row_id``), with one query for all of them.

        An answer is a job's own by more than its id, which a scheduler that lost its state gives out again:
        two rows of one session may have the same, and then each is answered for itself.

        A job of which nothing could be learnt has :attr:`JobState.UNKNOWN`; this never raises
        because a scheduler is out of reach.
        """

    def named_in_poll(self, specs: Sequence[JobSpec]) -> Sequence[FoundJob] | None:
        """The same as :meth:`named` by what the last poll has read; ``None`` if that does not show all jobs."""
        return None

    @abstractmethod
    def cancel(self, jobs: Sequence[Job]) -> None:
        """End all these jobs with one request; those that have ended already are no error.

        Raises:
            JobError: The request failed and jobs may go on; the advice is how to end them by hand.
        """

    def find_log(self, job: Job) -> Path:
        """The one log that belongs to this job, by default where its recipe puts it.

        Raises:
            LogError: There is none (yet), or more than one.
        """
        return log_of(job)

    def refresh(self, jobs: Sequence[Job]) -> None:  # noqa: B027
        """Make the files of these ended jobs as current here as they are where the jobs ran."""

    def file_facts(self, path: Path) -> FileFacts | None:
        """The facts of a file that :meth:`find_log` or :meth:`batch_output` has found; ``None`` if it is gone."""
        return file_facts(path)

    def now_s(self) -> float:
        """Seconds since the epoch by the scheduler's clock."""
        return time.time()

    def batch_output(self, job: Job) -> Path | None:
        """The batch shell's own output, which has failures before training; ``None`` if there is none."""
        return None

    def switches(self, spec: JobSpec) -> Mapping[str, str] | None:
        """The node list of each leaf switch or block by its name, ``switch s1``, where such a job runs.

        ``None`` if unknown. A session with a history asks once a week.
        """
        return None

    def report_by(self, write: Callable[[str], None]) -> None:  # noqa: B027 - most need not
        """Write a line by this function if the scheduler does not answer for long."""

    def end_waits(self) -> None:  # noqa: B027
        """Wait no longer for a scheduler that does not answer: the session is to end."""

    def close(self) -> None:  # noqa: B027
        """Release resources and end processes; a scheduler's jobs that still run are left alone."""
