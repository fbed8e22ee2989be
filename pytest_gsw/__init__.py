"""pytest-gsw: every documented training-performance row is a pytest item.

The names here are the public ones: what hooks receive and return. Nothing here imports pytest.
"""

from pytest_gsw.errors import ConfigurationError, GswError, JobError, LogError, RunError, SubmissionError
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus, Launcher
from pytest_gsw.logs.lineformat import LineFormat, StepLine
from pytest_gsw.logs.model import Identity, LastWords, LogFormat, Step, StepLog
from pytest_gsw.performance.measurement import Measurement
from pytest_gsw.performance.verdict import Outcome, Verdict
from pytest_gsw.results.record import JobFacts, Record
from pytest_gsw.tables.clusters import Cluster
from pytest_gsw.tables.model import Accepted, Baseline, Figures, Parallelism, Recipe, Source

__all__ = [
    "Accepted",
    "Baseline",
    "Cluster",
    "ConfigurationError",
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
