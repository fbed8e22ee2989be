"""``--gsw-acceptance`` on the nodes of the demo: stages in order, what each leaves out, and what is no plan for it."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.acceptance.state import AcceptanceState, read_state, write_state
from pytest_gsw.tables.bundled import bundled_baselines

PLAN = """\
acceptance: demo, phase 1
nodes: demo-[01-08]
stages:
  - name: nodes
    rows: grok1_314b_bf16 and x8]
    tile: node
    find: true
  - name: fabric
    rows: grok1_314b_bf16 and x32]
    tile: switch
  - name: documented
    rows: grok1_314b_fp8 and x16]
criteria: {covered: 80 %, within: 5 %}
"""
SLOW = "--gsw-demo=node:demo-06=slow:12%"
ROW = "grok1_314b_fp8[H100x16]"


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSW_DEMO_SECONDS", "0")


def run(pytester: pytest.Pytester, plan: str, *arguments: str) -> pytest.RunResult:
    pytester.makefile(".yaml", plan=plan)
    return pytester.runpytest("--gsw-cluster=demo", "--gsw-acceptance=plan.yaml", "--junitxml=junit.xml", *arguments)


def state_of(pytester: pytest.Pytester) -> AcceptanceState:
    (directory,) = (pytester.path / ".gsw" / "runs").iterdir()
    state = read_state(directory)
    assert state is not None
    return state


def stages_of(path: Path) -> dict[str, str]:
    """The property gsw_stage of each test case that has one."""
    cases = ET.parse(path).getroot().iter("testcase")  # noqa: S314 - our own file
    named = ((case.attrib["name"], case.find("properties/property[@name='gsw_stage']")) for case in cases)
    return {name: stage.attrib["value"] for name, stage in named if stage is not None}


def test_nodes_that_a_stage_leaves_out_run_nothing_more(pytester: pytest.Pytester) -> None:
    result = run(pytester, PLAN, SLOW)
    result.assert_outcomes(passed=9, failed=2, skipped=1, deselected=result.parseoutcomes().get("deselected", 0))
    state = state_of(pytester)
    assert [(one.node, one.kind, one.stage) for one in state.exceptions] == [("demo-06", "slow", "nodes")]
    assert [(one.name, one.state, one.nodes) for one in state.stages] == [
        ("nodes", "decided", "demo-[01-08]"),
        ("fabric", "decided", "demo-[01-05,07-08]"),
        ("documented", "decided", "demo-[01-05,07-08]"),
    ]
    result.stdout.fnmatch_lines(
        [
            "gsw: stage 1 of 3, nodes: 8 tiles of 1 row on 8 nodes",
            "gsw: stage nodes is decided: 7 nodes left",
            "gsw: left out from now on: demo-06  slow: *",
            "gsw: stage 2 of 3, fabric: 1 tile of 1 row on 7 nodes",
            "*@demo-[[]05-08]  SKIPPED    left out: demo-06 (slow in the stage nod... *",
            "=* acceptance: demo, phase 1 =*",
            "exception  demo-06  slow in the stage nodes: *",
            "covered    87.5 %, wanted 80 %: met (7 of 8 nodes, 1 exception)",
            f"within     *, wanted 5 %: met ({ROW.replace('[', '[[]')} is the slowest of 1 row)",
        ]
    )
    stages = stages_of(pytester.path / "junit.xml")
    assert stages[ROW] == "documented"
    assert stages["grok1_314b_bf16[H100x32]@demo-[05-08]"] == "fabric"
    assert len(stages) == 11


def test_the_junit_of_its_records_has_the_rows_that_were_left_out(pytester: pytest.Pytester) -> None:
    run(pytester, PLAN, SLOW)
    (directory,) = (pytester.path / ".gsw" / "runs").iterdir()
    result = pytester.run(
        sys.executable, "-m", "pytest_gsw.cli", "report", directory.name, "--format=junit", "-o", "again.xml"
    )
    assert result.ret == 0, result.errlines

    def cases(name: str) -> set[str]:
        root = ET.parse(pytester.path / name).getroot()  # noqa: S314 - our own file
        return {case.attrib["name"] for case in root.iter("testcase")}

    assert cases("again.xml") == cases("junit.xml")


def test_a_tile_that_a_stage_adds_has_a_line_as_the_others(pytester: pytest.Pytester) -> None:
    plan = PLAN.replace("x32]\n    tile: switch", "x16]\n    tile: 2")
    result = run(pytester, plan, SLOW.replace("06", "02"))
    result.stdout.fnmatch_lines(
        [
            "*@demo-[[]03-04]  SKIPPED    its nodes are in other tiles now *",
            "*@demo-[[]01,03]  PASSED     throughput *",
        ]
    )


def test_rows_are_chosen_among_those_of_the_stages(pytester: pytest.Pytester) -> None:
    result = run(pytester, PLAN, "-k", "fp8 or demo-03")
    result.assert_outcomes(passed=2, deselected=result.parseoutcomes()["deselected"])
    assert [one.state for one in state_of(pytester).stages] == ["decided", "waits", "decided"]
    result.stdout.fnmatch_lines(["covered    12.5 %, wanted 80 %: open *"])
    assert result.ret == 6
    result = pytester.runpytest("--gsw-resume=last")  # has the same rows
    result.assert_outcomes(passed=2, deselected=result.parseoutcomes()["deselected"])


def test_a_stage_with_rows_that_were_not_chosen_is_not_met(pytester: pytest.Pytester) -> None:
    plan = PLAN.replace("grok1_314b_fp8 and x16]", "grok1_314b_fp8 and (x16] or x8])")
    result = run(
        pytester,
        plan.replace("bf16 and x8]", "bf16 and (x8] or x16])").replace("tile: node", "tile: 2"),
        "-k",
        "not (bf16 and x16]) and not (fp8 and x8])",
    )
    result.stdout.fnmatch_lines(
        ["covered    100.0 %, wanted 80 %: open *", "within *: open (grok1_314b_fp8[[]H100x8]: no result)"]
    )
    assert result.ret == 6


def test_a_row_that_is_too_large_for_the_nodes_left_is_not_met(pytester: pytest.Pytester) -> None:
    plan = PLAN.replace("grok1_314b_fp8 and x16]", "grok1_314b_fp8 and (x16] or x64])\n    on_failure: go on")
    plan = plan.replace("find: true", "find: true\n    on_failure: go on").replace(
        "tile: switch", "tile: switch\n    on_failure: go on"
    )
    result = run(pytester, plan, SLOW)
    result.stdout.fnmatch_lines(["within *: open (grok1_314b_fp8[[]H100x64]: no result)"])


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("grok1_314b_fp8 and x16]", "grok2", ":11:1 *stages.documented: no row of demo for rows: grok2"),
        ("grok1_314b_fp8 and x16]", "H100x2304 and 405b_fp8", ":11:1 *no row of demo for *8 nodes left, 288 wanted*"),
        ("fp8 and x16]", "fp8 and (x16] or x8])", "nothing"),
        (
            "bf16 and x32]",
            "bf16 and x8]",
            ":8:1 *stages.fabric: grok1_314b_bf16[[]H100x8] is a row of the stage 'nodes'*",
        ),
        (
            "criteria",
            "  - {name: alone, rows: 'grok1_314b_bf16 and x8]'}\n  - {name: again, rows: 'grok1_314b_bf16 and x8]'}\ncriteria",
            ":14:1 *stages.again: grok1_314b_bf16[[]H100x8] is a row of the stage 'alone' (line 13), too*",
        ),
        ("demo-[01-08]", "demo-[01-20]", ":2:* nodes: no node 'demo-17' in the partition demo*"),
    ],
)
def test_what_is_no_plan_for_the_cluster(pytester: pytest.Pytester, old: str, new: str, fault: str) -> None:
    result = run(pytester, PLAN.replace(old, new), "--collect-only", "-q")
    if fault == "nothing":
        assert result.ret == 0
        return
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*plan.yaml{fault}"])
    assert not (pytester.path / ".gsw").exists()


def test_a_plan_that_stops_says_what_it_does_not_spend(pytester: pytest.Pytester) -> None:
    result = run(pytester, PLAN.replace("80 %", "95 %"), SLOW)
    state = state_of(pytester)
    assert state.stopped == "criterion covered cannot be met any more: 7 of 8 nodes, 1 exception"
    assert [one.state for one in state.stages] == ["decided", "not run", "not run"]
    result.stdout.fnmatch_lines([f"gsw: the plan ends after the stage nodes: {state.stopped}; * are not spent"])
    result.assert_outcomes(passed=7, failed=2, skipped=3, deselected=result.parseoutcomes().get("deselected", 0))
    assert result.ret == 1


def test_an_interrupted_plan_goes_on(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        def pytest_runtest_logreport(report):
            if "x32]" in report.nodeid and report.when == "call":
                raise KeyboardInterrupt
        """
    )
    pytester.makefile(".yaml", plan=PLAN)
    arguments = ("--gsw-cluster=demo", "--gsw-acceptance=plan.yaml", SLOW)
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    pytester.makeconftest("")
    result = pytester.runpytest("--gsw-resume=last")
    assert [one.state for one in state_of(pytester).stages] == ["decided"] * 3
    assert [(one.node, one.stage) for one in state_of(pytester).exceptions] == [("demo-06", "nodes")]
    result.stdout.fnmatch_lines([f"{ROW.replace('[', '[[]')} *PASSED *"])


