"""An acceptance on a real Slurm: its stages one after another, and the nodes that each leaves out of the next."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.acceptance.sheet import sheet_of, sheet_text
from pytest_gsw.acceptance.state import AcceptanceState, read_state
from pytest_gsw.common.node_lists import expand
from pytest_gsw.results.record import Record, read_records

from .cluster import SlurmCluster
from .conftest import start
from .sessions import Misfortune, Session, Site, sweep

PLAN = """\
acceptance: eos, phase 1
nodes: n[001-016]
stages:
  - {name: nodes, rows: H100x8, tile: node, find: true}
  - {name: fabric, rows: H100x32, tile: switch, find: true}
  - {name: documented, rows: H100x16}
criteria: {covered: 50 %, within: 5 %}
"""
#: Each job on this node fails.
FAILS = """
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do if [ $node = n010 ]; then exit 4; fi; done"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    """16 nodes below four switches."""
    yield from start(16, switches=4)


@pytest.fixture
def site(tmp_path: Path, cluster: SlurmCluster) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()
    cluster.cancel_all()
    cluster.resume_all()


def project(plan: str = PLAN, slow: str = "", *options: str, first: str = "") -> Misfortune:
    """The project of a plan, whose jobs run some lines first."""
    made = sweep(slow)
    script = made.files["recipes/tiny/launch.sh"].replace("\nexport", f"\n{first}\nexport", 1)
    files = {**made.files, "recipes/tiny/launch.sh": script, "plan.yaml": plan}
    return replace(made, options=("--gsw-acceptance=plan.yaml", *options), files=files)


def state_of(session: Session) -> AcceptanceState:
    (directory,) = (session.directory / ".gsw" / "runs").iterdir()
    state = read_state(directory)
    assert state is not None, session.output
    return state


def records_of(session: Session) -> tuple[Record, ...]:
    (directory,) = (session.directory / ".gsw" / "runs").iterdir()
    return read_records(directory)


def test_each_stage_runs_on_the_nodes_that_passed_before(site: Site, cluster: SlurmCluster) -> None:
    cluster.run("scontrol", "update", "nodename=n001", "state=drain", "reason=NHC: ib0 down")
    slow = "n005 1.25\nswitch n[013-016] 1.15"
    session = site.run(cluster, project(PLAN, slow, "--gsw-report=handover", first=FAILS))
    rows = session.rows()
    state = state_of(session)
    assert {one.node: (one.kind, one.stage) for one in state.exceptions} == {
        "n001": ("not given", ""),
        "n005": ("slow", "nodes"),
        "n010": ("failed", "nodes"),
        **dict.fromkeys(expand("n[013-016]"), ("slow", "fabric")),
    }, session.output
    assert [one.state for one in state.stages] == ["decided", "decided", "decided"]
    assert expand(state.stages[1].nodes) == tuple(
        node for node in cluster.node_names if node not in {"n001", "n005", "n010"}
    )
    records = records_of(session)
    (documented,) = (one.jobs.last for one in records if one.row.stage == "documented")
    assert documented is not None
    assert set(expand(documented.nodes)) <= set(expand("n[002-004,006-009,011-012]"))
    # No job of a stage before the one before is decided.
    spans: dict[str, list[tuple[float, float]]] = {}
    for one in records:
        spans.setdefault(one.row.stage, []).extend(
            (job.submit_s or 0.0, job.end_s or 0.0) for job in (*one.jobs.all, *one.jobs.search)
        )
    assert spans.keys() == {"nodes", "fabric", "documented"}
    for before, after in (("nodes", "fabric"), ("fabric", "documented")):
        assert max(end for _, end in spans[before]) <= min(submit for submit, _ in spans[after])
    assert session.process.returncode == 1
    assert rows["n001"].startswith("nodes::n001:None: node n001: not covered")
    assert re.search(r"gsw: stage 2 of 3, fabric", session.output)
    (run,) = (session.directory / ".gsw" / "runs").iterdir()
    sheet = sheet_of(run)
    assert sheet is not None
    assert (session.directory / "handover" / "sheet.json").read_text() == sheet_text(sheet)


def test_a_killed_plan_goes_on_in_its_stage_without_a_job_twice(
    site: Site, cluster: SlurmCluster, tmp_path: Path
) -> None:
    slow, directory = "n005 1.25\nswitch n[013-016] 1.15", tmp_path / "killed"
    whole = site.run(cluster, project(PLAN, slow, first=FAILS))
    whole.rows()
    options: tuple[str, ...] = ()
    run_id = ""
    for text in ("stage 1 of 3", "round 2", "stage 2 of 3", "stage 3 of 3"):
        made = project(PLAN, slow, *options, first=FAILS)
        made = replace(made, options=options or made.options)
        session = site.run(cluster, made, directory)
        cluster.wait_until(lambda s=session, t=text: t in s.output or s.process.poll() is not None, text, 60)  # type: ignore[misc]
        session.process.kill()
        session.process.wait()
        assert text in session.output
        (run_id,) = re.findall(r"run ([0-9]{8}-[0-9a-f-]+)\b", session.output)[:1]
        options = (f"--gsw-resume={run_id}",)
    session = site.run(cluster, replace(project(PLAN, slow, first=FAILS), options=options), directory)
    rows = session.rows()
    assert rows.keys() == whole.rows().keys()
    before, after = state_of(whole), state_of(session)
    assert [(one.name, one.state, one.rows, one.nodes) for one in after.stages] == [
        (one.name, one.state, one.rows, one.nodes) for one in before.stages
    ], session.output
    assert [(one.node, one.kind, one.stage) for one in after.exceptions] == [
        (one.node, one.kind, one.stage) for one in before.exceptions
    ]
    names = cluster.run("sacct", "-X", "-n", "-P", "-o", "JobName").split()
    own = [name for name in names if run_id in name]
    assert len(own) == len(set(own))


def test_a_node_that_is_given_later_is_tried_once_more(site: Site, cluster: SlurmCluster) -> None:
    cluster.run("scontrol", "update", "nodename=n001", "state=drain", "reason=fan")
    plan = PLAN.replace("  - {name: fabric, rows: H100x32, tile: switch, find: true}\n", "")
    resume = "[[ $SLURM_JOB_NUM_NODES == 2 ]] && scontrol update nodename=n001 state=resume"
    session = site.run(cluster, project(plan, "", first=resume))
    rows = session.rows()
    assert rows["tiny_1b_bf16[H100x8]@n001"] == "passed", session.output
    assert state_of(session).exceptions == ()
    assert session.process.returncode == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("criteria", "on_failure", "stopped", "ran"),
    [
        ("covered: 100 %", "stop", "criterion covered cannot be met any more: 15 of 16 nodes, 1 exception", 1),
        ("covered: 100 %", "go on", "", 2),
        ("covered: 50 %", "stop", "", 2),
    ],
)
def test_a_plan_ends_when_a_criterion_cannot_be_met_any_more(
    site: Site, cluster: SlurmCluster, criteria: str, on_failure: str, stopped: str, ran: int
) -> None:
    plan = f"""\
