"""``pytest-gsw nodes``: which nodes make jobs slow, by a history of many nights."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pytest_gsw.cli import main
from pytest_gsw.history.events import EXCLUDE, Event
from pytest_gsw.history.place import open_history
from tests.integration.runs import record as record_of
from tests.unit.results.records import varied

NODES, NIGHTS, SUSPECT, SLOW = 16, 45, 30, 7
BEGIN_S = 1794348000.0
NAMES = [f"pool0-{number:04}" for number in range(NODES)]


def nights(table: Path, slow: Mapping[int, tuple[int, int]]) -> None:
    """Two rows, each on four nodes at random; the slow ones cost 10 % of throughput from one night until another."""
    rng = Random(3)  # noqa: S311 - noise, not cryptography
    records = []
    for night in range(NIGHTS):
        for row in (0, 1):
            nodes = rng.sample(range(NODES), 4)
            is_slow = any(since <= night < until for node, (since, until) in slow.items() if node in nodes)
            seconds = (row + 1) * math.exp(rng.gauss(0, 0.01)) / (0.9 if is_slow else 1.0)
            one = record_of(table, 0, seconds, row)
            assert one.jobs.last is not None
            listed = ",".join(NAMES[node] for node in sorted(nodes))
            end_s = BEGIN_S + 86400 * night
            job = replace(one.jobs.last, id=f"{row}{481220 + night}", nodes=listed, start_s=end_s - 600, end_s=end_s)
            records.append(varied(one, run_id=f"night-{night:03}", job=job, recorded_s=end_s))
    (table.parent.parent / ".gsw").mkdir(exist_ok=True)
    with open_history(table.parent.parent / ".gsw" / "history.sqlite") as history:
        assert history.add(records) == len(records)


@pytest.fixture
def one_slow(pytester: pytest.Pytester, table: Path) -> Path:
    nights(table, {SLOW: (SUSPECT, NIGHTS)})
    return table


def test_a_slow_node_is_named(one_slow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nodes"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["nodes", "cluster", "throughput"]
    assert lines[2].split()[:2] == ["pool0-0007", "eos"]
    assert lines[3:] == ["1 culprit, see --json for the jobs"]


def test_as_json(one_slow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nodes", "--cluster=eos", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["cluster"], found["nodes"], found["mended"]) == ("eos", ["pool0-0007"], False)
    low, high = found["interval"]
    assert low < found["throughput_change"] < high
    assert found["throughput_change"] == pytest.approx(-0.1, abs=0.02)
    assert int(found["since"]["run_id"].removeprefix("night-")) in range(SUSPECT, SUSPECT + 6)
    assert len(found["accusing"]) >= 4
    assert found["clearing"] == []


def test_what_sbatch_excludes(one_slow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nodes", "--exclude-file=slow/nodes.txt"]) == 1
    assert Path("slow/nodes.txt").read_text(encoding="utf-8") == "pool0-0007\n"


def test_a_repaired_node_is_told_and_not_excluded(
    pytester: pytest.Pytester, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nights(table, {SLOW: (15, 32)})
    assert main(["nodes", "--exclude-file=nodes.txt"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[0] == "pool0-0007"
    assert lines[2].endswith("fast again")
    assert lines[3:] == ["no node makes jobs slow any more"]
    assert Path("nodes.txt").read_text(encoding="utf-8").strip() == ""


def test_sound_nodes_are_not_named(pytester: pytest.Pytester, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nights(table, {})
    assert main(["nodes"]) == 0
    assert capsys.readouterr().out == "no node makes jobs slow\n"


def test_runs_that_are_excluded_accuse_nobody(one_slow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_history(Path(".gsw/history.sqlite")) as history:
        for night in range(SUSPECT, NIGHTS):
            history.decide(Event(EXCLUDE, f"night-{night:03}", "eos", BEGIN_S, {"why": "maintenance"}))
    assert main(["nodes"]) == 0


def test_since_leaves_earlier_nights_out(one_slow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nodes", "--since=2099-01-01"]) == 0


def test_a_cluster_that_is_not_there(one_slow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nodes", "--cluster=selene"]) == 2
    assert "is of eos, not of selene" in capsys.readouterr().err


def test_a_day_that_is_none(one_slow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nodes", "--since=yesterday"])
    assert "got 'yesterday', wanted a day such as 2026-11-30" in capsys.readouterr().err
