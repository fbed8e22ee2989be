"""Outcomes of a session's rows, by pytest's reports of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record
from pytest_gsw.session.screen import NO_CLUSTER


class OutcomeCounts:
    """The outcomes of a session's rows, by their reports."""

    def __init__(self, *, profiled_on_purpose: bool) -> None:
        self._profiled_on_purpose = profiled_on_purpose
        #: The outcome of each row that was run, by node id; "" if it was skipped.
        self._outcomes: dict[str, str] = {}
        #: The fact of each row that is an error without a record, by node id.
        self._facts: dict[str, str] = {}
        #: Node ids of rows that were reported to pytest as not passed.
        self._not_passed: set[str] = set()
        #: The record of each row that was reported with one, by node id.
        self.reported: dict[str, Record] = {}
        #: The exit status of a session with the row, by node id.
        self._statuses: dict[str, int] = {}
        #: The records that this process has made or read, by the names of their files.
        self.records: dict[str, Record] = {}
        #: Rows of a session without a cluster, which are skipped; whether another test has run.
        self.without_cluster = 0
        self._others_ran = False

    def add(self, report: Any) -> None:
        """Count the report of one phase of a test."""
        if hasattr(report, "gsw_case"):
            self._statuses[report.nodeid] = report.gsw_case.status
        elif not getattr(report, "gsw_row", False):
            shown = report.longrepr
            if report.skipped and isinstance(shown, tuple) and shown[2].endswith(NO_CLUSTER):
                self.without_cluster += 1
            elif report.when == "call":
                self._others_ran = True
        if not getattr(report, "gsw_row", False):
            return
        node_id = report.nodeid
        if report.failed or report.skipped:
            self._not_passed.add(node_id)
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

    def __contains__(self, node_id: str) -> bool:
        """True if a row was reported."""
        return node_id in self._outcomes

    def hides(self, node_id: str) -> bool:
        """True if a row has failed by its record, and passed by its reports."""
        return self._statuses.get(node_id) == outcomes.FAILED and node_id not in self._not_passed

    @property
    def rows(self) -> int:
        """The number of rows that were reported."""
        return len(self._outcomes)

    @property
    def outcomes(self) -> list[str]:
        """The outcome of each row that was run."""
        return [outcome for outcome in self._outcomes.values() if outcome]

    def errors_without(self, recorded: Iterable[str]) -> dict[str, str]:
        """The facts of errors without a record, such as rows with a blank cell, by node id."""
        known = set(recorded)
        words = self._outcomes.items()
        return {
            node_id: self._facts.get(node_id, "")
            for node_id, word in words
            if word == outcomes.ERROR.word and node_id not in known
        }

    @property
    def is_open(self) -> bool:
        """True if the newest job of some row is not shown to pass."""
        return outcomes.OPEN in self._statuses.values()

    @property
    def ran_nothing(self) -> bool:
        """True if there were only rows without a cluster: a lost option must not look like a pass."""
        return bool(self.without_cluster) and not self._others_ran

    @property
    def judged_none(self) -> bool:
        """True if there were rows, and all of them were skipped."""
        skipped = {""} if self._profiled_on_purpose else {"", outcomes.PROFILED.word}
        return bool(self._outcomes) and set(self._outcomes.values()) <= skipped
