"""A row's job is its own, and ended well with all its steps: several rows in each session, on a real Slurm."""

from __future__ import annotations

import collections
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import junit, properties, tiny_table
from tests.messages import wording

from .cluster import SlurmCluster
from .conftest import start as start_cluster
from .sessions import Misfortune, Site
from .test_resume import ROWS, finish, project, start

__all__ = ["project"]  # a fixture


def beside_helper(helper: str, step: str) -> str:
    """A script that runs a helper in the background, its step 0, and goes on when the helper has begun.

    Args:
        helper: What the helper runs, for ``bash -c`` in single quotes; it makes the file BEGUN.
        step: What the script does then; a second at least, since that is how exactly Slurm knows what ran beside what.
    """
    begun = "$results/begun-$SLURM_JOB_ID"
    wait = f"until [ -e {begun} ]; do sleep 0.1; done"
    return f"export results; srun --overlap -n1 bash -c '{helper}' & helper=$!; {wait}; {step}".replace("BEGUN", begun)


#: What the job of each row does; each leaves a perfect log, and its script ends with 0.
CASES = {
    "good": "srun -n1 true",
    "ortrue": "srun -n1 false || true",
    "tee": 'srun -n1 bash -c "echo step; exit 1" | tee -a $results/other.txt',
    "rank": 'srun -n1 bash -c "kill -9 \\$\\$"; sleep 1',
    "segfault": 'srun -n1 bash -c "kill -11 \\$\\$"',
    "ended": beside_helper("touch BEGUN; exec sleep 300", "srun --overlap -n1 sleep 15"),
    # Slurm tells the sleep and the shell one after the other: a shell whose sleep has ended has yet to be told.
    "trapped": beside_helper(
        'trap "exit 3" TERM; touch BEGUN; while true; do sleep 300 & wait; done', "srun --overlap -n1 sleep 15"
    ),
    "killed": beside_helper("touch BEGUN; exec sleep 300", "srun --overlap -n1 sleep 15; kill $helper; wait"),
    "excused": "srun -n1 true; srun -n1 --job-name=convert bash -c 'exit 3'",
    "nosrun": "srun -n1 /there/is/none",
}


def rows_of(cases: dict[str, str], **more: str) -> Misfortune:
    table = tiny_table(*(f"gpus: 8, case: {name}, step_time_s: 1.000, line: 10" for name in cases))
    table = table.replace("steps: 20}", "steps: 20, may_fail: [convert]}")
    branches = "\n".join(f"    *-{name}]) {body} ;;" for name, body in cases.items())
    return Misfortune(f'perfect\ncase "$GSW_ROW" in\n{branches}\nesac\nexit 0', table=table, **more)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


def by_case(rows: dict[str, str], jobs: dict[str, str]) -> dict[str, str]:
    """What was said of each case, without the ids of jobs."""
    seen = {}
    for name, message in rows.items():
        case = next(case for case in CASES if case in name)
        seen[case] = message.replace(f"job {jobs[name]} completed, but ", "")
    return seen


def jobs_of(directory: Path) -> dict[str, str]:
    """The job of each row."""
    return {name: properties(case).get("gsw_job_id", "") for name, case in junit(directory / "junit.xml").items()}


