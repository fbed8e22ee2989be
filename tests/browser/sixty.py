"""Sixty nights of a cluster without a Slurm: training rows and bandwidths, a slow node, a driver, failures, sweeps.

``python -m tests.browser.sixty DIR`` writes the report of the last night to DIR.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_gsw.common.node_lists import compressed
from pytest_gsw.history.location import open_history
from pytest_gsw.jobs.states import JobState
from pytest_gsw.reports.from_records import run_reports
from pytest_gsw.reports.pages import write_report
from pytest_gsw.reports.run_report import ReportedRun
from pytest_gsw.results.record import JobFacts, Record
from pytest_gsw.results.sweep import write_sweep
from tests.unit.reports.records_of_runs import row
from tests.unit.results.sweeps import slow_finding, sweep_of

NIGHTS, DAY_S, LAST_S = 60, 86400.0, 1_795_212_000.0
#: The node that slows its jobs from a night on, and the one on which jobs fail.
SLOW_NODE, SLOW_FROM, FAILING_NODE = 17, 40, 31
#: The night of the new driver, with which one row became slow, and the one of the new NCCL, which slowed nothing.
DRIVER_FROM, NCCL_FROM = 52, 45
SLOW_ROW = "llama3.1_405b_bf16[H100x64]"

_WORKLOADS = (("llama3.1_405b", "nemo"), ("grok1_314b", "nemo"), ("llama2_70b", "maxtext"), ("gpt3_175b", "paxml"))
_BUSBW = {"key": "busbw_gbs", "unit": "GB/s", "direction": "higher is better", "label": "bus bandwidth"}
_TTFT = {"key": "ttft_ms_p99", "unit": "ms", "direction": "lower is better", "label": "p99 time to first token"}


def _figures() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row with its facts: 28 of training, 7 of bandwidths, 2 of latencies."""
    for workload, framework in _WORKLOADS:
        for dtype in ("bf16", "fp8"):
            for gpus in (8, 16, 32, 64)[: 4 if dtype == "bf16" else 3]:
                yield f"{workload}_{dtype}[H100x{gpus}]", {"framework": framework, "gpus": gpus, "workload": workload}
    cases = (("all_reduce", 485.2), ("all_gather", 392.5), ("reduce_scatter", 390.1))
    for collective, value in cases:
        for gpus in (16, 32)[: 2 if collective != "reduce_scatter" else 1]:
            yield f"{collective}_float[H100x{gpus}]", _bandwidth(collective, gpus, value)
    for case, value in (("efa", 487.9), ("tcpxo", 337.1)):
        facts = _bandwidth("all_reduce", 16, value)
        facts["settings"] = {"algbw": f"{value * 0.53:.2f}", "interconnect": case.upper()}
        yield f"all_reduce_float[H100-{case}x16]", facts
    for gpus, value in ((8, 212.0), (16, 240.0)):
        facts = {"framework": "vllm", "gpus": gpus, "workload": "llama3.1_70b-serve", "metric": "ttft_ms_p99"}
        yield f"llama3.1_70b-serve_fp8[H100x{gpus}]", {**facts, "label": _TTFT, "documented": {"value": value}}


def _bandwidth(collective: str, gpus: int, value: float) -> dict[str, Any]:
    facts = {"framework": "nccl-tests", "gpus": gpus, "workload": collective, "metric": "busbw_gbs", "label": _BUSBW}
    return {**facts, "dtype": "float", "at": "16 GiB", "documented": {"value": value}}


def run_id(night: int) -> str:
    return time.strftime("%Y%m%d-%H%M%S-7f3a", time.gmtime(LAST_S - (NIGHTS - 1 - night) * DAY_S))


def night_of(night: int) -> list[Record]:
    """The records of one night."""
    chance = random.Random(night)  # noqa: S311 - noise, not cryptography
    return [_record(night, number, name, facts, chance) for number, (name, facts) in enumerate(_figures())]


