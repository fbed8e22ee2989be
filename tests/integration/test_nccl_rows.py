"""Bundled rows of NCCL are collected if they are named, and by no other session."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_gsw.jobs.layout import JOB_ID, log_glob
from pytest_gsw.tables.bundled import SCHEMA_FILE, bundled_baselines
from tests.integration.conftest import Gsw
from tests.messages import wording

LAUNCH = bundled_baselines() / "nccl" / "nccl" / "launch.sh"
REDUCE = ("--gsw-cluster=demo", "-k", "all_reduce and H100x16")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated runs that take no time."""
    monkeypatch.setenv("GSW_DEMO_SECONDS", "0")


@pytest.mark.parametrize(
    ("named", "rows"),
    [
        (("-k", "all_reduce"), 12),
        (("-k", "all_reduce_float[H100x16-aws-efa]"), 1),
        (("baselines/nccl",), 26),
        (("baselines/nccl/alltoall_cre.yaml",), 7),
        (("baselines/nccl/alltoall_cre.yaml::alltoall_float[GB300x32-aws-roce]",), 1),
        ((), 0),
        (("-k", "llama2"), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_rows_of_nccl_are_those_that_are_named(pytester: pytest.Pytester, named: tuple[str, ...], rows: int) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--collect-only", "-q", *named)
    assert sum("/nccl/" in line and "::" in line for line in result.outlines) == rows


def test_faults_replay_and_resumption_of_named_rows(pytester: pytest.Pytester) -> None:
    faults = ("--gsw-demo=*p5*=slow:12%", "--gsw-demo=*tcpxo*=nan")
    result = pytester.runpytest(*REDUCE, *faults)
    result.assert_outcomes(passed=1, failed=1, errors=1, deselected=150)
    result.stdout.fnmatch_lines(
        [
            "*[[]H100x16-aws-efa[]] *PASSED *bus bandwidth * at 16 GiB*",
            "the last nccl-tests run in the log is not valid: #wrong '3' at 16 GiB",
            wording(
                "bandwidth",
                measured="*",
                size="16 GiB",
                change="1?.?",
                side="% below",
                documented="487.1 GB/s (allowed 5 %)",
            ),
            wording("page counts", counts="*= bus bandwidth", rows="3 rows", cluster="demo vs document =*"),
        ]
    )
    # Later sessions know the rows by the run.
    for later in (("--gsw-cluster=demo", "--gsw-replay=last"), ("--gsw-resume=last",)):
        pytester.runpytest(*later).assert_outcomes(passed=1, failed=1, errors=1)


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({}, "srun --mpi=pmix {tasks} all_reduce_perf {sizes}"),
        (
            {"IMAGE": "nccl tests.sqsh", "NCCL_TESTS_DIR": "/opt/build", "NCCL_TESTS_MPI": "pmi2"},
            "srun --mpi=pmi2 {tasks} --container-image=nccl tests.sqsh /opt/build/all_reduce_perf {sizes}",
        ),
        (
            {"IMAGE": "a.sqsh", "NCCL_TESTS_MOUNTS": "/a:/a"},
            "srun --mpi=pmix {tasks} --container-image=a.sqsh --container-mounts=/a:/a all_reduce_perf {sizes}",
        ),
        ({"GSW_LOCAL": "1"}, "all_reduce_perf {sizes} -t 8"),
    ],
    ids=["nodes' programs", "container", "mounts", "without Slurm"],
)
def test_the_recipe_runs_one_task_for_each_gpu(tmp_path: Path, environment: dict[str, str], command: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("srun", "all_reduce_perf"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>"$RAN"\nexit "$STATUS"\n')
        (programs / name).chmod(0o755)
    ran = tmp_path / "ran"
    base = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "STAGE_PATH": str(tmp_path / "stage"),
        "DTYPE": "float",
        "NCCL_TESTS_COLLECTIVE": "all_reduce",
        "SLURM_JOB_ID": "42",
        "SLURM_JOB_NUM_NODES": "2",
        "RUN_CONF_GPU_PER_NODE": "8",
        "RAN": str(ran),
        "STATUS": "0",
    }
    assert subprocess.run(["bash", LAUNCH], env=base | environment, check=False).returncode == 0
    logs = log_glob("nccl-tests", "all_reduce", "any", "float", 16).replace(JOB_ID, "42")
    (log,) = (tmp_path / "stage").glob(logs)
    tasks = f"--ntasks=16 --ntasks-per-node=8 --kill-on-bad-exit=1 --open-mode=append --output={log}"
    sizes = "-b 8M -e 16G -f 2 -g 1 -d float -n 20"
    assert ran.read_text() == command.format(tasks=tasks, sizes=sizes) + "\n"
    identity = log.read_text().splitlines()[0]
    image = environment.get("IMAGE", "")
    assert identity == (
        "GSW: MODEL=all_reduce FRAMEWORK=nccl-tests DTYPE=float GSW_VERSION=1 GPUS_PER_NODE=8 JOB_NUM_NODES=2 JOB_ID=42"
        f" IMAGE='{image}'"
    )
    bad = subprocess.run(["bash", LAUNCH], env=base | environment | {"STATUS": "3"}, check=False)
    assert bad.returncode == 3


@pytest.mark.skipif("GSW_NCCL" not in os.environ, reason="GSW_NCCL names no directory with checkouts of the documents")
def test_import_makes_the_tables_again_byte_for_byte(gsw: Gsw, tmp_path: Path) -> None:
    made = tmp_path / "baselines" / "nccl"
    made.mkdir(parents=True)
    bundled = bundled_baselines() / "nccl"
    shutil.copy(bundled_baselines() / SCHEMA_FILE, tmp_path / "baselines")
    shutil.copy(bundled / "facts.yaml", made)
    gsw("import", "--strict", os.environ["GSW_NCCL"], "-o", made)
    texts = ({path.name: path.read_text() for path in below.glob("*.yaml")} for below in (made, bundled))
    assert next(texts) == next(texts)
