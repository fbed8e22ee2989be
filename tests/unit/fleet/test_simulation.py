from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.fleet.fleet import MOST_POLLS_PER_INTERVAL
from pytest_gsw.fleet.limits import Limits
from pytest_gsw.jobs.journal import read_journal
from tests.unit.fleet.slurm_model import Cluster, Scenario, Session, simulate

ROWS = 300
FULL = Scenario("full", max_job_count=60)
SCENARIOS = [FULL, Scenario("pending", Limits(pending=20)), Scenario("jobs", Limits(jobs=50)), Scenario("alone")]


def run(directory: Path, scenario: Scenario, *, rows: int = ROWS, seed: int = 1) -> Session:
    directory.mkdir(exist_ok=True)
    return simulate(rows, directory, scenario, seed=seed, look_s=10.0, fsync=False)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_row_is_over_once_and_slurm_is_asked_no_more_than_budgeted(tmp_path: Path, scenario: Scenario) -> None:
    session = run(tmp_path, scenario)
    tally = session.tally
    assert session.problems() == []
    assert len(session.over) == sum(session.over.values()) == sum(session.outcomes.values()) == ROWS
    assert sum(tally.taken.values()) == ROWS + session.repeats
    assert tally.questions <= session.budget
    assert tally.shortest_pause_s >= Cluster.poll_interval_s / MOST_POLLS_PER_INTERVAL
    assert tally.most_ids <= min(scenario.max_job_count, scenario.limits.jobs, ROWS)


def test_a_queue_that_stays_full_for_long_costs_no_row(tmp_path: Path) -> None:
    session = run(tmp_path, FULL)
    assert session.tally.most_records == FULL.max_job_count
    # Nearly every job had to wait for a place, and sbatch gave up more than once before there was one.
    assert session.tally.refused_full > ROWS / 10
    assert session.problems() == []


def test_rows_that_lost_a_node_run_again_and_jobs_that_hang_are_ended(tmp_path: Path) -> None:
    session = run(tmp_path, SCENARIOS[1], seed=3)
    assert session.repeats > 0
    assert session.outcomes["CANCELLED"] == session.tally.hung > 0
    assert session.tally.requests["scancel"] == session.tally.hung
    assert session.problems() == []


def test_a_row_takes_as_much_memory_and_journal_however_many_there_are(tmp_path: Path) -> None:
    few, many = (run(tmp_path / str(rows), SCENARIOS[1], rows=rows) for rows in (ROWS // 3, ROWS))
    assert many.held / many.rows <= 1.1 * few.held / few.rows
    assert many.held / many.rows < 4096
    assert many.journal / many.rows <= 1.1 * few.journal / few.rows


def test_the_journal_of_a_whole_session_can_be_read(tmp_path: Path) -> None:
    session = run(tmp_path, FULL)
    past = read_journal(tmp_path)
    assert set(past.submissions) == set(session.over) == set(past.rows)
    assert all(one.ended is not None for one in past.submissions.values())
