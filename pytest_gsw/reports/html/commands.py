"""What to type next for a row: commands that can be pasted into a shell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_gsw.common.words import command
from pytest_gsw.performance.noise import jobs_to_resolve
from pytest_gsw.performance.verdict import Reason
from pytest_gsw.reports.rows import Row
from pytest_gsw.results import attention
from pytest_gsw.results.facts import NO_CLUSTER
from pytest_gsw.results.record import Record

#: So many rows are named one by one; of more, pytest knows itself which have failed last.
_NAMED = 5


#: What the command for an inconclusive row does where it is not noise that makes it so.
_DOUBTED = {Reason.TOO_GOOD.value: "look at what was measured"}

#: More jobs of one row than this are nobody's next step.
_MOST_REPEATS = 9


def again(records: Iterable[Record], directory: Path, *options: str) -> str:
    """Rows once more, each with a new job; what was replayed without a cluster is replayed again."""
    listed = list(records)
    node_ids = [record.row.node_id for record in listed] if len(listed) <= _NAMED else ["--lf"]
    return command("pytest", *_where(listed[0], directory), *options, *node_ids)


def offline(record: Record, directory: Path) -> str:
    """A row judged again from the log that it left."""
    return command("pytest", *record.run.cluster_options, f"--gsw-replay={directory}", record.row.node_id)


def next_command(row: Row, directory: Path) -> str:
    """The one thing to type next for a row that needs attention."""
    record, verdict = row.record, row.verdict
    match row.needs:
        case attention.IMPROVED:
            return command("pytest-gsw", "baseline", "propose", f"{directory}", "--row", record.row.id)
        case attention.DRIFT:
            return command("pytest-gsw", "trend", record.row.id, "--cluster", record.run.cluster)
        case attention.INCONCLUSIVE if record.reason == Reason.TOO_GOOD.value and record.run.log:
            return command("pytest-gsw", "metrics", record.run.log, "--row", record.row.id)
        case attention.INCONCLUSIVE if verdict and verdict.noise and record.reason == Reason.WITHIN_NOISE.value:
            jobs = jobs_to_resolve(record.row.tolerance, verdict.noise)
            if jobs > _MOST_REPEATS:  # look at what is known before the cluster is taken for days
                return command("pytest-gsw", "history", record.row.id, "--cluster", record.run.cluster)
            return again([record], directory, f"--gsw-repeat={jobs}")
        case attention.REGRESSED if not record.jobs.repeats and record.run.cluster != NO_CLUSTER:
            return again([record], directory, "--gsw-confirm=4")  # one slow job may be one slow node
        case _:
            return again([record], directory)


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
        nights = ("pytest-gsw", "history", record.row.id, "--cluster", record.run.cluster)
        listed.append(("list its nights", command(*nights)))
    return [pair for place, pair in enumerate(listed) if pair[1] not in {text for _, text in listed[:place]}]


def _where(record: Record, directory: Path) -> tuple[str, ...]:
    return record.run.cluster_options or (f"--gsw-replay={directory}",)
