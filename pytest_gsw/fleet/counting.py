"""Counting the run's jobs: the scheduler is asked by name for all of them, and one that no row owns is ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pytest_gsw.common.words import counted, enumerated
from pytest_gsw.errors import JobError, RunError
from pytest_gsw.fleet.entry import Seen, Submitting, unanswered_s
from pytest_gsw.fleet.rows import Rows
from pytest_gsw.jobs.model import Job, JobKey, Launcher, Named, in_words
from pytest_gsw.jobs.resume import by_row
from pytest_gsw.runs.run import Run

#: The jobs that the scheduler has, by the row whose name they bear; why that is not known; ``None`` where nobody asked.
Count = Mapping[str, Sequence[Named]] | RunError | None


class Counting:
    """Holds the scheduler's jobs against the rows' own; a launcher that is not asked by name is not asked at all.

    Args:
        rows: All rows.
        launcher: Who is asked, by its ``named``.
    """

    def __init__(self, rows: Rows, launcher: Launcher) -> None:
        self._rows = rows
        self._named = getattr(launcher, "named", None)
        self._since_s = time.time()
        self._counted = 0
        #: The jobs of the run that no row owns.
        self.strays: dict[JobKey, Seen] = {}
        #: Why a row is an error by now that was handed out before.
        self.late: dict[str, JobError] = {}

    def ask(self, has_reason: bool) -> Count:
        """Ask, in whichever thread: once after submissions were answered, however many, and where there is a reason.

        Names that other sessions' jobs have as well tell nothing.
        """
        answered, specs = self._rows.answered, [one for one in list(self._rows.specs.values()) if one.unique_name]
        if self._named is None or not specs or (answered == self._counted and not has_reason):
            return None
        self._counted = answered
        try:
            return by_row(specs, self._named(specs, self._since_s))
        except RunError as error:
            return error

    def take(self, count: Count) -> None:
        """Hold an answer against the rows, and end with its row what none of them owns; without one, ask again."""
        if isinstance(count, RunError):
            self._counted = -1
        elif count is not None:
            for row_id, jobs in count.items():
                self._hold(row_id, [job for job in jobs if not self._rows.claims.owns(job.id)])

    def _hold(self, row_id: str, jobs: Sequence[Named]) -> None:
        phase = self._rows.phases[row_id]
        new = [job for job in jobs if job.key not in self.strays]
        # Whose answer is awaited may own one of them; it is counted once more then.
        if not new or phase.row is None or isinstance(phase, Submitting) or unanswered_s(phase) is not None:
            return
        spec = phase.row.spec
        found = [Seen(Job(one.id, spec, 0.0, cluster=one.cluster, other_name=one.name), one.status) for one in new]
        self.strays |= {seen.job.key: seen for seen in found}
        error = JobError(
            f"the row has {counted(len(new), 'job')} that no submission of it named: "
            f"{enumerated([in_words(one.key) for one in new])}",
            tuple(("no row's", stray_text(seen)) for seen in found),
            advice="let the recipe submit one job for a row and name that; then run the row again",
        )
        self._rows.give_up([row_id], error, found)
        if isinstance(getattr(self._rows.phases[row_id], "end", None), Run):
            self.late[row_id] = error


def stray_text(stray: Seen) -> str:
    """A job that no row owns, in one line: ``12 gsw-a FAILED 7:0 on n001``."""
    status = stray.status
    code = "" if status.exit_code is None else f" {status.exit_code}:{status.signal}"
    nodes = f" on {status.nodes}" if status.nodes else ""
    fate = ", and was cancelled" if stray.cancelled else ""
    return f"{in_words(stray.job.key)} {stray.job.name} {status.state.value}{code}{nodes}{fate}"