def test_a_session_that_lost_its_run_decides_nothing_more(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from pytest_gsw.errors import TakenOverError
        from pytest_gsw.jobs.journal import Journal

        def pytest_runtest_logreport(report):
            if "@demo-02" in report.nodeid:
                def lose(self):
                    raise TakenOverError("lost")
                Journal._check = Journal.check = lose
        """
    )
    pytester.makefile(".yaml", plan=PLAN)
    result = pytester.runpytest_subprocess("--gsw-cluster=demo", "--gsw-acceptance=plan.yaml")
    result.stdout.fnmatch_lines([f"{ROW.replace('[', '[[]')} *SKIPPED *"])
    result.stdout.no_fnmatch_line("*is decided*")
    assert [one.state for one in state_of(pytester).stages] == ["runs", "waits", "waits"]
    assert result.ret == 6


def test_a_resumed_plan_keeps_what_was_told(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        def pytest_runtest_logreport(report):
            if "@demo-08" in report.nodeid and report.when == "call":
                raise KeyboardInterrupt
        """
    )
    pytester.makefile(".yaml", plan=PLAN)
    pytester.runpytest_subprocess("--gsw-cluster=demo", "--gsw-acceptance=plan.yaml", "--gsw-history=history.db")
    before = [(one.told_gpu_hours, one.told_hours) for one in state_of(pytester).stages]
    (directory,) = (pytester.path / ".gsw" / "runs").iterdir()
    state = state_of(pytester)
    write_state(directory, replace(state, stages=tuple(replace(one, told_hours=7.0) for one in state.stages)))
    pytester.makeconftest("")
    pytester.runpytest("--gsw-resume=last")
    assert [(one.told_gpu_hours, one.told_hours) for one in state_of(pytester).stages] == [
        (gpu_hours, 7.0) for gpu_hours, _ in before
    ]


