"""Tiles of a row in the files of a session and of ``pytest-gsw report``, without a cluster: their records are there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.results.record import read_records, write_record
from pytest_gsw.results.sweep import RowSweep, Sweep, read_sweep, write_sweep
from pytest_gsw.session import search
from pytest_gsw.session.state import SESSION
from pytest_gsw.stats.sweep_finding import SweepFinding
from pytest_gsw.tables.load import load_table
from tests.integration.conftest import Gsw, junit, properties, records
from tests.integration.test_cli_report_junit import assert_alike, rebuilt
from tests.messages import wording
from tests.unit.reports.records_of_runs import RUN_ID
from tests.unit.results.sweeps import DRAINED, ROW, among_tiles, slow_finding, sweep_of, tiles

#: What Slurm's nodes are to a session that has none.
NODES = """
import pytest
from pytest_gsw.results.sweep import Sweep, write_sweep
from pytest_gsw.session.state import SESSION

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    directory = session.config.stash[SESSION].settings.run_directory
    directory.mkdir(parents=True)
    write_sweep(directory, Sweep("node", "batch", 2, {"n2": "drained: x"}))
"""


def end_sweep(session: pytest.Session, *_: object) -> None:
    """Find the one tile slow."""
    slow = SweepFinding("slow", "demo-01", "", -0.1, -0.12, -0.08, 3)
    of_row = RowSweep("tiny_1b_bf16[H100x8]", {"demo-01": -0.1012345678}, (slow,), level=1.0)
    state = session.config.stash[SESSION]
    assert state.sweep is not None
    state.sweep = replace(state.sweep, rows=(of_row,), has_search=True)
    write_sweep(state.settings.run_directory, state.sweep)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 32 tiles, one slow and one lost; two further nodes are drained."""
    directory, records = tmp_path / "runs" / RUN_ID, tiles()
    sweep = sweep_of(records, slow_finding())
    for one in among_tiles(records, sweep):
        write_record(directory, one)
    write_sweep(directory, sweep)
    return directory


def test_a_sessions_junit_file_has_the_peers_of_a_tile_and_so_has_a_rebuilt_one(
    pytester: pytest.Pytester, table: Path, gsw: Gsw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "end_sweep", end_sweep)
    first, second, _ = (row.id for row in load_table(table))
    pytester.makeconftest(NODES)
    pytester.runpytest("--gsw-cluster=demo", "--junitxml=own.xml", f"{table}::{first}@demo-01", f"{table}::{second}")
    (directory,) = Path(".gsw/runs").iterdir()
    own = pytester.path / "own.xml"
    found = {name: properties(case).get("gsw_peers_change") for name, case in junit(own).items()}
    assert found == {f"{first}@demo-01": "-0.101235", second: None, "demo-01": None, "n2": None}
    assert_alike(own, rebuilt(gsw, directory))


def test_a_sweep_in_each_format(run: Path, gsw: Gsw) -> None:
    again = rebuilt(gsw, run)
    cases = {name: properties(case) for name, case in junit(again).items()}
    assert float(cases[f"{ROW}@n017"]["gsw_peers_change"]) == pytest.approx(-0.1)
    assert {name: found.get("gsw_node") for name, found in cases.items() if "gsw_peers_change" not in found} == {
        f"{ROW}@n031": None,
        "n017": f"node n017: slow -10.0 % (-12.0 % to -8.0 %), 3 jobs of {ROW}",
        "n901": f"node n901: not covered: {DRAINED}",
        "n902": f"node n902: not covered: {DRAINED}",
        "n031": "node n031: not covered: job failed: node failure",
    }
    assert "**slow** `n017 -10.0 % (" in gsw("report", run, "--format=markdown").out
    assert (
        f'gsw_sweep_nodes_not_covered{{row="{ROW}",cluster="eos"}} 3.0'
        in gsw("report", run, "--format=openmetrics").out
    )
    told = gsw("report", run, "-o", run / "report").out
    assert told == f"{run / 'report' / 'index.html'}: 30 passed, 1 regressed, 1 error\n"
    assert re.search(r'<h2 id="tiles-1">32 tiles of ', (run / "report" / "index.html").read_text())


def test_the_overview_names_a_slow_node_and_what_to_type(run: Path, gsw: Gsw, monkeypatch: pytest.MonkeyPatch) -> None:
    home = run.parent.parent / "home"
    (home / ".gsw").mkdir(parents=True)
    run.parent.rename(home / ".gsw" / "runs")
    monkeypatch.chdir(home)
    lines = [re.split("  +", line, maxsplit=1) for line in gsw().out.splitlines()]
    told = [(name, text) for name, text in lines if name not in {"run", "regressed", "error"}]
    assert told[:2] == [
        ("rows", "32 tiles of 1 row: 30 passed, 1 regressed, 1 error"),
        ("other loss", "n009 9.41, 30 others 9.021: same seed and shape"),
    ]
    assert ("slow node", f"node n017: slow -10.0 % (-12.0 % to -8.0 %), 3 jobs of {ROW}") in told
    assert ("not covered", f"n[901-902] {DRAINED}") in told
    drain = f"scontrol update nodename={{}} state=drain reason='gsw {RUN_ID}: {{}}'"
    assert [text for name, text in told if name == "next"][:3] == [
        drain.format("n017", "10.0 % slower than 30 peers"),
        drain.format("n009", "loss 9.41, 30 peers 9.021"),
        "sbatch --exclude=n017 ...",
    ]


