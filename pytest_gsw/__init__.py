"""pytest-gsw: every documented training-performance row is a pytest item.

These names are public: the arguments and results of hooks, and the judge of a log. This module does not import pytest,
and imports a name at its first use, because every pytest session imports this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gsw.clusters import Cluster
    from pytest_gsw.errors import (
        ConfigurationError,
        GswError,
        JobError,
        LogError,
        QueueFullError,
        RefusedError,
        RunError,
        SchedulerUnreachableError,
        SubmissionError,
    )
    from pytest_gsw.jobs.launcher import Launcher
    from pytest_gsw.jobs.layout import log_of
    from pytest_gsw.jobs.model import ExperimentInfo, FoundJob, FoundLog, Job, JobSpec, Launch
    from pytest_gsw.jobs.run_lock import SubmissionLock
    from pytest_gsw.jobs.spec import job_environment
    from pytest_gsw.jobs.states import JobState, JobStatus
    from pytest_gsw.logs.formats.base import LineFormat, StepLine
    from pytest_gsw.logs.model import EndMarkers, Identity, LogFormat, Parser, Step, StepLog
    from pytest_gsw.results.record import JobFacts, Record
    from pytest_gsw.results.suites import Concluded
    from pytest_gsw.session.judging import JudgedLog, judge
    from pytest_gsw.stats.decision import Outcome
    from pytest_gsw.stats.measurement import Measurement
    from pytest_gsw.stats.verdict import Verdict, verdict_of
    from pytest_gsw.tables.metrics import Direction, Metric
    from pytest_gsw.tables.model import Accepted, Baseline, Figures, Parallelism, Recipe, Source
    from pytest_gsw.validation.agreement import Evidence
    from pytest_gsw.validation.measure import MetricLog

_NAMES = {
    "clusters": ("Cluster",),
    "errors": (
        *("ConfigurationError", "GswError", "JobError", "LogError", "QueueFullError", "RefusedError", "RunError"),
        *("SchedulerUnreachableError", "SubmissionError"),
    ),
    "jobs.spec": ("job_environment",),
    "jobs.layout": ("log_of",),
    "jobs.launcher": ("Launcher",),
    "jobs.model": ("Job", "JobSpec", "Launch", "FoundJob", "FoundLog", "ExperimentInfo"),
    "jobs.states": ("JobState", "JobStatus"),
    "jobs.run_lock": ("SubmissionLock",),
    "logs.formats.base": ("LineFormat", "StepLine"),
    "logs.model": ("Identity", "EndMarkers", "LogFormat", "Parser", "Step", "StepLog"),
    "session.judging": ("JudgedLog", "judge"),
    "stats.measurement": ("Measurement",),
    "stats.verdict": ("Outcome", "Verdict", "verdict_of"),
    "results.record": ("JobFacts", "Record"),
    "results.suites": ("Concluded",),
    "validation.agreement": ("Evidence",),
    "validation.measure": ("MetricLog",),
    "tables.metrics": ("Direction", "Metric"),
    "tables.model": ("Accepted", "Baseline", "Figures", "Parallelism", "Recipe", "Source"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "Accepted",
    "Baseline",
    "Cluster",
    "Concluded",
    "ConfigurationError",
    "Direction",
    "EndMarkers",
    "Evidence",
    "ExperimentInfo",
    "Figures",
    "FoundJob",
    "FoundLog",
    "GswError",
    "Identity",
    "Job",
    "JobError",
    "JobFacts",
    "JobSpec",
    "JobState",
    "JobStatus",
    "JudgedLog",
    "Launch",
    "Launcher",
    "LineFormat",
    "LogError",
    "LogFormat",
    "Measurement",
    "Metric",
    "MetricLog",
    "Outcome",
    "Parallelism",
    "Parser",
    "QueueFullError",
    "Recipe",
    "Record",
    "RefusedError",
    "RunError",
    "SchedulerUnreachableError",
    "Source",
    "Step",
    "StepLine",
    "StepLog",
    "SubmissionError",
    "SubmissionLock",
    "Verdict",
    "job_environment",
    "judge",
    "log_of",
    "verdict_of",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
