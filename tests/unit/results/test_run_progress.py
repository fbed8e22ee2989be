"""The progress of a session that goes on: its texts, its file, and how the run's records are held against it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.jobs.journal import Journal
from pytest_gsw.results.junit import read_whole_run
from pytest_gsw.results.manifest import RunManifest, left_text, write_noted
from pytest_gsw.results.record import Record, write_record
from pytest_gsw.results.run_progress import (
    NAME,
    OpenRow,
    RunProgress,
    State,
    read_progress,
    write_progress,
)
from tests.unit.results.records import SLOW, varied

NOW_S = 1795212000.0


def row(name: str, state: State, *, expected_s: float | None = None, **facts: Any) -> OpenRow:
    """An open row of 8 GPUs; its job runs for ``expected_s`` in all."""
    left_s = (
        expected_s if not facts.get("of") or expected_s is None else expected_s * (1 - facts["steps"] / facts["of"])
    )
    return OpenRow(f"t.yaml::{name}", state, facts.pop("gpus", 8), left_s=left_s, **facts)


def text(*rows: OpenRow, **facts: Any) -> str:
    return RunProgress(NOW_S, rows=rows, **facts).text


def test_a_session_that_goes_on() -> None:
    progress = RunProgress(
        NOW_S,
        finished=("t.yaml::a",),
        rows=(
            row("b", State.RUNNING, gpus=64, steps=23, of=50, expected_s=500.0),
            row("c", State.RUNNING, gpus=128, steps=40, of=50, expected_s=500.0),
            row("d", State.PENDING, reason="Resources", expected_s=500.0),
            row("e", State.PENDING, reason="Priority", expected_s=527.0),
            row("f", State.QUEUED, expected_s=500.0),
            row("g", State.ENDED, expected_s=9000.0),
        ),
    )
    assert progress.text == (
        "1 of 7 done, 2 running (step 23 of 50), 2 pending (Priority, Resources), 1 not submitted yet, "
        "1 not judged yet, at least 8m47s left"
    )
    # The time left comes first where a terminal may cut the end.
    assert ", ".join(progress.parts[::-1])[:64] == "at least 8m47s left, 2 running (step 23 of 50), 2 pending (Prior"


@pytest.mark.parametrize(
    ("rows", "facts", "shown"),
    [
        ([], {}, "0 of 0 done"),
        ([row("a", State.RUNNING)], {}, "0 of 1 done, 1 running"),
        ([row("a", State.RUNNING, steps=7)], {}, "0 of 1 done, 1 running (step 7)"),
        ([row("a", State.RUNNING, steps=0, of=50)], {}, "0 of 1 done, 1 running"),
        ([row("a", State.PENDING, reason="None")], {}, "0 of 1 done, 1 pending"),
        (
            [row(name, State.PENDING, reason=reason) for name, reason in zip("abcde", "ZAYZX", strict=True)],
            {},
            "0 of 5 done, 5 pending (A, X, Y and 1 more)",
        ),
        (
            [row("a", State.QUEUED)],
            {"full": "the queue takes no more jobs (QOSMaxSubmitJobPerUserLimit)"},
            "0 of 1 done, 1 not submitted yet (the queue takes no more jobs (QOSMaxSubmitJobPerUserLimit))",
        ),
        # What is not known is never done.
        ([row("a", State.UNKNOWN)], {"finished": ("t.yaml::b",)}, "1 of 2 done, 1 not known yet"),
    ],
)
def test_what_there_is_none_of_is_not_shown(rows: list[OpenRow], facts: dict[str, Any], shown: str) -> None:
    assert text(*rows, **facts) == shown


def test_the_row_that_is_the_furthest_from_its_end_has_its_step_shown() -> None:
    rows = [
        row("short", State.RUNNING, steps=5, of=50, expected_s=500.0),
        row("long", State.RUNNING, steps=45, of=50, expected_s=9000.0),
        row("unknown", State.RUNNING, steps=5),
        row("silent", State.RUNNING, steps=0, of=50, expected_s=99000.0),
    ]
    assert "(step 45 of 50)" in text(*rows)
    assert "(step 45 of 50)" in text(*rows[::-1])


@pytest.mark.parametrize(
    ("rows", "gpus", "left"),
    [
        # The longest job, where all can run at once.
        ([(64, 600.0, 0), (64, 300.0, 0)], 0.0, "10m00s"),
        # All of them, where they cannot.
        ([(64, 600.0, 0), (64, 300.0, 0)], 64, "15m00s"),
        ([(64, 600.0, 0), (64, 3000.0, 0)], 64, "1h00m"),
        # What is done of a running job does not count again.
        ([(64, 600.0, 25)], 0.0, "5m00s"),
        ([(64, 600.0, 25), (64, 300.0, 45)], 64, "5m30s"),
        ([(64, 600.0, 50)], 64, None),
        ([(64, None, 0)], 64, None),
        ([(64, None, 0), (64, 30.0, 0)], 64, "30s"),
    ],
)
def test_how_long_a_session_still_takes_at_least(
    rows: list[tuple[int, float | None, int]], gpus: float, left: str | None
) -> None:
    listed = [
        row(str(number), State.PENDING, gpus=taken, expected_s=expected_s, steps=steps, of=50)
        for number, (taken, expected_s, steps) in enumerate(rows)
    ]
    assert text(*listed, gpus=gpus) == f"0 of {len(rows)} done, {len(rows)} pending" + (
        f", at least {left} left" if left else ""
    )


def test_jobs_that_all_run_have_about_so_long_left() -> None:
    runs = row("a", State.RUNNING, expected_s=240.0)
    assert text(runs) == "0 of 1 done, 1 running, about 4m00s left"
    assert text(runs, row("b", State.RUNNING)).endswith(", at least 4m00s left")
    assert text(runs, row("b", State.ENDED)).endswith(", about 4m00s left")


def test_the_table_has_what_runs_first_and_why_a_row_waits() -> None:
    rows = (
        row("c", State.QUEUED),
        row("b10", State.PENDING, reason="Priority", job_id="8", since_s=NOW_S - 725, expected_start_s=NOW_S + 600),
        row("b9", State.PENDING, reason="Resources", job_id="7", since_s=NOW_S + 3, expected_start_s=NOW_S - 600),
        row("a", State.RUNNING, steps=12, of=50, expected_s=500.0, job_id="9", since_s=NOW_S - 61),
    )
    lines = [*RunProgress(NOW_S, rows=rows).lines]
    assert lines[0] == ("a", "running", "1m01s", "12 of 50", "6m20s", "9", "")
    assert lines[1] == ("b9", "pending", "0s", "", "", "7", "Resources")
    assert lines[2][:6] == ("b10", "pending", "12m05s", "", "", "8")
    assert lines[2][6].startswith("Priority; expected start ")
    assert len(lines[2][6]) == len("Priority; expected start 23:40")
    assert lines[3] == ("c", "not submitted yet", "", "", "", "", "")
    (later,) = RunProgress(NOW_S, rows=(row("a", State.PENDING, expected_start_s=NOW_S + 90_000),)).lines
    assert len(later[6]) == len("expected start 2026-11-29 23:40")


# -- a run's directory -------------------------------------------------------------------------------

ROWS = ("t.yaml::a", "t.yaml::b", "t.yaml::c", "t.yaml::d")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of four rows, whose session writes its progress."""
    journal = Journal(tmp_path)
    journal.session("eos", ROWS)
    journal.close()
    return tmp_path