def test_a_row_with_a_blank_leaves_its_criterion_open(pytester: pytest.Pytester) -> None:
    text = (bundled_baselines() / "nemo" / "grok1_314b.yaml").read_text(encoding="utf-8")
    table = pytester.mkdir("tables") / "grok1_314b.yaml"
    table.write_text(text.replace("dtype: fp8", "dtype: ~"), encoding="utf-8")
    result = run(pytester, PLAN.replace("grok1_314b_fp8 and x16]", "x16]"), "--gsw-baselines=tables")
    result.stdout.fnmatch_lines(["within *: open (grok1_314b_BLANK[[]H100x16]: no result)"])


def test_the_fault_of_a_table_comes_before_what_it_leaves_without_rows(pytester: pytest.Pytester) -> None:
    (pytester.mkdir("tables") / "grok1_314b.yaml").write_text("workload: [\n", encoding="utf-8")
    result = run(pytester, PLAN, "--gsw-baselines=tables", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*grok1_314b.yaml*"])
    result.stderr.no_fnmatch_line("*no row of demo*")


def test_a_row_that_cannot_be_submitted_ends_the_plan_before_its_first_job(pytester: pytest.Pytester) -> None:
    plan = PLAN.replace("grok1_314b_fp8 and x16]\n", "all_reduce and p5\n    for: 10s\n")
    result = run(pytester, plan.replace("within: 5 %", "goodput: 80 %"))
    state = state_of(pytester)
    assert state.stopped.startswith("criterion goodput cannot be met any more: ")
    assert [one.state for one in state.stages] == ["not run"] * 3
    result.stdout.fnmatch_lines(["gsw: the plan ends before its first stage: criterion goodput *; * are not spent"])
    assert not list(pytester.path.glob(".gsw/runs/*/stage/results/**/*.out"))
    assert result.ret == 1
