"""The commands of a row's page: the one of the first page among them, before all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.reports.html.row_page import all_commands
from pytest_gsw.reports.run_report import Row
from pytest_gsw.results.next_steps import next_command
from pytest_gsw.results.record import Record
from tests.unit.reports.nights import BROKEN, FAST, PASSED, SLOW
from tests.unit.results.records import varied

DIRECTORY = Path("runs/20261216")


def inconclusive(reason: str, sigma: float = 0.03) -> Record:
    return varied(SLOW, outcome="inconclusive", reason=reason, sigma=sigma, sigma_jobs=30, log="log.out")


@pytest.mark.parametrize(
    ("record", "first"),
    [
        (SLOW, "see whether it stays"),
        (varied(SLOW, repeats=(SLOW.jobs.last,)), "list its runs"),
        (FAST, "propose the new figure"),
        (BROKEN, "run it again"),
        (PASSED, "run it again"),
        (varied(PASSED, drift="slower by 3 %"), "see the drift"),
        (inconclusive("too good to be true"), "look at what was measured"),
        (inconclusive("within noise", 0.015), "run it often enough to tell"),
        (inconclusive("within noise", 0.2), "list its runs"),
        (inconclusive("canary"), "run it again"),
        (varied(SLOW, cluster="replay"), "run it again"),
    ],
)
def test_the_command_of_the_first_page_comes_first_and_says_what_it_does(record: Record, first: str) -> None:
    row = Row(record, "x")
    listed = all_commands(row, DIRECTORY)
    assert listed[0] == (first, next_command(row.record, row.needs, DIRECTORY))
    texts = [text for _, text in listed]
    assert len(texts) == len(set(texts))
    assert all(what for what, _ in listed)
