"""What a session does without, by the runs that it knows."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pytest_gsw.history.row_history import SlowNode
from pytest_gsw.session.session_history import SessionHistory
from tests.unit.history.test_drift import run


def slow(*nodes: str, days_ago: int) -> SlowNode:
    seen = replace(run(0), time_s=time.time() - days_ago * 86400)
    return SlowNode(nodes, -0.1, (seen,), (), mended=False)


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
