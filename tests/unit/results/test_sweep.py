"""A sweep in a file and in lines: the histogram, what is slow, odd losses, and what was not covered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.results.sweep import (
    NAME,
    OddLoss,
    RowSweep,
    SearchJob,
    Sweep,
    histogram,
    next_lines,
    node_cases,
    odd_losses,
    read_sweep,
    sweep_lines,
    with_row,
    write_sweep,
)
from pytest_gsw.stats.sweep_finding import SweepFinding
from tests.unit.results.records import SLOW, varied

ROW = "llama2_70b_fp8[H100x128]"
FOUND = RowSweep(
    row=ROW,
    peers={"n1": 0.004, "n2": -0.004, "n3": -0.102, "n4": -0.031},
    findings=(
        SweepFinding("slow", "n3", "", -0.1, -0.12, -0.08, 3),
        SweepFinding("between", "n[7-8]", "s2", -0.06, -0.07, -0.05, 4),
        SweepFinding("intermittent", "n1", "", -0.151, -0.2, -0.1, 3, job_id="7"),
        SweepFinding("not decided", "n4", "", -0.031, -0.05, -0.012, 2, 6),
    ),
    cleared="n2",
    once="n[10-12]",
    once_loss=0.081,
    odd_losses=(OddLoss("n2", 9.8112, 9.8097, 3),),
    jobs=(
        SearchJob(1, "n3", "9", 1.1, gpu_hours=0.5),
        SearchJob(2, "n4", "10", problem="job 10 failed with exit code 4", gpu_hours=0.4),
    ),
    sigma=0.0123,
)
SWEEP = Sweep("node", "batch", 8, {"n5": "drained: x", "n6": "drained: x"}, {"s1": "n[1-4]", "s2": "n[5-8]"})


def test_a_sweep_in_lines() -> None:
    lost = varied(
        SLOW, row=f"{ROW}@n9", tile="n9", outcome="error", fact="not covered: n9 (down)", reason="", measured={}
    )
    assert sweep_lines(SWEEP, FOUND, [SLOW, lost], "run") == [
        "of peers, %      -10    -3    0",
        "tiles              1     1    2",
        "slow           n3  -10.0 % (-12.0 % to -8.0 %), 3 jobs",
        "between        n[7-8]  -6.0 % (-7.0 % to -5.0 %), 4 jobs, switch s2: its nodes together",
        "intermittent   n1  -15.1 % in job 7, fast in 3 jobs since",
        "not decided    n4  -3.1 % (-5.0 % to -1.2 %), 2 jobs: about 6 more jobs would tell",
        "other loss     n2  9.8112, 3 others 9.8097: same seed and shape",
        "cleared        1 node of a loss of 5 % or more",
        "once           3 nodes, one job each: a loss of up to 8.1 % is not excluded",
        "not covered    n[5-6]  drained: x",
        "not covered    n9  n9 (down)",
        "search         2 jobs in 2 rounds, noise of a job 1.2 %",
        "not measured   n4  round 2: job 10 failed with exit code 4",
        "next: scontrol update nodename=n3 state=drain reason='gsw run: 10.0 % slower than 3 peers'",
        "next: scontrol update nodename=n2 state=drain reason='gsw run: loss 9.8112, 3 peers 9.8097'",
        "next: sbatch --exclude=n3 ...",
        "next: pytest --gsw-resume=run --gsw-find=7",
    ]
    assert sweep_lines(Sweep("node", "batch", 8), RowSweep(ROW), [], "run") == []


def test_each_node_has_a_command_of_its_own_and_none_within_the_tolerance() -> None:
    slow = [("n3", -0.1), ("n[7-8]", -0.2), ("n9", -0.04)]
    found = RowSweep(ROW, FOUND.peers, tuple(SweepFinding("slow", name, "", loss, -0.2, 0, 3) for name, loss in slow))
    drain = "scontrol update nodename={} state=drain reason='gsw run: {} % slower than 3 peers'"
    assert next_lines(found, "run") == [
        ("drain it", drain.format("n3", "10.0")),
        ("drain it", drain.format("'n[7-8]'", "20.0")),
        ("or run elsewhere", "sbatch --exclude='n[3,7-8]' ..."),
    ]


NAMED = {
    "n3": ("failed", 1, "node n3: slow -10.0 % (-12.0 % to -8.0 %), 3 jobs"),
    "s2": ("failed", 1, "switch s2: between -6.0 % (-7.0 % to -5.0 %), 4 jobs, switch s2: its nodes together"),
    "n1": ("failed", 1, "node n1: intermittent -15.1 % in job 7, fast in 3 jobs since"),
}


@pytest.mark.parametrize(
    ("has_search", "warns", "slow", "left"),
    [
        (True, False, ("failed", 1), 6),
        (True, True, ("passed", 0), 0),
        (False, False, ("failed", 1), 0),
    ],
)
def test_named_nodes_and_those_that_were_not_covered_are_test_cases(
    has_search: bool, warns: bool, slow: tuple[str, int], left: int
) -> None:
    within = SweepFinding("slow", "n4", "", -0.03, -0.04, -0.02, 5)
    row = replace(FOUND, findings=(*FOUND.findings, within))
    sweep = replace(with_row(SWEEP, row), has_search=has_search, warns=warns)
    cases = {one.name: one for one in node_cases(sweep, {"n9": "failed"}, "eos.h100")}
    assert {name: (one.outcome, one.status, one.fact) for name, one in cases.items()} == {
        **{name: (*of, f"{fact} of {ROW}") for name, (*of, fact) in NAMED.items()},
        "n4": (*slow, f"node n4: slow -3.0 % (-4.0 % to -2.0 %), 5 jobs of {ROW}"),
        **{name: ("skipped", left, f"node {name}: not covered: drained: x") for name in ("n5", "n6")},
        "n9": ("skipped", left, "node n9: not covered: failed"),
    }
    assert {one.class_name for one in cases.values()} == {"eos_h100.nodes"}
    assert node_cases(None, {}, "eos") == []


@given(st.lists(st.floats(-0.9, 0.9)))
def test_a_histogram_counts_every_tile(changes: list[float]) -> None:
    lines = histogram({str(number): change for number, change in enumerate(changes)})
    assert sum(map(int, lines[1].split()[1:])) == len(changes) if changes else lines == []


def test_ends_of_a_histogram() -> None:
    assert histogram({"a": -0.6, "b": -0.2, "c": -0.154, "d": 0.5}) == [
        "of peers, %      -15    +9",
        "tiles              3     1",
    ]


@pytest.mark.parametrize(
    ("losses", "odd"),
    [
        ([9.81, 9.81, 9.81, 9.8101], {"3": 9.8101}),  # equal to the last digit, but for one
        ([9.80, 9.81, 9.82, 9.83, 9.84, 12.0], {"5": 12.0}),
        ([9.80, 9.81, 9.82, 9.83, 9.84, 9.86], {}),
        ([9.81, 9.81, 9.82], {}),  # too few
        ([9.81, 9.81, 9.81, 9.9, 9.9], {}),  # no loss is usual
    ],
)
def test_odd_losses(losses: list[float], odd: dict[str, float]) -> None:
    found = odd_losses({str(number): loss for number, loss in enumerate(losses)})
    assert {one.tile: one.loss for one in found} == odd
    assert all(one.tiles == len(losses) - len(odd) for one in found)


def test_a_sweep_in_a_file(tmp_path: Path) -> None:
    whole = with_row(with_row(SWEEP, RowSweep(ROW)), FOUND)
    write_sweep(tmp_path, whole)
    assert read_sweep(tmp_path) == whole
    assert whole.rows == (FOUND,)
    assert whole.switch_of["n7"] == "s2"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": 1}', "[" * 9999, "\x00", '{"kind": "node", "nodes": "x"}'])
def test_a_file_that_is_none(tmp_path: Path, text: str) -> None:
    assert read_sweep(tmp_path) is None
    (tmp_path / NAME).write_text(text)
    assert read_sweep(tmp_path) is None
