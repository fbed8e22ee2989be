"""What the rows of a session came to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.results import outcomes

if TYPE_CHECKING:
    from pytest_gsw.results.record import Record


class Tally:
    """What the rows' reports say together."""

    def __init__(self, *, profiled_on_purpose: bool) -> None:
        self._profiled_on_purpose = profiled_on_purpose
        #: By node id, the outcome of each row that was run; "" where it was skipped.
        self._outcomes: dict[str, str] = {}
        #: By node id, what is said of each row that is an error without a record.
        self._facts: dict[str, str] = {}
        #: Node ids of rows that pytest was told have not passed.
        self._told: set[str] = set()
        #: By node id, the record of each row that was reported with one.
        self.reported: dict[str, Record] = {}
        #: By node id, the exit status of a session with the row.
        self._statuses: dict[str, int] = {}
        #: By the names of their files, the records that this process has made.
        self.records: dict[str, Record] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take what the report of a row says."""
        if not getattr(report, "gsw_row", False):
            return
        node_id = report.nodeid
        if report.failed or report.skipped:
            self._told.add(node_id)
        record = getattr(report, "gsw_record", None)
        outcome = "" if record is None else record.outcome
        self._outcomes[node_id] = outcome or self._outcomes.get(node_id, "")
        if report.failed and not outcome:
            self._outcomes[node_id] = outcomes.ERROR.word
            self._facts[node_id] = str(report.longrepr).partition("\n")[0]
        if record is not None:
            self.reported[node_id] = record
            is_asked = self._profiled_on_purpose and outcome == outcomes.PROFILED.word
            self._statuses[node_id] = outcomes.GREEN if is_asked else report.gsw_status

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell of the whole cluster, before JUnit's file is written."""
        if not self.rows:
            return
        from pytest_gsw.performance.together import FEWEST_ROWS

        if self.rows >= FEWEST_ROWS:
            from pytest_gsw.session.alarming import report_cluster

            report_cluster(session)

    def __contains__(self, node_id: str) -> bool:
        """Whether a row was reported."""
        return node_id in self._outcomes

    def hides(self, node_id: str) -> bool:
        """Whether a row has failed by its record, and passed by its reports."""
        return self._statuses.get(node_id) == outcomes.FAILED and node_id not in self._told

    @property
    def rows(self) -> int:
        """How many rows were reported."""
        return len(self._outcomes)

    @property
    def outcomes(self) -> list[str]:
        """The outcome of each row that was run."""
        return [outcome for outcome in self._outcomes.values() if outcome]

    def errors_without(self, recorded: Iterable[str]) -> dict[str, str]:
        """By node id, the facts of rows that are errors and not among those with a record: of some a cell is blank."""
        known = set(recorded)
        words = self._outcomes.items()
        return {
            node_id: self._facts.get(node_id, "")
            for node_id, word in words
            if word == outcomes.ERROR.word and node_id not in known
        }

    @property
    def is_open(self) -> bool:
        """True if nothing shows of some row that its newest job passes."""
        return outcomes.OPEN in self._statuses.values()

    @property
    def judged_none(self) -> bool:
        """Whether there were rows, and all of them were skipped."""
        skipped = {""} if self._profiled_on_purpose else {"", outcomes.PROFILED.word}
        return bool(self._outcomes) and set(self._outcomes.values()) <= skipped


#: What the session's rows came to.
TALLY = pytest.StashKey[Tally]()
