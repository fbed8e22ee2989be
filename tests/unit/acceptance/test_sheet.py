"""The sheet of an acceptance: by the files of its run alone, to the byte."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.acceptance.sheet import METHOD, NAME, Sheet, differences, read_sheet, sheet_of, sheet_text
from pytest_gsw.acceptance.state import NAME as STATE
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.model import SIMULATED
from tests.unit.acceptance.plans import DOCUMENTED
from tests.unit.acceptance.runs import TABLE, large_run, small_run
from tests.unit.reports.records_of_runs import RUN_ID
from tests.unit.results.sweeps import ROW

DECISIONS = Path(__file__).parents[3] / "docs" / "decisions.md"


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Path:
    return small_run(tmp_path)


def sheet(run: Path) -> Sheet:
    """The sheet of a run that has one."""
    made = sheet_of(run)
    assert made is not None
    return made


def test_a_run_without_a_plan_has_no_sheet(run: Path) -> None:
    (run / STATE).unlink()
    assert sheet_of(run) is None


def test_verdict_and_criteria(run: Path) -> None:
    made = sheet(run)
    assert (made.verdict, made.cluster, made.run, made.acceptance.user) == ("met", "eos", RUN_ID, "ana")
    assert [(one.name, one.verdict) for one in made.criteria] == [("covered", "met"), ("within", "met")]
    assert not made.is_simulated
    assert made.cluster != SIMULATED


def test_stages_have_the_jobs_and_gpu_hours_of_their_rows_and_searches(run: Path) -> None:
    nodes, documented, endurance = sheet(run).stages
    assert (nodes.passed, nodes.failed, nodes.jobs) == (6, 1, 8)  # a job of the search
    assert nodes.gpu_hours == pytest.approx(7 * 8 * 662 / 3600 + 2)
    assert (documented.passed, documented.failed, documented.jobs) == (2, 0, 3)
    assert documented.lost_gpu_hours == pytest.approx(64 * 662 / 3600)
    assert documented.gpu_hours == pytest.approx(2 * 64 + 64 * 662 / 3600)
    assert documented.hours == pytest.approx(3630 / 3600)
    assert (endurance.jobs, endurance.hours) == (0, 0.0)


def test_coverage_of_nodes_and_switches(run: Path) -> None:
    nodes, switches = sheet(run).coverage
    assert (nodes.covered, nodes.of, nodes.missing) == (6, 8, {"n003": "slow", "n008": "not given"})
    assert (switches.covered, switches.of, switches.missing) == (2, 2, {})


def test_a_switch_of_which_no_node_is_covered_is_named(tmp_path: Path) -> None:
    run = large_run(tmp_path, nodes=16, exceptions=16, rows=1)
    _, switches = sheet(run).coverage
    assert (switches.covered, switches.of) == (0, 4)
    assert switches.missing["leaf00"] == "cluster-a-gpu-[0001-0004]"


def test_rows_have_the_median_of_their_tiles_and_what_was_run_again(run: Path) -> None:
    tiles, first, second = sheet(run).rows
    assert (tiles.name, tiles.figure, tiles.jobs) == (f"{ROW} on tiles", 4.5, 7)
    assert tiles.outcomes == {"passed": 6, "regressed": 1}
    assert [first.name, second.name] == [*DOCUMENTED]
    assert (first.repeated, second.repeated) == (
        (),
        (f"{DOCUMENTED[1]}: 480999 NODE_FAIL on n[001-006]: node failure",),
    )
    assert second.low is not None
    assert second.high is not None
    assert second.low < 4.5 / 4.6 < second.high


def test_versions_that_nodes_share(run: Path) -> None:
    driver, nccl = sheet(run).versions
    assert (driver.name, driver.value, driver.outliers) == ("driver", "560.28", {})
    assert (nccl.name, nccl.value) == ("nccl", "2.21.5")


def test_nodes_with_two_versions_are_named(tmp_path: Path) -> None:
    (nccl,) = (one for one in sheet(large_run(tmp_path, 16, 2, 9)).versions if one.outliers)
    assert (nccl.name, nccl.outliers) == ("nccl", {"2.23.4": "pool0-[0017-0032]"})


def test_files_have_their_sha256_by_paths_of_no_machine(run: Path, tmp_path: Path) -> None:
    made = sheet(run)
    assert len(made.records) == len(made.logs) == 9
    for files in (made.records, made.logs):
        for path, digest in files.items():
            assert digest == hashlib.sha256((run / path).read_bytes()).hexdigest()
    assert made.tables == {TABLE: hashlib.sha256((tmp_path / TABLE).read_bytes()).hexdigest()}
    assert str(tmp_path) not in sheet_text(made)


def test_a_log_that_is_gone_is_said_and_a_record_that_cannot_be_read_opens_the_sheet(run: Path) -> None:
    (run / "stage" / "log-0.out").unlink()
    record = next((run / "records").glob("*llama2*"))
    record.write_text("{")
    made = sheet(run)
    assert made.logs["stage/log-0.out"] == "No such file or directory"
    assert made.records[f"records/{record.name}"].startswith("is no record: ")
    assert made.verdict == "open"


def test_it_is_the_same_bytes_again_and_elsewhere(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = sheet_text(sheet(run))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert sheet_text(sheet(run)) == text
    moved = tmp_path_factory.mktemp("elsewhere") / "site"
    shutil.copytree(tmp_path, moved)
    shutil.rmtree(tmp_path)
    assert sheet_text(sheet(moved / ".gsw" / "runs" / RUN_ID)) == text


def test_it_is_read_as_it_was_written(run: Path, tmp_path: Path) -> None:
    made = sheet(run)
    (tmp_path / NAME).write_text(sheet_text(made), encoding="utf-8")
    assert read_sheet(tmp_path) == read_sheet(tmp_path / NAME) == made
    assert read_sheet(tmp_path / "none") is None
    head = json.loads(sheet_text(made))
    assert (head["schema"], head["version"]) == ("pytest-gsw/sheet", 1)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "pytest-gsw/sheet", "version": 2}', "[" * 100_000])
def test_another_file_is_no_sheet(text: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="is no sheet"):
        read_sheet(tmp_path)


@pytest.mark.parametrize(
    ("given", "made", "lines"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a: 1 in the sheet, 2 by the run"]),
        ({"a": 1}, {}, ["a: 1 in the sheet, null by the run"]),
        ({"a": [{"name": "x", "b": 1}]}, {"a": [{"name": "x", "b": 2}]}, ["a: x: b: 1 in the sheet, 2 by the run"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a: 2: 2 in the sheet, null by the run"]),
    ],
)
def test_differences_are_named_by_their_place(given: Any, made: Any, lines: list[str]) -> None:
    assert list(differences(given, made)) == lines


def test_the_method_has_the_figures_of_its_page() -> None:
    text = DECISIONS.read_text(encoding="utf-8")
    last = {
        line.split("|")[1].strip(): line.split("|")[-2].strip() for line in text.splitlines() if line.count("|") > 5
    }
    assert f"{last['runs with a false failure among 30 rows']} % have a false failure" in METHOD
    assert f"{last['a loss of 7 % fails']} % and {last['a loss of 10 % fails']} % fail" in METHOD
    assert " of 1.65 %" in text
    assert "1.65 %, marked *, until it has eight" in METHOD