def _record(night: int, number: int, name: str, facts: dict[str, Any], chance: random.Random) -> Record:
    count = max(1, facts["gpus"] // 8)
    first = chance.randrange(1, 49 - count)
    nodes = range(first, first + count)
    slower = math.exp(chance.gauss(0, 0.009))
    if SLOW_NODE in nodes and night >= SLOW_FROM:
        slower *= 1.11
    if name == SLOW_ROW and night >= DRIVER_FROM:
        slower *= 1.09
    label = facts.get("label")
    is_bandwidth = label is not None and label["direction"].startswith("higher")
    documented = facts.get("documented", {}).get("value", 4.5)
    judged = documented / slower if is_bandwidth else documented * slower
    end_s = LAST_S - (NIGHTS - 1 - night) * DAY_S + 60 * number
    failed = (FAILING_NODE in nodes and night >= 50) or chance.random() < 0.004
    state = JobState.NODE_FAIL if failed else JobState.COMPLETED
    job = JobFacts(
        state,
        id=f"{4000 + night * 40 + number}",
        launcher="slurm",
        exit_code=1 if failed else 0,
        nodes=compressed(f"n{node:03}" for node in nodes),
        submit_s=end_s - 900,
        start_s=end_s - 780,
        end_s=end_s,
    )
    regressed = slower > 1 / 0.95
    fact = f"throughput is {100 * (1 - 1 / slower):.1f} % below the documented (allowed 5 %)"
    outcome = "error" if failed else "regressed" if regressed else "passed"
    gpus = facts["gpus"]
    figures = {"step_time_s": judged, "tokens_per_s": gpus * 4500 / judged, "mfu": 1.8 / judged}
    return row(
        name,
        **{
            "run_id": run_id(night),
            "outcome": outcome,
            "fact": f"job {job.id} ended NODE_FAIL" if failed else fact if regressed else "as documented",
            "reason": "slower than allowed" if regressed and not failed else "",
            **({} if failed else {"sigma": 0.009, "sigma_jobs": 30}),
            "job": job,
            "recorded_s": end_s + 30,
            "series_s": () if failed or label else tuple(judged * (1 + chance.gauss(0, 0.01)) for _ in range(40)),
            "environment": {
                "driver": "550.54.15" if night < DRIVER_FROM else "560.28.03",
                "nccl": "2.21.5" if night < NCCL_FROM else "2.23.4",
            },
            "dtype": name.partition("[")[0].rpartition("_")[2],
            **facts,
            "measured": {} if failed else figures if label is None else {"value": judged},
        },
    )


def sweep_records(night: int) -> list[Record]:
    """The tiles of a sweep at noon: one row on each of 48 nodes, of which one is slow."""
    chance = random.Random(1000 + night)  # noqa: S311 - noise, not cryptography
    made = []
    for node in range(1, 49):
        slower = math.exp(chance.gauss(0, 0.009)) * (1.11 if node == SLOW_NODE and night >= SLOW_FROM else 1.0)
        end_s, name = LAST_S - (NIGHTS - 1 - night) * DAY_S - 36000, f"n{node:03}"
        job = JobFacts(
            JobState.COMPLETED,
            id=f"{9000 + 50 * night + node}",
            launcher="slurm",
            exit_code=0,
            nodes=name,
            submit_s=end_s - 400,
            start_s=end_s - 380,
            end_s=end_s,
        )
        regressed = slower > 1 / 0.95
        row_id = f"llama2_70b_bf16[H100x8]@{name}"
        more = {"outcome": "regressed", "reason": "slower than allowed", "fact": "10 % below"} if regressed else {}
        made.append(
            row(
                "llama2_70b_bf16[H100x8]",
                judged=4.5 * slower,
                **{
                    "run_id": time.strftime("%Y%m%d-%H%M%S-5eeb", time.gmtime(end_s - 400)),
                    "job": job,
                    "row": row_id,
                    "node_id": f"baselines/maxtext/llama2_70b.yaml::{row_id}",
                    "tile": name,
                    "recorded_s": end_s,
                    "environment": {"driver": "550.54.15" if night < DRIVER_FROM else "560.28.03"},
                    **more,
                },
            )
        )
    return made


def write_sixty(directory: Path, *, sweep: bool = False, nights: int = NIGHTS) -> Path:
    """The report of the last night, or of the sweep before it, in a directory of its own; its first page."""
    directory.mkdir(parents=True, exist_ok=True)
    place = directory / "history.sqlite"
    newest: list[Record] = []
    with open_history(place) as history:
        for night in range(NIGHTS - nights, NIGHTS):
            if night % 7 == 3 and night < NIGHTS - 2:
                history.add(sweep_records(night))
            newest = night_of(night)
            history.add(newest)
        run = directory / newest[0].run.id
        if sweep:
            newest = sweep_records(NIGHTS - 1)
            history.add(newest)
            run = directory / newest[0].run.id
            run.mkdir()
            found = sweep_of(newest, slow_finding(f"n{SLOW_NODE:03}"), row="llama2_70b_bf16[H100x8]")
            switches = {f"leaf{at:02}": f"n[{at * 12 + 1:03}-{at * 12 + 12:03}]" for at in range(4)}
            write_sweep(run, type(found)(**{**vars(found), "switches": switches}))
        runs = {newest[0].run.id: ReportedRun(run, exit_status=1)}
        return write_report(run_reports(newest, history, runs), directory / "report")


if __name__ == "__main__":
    write_sixty(Path(sys.argv[1]), sweep="--sweep" in sys.argv)
