"""The hooks that a conftest.py or another plugin can implement.

Every choice of pytest-gsw itself is an ordinary ``trylast`` implementation of the same hooks (in
:mod:`pytest_gsw.plugin`): another launcher, log format or rule needs no change here. docs/hooks.md has
examples of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gsw.clusters import Cluster
    from pytest_gsw.jobs.launcher import Launcher
    from pytest_gsw.jobs.model import FoundLog, JobSpec
    from pytest_gsw.jobs.states import JobStatus
    from pytest_gsw.logs.model import LogFormat
    from pytest_gsw.results.record import Record
    from pytest_gsw.results.suites import SuiteRows
    from pytest_gsw.stats.cluster_effect import ClusterEffect
    from pytest_gsw.stats.measurement import Measurement
    from pytest_gsw.stats.noise import Noise
    from pytest_gsw.stats.repeats import Repeats
    from pytest_gsw.stats.verdict import Verdict
    from pytest_gsw.tables.metrics import Metric
    from pytest_gsw.tables.model import Accepted, Baseline
    from pytest_gsw.validation.agreement import Evidence


@pytest.hookspec(firstresult=True)
def pytest_gsw_make_launcher(config: pytest.Config, cluster: Cluster, run_directory: Path) -> Launcher | None:
    """Called once, before the first submission, to make the launcher of the session's cluster.

    :param config: The pytest config.
    :param cluster: The cluster of ``--gsw-cluster``; ``cluster.scheduler`` names the kind of launcher.
    :param run_directory: Directory of this session's files.
    :returns: A launcher, or ``None`` to leave it to others.
    """


@pytest.hookspec(firstresult=True)
def pytest_gsw_log_format(config: pytest.Config, baseline: Baseline) -> LogFormat | None:
    """Called for each row before its log is read, to choose the log's format.

    :param config: The pytest config.
    :param baseline: The row; ``baseline.log_format`` names the format.
    :returns: A log format, or ``None`` to leave it to others.
    """


@pytest.hookspec
def pytest_gsw_find_logs(config: pytest.Config, place: Path, rows: Sequence[Baseline]) -> Sequence[FoundLog] | None:
    """Called once for a directory of logs, to find those that other programs leave below it.

    :param config: The pytest config.
    :param place: The directory of ``--gsw-replay``, ``pytest-gsw metrics`` or ``history --from-logs``.
    :param rows: The rows that its logs may be of.
    :returns: Logs, each with its job and the ids of the rows that it may be of; a log without rows is matched
        by what it states.
    """


@pytest.hookspec
def pytest_gsw_evidence(config: pytest.Config, log: Path, job_id: str) -> Sequence[Evidence] | None:
    """Called for each job before its log is measured, to read other files next to the log.

    :param config: The pytest config.
    :param log: The job's log.
    :param job_id: The scheduler's id.
    :returns: The evidence in each file; a log that is not the row's by one of them is an error of the row.
    """


@pytest.hookspec(firstresult=True)
def pytest_gsw_make_job_spec(config: pytest.Config, baseline: Baseline, cluster: Cluster) -> JobSpec | None:
    """Called for each selected row before anything is submitted, to make the spec of its job.

    Implement it with ``wrapper=True`` to amend the built-in result.

    :param config: The pytest config.
    :param baseline: The row.
    :param cluster: Its cluster.
    :returns: The spec for the launcher, or ``None`` to leave it to others.
    """


@pytest.hookspec(firstresult=True)
def pytest_gsw_peak_flops(config: pytest.Config, accelerator: str, dtype: str) -> float | None:
    """Called when an MFU is computed, for the peak of one accelerator.

    :param config: The pytest config.
    :param accelerator: Its name in the cluster or the table, such as ``H100``.
    :param dtype: Its name in the table, such as ``fp8``.
    :returns: FLOP/s of one GPU, or ``None`` to leave it to others.
    """


@pytest.hookspec
def pytest_gsw_metrics(config: pytest.Config) -> Sequence[Metric] | None:
    """Called once, before the first submission, for metrics that rows may document in addition to their own.

    A row with ``metrics: {KEY: {value: …, tolerance: …}}`` in its table is judged by each of them, too.

    :param config: The pytest config.
    :returns: Metrics, each with ``read``, which returns its numbers from a
        :class:`~pytest_gsw.validation.measure.MetricLog`.
    """


@pytest.hookspec(firstresult=True)
def pytest_gsw_suite_rows(
    config: pytest.Config, suite: Path, cluster: Cluster | None, baselines: Sequence[Path]
) -> SuiteRows | None:
    """Called once, before anything is collected, for the rows of ``--gsw-suite``.

    :param config: The pytest config.
    :param suite: The path in the option.
    :param cluster: The cluster of the rows; ``None`` if logs are replayed without one.
    :param baselines: The session's tables, files and directories; empty if none are named.
    :returns: The rows of the suite, or ``None`` to leave it to others.
    """


@pytest.hookspec(firstresult=True)
def pytest_gsw_judge(
    config: pytest.Config,
    baseline: Baseline,
    measurement: Measurement,
    tolerance: float,
    accepted: Accepted | None,
    noise: Noise | None,
    repeats: Repeats,
    max_gain: float,
    cluster_effect: ClusterEffect | None,
) -> Verdict | None:
    """Called for each measured row, to compare it with its document, or with its cluster's accepted figure.

    It is called after each job of a row that may have several, and once more for the final verdict.

    :param config: The pytest config.
    :param baseline: The row.
    :param measurement: The measurement; of several jobs their median, with all of them in ``jobs``.
    :param tolerance: Accepted loss of throughput as a fraction.
    :param accepted: The cluster's own figure of the row, if there is one that applies. A verdict
        based on it sets ``accepted``.
    :param noise: The noise between jobs of the row on this cluster; ``None`` if unknown.
    :param repeats: Limits on the row's jobs. A verdict whose ``more`` is above zero requests that many;
        if it is ``None``, a row that has regressed gets all of them.
    :param max_gain: Largest plausible gain of throughput, as a fraction. A rule without ``verdict_of()`` of
        :mod:`pytest_gsw.stats.verdict` must reject larger gains, and ranks that differ, by itself.
    :param cluster_effect: The effect of the cluster on this run, by its other rows; ``None`` if there is none.
    :returns: The verdict, or ``None`` to leave it to others.
    """


@pytest.hookspec
def pytest_gsw_job_state_changed(config: pytest.Config, baseline: Baseline, job_id: str, status: JobStatus) -> None:
    """Called when a job is in a new state.

    :param config: The pytest config.
    :param baseline: The job's row.
    :param job_id: The scheduler's id.
    :param status: The new state, with nodes and times as far as they are known.
    """


@pytest.hookspec
def pytest_gsw_run_recorded(config: pytest.Config, record: Record) -> None:
    """Called for each row that was run, measured or not, after its record has been written.

    :param config: The pytest config.
    :param record: All facts of the run.
    """
