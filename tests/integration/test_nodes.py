"""``pytest-gsw nodes``: which nodes make jobs slow, by a history of many runs."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pytest_gsw.history.location import open_history
from pytest_gsw.history.store import TOPOLOGY, Event
from tests.integration.conftest import Gsw, junit, properties, suite_properties
from tests.integration.runs import record as record_of
from tests.messages import wording
from tests.unit.results.records import varied

NODES, RUNS, SUSPECT, SLOW = 16, 45, 30, 7
BEGIN_S = 1794348000.0
NAMES = [f"pool0-{number:04}" for number in range(NODES)]


def runs(
    table: Path,
    slow: Mapping[int, tuple[int, int]],
    names: Sequence[str] = NAMES,
    begin_s: float = BEGIN_S,
    cluster: str = "eos",
    last: int = RUNS,
    of_row: int = 0,
    failing: int | None = None,
) -> None:
    """Two rows, each on four nodes at random or on its own; slow ones cost 10 % from one run until another."""
    rng = Random(3)  # noqa: S311 - noise, not cryptography
    records = []
    for run in range(last):
        for row in (0, 1):
            own = range(of_row * row, of_row * (row + 1))
            nodes = rng.sample(own or range(NODES), 4)
            is_slow = any(since <= run < until for node, (since, until) in slow.items() if node in nodes)
            seconds = (row + 1) * math.exp(rng.gauss(0, 0.01)) / (0.9 if is_slow else 1.0)
            one = record_of(table, 0, seconds, row, cluster=cluster)
            assert one.jobs.last is not None
            listed = ",".join(names[node] for node in sorted(nodes))
            end_s = begin_s + 86400 * run
            job = replace(one.jobs.last, id=f"{row}{481220 + run}", nodes=listed, start_s=end_s - 600, end_s=end_s)
            lost = replace(job, id=f"9{job.id}", nodes=names[failing or 0], why_repeated="node failure", judged=None)
            attempts = (lost,) if failing in nodes else ()
            records.append(varied(one, run_id=f"night-{run:03}", job=job, recorded_s=end_s, attempts=attempts))
    (table.parent.parent / ".gsw").mkdir(exist_ok=True)
    with open_history(table.parent.parent / ".gsw" / "history.sqlite") as history:
        assert history.add(records) == len(records)


def test_the_state_of_a_node(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    runs(table, {SLOW: (SUSPECT, RUNS)})
    slow, sound, other = gsw("nodes", "pool0-[0007-0008]", "n017", status=1).out.splitlines()
    assert slow.startswith("pool0-0007 on eos: slow: node pool0-0007 (-")
    assert sound == "pool0-0008 on eos: " + wording("cleared node", loss="5.8 %")
    assert other == wording("no job had it", node="n017", cluster="eos")
    gsw("nodes", "pool0-0008", status=0)
    gsw("nodes", "n017", "pool0-0008", status=6)


def test_a_slow_node_is_named(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    runs(table, {SLOW: (SUSPECT, RUNS)})
    lines = gsw("nodes", status=1).out.splitlines()
    assert lines[0].split()[:3] == ["nodes", "cluster", "throughput"]
    assert lines[2].split()[:2] == ["pool0-0007", "eos"]
    assert lines[3:] == [
        wording("slow node", nodes="1 slow node"),
        "eos: 15 nodes " + wording("cleared", loss="5.8 %") + " by the last 30 runs",
        "next: keep jobs off them: pytest-gsw nodes --cluster=eos --exclude-file=nodes.txt",
    ]
    (eos,) = json.loads(gsw("nodes", "--cluster=eos", "--json", status=1).out)
    assert (eos["cluster"], eos["without_enough_data"]) == ("eos", [])
    assert eos["cleared"] == [name for name in NAMES if name != NAMES[SLOW]]
    assert eos["cleared_of"] == pytest.approx(-0.058, abs=0.001)
    (found,) = eos["slow"]
    assert (found["cluster"], found["nodes"], found["fixed"]) == ("eos", ["pool0-0007"], False)
    assert found["throughput_change"] == pytest.approx(-0.1, abs=0.02)
    assert int(found["since"]["run_id"].removeprefix("night-")) in range(SUSPECT, SUSPECT + 6)
    assert len(found["slow_jobs"]) >= 4
    assert found["fast_jobs"] == []


def test_a_slow_switch_is_named_with_its_nodes(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    runs(table, dict.fromkeys((6, SLOW), (SUSPECT, RUNS)))
    body = {f"switch s{number}": f"pool0-[{2 * number:04}-{2 * number + 1:04}]" for number in range(8)}
    with open_history(Path(".gsw/history.sqlite")) as history:
        history.decide(Event(TOPOLOGY, "eos", "eos", BEGIN_S, body))
    lines = gsw("nodes", "--exclude-file=nodes.txt", status=1).out.splitlines()
    assert lines[2].split("  ")[0] == "switch s3 (pool0-[0006-0007])"
    assert lines[3] == wording("slow node", nodes="1 slow node or switch")
    assert lines[5:] == [
        "next: see the links and counters of the switch; pytest --gsw-tile=switch measures each switch"
    ]
    assert Path("nodes.txt").read_text(encoding="utf-8").strip() == ""
    (eos,) = json.loads(gsw("nodes", "--json", status=1).out)
    (found,) = eos["slow"]
    assert (found["switch"], found["nodes"]) == ("switch s3", ["pool0-0006", "pool0-0007"])
    lines = gsw("alarms", "--cluster=eos", status=1).out.splitlines()
    assert [line for line in lines if "switch s3" in line and " node " in line]
    assert len([line for line in lines if "pool0" in line]) == 0


def test_a_node_that_fails_jobs_is_named(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    runs(table, {}, failing=5)
    lines = gsw("nodes", "--exclude-file=nodes.txt", status=1).out.splitlines()
    assert lines[0] == "no node makes jobs slow"
    assert lines[2] == "eos: 16 jobs failed by the infrastructure in 90 days, more than by chance on"
    assert lines[3].split() == ["nodes", "failed", "of", "jobs", "usual"]
    assert lines[5].split()[:3] == ["pool0-0005", "16", "32"]
    assert lines[6:] == ['next: sbatch --exclude="$(cat nodes.txt)" ...']
    assert Path("nodes.txt").read_text(encoding="utf-8") == "pool0-0005\n"
    (eos,) = json.loads(gsw("nodes", "--json", status=1).out)
    (found,) = eos["failures"]
    assert (found["nodes"], found["failed"], found["beyond_chance"]) == (["pool0-0005"], 16, True)
    assert found["usual"] < found["failed"] / found["of"]


def test_a_repaired_node_is_told_and_not_excluded(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    runs(table, {SLOW: (15, 32)})
    lines = gsw("nodes", "--exclude-file=nodes.txt").out.splitlines()
    assert lines[2].split()[0] == "pool0-0007"
    assert lines[2].endswith("fast again")
    assert lines[3:] == [
        wording("no slow node"),
        "eos: 16 nodes " + wording("cleared", loss="5.8 %") + " by the last 30 runs",
    ]
    assert Path("nodes.txt").read_text(encoding="utf-8").strip() == ""


def test_a_session_says_which_slow_node_explains_a_regression(pytester: pytest.Pytester, table: Path) -> None:
    names = [*NAMES[:SLOW], "demo-01", *NAMES[SLOW + 1 :]]
    runs(table, {SLOW: (SUSPECT, RUNS)}, names, time.time() - (RUNS + 1) * 86400, "demo")
    row, asked = "llama2_70b_fp8[H100x128]", ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and x128", "--junitxml=j.xml")
    result = pytester.runpytest(*asked, "--gsw-demo=node:demo-01=slow:12%", "--gsw-confirm=1", "--gsw-report=report")
    result.assert_outcomes(failed=1, deselected=140)
    result.stdout.re_match_lines(
        [
            r"gsw: .*to be confirmed \(1 of 1\); submitted again, without demo-\[01-16\] where that is possible",
            r"throughput .* \(allowed 5 %\); explained by node demo-01 \(.*, \d+ jobs\); confirming jobs were to avoid demo-01",
            r"=+ slow nodes =+",
            r"node demo-01 \(-1?\d\.\d %, \d+ jobs\) since \d{4}-\d\d-\d\d",
            "others: 15 nodes "
            + wording("cleared", loss="5\\.8 %")
            + " by the last 30 runs, 15 without enough data\\.",
            r"next: the jobs that show it: pytest-gsw nodes",
        ]
    )
    of_suite = suite_properties(Path("j.xml"))
    assert of_suite["gsw_slow_nodes"].startswith("node demo-01 (-")
    report = Path("report")
    index = (report / "index.html").read_text(encoding="utf-8")
    assert "slow node demo-01</a>: " in index.partition('id="lately"')[2].partition("</section>")[0]
    assert "pytest-gsw nodes --cluster=demo" in index
    nodes = (report / "nodes.html").read_text(encoding="utf-8")
    assert ">node demo-01 (" in nodes
    assert "demo: 15 nodes " + wording("cleared", loss="5.8 %") in nodes
    assert 'node="demo-01",one_of="1"} -0.' in (report / "gsw.prom").read_text(encoding="utf-8")
    told = properties(junit(pytester.path / "j.xml")[row])
    assert told["gsw_fact"].endswith(f"; {told['gsw_slow_nodes']}")
    (run,) = pytester.path.glob(".gsw/runs/*")
    pytester.runpytest(*asked, f"--gsw-replay={run}").assert_outcomes(failed=1, deselected=140)
    assert properties(junit(pytester.path / "j.xml")[row])["gsw_slow_nodes"] == told["gsw_slow_nodes"]
