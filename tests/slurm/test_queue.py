"""Jobs that do not start by themselves, or wait for too long, on a real Slurm; and others, which are awaited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.messages import wording

from .cluster import SlurmCluster
from .conftest import start
from .sessions import PASSED, Misfortune, Session, Site

#: Two minutes, in sessions that are not to take as long.
SOON = "pytest_gsw.executor.polls.STUCK_S = 3.0\n"


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    """A cluster in which limits hold, with partitions of one node."""
    for cluster in start(3, limits=True):
        for name, limit in (("one", "INFINITE"), ("late", "INFINITE"), ("short", "00:10:00")):
            cluster.run("scontrol", "create", f"PartitionName={name}", "Nodes=n001", f"MaxTime={limit}")
        cluster.run("sacctmgr", "-i", "add", "qos", "brief", "MaxWall=10")
        cluster.run("sacctmgr", "-i", "modify", "user", "root", "set", "qos+=brief")
        cluster.run("sacctmgr", "-i", "add", "account", "small", "Description=tests", "Organization=tests")
        cluster.run("sacctmgr", "-i", "add", "user", "root", "Account=small", "MaxWall=10")
        yield cluster


@pytest.fixture
def site(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()
    slurm.cancel_all()


@pytest.fixture
def blocker(slurm: SlurmCluster, site: Site, tmp_path: Path) -> str:
    """The id of a job that has the node of the small partitions."""
    script = tmp_path / "blocker.sh"
    script.write_text("#!/bin/bash\nsleep 300\n")
    options = ("--parsable", "--exclusive", "--mem=50M", "-w", "n001", "-o", "/dev/null", "-A", "eng")
    job_id = slurm.run("sbatch", *options, str(script)).strip()
    slurm.wait_until(lambda: state(slurm, job_id) == "RUNNING", "the blocker runs")
    return job_id


def state(cluster: SlurmCluster, job_id: str, column: str = "%T") -> str:
    return cluster.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", column).strip()


def of(*options: str, **changes: object) -> Misfortune:
    """A session whose job has these options of sbatch."""
    named = {"body": "perfect", "conftest": SOON, **changes}
    return Misfortune(sbatch=", ".join(f"'{option}'" for option in ("--mem=50M", *options)), **named)  # type: ignore[arg-type]


def pending(cluster: SlurmCluster, session: Session, reason: str = "") -> str:
    """The id of a session's job, once it waits for this reason."""

    def journal() -> str:
        return "".join(path.read_text() for path in session.directory.glob(".gsw/runs/*/journal.jsonl"))

    cluster.wait_until(lambda: '"submitted"' in journal(), "a submission", 60)
    job_id = re.findall(r'"job": ?"(\d+)"', journal())[-1]
    cluster.wait_until(lambda: reason in state(cluster, job_id, "%r"), f"the reason {reason}", 60)
    return job_id


def ends_by(cluster: SlurmCluster, session: Session, reason: str) -> None:
    """The row is an error with this reason, and its job is cancelled."""
    told = session.end()
    assert (told.seen.outcome, told.seen.exit_status) == ("error", 1), session.output
    assert told.seen.message == f"job {told.job} {reason}", session.output
    assert state(cluster, told.job) == "CANCELLED"


def test_what_does_not_start_by_itself_ends_soon(slurm: SlurmCluster, site: Site, blocker: str) -> None:
    never = {
        "JobHeldUser": of("--hold"),
        "JobHeldUser (script)": of(directives="#SBATCH -H"),
        "BeginTime 2030-01-01 00:00:00": of("--begin=2030-01-01"),
        "QOSMaxWallDurationPerJobLimit": of("--qos=brief"),
        "AssocMaxWallDurationPerJobLimit": of("--account=small"),
    }
    sessions = {reason: site.run(slurm, misfortune) for reason, misfortune in never.items()}
    late = site.run(slurm, of("--partition=late"))
    pending(slurm, late)
    slurm.run("scontrol", "update", "PartitionName=late", "MaxTime=00:10:00")
    for reason, session in sessions.items():
        ends_by(slurm, session, f"does not start by itself: {reason.removesuffix(' (script)')}")
    ends_by(slurm, late, "does not start by itself: PartitionTimeLimit")
    assert state(slurm, blocker) == "RUNNING"


def test_a_job_that_is_requeued_and_held(slurm: SlurmCluster, site: Site) -> None:
    session = site.run(slurm, of("--requeue", body="READY; stay"))
    slurm.run("scontrol", "requeuehold", session.job_id())
    ends_by(slurm, session, "does not start by itself: job requeued in held state")


def test_a_hold_that_is_released_in_time(slurm: SlurmCluster, site: Site) -> None:
    session = site.run(slurm, of("--hold", conftest=""))
    slurm.run("scontrol", "release", pending(slurm, session, "JobHeldUser"))
    assert session.end().seen == PASSED, session.output


def test_a_limit_of_one_of_two_partitions_is_none(slurm: SlurmCluster, site: Site, blocker: str) -> None:
    """squeue shows the reason of the one that was considered last, and the job waits for the other one."""
    either = [
        site.run(slurm, of("--partition=one,short")),
        site.run(slurm, of("--partition=short,one")),
        site.run(slurm, of("--partition=short", "--time-min=1", defaults={"timeout": 10})),
    ]
    jobs = [pending(slurm, session) for session in either]
    slurm.run("scontrol", "update", "PartitionName=short", "MaxTime=00:05:00")
    slurm.wait_until(lambda: "PartitionTimeLimit" in [state(slurm, job, "%r") for job in jobs], "a limit")
    # Longer than a reason that does not end by itself is awaited.
    released = site.run(slurm, of("--hold"))
    ends_by(slurm, released, "does not start by itself: JobHeldUser")
    slurm.run("scancel", blocker)
    assert [session.end().seen for session in either] == [PASSED] * 3, either[0].output
    slurm.run("scontrol", "update", "PartitionName=short", "MaxTime=00:10:00")


def test_a_wait_is_bounded_also_over_sessions(slurm: SlurmCluster, site: Site, blocker: str) -> None:
    defaults = {"max_queue": 0.002}
    session = site.run(slurm, of("--partition=one", defaults=defaults))
    told = session.end()
    assert re.fullmatch(wording("waited", job=told.job, time="\\d+s", why="(Resources|Priority)"), told.seen.message)
    assert state(slurm, told.job) == "CANCELLED"
    killed = site.run(slurm, of("--partition=one"))
    job_id = pending(slurm, killed)
    killed.process.kill()
    killed.process.wait()
    resumed = site.run(
        slurm, of("--partition=one", options=("--gsw-resume=last",), defaults={"max_queue": 0.0015}), killed.directory
    )
    told = resumed.end()
    assert told.job == job_id
    assert re.fullmatch(wording("waited", job=told.job, time="\\d+s", why="(Resources|Priority)"), told.seen.message)
    assert state(slurm, blocker) == "RUNNING"


def test_a_row_that_waits_for_another_of_its_session(slurm: SlurmCluster, site: Site) -> None:
    """One job at a time: the others wait for longer than the limit, while one of them runs."""
    table = "".join(
        line if "gpus: 8" not in line else "".join(line.replace("gpus: 8", f"gpus: 8, case: r{n}") for n in range(3))
        for line in of().table.splitlines(keepends=True)
    )
    defaults = {"max_queue": 0.001}
    session = site.run(
        slurm, of("--exclusive", "--partition=one", body="sleep 4; perfect", table=table, defaults=defaults)
    )
    assert {*session.rows().values()} == {"passed"}, session.output
