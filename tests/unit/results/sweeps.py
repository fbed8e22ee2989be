"""A sweep of a row of 8 GPUs over the nodes of a cluster: a slow one, one that failed, and some that nobody may use."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pytest_gsw.common.node_lists import compressed
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.record import Record
from pytest_gsw.results.sweep import OddLoss, RowSweep, SearchJob, Sweep
from pytest_gsw.stats.sweep_finding import SweepFinding
from tests.unit.history.runs import job
from tests.unit.reports.records_of_runs import CURRENT_RUN, SLOW_FACT, failed, row

ROW = "llama3.1_8b_bf16[H100x8]"
#: What one node's job takes, documented with 4.5 s: the slow node, and others that pass.
SLOW_S, USUAL_S = 5.0, 4.5
DRAINED = "drained: NHC: ib0 | down"
LOST = "job 481265 failed: node failure"


def tile(node: str, seconds: float | None = USUAL_S, name: str = ROW, **changes: Any) -> Record:
    """What one tile left; without a time it was lost."""
    row_id = f"{name}@{node}"
    of_tile = {"row": row_id, "node_id": f"baselines/nemo/llama3.yaml::{row_id}", "tile": node, **changes}
    if seconds is None:
        lost = job(CURRENT_RUN, state=JobState.NODE_FAIL, nodes=node)
        return failed(name, LOST, **{"job": lost, **of_tile})
    slow = (
        {"outcome": "regressed", "fact": SLOW_FACT, "reason": "slower than allowed"} if seconds > USUAL_S / 0.95 else {}
    )
    return row(name, judged=seconds, **{"job": job(CURRENT_RUN, nodes=node), **slow, **of_tile})


def nodes(count: int) -> list[str]:
    return [f"n{number:03}" for number in range(1, count + 1)]


def slow_finding(name: str = "n017", **changes: Any) -> SweepFinding:
    given = {"kind": "slow", "nodes": name, "switch": "", "change": -0.1, "low": -0.12, "high": -0.08, "jobs": 3}
    return SweepFinding(**{**given, **changes})


def among_tiles(records: Sequence[Record], sweep: Sweep) -> list[Record]:
    """The records as a session writes them once all tiles have ended."""
    return [replace(one, among_tiles=sweep.on_tile(sweep.rows[0], one.row.tile)) for one in records]


def sweep_of(records: Sequence[Record], *findings: SweepFinding, **changes: Any) -> Sweep:
    """What the session found by these tiles; two more nodes are drained."""
    measured = {one.row.tile: one.measured for one in records if one.measured is not None}
    return Sweep(
        kind="node",
        partition="batch",
        nodes=len(records) + 2,
        not_covered={"n901": DRAINED, "n902": DRAINED},
        has_search=True,
        rows=(
            RowSweep(
                **{
                    "row": ROW,
                    "peers": {name: USUAL_S / seconds - 1 for name, seconds in measured.items()},
                    "findings": findings,
                    "cleared": compressed(name for name in measured if name != "n017"),
                    "odd_losses": (OddLoss("n009", 9.41, 9.021, len(measured) - 1),),
                    "jobs": (
                        SearchJob(1, "n017", "481400", 4.98),
                        SearchJob(1, "n004", "481401", 4.51),
                        SearchJob(2, "n017", "481402", problem="job 481402 failed: node failure"),
                    ),
                    "sigma": 0.0165,
                    **changes,
                }
            ),
        ),
    )


def tiles(count: int = 32) -> list[Record]:
    """A tile of each node, n017 slow and n031 lost."""
    noise = random.Random(count)  # noqa: S311 - noise, not cryptography
    usual = {name: USUAL_S * (1 + noise.gauss(0, 0.0165)) for name in nodes(count)}
    special = {"n017": SLOW_S, "n031": None}
    return [tile(name, special.get(name, min(seconds, 4.7))) for name, seconds in usual.items()]
