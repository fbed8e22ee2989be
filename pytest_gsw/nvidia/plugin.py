"""Implementations of the hooks of docs/hooks.md for NVIDIA's recipes. Each imports its modules when it is called."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_gsw.clusters import Cluster
    from pytest_gsw.jobs.model import FoundLog, JobSpec
    from pytest_gsw.nvidia.suite import Certification
    from pytest_gsw.tables.model import Baseline
    from pytest_gsw.validation.agreement import Evidence


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_gsw_make_job_spec(baseline: Baseline, cluster: Cluster) -> Generator[None, JobSpec | None, JobSpec | None]:
    """The recipes' own launchers; a simulation has none of them."""
    spec = yield
    if cluster.simulated:
        return spec
    from pytest_gsw.jobs.model import JobSpec
    from pytest_gsw.nvidia.launchers import launched

    if not isinstance(spec, JobSpec):  # the session will report this
        return spec
    return launched(spec, baseline, cluster)


def pytest_gsw_find_logs(place: Path, rows: Sequence[Baseline]) -> Sequence[FoundLog]:
    """The logs of jobs that llmb-run has launched."""
    from pytest_gsw.nvidia.launchers import launched_logs

    return launched_logs(place, rows)


def pytest_gsw_evidence(log: Path, job_id: str) -> Sequence[Evidence]:
    """The files of llmb-run and Megatron-Bridge."""
    from pytest_gsw.nvidia.evidence import evidence_of_log

    return evidence_of_log(log, job_id)


@pytest.hookimpl(trylast=True)
def pytest_gsw_suite_rows(suite: Path, cluster: Cluster | None, baselines: Sequence[Path]) -> Certification:
    """The rows of the certification's ``exemplar.yaml``."""
    from pytest_gsw.nvidia.suite import certification

    return certification(suite, cluster, baselines)
