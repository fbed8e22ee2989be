"""Rows that wait for each other on a real Slurm: let alone, gone on with, and ended early."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.history.location import open_history
from pytest_gsw.results.record import read_records
from tests.defaults import set_defaults
from tests.integration.conftest import junit
from tests.integration.test_together import RUNS, run_record

from .cluster import SlurmCluster
from .test_resume import finish, jobs_by_name, project, start

__all__ = ["project"]  # a fixture

ROWS = ("--gsw-cluster=here", "-k", "r0", "--gsw-history=history.sqlite", "--gsw-confirm=2")


@pytest.fixture
def known(project: Path, slurm32: SlurmCluster) -> Path:
    """The project, with thirty runs of ten of its rows."""
    out = finish(start(project, slurm32, *ROWS, "--gsw-history=first.sqlite", "--gsw-results=first"))
    assert "10 passed" in out, out
    (run,) = (project / "first" / "runs").iterdir()
    rng = random.Random(1)  # noqa: S311 - noise, not cryptography
    # Simulated runs are of the cluster "demo", wherever they ran.
    records = [replace(record, run=replace(record.run, simulated=False)) for record in read_records(run)]
    with open_history(project / "history.sqlite") as history:
        history.add([run_record(record, number, rng) for number in range(RUNS) for record in records])
    return project


def make_slow(project: Path, which: str) -> None:
    clusters = project / "clusters.yaml"
    clusters.write_text(clusters.read_text().replace("environment: {", f"environment: {{GSW_DEMO: '{which}', "))


def test_a_slow_run_is_one_failure_of_a_session_that_was_left_while_rows_waited(
    known: Path, slurm32: SlurmCluster
) -> None:
    make_slow(known, "*=slow:12%")
    since = time.strftime("%Y-%m-%dT%H:%M:%S")
    set_defaults(known, poll_interval=0.5, max_jobs=5)
    session = start(known, slurm32, *ROWS, "--gsw-detach")
    # Five rows have ended and wait: nobody knows yet what the others will take.
    slurm32.wait_until(lambda: len(list(known.glob("stage/results/*/*/*/*/log-*"))) >= 16, "the sixth job's log", 60)
    session.send_signal(signal.SIGINT)
    finish(session)

    out = finish(start(known, slurm32, "--gsw-resume=last", "--gsw-history=history.sqlite", "--junitxml=junit.xml"))

    assert "1 failed, 10 skipped" in out, out
    assert junit(known / "junit.xml")["incident"].find("failure") is not None
    assert set(jobs_by_name(slurm32, known, since).values()) == {1}


def test_rows_that_wait_when_another_ends_the_session_are_judged_by_what_is_known(
    known: Path, slurm32: SlurmCluster
) -> None:
    make_slow(known, "*r00*=fail")

    out = finish(start(known, slurm32, *ROWS, "-x", "--junitxml=junit.xml"))

    assert "1 error" in out, out
    slurm32.wait_until(lambda: not slurm32.run("squeue", "-h").strip(), "an empty queue", 30)
    cases = junit(known / "junit.xml")
    assert not any(case.find("failure") is not None for case in cases.values())
