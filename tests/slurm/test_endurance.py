"""A row that runs for a time on a real Slurm: failures, kills of the session, and what the record says of the time."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import tiny_table

from .cluster import SlurmCluster
from .conftest import start
from .sessions import Misfortune, Session, Site

PLAN = """\
acceptance: eos, endurance
nodes: n[001-004]
stages:
  - {name: endurance, rows: H100x8, for: 30s}
criteria: {goodput: 10 %}
"""
#: Saves its step after each ten, and goes on from there in later jobs of the row; FAULT befalls the step before it ends.
BODY = """\
first=0 saved={directory}/checkpoint
if [[ -n ${GSW_ATTEMPT:-} && -f $saved ]]; then first=$(<"$saved"); fi
{ identity; ((first == 0)) || echo "Restored from checkpoint of step $first"; } >>"$log"
for ((number = first; number < ${MAX_STEPS:?}; number++)); do
    sleep 0.1
    FAULT
    steps "$number" "$number" 0.100 >>"$log"
    (((number + 1) % 10)) || echo $((number + 1)) >"$saved"
done
"""
STEPS = 375  # of 30 s at 0.1 s, and a quarter more


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    yield from start(4)


@pytest.fixture
def site(tmp_path: Path, cluster: SlurmCluster) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()
    cluster.cancel_all()


def project(fault: str = ":", *options: str) -> Misfortune:
    return Misfortune(
        BODY.replace("FAULT", fault),
        directives="#SBATCH --no-requeue",
        table=tiny_table("gpus: 8, step_time_s: 0.100, line: 10"),
        files={"plan.yaml": PLAN},
        options=options or ("--gsw-acceptance=plan.yaml",),
    )


def record_of(session: Session) -> dict[str, Any]:
    (path,) = session.directory.glob(".gsw/runs/*/records/*.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def jobs_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted([*record["attempts"], *record["repeats"], record["job"]], key=lambda job: int(job["id"]))


def numbers_in(session: Session, job: dict[str, Any]) -> list[int]:
    (log,) = session.directory.rglob(f"log-*_{job['id']}.out")
    return [int(number) for number in re.findall(r"completed step: (\d+)", log.read_text())]


def check_use_of_time(session: Session, record: dict[str, Any]) -> None:
    """Count by hand what became of the steps and of the time."""
    jobs, used = jobs_of(record), record["endurance"]
    numbers = [numbers_in(session, job) for job in jobs]
    done = sum(map(len, numbers))
    kept = len({number for of_job in numbers for number in of_job})
    assert (used["attempts"], used["steps"], used["steps_lost"]) == (len(jobs), kept, done - kept)
    assert used["wall_s"] == jobs[-1]["end_s"] - jobs[0]["start_s"] >= 30
    # Slurm has whole seconds: the steps of a short job may be more than its time.
    assert 0.1 * kept - len(jobs) < used["productive_s"] < 0.1 * kept + 1e-6


def test_a_program_that_dies_goes_on_from_its_checkpoint(site: Site, cluster: SlurmCluster) -> None:
    fault = "[[ -n ${GSW_ATTEMPT:-} || $number != 97 ]] || kill -9 $$"
    session = site.run(cluster, project(fault))
    assert session.rows() == {"tiny_1b_bf16[H100x8]": "passed"}, session.output
    record = record_of(session)
    check_use_of_time(session, record)
    used, jobs = record["endurance"], jobs_of(record)
    assert [job["state"] for job in jobs] == ["FAILED", "CANCELLED"]
    assert used["causes"] == {"program": 1}
    assert (used["steps_lost"], numbers_in(session, jobs[1])[0]) == (7, 90)
    assert record["variables"]["MAX_STEPS"] == str(STEPS)
    assert (record["row"], record["job"]["id"]) == ("tiny_1b_bf16[H100x8]", jobs[1]["id"])  # of which has more steps


def test_a_lost_node_gets_no_further_job(site: Site, cluster: SlurmCluster) -> None:
    fault = (
        "[[ -n ${GSW_ATTEMPT:-} || $number != 60 ]] || scontrol update nodename=$SLURMD_NODENAME state=down reason=x"
    )
    session = site.run(cluster, project(fault))
    assert session.rows() == {"tiny_1b_bf16[H100x8]": "passed"}, session.output
    record = record_of(session)
    check_use_of_time(session, record)
    first, second = jobs_of(record)
    assert (first["state"], record["endurance"]["causes"]) == ("NODE_FAIL", {"infrastructure": 1})
    assert first["nodes"] != second["nodes"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_session_that_ends_is_resumed_in_the_same_time(
    site: Site, cluster: SlurmCluster, tmp_path: Path, number: signal.Signals
) -> None:
    directory, fault = tmp_path / "ended", "[[ -n ${GSW_ATTEMPT:-} || $number != 97 ]] || kill -9 $$"
    options: tuple[str, ...] = ("--gsw-acceptance=plan.yaml",)
    detached = ("--gsw-detach",) if number is signal.SIGTERM else ()
    # Each job of a session that is interrupted begins anew, in the one time that all have.
    for steps in (20, 40, 60) if number is signal.SIGINT else (20, 60, 110):
        session = site.run(cluster, project(fault, *options, *detached), directory)

        def has_begun(steps: int = steps) -> bool:
            logs = [path.read_text() for path in directory.rglob("log-*.out")]
            return any(f"completed step: {steps}," in log for log in logs)

        cluster.wait_until(has_begun, f"step {steps}", 60)
        session.process.send_signal(number)
        session.process.wait(60)
        options = ("--gsw-resume=last",)
    session = site.run(cluster, project(fault, *options), directory)
    assert session.rows() == {"tiny_1b_bf16[H100x8]": "passed"}, session.output
    record = record_of(session)
    check_use_of_time(session, record)
    # The job of a session that was interrupted is cancelled, so that none is the row's first one at the fault.
    assert record["endurance"]["causes"] == ({"session": 3} if number is signal.SIGINT else {"program": 1})
    (run,) = (directory / ".gsw" / "runs").iterdir()

    def own() -> list[str]:
        return [name for name in cluster.run("sacct", "-X", "-n", "-P", "-o", "JobName").split() if run.name in name]

    # Accounting may have the last one later than its session.
    cluster.wait_until(lambda: len(own()) == len(jobs_of(record)), "accounting has all jobs", 60)
    assert len(own()) == len(set(own()))
