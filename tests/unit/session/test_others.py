"""What the other rows of a session say, while their jobs end one after another."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.session.session_history import ClusterPeers, SessionHistory
from tests.unit.history.test_row_history import ROWS, cluster


@pytest.fixture
def over() -> set[str]:
    """Rows of which nothing more is to come."""
    return set()


@pytest.fixture
def others(tmp_path: Path, over: set[str]) -> ClusterPeers:
    found = ClusterPeers(SessionHistory(None, tmp_path, None), (), "tonight", over.__contains__)
    vars(found)["together"] = cluster(30)
    return found


def end(others: ClusterPeers, *rows: str, factor: float = 1.0) -> None:
    for row in rows:
        others.add_first_job(row, (ROWS.index(row) + 1) * factor)


def test_without_a_history_they_say_nothing(tmp_path: Path) -> None:
    alone = ClusterPeers(SessionHistory(None, tmp_path, None), (), "tonight", lambda _: False)
    alone.add_first_job("row0", 1.0)

    assert not alone.effect_may_change
    assert alone.possible_effects("row0", 0.05) == (None,)
    assert alone.effect_so_far("row0", 0.05) is None


def test_they_are_waited_for_until_enough_have_ended(others: ClusterPeers) -> None:
    end(others, *ROWS[:7])
    assert others.possible_effects("row0", 0.05) == ()

    end(others, "row7")
    assert len(others.possible_effects("row0", 0.05)) == 2

    end(others, *ROWS[8:])
    assert len(others.possible_effects("row0", 0.05)) == 1


def test_rows_that_cannot_be_measured_are_not_waited_for(others: ClusterPeers, over: set[str]) -> None:
    end(others, *ROWS[:8])
    over.add("row8")
    others.add_first_job("row9", None)

    assert len(others.possible_effects("row0", 0.05)) == 1


def test_with_too_few_that_can_be_measured_they_say_nothing(others: ClusterPeers, over: set[str]) -> None:
    end(others, *ROWS[:7])
    over.update(ROWS[7:])

    assert not others.effect_may_change
    assert others.possible_effects("row0", 0.05) == (None,)


def test_the_first_job_of_a_row_counts(others: ClusterPeers) -> None:
    end(others, *ROWS)
    end(others, *ROWS, factor=2.0)

    run = others.effect_so_far("row0", 0.05)
    assert run is not None
    assert abs(run.effect) < 0.02
    assert not run.is_incident


def test_a_row_whose_job_had_a_slow_node_hears_the_others_and_has_no_say(others: ClusterPeers) -> None:
    end(others, *ROWS[2:])
    others.add_first_job("row0", 2.0, had_slow_node=True)
    others.add_first_job("row1", 4.0, had_slow_node=True)

    (run,) = others.possible_effects("row0", 0.05)

    assert run is not None
    assert not run.is_counted
    assert abs(run.effect) < 0.02
    (counted,) = others.possible_effects("row5", 0.05)
    assert counted is not None
    assert (counted.rows, counted.is_counted) == (8, True)


def test_where_most_jobs_had_a_slow_node_they_say_nothing(others: ClusterPeers) -> None:
    end(others, *ROWS[:7])
    for row in ROWS[7:]:
        others.add_first_job(row, 100.0, had_slow_node=True)

    assert not others.effect_may_change
    assert others.possible_effects("row9", 0.05) == (None,)


def test_a_row_of_which_no_runs_are_known_is_judged_by_itself(others: ClusterPeers) -> None:
    end(others, *ROWS)
    others.add_first_job("new", 1.0)

    assert others.possible_effects("new", 0.05) == (None,)
