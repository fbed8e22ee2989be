"""pytest-gsw: every documented training-performance row is a pytest item.

The names here are the public ones: what hooks receive and return. Nothing here imports pytest, and a
name is imported when it is asked for: every pytest session imports this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gsw.clusters.model import Cluster
    from pytest_gsw.errors import ConfigurationError, GswError, JobError, LogError, RunError, SubmissionError
    from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus, Launcher
    from pytest_gsw.logs.formats.lineformat import LineFormat, StepLine
    from pytest_gsw.logs.model import Identity, LastWords, LogFormat, Step, StepLog
    from pytest_gsw.performance.measurement import Measurement
    from pytest_gsw.performance.verdict import Outcome, Verdict
    from pytest_gsw.results.facts import JobFacts
    from pytest_gsw.results.record import Record
    from pytest_gsw.tables.metrics import Direction, Metric
    from pytest_gsw.tables.model import Accepted, Baseline, Figures, Parallelism, Recipe, Source

_NAMES = {
    "clusters.model": ("Cluster",),
    "errors": ("ConfigurationError", "GswError", "JobError", "LogError", "RunError", "SubmissionError"),
    "jobs.model": ("Job", "JobSpec", "JobState", "JobStatus", "Launcher"),
    "logs.formats.lineformat": ("LineFormat", "StepLine"),
    "logs.model": ("Identity", "LastWords", "LogFormat", "Step", "StepLog"),
    "performance.measurement": ("Measurement",),
    "performance.verdict": ("Outcome", "Verdict"),
    "results.record": ("JobFacts", "Record"),
    "tables.metrics": ("Direction", "Metric"),
    "tables.model": ("Accepted", "Baseline", "Figures", "Parallelism", "Recipe", "Source"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "Accepted",
    "Baseline",
    "Cluster",
    "ConfigurationError",
    "Direction",
    "Figures",
    "GswError",
    "Identity",
    "Job",
    "JobError",
    "JobFacts",
    "JobSpec",
    "JobState",
    "JobStatus",
    "LastWords",
    "Launcher",
    "LineFormat",
    "LogError",
    "LogFormat",
    "Measurement",
    "Metric",
    "Outcome",
    "Parallelism",
    "Recipe",
    "Record",
    "RunError",
    "Source",
    "Step",
    "StepLine",
    "StepLog",
    "SubmissionError",
    "Verdict",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
