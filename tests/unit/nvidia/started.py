"""Rows as the wing starts them, and its launchers by themselves."""

from __future__ import annotations

from dataclasses import replace

from pytest_gsw.clusters import Cluster
from pytest_gsw.jobs.model import JobSpec, Launch
from pytest_gsw.jobs.spec import Profile, make_job_spec
from pytest_gsw.nvidia.launchers import launched
from pytest_gsw.tables.model import Baseline
from tests.unit.rows import LLAMA2_FP8_X128


def started(
    row: Baseline, cluster: Cluster, time_limit_s: float | None = None, profile: Profile | None = None
) -> JobSpec:
    spec = make_job_spec(row, cluster, run_id="r1", time_limit_s=time_limit_s, profile=profile)
    return launched(spec, row, cluster)


def launch(name: str) -> Launch:
    row = replace(LLAMA2_FP8_X128, recipe=replace(LLAMA2_FP8_X128.recipe, launcher=name))
    return started(row, Cluster("eos", "slurm", stage="/stage")).launch
