"""``pytest-gsw report --format``: a demo run as Markdown and OpenMetrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_gsw.history.database import SqliteDatabase
from pytest_gsw.history.store import History
from pytest_gsw.results.record import write_record
from tests.integration.conftest import Gsw, RunOnce
from tests.integration.runs import record
from tests.messages import wording
from tests.unit.reports.ci.nights import RUN
from tests.unit.results.records import SLOW, varied

FORMATS = ("junit", "markdown", "openmetrics")
FAULTS = ("--gsw-demo=*x128]=slow:12%", "--gsw-demo=*x256]=oom", "--gsw-demo=*x512]=fast:15%")


@pytest.fixture
def run(pytester: pytest.Pytester, run_once: RunOnce) -> Path:
    """The directory of a run with rows that passed, regressed, improved and failed."""
    options = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 or zero-id11", *FAULTS)
    run_once(pytester, lambda: pytester.runpytest(*options))
    (directory,) = Path(".gsw/runs").iterdir()
    return directory


def exported(gsw: Gsw, run: Path, form: str, *options: str) -> str:
    return gsw("report", run, "--format", form, *options).out


def test_markdown(run: Path, gsw: Gsw) -> None:
    lines = exported(gsw, run, "markdown").splitlines()
    assert lines[0] == wording("needs attention", count=2, need="rows need")
    assert lines[2].startswith(
        f"`demo`, run `{run.name}`, 7 rows: 3 passed, 1 improved, 1 regressed, 1 error, 1 failed as documented, "
    )
    assert lines[4] == wording("simulated", made_up="its figures are made up.")
    row, listed = (line for line in lines if "| **regressed** |" in line)
    assert row.startswith("| `llama2_70b_fp8[H100x128]` | **regressed** | -10.")
    assert "--gsw-confirm=4" in row
    assert listed.endswith(" s` | `4.556 s` |")


def test_metrics(run: Path, gsw: Gsw) -> None:
    path = run / "gsw.prom"
    assert exported(gsw, run, "openmetrics", f"--output={path}") == f"{path}: openmetrics\n"
    found = {family.name: family for family in text_string_to_metric_families(path.read_text())}
    outcomes = {s.labels["row"]: s.labels["outcome"] for s in found["gsw_outcome"].samples if s.value}
    assert outcomes["llama2_70b_fp8[H100x128]"] == "regressed"
    assert len(outcomes) == 7
    assert len(found["gsw_step_time_seconds"].samples) == 5
    assert {sample.labels["cluster"] for sample in found["gsw_run_timestamp_seconds"].samples} == {"demo"}


# ---- The history ------------------------------------------------------------------------------------


@pytest.fixture
def slow_run(table: Path) -> Path:
    """The third run of a row that was fast once and is slow since; two of them are in the history."""
    runs = [
        record(table, number, 1.2, outcome=outcome) for number, outcome in enumerate(["passed", *["regressed"] * 2])
    ]
    with History(SqliteDatabase(Path("history.sqlite"))) as history:
        history.add(runs[:2])
    write_record(Path("run"), runs[2])
    return Path("run")


def test_since_when_a_row_is_slow(slow_run: Path, gsw: Gsw) -> None:
    assert "| 2026-11-1" not in exported(gsw, slow_run, "markdown")
    out = exported(gsw, slow_run, "markdown", "--history=history.sqlite")
    assert ", 2 runs` |" in out
    assert out == exported(gsw, slow_run, "markdown", "--history=history.sqlite")


def test_a_history_that_does_not_answer_hides_no_run(slow_run: Path, gsw: Gsw) -> None:
    Path("broken.sqlite").write_text("no database, but long enough to be read as one " * 50)
    out, err = gsw("report", "--format=markdown", slow_run, "--history=broken.sqlite")
    assert out.startswith(wording("needs attention", count=1, need="row needs") + "\n")
    assert err.startswith("pytest-gsw report: " + wording("without history", why=""))


# ---- What is wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_secrets_are_masked_and_control_characters_left_out(
    tmp_path: Path, form: str, gsw: Gsw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2hunter2")
    text = "hunter2hunter2 \x1b[31m\u202e"
    for number, one in enumerate(RUN.records):
        job = replace(SLOW.jobs.last, nodes=text)  # type: ignore[type-var]
        odd = varied(one, fact=text, row=f"{text}{number}", job=job, drift=text, workload=text)
        write_record(tmp_path, odd)
    out = exported(gsw, tmp_path, form)
    assert out.strip()
    assert "hunter2" not in out
    assert not {"\x1b", "\u202e"} & set(out)


def test_a_text_is_of_one_run(slow_run: Path, gsw: Gsw) -> None:
    assert (
        gsw("report", "--format=junit", slow_run, "other", status=2).err
        == "pytest-gsw report: " + wording("takes one run", format="junit", runs=2) + "\n"
    )
