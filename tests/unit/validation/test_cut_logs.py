"""Logs of each format, cut at each line end: none may be measured. What the demo's own faults leave: tests/truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.demo.writers import Event
from pytest_gsw.errors import LogError
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.reader import read_log
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Baseline, Recipe
from pytest_gsw.validation.checks import read_steps
from pytest_gsw.validation.job_end import check_job
from pytest_gsw.validation.run import Run
from tests.unit.logs import lines
from tests.unit.logs.lines import ANY_ROW, events_of
from tests.unit.validation.ended import measure_as_documented

ENDED_WELL = JobStatus(JobState.COMPLETED, exit_code=0)
ROWS = [row for row in load_tables([bundled_baselines()]) if row.criterion.expected_failure is None]


def is_measured(row: Baseline, log: bytes, path: Path, status: JobStatus = ENDED_WELL) -> bool:
    path.write_bytes(log)
    run = Run("4242", status, path)
    log_format = FORMATS[row.workload.log_format]
    try:
        check_job(run)
        measure_as_documented(row, run, read_steps(row, run, log_format)[0], log_format)
    except LogError:
        return False
    return True


def joined(events: Iterable[Event]) -> bytes:
    return b"".join(event.data for event in events)


def last_step(events: Sequence[Event]) -> int:
    """Where the figure of the last step is printed first."""
    steps = max(event.step for event in events if event.figure_end)
    return next(number for number, event in enumerate(events) if event.figure_end and event.step == steps)


DONE = b"[after training is done] datetime: 2031-02-03 04:05:06 \n"
LAUNCHED = b"[2031-02-03 04:05:06,789] [INFO] [launch.py:272:main] process 4242 spawned with command: ['python']\n"
EXITED = b"[2031-02-03 04:05:06,789] [INFO] [launch.py:367:main] Process 4242 exits successfully.\n"
BRIDGE = b"Step Time : 4.25s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n"


def simulated() -> dict[str, tuple[Baseline, tuple[bytes, ...]]]:
    """A row of each format and metric whose end is told, with its log up to the end of its last step, and the rest."""
    found = {}
    for row in ROWS:
        known = row.recipe.steps is not None or row.workload.log_format in {"megatron", "huggingface"}
        if known and f"{row.workload.log_format} {row.criterion.metric}" not in found:
            events = events_of(row)
            rest = last_step(events) + 1
            found[f"{row.workload.log_format} {row.criterion.metric}"] = (
                row,
                (joined(events[:rest]), joined(events[rest:])),
            )
    return found


def step_lines(log_format: str, *parts: bytes) -> tuple[Baseline, tuple[bytes, ...]]:
    return replace(ANY_ROW, workload=replace(ANY_ROW.workload, log_format=log_format)), parts


STEPS = range(1, 13)
LOGS = {
    **simulated(),
    "deepspeed's pipeline engine": step_lines("deepspeed", b"".join(lines.pipe(step, "4.250") for step in STEPS), b""),
    "deepspeed's engine": step_lines("deepspeed", b"".join(lines.throughput(step, "60") for step in STEPS[2:]), b""),
    "deepspeed's launcher": (
        replace(ANY_ROW, workload=replace(ANY_ROW.workload, log_format="deepspeed"), recipe=Recipe("any")),
        (LAUNCHED + b"".join(lines.throughput(step, "60") for step in STEPS[2:]), EXITED),
    ),
    "megatron-bridge": step_lines("megatron", DONE.replace(b"training is done", b"dataloaders are built") + 12 * BRIDGE, DONE),
    "torchtitan": step_lines("torchtitan", b"".join(lines.titan(step, "1500") for step in STEPS), b""),
    "nemo's printer": step_lines("nemo", b"".join(lines.printer(n, n, "4.25") for n in range(12)), b""),
}  # fmt: skip


def line_ends(log: bytes) -> Iterator[int]:
    end = 0
    while end := log.find(b"\n", end) + 1:
        yield end


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LOGS)
def test_no_row_is_measured_by_a_log_that_is_cut_before_its_last_step(name: str, tmp_path: Path) -> None:
    row, (steps, rest) = LOGS[name]
    path = tmp_path / "run.log"
    assert is_measured(row, steps + rest, path)
    cuts = {*line_ends(steps), *range(len(steps) - 80, len(steps))} - {len(steps)}
    few = replace(row, criterion=replace(row.criterion, min_steps=1))
    assert [steps[:cut][-80:] for cut in sorted(cuts) if is_measured(few, steps[:cut], path)] == []


@pytest.mark.parametrize("name", [name for name in LOGS if "megatron" in name or "paxml" in name or "launcher" in name])
def test_no_row_is_measured_by_a_log_that_lacks_its_last_words(name: str, tmp_path: Path) -> None:
    row, (steps, rest) = LOGS[name]
    words = (b"[after training is done]", b"Elapsed time for <_main>", b"exits successfully")
    end = min(rest.index(word) for word in words if word in rest)
    cuts = [cut for cut in line_ends(rest) if cut <= end]
    assert not any(is_measured(row, steps + rest[:cut], tmp_path / "run.log") for cut in (0, *cuts))


#: Formats that print no number of steps, and show in another way, or by recipe.steps alone, that a log is whole.
WITHOUT_TOTAL = {"paxml", "automodel", "deepspeed"}


@pytest.mark.parametrize("name", FORMATS)
def test_the_total_that_a_log_states_counts_in_a_replay_without_recipe_steps(name: str, tmp_path: Path) -> None:
    row, path, replayed = (
        replace(ANY_ROW, workload=replace(ANY_ROW.workload, log_format=name)),
        tmp_path / "run.log",
        JobStatus(JobState.REPLAYED),
    )
    # Without the recipe's line, by which a log would be its job's own.
    events = [event for event in events_of(row) if b"GSW: " not in event.data]
    log, has_figures = joined(events), FORMATS[name].content == "figure"
    end = log if has_figures else joined(events[: last_step(events)])
    row = replace(row, recipe=Recipe("any"))
    if has_figures:
        path.write_bytes(log)
        metric, _, at = next(iter(read_log(path, FORMATS[name]).figures)).partition(" at ")
        row = replace(row, criterion=replace(row.criterion, metric=metric, at=at or None))
    assert is_measured(row, log, path, replayed)
    cuts = [end[: end.rindex(b"\n", 0, len(end) * share // 10) + 1] for share in (4, 7, 9)]
    measured = [cut[-80:] for cut in cuts if is_measured(row, cut, path, replayed)]
    assert name in WITHOUT_TOTAL or measured == []
