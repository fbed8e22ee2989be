"""``--gsw-tile`` where no Slurm answers, and the ids of rows on tiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import tiny_table
from tests.messages import wording

ROW = "tiny_1b_bf16[H100x8]"


@pytest.fixture
def project(pytester: pytest.Pytester, recipes: Path) -> Path:
    """A table of two rows, and a cluster whose Slurm does not answer."""
    table = pytester.path / "site" / "tiny.yaml"
    table.parent.mkdir()
    table.write_text(tiny_table("gpus: 8, step_time_s: 1.0, line: 10", "gpus: 16, step_time_s: 0.5, line: 11"))
    launch = recipes / "tiny" / "launch.sh"
    launch.parent.mkdir()
    launch.write_text("#!/bin/bash\n")
    launch.chmod(0o755)
    (pytester.path / "clusters.yaml").write_text(
        "clusters:\n"
        + "".join(
            f"  {name}: {{scheduler: {scheduler}, accelerator: H100, gpus_per_node: 8, stage: '{pytester.path}/stage', "
            f"recipes: '{recipes}'}}\n"
            for name, scheduler in (("eos", "slurm"), ("here", "local"))
        )
    )
    return table


def run(pytester: pytest.Pytester, *arguments: str, cluster: str = "eos") -> pytest.RunResult:
    return pytester.runpytest(f"--gsw-cluster={cluster}", "--gsw-baselines=site", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gsw-tile=rack"], "--gsw-tile: got 'rack', wanted node, switch, block, or a number of nodes such as 4"),
        (["--gsw-tile="], "--gsw-tile is empty, perhaps by a variable that is not set"),
        (["--gsw-tile=nodes"], "*or a number of nodes such as 4; did you mean 'node'[?]"),
        (["--gsw-tile=0"], "--gsw-tile: got '0', wanted *"),
        (["--gsw-tile=2:"], "--gsw-tile: '2:' has no nodes behind the colon, such as 2:n[[]001-032[]]"),
        (["--gsw-tile=node"], "Slurm did not answer which nodes there are: *"),
        (["--gsw-tile=node", "--gsw-replay=site"], "--gsw-tile and --gsw-replay exclude each other: *"),
        ([f"site/tiny.yaml::{ROW}@"], "*no node list such as n[[]001-004[]] after the @"),
        ([f"site/tiny.yaml::{ROW}@../n1"], "*no node list such as n[[]001-004[]] after the @"),
        (["site/tiny.yaml::tiny_1b_bf16[H100x9]@n1"], "*not found: *; did you mean 'tiny_1b_bf16[[]H100x8[]]'[?]"),
    ],
)
def test_what_is_no_tile(pytester: pytest.Pytester, project: Path, arguments: list[str], message: str) -> None:
    result = run(pytester, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_tiles_are_slurms(pytester: pytest.Pytester, project: Path) -> None:
    result = run(pytester, "--gsw-tile=node", cluster="here")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([wording("no tiles here", cluster="ERROR: here", scheduler="local")])


def ids(result: pytest.RunResult) -> list[str]:
    assert result.ret == 0
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def test_rows_on_tiles_by_their_ids(pytester: pytest.Pytester, project: Path) -> None:
    """Of a table's real path, which pytest looks up itself, and of a name below the tables' directory."""
    named = [f"site/tiny.yaml::{ROW}@n[9-10]", f"site/tiny.yaml::{ROW}@n9", "site/tiny.yaml::tiny_1b_bf16[H100x16]"]
    assert ids(run(pytester, "--collect-only", "-q", *named)) == [
        f"{ROW}@n9",
        f"{ROW}@n[9-10]",
        "tiny_1b_bf16[H100x16]",
    ]
    bundled = "baselines/maxtext/llama2_70b.yaml::llama2_70b_bf16[H100x64]@n[1-8]"
    assert ids(pytester.runpytest("--gsw-cluster=eos", "--collect-only", "-q", bundled)) == [bundled.partition("::")[2]]


def test_the_plan_of_a_row_on_tiles(pytester: pytest.Pytester, project: Path) -> None:
    result = run(pytester, "--gsw-plan", f"site/tiny.yaml::{ROW}@n9", f"site/tiny.yaml::{ROW}@n10")
    result.stdout.fnmatch_lines(
        [
            wording("page counts", counts="2 tiles", rows="1 row, 16 GPUs", cluster="2 nodes *"),
            "  tiles        2: n9 n10",
            "  command      sbatch * --nodelist=n9 *",
        ]
    )
    assert result.ret == 0
