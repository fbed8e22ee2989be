"""A session of several jobs on a real Slurm, watched from another process while it runs and after it was killed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import tiny_table

from .cluster import SlurmCluster
from .conftest import start
from .sessions import Misfortune, Session, Site

TABLE = tiny_table(*(f"gpus: 8, case: r{number}, step_time_s: 3.000, line: {number}" for number in (1, 2, 3)))
#: The job that gets the only node is at its twelfth step; the others wait for the node.
BODY = '{ identity; steps 0 11 3.000; } >>"$log"; READY; stay'


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    yield from start(1)


@pytest.fixture
def site(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()
    slurm.cancel_all()


def gsw(session: Session, *words: str) -> str:
    """What a command in another process prints in the session's project."""
    command = [sys.executable, "-m", "pytest_gsw.cli", *words]
    done = subprocess.run(command, cwd=session.directory, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(session: Session) -> list[dict[str, str]]:
    """Each row as another process sees it, what runs first; nothing before there are any."""
    if not [*session.directory.glob(".gsw/runs/*/live.json")]:
        return []
    found: list[dict[str, str]] = json.loads(gsw(session, "rows", "--run", "last", "--json"))
    return found


def test_a_session_is_watched_from_another_process(slurm: SlurmCluster, site: Site) -> None:
    session = site.run(slurm, Misfortune(BODY, table=TABLE, sbatch="--exclusive, --time=5", options=("-q",)))
    running = session.job_id()

    def is_seen() -> bool:
        seen = rows(session)
        return bool(seen) and seen[0]["step"] == "12 of 20" and all("expected" in one["why"] for one in seen[1:])

    slurm.wait_until(is_seen, "the step of the job that runs, and the starts of those that wait", 60)
    first, *others = rows(session)
    assert (first["state"], first["job"], first["why"]) == ("running", running, "")
    assert [one["state"] for one in others] == ["pending", "pending"]
    assert {one["why"].partition("; expected start ")[0] for one in others} <= {"Resources", "Priority"}
    overview = gsw(session)
    state = r"0 of 3 done, 1 running \(step 12 of 20\), 2 pending \((Priority, )?Resources; expected start .+\), at least \S+ left"
    assert re.search(rf"^rows +{state}$", overview, re.MULTILINE), overview
    assert "error" not in overview + gsw(session, "report", "last", "--format=markdown")

    session.process.send_signal(signal.SIGUSR1)
    line = rf"^{re.escape(first['row'])} +running .* 12 of 20 .* {running}$"
    slurm.wait_until(lambda: re.search(line, session.output, re.MULTILINE) is not None, "the table", 60)

    session.process.kill()
    session.process.wait()
    killed = gsw(session)
    assert re.search(r"^rows  +3 rows: 3 errors$", killed, re.MULTILINE), killed
    assert re.search(r"^next +pytest --gsw-resume=", killed, re.MULTILINE), killed
