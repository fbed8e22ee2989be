"""The one job of a comparison: a fleet of one row submits it, waits for it, and ends it where the session is ended."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable

from pytest_gsw.common.signals import taking_signals
from pytest_gsw.errors import JobError, SchedulerAwayError
from pytest_gsw.fleet.entry import Live, Waiting, unanswered_s
from pytest_gsw.fleet.fleet import Fleet
from pytest_gsw.jobs.model import JobSpec, JobStatus, Launcher
from pytest_gsw.runs.run import Run

#: What is said of a submitted job, by its id and what is known of it.
Progress = Callable[[str, JobStatus], tuple[str, ...]]


def run_job(launcher: Launcher, spec: JobSpec, progress: Progress, again: str, say: Callable[[str], None]) -> Run:
    """Submit the job, wait for its end, and let go of the launcher; each line is said once.

    ``again`` is the command that judges the turns later.

    Raises:
        SubmissionError: The scheduler refused it, or has been away for too long.
        JobError: It was cancelled by Ctrl-C or SIGTERM, or nobody can tell how it ended.
    """
    told = _Told(spec.row_id, progress, say)
    fleet = Fleet(launcher, launcher.poll_interval_s, ticker=told, await_logs=False)
    run: Run | None = None
    with taking_signals(signal.default_int_handler, (signal.SIGINT, signal.SIGTERM)):
        try:
            fleet.submit({spec.row_id: spec})
            run = fleet.take(spec.row_id)
        except KeyboardInterrupt:
            fleet.interrupt(detach=True)  # its end cancels what there is, also what it has not heard of
        except SchedulerAwayError as error:
            lost = told.lost or error
            raise SchedulerAwayError(lost.fact, lost.evidence, lost.tail, _advice(spec, again)) from None
        finally:
            fleet.close(detach=not fleet.interrupted)
    if run is None:
        raise _interrupted(fleet, spec, again)
    if not run.status.state.ended:
        raise JobError(
            f"the end of job {run.job_id} is not known: {run.status.reason or run.status.raw_state or 'no answer'}",
            advice=f"it may still run; once it has ended: {again}",
        )
    return run


class _Told:
    """Tells where the job is on its way, each line once."""

    def __init__(self, row_id: str, progress: Progress, say: Callable[[str], None]) -> None:
        self._row_id = row_id
        self._progress = progress
        self._say = say
        self._lines: set[str] = set()
        #: The first submission that had no answer.
        self.lost: SchedulerAwayError | None = None

    def __call__(self, fleet: Fleet) -> None:
        """Tell what is new."""
        phase = fleet.phase(self._row_id)
        if isinstance(phase, Waiting):
            self._tell_lost(phase.away)
            self._tell(fleet.full)
        if isinstance(phase, Live):
            if self._tell_lost(phase.seen.away):
                self._tell("the job was submitted all the same")
            self._tell(*self._progress(phase.seen.job.id, phase.seen.status))

    def _tell_lost(self, away: SchedulerAwayError | None) -> bool:
        if away is not None:
            self.lost = self.lost or away
            self._tell(f"{self.lost.fact}; whether it has the job is asked until it answers")
        return away is not None

    def _tell(self, *lines: str) -> None:
        for line in lines:
            if line and line not in self._lines:
                self._lines.add(line)
                self._say(line)


def _interrupted(fleet: Fleet, spec: JobSpec, again: str) -> JobError:
    """What to say of an interrupted session, whose job is cancelled, also one that nobody has heard of yet."""
    job_id, phase = fleet.job_id(spec.row_id), fleet.phase(spec.row_id)
    if job_id is not None:
        return JobError(f"interrupted: job {job_id} was cancelled", advice=f"{again} judges its turns")
    if phase is None or unanswered_s(phase) is None:
        return JobError("interrupted before the job was submitted")
    return JobError("interrupted: nobody can tell whether the job was submitted", advice=_advice(spec, again))


def _advice(spec: JobSpec, again: str) -> str:
    """What to do where nobody can tell whether the scheduler has the job."""
    named = f"--me --name={shlex.quote(spec.name)}"
    return f"it may have the job all the same: squeue {named}; scancel {named} ends it, and once it has ended: {again}"
