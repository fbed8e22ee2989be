"""``--gsw-find`` where no Slurm answers: what is no search, and the nodes of the demo."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.results.sweep import read_sweep
from tests.integration.conftest import records


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gsw-find"], "--gsw-find looks among tiles"),
        (
            ["--gsw-tile=node", "--gsw-find=many"],
            "--gsw-find: got 'many', wanted GPU-hours such as --gsw-find=300, or unlimited",
        ),
        (["--gsw-tile=node", "--gsw-find=0"], "--gsw-find: got '0', wanted *"),
        (["--gsw-tile=node", "--gsw-find=nan"], "--gsw-find: got 'nan', wanted *"),
        (["--gsw-tile=node", "--gsw-find", "--gsw-replay=."], "--gsw-* and --gsw-replay exclude each other: *"),
    ],
)
def test_what_is_no_search(pytester: pytest.Pytester, arguments: list[str], message: str) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_the_search_finds_the_slow_node_of_the_demo(pytester: pytest.Pytester) -> None:
    faults = ("node:demo-06=slow:12%", "node:demo-11=fail", "node:demo-03=down")
    result = pytester.runpytest(
        *("--gsw-cluster=demo", "-k", "grok1_314b_fp8[H100x8]", "--gsw-tile=node", "--gsw-find"),
        *(f"--gsw-demo={fault}" for fault in faults),
    )
    result.stdout.fnmatch_lines(
        [
            "gsw: 15 tiles of 1 node: 15 of 16 nodes of the partition demo",
            "gsw: not covered: demo-03 (down: by --gsw-demo)",
            "gsw: 15 tiles of 1 row, simulated on this machine",
            "*@demo-06  REGRESSED  slow demo-06 *",
        ]
    )
    tiles = {record["row"].partition("@")[2]: record for record in records(pytester.path)}
    assert {tile for tile, record in tiles.items() if record["outcome"] != "passed"} == {"demo-06", "demo-11"}
    assert {tile: record["job"]["nodes"] for tile, record in tiles.items()} == {tile: tile for tile in tiles}
    (directory,) = Path(".gsw/runs").iterdir()
    sweep = read_sweep(directory)
    assert sweep is not None
    assert [(one.kind, one.nodes) for one in sweep.rows[0].findings] == [("slow", "demo-06")]


def test_switches_of_the_demo(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "-k", "grok1_314b_fp8[H100x32]", "--gsw-tile=switch")
    result.assert_outcomes(passed=4, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["gsw: 4 tiles of 4 nodes: 16 of 16 nodes of the partition demo"])
    tiles = sorted(record["job"]["nodes"] for record in records(pytester.path))
    assert tiles == [f"demo-[{first:02d}-{first + 3:02d}]" for first in (1, 5, 9, 13)]


def test_a_row_that_lost_a_node_runs_again_without_it(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest(
        "--gsw-cluster=demo", "-k", "llama2_70b_fp8 and x64", "--gsw-retries=1", "--gsw-demo=node:demo-03=lost:20"
    )
    result.assert_outcomes(passed=1, deselected=140)
    result.stdout.fnmatch_lines(["* NODE_FAIL on demo-[[]01-08]: node failure; submitted again, without demo-03"])
    assert records(pytester.path)[-1]["job"]["nodes"] == "demo-[01-02,04-09]"
