"""``pytest-gsw history --drift``, and what a session says of a row that drifts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.integration.conftest import Gsw, unwrapped
from tests.integration.runs import remember
from tests.messages import wording

CREEPS, STAYS = "tiny_1b_bf16[H100x8]", "tiny_1b_bf16[H100x16]"
RUNS = 70
#: The run, from 0, from which on the row loses about 1 % a week.
SUSPECT = 42


def seconds(creep: float, level_s: float) -> list[float]:
    """A step time for each run, with 1 % of noise."""
    random = Random(7)  # noqa: S311 - noise, not cryptography
    return [level_s * (1 + creep * max(0, n - SUSPECT + 1) / 7) * (1 + random.gauss(0, 0.01)) for n in range(RUNS)]


def runs(table: Path, times_s: Sequence[float], row: int = 0, **changes: Any) -> None:
    def environment(number: int) -> dict[str, Any]:
        nccl = "2.21.5" if number < SUSPECT else "2.23.4"
        return {"environment": {"nccl": nccl, "driver": "550.54.15"}}

    place, begin_s = table.parent.parent / ".gsw" / "history.sqlite", time.time() - 86400 * RUNS
    remember(place, table, times_s, begin_s, row, of_run=environment, **changes)


def test_a_row_that_creeps_is_named_with_what_changed(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    runs(table, seconds(0.02, 1.0))
    runs(table, seconds(0.0, 0.5), row=1)
    lines = gsw("history", "--drift", f"--baselines={table}", status=1).out.splitlines()
    assert lines[0].split("  ")[0] == "row"
    assert lines[2].startswith(CREEPS)
    assert "nccl 2.21.5 -> 2.23.4" in lines[2]
    assert "driver" not in lines[2]
    assert lines[3:] == ["1 row drifts"]
    assert gsw("history", "--drift", "--all", f"--baselines={table}", status=1).out.splitlines()[3].startswith(STAYS)
    assert gsw("history", "--drift", "*x16*", f"--baselines={table}").out.splitlines()[-1] == "no drift in 1 row"


def test_a_session_warns_of_a_row_that_creeps_and_fails_nothing(pytester: pytest.Pytester, table: Path) -> None:
    # Simulated runs, as the demo's are.
    runs(table, seconds(0.012, 1.0), cluster="demo", simulated=True)
    result = pytester.runpytest(
        "--gsw-cluster=demo", f"--gsw-baselines={table}", "-k", "x8 and H100", "--gsw-demo=*=slow:4%"
    )
    result.assert_outcomes(passed=1, deselected=2)
    assert result.ret == 0
    pytest.LineMatcher(unwrapped(result.outlines)).re_match_lines(
        [
            r"=+ drift =+",
            (
                r"tiny_1b_bf16\[H100x8\]  throughput of the newest runs is -\d\.\d % against the "
                r"first ones, since about 20\d\d-\d\d-\d\d \d\d:\d\d \(job 04812\d\d of run night-0\d\d\).*"
            ),
        ]
    )
    path = max(pytester.path.glob(".gsw/runs/*/records/*.json"), key=lambda one: one.stat().st_mtime_ns)
    assert json.loads(path.read_text())["drift"].startswith(wording("newest runs", change="-"))
