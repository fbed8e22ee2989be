"""``pytest-gsw compare``: two runs, row by row, the worst first."""

from __future__ import annotations

import contextlib
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.history.location import open_history
from pytest_gsw.results.record import Record, write_record
from tests.integration.conftest import Gsw
from tests.messages import wording
from tests.unit.history.runs import run_record

DEFAULT = Path(".gsw", "history.sqlite")
A, B = "20261113-210000-7f3a", "20261114-210000-7f3a"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GSW_HISTORY", raising=False)


@pytest.fixture
def compare(gsw: Gsw) -> Gsw:
    return partial(gsw, "compare")


def row(name: str, number: int, judged: float = 5.0, **changes: Any) -> Record:
    return run_record(number, judged, **{"row": name, "node_id": f"x.yaml::{name}", **changes})


def two_runs() -> list[Record]:
    """Runs 12 and 13: one row slower, one faster, one as before, and three that cannot be compared."""
    return [
        row("slow", 12), row("slow", 13, 6.0),
        row("fast", 12), row("fast", 13, 4.0),
        row("same", 12), row("same", 13, 5.05),
        row("gone", 12), row("new", 13),
        row("broken", 12), row("broken", 13, outcome="error", fact="job 7 ended NODE_FAIL", measured={}),
        row("other", 12), row("other", 13, definition="ffffffffffff"),
        row("made_up", 12), row("made_up", 13, simulated=True, cluster="demo"),
    ]  # fmt: skip


def fill(*records: Record) -> None:
    with open_history(DEFAULT) as history:
        history.add(records)


TEXT = """\
row      before    after    throughput       95 % interval    noise
-----  --------  -------  ------------  ------------------  -------  ------
slow        5 s      6 s       -16.7 %  -20.9 % to -12.2 %   1.7 %*  slower
same        5 s   5.05 s        -1.0 %    -5.4 % to +3.6 %   1.7 %*
fast        5 s      4 s       +25.0 %  +18.2 % to +32.2 %   1.7 %*  faster
* too few jobs to measure the row's noise: the usual value is used

not compared: broken has no figure in the second run: error: job 7 ended NODE_FAIL
not compared: gone is in the first run only
not compared: made_up is simulated in the second run only
not compared: new is in the second run only
not compared: other has another definition: 0123456789ab and then ffffffffffff
8 rows: 1 slower, 1 faster, 1 within noise, 5 not compared
"""


def test_the_worst_comes_first(compare: Gsw) -> None:
    fill(*two_runs())
    assert compare(A, B, status=1) == (TEXT, "")


NO_DATABASE = "the history notes does not take this: file is not a database"
LATER = "the history later.sqlite is of version 7, and this pytest-gsw reads version 2\nnext: name another one, and fill it with pytest-gsw history --add .gsw/runs/*"


@pytest.mark.parametrize(
    ("arguments", "named", "why"),
    [
        ([], "notes", NO_DATABASE),
        (["--history=later.sqlite"], "none", LATER),
    ],
)
def test_directories_are_compared_while_the_history_is_away(
    arguments: list[str],
    named: str,
    why: str,
    compare: Gsw,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for record in two_runs():
        write_record(Path(".gsw", "runs", record.run.id), record)
    monkeypatch.setenv("GSW_HISTORY", named)
    Path("notes").write_text("no database" * 100)
    with contextlib.closing(sqlite3.connect("later.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE gsw_schema (version)")
        connection.execute("INSERT INTO gsw_schema VALUES (7)")
    connection.close()
    assert compare(A, B, *arguments, status=1) == (
        TEXT,
        "pytest-gsw compare: " + wording("no history", why=why) + "\n",
    )


def test_what_is_better_or_the_same_is_no_finding(compare: Gsw) -> None:
    fill(row("fast", 12), row("fast", 13, 4.0), row("same", 12), row("same", 13), row("new", 13))
    compare(A, B)
    compare(B, A, status=1)
    fill(row("lost", 12))
    compare(A, B, status=1)


def test_what_others_wrote_is_shown_without_control_characters(compare: Gsw) -> None:
    fill(row("x", 12), row("x", 13, outcome="error", measured={}, fact="\x1b[2Jgone, token hf_AAAAbbbbCCCCdddd1111"))
    assert compare(A, B, status=1).out == (
        wording("not compared", row="x", run="the second run", why="error: gone, token ***")
        + "\n1 row: 1 not compared\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [A, "tuesday"],
            "there is no run 'tuesday' in .gsw/runs, and none in the history .gsw/history.sqlite\nnext: ls .gsw/runs, or 'last' for the newest",
        ),
        (
            [A, B, "--history=none.sqlite"],
            (
                "there is no history none.sqlite\n"
                "next: run rows, pytest --gsw-cluster=NAME, or name another one with --history=PLACE"
            ),
        ),
    ],
)
def test_what_is_asked_wrongly(arguments: list[str], message: str, compare: Gsw) -> None:
    fill(*two_runs())
    assert compare(*arguments, status=2) == ("", f"pytest-gsw compare: {message}\n")


def test_a_run_that_was_not_compared_as_a_whole_shows_nothing(compare: Gsw) -> None:
    fill(row("same", 12), row("same", 13), row("other", 12), row("other", 13, definition="ffffffffffff"))
    assert compare(A, B, status=6).out.endswith("\n" + wording("within noise", rows="2 rows", same=1, lost=1) + "\n")
    fill(row("slow", 12), row("slow", 13, 6.0))  # what is known to be worse counts more
    compare(A, B, status=1)


def test_a_run_is_not_compared_with_itself(compare: Gsw) -> None:
    fill(row("x", 12))
    same = "not compared: x is of the same job in both, {job}\n1 row: 1 not compared\n"
    own_job = row("x", 12).jobs.last
    assert own_job is not None
    assert compare(A, A, status=6).out == same.format(job=own_job.id)
    fill(row("x", 13, job=own_job))  # as a replay of the first run has it
    assert compare(A, B, status=6).out == same.format(job=own_job.id)
