"""Two real clusters with one accounting: lists of clusters, and a federation that moves jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_gsw.jobs.model import JobSpec, JobState
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher

from .cluster import SlurmCluster
from .conftest import start


@pytest.fixture(scope="module")
def two() -> Iterator[SlurmCluster]:
    """A cluster of one node, gsw, and another beside it, eos; a controller forgets jobs soon."""
    for here in start(1, gpus_per_node=1, min_job_age_s=2):
        for _ in start(1, gpus_per_node=1, min_job_age_s=2, name="eos", beside=here):
            yield here


def spec(place: Path, name: str, body: str, *options: str) -> JobSpec:
    script = place / f"{name}.sh"
    script.write_text(f"#!/bin/bash\n{body}\n")
    options = (f"--output={place}/%x-%j.out", "--exclusive", *options)
    return JobSpec(name, f"gsw-{name}", script, place, place, 1, 1, {}, options=options, unique_name=True)


def test_two_jobs_with_one_id_end_each_by_itself(two: SlurmCluster, tmp_path: Path) -> None:
    launcher = SlurmLauncher(two.environ)
    ends_well = launcher.submit(spec(tmp_path, "a", "exit 0", "--clusters=gsw,eos"))
    assert ends_well.cluster in {"gsw", "eos"}
    other = "eos" if ends_well.cluster == "gsw" else "gsw"
    fails = launcher.submit(spec(tmp_path, "b", "exit 3", f"--clusters={other}"))
    assert (fails.cluster, fails.id) == (other, ends_well.id)
    jobs = [ends_well, fails]
    assert [launcher.find(job.spec, 0.0).key for job in jobs] == [job.key for job in jobs]  # type: ignore[union-attr]
    told = launcher.poll(jobs)

    def over() -> bool:
        told.update(launcher.poll(jobs))
        return all(status.state.ended for status in told.values())

    two.wait_until(over, "both jobs have ended", 60)
    assert [(told[row].state, told[row].exit_code) for row in "ab"] == [(JobState.COMPLETED, 0), (JobState.FAILED, 3)]
    assert [told[row].cluster for row in "ab"] == [ends_well.cluster, other]


def test_a_row_follows_its_job_through_a_federation(two: SlurmCluster, tmp_path: Path) -> None:
    two.run("sacctmgr", "-i", "add", "federation", "fed", "clusters=gsw,eos")
    two.wait_until(lambda: "Synced:Yes" in two.run("scontrol", "show", "federation"), "the federation is there", 60)
    launcher = SlurmLauncher(two.environ)
    fills = launcher.submit(spec(tmp_path, "fills", "sleep 300", "--clusters=gsw"))
    two.wait_until(lambda: launcher.poll([fills])["fills"].state is JobState.RUNNING, "gsw is full", 60)
    moved = launcher.submit(spec(tmp_path, "moved", "sleep 3; exit 3"))
    assert moved.cluster == ""
    two.wait_until(lambda: launcher.poll([moved])["moved"].cluster == "eos", "the job has moved", 60)
    assert launcher.poll([moved])["moved"].state in {JobState.PENDING, JobState.RUNNING}
    two.wait_until(lambda: launcher.poll([moved])["moved"].state.ended, "the job has ended", 60)
    two.purge(moved.id)
    # A session that resumes the run much later.
    found = SlurmLauncher(two.environ).find(moved.spec, moved.submitted_s)
    assert found is not None
    for job in (moved, found):
        status = SlurmLauncher(two.environ).poll([job])["moved"]
        assert (status.state, status.exit_code, status.cluster) == (JobState.FAILED, 3, "eos")
    cancelled = launcher.submit(spec(tmp_path, "cancelled", "sleep 300"))
    launcher.cancel([cancelled, fills])
    two.wait_until(
        lambda: all(one.state is JobState.CANCELLED for one in launcher.poll([cancelled, fills]).values()), "no job", 60
    )
