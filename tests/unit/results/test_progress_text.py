"""What people read of a session, to the letter."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.results import progress_text
from pytest_gsw.results.progress_text import RowProgress
from tests.unit.results.records import (
    SLOW,
)

PLANNED = {
    "node_id": SLOW.row.node_id,
    "gpus": 2304,
    "nodes": 288,
    "minutes": 15.28,
    "jobs": 1,
    "directory": "/recipes/maxtext",
    "command": "sbatch -N 288 launch.sh",
    "environment": {"DTYPE": "fp8", "HF_TOKEN": "***"},
    "log": "/stage/results/*/fp8/70b/128/log_{job_id}.out",
}
OF_ONE_GPU = {
    **PLANNED,
    "node_id": "t.yaml::tiny",
    "gpus": 1,
    "nodes": 1,
    "minutes": None,
    "jobs": 1,
    "environment": {},
}


def test_a_plan() -> None:
    skipped = [("b.yaml::b200", "the row is for B200, eos has H100")]
    assert "\n".join(progress_text.plan_text([PLANNED, OF_ONE_GPU], skipped)) == (
        "baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]\n"
        "  2,304 GPUs on 288 nodes, about 15 minutes\n"
        "  directory    /recipes/maxtext\n"
        "  command      sbatch -N 288 launch.sh\n"
        "  environment  DTYPE=fp8\n"
        "  environment  HF_TOKEN=***\n"
        "  log          /stage/results/*/fp8/70b/128/log_{job_id}.out\n"
        "\n"
        "t.yaml::tiny\n"
        "  1 GPU on 1 node, run time not known\n"
        "  directory    /recipes/maxtext\n"
        "  command      sbatch -N 288 launch.sh\n"
        "  log          /stage/results/*/fp8/70b/128/log_{job_id}.out\n"
        "\n"
        "b.yaml::b200\n"
        "  skipped: the row is for B200, eos has H100\n"
        "\n"
        "2 rows, 2,305 GPUs on 289 nodes if all run at once, about 587 GPU-hours "
        "without the 1 row whose run time is not known"
    )


def test_a_plan_of_one_row() -> None:
    assert progress_text.plan_text([PLANNED], [])[-1] == (
        "1 row, 2,304 GPUs on 288 nodes if all run at once, about 587 GPU-hours"
    )


@pytest.mark.parametrize(
    ("has_gpus", "text"),
    [(2304, " if all run at once, about"), (1152, " if all run at once (the cluster has 1,152), about")],
)
def test_a_plan_says_where_not_all_rows_can_run_at_once(has_gpus: int, text: str) -> None:
    last = progress_text.plan_text([PLANNED], [], has_gpus=has_gpus)[-1]
    assert last == f"1 row, 2,304 GPUs on 288 nodes{text} 587 GPU-hours"


def test_a_plan_of_nothing() -> None:
    assert progress_text.plan_text([], [("b.yaml::b200", "marked as skipped")]) == [
        "b.yaml::b200",
        "  skipped: marked as skipped",
        "",
        "nothing would be submitted",
    ]


def standing(*rows: RowProgress, gpus: float = math.inf) -> str:
    return progress_text.standing(rows, gpus)


def progress(name: str, state: JobState | None = None, reason: str = "", **facts: Any) -> RowProgress:
    return RowProgress(name, facts.pop("gpus", 8), None if state is None else JobStatus(state, reason=reason), **facts)


def test_where_a_waiting_session_stands() -> None:
    assert standing(
        progress("a", JobState.COMPLETED, over=True),
        progress("b", JobState.RUNNING, gpus=64, steps=23, of=50, step_time_s=4.334, expected_s=500.0),
        progress("c", JobState.RUNNING, gpus=128, steps=40, of=50, step_time_s=4.5, expected_s=500.0),
        progress("d", JobState.PENDING, "Resources", expected_s=500.0),
        progress("e", JobState.PENDING, "Priority", expected_s=527.0),
        progress("f", expected_s=500.0),
        progress("g", expected_s=500.0),
    ) == (
        "gsw: 1 of 7 done, 2 running on 192 GPUs, 2 pending (Priority, Resources), 2 not submitted yet, "
        "at least 8m47s left, b at step 23 of 50, 4.33 s"
    )


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([], "gsw: 0 of 0 done"),
        ([progress("a", JobState.RUNNING, gpus=1)], "gsw: 0 of 1 done, 1 running on 1 GPU"),
        ([progress("a", JobState.RUNNING, gpus=2048)], "gsw: 0 of 1 done, 1 running on 2,048 GPUs"),
        ([progress("a", JobState.PENDING)], "gsw: 0 of 1 done, 1 pending"),
        ([progress("a", JobState.PENDING, "None")], "gsw: 0 of 1 done, 1 pending"),
        (
            [progress(name, JobState.PENDING, reason) for name, reason in zip("abc", ["Z", "A", "Z"], strict=True)],
            "gsw: 0 of 3 done, 3 pending (A, Z)",
        ),
        ([progress("a")], "gsw: 0 of 1 done, 1 not submitted yet"),
        # One that could not be submitted is done, and has no job.
        ([progress("a", over=True)], "gsw: 1 of 1 done"),
        ([progress("a", JobState.COMPLETED, over=True)], "gsw: 1 of 1 done"),
        # One that has ended and whose log is awaited.
        ([progress("a", JobState.COMPLETED)], "gsw: 0 of 1 done"),
        ([progress("a", JobState.UNKNOWN)], "gsw: 0 of 1 done"),
    ],
)
def test_what_there_is_none_of_is_not_told(rows: list[RowProgress], text: str) -> None:
    assert standing(*rows) == text


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"steps": 0, "of": 50}, ""),
        ({"steps": 1, "of": 50, "step_time_s": 9.5}, ", a at step 1 of 50, 9.5 s"),
        ({"steps": 7, "step_time_s": 0.01234}, ", a at step 7, 0.0123 s"),
        ({"steps": 7}, ", a at step 7"),
    ],
)
def test_how_far_a_row_is(facts: dict[str, Any], text: str) -> None:
    assert standing(progress("a", JobState.RUNNING, **facts)) == f"gsw: 0 of 1 done, 1 running on 8 GPUs{text}"


def test_the_row_that_is_the_furthest_from_its_end_is_told_of() -> None:
    rows = [
        progress("short", JobState.RUNNING, steps=5, of=50, expected_s=500.0),
        progress("long", JobState.RUNNING, steps=45, of=50, expected_s=9000.0),
        progress("unknown", JobState.RUNNING, steps=5),
        progress("silent", JobState.RUNNING, steps=0, of=50, expected_s=99000.0),
        progress("pending", JobState.PENDING, steps=5, of=50, expected_s=99000.0),
    ]
    assert standing(*rows).endswith(" left, long at step 45 of 50")
    assert standing(*rows[::-1]).endswith(" left, long at step 45 of 50")


@pytest.mark.parametrize(
    ("rows", "gpus", "left"),
    [
        # The longest job, where all can run at once.
        ([(64, 600.0, 0), (64, 300.0, 0)], math.inf, "10m00s"),
        ([(64, 600.0, 0), (64, 300.0, 0)], 128, "10m00s"),
        # All of them, where they cannot.
        ([(64, 600.0, 0), (64, 300.0, 0)], 64, "15m00s"),
        ([(64, 600.0, 0), (64, 3000.0, 0)], 64, "1h00m"),
        # What is done of a running job does not count again.
        ([(64, 600.0, 25)], math.inf, "5m00s"),
        ([(64, 600.0, 25), (64, 300.0, 45)], 64, "5m30s"),
        ([(64, 600.0, 50), (64, 300.0, 60)], 64, None),
        ([(64, None, 0)], 64, None),
        ([(64, None, 0), (64, 30.0, 0)], 64, "30s"),
    ],
)
def test_how_long_a_session_still_takes_at_least(
    rows: list[tuple[int, float | None, int]], gpus: float, left: str | None
) -> None:
    told = [
        progress(str(number), JobState.PENDING, gpus=taken, expected_s=expected_s, steps=steps, of=50)
        for number, (taken, expected_s, steps) in enumerate(rows)
    ]
    over = progress("over", JobState.COMPLETED, gpus=4096, expected_s=99000.0, over=True)
    text = f"gsw: 1 of {len(rows) + 1} done, {len(rows)} pending" + (f", at least {left} left" if left else "")
    assert standing(*told, over, gpus=gpus) == text


def test_a_row_of_whose_steps_nobody_knows_the_number_takes_what_is_documented() -> None:
    assert progress("a", JobState.RUNNING, steps=30, expected_s=500.0).left_s == 500.0
    assert progress("a", JobState.RUNNING, steps=30, of=50).left_s is None


@pytest.mark.parametrize(
    ("used", "saved", "stopped", "text"),
    [
        (0.0, 0.0, 0, "gsw: 0.0 GPU-hours used"),
        (0.26, 0.0, 0, "gsw: 0.3 GPU-hours used"),
        (9.94, 0.0, 0, "gsw: 9.9 GPU-hours used"),
        (10.4, 0.0, 0, "gsw: 10 GPU-hours used"),
        (12345.6, 0.0, 0, "gsw: 12,346 GPU-hours used"),
        (100.0, 41.2, 1, "gsw: 100 GPU-hours used, about 41 saved by ending 1 job early"),
        (100.0, 0.0, 2, "gsw: 100 GPU-hours used, about 0.0 saved by ending 2 jobs early"),
    ],
)
def test_what_a_session_has_cost(used: float, saved: float, stopped: int, text: str) -> None:
    assert progress_text.gpu_hours(used, saved, stopped) == text
