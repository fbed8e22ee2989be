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
