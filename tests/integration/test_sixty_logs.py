"""Sixty logs, of all formats and of a site's own, have one verdict, whichever of five ways judges them."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw import RunError, judge
from pytest_gsw.cli import main
from pytest_gsw.demo.recipe import train
from pytest_gsw.history.location import open_history
from pytest_gsw.results import outcomes
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Baseline
from tests.integration.conftest import junit, records
from tests.integration.test_docs import example
from tests.unit.logs.test_never_green import BENCHMARKS
from tests.writers import ALL_WRITERS

JOB = {"SLURM_JOB_ID": "7", "MODEL_SIZE": "1b", "GSW_DEMO_SECONDS": "0", "GSW_DEMO_SEED": "20"}
#: By the GPUs of its row, the fault of a log; that of the last row by its format, in turn.
FAULTS = {8: "slow:0%", 16: "slow:20%", 32: "nan"}
#: A loss that only the site's rule does not allow.
BY_RULE = {("deepspeed", 8): "slow:2%"}
LAST = ("truncated", "wrong-identity", "short", "fast:2%", "fail")
#: Files next to logs, by format and GPUs: the batch size that ran, if it was traced, and the memory that it took.
BESIDE = {
    ("maxtext", 8): {"batch": 256},
    ("nemo", 8): {"traced": True},
    ("megatron", 8): {"memory": 70},
    ("megatron", 64): {"memory": 60},
    ("paxml", 8): {"memory": -1},
}
#: A site's format, evidence, metric and rule.
SITE = """
import json

from pytest_gsw import Direction, Evidence, Identity, Metric, verdict_of


def beside(log):
    path = log.with_suffix(".json")
    return json.loads(path.read_text()) if path.is_file() else {}


def pytest_gsw_evidence(log):
    facts = beside(log)
    if not facts:
        return []
    why = "it was traced" if facts.get("traced") else None
    return [Evidence(log.with_suffix(".json"), Identity(global_batch_size=facts.get("batch")), not_comparable=why)]


def pytest_gsw_metrics():
    def read(log):
        return [beside(log.path).get("memory", 60)]

    return [Metric("mem_gib", "GiB", Direction.LOWER_IS_BETTER, label="memory", read=read)]


def pytest_gsw_judge(baseline, measurement, tolerance):
    return verdict_of(baseline, measurement, tolerance / 10) if baseline.workload.framework == "deepspeed" else None
"""
SUITE = """
import json
import pathlib

import pytest

LOGS = json.loads(pathlib.Path("logs.json").read_text())


@pytest.mark.parametrize("row", LOGS)
def test_row(row, gsw_judge):
    gsw_judge(LOGS[row], row, baselines=["site"])