acceptance: eos
nodes: n[001-016]
stages:
  - {{name: nodes, rows: H100x8, tile: node, on_failure: {on_failure}}}
  - {{name: documented, rows: H100x16}}
criteria: {{{criteria}}}
"""
    session = site.run(cluster, project(plan, "n005 1.25"))
    rows, state = session.rows(), state_of(session)
    assert state.stopped == stopped
    assert [one.state for one in state.stages] == ["decided", "decided" if ran == 2 else "not run"]
    assert rows["tiny_1b_bf16[H100x16]"].endswith("passed" if ran == 2 else f": not run: {stopped}")
    assert session.process.returncode == 1


def test_a_stage_for_which_too_few_nodes_are_left_ends_the_plan(site: Site, cluster: SlurmCluster) -> None:
    plan = """\
acceptance: eos
nodes: n[001-004]
stages:
  - {name: nodes, rows: H100x8, tile: node}
  - {name: documented, rows: H100x32}
criteria: {covered: 50 %}
"""
    session = site.run(cluster, project(plan, "n003 1.25"))
    session.rows()
    wanted = "3 nodes left, 4 wanted by tiny_1b_bf16[H100x32]"
    assert state_of(session).stopped == wanted
    assert f"gsw: the plan ends after the stage nodes: {wanted}" in session.output