def record(directory: Path, name: str, recorded_s: float) -> Record:
    found = varied(SLOW, node_id=f"t.yaml::{name}", row=name, recorded_s=recorded_s)
    write_record(directory, found)
    return found


def states(progress: RunProgress | None) -> dict[str, State]:
    assert progress is not None
    return {one.node_id.removeprefix("t.yaml::"): one.state for one in progress.rows}


def test_rows_without_a_record_are_open_while_the_session_goes_on(run: Path) -> None:
    record(run, "a", NOW_S)
    write_noted(run, RunManifest(errors={"t.yaml::d": "its step time is blank"}))

    _, errors, progress = read_whole_run(run, goes_on=True)
    assert errors == {"t.yaml::d": "its step time is blank"}
    assert states(progress) == {"b": State.UNKNOWN, "c": State.UNKNOWN}
    write_progress(run, RunProgress(NOW_S, 1.0, rows=(row("b", State.RUNNING, steps=3),), finished=("t.yaml::c",)))
    records, errors, progress = read_whole_run(run, goes_on=True)
    assert [one.row.id for one in records] == ["a"]
    assert progress is not None
    assert progress.text == "2 of 4 done, 1 running (step 3), 1 not judged yet"

    # The session has ended: they are errors.
    _, errors, progress = read_whole_run(run)
    assert progress is None
    left = left_text(run)
    assert errors == {"t.yaml::b": left, "t.yaml::c": left, "t.yaml::d": "its step time is blank"}


def test_a_record_that_is_newer_than_the_progress_counts(run: Path) -> None:
    write_progress(run, RunProgress(NOW_S, NOW_S - 60, rows=(row("a", State.RUNNING), row("b", State.PENDING))))
    record(run, "a", NOW_S - 1)
    records, _, progress = read_whole_run(run, goes_on=True)
    assert [one.row.id for one in records] == ["a"]
    assert states(progress) == {"b": State.PENDING, "c": State.UNKNOWN, "d": State.UNKNOWN}


def test_a_record_of_an_earlier_session_does_not_count_for_a_row_that_runs_again(run: Path) -> None:
    for name in ("a", "b", "c"):
        record(run, name, NOW_S - 3600)
    facts = {"rows": (row("a", State.RUNNING), row("d", State.QUEUED)), "finished": ("t.yaml::b",)}
    write_progress(run, RunProgress(NOW_S, NOW_S - 60, **facts))  # type: ignore[arg-type]
    records, errors, progress = read_whole_run(run, goes_on=True)
    assert [one.row.id for one in records] == ["c"]
    assert states(progress) == {"a": State.RUNNING, "b": State.ENDED, "d": State.QUEUED}
    assert errors == {}


def test_jobs_of_a_search_are_open_until_they_have_ended(run: Path) -> None:
    for name in ("a", "b", "c", "d"):
        record(run, name, NOW_S)
    search = row("a-n001-1", State.RUNNING)
    write_progress(run, RunProgress(NOW_S, NOW_S - 60, rows=(search,), finished=(*ROWS, "t.yaml::a-n002-1")))
    _, _, progress = read_whole_run(run, goes_on=True)
    assert progress is not None
    assert progress.text == "4 of 5 done, 1 running"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"time_s": "now"}', '{"rows": [{"state": "gone"}]}'])
def test_a_file_that_cannot_be_read_leaves_all_open(run: Path, content: str) -> None:
    (run / NAME).write_text(content)
    assert read_progress(run) == RunProgress()
    _, errors, progress = read_whole_run(run, goes_on=True)
    assert (errors, {*states(progress).values()}) == ({}, {State.UNKNOWN})


def test_the_file_is_private(run: Path) -> None:
    write_progress(run, RunProgress(NOW_S))
    assert (run / NAME).stat().st_mode & 0o777 == 0o600
    assert read_progress(run) == RunProgress(NOW_S)
