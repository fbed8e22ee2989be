"""``pytest_gsw_find_logs``: logs that other programs leave are found by all commands, as by the page's examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.history.location import open_history
from pytest_gsw.tables.load import load_table
from tests.integration.conftest import Gsw, records
from tests.integration.test_docs import ROOT
from tests.integration.test_sixty_logs import log_of

#: Two rows of a small model; a run is of the first.
TRAINING = """\
model: llama3
size: 8b
framework: megatron
accelerator: H100
gpus_per_node: 8
recipe: {directory: own, steps: 20}
global_batch_size: 64
sequence_length: 1024
tables:
  - {dtype: bf16, rows: [{gpus: 16, step_time_s: 1.0}, {gpus: 32, step_time_s: 1.0}]}
  - {dtype: fp8, rows: [{gpus: 16, step_time_s: 1.0}]}
"""
SERVING = """\
model: deepseek-r1
framework: serving
dtype: fp8
accelerator: GB200
gpus_per_node: 4
recipe: {directory: own}
tables:
  - {metric: output_tokens_per_s, rows: [{gpus: 8, value: 18400}, {gpus: 16, value: 18400}]}
"""
NCCL = """\
model: all_reduce
framework: nvcre
dtype: float
accelerator: GB200
gpus_per_node: 4
recipe: {directory: own}
tables:
  - metric: busbw_gbs
    read: {pattern: '"busBW": "([0-9.]+) GB/s"'}
    rows: [{gpus: 16, value: 880}, {gpus: 8, value: 880}]
"""
CONFIG: dict[str, Any] = {
    "model_name": "llama3_8b_pretrain",
    "world_size": 16,
    "fp8": None,
    "fp8_recipe": None,
    "global_batch_size": 64,
    "micro_batch_size": 1,
    "seq_length": 1024,
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "context_parallel_size": None,
    "expert_parallel_size": 1,
    "profiling_enabled": False,
}
RUN = {
    "model": {"path": "/models/DeepSeek-R1", "precision": "fp8"},
    "resources": {"gpu_type": "gb200", "gpus_per_node": 4, "prefill_nodes": 1, "decode_nodes": 1, "agg_nodes": None},
}
CATEGORY = {
    "domain": "communication",
    "variant": "nccl-all-reduce",
    "status": "Succeeded",
    "nodesPerJob": 4,
    "bandwidth": [{"size": "16 GB", "algBW": "470.68 GB/s", "busBW": "882.51 GB/s", "samples": 65}],
}


def write(path: Path, content: bytes | str | dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(content, indent=2) if isinstance(content, dict) else content
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def cloudai(place: Path, log: bytes, **changes: Any) -> Path:
    run = place / "scenario_2026" / "llama" / "0"
    write(run / "training_report.json", {"schema_version": "1.0", "config": CONFIG | changes, "steps": []})
    write(run / "slurm-job.toml", 'name = "x"\njob_id = 4242\nstate = "COMPLETED"\n')
    return write(run / "stdout.txt", log)


def srt_slurm(place: Path, log: bytes, **changes: Any) -> Path:
    write(place / "4459" / "4459.json", RUN | changes)
    return write(place / "4459" / "logs" / "benchmark.out", log)


def pods(place: Path, log: bytes) -> Path:
    job = SOURCES["pods"][1]
    lines = b"".join(b"2026-11-30T12:00:00.123456789Z stdout F " + line for line in log.splitlines(keepends=True))
    for pod, start in ((f"{job}-master-0", 0), (f"{job}-worker-0", 0), ("other", 0), (f"{job}-master-0", 1)):
        path = write(place / f"ml_{pod}_7c9e6679" / "pytorch" / f"{start}.log", lines)
    return path


def nvcre(place: Path, log: bytes, **changes: Any) -> Path:
    report = {"name": "night", "gpu": "gb200", "totalNodes": 4, "categories": [CATEGORY | changes], "failedNodes": []}
    return write(place / "night.json", report)


#: By the name of an example: its table, the job's id, and what writes a run.
SOURCES = {
    "cloudai": (TRAINING, "4242", cloudai),
    "srt_slurm": (SERVING, "4459", srt_slurm),
    "pods": (TRAINING, "llama3-8b-bf16-h100x16", pods),
    "nvcre": (NCCL, "night", nvcre),
}
#: By the name of an example, changes of a run and its outcome; ``None`` if it is of no row.
CHANGES: list[tuple[str, dict[str, Any], str | None]] = [
    *[(name, {}, "passed") for name in SOURCES],
    ("cloudai", {"profiling_enabled": True}, "profiled"),
    ("cloudai", {"global_batch_size": 128}, "error"),
    ("srt_slurm", {"resources": {**RUN["resources"], "gpu_type": "h100"}}, "error"),
    ("nvcre", {"status": "Failed"}, "error"),
]


@pytest.fixture
def site(pytester: pytest.Pytester, request: pytest.FixtureRequest) -> tuple[Path, str]:
    """The log of a run in a directory of an example's source, with the example as conftest.py; its row."""
    name, changes = request.param
    pytester.makeconftest((ROOT / "docs" / "examples" / "hooks" / f"{name}.py").read_text())
    table, _, make = SOURCES[name]
    row = load_table(write(pytester.path / "own.yaml", table))[0]
    lines = log_of(row, "slow:0%").splitlines(keepends=True) if name != "nvcre" else []
    log = b"".join(line for line in lines if not line.startswith(b"GSW:"))  # which recipes alone print
    return make(pytester.path / "runs", log, **changes), row.id


