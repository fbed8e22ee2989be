"""The static report: a night as pages that need no script, no server and no other host.

:mod:`~pytest_gsw.reports.night` is what is known of a night, :mod:`~pytest_gsw.reports.html.pages` and
:mod:`~pytest_gsw.reports.html.plots` are what it looks like, and :mod:`~pytest_gsw.reports.html.write` puts it on disk.
"""

from __future__ import annotations

from pytest_gsw.reports.html.write import write_report
from pytest_gsw.reports.night import Run
from pytest_gsw.reports.read import accepted_in

__all__ = ["Run", "accepted_in", "write_report"]
