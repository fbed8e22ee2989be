"""Which nodes had more at once than they have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_gsw.results.record import Record
from pytest_gsw.results.summary import Crowd, worst_crowd

from .records import JOB, SLOW


def ran(gpus: int, nodes: str, start_s: float | None, end_s: float | None) -> Record:
    job = replace(JOB, nodes=nodes, start_s=start_s, end_s=end_s)
    return replace(SLOW, row=replace(SLOW.row, gpus=gpus), jobs=replace(SLOW.jobs, last=job, attempts=(), repeats=()))


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([ran(16, "n[1-2]", 0, 10), ran(8, "n2", 5, 15)], (Crowd("n2", 2, 16), 1)),
        ([ran(32, "n[1-4]", 0, 10), ran(16, "n[1-2]", 0, 10), ran(8, "n1", 9, 20)], (Crowd("n1", 3, 24), 2)),
        # One after the other, side by side, and small rows that fill a node together.
        ([ran(16, "n[1-2]", 0, 10), ran(16, "n[1-2]", 10, 20)], None),
        ([ran(16, "n[1-2]", 0, 10), ran(16, "n[3-4]", 0, 10)], None),
        ([ran(4, "n1", 0, 10), ran(4, "n1", 0, 10)], None),
        # Each overlaps the first, and they do not overlap each other.
        ([ran(4, "n1", 0, 30), ran(4, "n1", 0, 10), ran(4, "n1", 10, 20)], None),
        ([ran(8, "n1", 0, None), ran(8, "n1", None, 10), ran(8, "", 0, 10)], None),
        ([], None),
    ],
)
def test_a_node_has_more_at_once_than_it_has(records: list[Record], found: tuple[Crowd, int] | None) -> None:
    assert worst_crowd(records, 8) == found


def test_every_job_of_a_row_counts() -> None:
    first = ran(8, "n1", 0, 10)
    last = first.jobs.last
    assert last is not None
    twice = replace(first, jobs=replace(first.jobs, last=replace(last, start_s=10, end_s=20), attempts=(last,)))
    assert worst_crowd([twice, ran(8, "n1", 2, 8)], 8) == (Crowd("n1", 2, 16), 1)
