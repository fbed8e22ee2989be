"""Tiles of a row in the files of a session and of ``pytest-gsw report``, without a cluster: their records are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_gsw.results.record import write_record
from pytest_gsw.results.sweep import Sweep, read_sweep, write_sweep
from pytest_gsw.tables.load import load_table
from tests.integration.conftest import Gsw, junit, properties, records, suite_properties
from tests.integration.test_cli_report_junit import assert_alike, rebuilt
from tests.unit.reports.records_of_runs import RUN_ID
from tests.unit.results.sweeps import DRAINED, ROW, slow_finding, sweep_of, tiles

#: What a session notes that finds its tiles by Slurm; here the session itself has no other way to have a sweep.
SWEEP = """
import pytest
from pytest_gsw.results.sweep import RowSweep, Sweep, SweepFinding, write_sweep
from pytest_gsw.session.settings import SETTINGS, SWEEP

@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session):
    done = yield
    slow = SweepFinding("slow", "localhost", "", -0.1, -0.12, -0.08, 3)
    of_row = RowSweep("tiny_1b_bf16[H100x8]", {"localhost": -0.1012345678}, (slow,))
    session.config.stash[SWEEP] = Sweep("node", "batch", 2, {"n2": "drained: x"}, rows=(of_row,))
    write_sweep(session.config.stash[SETTINGS].run_directory, session.config.stash[SWEEP])
    return done
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 32 tiles, one slow and one lost; two further nodes are drained."""
    directory, records = tmp_path / "runs" / RUN_ID, tiles()
    for one in records:
        write_record(directory, one)
    write_sweep(directory, sweep_of(records, slow_finding()))
    return directory


def test_a_sessions_junit_file_has_the_peers_of_a_tile_and_so_has_a_rebuilt_one(
    pytester: pytest.Pytester, table: Path, gsw: Gsw
) -> None:
    first, second, _ = (row.id for row in load_table(table))
    pytester.makeconftest(SWEEP)
    pytester.runpytest("--gsw-cluster=demo", "--junitxml=own.xml", f"{table}::{first}@localhost", f"{table}::{second}")
    (directory,) = Path(".gsw/runs").iterdir()
    own = pytester.path / "own.xml"
    found = {name: properties(case).get("gsw_peers_change") for name, case in junit(own).items()}
    assert found == {f"{first}@localhost": "-0.101235", second: None}
    assert suite_properties(own)["gsw_slow_tiles"] == "localhost -10.0 %"
    assert suite_properties(own)["gsw_not_covered"] == "n2 (drained: x)"
    assert_alike(own, rebuilt(gsw, directory))


def test_a_sweep_in_each_format(run: Path, gsw: Gsw) -> None:
    again = rebuilt(gsw, run)
    assert suite_properties(again)["gsw_slow_tiles"] == "n017 -10.0 %"
    assert suite_properties(again)["gsw_not_covered"] == f"n[901-902] ({DRAINED}); n031 (job failed: node failure)"
    cases = {name: properties(case) for name, case in junit(again).items()}
    assert float(cases[f"{ROW}@n017"]["gsw_peers_change"]) == pytest.approx(-0.1)
    assert [name for name, found in cases.items() if "gsw_peers_change" not in found] == [f"{ROW}@n031"]
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
    assert told[:3] == [
        ("rows", "32 tiles of 1 row: 30 passed, 1 regressed, 1 error"),
        ("slow", "n017 -10.0 % (-12.0 % to -8.0 %), 3 jobs"),
        ("other loss", "n009 9.41, 30 others 9.021: same seed and shape"),
    ]
    assert ("not covered", f"n[901-902] {DRAINED}") in told
    commands = [text for name, text in told if name == "next"]
    assert (
        commands[0] == f"scontrol update nodename=n017 state=drain reason='gsw {RUN_ID}: 10.0 % slower than 30 peers'"
    )
    assert commands[1] == "sbatch --exclude=n017 ..."


@pytest.mark.parametrize("is_odd", [True, False])
def test_a_tile_with_another_loss_is_neither_green_nor_cleared(
    pytester: pytest.Pytester, table: Path, gsw: Gsw, monkeypatch: pytest.MonkeyPatch, is_odd: bool
) -> None:
    monkeypatch.setattr("pytest_gsw.session.row.check_tile", lambda *_: None)  # all of them are this machine
    row = load_table(table)[0].id
    tiles = [f"{table}::{row}@n{number}" for number in range(1, 9)]
    pytester.runpytest("--gsw-cluster=demo", *tiles).assert_outcomes(passed=8)
    (directory,) = Path(".gsw/runs").iterdir()
    write_sweep(directory, Sweep("node", "batch", 8))
    (log,) = (Path(record["log"]) for record in records(pytester.path) if record["row"].endswith("@n3"))
    if is_odd:
        log.write_text(re.sub(r"loss: (\d)", lambda loss: f"loss: {(int(loss[1]) + 1) % 10}", log.read_text()))
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-replay={directory}", "--junitxml=own.xml", *tiles)
    result.assert_outcomes(passed=8)
    assert result.ret == (6 if is_odd else 0)
    (replay,) = {*Path(".gsw/runs").iterdir()} - {directory}
    found = read_sweep(replay)
    assert found is not None
    assert [odd.tile for odd in found.odd_losses] == (["n3"] if is_odd else [])
    assert found.rows[0].cleared == ("n[1-2,4-8]" if is_odd else "n[1-8]")
    assert "gsw_odd_losses" in suite_properties(pytester.path / "own.xml") or not is_odd
    gsw("report", replay, "-o", "page")
    assert ("1 tile has another loss" in Path("page", "index.html").read_text()) is is_odd
