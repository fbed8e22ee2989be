"""A training on cores whose rank is killed, and which goes on from its checkpoint: its use of the time, counted by hand."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from .session import session

FOR_S, DIES_AT = 90.0, 27

TABLE = """\
model: endured
size: 1m
framework: megatron
dtype: fp32
accelerator: CPU
gpus_per_node: 1
document: endured.md
sequence_length: 1
global_batch_size: 384
recipe: {directory: ./endured, steps: 20, environment: {MAX_STEPS: "{steps}"}}
statistic: median
tolerance: 90%
max_gain: 900%
tables:
  - rows: [{gpus: 2, step_time_s: 0.2, line: 1}]
"""
LAUNCH = """\
#!/bin/bash
set -eu
results=$STAGE_PATH/results/1/$DTYPE/$MODEL_SIZE/2
mkdir -p "$results"
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
{python} -m torch.distributed.run --standalone --nproc-per-node=2 {script} \\
    >"$results/log-megatron_endured_1m_2_$SLURM_JOB_ID.out" 2>&1
"""
CONFTEST = """\
from pytest_gsw.acceptance.plan import Stage

def pytest_collection_modifyitems(items):
    for item in items:
        item.stage = Stage("endurance", 1, for_s={for_s})
"""


class Event(NamedTuple):
    job: str
    what: str
    number: int
    begin_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


@pytest.mark.nightly
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="each of two ranks needs a core")
def test_a_training_whose_rank_is_killed(tmp_path: Path) -> None:
    script = Path(__file__).with_name("endured_train.py")
    (tmp_path / "site" / "endured").mkdir(parents=True)
    (tmp_path / "site" / "endured.yaml").write_text(TABLE)
    (tmp_path / "site" / "endured" / "launch.sh").write_text(LAUNCH.format(python=sys.executable, script=script))
    (tmp_path / "conftest.py").write_text(CONFTEST.format(for_s=FOR_S))
    environ = os.environ | {"CLOCK": str(tmp_path / "clock"), "DIES_AT": str(DIES_AT)}
    options = ("--gsw-cluster=local", "--gsw-baselines=site/endured.yaml")
    ended = session(tmp_path, environ, *options, timeout_s=FOR_S + 240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (path,) = tmp_path.glob(".gsw/runs/*/records/*.json")
    record = json.loads(path.read_text())
    used, events = (
        record["endurance"],
        [Event(*json.loads(line)) for line in (tmp_path / "clock").read_text().splitlines()],
    )
    jobs = sorted([*record["attempts"], record["job"]], key=lambda job: job["start_s"])
    assert [job["state"] for job in jobs] == ["FAILED", "CANCELLED"]

    first, second = ([event for event in events if event.job == job["id"]] for job in jobs)
    steps = [[event for event in of_job if event.what == "step"] for of_job in (first, second)]
    assert steps[0][-1].number == DIES_AT - 1
    again = steps[1][0].number
    assert again % 10 == 1
    kept = [*(step for step in steps[0] if step.number < again), *steps[1]]
    wall_s = jobs[1]["end_s"] - jobs[0]["start_s"]
    lost_s = sum(step.seconds for step in steps[0] if step.number >= again)
    lost_s += jobs[0]["end_s"] - steps[0][-1].end_s  # the other rank waits for the one that is dead
    lost_s += jobs[1]["start_s"] - jobs[0]["end_s"]
    assert used["causes"] == {"program": 1}
    assert used["steps_lost"] == DIES_AT - again
    assert used["wall_s"] == pytest.approx(wall_s, rel=0.005)
    assert used["productive_s"] / used["wall_s"] == pytest.approx(
        sum(step.seconds for step in kept) / wall_s, rel=0.005
    )
    assert used["lost_s"] == pytest.approx(lost_s, rel=0.005)
    starts_s = sum(of_job[0].begin_s - job["start_s"] for of_job, job in zip(steps, jobs, strict=True))
    assert used["start_s"] == pytest.approx(starts_s, rel=0.005)
    saves_s = sum(event.seconds for event in events if event.what == "save")
    assert used["checkpoint_s"] == pytest.approx(saves_s, rel=0.05)
    assert used["wall_s"] >= FOR_S
