"""The one job of a comparison: submitted, waited for, and ended where the session is."""

from __future__ import annotations

import glob
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from pytest_gsw.errors import ConfigurationError, JobError
from pytest_gsw.fleet import UNKNOWN_LIMIT_S
from pytest_gsw.jobs.local import LocalLauncher
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus, Launcher
from pytest_gsw.jobs.slurm import SlurmLauncher
from pytest_gsw.quoting import quoted
from pytest_gsw.tables.clusters import Cluster

#: Called with the job each time that it was asked about, and once when it is submitted.
Observer = Callable[[Job, JobStatus], None]


def launcher_of(cluster: Cluster, directory: Path) -> Launcher:
    """How the job starts on a cluster.

    Raises:
        ConfigurationError: Only a plugin of pytest knows.
    """
    if cluster.scheduler == "slurm":
        return SlurmLauncher()
    if cluster.scheduler == "local":
        slots = cluster.gpus or len(glob.glob("/dev/nvidia[0-9]*"))  # noqa: PTH207 - as the plugin counts them
        return LocalLauncher(slots, work_directory=directory, real_gpus=not cluster.simulated)
    raise ConfigurationError(
        f"the cluster '{cluster.name}' has the scheduler '{cluster.scheduler}': compare-ab knows slurm and local"
    )


def run_job(launcher: Launcher, spec: JobSpec, observe: Observer, again: str) -> tuple[Job, JobStatus]:
    """Submit the job and wait for its end.

    Args:
        launcher: How it starts.
        spec: The job.
        observe: Told of it.
        again: The command that judges what is there later.

    Returns:
        The job, and how it ended.

    Raises:
        SubmissionError: The scheduler refused it.
        JobError: It was cancelled by Ctrl-C or SIGTERM, or nobody can tell how it ended.
    """
    job: Job | None = None
    with _interruptible():
        try:
            job = launcher.submit(spec)
            observe(job, JobStatus(JobState.PENDING))
            return job, _wait(launcher, job, observe, again)
        except KeyboardInterrupt:
            if job is None:
                raise JobError("interrupted before the job was submitted") from None
            launcher.cancel([job])
            raise JobError(f"interrupted: job {job.id} was cancelled", advice=f"{again} judges its turns") from None


def _wait(launcher: Launcher, job: Job, observe: Observer, again: str) -> JobStatus:
    """How the job ended; what is not known is no end."""
    unknown_since_s: float | None = None
    while True:
        status = quoted(launcher.poll([job])[job.id], os.environ, job.spec.environment)
        if status.state.ended:
            return status
        now_s = time.monotonic()
        if status.state is not JobState.UNKNOWN:
            unknown_since_s = None
        elif unknown_since_s is None:
            unknown_since_s = now_s
        elif now_s - unknown_since_s >= UNKNOWN_LIMIT_S:
            raise JobError(
                f"the end of job {job.id} is not known: {status.reason or status.raw_state or 'no answer'}",
                advice=f"it may still run; once it has ended: {again}",
            )
        observe(job, status)
        time.sleep(launcher.poll_interval_s)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM, by which CI servers end what they have started, be what Ctrl-C is."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    # SIGINT too: a shell lets its background jobs ignore it, and then nobody could end the job in order.
    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
