from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from pytest_gsw.executor.executor import MOST_POLLS_PER_INTERVAL
from pytest_gsw.executor.limits import Limits
from pytest_gsw.jobs.journal import read_journal
from tests.unit.executor.slurm_model import Cluster, Scenario, Session, simulate

ROWS = 300
FULL = Scenario("full", room=60)
SCENARIOS = [FULL, Scenario("pending", Limits(pending=20)), Scenario("jobs", Limits(jobs=50)), Scenario("alone")]

Run = Callable[..., "tuple[Session, Path]"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A session and its directory: each is run once."""

    @cache
    def run(scenario: Scenario, rows: int = ROWS, seed: int = 1) -> tuple[Session, Path]:
        directory = tmp_path_factory.mktemp(scenario.name)
        return whole(directory, scenario, rows, seed), directory

    return run


def whole(directory: Path, scenario: Scenario, rows: int, seed: int) -> Session:
    session = simulate(rows, directory, scenario, seed=seed)
    # Each row is over once, with a job of its own at any time, and none is lost.
    assert len(session.over) == sum(session.over.values()) == sum(session.outcomes.values()) == rows
    assert not [text for text in session.outcomes if text.startswith("error")]
    assert session.tally.doubled == []
    assert sum(session.tally.taken.values()) == rows + session.repeats
    assert session.tally.questions <= session.budget
    return session


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_row_is_over_once_and_slurm_is_asked_no_more_than_budgeted(run: Run, scenario: Scenario) -> None:
    tally = run(scenario)[0].tally
    assert tally.shortest_pause_s >= Cluster.poll_interval_s / MOST_POLLS_PER_INTERVAL
    assert tally.most_ids <= min(scenario.room, scenario.limits.jobs, ROWS)


def test_a_queue_that_stays_full_for_long_costs_no_row(run: Run) -> None:
    session, directory = run(FULL)
    assert session.tally.most_records == FULL.room
    # Nearly every job had to wait for a place.
    assert session.tally.refused_full > ROWS / 10
    past = read_journal(directory)
    assert set(past.submissions) == set(session.over) == set(past.rows)
    assert all(one.ended is not None for one in past.submissions.values())


def test_rows_that_lost_a_node_run_again_and_jobs_that_hang_are_ended(run: Run) -> None:
    session, _ = run(SCENARIOS[1], seed=3)
    assert session.repeats > 0
    assert session.outcomes["CANCELLED"] == session.tally.hung == session.tally.cancels > 0


def test_a_row_takes_as_much_memory_and_journal_however_many_there_are(run: Run) -> None:
    (few, _), (many, _) = run(SCENARIOS[1], ROWS // 3), run(SCENARIOS[1])
    assert many.held / ROWS <= 1.1 * few.held / (ROWS // 3)
    assert many.held / ROWS < 4096
    assert many.journal / ROWS <= 1.1 * few.journal / (ROWS // 3)
