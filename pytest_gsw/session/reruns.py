"""Rows and pytest-rerunfailures: what runs a test again would judge the same job once more."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_gsw.session.collect import BaselineItem, BlankItem

_PLUGIN = "rerunfailures"
_TOLD = (
    "gsw: pytest-rerunfailures runs no row again, which would judge the same job once more; "
    "--gsw-confirm=N runs further jobs of a row that is too slow"
)


class RowsRunOnce:
    """Runs rows as pytest does without pytest-rerunfailures; it is registered later, and so asked before that."""

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Of rows, leave the other plugin out."""
        if not isinstance(item, (BaselineItem, BlankItem)):
            return None
        runner = item.config.pluginmanager.get_plugin("runner")
        assert runner is not None  # it is pytest's own
        done: bool = runner.pytest_runtest_protocol(item=item, nextitem=nextitem)
        return done


def run_rows_once(config: pytest.Config, items: Iterable[pytest.Item]) -> list[str]:
    """See that no row is run again; a line where somebody has asked for that."""
    if not config.pluginmanager.has_plugin(_PLUGIN):
        return []
    rows = [item for item in items if isinstance(item, (BaselineItem, BlankItem))]
    if not rows:
        return []
    if not config.pluginmanager.has_plugin("gsw-once"):
        config.pluginmanager.register(RowsRunOnce(), "gsw-once")
    asked = any(getattr(config.option, name, None) for name in ("reruns", "force_reruns")) or config.getini("reruns")
    return [_TOLD] if asked or any(row.get_closest_marker("flaky") for row in rows) else []
