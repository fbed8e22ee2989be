"""How pytest-xdist hands out rows and other tests, and what becomes of those of a worker that crashes."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import (  # type: ignore[import-untyped]
    LoadFileScheduling,
    LoadGroupScheduling,
    LoadScopeScheduling,
)

from pytest_gsw.results.junit_names import class_of_incident
from pytest_gsw.session.junit_cases import cluster_of
from pytest_gsw.session.stash import SETTINGS
from pytest_gsw.session.xdist import is_row

#: The unit of work that all rows are, and what a crash is of that is no row's own; no test's node id looks like it.
ROWS = "<rows of pytest-gsw>"
#: What is said of such a crash beside what pytest-xdist says.
_OF_NO_ROW = "It looked after all rows at once, and no row had its turn. A worker in its place judges them."

_KINDS = {"loadscope": LoadScopeScheduling, "loadfile": LoadFileScheduling, "loadgroup": LoadGroupScheduling}


def make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A scheduler that gives all rows to one worker, and other tests as ``--dist`` says."""
    kind = _KINDS.get(config.getoption("dist"))
    base: Any = kind or LoadScopeScheduling

    class RowsTogether(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(config, log)
            self._begun: set[str] = set()

        def _split_scope(self, nodeid: str) -> str:
            if is_row(nodeid):
                return ROWS
            # load and worksteal hand out single tests.
            scope: str = nodeid if kind is None else super()._split_scope(nodeid)
            return scope

        def pytest_runtest_logstart(self, nodeid: str) -> None:
            """Note a test that a worker begins; before that, a row's worker looks after the jobs of all rows."""
            self._begun.add(nodeid)

        def remove_node(self, node: Any) -> str | None:
            """Name the test that a worker has crashed in, which is an error and is not run again; other tests are."""
            work: dict[str, dict[str, bool]] = self.assigned_work[node]
            left = ((unit, test) for unit in work.values() for test, is_over in unit.items() if not is_over)
            unit, crashed = next(left, ({}, None))
            if crashed is not None and is_row(crashed) and crashed not in self._begun:
                crashed = ROWS
            elif crashed is not None:
                unit[crashed] = True
            # A worker that is given what is over already waits for ever.
            self.assigned_work[node] = {scope: unit for scope, unit in work.items() if not all(unit.values())}
            super().remove_node(node)
            return crashed

        def _reschedule(self, node: Any) -> None:
            super()._reschedule(node)
            # A worker begins a test once it knows the next one, or that there is none.
            while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                self._assign_work_unit(node)

        def pytest_handlecrashitem(self, crashitem: str, report: Any) -> None:
            """Let a crash count as the error of its row, under its name; of no row, as one of the cluster."""
            table, _, name = crashitem.partition("::")
            if is_row(crashitem):
                report.gsw_row = True
                report.location = (table, None, name)
            elif crashitem == ROWS:
                report.longrepr = f"{report.longrepr}\n{_OF_NO_ROW}"
                report.gsw_junit = (class_of_incident(cluster_of(config.stash[SETTINGS])), ROWS, 0.0, "")

    scheduler = RowsTogether()
    config.pluginmanager.register(scheduler, "gsw-scheduler")
    return scheduler
