"""A run's report as texts for CI servers and Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pytest_gsw.reports.ci.markdown import markdown
from pytest_gsw.reports.ci.openmetrics import openmetrics
from pytest_gsw.reports.run_report import RunReport


class Text(NamedTuple):
    """A format of one run's report as a text."""

    #: The name of its file among the report's pages.
    file: str
    of: Callable[[RunReport], str]


#: The formats by their names.
TEXTS: Mapping[str, Text] = {"markdown": Text("summary.md", markdown), "openmetrics": Text("gsw.prom", openmetrics)}
