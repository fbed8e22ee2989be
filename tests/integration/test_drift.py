"""``pytest-gsw history --drift``, and what a session says of a row that drifts."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pytest_gsw.cli import main
from pytest_gsw.history.place import open_history
from tests.integration.conftest import unwrapped
from tests.integration.runs import record as record_of
from tests.unit.results.records import varied

CREEPS, STAYS = "tiny_1b_bf16[H100x8]", "tiny_1b_bf16[H100x16]"
NIGHTS = 70
#: The night, from 0, from which on the row loses about 1 % a week.
SUSPECT = 42


def seconds(creep: float, level_s: float) -> list[float]:
    """A step time for each night, with 1 % of noise."""
    random = Random(7)  # noqa: S311 - noise, not cryptography
    return [level_s * (1 + creep * max(0, n - SUSPECT + 1) / 7) * (1 + random.gauss(0, 0.01)) for n in range(NIGHTS)]


def nights(table: Path, times_s: Sequence[float], row: int = 0, **changes: Any) -> None:
    records = []
    for n, each in enumerate(times_s):
        nccl = "2.21.5" if n < SUSPECT else "2.23.4"
        one = record_of(table, n, each, row, environment={"nccl": nccl, "driver": "550.54.15"}, **changes)
        day_s = time.time() - 86400 * (NIGHTS - n)
        assert one.jobs.last is not None
        job = replace(one.jobs.last, id=f"{row}{481220 + n}", start_s=day_s - 600, end_s=day_s)
        records.append(varied(one, run_id=f"night-{n:03}", job=job, recorded_s=day_s))
    (table.parent.parent / ".gsw").mkdir(exist_ok=True)
    with open_history(table.parent.parent / ".gsw" / "history.sqlite") as history:
        assert history.add(records) == len(records)


@pytest.fixture
def two_rows(pytester: pytest.Pytester, table: Path) -> Path:
    nights(table, seconds(0.02, 1.0))
    nights(table, seconds(0.0, 0.5), row=1)
    return table


def test_a_row_that_creeps_is_named_with_what_changed(two_rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--drift", f"--baselines={two_rows}"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "row"
    assert lines[2].startswith(CREEPS)
    assert "nccl 2.21.5 -> 2.23.4" in lines[2]
    assert "driver" not in lines[2]
    assert lines[3].startswith(STAYS)
    assert lines[-1] == "1 row drifts"


def test_as_json(two_rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--drift", f"--baselines={two_rows}", "--json"]) == 1
    creeps, stays = json.loads(capsys.readouterr().out)
    assert (creeps["row"], creeps["drifts"], stays["drifts"]) == (CREEPS, True, False)
    assert creeps["throughput_change"] < -0.02
    suspect = int(creeps["since"]["run_id"].removeprefix("night-"))
    assert abs(suspect - SUSPECT) <= 7
    assert set(stays) == {
        "row",
        "cluster",
        "definition",
        "nights",
        "first_s",
        "newest_s",
        "throughput_change",
        "drifts",
    }


def test_rows_that_do_not_creep(two_rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--drift", "*x16*", f"--baselines={two_rows}"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "of 1 row none drifts"


def test_with_too_few_nights_nothing_is_said(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nights(table, [1.0] * 20)
    assert main(["history", "--drift", f"--baselines={table}"]) == 0
    told = "1 row of fewer than 40 runs: whether it drifts cannot be told yet"
    assert capsys.readouterr().out.splitlines()[-1] == told


def test_a_session_warns_of_a_row_that_creeps_and_fails_nothing(pytester: pytest.Pytester, table: Path) -> None:
    # Simulated nights, as the demo's are.
    nights(table, seconds(0.012, 1.0), cluster="demo", simulated=True)
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
    assert json.loads(path.read_text())["drift"].startswith("throughput of the newest runs is -")
