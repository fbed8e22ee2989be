"""Rows of a cluster that are judged together: a run that is slow for all of them is one failure."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.history.location import open_history
from pytest_gsw.results.record import Record, read_records
from tests.integration.conftest import Gsw, junit, tiny_table

ROWS = (
    "--gsw-cluster=demo",
    "-k",
    "canary or ((llama2_70b or gpt3_175b) and (H100x64 or H100x128 or H100x256))",
    "--gsw-confirm=2",
    "--junitxml=junit.xml",
)
BUNDLED = Path(__file__).parents[2] / "baselines"
RUNS = 30
DAY_S = 86400
MINUS = "\N{MINUS SIGN}"


def run_record(record: Record, number: int, rng: random.Random, runs: int = RUNS, slower: float = 1.0) -> Record:
    """The same row on an earlier run, with 1 % of noise."""
    last, verdict = record.jobs.last, record.verdict
    assert last is not None
    assert last.judged is not None
    assert verdict is not None
    seconds = verdict.documented * (1 + rng.gauss(0, 0.01)) * slower
    end_s = (last.end_s or 0.0) - DAY_S * (runs - number)
    job = replace(last, id=f"{number}-{last.id}", judged=seconds, start_s=end_s - 60, end_s=end_s, submit_s=end_s - 60)
    return replace(
        record,
        run=replace(record.run, id=f"night-{number:03}", recorded_s=end_s),
        jobs=replace(record.jobs, last=job, repeats=(), attempts=()),
        figures=replace(record.figures, measured={**record.figures.measured, record.judged_metric.key: seconds}),
        verdict=replace(verdict, measured=seconds, jobs=(seconds,)),
    )


@pytest.fixture(scope="module")
def kept() -> list[Record]:
    """What all rows measured in a first session, once there was one."""
    return []


@pytest.fixture
def measured(pytester: pytest.Pytester, kept: list[Record]) -> list[Record]:
    if not kept:
        pytester.runpytest(*ROWS, "--gsw-history=first.sqlite")
        (run,) = pytester.path.glob(".gsw/runs/*")
        kept += [record for record in read_records(run) if record.outcome == "passed"]
    return kept


def remember(path: Path, records: Sequence[Record], runs: int, slower: Callable[[int], float]) -> None:
    """Let a history know earlier runs of all rows."""
    rng = random.Random(1)  # noqa: S311 - noise, not cryptography
    with open_history(path / "history.sqlite") as history:
        history.add([run_record(one, number, rng, runs, slower(number)) for number in range(runs) for one in records])


@pytest.fixture
def rows(pytester: pytest.Pytester, measured: list[Record]) -> int:
    """A history of thirty runs of all rows, and how many these are."""
    remember(pytester.path, measured, RUNS, lambda _: 1.0)
    return len(measured)


def run(pytester: pytest.Pytester, *options: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    before = set(pytester.path.glob(".gsw/runs/*"))
    result = pytester.runpytest(*ROWS, "--gsw-history=history.sqlite", *options)
    (made,) = set(pytester.path.glob(".gsw/runs/*")) - before
    return result, [json.loads(Path(path).read_text()) for path in made.glob("records/*.json")]


def test_a_run_that_is_slow_for_all_rows_is_one_failure(pytester: pytest.Pytester, rows: int, gsw: Gsw) -> None:
    result, records = run(pytester, "--gsw-demo=*=slow:12%", "--gsw-report=report")

    assert result.ret == 1
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] == 1
    assert outcomes["skipped"] == rows
    measured = [record for record in records if record["verdict"]]
    assert {record["verdict"]["given_reason"] for record in measured} == {"incident"}
    assert not any(record["repeats"] for record in measured)
    result.stdout.no_fnmatch_line("*incident: throughput*")  # the incident names its rows, and no list does again
    result.stdout.fnmatch_lines([f"1 incident, {rows} inconclusive*"])
    result.stdout.fnmatch_lines(["cluster demo * INCIDENT   *"])
    case = junit(pytester.path / "junit.xml")["incident"]
    (failure,) = case.findall("failure")
    assert failure.text is not None
    assert failure.text.startswith(f"cluster demo: {rows} of {rows} rows slower, -")
    assert ", since 20" in failure.text.splitlines()[0]
    assert len(failure.text.splitlines()) == rows + 3
    fact = failure.text.splitlines()[0]
    figure = fact.partition("slower, ")[2].partition(" (")[0]
    result.stdout.fnmatch_lines([f"*  new incident of cluster demo: {figure} vs usual since *"])
    page = (pytester.path / "report" / "index.html").read_text()
    assert f" {fact.replace('>', '&gt;').replace(' -', f' {MINUS}')}</h3>" in page
    assert page.index('id="cluster"') < page.index('id="attention"')
    runs = (pytester.path / "report" / "runs.html").read_text()
    assert f'<td class="inconclusive number">? {rows}</td>' in runs
    assert '<td class="regressed">incident</td>' in runs
    assert "- **new** (1): `incident of cluster demo`\n" in (pytester.path / "report" / "summary.md").read_text()
    assert 'gsw_cluster_incident{cluster="demo"} 1.0' in (pytester.path / "report" / "gsw.prom").read_text()
    latest = max(pytester.path.glob(".gsw/runs/*"), key=lambda one: one.stat().st_mtime_ns)
    # Whoever replays it, or goes on with it, is told the same.
    resumed = (f"--gsw-resume={latest.name}", *ROWS, "--gsw-history=history.sqlite", "--gsw-demo=*=slow:12%")
    for options in ((f"--gsw-replay={latest}",), resumed):
        again = pytester.runpytest(*options).parseoutcomes()
        assert (again["failed"], again["skipped"]) == (1, rows)
    gsw("report", "--format=junit", latest, "-o", "rebuilt.xml")
    assert junit(pytester.path / "rebuilt.xml")["incident"].find("failure") is not None


def test_an_incident_within_the_tolerance_is_a_warning(pytester: pytest.Pytester, rows: int, gsw: Gsw) -> None:
    result, records = run(pytester, "--gsw-demo=*=slow:4%", "--gsw-report=report", "-v")

    assert result.ret == 0
    assert {record["outcome"] for record in records} == {"passed"}
    result.stdout.fnmatch_lines(["cluster::demo INCIDENT  *100%]"])
    result.stdout.fnmatch_lines(["*= incident within tolerance =*", f"cluster demo: {rows} of {rows} rows slower, -*"])
    result.stdout.fnmatch_lines([f"1 incident within tolerance, {rows} passed*"])
    latest = max(pytester.path.glob(".gsw/runs/*"), key=lambda one: one.stat().st_mtime_ns)
    gsw("report", "--format=junit", latest, "-o", "rebuilt.xml")
    for name in ("junit.xml", "rebuilt.xml"):
        case = junit(pytester.path / name)["incident"]
        (fact,) = (one.get("value") for one in case.iter("property") if one.get("name") == "gsw_incident")
        assert fact is not None
        assert fact.startswith(f"cluster demo: {rows} of {rows} rows slower, -")
        assert case.find("failure") is None
    page = (pytester.path / "report" / "index.html").read_text()
    assert 'class="card drift"' in page
    assert "1 incident within tolerance" in page


def test_a_row_that_is_slow_alone_fails_alone(pytester: pytest.Pytester, rows: int) -> None:
    result, records = run(pytester, "--gsw-demo=llama2_70b_fp8*x64]=slow:12%")

    assert result.ret == 1
    slow = {record["row"] for record in records if record["outcome"] == "regressed"}
    assert {name.partition("[")[0] for name in slow} == {"llama2_70b_fp8"}
    assert result.parseoutcomes()["failed"] == len(slow)
    assert not any((record["verdict"] or {}).get("given_reason") == "incident" for record in records)
    assert sum(record["outcome"] == "passed" for record in records) == len(records) - len(slow)
    assert sum(record["verdict"]["cluster_effect"] is not None for record in records if record["verdict"]) == rows >= 8


def test_an_incident_of_a_run_whose_canary_was_slow_fails_and_says_so(pytester: pytest.Pytester, rows: int) -> None:
    table = pytester.path / "canary.yaml"
    table.write_text(tiny_table("gpus: 128, step_time_s: 1.000, case: canary, canary: true, line: 10"))

    tables = (f"--gsw-baselines={BUNDLED}", f"--gsw-baselines={table}")
    result, records = run(pytester, "--gsw-demo=*=slow:12%", *tables)

    assert result.ret == 1
    assert {record["verdict"]["given_reason"] for record in records if record["verdict"]} == {"incident", "canary"}
    (failure,) = junit(pytester.path / "junit.xml")["incident"].findall("failure")
    assert failure.text is not None
    assert failure.text.splitlines()[1] == (
        "the canary canary.yaml::tiny_1b_bf16[H100x128-canary] was too slow as well"
    )
