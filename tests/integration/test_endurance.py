"""Rows that run for a time (``for`` of a stage): one job follows another, and the record says what became of the time."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.session import row
from tests.integration.conftest import Gsw, records, tiny_table
from tests.messages import wording

ROW = "tiny_1b_bf16[H100x8]"


@pytest.fixture
def table(pytester: pytest.Pytester) -> Path:
    """One row, whose job is ten steps."""
    path = pytester.path / "site" / "tiny.yaml"
    path.parent.mkdir()
    text = tiny_table("gpus: 8, step_time_s: 1.000, line: 10", framework="nemo")
    path.write_text(text.replace("{directory: tiny, steps: 20}", "{directory: tiny, steps: 10}"))
    return path


def run(
    pytester: pytest.Pytester, for_s: float, *options: str, job_s: float = 0.0, resume: bool = False
) -> pytest.RunResult:
    """A session whose rows run for a time; a job of their own steps takes so long."""
    pytester.makeconftest(
        f"""
        from pytest_gsw.acceptance.plan import Stage

        def pytest_collection_modifyitems(items):
            for item in items:
                item.stage = Stage("endurance", 1, for_s={for_s})
        """
    )
    pytester._monkeypatch.setenv("GSW_DEMO_SECONDS", str(job_s))
    begin = "--gsw-resume=last" if resume else "--gsw-cluster=demo"
    return pytester.runpytest(begin, "--gsw-baselines=site", *options)


def record_of(pytester: pytest.Pytester) -> dict[str, Any]:
    return records(pytester.path)[-1]


@pytest.mark.usefixtures("table")
def test_a_job_of_the_recipes_own_steps_runs_again_until_the_time_is_over(pytester: pytest.Pytester, gsw: Gsw) -> None:
    result = run(pytester, 5.0)
    result.assert_outcomes(passed=1)
    record = record_of(pytester)
    used, jobs = record["endurance"], [*record["repeats"], record["job"]]
    assert len(jobs) == used["attempts"] > 1
    assert {job["state"] for job in jobs} == {"COMPLETED"}
    assert (used["steps"], used["steps_lost"], used["causes"]) == (10 * len(jobs), 0, {})
    assert used["wall_s"] >= 5.0
    assert used["wall_s"] == pytest.approx(record["job"]["end_s"] - jobs[0]["start_s"])
    assert record["attempts"] == []
    # It is no evidence of the row's noise: the history has none of its jobs.
    assert "has no measured job" in gsw("history", status=2).err


@dataclass
class ClockAfterBars:
    """A clock that is an hour ahead once there are so many logs, and one of them has so many bars with a step."""

    directory: Path
    bars: int
    logs: int = 1

    def time(self) -> float:
        logs = [*self.directory.rglob("log-*.out")]
        has_bars = any(log.read_bytes().count(b"global_step=") >= self.bars for log in logs)
        return time.time() + 3600 * (has_bars and len(logs) >= self.logs)


@pytest.mark.usefixtures("table")
def test_one_job_of_more_steps_fills_the_time_and_is_ended_then(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row, "time", ClockAfterBars(pytester.path, 60))
    result = run(pytester, 600.0, job_s=0.4)
    result.assert_outcomes(passed=1)
    record = record_of(pytester)
    used, job = record["endurance"], record["job"]
    assert (job["state"], record["repeats"], record["attempts"]) == ("CANCELLED", [], [])
    assert record["variables"]["MAX_STEPS"] == "18750"  # 600 s at 0.04 s a step, and a quarter more
    assert (used["attempts"], used["steps_lost"], used["causes"]) == (1, 0, {})
    assert 20 < used["steps"] == record["steps"] < 18750
    assert used["wall_s"] == pytest.approx(job["end_s"] - job["start_s"])
    assert (record["statistic"], record["saved_gpu_hours"]) == ("median", None)


@pytest.mark.usefixtures("table")
def test_a_lost_node_gets_no_further_job_and_the_longest_job_is_judged(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row, "time", ClockAfterBars(pytester.path, 60))
    result = run(pytester, 600.0, "--gsw-demo=node:demo-01=lost:12", job_s=0.4)
    result.assert_outcomes(passed=1)
    record = record_of(pytester)
    used, (lost,), last = record["endurance"], record["attempts"], record["job"]
    assert (lost["state"], lost["nodes"], lost["why_repeated"]) == ("NODE_FAIL", "demo-01", "node failure")
    assert (last["state"], last["nodes"]) == ("CANCELLED", "demo-02")
    assert (used["attempts"], used["causes"], used["steps_lost"]) == (2, {"infrastructure": 1}, 12)
    assert used["steps"] == record["steps"]


@pytest.mark.usefixtures("table")
def test_a_row_is_judged_by_an_earlier_job_that_was_longer(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row, "time", ClockAfterBars(pytester.path, 60, logs=2))
    result = run(pytester, 600.0, "--gsw-demo=node:demo-01=lost:40", job_s=0.4)
    result.assert_outcomes(passed=1)
    record = record_of(pytester)
    used, (last,), judged = record["endurance"], record["attempts"], record["job"]
    assert (judged["state"], judged["nodes"], record["steps"]) == ("NODE_FAIL", "demo-01", 40)
    assert (last["state"], last["why_repeated"]) == ("CANCELLED", wording("time over"))
    assert (used["attempts"], used["causes"]) == (2, {"infrastructure": 1})


@pytest.mark.usefixtures("table")
def test_a_program_that_fails_at_once_again_and_again_ends_the_row(pytester: pytest.Pytester) -> None:
    result = run(pytester, 600.0, f"--gsw-demo={ROW}=fail", job_s=0.4)
    result.assert_outcomes(errors=1)
    record = record_of(pytester)
    assert [job["state"] for job in (*record["attempts"], record["job"])] == ["FAILED"] * 3
    assert record["fact"].startswith(f"job {record['job']['id']} failed with exit code 1")
    assert record["endurance"]["causes"] == {"program": 3}
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.usefixtures("table")
def test_a_time_without_a_job_that_can_be_measured_is_the_error_of_a_job(pytester: pytest.Pytester) -> None:
    result = run(pytester, 0.1, f"--gsw-demo={ROW}=fail", job_s=0.1)
    result.assert_outcomes(errors=1)
    assert record_of(pytester)["fact"] != wording("time over")


def test_logs_without_numbers_of_steps_are_refused_before_submission(pytester: pytest.Pytester, table: Path) -> None:
    table.write_text(table.read_text().replace("nemo", "paxml"))
    run(pytester, 600.0).assert_outcomes(errors=1)
    record = record_of(pytester)
    assert record["fact"] == wording("no goodput", format="paxml")
    assert record["job"] is None


@pytest.mark.usefixtures("table")
def test_a_plan_has_the_steps_of_the_time(pytester: pytest.Pytester) -> None:
    result = run(pytester, 3600.0, "--gsw-plan", job_s=1.0)
    result.stdout.fnmatch_lines(["*MAX_STEPS=45000*"])
    assert not [*pytester.path.glob(".gsw/runs/*/records/*.json")]


@pytest.mark.usefixtures("table")
def test_other_rows_know_nothing_of_it(pytester: pytest.Pytester, gsw: Gsw) -> None:
    """A usual run afterwards has no earlier one."""
    run(pytester, 1.0).assert_outcomes(passed=1)
    Path("conftest.py").unlink()
    pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site").assert_outcomes(passed=1)
    series = json.loads(gsw("history", "--json").out)
    assert [len(one["points"]) for one in series] == [1]
