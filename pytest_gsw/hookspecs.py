"""The hooks that a conftest.py or another plugin can implement.

Every choice that pytest-gsw makes itself is an ordinary ``trylast`` implementation of the
same hooks (in :mod:`pytest_gsw.plugin`), so that one more launcher, log format or rule
needs no change here. Examples of each are in docs/hooks.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gsw.clusters.model import Cluster
    from pytest_gsw.jobs.model import JobSpec, JobStatus, Launcher
    from pytest_gsw.logs.model import LogFormat
    from pytest_gsw.results.record import Record
    from pytest_gsw.results.suites import SuiteRows
    from pytest_gsw.stats.cluster_effect import ClusterEffect
    from pytest_gsw.stats.decision import Repeats
    from pytest_gsw.stats.measurement import Measurement
    from pytest_gsw.stats.noise import Noise
    from pytest_gsw.stats.verdict import Verdict
    from pytest_gsw.tables.metrics import Metric
    from pytest_gsw.tables.model import Accepted, Baseline
    from pytest_gsw.validation.agreement import Evidence


@pytest.hookspec(firstresult=True)
def pytest_gsw_make_launcher(config: pytest.Config, cluster: Cluster, run_directory: Path) -> Launcher | None:
    """Called once, before the first submission, to make the launcher of the session's cluster.

    :param config: The pytest config.
    :param cluster: The cluster of ``--gsw-cluster``; ``cluster.scheduler`` names what is wanted.
    :param run_directory: Where this session keeps its files.
    :returns: A launcher, or ``None`` to leave it to others.
    """


@pytest.hookspec(firstresult=True)
def pytest_gsw_log_format(config: pytest.Config, baseline: Baseline) -> LogFormat | None:
    """Called for each row before its log is read, to say how that log is written.

    :param config: The pytest config.
    :param baseline: The row; ``baseline.log_format`` names what is wanted.
    :returns: A log format, or ``None`` to leave it to others.
    """


@pytest.hookspec
def pytest_gsw_evidence(config: pytest.Config, log: Path, job_id: str) -> Sequence[Evidence] | None:
    """Called for each job before its log is measured, for what else was written of the job beside the log.

    :param config: The pytest config.
    :param log: The job's log.
    :param job_id: The scheduler's id.
    :returns: What each file says; a log of which one says that it is not the row's is an error of the row.
    """


@pytest.hookspec(firstresult=True)
def pytest_gsw_make_job_spec(config: pytest.Config, baseline: Baseline, cluster: Cluster) -> JobSpec | None:
    """Called for each selected row before anything is submitted, to say how it is started.

    Implement it with ``wrapper=True`` to amend the built-in answer.

    :param config: The pytest config.
    :param baseline: The row.
    :param cluster: Where it runs.
    :returns: What the launcher is told, or ``None`` to leave it to others.
    """


@pytest.hookspec(firstresult=True)
def pytest_gsw_peak_flops(config: pytest.Config, accelerator: str, dtype: str) -> float | None:
    """Called when an MFU is computed, for the peak of one accelerator.

    :param config: The pytest config.
    :param accelerator: As the cluster or the table names it, such as ``H100``.
    :param dtype: As the table names it, such as ``fp8``.
    :returns: FLOP/s of one GPU, or ``None`` to leave it to others.
    """


@pytest.hookspec
def pytest_gsw_metrics(config: pytest.Config) -> Sequence[Metric] | None:
    """Called once, before the first submission, for the metrics that rows may document beside their own.

    A row that has ``metrics: {KEY: {value: …, tolerance: …}}`` in its table is judged by each of them, too.

    :param config: The pytest config.
    :returns: Metrics, each with ``read``, which gives its numbers from a
        :class:`~pytest_gsw.validation.measure.MetricLog`.
    """


@pytest.hookspec(firstresult=True)
def pytest_gsw_suite_rows(
    config: pytest.Config, suite: Path, cluster: Cluster | None, baselines: Sequence[Path]
) -> SuiteRows | None:
    """Called once, before anything is collected, for the rows of ``--gsw-suite``.

    :param config: The pytest config.
    :param suite: What the option names.
    :param cluster: Where the rows run, ``None`` where logs are replayed without one.
    :param baselines: The session's tables, files and directories; none where nothing names them.
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
    """Called for each measured row, to compare it with its document, or with what its cluster has accepted.

    It is called after each job of a row that may have several, and once more for the verdict that counts.

    :param config: The pytest config.
    :param baseline: The row.
    :param measurement: What was measured; of several jobs it is their median, and ``jobs_s`` has them all.
    :param tolerance: Accepted loss of throughput as a fraction.
    :param accepted: The cluster's own figure of the row, where there is one and it counts. A verdict that
        rests on it says so by its ``accepted_s``.
    :param noise: By how much jobs of the row differ on this cluster, ``None`` where nothing is known of it.
    :param repeats: How many jobs the row may have. A verdict whose ``more`` is above zero asks for that many;
        where it is ``None``, a row that has regressed has all of them.
    :param max_gain: Gain of throughput that is believed, as a fraction. A rule that does without ``judge()`` of
        :mod:`pytest_gsw.stats.verdict` doubts what is beyond it, and ranks that differ, by itself.
    :param cluster_effect: What the other rows of the cluster say of this run, ``None`` where they say nothing.
    :returns: The verdict, or ``None`` to leave it to others.
    """


@pytest.hookspec
def pytest_gsw_job_state_changed(config: pytest.Config, baseline: Baseline, job_id: str, status: JobStatus) -> None:
    """Called when a job is seen in a new state.

    :param config: The pytest config.
    :param baseline: The job's row.
    :param job_id: The scheduler's id.
    :param status: The new state, with nodes and times as far as they are known.
    """


@pytest.hookspec
def pytest_gsw_run_recorded(config: pytest.Config, record: Record) -> None:
    """Called for each row that was run, measured or not, after its record has been written.

    :param config: The pytest config.
    :param record: Everything known of the run.
    """