@pytest.mark.parametrize(
    ("site", "job", "outcome"),
    [((name, changes), SOURCES[name][1], outcome) for name, changes, outcome in CHANGES],
    indirect=["site"],
)
def test_a_source_of_others(
    pytester: pytest.Pytester, gsw: Gsw, site: tuple[Path, str], job: str, outcome: str
) -> None:
    log, row = site
    pytester.runpytest("--gsw-replay=runs", "own.yaml")
    found = {record["row"]: record for record in records(pytester.path)}
    assert {name for name, record in found.items() if record["log"]} == {row}
    assert found[row]["outcome"] == outcome
    assert (found[row]["job"]["id"], Path(found[row]["log"]).resolve()) == (job, log)
    status = {"passed": 0, "profiled": 6, "error": 1}[outcome]
    (told,) = json.loads(gsw("metrics", "runs", "--baselines=own.yaml", "--json", status=status).out)
    assert (told["row"], told["job"], Path(told["log"]).resolve()) == (row, job, log)
    assert told.get("verdict", "error") == outcome
    kept = outcome == "passed"
    arguments = ("--from-logs=runs", "--cluster=ours", "--baselines=own.yaml", "--history=h.db")
    gsw("history", *arguments, status=0 if kept else 1)
    with open_history(pytester.path / "h.db") as history:
        jobs = [record.jobs.last.id for run in history.runs() for record in history.records(run) if record.jobs.last]
    assert jobs == ([job] if kept else [])


@pytest.mark.parametrize("site", [("cloudai", {"model_name": "gpt3_175b"})], indirect=True)
def test_a_run_of_no_row_is_named_with_the_reason(pytester: pytest.Pytester, gsw: Gsw, site: tuple[Path, str]) -> None:
    result = pytester.runpytest("--gsw-replay=runs", "own.yaml")
    result.assert_outcomes(errors=3)
    (told,) = json.loads(gsw("metrics", "runs", "--baselines=own.yaml", "--json", status=6).out)
    assert (told["row"], bool(told["refused"])) == (None, True)


@pytest.mark.parametrize("site", [("cloudai", {})], indirect=True)
def test_a_failure_in_the_stderr_of_a_run_counts(pytester: pytest.Pytester, site: tuple[Path, str]) -> None:
    site[0].with_name("stderr.txt").write_text("RuntimeError: NCCL communicator was aborted\n")
    pytester.runpytest("--gsw-replay=runs", f"own.yaml::{site[1]}").assert_outcomes(errors=1)
    (record,) = records(pytester.path)
    assert "failure" in record["fact"]


@pytest.mark.parametrize("site", [("cloudai", {})], indirect=True)
def test_a_schema_that_the_example_does_not_know(pytester: pytest.Pytester, gsw: Gsw, site: tuple[Path, str]) -> None:
    site[0].with_name("training_report.json").write_text('{"schema_version": "2.0"}')
    result = pytester.runpytest("--gsw-replay=runs", "own.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: * of conftest.py raised ValueError: * has the schema 2.0, wanted 1"])
    gsw("metrics", "runs", "--baselines=own.yaml", status=2)


@pytest.mark.parametrize(
    "body",
    [
        "return 7",
        "return 'runs/x.log'",
        "return ['runs/x.log']",
        "return [FoundLog('runs/x.log', '7')]",
        "return [FoundLog(place / 'gone.log', '7')]",
        "return [FoundLog(place.parent / 'own.yaml', '7')]",
        "return [FoundLog(place / 'x.log', 'a/b')]",
        "return [FoundLog(place / 'x.log', '7', ('no_row',))]",
        "yield {}['x']",
    ],
)
def test_what_the_hook_returns_is_checked(pytester: pytest.Pytester, gsw: Gsw, body: str) -> None:
    write(pytester.path / "own.yaml", TRAINING)
    write(pytester.path / "runs" / "x.log", "x\n")
    pytester.makeconftest(f"from pytest_gsw import FoundLog\ndef pytest_gsw_find_logs(place):\n    {body}\n")
    result = pytester.runpytest("--gsw-replay=runs", "own.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*pytest_gsw_find_logs*", "*conftest.py*"])
    assert "pytest_gsw_find_logs" in gsw("metrics", "runs", "--baselines=own.yaml", status=2).err
