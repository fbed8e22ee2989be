"""What a session does without, by the runs that it knows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.history.cluster_series import series_of_cluster
from pytest_gsw.history.comparison import suspect_text
from pytest_gsw.history.location import open_history
from pytest_gsw.history.node_search import SlowNode
from pytest_gsw.results.record import Record
from pytest_gsw.session.session_history import ClusterPeers, SessionHistory
from tests.unit.history.test_drift import run
from tests.unit.history.test_row_history import ROWS, cluster
from tests.unit.results.records import JOB, SLOW, varied
from tests.unit.rows import LLAMA2_FP8_X128


def slow(*nodes: str, days_ago: int) -> SlowNode:
    seen = replace(run(0), time_s=time.time() - days_ago * 86400)
    return SlowNode(nodes, -0.1, (seen,), (), recovered=False)


def test_confirming_jobs_do_without_slow_nodes_that_are_there() -> None:
    runs = SessionHistory(None, Path("/nowhere"), "eos")
    assert (runs.slow, runs.slow_nodes) == ((), ())
    runs.known_slow = (slow("n1", "n2", days_ago=1), slow("n3", days_ago=31), slow("n2", "n4", days_ago=29))
    assert runs.slow == runs.known_slow
    assert runs.slow_nodes == ("n1", "n2", "n4")


def test_a_job_had_a_slow_node_where_it_ran_with_all_that_cannot_be_told_apart_since_they_are_slow() -> None:
    runs = SessionHistory(None, Path("/nowhere"), "eos")
    runs.known_slow = (slow("n1", "n2", days_ago=1), slow("n5", days_ago=3))
    now_s = time.time()

    found = [(nodes, runs.had_slow_node(nodes, now_s)) for nodes in ("n[1-4]", "n1", "n[3-5]", "n[6-9]", "")]

    assert found == [("n[1-4]", True), ("n1", False), ("n[3-5]", True), ("n[6-9]", False), ("", False)]
    assert not runs.had_slow_node("n[1-4]", now_s - 2 * 86400)


def test_a_slow_switch_explains_no_job_and_none_of_its_nodes_is_avoided() -> None:
    runs = SessionHistory(None, Path("/nowhere"), "eos")
    runs.known_slow = (replace(slow("switch s1", days_ago=1), below="n[1-2]"),)
    assert runs.slow_nodes == ()
    assert not runs.had_slow_node("n[1-4]", time.time())
    assert suspect_text(runs.slow[0]) == "switch s1 (n[1-2]) (-10.0 %, 1 job)"


def test_switches_are_asked_for_once_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Mapping[str, str] | None] = [None, {}, {"switch s1": "n[1-2]"}, {"switch s1": "n[1-4]"}]
    asked: list[Mapping[str, str] | None] = []

    def ask() -> Mapping[str, str] | None:
        asked.append(answers[len(asked)])
        return asked[-1]

    now_s = time.time()
    for day, stored in ((0, None), (0, {}), (6, {}), (8, {"switch s1": "n[1-2]"}), (16, {"switch s1": "n[1-4]"})):
        monkeypatch.setattr(time, "time", lambda day=day: now_s + day * 86400)
        with open_history(tmp_path / "history.sqlite") as history:
            SessionHistory(history, tmp_path, "eos").note_switches(ask)
            topology = series_of_cluster(history, "eos").topology
            assert (None if topology is None else topology.body) == stored
            assert series_of_cluster(history, "another").topology is None
    assert asked == answers


def test_switches_are_not_asked_for_without_a_history(tmp_path: Path) -> None:
    SessionHistory(None, tmp_path, "eos").note_switches(lambda: pytest.fail("asked"))


# -- the other rows of a session -------------------------------------------------------------------


KNOWN = [(replace(LLAMA2_FP8_X128, id=row), None) for row in (*ROWS, "new")]


@pytest.fixture
def over() -> set[str]:
    """Rows of which nothing more is to come."""
    return set()


@pytest.fixture
def others(tmp_path: Path, over: set[str]) -> ClusterPeers:
    found = ClusterPeers(SessionHistory(None, tmp_path, None), KNOWN, "tonight", over.__contains__)
    vars(found)["together"] = cluster(30)
    return found


def end(others: ClusterPeers, *rows: str, factor: float = 1.0) -> None:
    for row in rows:
        others.add_first_job(row, (ROWS.index(row) + 1) * factor)


def test_without_a_history_they_say_nothing(tmp_path: Path) -> None:
    alone = ClusterPeers(SessionHistory(None, tmp_path, None), KNOWN[:1], "tonight", lambda _: False)
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


def test_the_newest_records_of_rows(tmp_path: Path) -> None:
    def ran(row: str, run_id: str, nodes: str, **keys: object) -> Record:
        job = replace(JOB, id=run_id + row + nodes, nodes=nodes, end_s=JOB.known_begin_s + float(run_id[-1]))
        node_id = f"a.yaml::{row}"
        return varied(SLOW, row=row, node_id=node_id, run_id=run_id, job=job, definition="d", experiment="e", **keys)

    tiles = [ran(f"a@n{tile:02}", "run-2", f"n{tile:02}", tile=f"n{tile:02}") for tile in range(12)]
    records = [ran("a", "run-1", "n01"), *(ran(row, "run-2", "n01") for row in "bc"), ran("d", "run-3", "n01"), *tiles]
    with open_history(tmp_path / "history.sqlite") as history:
        history.add(records)
        found = SessionHistory(history, tmp_path, SLOW.run.cluster).newest_records("abc")
    assert {(one.run.id, one.row.row_id) for one in found} == {("run-2", row) for row in "abc"}
    assert len(found) == 9 + 2
    assert SessionHistory(None, tmp_path, "eos").newest_records(("a",)) == []