"""


def table_of(name: str, directory: Path) -> list[Baseline]:
    """The four rows of a format."""
    of_metric = "metrics: {mem_gib: {value: 60}}, " if name not in BENCHMARKS else ""
    stated, places = "step_time_s: 1.000", "global_batch_size: 64, sequence_length: 1024, "
    if name in BENCHMARKS:
        places, _, stated = BENCHMARKS[name].rstrip("]}").partition("rows: [{gpus: 8, ")
    rows = ", ".join(f"{{gpus: {gpus}, case: {name}, {of_metric}{stated}}}" for gpus in (*FAULTS, 64))
    log_format, steps = "log_format: tick\n" if name == "own" else "", "" if name in BENCHMARKS else ", steps: 20"
    path = directory / f"{name}.yaml"
    path.write_text(
        f"model: all_reduce\nsize: 1b\nframework: {name}\n{log_format}accelerator: H100\ngpus_per_node: 8\n"
        f"recipe: {{directory: own{steps}}}\ntables:\n  - {{dtype: bf16, {places}rows: [{rows}]}}\n"
    )
    return [*load_table(path)]


def log_of(row: Baseline, fault: str) -> bytes:
    """A log as if the run were a real one."""
    if row.workload.framework == "own":
        seconds = {"slow:20%": "1.2", "nan": "nan"}.get(fault, "1.0")
        steps = 5 if fault in {"short", "truncated"} else 20
        return "".join(f"tick {step} took {seconds} s, loss 9.{step:02}\n" for step in range(1, steps + 1)).encode()
    gpus = {"JOB_TOTAL_GPUS": str(row.gpus), "SLURM_JOB_NUM_NODES": str(row.gpus // 8), "GPUS_PER_NODE": "8"}
    log = io.BytesIO()
    train(row, {**JOB, **gpus, "DTYPE": "bf16", "GSW_DEMO": f"*={fault}"}, log, ALL_WRITERS)
    return log.getvalue().partition(b"\n")[2]  # the first line says that it is a simulation's


@pytest.fixture
def logs(pytester: pytest.Pytester) -> dict[str, Path]:
    """The logs in a staging area, by row."""
    pytester.makeconftest(example("pytest_gsw_log_format") + SITE)
    tables, found = pytester.mkdir("site"), {}
    for number, name in enumerate((*sorted(ALL_WRITERS), "own")):
        for row in table_of(name, tables):
            directory = pytester.path / "stage" / "results" / "25.01" / "bf16" / "1b" / str(row.gpus)
            directory.mkdir(parents=True, exist_ok=True)
            log = directory / f"log-{name}_all_reduce_1b_{row.gpus}_7.out"
            fault = BY_RULE.get((name, row.gpus)) or FAULTS.get(row.gpus, LAST[number % len(LAST)])
            log.write_bytes(log_of(row, fault))
            if facts := BESIDE.get((name, row.gpus)):
                log.with_suffix(".json").write_text(json.dumps(facts))
            found[row.id] = log
    return found


def of_judge(log: Path, row: str) -> tuple[str, str]:
    try:
        judged = judge(log, row, baselines=["site"])
    except RunError as error:
        return "error", error.fact
    return judged.outcome.word, judged.record.fact


def test_sixty_logs_have_one_verdict_each(
    pytester: pytest.Pytester, logs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(logs) >= 60
    pytester.runpytest("--gsw-replay=stage", "--gsw-baselines=site", "--junitxml=replay.xml")
    by_session = {record["row"]: (record["outcome"], record["fact"]) for record in records(pytester.path)}
    assert by_session.keys() == logs.keys()
    assert by_session == {row: of_judge(log, row) for row, log in logs.items()}

    wanted = {row: outcome for row, (outcome, _) in by_session.items()}
    by_metrics = {}
    for row, log in logs.items():
        capsys.readouterr()
        status = main(["metrics", str(log), "--row", row, "--baselines=site", "--json"])
        told = capsys.readouterr().out
        by_metrics[row] = json.loads(told)["verdict"] if told else "error"
        assert status == (outcomes.of(by_metrics[row]).status)
    assert by_metrics == wanted

    main(["history", "--from-logs=stage", "--cluster=ours", "--baselines=site", "--history=h.db"])
    with open_history(pytester.path / "h.db") as history:
        kept = {record.row.id: record.outcome for run in history.runs() for record in history.records(run)}
    assert kept == {row: outcome for row, outcome in wanted.items() if outcome in outcomes.JUDGED}

    (pytester.path / "logs.json").write_text(json.dumps({row: str(log) for row, log in logs.items()}))
    pytester.makepyfile(test_acceptance=SUITE)
    pytester.runpytest("test_acceptance.py", "--junitxml=junit.xml")
    by_fixture = {name: _properties(case) for name, case in junit(pytester.path / "junit.xml").items()}
    assert {one["gsw_row"]: one["gsw_outcome"] for one in by_fixture.values()} == wanted
    failed = {one["gsw_row"] for name, one in by_fixture.items() if one["failed"]}
    assert failed == {row for row, outcome in wanted.items() if outcomes.of(outcome).status}

    assert Counter(wanted.values()) == {"passed": 14, "regressed": 18, "error": 31, "profiled": 1}


def _properties(case: Any) -> dict[str, Any]:
    found = {one.get("name"): one.get("value") for one in case.iter("property")}
    return {**found, "failed": case.find("failure") is not None}
