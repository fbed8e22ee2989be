"""Runs that are resumed after their session was killed or interrupted, here and on another machine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from .projects import Project, ended, rows_of, until
from .test_exactly_once import check_once
from .toy_slurm import ToySlurm

_ROWS = 12

#: An owner without a sign for this long is gone.
_GONE_SOON = """
import pytest_gsw.jobs.ssh.login as login
login.OWNER_GONE_S, login._OWNER_LOOK_S = 2.0, 0.1
"""
#: A session shows a sign every ten seconds.
_LIVES = """
import pytest_gsw.jobs.ssh.login as login
login.OWNER_GONE_S, login._OWNER_LOOK_S = 60.0, 0.1
"""


@pytest.fixture
def elsewhere(project: Project, tmp_path: Path) -> Iterator[Project]:
    """The same project on another machine, without any file of the first one's runs."""
    other = Project(tmp_path / "elsewhere", project.there, project.config)
    with ended([other]):
        yield other


def kill_at_random(project: Project, slurm: ToySlurm, chance: random.Random) -> str:
    """Start a session of some rows and kill it once some are submitted; return its run's id."""
    project.write(rows_of(_ROWS), "sleep $((RANDOM % 3)); perfect")
    session, submitted = project.start(), chance.randrange(1, _ROWS + 1)
    until(lambda: len(slurm.submissions) >= submitted, session.output)
    if chance.random() < 0.5:  # some results are there as well
        until(lambda: "PASSED" in session.output, session.output)
    session.kill()
    return project.run_id


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_session_is_resumed_at_once(project: Project, toy_slurm: ToySlurm, seed: int) -> None:
    run_id = kill_at_random(project, toy_slurm, random.Random(seed))  # noqa: S311 - no secret
    resumed = project.run(f"--gsw-resume={run_id}")
    assert resumed.process.returncode == 0, resumed.output
    check_once(project, toy_slurm, _ROWS)


@pytest.mark.parametrize("seed", [3, 4])
def test_a_killed_session_is_resumed_elsewhere(
    project: Project, elsewhere: Project, toy_slurm: ToySlurm, seed: int
) -> None:
    run_id = kill_at_random(project, toy_slurm, random.Random(seed))  # noqa: S311 - no secret
    elsewhere.write(rows_of(_ROWS), conftest=_GONE_SOON)
    resumed = elsewhere.run(f"--gsw-resume={run_id}", "--gsw-cluster=eos")
    assert resumed.process.returncode == 0, resumed.output
    check_once(elsewhere, toy_slurm, _ROWS)


def test_a_run_of_a_session_that_lives_is_not_resumed(
    project: Project, elsewhere: Project, toy_slurm: ToySlurm, tmp_path: Path
) -> None:
    body = f"until [[ -e {tmp_path}/end ]]; do sleep 0.1; done; perfect"
    project.write(rows_of(2), body)
    elsewhere.write(rows_of(2), body, conftest=_LIVES)
    first = project.start()
    until(lambda: len(toy_slurm.submissions) == 2, first.output)
    second = elsewhere.run(f"--gsw-resume={project.run_id}", "--gsw-cluster=eos")
    assert second.process.returncode == pytest.ExitCode.USAGE_ERROR, second.output
    assert "INTERNALERROR" not in second.output
    assert "next:" in second.output
    (tmp_path / "end").touch()
    assert first.end() == 0
    check_once(project, toy_slurm, 2)
    # What the first one has found since is fetched.
    third = elsewhere.run(f"--gsw-resume={project.run_id}", "--gsw-cluster=eos")
    assert third.process.returncode == 0, third.output
    check_once(elsewhere, toy_slurm, 2)
