"""An acceptance of eight nodes in four stages, and the records that it leaves."""

from __future__ import annotations

from typing import Any

from pytest_gsw.acceptance.plan import Criteria
from pytest_gsw.acceptance.state import AcceptanceState, NodeException, StageState
from pytest_gsw.results.record import Record
from tests.unit.reports.records_of_runs import row
from tests.unit.results.sweeps import ROW, tile

#: The rows of the stages without tile.
DOCUMENTED = ("llama2_70b_bf16[H100x64]", "llama3_70b_bf16[H100x64]")
NODES = tuple(f"n{number:03}" for number in range(1, 9))
SLOW = NodeException("n003", "slow", "nodes", "10.0 % slower than 7 peers", f"{ROW}@n003", "481265")
DRAINED = NodeException("n008", "not given", "", "drained: NHC: ib0 down")


def stages(*states: str) -> tuple[StageState, ...]:
    """The stages in their states; those that are not named are decided."""
    nodes, documented, endurance = (*states, "decided", "decided", "decided")[:3]
    return (
        StageState("nodes", nodes, tile="node", rows=tuple(f"{ROW}@{node}" for node in NODES[:7])),
        StageState("documented", documented, rows=DOCUMENTED),
        StageState("endurance", endurance, for_s=3600.0, rows=("llama3_8b_bf16[H100x48]",)),
    )


def state_of(*states: str, criteria: Criteria = Criteria(covered=0.75, within=0.05), **changes: Any) -> AcceptanceState:  # noqa: B008
    """The acceptance of eight nodes, one of them slow, and one drained."""
    given: dict[str, Any] = {"stages": stages(*states), "exceptions": (SLOW, DRAINED), "criteria": criteria, **changes}
    return AcceptanceState("eos, phase 1", "acceptance.yaml", "0" * 64, "", "n[001-008]", "ana", **given)


def tiles(*left_out: str) -> list[Record]:
    """The records of the tiles of seven nodes, one slow."""
    there = (node for node in NODES[:7] if node not in left_out)
    return [tile(node, 5.0 if node == "n003" else 4.5, stage="nodes") for node in there]


def documented(*seconds: float, **changes: Any) -> list[Record]:
    """The records of the rows of the second stage."""
    return [row(name, judged=s, stage="documented", **changes) for name, s in zip(DOCUMENTED, seconds, strict=False)]
