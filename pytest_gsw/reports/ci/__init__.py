"""A run as others' programs read it: CI servers, Prometheus. Pure functions of its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pytest_gsw.reports.ci.markdown import markdown
from pytest_gsw.reports.ci.openmetrics import openmetrics
from pytest_gsw.reports.run_report import RunReport


class Text(NamedTuple):
    """A format of one run's report as a text."""

    #: The name of its file beside the report's pages.
    file: str
    of: Callable[[RunReport], str]


#: By the names of the formats.
TEXTS: Mapping[str, Text] = {"markdown": Text("summary.md", markdown), "openmetrics": Text("gsw.prom", openmetrics)}
