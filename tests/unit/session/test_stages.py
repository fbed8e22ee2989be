"""The stages of a plan on a bill of nodes, as values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.acceptance.plan import Criteria, Plan, Stage
from pytest_gsw.acceptance.state import AcceptanceState, NodeException, write_state
from pytest_gsw.clusters import Cluster
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.errors import FileError
from pytest_gsw.jobs.slurm.nodes import ClusterNodes
from pytest_gsw.session.stages import Stages
from pytest_gsw.tables.model import Baseline
from tests.unit.rows import LLAMA2_FP8_X128

NODES = expand("n[01-16]")
SWITCHES = {"s1": NODES[:8], "s2": NODES[8:]}
CLUSTER = Cluster("eos", "slurm", accelerator="H100", gpus_per_node=8)


def row(gpus: int) -> Baseline:
    return replace(LLAMA2_FP8_X128, id=f"tiny[H100x{gpus}]", gpus=gpus)


def stages(tmp_path: Path, *listed: Stage, bill: str = "n[01-16]", unusable: dict[str, str] | None = None) -> Stages:
    down = unusable or {}
    there = ClusterNodes("batch", tuple(node for node in NODES if node not in down), down, SWITCHES)
    path = tmp_path / "plan.yaml"
    plan = Plan(path, "eos", expand(bill), listed, Criteria(covered=0.9), {"nodes": 2}, "text")
    return Stages(plan, CLUSTER, there, tmp_path)


def select_all(_rows: str, _marks: str) -> bool:
    return True


EACH, SWITCH, PLAIN = Stage("nodes", 4, tile="node"), Stage("fabric", 5, tile="switch"), Stage("documented", 6)


def test_a_row_is_placed_on_the_tiles_of_the_bill(tmp_path: Path) -> None:
    made = stages(tmp_path, EACH, PLAIN, bill="n[03-06]", unusable={"n04": "drained: fan"})
    placed = [(stage.name, one.id) for stage, one in made.place(row(8), select_all, {})]
    tiles = [("nodes", f"tiny[H100x8]@n0{number}") for number in (3, 5, 6)]
    assert placed == [*tiles, ("documented", "tiny[H100x8]")]
    assert made.exceptions == {"n04": NodeException("n04", "not given", "", "drained: fan")}
    assert made.left == ("n03", "n05", "n06")
    assert compressed(made.others) == "n[01-02,04,07-16]"
    made.check()


def test_a_resumed_run_keeps_its_tiles_and_what_was_not_given(tmp_path: Path) -> None:
    down = NodeException("n01", "not given", "", "down")
    slow = NodeException("n02", "slow", "nodes", "-20 %")
    write_state(tmp_path, AcceptanceState("eos", "plan.yaml", "", "", "n[01-16]", "root", exceptions=(down, slow)))
    made = stages(tmp_path, EACH, unusable={"n03": "down since"})
    assert made.exceptions == {"n01": down}  # its stages find the others again
    placed = made.place(row(8), select_all, {"tiny[H100x8]": ("n01", "n02")})
    assert [one.tile for _, one in placed] == ["n01", "n02"]


def test_a_row_of_two_stages_is_a_fault_unless_one_has_tiles(tmp_path: Path) -> None:
    made = stages(tmp_path, EACH, SWITCH, PLAIN)
    assert len([*made.place(row(8), select_all, {})]) == 16 + 1
    with pytest.raises(FileError) as raised:
        made.check()
    (fault,) = raised.value.faults
    assert (fault.line, fault.key) == (5, "stages.fabric")
    assert "tiny[H100x8] is a row of the stage 'nodes' (line 4), too" in fault.problem


@pytest.mark.parametrize(
    ("stage", "gpus", "why"),
    [
        (PLAIN, 256, "tiny[H100x256] (16 nodes left, 32 wanted)"),
        (EACH, 16, "tiny[H100x16] (no tile (node) of the bill holds it)"),
        (SWITCH, 128, "tiny[H100x128] (no tile (switch) of the bill holds it)"),
    ],
)
def test_a_stage_without_a_row_that_fits_is_a_fault(tmp_path: Path, stage: Stage, gpus: int, why: str) -> None:
    made = stages(tmp_path, stage)
    assert [*made.place(row(gpus), select_all, {})] == []
    with pytest.raises(FileError) as raised:
        made.check()
    assert [(fault.line, why in fault.problem) for fault in raised.value.faults] == [(stage.line, True)]


def test_a_stage_that_selects_nothing_is_a_fault(tmp_path: Path) -> None:
    made = stages(tmp_path, replace(PLAIN, rows="llama", marks="canary"))
    assert [*made.place(row(8), lambda *_: False, {})] == []
    with pytest.raises(FileError) as raised:
        made.check()
    assert raised.value.faults[0].problem == "no row of eos for rows: llama, marks: canary"


def test_the_bill_has_nodes_of_the_partition_alone(tmp_path: Path) -> None:
    with pytest.raises(FileError) as raised:
        stages(tmp_path, EACH, bill="n[15-18]")
    assert (raised.value.faults[0].line, raised.value.faults[0].key) == (2, "nodes")
    assert "no node 'n17' in the partition batch" in raised.value.faults[0].problem


def test_why_a_tile_has_no_job(tmp_path: Path) -> None:
    made = stages(tmp_path, EACH)
    made.exceptions["n02"] = NodeException("n02", "slow", "nodes", "-20 %")
    assert made.why_left_out("n[01-04]") == "left out: n02 (slow in the stage nodes: -20 %)"
    assert made.why_left_out("n[05-08]") == "its nodes are in other tiles now"
