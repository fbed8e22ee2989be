"""The one job of a comparison: submitted, waited for, and ended where the session is."""

from __future__ import annotations

import glob
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from pytest_gsw.clusters.local import uses_gpus
from pytest_gsw.clusters.model import Cluster
from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import JobError, RunError, SchedulerAwayError
from pytest_gsw.fleet.patience import BACK_OFF_S, LONGEST_BACK_OFF_S, UNKNOWN_LIMIT_S
from pytest_gsw.jobs.local import LocalLauncher
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus, Launcher
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher

#: Called with the job each time that it was asked about, and once when it is submitted.
Observer = Callable[[Job, JobStatus], None]


def launcher_of(cluster: Cluster, directory: Path) -> Launcher | None:
    """How the job starts on a cluster; ``None`` where only a plugin of pytest knows."""
    if cluster.scheduler == "slurm":
        return SlurmLauncher()
    if cluster.scheduler == "local":
        slots = cluster.gpus or len(glob.glob("/dev/nvidia[0-9]*"))  # noqa: PTH207 - as the plugin counts them
        return LocalLauncher(slots, work_directory=directory, real_gpus=uses_gpus(cluster))
    return None


class _Submission:
    """The way of one job to the scheduler, which may have it although nobody has heard so."""

    def __init__(self, launcher: Launcher, spec: JobSpec) -> None:
        self._launcher = launcher
        self.spec = spec
        self.job: Job | None = None
        #: When a submission was first tried whose answer was lost, seconds since the epoch.
        self._since_s: float | None = None

    def submit(self, again: str, say: Callable[[str], None]) -> Job:
        """Submit the job; where the answer is lost, find it, or submit it again where it did not get there.

        Raises:
            SchedulerAwayError: The scheduler does not answer for longer than its restart takes.
            SubmissionError: It refused the job.
        """
        lost: SchedulerAwayError | None = None
        give_up_s, pause_s = 0.0, BACK_OFF_S
        while self.job is None:
            try:
                self.job = self.find()
                if self.job is not None:
                    say("the job was submitted all the same")
                    break
                self._try()
            except SchedulerAwayError as error:
                now_s = time.monotonic()
                if lost is None:
                    lost, give_up_s = error, now_s + UNKNOWN_LIMIT_S
                    say(f"{error.fact}; whether it has the job is asked until it answers")
                elif now_s >= give_up_s:
                    raise SchedulerAwayError(lost.fact, lost.evidence, lost.tail, self.advice(again)) from None
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_BACK_OFF_S)
        assert self.job is not None  # nothing else ends the loop
        return self.job

    def find(self) -> Job | None:
        """The job, where a submission whose answer was lost has got through.

        Raises:
            SchedulerAwayError: Nobody can tell now.
        """
        return None if self._since_s is None else self._launcher.find(self.spec, self._since_s)

    def advice(self, again: str) -> str:
        """What to do where nobody can tell whether the scheduler has the job."""
        named = f"--me --name={shlex.quote(self.spec.name)}"
        return (
            f"it may have the job all the same: squeue {named}; scancel {named} ends it, and once it has ended: {again}"
        )

    def _try(self) -> None:
        began_s = time.time()
        try:
            self.job = self._launcher.submit(self.spec)
        except SchedulerAwayError:
            self._since_s = self._since_s or began_s
            raise


def run_job(
    launcher: Launcher,
    spec: JobSpec,
    observe: Observer,
    again: str,
    say: Callable[[str], None] = lambda _line: None,
) -> tuple[Job, JobStatus]:
    """Submit the job and wait for its end.

    Returns:
        The job, and how it ended.

    Raises:
        SubmissionError: The scheduler refused it, or has been away for too long.
        JobError: It was cancelled by Ctrl-C or SIGTERM, or nobody can tell how it ended.
    """
    submission = _Submission(launcher, spec)
    with _interruptible():
        try:
            job = submission.submit(again, say)
            observe(job, JobStatus(JobState.PENDING))
            return job, _wait(launcher, job, observe, again)
        except KeyboardInterrupt:
            raise _interrupted(launcher, submission, again) from None


def _interrupted(launcher: Launcher, submission: _Submission, again: str) -> JobError:
    """What to say of an interrupted session, whose job is cancelled, also one that nobody has heard of yet."""
    try:
        job = submission.job or submission.find()
    except RunError:
        fact = "interrupted: nobody can tell whether the job was submitted"
        return JobError(fact, advice=submission.advice(again))
    if job is None:
        return JobError("interrupted before the job was submitted")
    launcher.cancel([job])
    return JobError(f"interrupted: job {job.id} was cancelled", advice=f"{again} judges its turns")


def _wait(launcher: Launcher, job: Job, observe: Observer, again: str) -> JobStatus:
    """How the job ended; what is not known is no end."""
    unknown_since_s: float | None = None
    while True:
        status = quoted(launcher.poll([job])[job.spec.row_id], os.environ, job.spec.environment)
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
