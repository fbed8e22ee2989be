"""A row on one tile of a session's sweep."""

from __future__ import annotations

from pytest_gsw.errors import INTERRUPTED, JobError
from pytest_gsw.results.record import AmongTiles, Record
from pytest_gsw.session.row import SessionRow
from pytest_gsw.stats.cluster_effect import ClusterEffect
from pytest_gsw.stats.verdict import Verdict, after_search
from pytest_gsw.validation.run import Run


class TileRow(SessionRow):
    """A row on a tile: judged among the other tiles, and no evidence of an effect on all rows of the cluster."""

    has_cluster_effect = False

    def _note_first_job(self, run: Run) -> None:
        """Do nothing: tiles of one row are no evidence of all rows."""

    def _possible_effects(self) -> tuple[ClusterEffect | None, ...]:
        return (None,)

    def _cluster_effect(self) -> ClusterEffect | None:
        return None

    def _with_history(self, record: Record, run: Run | None) -> Record:
        """The record: drift and alarms are those of rows on any nodes."""
        return record

    def _among_tiles(self, verdict: Verdict) -> tuple[Verdict, AmongTiles | None]:
        """The verdict of the tile after the others have ended, and what they show of it.

        Raises:
            JobError: The session was interrupted before.
        """
        sweep, row = self._shared.sweep(), self.baseline
        if sweep is None:
            return verdict, None
        of_row = sweep.result_of(row.row_id)
        if of_row is None:
            raise JobError(f"{INTERRUPTED}: the other tiles of the row had not ended", advice="run it again")
        among = sweep.on_tile(of_row, row.tile)
        if among is None:
            return verdict, None
        verdict = after_search(
            verdict,
            of_row.level if sweep.has_search else None,
            is_slow=any(sweep.fails(finding, self.tolerance) for finding in among.named),
            is_open=len(among.findings) > len(among.named),
            has_other_loss=bool(among.other_loss),
        )
        return verdict, among