@pytest.mark.parametrize("is_odd", [True, False])
def test_a_tile_with_another_loss_is_neither_green_nor_cleared(
    pytester: pytest.Pytester, table: Path, gsw: Gsw, is_odd: bool
) -> None:
    row = load_table(table)[0].id
    tiles = [f"{table}::{row}@demo-0{number}" for number in range(1, 9)]
    pytester.runpytest("--gsw-cluster=demo", *tiles).assert_outcomes(passed=8)
    (directory,) = Path(".gsw/runs").iterdir()
    write_sweep(directory, Sweep("node", "batch", 8))
    (log,) = (Path(record["log"]) for record in records(pytester.path) if record["row"].endswith("@demo-03"))
    if is_odd:
        log.write_text(re.sub(r"loss: (\d)", lambda loss: f"loss: {(int(loss[1]) + 1) % 10}", log.read_text()))
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-replay={directory}", "--junitxml=own.xml", *tiles)
    result.assert_outcomes(passed=8 - is_odd, skipped=int(is_odd))
    assert result.ret == (6 if is_odd else 0)
    (replay,) = {*Path(".gsw/runs").iterdir()} - {directory}
    found = read_sweep(replay)
    assert found is not None
    assert [odd.tile for odd in found.rows[0].odd_losses] == (["demo-03"] if is_odd else [])
    assert found.rows[0].cleared == ("demo-[01-02,04-08]" if is_odd else "demo-[01-08]")
    odd = junit(pytester.path / "own.xml")[f"{row}@demo-03"]
    assert properties(odd)["gsw_reason"] == ("other loss" if is_odd else "within tolerance")
    gsw("report", replay, "-o", "page")
    assert ("1 inconclusive of 8 tiles" in Path("page", "index.html").read_text()) is is_odd


def test_a_part_of_a_sweep_that_is_resumed_takes_what_all_tiles_have_shown(
    pytester: pytest.Pytester, table: Path
) -> None:
    row = load_table(table)[0].id
    tiles = [f"{table}::{row}@demo-0{number}" for number in range(1, 5)]
    pytester.runpytest("--gsw-cluster=demo", *tiles).assert_outcomes(passed=4)
    (directory,) = Path(".gsw/runs").iterdir()
    slow = SweepFinding("slow", "demo-03", "", -0.04, -0.05, -0.03, 3)
    of_row = RowSweep(row, {f"demo-0{number}": -0.04 * (number == 3) for number in range(1, 5)}, (slow,), level=1.0)
    write_sweep(directory, Sweep("node", "batch", 4, rows=(of_row,), has_search=True))
    (record,) = (one for one in read_records(directory) if one.row.tile == "demo-03")
    assert record.jobs.last is not None
    write_record(directory, replace(record, jobs=replace(record.jobs, search=(record.jobs.last,))))
    result = pytester.runpytest("--gsw-resume=last", tiles[2], "--gsw-find")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["slow demo-03: -4.0 % *", "search 1 *", "FAILED nodes::demo-03 *"])
    found = read_sweep(directory)
    assert found is not None
    assert found.rows == (of_row,)


@pytest.mark.parametrize("option", ["--gsw-resume=last", "--gsw-replay=last"])
def test_a_damaged_sweep_is_not_taken_for_none(pytester: pytest.Pytester, table: Path, option: str) -> None:
    tile = f"{table}::{load_table(table)[0].id}@demo-01"
    pytester.runpytest("--gsw-cluster=demo", tile).assert_outcomes(passed=1)
    (directory,) = Path(".gsw/runs").iterdir()
    (directory / "sweep.json").write_text('{"kind": "node"')
    result = pytester.runpytest(option, tile)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [wording("sweep damaged", path=f"ERROR: .gsw/runs/{directory.name}/sweep.json", why="*"), "next: remove it *"]
    )


def test_a_report_without_its_sweep_still_lists_the_slow_tile(run: Path, gsw: Gsw) -> None:
    (run / "sweep.json").unlink()
    told = gsw("report", run, "--format=markdown").out
    assert "no row needs attention" not in told
    assert re.search(rf"^\| `{re.escape(ROW)}@n017` \| \*\*regressed\*\*", told, re.MULTILINE)
