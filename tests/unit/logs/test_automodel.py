"""NeMo AutoModel's benchmark: the number of an iteration in one line, its time in another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_gsw.logs.model import StepLog
from tests.unit.logs.lines import automodel, indexes, seconds

Read = Callable[[str, bytes], StepLog]


def test_iterations_and_their_times(read: Read) -> None:
    log = read("automodel", automodel(0, "9.125000") + automodel(1, "4.250001"))
    assert (indexes(log), seconds(log), list(log.losses or ())) == ([0, 1], [9.125, 4.250001], [7.5, 7.5])


def test_a_time_without_its_iteration_is_no_step(read: Read) -> None:
    stray = automodel(9, "1.000000").splitlines(keepends=True)[3]
    log = read("automodel", stray + automodel(0, "9.125000") + stray + automodel(1, "4.250000"))
    assert seconds(log) == [9.125, 4.25]


def test_the_line_that_begins_an_iteration_has_no_time(read: Read) -> None:
    begun = automodel(2, "1.000000").splitlines(keepends=True)[0]
    assert indexes(read("automodel", automodel(0, "9.125000") + automodel(1, "4.250000") + begun)) == [0, 1]


def test_a_second_run_begins_anew(read: Read) -> None:
    log = read(
        "automodel",
        automodel(0, "9.125000") + automodel(1, "4.250000") + automodel(2, "4.250000") + automodel(0, "8.000000"),
    )
    assert (log.attempts, seconds(log)) == (2, [8.0])


@pytest.mark.parametrize("figure", ["4.25", "4.25000", "4"])
def test_a_time_with_fewer_decimals_was_cut(read: Read, figure: str) -> None:
    assert indexes(read("automodel", automodel(0, "9.125000") + automodel(1, figure))) == [0]
