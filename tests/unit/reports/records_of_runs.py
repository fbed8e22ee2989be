"""Runs of a few rows, with all that can happen to one."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pytest_gsw.common.text import minute
from pytest_gsw.history.location import open_history
from pytest_gsw.history.store import History
from pytest_gsw.jobs.states import JobState
from pytest_gsw.reports import pages
from pytest_gsw.reports.from_records import run_reports
from pytest_gsw.reports.run_report import ReportedRun, RunReport
from pytest_gsw.results.record import JobFacts, Record
from tests.unit.history.runs import DAY_S, FIRST_S, job
from tests.unit.results.records import recorded

CURRENT_RUN = 45
RUN_ID = "20261216-210000-7f3a"


def minute_of(number: int) -> str:
    """When one of the runs was, as texts say it."""
    return minute(FIRST_S + number * DAY_S)


def row(name: str, number: int = CURRENT_RUN, judged: float = 4.5, **changes: Any) -> Record:
    """What one run left of a row of 64 to 256 GPUs, documented with 4.5 s."""
    gpus = int(name.rpartition("x")[2].rstrip("]"))
    workload, _, dtype = name.partition("[")[0].rpartition("_")
    end_s = FIRST_S + number * DAY_S
    given: dict[str, Any] = {
        "run_id": RUN_ID if number == CURRENT_RUN else f"night-{number:03}",
        "row": name,
        "node_id": f"baselines/maxtext/{workload}.yaml::{name}",
        "baseline": f"baselines/maxtext/{workload}.yaml:41",
        "document": "readme.md",
        "document_line": 31,
        "cluster": "eos",
        "simulated": False,
        "outcome": "passed",
        "fact": f"throughput {gpus * 1000:,} tokens/s is as documented",
        "tolerance": 0.05,
        "workload": workload,
        "framework": "maxtext",
        "dtype": dtype,
        "accelerator": "H100",
        "gpus": gpus,
        "documented": {"step_time_s": 4.5, "tokens_per_s": gpus * 1000.0, "mfu": 0.4},
        "measured": {"step_time_s": judged, "tokens_per_s": gpus * 4500 / judged, "mfu": 1.8 / judged},
        "statistic": "last",
        "steps": 5,
        "median_s": judged,
        "warm_up_steps": 1,
        "series_s": (40.0, judged, judged * 1.01, judged, judged),
        "job": job(number, submit_s=end_s - 3630, start_s=end_s - 3600),
        "definition": "0123456789ab",
        "metric": "step_time",
        "environment": {"nccl": "2.21.5"},
        "recorded_s": FIRST_S + number * DAY_S + 60,
    }
    return recorded(**{**given, **changes})


def failed(name: str, fact: str, number: int = CURRENT_RUN, **changes: Any) -> Record:
    """What is left of a row that could not be measured."""
    end_s = FIRST_S + number * DAY_S
    times = {"submit_s": end_s - 4000, "start_s": end_s - 3970}
    state = {"state": JobState.FAILED, "exit_code": 1, "nodes": "pool0-[0017-0018]", **times}
    there: dict[str, Any] = {"measured": {}, "series_s": (), "steps": 0, "job": job(number, **state), **changes}
    return row(name, number, outcome="error", fact=fact, **there)


SLOW_FACT = "throughput 115,200 tokens/s is 10.0 % below the documented 128,000 (allowed 5 %)"
PASSED = row("llama2_70b_bf16[H100x64]")
SLOW = row("llama2_70b_fp8[H100x128]", judged=5.0, outcome="regressed", fact=SLOW_FACT, reason="slower than allowed")
FAST = row("llama2_70b_fp8[H100x256]", judged=4.0, outcome="improved", fact="throughput is 12.5 % above")
BROKEN = failed("llama2_70b_fp8[H100x64]", "job 481265 failed with exit code 1: NCCL error")


def runs(directory: Path, **facts: Any) -> dict[str, ReportedRun]:
    """What the records of in this run do not say."""
    return {RUN_ID: ReportedRun(directory, **facts)}


def report_of(
    *records: Record, before: Iterable[Record] = (), directory: Path | None = None, **facts: Any
) -> RunReport:
    """The report of in this run; with a directory, by a history of the runs before, which is kept there."""
    with nullcontext() if directory is None else history_of(directory, *before) as history:
        (found,) = run_reports(records, history, runs(directory or Path("run"), **facts))
    return found


class Picture(NamedTuple):
    """The parts of a picture on a page."""

    title: str
    svg: ET.Element
    alt: str
    legend: list[ET.Element]


def drawn(figure: ET.Element | None) -> Picture:
    """A picture that there is."""
    assert figure is not None
    svg = figure.find("svg")
    assert svg is not None
    return Picture(figure.findtext("figcaption") or "", svg, svg.get("aria-label", ""), figure.findall("ul/li"))


def history_of(directory: Path, *records: Record) -> History:
    """A history with these records."""
    history = open_history(directory / "history.sqlite")
    history.add(records)
    return history


def write_report(
    records: Iterable[Record], history: History | None, directory: Path, runs: Mapping[str, ReportedRun] | None = None
) -> Path:
    """The first page of the report of records."""
    return pages.write_report(run_reports(records, history, runs), directory)


def attempt(number: str, why: str, nodes: str) -> JobFacts:
    """A job that was not its row's last."""
    return replace(job(CURRENT_RUN, id=number, nodes=nodes), state=JobState.NODE_FAIL, why_repeated=why)
