"""The directory of a run of an acceptance, as a session leaves it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gsw.acceptance.plan import Criteria
from pytest_gsw.acceptance.state import AcceptanceState, NodeException, StageState, write_state
from pytest_gsw.common.node_lists import compressed
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.manifest import RunManifest, write_noted
from pytest_gsw.results.record import JobFacts, Record, write_record
from pytest_gsw.results.sweep import RowSweep, SearchJob, Sweep, write_sweep
from tests.unit.acceptance.plans import documented, state_of, tiles
from tests.unit.history.runs import job
from tests.unit.reports.records_of_runs import CURRENT_RUN, RUN_ID, failed, row
from tests.unit.results.sweeps import ROW, SLOW_S, tile

TABLE = "tables/maxtext.yaml"


def write_run(root: Path, state: AcceptanceState, records: list[Record], sweep: Sweep | None = None) -> Path:
    """A run's directory below a directory of a session, with a log of each job and the rows' table."""
    directory = root / ".gsw" / "runs" / RUN_ID
    (directory / "stage").mkdir(parents=True)
    (root / TABLE).parent.mkdir()
    (root / TABLE).write_text("rows: []\n", encoding="utf-8")
    for number, record in enumerate(records):
        log = directory / "stage" / f"log-{number}.out"
        log.write_text(f"step 1: {record.measured} s\n", encoding="utf-8")
        facts = replace(record.row, baseline=f"{TABLE}:{number + 1}")
        last = record.jobs.last and replace(record.jobs.last, id=str(481000 + number), log=str(log))
        write_record(directory, replace(record, row=facts, jobs=replace(record.jobs, last=last)))
    write_state(directory, state)
    write_noted(directory, RunManifest("eos", versions={"pytest-gsw": "0.1.0", "python": "3.11.7"}))
    if sweep is not None:
        write_sweep(directory, sweep)
    return directory


def lost_job(**changes: Any) -> JobFacts:
    """A job that the infrastructure failed after half an hour."""
    return job(CURRENT_RUN, state=JobState.NODE_FAIL, why_repeated="node failure", **changes)


def small_run(root: Path) -> Path:
    """Eight nodes: a slow one, a drained one, a row of the second stage that lost a job."""
    first, second = documented(4.5, 4.6)
    again = replace(second, jobs=replace(second.jobs, attempts=(lost_job(id="480999", nodes="n[001-006]"),)))
    switches = {"leaf1": "n[001-004]", "leaf2": "n[005-008]", "leaf9": "m[1-4]"}
    search = RowSweep(ROW, jobs=(SearchJob(1, "n003", "481400", 4.98, gpu_hours=2.0),))
    sweep = Sweep("", "batch", 8, switches=switches, rows=(search,))
    changed = [
        replace(one, run=replace(one.run, environment={"nccl": "2.21.5", "driver": "560.28"})) for one in [first]
    ]
    state = state_of("decided", "decided", "not run")
    return write_run(root, state, [*tiles(), *changed, again], sweep)


def large_run(root: Path, nodes: int = 256, exceptions: int = 20, rows: int = 40) -> Path:
    """Five stages of many nodes and rows, with texts as long as they come."""
    names = [f"cluster-a-gpu-{number:04}" for number in range(1, nodes + 1)]
    bad = names[:: nodes // exceptions][:exceptions]
    why = "-10.4 % of its peers (-12.1 to -8.7 %), 3 jobs: GPU 5 SM clock 1,410 MHz of 1,980 MHz, HW thermal slowdown 31 %"
    kinds = ("slow", "failed", "intermittent", "not given", "other loss")
    tests = ("gemm_bf16[H100x8]", "nemotron4_340b-benchmark_bf16-mbs2[H100x8]")
    listed = tuple(
        NodeException(
            node, kinds[at % 5], "" if at % 5 == 3 else "short training", why, f"{tests[1]}@{node}", "1796024793284166"
        )
        for at, node in enumerate(bad)
    )
    models = (f"llama3.{at}_405b-pretraining_fp8-tp8-pp9[H100x{64 * (at + 1)}]" for at in range(rows))
    plain = [
        row(
            name,
            judged=4.5 + at % 5 / 50,
            stage="documented",
            node_id=f"{TABLE}::{name}",
            environment={
                "nccl": "2.21.5" if at % 9 else "2.23.4",
                "driver": "550.54.15",
                "cuda": "12.6",
                "slurm": "24.05.2",
            },
            repeats=tuple(lost_job(id=str(470000 + at)) for _ in range(at % 4 == 0)),
        )
        for at, name in enumerate(models)
    ]
    made = [
        tile(
            node,
            (None if kinds[bad.index(node) % 5] == "failed" else SLOW_S) if node in bad else 4.5 + number % 7 / 100,
            test,
            stage=stage,
        )
        for stage, test in zip(("nodes", "short training"), tests, strict=True)
        for number, node in enumerate(names)
        if kinds[bad.index(node) % 5 if node in bad else 0] != "not given"
    ]
    endurance = failed("llama3.1_405b_fp8[H100x1152]", "job 481900 failed: node failure", stage="endurance")
    stages = tuple(
        StageState(name, "decided", kind, 86400.0 if name == "endurance" else None, nodes=compressed(names),
                   told_gpu_hours=12345.6, told_hours=11.5)
        for name, kind in (("nodes", "node"), ("fabric", "switch"), ("short training", "node"), ("documented", ""), ("endurance", ""))
    )  # fmt: skip
    state = AcceptanceState(
        "a cluster with a long name, phase 1 of 3", "plans/acceptance.yaml", "5e" * 32, "acceptance: eos\n",
        compressed(names), "ana", Criteria(0.98, 0.05), stages, listed,
    )  # fmt: skip
    switches = {f"leaf{at:02}": compressed(names[4 * at : 4 * at + 4]) for at in range(nodes // 4)}
    return write_run(root, state, [*made, *plain, endurance], Sweep("", "batch", nodes, switches=switches))
