"""Each job is submitted exactly once, whatever happens to the connection."""

from __future__ import annotations

import os
import random

import pytest

from .link import Link
from .projects import Project, Session, rows_of, until
from .toy_slurm import ToySlurm

#: Submissions of one session; a nightly run has more.
_SUBMISSIONS = int(os.environ.get("GSW_SSH_SUBMISSIONS", "100"))


def check_once(project: Project, slurm: ToySlurm, rows: int) -> None:
    """Each row has one job, and has passed."""
    outcomes = project.outcomes()
    assert slurm.twice == []
    assert len(slurm.submissions) == rows
    assert {row: outcome for row, outcome in outcomes.items() if outcome != "passed"} == {}
    assert len(outcomes) == rows


def cut_at_random(session: Session, link: Link, chance: random.Random, most: int) -> int:
    """Cut the link after some bytes of a direction, again and again; return the number of cuts.

    No two of them are at the same step of a request, and some are within the start of a connection.
    """
    cuts = 0
    while cuts < most and session.process.poll() is None:
        made = link.traffic.made
        sides = chance.choice([("to_client",), ("to_server",), ("to_client", "to_server")])
        link.cut_after(**{side: int(chance.expovariate(1 / 20_000)) for side in sides})
        until(lambda made=made: link.traffic.made > made or session.process.poll() is not None)  # type: ignore[misc]
        cuts += 1
    link.cut_after()
    return cuts


@pytest.mark.parametrize("seed", [1])
def test_a_link_that_is_cut_at_random(project: Project, link: Link, toy_slurm: ToySlurm, seed: int) -> None:
    seed = int(os.environ.get("GSW_SSH_SEED", seed))
    project.write(rows_of(_SUBMISSIONS), "sleep $((RANDOM % 3)); perfect")
    session = project.start()
    cuts = cut_at_random(session, link, random.Random(seed), most=20 + _SUBMISSIONS // 10)  # noqa: S311 - no secret
    session.end()
    print(f"seed {seed}: {cuts} cuts, {link.traffic}\n{session.output[-3000:]}")  # noqa: T201 - of a test that fails
    check_once(project, toy_slurm, _SUBMISSIONS)
    assert link.traffic.most <= 1


def test_an_answer_that_is_lost(project: Project, link: Link, toy_slurm: ToySlurm) -> None:
    """The link is cut once Slurm has the job, and before sbatch says so."""
    toy_slurm.turn("sbatch_sleep_after_s", 1)
    project.write(rows_of(1))
    session = project.start()
    until(lambda: toy_slurm.submissions, session.output)
    link.cut()
    assert session.end() == 0, session.output
    check_once(project, toy_slurm, 1)
    assert link.traffic.made > 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_sbatch_that_does_not_answer(project: Project, toy_slurm: ToySlurm, when: str) -> None:
    """It is ended by its time limit: once Slurm has the job, or before."""
    toy_slurm.turn(f"sbatch_sleep_{when}_s", 600)
    project.write(
        rows_of(1), conftest="import pytest_gsw.jobs.slurm.client as client\nclient.COMMAND_TIMEOUT_S = 1.0\n"
    )
    session = project.start()
    keys = project.there / "stage" / ".gsw"
    until(lambda: any('"timed_out": true' in path.read_text() for path in keys.glob("*/keys/*1")), session.output)
    toy_slurm.turn(f"sbatch_sleep_{when}_s")
    assert session.end() == 0, session.output
    check_once(project, toy_slurm, 1)


def test_a_job_that_the_queue_shows_late(project: Project, toy_slurm: ToySlurm) -> None:
    """A busy controller takes the job, answers with a time-out, and does not answer queries for a while."""
    toy_slurm.turn(
        "sbatch_error_after", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    )
    for name in ("squeue", "sacct"):
        toy_slurm.turn(f"{name}_error", "error: Unable to contact slurm controller (connect failure)")
    project.write(rows_of(1))
    session = project.start()
    keys = project.there / "stage" / ".gsw"
    until(lambda: any('"refused"' in path.read_text() for path in keys.glob("*/keys/*1")), session.output)
    toy_slurm.turn("sbatch_error_after")
    for name in ("squeue", "sacct"):
        toy_slurm.turn(f"{name}_error")
    assert session.end() == 0, session.output
    check_once(project, toy_slurm, 1)