def test_a_step_that_failed_is_no_good_end(slurm8: SlurmCluster, site: Site) -> None:
    session = site.run(slurm8, rows_of(CASES))
    rows = session.rows()
    records = [json.loads(path.read_text()) for path in session.directory.glob(".gsw/runs/*/records/*.json")]
    steps = {case: one["job"]["steps"] for one in records for case in CASES if case in one["row"]}
    assert by_case(rows, jobs_of(session.directory)) == {
        "good": "passed",
        "ortrue": wording("step failed", number=0, name="false", code=1),
        "tee": wording("step failed", number=0, name="bash", code=1),
        "rank": wording("step ended", number=0, name="bash", state="CANCELLED", signal=9),
        "segfault": wording("step ended", number=0, name="bash", state="CANCELLED", signal=11),
        "ended": "passed",
        # Slurm keeps the exit code, which nothing tells from one of a step that failed at the end; or, where it hears of
        # the script's end long before the step's, that it has ended the step itself.
        "trapped": "passed"
        if steps["trapped"][0].startswith("0|CANCELLED")
        else wording("step failed", number=0, name="bash", code=3),
        "killed": "passed",
        "excused": "passed",
        "nosrun": wording("step failed", number=0, name="none", code=2),
    }, session.output
    text = next(
        "".join(child.text or "" for child in case if child.tag == "error")
        for name, case in junit(session.directory / "junit.xml").items()
        if "ortrue" in name
    )
    assert "step       0 false FAILED 1:0 on n0" in text
    assert "next       look at " in text
    assert "recipe: {may_fail: [NAME]}" in text
    assert [step.split("|")[1] for step in steps["good"]] == ["COMPLETED"]


def test_without_accounting_less_is_known_and_said_once(site: Site) -> None:
    cases = {name: CASES[name] for name in ("good", "ortrue", "rank", "ended", "excused")}
    for cluster in start_cluster(2, accounting=False):
        session = site.run(cluster, rows_of(cases))
        rows = session.rows()
        assert by_case(rows, jobs_of(session.directory)) == {
            "good": "passed",
            "ortrue": wording("steps failed", code="1:0"),
            "rank": wording("steps failed", code="0:9"),
            "ended": "passed",
            "excused": wording("steps failed", code="3:0"),  # which one, nobody tells
        }, session.output
        said = "which of its steps failed, if any, is not known, only their worst exit code: sacct: "
        lines = [line for line in session.output.splitlines() if line.startswith("gsw: of job ")]
        assert len(lines) == 1
        assert lines[0].endswith(f"{said}Slurm accounting storage is disabled")


#: A job that is lost with the controller's state is given up soon.
GIVES_UP_SOON = """\
import pytest_gsw.jobs.launcher

pytest_gsw.jobs.launcher.Launcher.unknown_limit_s = 20.0
"""


def test_a_controller_that_is_killed_amid_submissions(project: Path, slurm32: SlurmCluster) -> None:
    """It gives ids out again: none of them, and no log, serves two rows, and what is green has run."""
    (project / "conftest.py").write_text(GIVES_UP_SOON)
    session = start(project, slurm32, "--gsw-cluster=here", "--junitxml=junit.xml")
    deadline_s = time.monotonic() + 300
    while sum(path.read_text().count('"submitted"') for path in project.glob(".gsw/runs/*/journal.jsonl")) < ROWS // 2:
        assert time.monotonic() < deadline_s, "half of the rows are never submitted"
        assert session.poll() is None, finish(session)
        time.sleep(0.01)
    slurm32.kill_slurmctld()
    time.sleep(1)
    slurm32.start_slurmctld()
    output = finish(session, timeout_s=240)
    cases = junit(project / "junit.xml")
    assert len(cases) == ROWS, output
    green = {name: properties(case) for name, case in cases.items() if case.find("error") is None}
    assert all(case.find("failure") is None for case in cases.values()), output
    ids = collections.Counter(facts["gsw_job_id"] for facts in green.values())
    assert all(count == 1 for count in ids.values()), ids
    run_id = next(project.glob(".gsw/runs/*")).name
    told = slurm32.run("sacct", "-D", "-X", "-n", "-P", "-o", "JobIDRaw,State,JobName", "-S", "now-1hour")
    ran = {tuple(line.split("|")) for line in told.splitlines()}
    of_run = {(job_id, state) for job_id, state, name in ran if run_id in name}
    for job_id in ids:
        assert (job_id, "COMPLETED") in of_run, told
    assert session.returncode == (0 if len(green) == ROWS else 1), output
    for name, case in cases.items():
        error = case.find("error")
        if error is not None and "gave the id" in (error.text or ""):
            assert name in (error.text or ""), output
