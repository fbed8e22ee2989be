"""Every bundled row, with its simulated log cut in each of the demo's ways: none may be measured."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from random import Random

import pytest

from pytest_gsw.demo.damage import damage
from pytest_gsw.demo.simulation import Job, simulate
from pytest_gsw.demo.writers import WRITERS, Event
from pytest_gsw.errors import LogError
from pytest_gsw.examine import Run, check_job, measure_as_documented, read_steps
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.logs.formats import FORMATS
from pytest_gsw.tables.load import bundled_baselines, load_tables
from pytest_gsw.tables.model import Baseline

ENDED_WELL = JobStatus(JobState.COMPLETED, exit_code=0)
ROWS = [row for row in load_tables([bundled_baselines()]) if row.expected_failure is None]
#: The demo's faults that leave a part of the log; the jobs of some end otherwise than this test lets them.
CUTS = ("oom", "fail", "oom-kill", "stall", "short", "truncated")


def events_of(row: Baseline) -> tuple[tuple[Event, ...], dict[str, tuple[Event, ...]]]:
    job = Job(
        id="4242",
        nodes=row.nodes,
        gpus=row.gpus,
        gpus_per_node=row.gpus_per_node,
        size=row.size,
        dtype=row.dtype,
        version="test",
    )
    run = simulate(row, job, None, Random(7), datetime(2031, 2, 3, tzinfo=timezone.utc))  # noqa: S311 - noise
    healthy = tuple(WRITERS[row.log_format](run))
    return healthy, {word: damage(healthy, run, word) for word in CUTS}


def is_measured(row: Baseline, log: bytes, path: Path) -> bool:
    path.write_bytes(log)
    run = Run("4242", ENDED_WELL, path)
    log_format = FORMATS[row.log_format]
    try:
        check_job(run)
        measure_as_documented(row, run, read_steps(row, run, log_format), log_format)
    except LogError:
        return False
    return True


@pytest.mark.parametrize("framework", sorted({row.framework for row in ROWS}))
def test_no_row_is_measured_by_a_cut_log(framework: str, tmp_path: Path) -> None:
    measured = []
    for row in ROWS:
        if row.framework != framework:
            continue
        healthy, cut = events_of(row)
        whole = b"".join(event.data for event in healthy)
        assert is_measured(row, whole, tmp_path / "run.log"), row.id
        steps = [event.step for event in healthy if event.figure_end]
        last = next(number for number, event in enumerate(healthy) if event.figure_end and event.step == max(steps))
        logs = {word: b"".join(event.data for event in events) for word, events in cut.items()}
        logs["a whole line too early"] = b"".join(event.data for event in healthy[:last])
        measured += [(row.id, word) for word, log in logs.items() if is_measured(row, log, tmp_path / "run.log")]
    assert measured == []
