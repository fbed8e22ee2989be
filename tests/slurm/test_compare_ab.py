"""Two settings in turns within one job of a real Slurm."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import tiny_table

from .cluster import SlurmCluster

ROW = "tiny_1b_bf16[H100x16]"

CLUSTERS = """\
clusters:
  eos:
    scheduler: slurm
    gpus_per_node: 8
    stage: {directory}/stage
    recipes: {directory}/recipes
    sbatch: [--mem=50M{sbatch}]
"""

#: As the recipes have it: what the training needs is in directives, and the number of GPUs follows from them. Steps
#: take MILLISECONDS and up to 15 more, the same in each run of the tests.
LAUNCH = """\
#!/bin/bash
#SBATCH --job-name=tiny
#SBATCH --dependency=singleton
#SBATCH --ntasks-per-node=8
#SBATCH --time=1:00:00

set -eu -o pipefail
echo >>turns
turn=$(wc -l <turns)
gpus=$((SLURM_JOB_NUM_NODES * SLURM_NTASKS_PER_NODE))
results=$STAGE_PATH/results/24.11/$DTYPE/$MODEL_SIZE/$gpus
mkdir -p "$results"
noise=(0 7 12 3 15 0 9 5 11 2 14 8 1 13 6)
export LAST=$((${MILLISECONDS:-1000} + noise[turn]))
BODY
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$results/log-maxtext_tiny_1b_${gpus}_%j.out" bash -c '
    for step in {0..19}; do
        printf "completed step: %d, seconds: %d.%03d, loss: 9.0\\n" $step $((LAST / 1000)) $((LAST % 1000))
    done'
"""

#: Slurm is asked every 15 seconds; here nobody minds.
PROGRAM = """\
import sys
from pytest_gsw.cli import main
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
SlurmLauncher.poll_interval_s = 0.5
sys.exit(main(["compare-ab", *sys.argv[1:]]))
"""


class Site:
    """A site whose one recipe does something before it trains."""

    def __init__(self, cluster: SlurmCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, body: str, *options: str, sbatch: str = "") -> subprocess.Popen[str]:
        files = {
            "clusters.yaml": CLUSTERS.format(directory=self.directory, sbatch=sbatch),
            "tiny.yaml": tiny_table("gpus: 16, step_time_s: 1.000, line: 10"),
            "recipes/tiny/launch.sh": LAUNCH.replace("BODY", body),
        }
        for name, text in files.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, ROW, "--cluster=eos", "--baselines=tiny.yaml", "--json", *options],
            cwd=self.directory,
            env=self.cluster.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def run(self, body: str, *options: str) -> tuple[int, dict[str, Any]]:
        """The exit status, and what was found."""
        process = self.start(body, *options)
        out, err = process.communicate(timeout=150)
        assert out, err
        facts: dict[str, Any] = json.loads(out)
        return process.returncode, facts

    def jobs(self) -> list[list[str]]:
        """All jobs that this site's recipe has had: id, state and nodes."""
        said = self.cluster.run("sacct", "-X", "-n", "-P", "-D", "-o", "JobIDRaw,State,NNodes,WorkDir")
        lines = [line.split("|") for line in said.splitlines()]
        return [line[:3] for line in lines if line[3] == str(self.directory / "recipes" / "tiny")]

    def wait_for_jobs(self, *jobs: list[str]) -> None:
        """Wait until accounting, which may be late, has these and no others."""
        self.cluster.wait_until(lambda: self.jobs() == list(jobs), f"{self.jobs()} is {jobs}", 60)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture
def site(slurm8: SlurmCluster, tmp_path: Path) -> Iterator[Site]:
    site = Site(slurm8, tmp_path)
    try:
        yield site
    finally:
        site.close()


def test_a_difference_is_found_within_one_job(site: Site) -> None:
    status, facts = site.run("", "--a=MILLISECONDS=1000", "--b=MILLISECONDS=1030")
    assert (status, facts["result"], facts["pairs_measured"]) == (1, "slower", 6)
    assert facts["throughput_ratio"] == pytest.approx(1 / 1.03, abs=0.01)
    assert facts["p_signed_rank"] == 2 / 64
    turns = sorted((pair[side]["turn"], side) for pair in facts["pairs"] for side in "ab")
    assert "".join(side for _, side in turns) == "abbaabbaabba"
    site.wait_for_jobs([facts["job"], "COMPLETED", "2"])
    assert re.fullmatch(r"[0-9]+ COMPLETED 0:0 after [0-9]+s on n\[.*\]", facts["job_ended"])
    # No turn's log is left where the next job's would be looked for.
    assert list((site.directory / "stage" / "results").rglob("*.out")) == []


def test_equal_sides_are_not_called_different(site: Site) -> None:
    status, facts = site.run("", "--a=NCCL_ALGO=Ring", "--b=NCCL_ALGO=Tree")
    assert (status, facts["result"], facts["pairs_measured"]) == (0, "no_difference", 6)
    assert 0.002 < facts["smallest_shown"] < 0.02


def test_a_turn_that_fails_is_no_pair(site: Site) -> None:
    status, facts = site.run("[[ $turn != 6 ]] || exit 7", "--a=MILLISECONDS=1030", "--b=X=1", "--pairs=7")
    assert (status, facts["result"], facts["pairs_measured"]) == (0, "faster", 6)
    pair = facts["pairs"][2]
    assert pair["throughput_ratio"] is None
    assert (pair["a"]["problem"], pair["b"]["problem"]) == (None, "the turn failed with exit code 7")
    assert facts["conclusion"].endswith("; 6 of 7 pairs)")
    site.wait_for_jobs([facts["job"], "COMPLETED", "2"])


def test_a_job_that_is_ended_before_its_last_turn(site: Site) -> None:
    body = '[[ $turn != 13 ]] || { scancel "$SLURM_JOB_ID"; sleep 60; }'
    status, facts = site.run(body, "--b=MILLISECONDS=1030", "--pairs=7")
    assert (status, facts["result"], facts["pairs_measured"]) == (1, "slower", 6)
    assert " CANCELLED " in facts["job_ended"]
    last = facts["pairs"][6]
    assert (last["a"]["problem"], last["b"]["problem"]) == ("has not ended", "has not started")


def test_ctrl_c_leaves_no_job_behind(site: Site) -> None:
    process = site.start("sleep 300", "--b=X=1")
    give_up_s = time.monotonic() + 300
    while not list(site.directory.glob(".gsw/ab/*/1-A/output")):
        assert time.monotonic() < give_up_s
        time.sleep(0.1)
    process.send_signal(2)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    (job,) = re.findall(r"^compare-ab: job ([0-9]+) on eos: 12 turns, kept in \.gsw/ab/[0-9a-f-]+$", err, re.MULTILINE)
    assert f"pytest-gsw compare-ab: interrupted: job {job} was cancelled\n" in err
    ids = lambda: site.cluster.run("squeue", "-h", "-o", "%i").split()  # noqa: E731
    site.cluster.wait_until(lambda: job not in ids(), f"job {job} is gone", 60)
    site.wait_for_jobs([job, "CANCELLED by 0", "2"])


def test_what_sbatch_refuses(site: Site) -> None:
    process = site.start("", "--b=X=1", sbatch=", --gres=nothing:1")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert "pytest-gsw compare-ab: sbatch refused the job: " in err
    assert site.jobs() == []
