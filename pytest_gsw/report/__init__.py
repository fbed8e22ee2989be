"""The static report: a night as pages that need no script, no server and no other host.

:mod:`~pytest_gsw.report.night` is what is known of a night, :mod:`~pytest_gsw.report.pages` and
:mod:`~pytest_gsw.report.plots` are what it looks like, and :mod:`~pytest_gsw.report.write` puts it on the disk.
"""

from __future__ import annotations

from pytest_gsw.report.night import Run, accepted_in
from pytest_gsw.report.write import write_report

__all__ = ["Run", "accepted_in", "write_report"]
