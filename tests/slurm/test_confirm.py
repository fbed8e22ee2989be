"""Rows that have several jobs, on a real Slurm: on other nodes where there are any, and resumed in their midst."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from pytest_gsw.history.location import open_history
from tests.integration.conftest import properties
from tests.messages import wording
from tests.unit.history.runs import stored_points

from .cluster import SlurmCluster
from .sessions import PASSED, REGRESSED, ROW, Misfortune, Session, Site, error
from .test_fleet import site

__all__ = ["site"]  # a fixture

#: Slow in the row's first job only, or in each.
SLOW_ONCE = 'identity >>"$log"; steps 0 19 $([ -z "$GSW_ATTEMPT" ] && echo 1.250 || echo 1.000) >>"$log"'
SLOW = 'identity >>"$log"; steps 0 19 1.250 >>"$log"'


def record(session: Session) -> dict[str, Any]:
    (path,) = session.directory.glob(".gsw/runs/*/records/*.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def nodes(session: Session) -> list[str]:
    found = record(session)
    return [job["nodes"] for job in (*found["repeats"], found["job"])]


def test_a_row_that_was_slow_once_passes_by_the_median_of_jobs_on_other_nodes(slurm8: SlurmCluster, site: Site) -> None:
    session = site.run(slurm8, Misfortune(SLOW_ONCE, options=("--gsw-confirm=2",)))
    assert session.end().seen == PASSED
    found = record(session)
    assert [job["judged"] for job in (*found["repeats"], found["job"])] == [1.25, 1.0, 1.0]
    assert found["measured"]["step_time_s"] == 1.0
    slow, *others = nodes(session)
    assert slow not in others  # that of the second job, which was fast, is as good as any other
    assert found["environment"]["slurm"] == slurm8.run("sbatch", "--version").split()[1]


def test_a_row_that_is_slow_everywhere_fails(slurm8: SlurmCluster, site: Site) -> None:
    session = site.run(slurm8, Misfortune(SLOW, options=("--gsw-confirm=2",)))
    message = REGRESSED.message.replace(" tokens/s is", " tokens/s, the median of 2 jobs, is")
    assert session.end().seen == REGRESSED._replace(message=message)
    assert len(set(nodes(session))) == 2


def test_where_there_is_no_other_node_the_same_one_is_taken(slurm8: SlurmCluster, site: Site) -> None:
    node = slurm8.run("sinfo", "-h", "-N", "-o", "%N").split()[0]
    only = Misfortune(SLOW_ONCE, sbatch=f"--mem=50M, --nodelist={node}", options=("--gsw-confirm=2",))
    session = site.run(slurm8, only)
    assert session.end().seen == PASSED
    assert nodes(session) == [node, node, node]


def test_repeated_rows_have_as_many_jobs_and_one_test_case(slurm8: SlurmCluster, site: Site) -> None:
    session = site.run(slurm8, Misfortune("perfect", options=("--gsw-repeat=3",)))
    assert session.end().seen == PASSED
    assert len({job["id"] for job in (*record(session)["repeats"], record(session)["job"])}) == 3


def test_a_session_that_is_killed_between_two_jobs_is_resumed(slurm8: SlurmCluster, site: Site) -> None:
    body = f'[ -z "$GSW_ATTEMPT" ] || {{ READY; sleep 3; }}; {SLOW_ONCE}'
    session = site.run(slurm8, Misfortune(body, options=("--gsw-confirm=2",)))
    session.job_id()  # the second job runs
    os.kill(session.process.pid, signal.SIGKILL)
    session.process.wait()
    again = site.run(slurm8, Misfortune(body, options=("--gsw-confirm=2", "--gsw-resume=last")), session.directory)
    assert again.end().seen == PASSED
    found = record(again)
    assert [job["judged"] for job in (*found["repeats"], found["job"])] == [1.25, 1.0, 1.0]
    jobs = slurm8.run("squeue", "-h", "-t", "all", "-o", "%j").split()
    run = found["run_id"]
    assert sorted(name for name in jobs if run in name) == sorted({name for name in jobs if run in name})


def test_a_further_job_that_is_cancelled_is_an_error(slurm8: SlurmCluster, site: Site) -> None:
    body = f'[ -z "$GSW_ATTEMPT" ] || {{ READY; sleep 60; }}; {SLOW}'
    session = site.run(slurm8, Misfortune(body, options=("--gsw-confirm=2",)))
    job_id = session.job_id()
    slurm8.run("scancel", job_id)
    assert session.end().seen == error(f"job {job_id} ended CANCELLED")
    (first,) = record(session)["repeats"]
    assert first["judged"] == 1.25
    assert properties(session.case())["gsw_job_1"] == f"{first['id']} 1.25 s on {first['nodes']}"
    assert f"job 1      {first['id']} 1.25 s on {first['nodes']}\n" in (session.directory / "output").read_text()


def test_the_history_has_one_point_for_each_job(slurm8: SlurmCluster, site: Site) -> None:
    session = site.run(slurm8, Misfortune(SLOW_ONCE, options=("--gsw-confirm=2",)))
    assert session.end().seen == PASSED
    with open_history(session.directory / ".gsw" / "history.sqlite") as history:
        (series,) = history.series()
        points = stored_points(history, series)
    assert (series.row, series.cluster) == (ROW, "eos")
    assert sorted(point.judged for point in points) == [1.0, 1.0, 1.25]
    assert all(abs(point.time_s - time.time()) < 600 for point in points)


def test_where_the_other_nodes_are_drained_the_same_one_is_taken(slurm8: SlurmCluster, site: Site) -> None:
    first, *others = sorted(set(slurm8.run("sinfo", "-h", "-N", "-o", "%N").split()))
    slurm8.run("scontrol", "update", f"nodename={','.join(others)}", "state=drain", "reason=test")
    try:
        session = site.run(slurm8, Misfortune(SLOW_ONCE, options=("--gsw-confirm=2",)))
        assert session.end().seen == PASSED
    finally:
        slurm8.run("scontrol", "update", f"nodename={','.join(others)}", "state=resume")
    found = record(session)
    assert nodes(session) == [first] * 3
    assert {job["why_repeated"] for job in found["attempts"]} == {wording("no other node")}
    assert {job["state"] for job in found["attempts"]} == {"CANCELLED"}
