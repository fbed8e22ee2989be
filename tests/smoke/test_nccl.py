"""The bundled recipe of nccl-tests on a real Slurm: real all-reduces between two nodes, and their bus bandwidth."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from pytest_gsw.tables.bundled import bundled_baselines
from tests.slurm.cluster import SlurmCluster

from .session import session
from .test_slurm import Ended

RECIPE = bundled_baselines() / "nccl" / "nccl"
TABLE = """\
model: all_reduce
framework: nccl-tests
dtype: float
accelerator: CPU
gpus_per_node: 1
recipe: {{directory: ./nccl, environment: {{NCCL_TESTS_COLLECTIVE: all_reduce}}}}
tables:
  - {{metric: busbw_gbs, at: 4 MiB, tolerance: 90%, max_gain: 900%, rows: [{{gpus: 2, value: {value!r}}}]}}
"""
CLUSTERS = """\
defaults: {{poll_interval: 1}}
clusters:
  cores:
    scheduler: slurm
    accelerator: CPU
    gpus_per_node: 1
    stage: {directory}/stage
    sbatch: [--mem=4G]
    environment: {{NCCL_TESTS_DIR: {directory}/build, NCCL_TESTS_MPI: none, NCCL_TESTS_MIN: 2M, NCCL_TESTS_MAX: 4M,
                  NCCL_TESTS_ITERS: "2", SMOKE_FAULT: "{fault}"}}
"""


def run(cluster: SlurmCluster, directory: Path, value: float, fault: str = "") -> Ended:
    """The row that documents this bus bandwidth, in a session of its own."""
    directory.mkdir()
    build = directory / "build"
    build.mkdir()
    # What nccl-tests builds is a program of this name.
    program = build / "all_reduce_perf"
    script = Path(__file__).with_name("all_reduce_perf.py")
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(script))} "$@"\n')
    program.chmod(0o755)
    (directory / "nccl.yaml").write_text(TABLE.format(value=value))
    shutil.copytree(RECIPE, directory / "nccl")  # as sites do: beside a table of their own
    clusters = CLUSTERS.format(directory=directory, fault=fault)
    (directory / "clusters.yaml").write_text(clusters)
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    usual = ["--gsw-cluster=cores", "--gsw-baselines=nccl.yaml", "--junitxml=junit.xml"]
    ended = session(directory, cluster.environ | {"COLUMNS": "200"}, *usual, timeout_s=300)
    return Ended(directory, ended.stdout + ended.stderr, ended.returncode)


def test_all_reduces_between_two_nodes(slurm2: SlurmCluster, tmp_path: Path) -> None:
    # This machine's bandwidth is not known before: the first run measures it.
    measured = run(slurm2, tmp_path / "measured", 1.0).record["measured"]["value"]
    healthy = run(slurm2, tmp_path / "healthy", measured)
    assert healthy.exit_status == 0, healthy.output
    record = healthy.record
    assert (record["job"]["nodes"], record["job"]["state"], record["at"]) == ("n[001-002]", "COMPLETED", "4 MiB")
    assert record["outcome"] in {"passed", "improved"}
    # Forty times the work, where ten times the time is allowed: other work on this machine does not hide it.
    slow = run(slurm2, tmp_path / "slow", measured, "slow")
    assert slow.exit_status == 1, slow.output
    assert slow.record["outcome"] == "regressed", slow.output


def test_a_wrong_sum_is_an_error(slurm2: SlurmCluster, tmp_path: Path) -> None:
    ended = run(slurm2, tmp_path / "wrong", 1.0, "wrong")
    assert ended.exit_status == 1
    assert ended.record["outcome"] == "error", ended.output
    assert "exit code 1" in ended.record["fact"]
