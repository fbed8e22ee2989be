"""Everything that can be typed for a row of the report, each with what it does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_gsw.common.words import command
from pytest_gsw.performance.verdict import Reason
from pytest_gsw.reports.run_report import Row
from pytest_gsw.results import attention, next_steps
from pytest_gsw.results.next_steps import again, nights_command, offline

__all__ = ["again", "all_commands", "next_command"]

_NIGHTS = "list its runs"

#: What the one command does that is of what a row needs alone.
_OF_NEED = {
    attention.REGRESSED: "see whether it stays",
    attention.IMPROVED: "propose the new figure",
    attention.DRIFT: "see the drift",
    attention.INCONCLUSIVE: "run it often enough to tell",
}


def next_command(row: Row, directory: Path) -> str:
    """The one thing to type next for a row that needs attention."""
    return next_steps.next_command(row.record, row.needs, directory)


def all_commands(row: Row, directory: Path) -> Sequence[tuple[str, str]]:
    """Everything that can be typed for a row, each with what it does; the one to type next comes first."""
    record = row.record
    listed = [("run it again", again([record], directory))]
    if record.run.log:
        listed.append(("judge its log again", offline(record, directory)))
    if row.since is not None and row.since.good_run_id and row.needs in attention.SLOW:
        runs = (row.since.good_run_id, record.run.id)
        listed.append(("compare with the last good run", command("pytest-gsw", "compare", *runs)))
    if row.past.nights:
        listed.append((_NIGHTS, nights_command(record)))
    first = next_command(row, directory)
    known = {text: what for what, text in (*listed, (_NIGHTS, nights_command(record)))}
    too_good = row.needs is attention.INCONCLUSIVE and record.reason == Reason.TOO_GOOD.value
    of_need = "look at what was measured" if too_good else _OF_NEED.get(row.needs, "")
    return [(known.get(first, of_need), first), *(pair for pair in listed if pair[1] != first)]
