"""Rows of a session that nothing says where to run: a session of nothing else is not green."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_gsw.session.markers import NO_CLUSTER

#: The name of the plugin.
NOWHERE = "gsw-nowhere"


class Nowhere:
    """Counts rows that are skipped for want of a cluster."""

    def __init__(self) -> None:
        self.rows = 0
        self._others_ran = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take one phase of a test: a row's is its skip, and another test has run once it was called."""
        if report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[2].endswith(NO_CLUSTER):
            self.rows += 1
        elif report.when == "call":
            self._others_ran = True

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Where rows were all that there was, nothing was judged: an option that got lost must not look like a pass."""
        if self.rows and not self._others_ran and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
