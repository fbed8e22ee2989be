"""The recipe on a real Slurm, two ranks on two nodes: healthy, and with the faults that acceptance is to find."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import properties
from tests.slurm.cluster import SlurmCluster

from .recipe import DIRECTORY
from .session import session

CLUSTERS = """\
defaults: {{poll_interval: 1, max_gain: 100%}}
clusters:
  cores:
    scheduler: slurm
    accelerator: CPU
    gpus_per_node: 1
    stage: {directory}/stage/{{recipe}}
    sbatch: [--mem={memory}]
    environment: {{RUN_CONF_PYTHON: {python}, COLLECTIVE_TIMEOUT_S: "15", SMOKE_FAULT: "{fault}"{steps}}}
"""


@dataclass(frozen=True)
class Ended:
    """A session that has ended."""

    directory: Path
    output: str
    exit_status: int

    @property
    def record(self) -> dict[str, Any]:
        (path,) = self.directory.glob(".gsw/runs/*/records/*.json")
        content: dict[str, Any] = json.loads(path.read_text())
        return content

    @property
    def case(self) -> ET.Element:
        (case,) = ET.parse(self.directory / "junit.xml").getroot().iter("testcase")  # noqa: S314 - our own file
        return case


def run(
    cluster: SlurmCluster,
    directory: Path,
    fault: str = "",
    *options: str,
    memory: str = "4G",
    steps: int | None = None,
) -> Ended:
    """The row of two ranks, in a session of its own; with fewer steps where the fault comes before their end."""
    clusters = CLUSTERS.format(
        directory=directory,
        python=sys.executable,
        fault=fault,
        memory=memory,
        steps="" if steps is None else f', MAX_STEPS: "{steps}"',
    )
    (directory / "clusters.yaml").write_text(clusters)
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    usual = ["--gsw-cluster=cores", "-k", "smoke_gpt and CPUx2", "--junitxml=junit.xml"]
    ended = session(directory, cluster.environ | {"COLUMNS": "200"}, *usual, *options, timeout_s=900)
    return Ended(directory, ended.stdout + ended.stderr, ended.returncode)


def test_two_ranks_on_two_nodes_train(slurm2: SlurmCluster, tmp_path: Path) -> None:
    # Others may use this machine, too: where they disturb the training alone it is slower than documented, and where
    # they disturb the calibration alone it is faster.
    ended = run(slurm2, tmp_path, "", "--gsw-tolerance=75%")
    assert ended.exit_status == 0, ended.output
    record = ended.record
    assert record["outcome"] in {"passed", "improved"}
    assert (record["job"]["nodes"], record["job"]["state"]) == ("n[001-002]", "COMPLETED")
    facts = properties(ended.case)
    assert float(facts["gsw_calibration_flops"]) > 1e9
    assert 0.2 < float(facts["gsw_measured_mfu"]) < 1
    # The batch shell's output is in the staging area, not where the recipe is installed.
    assert (tmp_path / "stage" / "smoke_gpt" / f"slurm-{record['job']['id']}.out").is_file()
    assert sorted(path.name for path in DIRECTORY.iterdir() if path.is_file()) == ["launch.sh", "train.py"]


def test_a_slower_training_step_is_a_regression(slurm2: SlurmCluster, tmp_path: Path) -> None:
    # Far beyond what others on this machine can take from the calibration alone.
    ended = run(slurm2, tmp_path, "slow:150%")
    assert ended.exit_status == 1, ended.output
    assert ended.record["outcome"] == "regressed"
    assert ended.case.find("failure") is not None
    said = r"calibrated step time [\d.]+ s is [\d.]+ % slower than the documented [\d.]+ s \(allowed 20 %\)"
    assert re.fullmatch(said, ended.record["fact"])


def test_a_rank_without_memory_is_an_error(slurm2: SlurmCluster, tmp_path: Path) -> None:
    ended = run(slurm2, tmp_path, "oom", steps=5)
    assert_error(ended, r"job \d+ failed with exit code \d+: host out of memory")
    assert "DefaultCPUAllocator: can't allocate memory" in ended.output


def test_a_job_that_takes_more_memory_than_it_has_is_an_error(slurm2: SlurmCluster, tmp_path: Path) -> None:
    if not slurm2.memory_limits:
        pytest.skip("the kernel's memory cgroup cannot be written here, so that Slurm limits no memory")
    ended = run(slurm2, tmp_path, memory="300M", steps=5)
    assert_error(ended, r"job \d+ (?:ended OUT_OF_MEMORY|failed).*")


def test_a_training_that_diverges_is_an_error(slurm2: SlurmCluster, tmp_path: Path) -> None:
    ended = run(slurm2, tmp_path, "nan", steps=5)
    assert_error(ended, r"the loss or a step time is not finite: .*nan.*")


def test_a_rank_that_hangs_is_an_error(slurm2: SlurmCluster, tmp_path: Path) -> None:
    ended = run(slurm2, tmp_path, "hang", steps=5)
    assert_error(ended, r"job \d+ failed with exit code \d+: gloo time-out")


def assert_error(ended: Ended, fact: str) -> None:
    """Make sure that the row was no regression and no pass, and that its message begins with this fact."""
    assert ended.exit_status == 1, ended.output
    assert ended.record["outcome"] == "error", ended.output
    assert re.fullmatch(fact, ended.record["fact"]), ended.record["fact"]
    assert ended.case.find("error") is not None
