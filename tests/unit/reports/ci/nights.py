"""Runs to export, one of them with every outcome, and texts that somebody else has written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from pytest_gsw.common.text import minute
from pytest_gsw.history.since import Since
from pytest_gsw.reports.reported_row import ReportedRow
from pytest_gsw.reports.run_report import ReportedRun, RunReport
from pytest_gsw.results.record import Record
from tests.unit.results.records import JOB, SLOW, varied

DRIFT = (
    "throughput of the newest runs is -4.1 % against the first ones, -0.9 % a week, since about 2026-11-12 "
    "(job 470011 of run 20261112-221000-aaaa)"
)


def record(gpus: int, seconds: float | None = None, **changes: object) -> Record:
    """A row of the table, that took these seconds."""
    row = f"llama2_70b_fp8[H100x{gpus}]"
    measured = {} if seconds is None else {**SLOW.figures.measured, "step_time_s": seconds}
    one = varied(
        SLOW,
        row=row,
        node_id=f"baselines/maxtext/llama2_70b.yaml::{row}",
        baseline=f"baselines/maxtext/llama2_70b.yaml:{gpus}",
        gpus=gpus,
        measured=measured,
        outcome="passed",
        job=replace(JOB, id=f"4812{gpus}"),
    )
    return varied(one, **changes)


def run_of(
    records: Iterable[Record], missing: Mapping[str, str] | None = None, since: Mapping[str, Since] | None = None
) -> RunReport:
    """A run of these rows; by node id, why others have no record, and since when rows are slow."""
    rows = (ReportedRow(one, one.row.id, since=(since or {}).get(one.row.node_id)) for one in records)
    return RunReport("", ReportedRun(Path(), missing or {}), tuple(rows))


PASSED = record(64, 4.6)
REGRESSED = record(128, 5.11, outcome="regressed", fact=SLOW.fact)
ERROR = record(256, outcome="error", fact="job 4812256 failed with exit code 1: CUDA out of memory", job=JOB)
INCONCLUSIVE = record(
    512, 5.0, outcome="inconclusive", fact="throughput 1 tokens/s is 8.1 % below the documented 2", limit=0.12
)
DRIFTING = record(1024, 4.7, drift=DRIFT)
IMPROVED = record(2048, 3.5, outcome="improved", fact="throughput 3 tokens/s is 30.2 % above the documented 2")
#: Noon in UTC: the same day wherever this runs.
NOON_S = 1794312000.0
#: When the row that regressed first did so.
SINCE = minute(NOON_S + 8 * 86400)
RUN = run_of(
    (PASSED, REGRESSED, ERROR, INCONCLUSIVE, DRIFTING, IMPROVED),
    since={REGRESSED.row.node_id: Since(NOON_S + 8 * 86400, 3, "before")},
)

#: What may stand in a log, a table or a node's name, once it was quoted: no control characters but line ends.
HOSTILE = (
    "::error file=x::boo",
    "a%0Ab%3A%2C%25",
    "| cell |\n| --- |",
    "\\| \\\\| \\",
    "``` `a` ``",
    "`",
    "<script>alert(1)</script><img src=x onerror=y>",
    "&lt;b&gt; & &amp;",
    "[link](javascript:x) ![i](http://e.x/p.png) https://e.x @someone #1 **b** $x$",
    'quote " back \\ newline \n end',
    "]]\n[[ATTACHMENT|/etc/passwd]]",
    "=cmd()|'x'!A1",
    "漢字 ü 🚀",
    "",
)
texts = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=("C",)) | st.just("\n")))


def hostile_run(text: str) -> RunReport:
    """A run in which everything that others write is one text."""
    job = replace(JOB, nodes=text, reason=text)
    rows = [
        varied(
            one,
            row=text,
            node_id=f"{text}::{number}",
            fact=text,
            drift=text or None,
            workload=text,
            dtype=text,
            accelerator=text,
            framework=text,
            cluster=text,
            run_id=text,
            log=text,
            job=job,
        )
        for number, one in enumerate(RUN.records)
    ]
    odd = varied(rows[0], node_id=f"{text}::odd", outcome="profiled", baseline=text)
    return run_of((*rows, odd), {f"{text}::gone": text})
