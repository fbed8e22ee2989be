"""What goes into the fleet: rows to be submitted, and jobs that an earlier session has submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_gsw.errors import LogError, RunError, SubmissionError
from pytest_gsw.fleet.entry import Over, Row, Seen, Waiting
from pytest_gsw.fleet.limits import Limits
from pytest_gsw.fleet.logs import batch_output_of, log_of
from pytest_gsw.fleet.polling import Polling
from pytest_gsw.fleet.rows import Rows
from pytest_gsw.jobs.journal import Submission
from pytest_gsw.jobs.layout import outputs_beside
from pytest_gsw.jobs.model import Attempt, Job, JobSpec, Launcher
from pytest_gsw.runs.run import Run


class Intake:
    """Takes rows over, with what an earlier session knew of them."""

    def __init__(self, rows: Rows, launcher: Launcher, polling: Polling) -> None:
        self._rows = rows
        self._launcher = launcher
        self._polling = polling

    def submit(self, specs: Mapping[str, JobSpec | RunError], past: Mapping[str, Submission]) -> None:
        """Let rows wait; see :meth:`pytest_gsw.fleet.fleet.Fleet.submit`."""
        for row_id, spec in specs.items():
            if isinstance(spec, RunError):
                self._rows.finish(Over(row_id, spec))
            elif spec.gpus > self._rows.limits.gpus:
                self._rows.finish(Over(row_id, too_large(spec, self._rows.limits)))
            else:
                self._let_wait(row_id, spec, past.get(row_id))

    def attach(self, job: Job, past: Submission | None) -> None:
        """Take over a job; see :meth:`pytest_gsw.fleet.fleet.Fleet.attach`."""
        rows, row_id, seen = self._rows, job.spec.row_id, Seen(job)
        row = Row(row_id, job.spec)
        if past is not None:
            seen.status = past.ended or seen.status
            seen.stopped, seen.cancelled_before = past.stopped, past.cancelled
            row = replace(row, attempts=past.attempts)
            try:
                row = self._with_earlier(row)
            except LogError as error:
                rows.finish(Over(row_id, error, row, seen))
                return
        rows.take_place(row)
        live = rows.go_live(row, seen)
        if not rows.is_shared(rows.claims.job(job), row_id) and seen.status.state.ended:
            self._polling.leave_queue(live)

    def _let_wait(self, row_id: str, spec: JobSpec, past: Submission | None) -> None:
        """Let a row wait, unless what an earlier session measured of it is gone."""
        if past is None:
            self._rows.wait(Waiting(Row(row_id, spec)), first=False)
            return
        row, since_s = Row(row_id, spec, past.attempts), past.intended_s or None
        try:
            row = self._with_earlier(row)
        except LogError as error:
            self._rows.finish(Over(row_id, error, row, since_s=since_s))
        else:
            self._rows.wait(Waiting(row, since_s), first=False)

    def _with_earlier(self, row: Row) -> Row:
        """A row with what an earlier session measured of its jobs so far, which must still be there.

        Raises:
            LogError: A log of these jobs is gone, or another job's of this session.
        """
        numbered = [(replace(row.spec, attempt=number), one) for number, one in enumerate(row.attempts, start=1)]
        for its, attempt in numbered:
            self._rows.claims.job(Job(attempt.job_id, its, 0.0))
        earlier = tuple(self._measured_before(its, attempt) for its, attempt in numbered if attempt.measured)
        return replace(row, earlier=earlier)

    def _measured_before(self, spec: JobSpec, attempt: Attempt) -> Run:
        job = Job(attempt.job_id, spec, attempt.status.submit_s or 0.0)
        log = log_of(self._launcher, job)
        clash = self._rows.claims.log(job, log)
        if clash is not None:
            raise clash[1]
        output = batch_output_of(self._launcher, job)
        return Run(job.id, attempt.status, log, output, beside=outputs_beside(job, log, output))


def too_large(spec: JobSpec, limits: Limits) -> SubmissionError:
    """That a row needs more GPUs than all rows together may take."""
    return SubmissionError(
        f"the row needs {spec.gpus} GPUs, and no more than {limits.gpus:g} may be taken",
        advice="raise --gsw-max-gpus, or leave the row out",
    )
