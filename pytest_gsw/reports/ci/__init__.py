"""A night as others' programs read it: CI servers, Prometheus. Pure functions of its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_gsw.reports.ci import plot_csv
from pytest_gsw.reports.ci.annotations import github, gitlab
from pytest_gsw.reports.ci.markdown import markdown
from pytest_gsw.reports.ci.openmetrics import openmetrics
from pytest_gsw.reports.ci.plot_csv import by_workload
from pytest_gsw.reports.ci.session import SessionOutputs, session_outputs
from pytest_gsw.reports.ci.warnings_ng import warnings_ng
from pytest_gsw.reports.night import Night
from pytest_gsw.reports.read import exported_night

#: Every format by its name.
FORMATS: Mapping[str, Callable[[Night], str]] = {
    "markdown": markdown,
    "github": github,
    "gitlab": gitlab,
    "openmetrics": openmetrics,
    "plot": plot_csv.step_time,
    "plot-mfu": plot_csv.mfu,
    "plot-throughput": plot_csv.throughput,
    "warnings-ng": warnings_ng,
}

__all__ = ["FORMATS", "SessionOutputs", "by_workload", "exported_night", "session_outputs"]
