"""The texts of rows that failed, where there are many: the same cause is told at length once."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_gsw.results.summary import without_job

#: So many rows that failed are told at length, whatever they failed by.
_WHOLE = 10
#: What stays of a text that is folded, beside its fact.
_KEPT = ("cause", "since", "changed", "log", "again")
#: Styles of --tb in which texts are not shown.
_WITHOUT = frozenset({"no", "line"})


class Folding:
    """Keeps texts short while pytest writes them; reports have them whole before and after."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._whole: list[tuple[Any, Any]] = []

    @property
    def count(self) -> int:
        """How many texts are short."""
        return len(self._whole)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Any:
        """Shorten the texts before pytest writes them."""
        errors, failed = (_rows(terminalreporter, kind) for kind in ("error", "failed"))
        option = self._config.option
        if len(errors) + len(failed) > _WHOLE and option.verbose < 2 and option.tbstyle not in _WITHOUT:
            seen: set[str] = set()
            for report in errors:
                cause = without_job(str(report.longrepr).partition("\n")[0])
                if cause in seen:
                    self._fold(report)
                seen.add(cause)
            for report in failed[_WHOLE:]:
                self._fold(report)
        return (yield)

    def unfold(self) -> None:
        """Give reports their texts again, for those who come later."""
        for report, whole in self._whole:
            report.longrepr = whole

    def _fold(self, report: Any) -> None:
        self._whole.append((report, report.longrepr))
        report.longrepr = folded(str(report.longrepr))


def folded(text: str) -> str:
    """The fact of a row's text, what caused it, its log, and how it is repeated."""
    fact, *lines = text.split("\n")
    return "\n".join([fact, *(line for line in lines if line.startswith(tuple(f"{name} " for name in _KEPT)))])


def _rows(reporter: pytest.TerminalReporter, kind: str) -> list[Any]:
    return [report for report in reporter.getreports(kind) if getattr(report, "gsw_row", False)]
