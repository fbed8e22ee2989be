"""What the executor does on a real Slurm: runs rows again, waits for the controller, ends jobs early, shares workers."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import properties
from tests.messages import wording

from .cluster import SlurmCluster
from .sessions import PASSED, ROW, Misfortune, Session, Site, error
from .test_resume import project

__all__ = ["project"]  # a fixture


@pytest.fixture
def site(slurm8: SlurmCluster, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()
    slurm8.cancel_all()


def events(session: Session, kind: str) -> list[dict[str, object]]:
    """The events of a kind in the session's journal."""
    paths = session.directory.glob(".gsw/runs/*/journal.jsonl")
    lines = [json.loads(line) for path in paths for line in path.read_text().splitlines() if line]
    return [line for line in lines if line["event"] == kind]


def until(session: Session, kind: str) -> None:
    deadline_s = time.monotonic() + 300
    while not events(session, kind):
        assert time.monotonic() < deadline_s, f"no {kind} in the journal"
        time.sleep(0.05)


def test_retries_run_a_row_that_lost_its_node_again_on_another(slurm8: SlurmCluster, site: Site) -> None:
    # The first job stays until its node is lost; any other ends well.
    body = 'perfect; READY; once=$STAGE_PATH/once; if [ ! -e "$once" ]; then touch "$once"; sleep 300; fi'
    session = site.run(slurm8, Misfortune(body, options=("--gsw-retries=1",)))
    first = session.job_id()
    node = slurm8.run("squeue", "-h", "-j", first, "-o", "%N").strip()
    slurm8.kill_slurmd(node)
    try:
        told = session.end()
    finally:
        slurm8.start_slurmd(node)
    assert told.seen == PASSED
    assert told.job != first
    seen = properties(session.case())
    assert seen["gsw_job_nodes"] != node
    assert seen["gsw_attempts"] == "2"
    assert seen["gsw_attempt_1"] == f"{first} NODE_FAIL on {node}: node failure"
    output = (session.directory / "output").read_text()
    assert wording("lost a node", row=ROW, job=first, node=node, without=node) in output
    assert "rows that ran again" in output
    (path,) = session.directory.glob(".gsw/runs/*/records/*.json")
    (attempt,) = json.loads(path.read_text())["attempts"]
    assert (attempt["id"], attempt["state"], attempt["nodes"]) == (first, "NODE_FAIL", node)
    assert attempt["reason"].startswith(f"NodeLost: {node} (down")


def test_retries_never_run_a_regression_again(slurm8: SlurmCluster, site: Site) -> None:
    session = site.run(slurm8, Misfortune('{ identity; steps 0 19 1.25; } >>"$log"', options=("--gsw-retries=3",)))
    assert session.end().seen.outcome == "failed"
    assert len(events(session, "submitted")) == 1


def test_a_controller_that_restarts_is_waited_for(slurm8: SlurmCluster, site: Site) -> None:
    slurm8.stop_slurmctld()
    try:
        session = site.run(slurm8, Misfortune("perfect"))
        until(session, "intent")
        time.sleep(5)
        assert session.process.poll() is None, (session.directory / "output").read_text()
    finally:
        slurm8.start_slurmctld()
    assert session.end().seen == PASSED
    assert len(events(session, "submitted")) == 1
    (name,) = {str(event["name"]) for event in events(session, "intent")}
    assert slurm8.run("sacct", "-X", "-n", "-P", "-o", "JobName", f"--name={name}").split() == [name]


def test_a_controller_that_stays_away_is_an_error_in_slurms_own_words(slurm8: SlurmCluster, site: Site) -> None:
    slurm8.stop_slurmctld()
    try:
        limit = "import pytest_gsw.jobs.launcher\npytest_gsw.jobs.launcher.Launcher.unknown_limit_s = 1.0\n"
        session = site.run(slurm8, Misfortune("perfect", conftest=limit))
        session.process.wait(150)
    finally:
        slurm8.start_slurmctld()
    output = (session.directory / "output").read_text()
    assert session.process.returncode == pytest.ExitCode.TESTS_FAILED
    assert (
        wording("submission unknown", row="tiny_1b_bf16[H100x8]", why="squeue: " + wording("no controller")) in output
    )
    assert "next       scontrol ping; squeue --name=gsw-" in output


def test_stall_ends_a_job_that_hangs(slurm8: SlurmCluster, site: Site) -> None:
    body = '{ identity; steps 0 9; } >>"$log"; READY; sleep 300'
    session = site.run(slurm8, Misfortune(body, defaults={"stall": 0.05}))
    told = session.end()
    assert told.seen._replace(message="") == error("")
    assert told.seen.message.startswith(wording("stalled", step=10, steps=20, time=""))
    assert slurm8.run("sacct", "-X", "-n", "-P", "-o", "State", "-j", told.job).startswith("CANCELLED")


def test_the_last_step_is_news_at_once(slurm8: SlurmCluster, site: Site) -> None:
    """Slurm is asked when the log shows the last step, not only when its turn has come."""
    interval_s = 12
    squeue = f'date +%s >>asked; exec {shutil.which("squeue", path=slurm8.environ["PATH"])} "$@"'
    misfortune = Misfortune(
        f'identity >>"$log"; sleep {interval_s * 3 // 2}; steps 0 19 >>"$log"',
        shims={"squeue": squeue},
        defaults={"poll_interval": interval_s},
    )
    session = site.run(slurm8, misfortune)
    assert session.end().seen == PASSED
    asked_s = [int(line) for line in (session.directory / "asked").read_text().split()]
    *_, before, last = asked_s
    assert last - before < interval_s - 1


def test_sessions_side_by_side_on_one_staging_area_mix_nothing(slurm8: SlurmCluster, site: Site) -> None:
    slow = '{ identity; steps 0 19 1.25; } >>"$log"'
    first = site.run(slurm8, Misfortune("perfect"))
    until(first, "session")
    # The second is of another directory, but has the stage of the first.
    second = site.run(slurm8, Misfortune(slow), stage=first.directory / "stage")
    assert first.end().seen == PASSED
    assert second.end().seen.outcome == "failed"
    logs = {properties(session.case())["gsw_log"] for session in (first, second)}
    assert len(logs) == 2
    assert all(log.startswith(str(first.directory / "stage")) for log in logs)
