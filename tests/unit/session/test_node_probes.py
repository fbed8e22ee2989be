"""What a session's probes of nodes cost, and what they say: a stand-in for srun prints, fails or hangs."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_gsw.clusters import Cluster
from pytest_gsw.executor.progress_monitor import Sample
from pytest_gsw.jobs.model import EarlyStop, Job
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.results.node_facts import why_lines
from pytest_gsw.session import node_probes
from pytest_gsw.session.node_probes import NodeProbes
from tests.unit.jobs.slurm.test_launcher import SPEC

RUNNING = JobStatus(JobState.RUNNING, nodes="n[1-4]", start_s=1.0)
BEFORE, FIRST, LAST = None, Sample(steps=1), Sample(steps=20, finished=True)

#: The smoke test of n2 is slow.
SLOW = "for node in 1 2 3 4; do printf 'n%s\\tgemm %s\\n' $node $((node == 2 ? 600 : 741)); done"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows wait until the probes have ended, on a busy machine too."""
    monkeypatch.setattr(node_probes, "_WAIT_S", 60.0)
    monkeypatch.setattr(node_probes, "_ALL_WAIT_S", 60.0)


def probes(directory: Path, srun: str, **keys: object) -> NodeProbes:
    """The probes of a session in which srun does this."""
    command = directory / "srun"
    command.write_text(f"#!/bin/bash\n{srun}\n")
    command.chmod(0o755)
    return NodeProbes(Cluster("eos", "slurm", **keys), {"PATH": f"{directory}:/usr/bin:/bin"}, "24.11")  # type: ignore[arg-type]


def look(found: NodeProbes, *samples: Sample | None, job: str = "7") -> list[tuple[str, str]]:
    """The lines on a job whose log showed this."""
    for sample in samples:
        found.look(Job(job, SPEC, 1.0), RUNNING, sample)
    facts = found.facts_of(job)
    return [] if facts is None else why_lines(facts)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("srun", "lines"),
    [
        (SLOW, [("smoke", "n2: gemm 600 (median of 3 others 741, 741 to 741)")]),
        (":", [("facts", "the smoke test printed nothing on n[1-4]")]),
        ("printf 'n1\\tgemm 741\\n'", [("facts", "the smoke test printed nothing on n[2-4]")]),
        ("echo 'srun: error: no such step' >&2; exit 255", [("facts", "not read: no such step")]),
    ],
)
def test_a_smoke_test_without_facts_is_reported(tmp_path: Path, srun: str, lines: list[tuple[str, str]]) -> None:
    with closing(probes(tmp_path, srun, smoke="x")) as found:
        assert look(found, BEFORE) == lines


@pytest.mark.usefixtures("patient")
def test_a_slow_node_ends_the_job_if_the_cluster_says_so(tmp_path: Path) -> None:
    def stop(**keys: object) -> EarlyStop | None:
        with closing(probes(tmp_path, SLOW, smoke="x", **keys)) as found:
            job = Job("7", SPEC, 1.0)
            at_once = found.look(job, RUNNING, BEFORE)  # a quick test may have ended already
            found.facts_of(job.id)
            return at_once or found.look(job, RUNNING, FIRST)

    assert stop() is None
    stopped = stop(smoke_ends_job=True)
    assert stopped is not None
    assert "n2: gemm 600" in stopped.fact


def test_rows_do_not_wait_for_probes_that_all_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []

    def wait(_: object, timeout: float) -> None:
        waited.append(timeout)
        clock[0] += timeout

    clock = [0.0]
    monkeypatch.setattr(node_probes, "wait", wait)
    monkeypatch.setattr(node_probes, "time", SimpleNamespace(monotonic=lambda: clock[0], time=time.time))
    with closing(probes(tmp_path, "exec sleep 60", facts="host")) as found:
        for job in range(20):
            look(found, FIRST, LAST, job=str(job))
    assert waited == [1.0] * 10 + [0.0] * 10
