"""Runs of a small table on a real cluster, as their records would be: the demo's own are simulated, and refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gsw.history.location import open_history
from pytest_gsw.results.record import Record, write_record
from pytest_gsw.stats.figures import figures
from pytest_gsw.tables.bundled import accepted_file
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import definition_hash
from tests.unit.results.records import JOB, SLOW, varied

#: What the simulated recipe's logs name.
IMAGE = "simulation"
SECONDS = (1.02, 1.03, 1.04, 1.05, 1.06)


def record(table: Path, number: int, seconds: float, row: int = 0, **changes: Any) -> Record:
    """What one run's job of one row of a table left."""
    baseline = load_table(table)[row]
    name = f"{table.parent.name}/{table.name}"
    whole = varied(
        SLOW,
        run_id=f"202611{10 + number}-221000-7f3a",
        row=baseline.id,
        node_id=f"{name}::{baseline.id}",
        baseline=f"{name}:{baseline.location.line}",
        document=baseline.source.document,
        document_line=baseline.source.line,
        cluster="eos",
        outcome="passed",
        workload=baseline.workload.name,
        dtype=baseline.workload.dtype,
        gpus=baseline.gpus,
        documented=dict(vars(baseline.documented)),
        measured=dict(vars(figures(baseline, seconds, None))),
        definition=definition_hash(baseline, IMAGE),
        image=IMAGE,
        # Another cluster has jobs of its own.
        job=replace(
            JOB,
            id=f"{changes.get('cluster', 'eos').removeprefix('eos')}{481220 + number}",
            end_s=1794348000.0 + 86400 * number,
        ),
    )
    return varied(whole, **changes)


def remember(
    history: Path,
    table: Path,
    seconds: Sequence[float],
    begin_s: float,
    row: int = 0,
    *,
    of_run: Callable[[int], dict[str, Any]] = lambda _: {},
    **changes: Any,
) -> None:
    """Let a history know one run for each of these times, a day apart; it may be told of them again, and of more."""
    records = []
    for number, each in enumerate(seconds):
        one = record(table, number, each, row, **changes, **of_run(number))
        assert one.jobs.last is not None
        end_s = begin_s + 86400 * number
        job = replace(one.jobs.last, id=f"{row}{481220 + number}", start_s=end_s - 600, end_s=end_s)
        records.append(varied(one, run_id=f"night-{number:03}", job=job, recorded_s=end_s))
    history.parent.mkdir(exist_ok=True)
    with open_history(history) as opened:
        opened.add(records)


def write_runs(results: Path, table: Path, seconds: tuple[float, ...] = SECONDS, **changes: Any) -> list[Path]:
    """The directories of one run for each of these times."""
    directories = []
    for number, each in enumerate(seconds):
        one = record(table, number, each, **changes)
        directories.append(results / "runs" / one.run.id)
        write_record(directories[-1], one)
    return directories


def accept(table: Path, seconds: float, image: str | None = IMAGE, cluster: str = "demo") -> str:
    """Let a cluster accept a time for the first row of a table; returns the definition that it counts under."""
    row = load_table(table)[0]
    definition = definition_hash(row, image)
    named = "" if image is None else f"    image: {image}\n"
    accepted_file(table).write_text(
        f"accepted:\n  - row: {row.id}\n    cluster: {cluster}\n    step_time_s: {seconds}\n    jobs: 7\n"
        f'    spread: 0.83%\n    job_ids: "481220, 481221"\n{named}    date: 2026-11-20\n    definition: "{definition}"\n'
    )
    return definition
