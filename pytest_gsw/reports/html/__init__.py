"""The static report: a run as pages that need no script, no server and no other host.

:mod:`~pytest_gsw.reports.run_report` has the run, :mod:`~pytest_gsw.reports.html.pages` and
:mod:`~pytest_gsw.reports.html.charts` lay it out.
"""
