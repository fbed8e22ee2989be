"""What people read of a session: its plan, where it stands while it waits, and what it has cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_gsw.common.words import duration, rounded
from pytest_gsw.errors import RunError
from pytest_gsw.jobs.model import JobState, JobStatus


@dataclass(frozen=True)
class RowProgress:
    """Where one row stands while the session waits."""

    name: str
    gpus: int
    #: What was last known of its job; ``None`` where there is none.
    status: JobStatus | None
    #: Steps that its log shows, of how many, and the newest one's seconds.
    steps: int = 0
    of: int | None = None
    step_time_s: float | None = None
    #: Whether it can be reported, or has been.
    over: bool = False
    #: How long its job runs from its start by the documented step times, where they tell.
    expected_s: float | None = None

    @property
    def left_s(self) -> float | None:
        """How long its job still runs by the documented step times."""
        if self.expected_s is None or self.of is None:
            return self.expected_s
        return self.expected_s * max(0.0, 1 - self.steps / self.of)

    @property
    def text(self) -> str:
        """``llama2_70b_fp8[H100x64] at step 23 of 50, 4.33 s``."""
        of = "" if self.of is None else f" of {self.of}"
        took = "" if self.step_time_s is None else f", {self.step_time_s:.3g} s"
        return f"{self.name} at step {self.steps}{of}{took}"


def standing(rows: Sequence[RowProgress], gpus: float = math.inf, full: str = "") -> str:
    """Where a session stands: jobs by state, what the pending ones wait for, how long it takes at least.

    ``gpus`` is how many the session can have at once; ``full`` is why nothing more is submitted for now, if so.
    """
    waiting = sum(row.status is None and not row.over for row in rows)
    open_rows = [row for row in rows if not row.over]
    running = [row for row in rows if row.status is not None and row.status.state is JobState.RUNNING]
    pending = [row.status for row in rows if row.status is not None and row.status.state is JobState.PENDING]
    reasons = sorted({status.reason for status in pending if status.reason and status.reason != "None"})
    in_use = rounded(sum(row.gpus for row in running), "GPU")
    # Of many running jobs the one that is the furthest from its end decides how long the night is.
    last = max((row for row in running if row.steps), key=lambda row: row.left_s or 0.0, default=None)
    parts = [
        f"{len(rows) - len(open_rows)} of {len(rows)} done",
        f"{len(running)} running on {in_use}" if running else "",
        f"{len(pending)} pending" + (f" ({', '.join(reasons)})" if reasons else "") if pending else "",
        f"{waiting} not submitted yet" + (f": {full}" if full else "") if waiting else "",
        _time_left(open_rows, gpus),
        last.text if last is not None else "",
    ]
    return f"gsw: {', '.join(part for part in parts if part)}"


def _time_left(open_rows: Sequence[RowProgress], gpus: float) -> str:
    left = [(row.left_s, row.gpus) for row in open_rows if row.left_s is not None]
    if not left:
        return ""
    longest_s = max(left_s for left_s, _ in left)
    left_s = max(longest_s, sum(one_s * taken for one_s, taken in left) / gpus)
    return f"at least {duration(left_s)} left" if left_s >= 1 else ""


def gpu_hours(used: float, saved: float, stopped: int) -> str:
    """What a session has cost, and what ending jobs early has saved."""
    text = f"gsw: {_hours(used)} GPU-hours used"
    if not stopped:
        return text
    return f"{text}, about {_hours(saved)} saved by ending {rounded(stopped, 'job')} early"


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}"


def plan_text(
    rows: Sequence[Mapping[str, Any]],
    skipped: Sequence[tuple[str, str]],
    errors: Mapping[str, RunError] | None = None,
    has_gpus: int | None = None,
) -> list[str]:
    """What ``--gsw-plan`` prints: one block a row, then the sums of those that can be submitted.

    ``has_gpus`` is how many the cluster has, where that is known.
    """
    lines: list[str] = []
    left = dict(errors or {})
    cannot = f"{rounded(len(left), 'row')} cannot be submitted" if left else ""
    ready = [row for row in rows if row["node_id"] not in left]
    for row in rows:
        took = "run time not known" if row["minutes"] is None else f"about {rounded(row['minutes'], 'minute')}"
        took += f", {row['jobs']} times" if row["jobs"] > 1 else ""
        lines += [
            row["node_id"],
            f"  {rounded(row['gpus'], 'GPU')} on {rounded(row['nodes'], 'node')}, {took}",
            *([f"  source       {row['source']}"] if row.get("source") else []),
            f"  directory    {row['directory']}",
            f"  command      {row['command']}",
            *(f"  environment  {name}={value}" for name, value in row["environment"].items()),
            f"  log          {row['log']}",
            *_error_lines(left.pop(row["node_id"], None)),
            "",
        ]
    for node_id, reason in skipped:
        lines += [node_id, f"  skipped: {reason}", ""]
    for node_id, error in left.items():
        lines += [node_id, *_error_lines(error), ""]
    if not ready:
        return [*lines, f"nothing would be submitted{f': {cannot}' if cannot else ''}"]
    hours = sum(row["jobs"] * row["gpus"] * row["minutes"] / 60 for row in ready if row["minutes"] is not None)
    unknown = sum(row["minutes"] is None for row in ready)
    more = f" without the {rounded(unknown, 'row')} whose run time is not known" if unknown else ""
    wanted = sum(row["gpus"] for row in ready)
    gpus = rounded(wanted, "GPU")
    of = f" (the cluster has {has_gpus:,})" if has_gpus is not None and wanted > has_gpus else ""
    nodes = rounded(sum(row["nodes"] for row in ready), "node")
    total = f"{gpus} on {nodes} if all run at once{of}, about {rounded(hours, 'GPU-hour')}{more}"
    return [*lines, f"{rounded(len(ready), 'row')}, {total}{f'; {cannot}' if cannot else ''}"]


def _error_lines(error: RunError | None) -> list[str]:
    """Why a row cannot be submitted, in the columns of its block."""
    if error is None:
        return []
    facts = [("error", error.fact), *error.evidence, ("next", error.advice)]
    return [
        f"  {label if first else '':<12} {line}"
        for label, text in facts
        if text
        for first, line in [(number == 0, line) for number, line in enumerate(text.split("\n"))]
    ]
