"""Everything that can be typed for a row of the report, each with what it does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_gsw.common.words import command
from pytest_gsw.performance.verdict import Reason
from pytest_gsw.reports.rows import Row
from pytest_gsw.results import attention, next_steps
from pytest_gsw.results.next_steps import again, nights_command, offline

__all__ = ["again", "all_commands", "next_command"]

#: What the command for an inconclusive row does where it is not noise that makes it so.
_DOUBTED = {Reason.TOO_GOOD.value: "look at what was measured"}


def next_command(row: Row, directory: Path) -> str:
    """The one thing to type next for a row that needs attention."""
    return next_steps.next_command(row.record, row.needs, directory)


def all_commands(row: Row, directory: Path) -> Sequence[tuple[str, str]]:
    """Everything that can be typed for a row, each with what it does."""
    record = row.record
    listed = [("run it again", again([record], directory))]
    what = {
        attention.IMPROVED: "propose the new figure",
        attention.DRIFT: "see the nights",
        attention.INCONCLUSIVE: _DOUBTED.get(record.reason, "run it often enough to tell"),
    }.get(row.needs)
    if what is not None:
        listed.append((what, next_command(row, directory)))
    if record.run.log:
        listed.append(("judge its log again", offline(record, directory)))
    if row.since is not None and row.since.good_run_id and row.needs in attention.SLOW:
        runs = (row.since.good_run_id, record.run.id)
        listed.append(("compare with the last good night", command("pytest-gsw", "compare", *runs)))
    if row.nights:
        listed.append(("list its nights", nights_command(record)))
    return [pair for place, pair in enumerate(listed) if pair[1] not in {text for _, text in listed[:place]}]
