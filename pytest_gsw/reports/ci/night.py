"""What a night's records say to whoever comes in the morning: what needs attention, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import command, counted, day
from pytest_gsw.history.model import NO_CLUSTER
from pytest_gsw.performance.verdict import DOUBTS
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.accepted_text import accepted_line
from pytest_gsw.results.attention import Attention, Level
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_text import inconclusive_line
from pytest_gsw.results.summary import throughput_change

#: Where sessions keep their runs, where nobody says otherwise.
_RUNS = ".gsw/runs"


#: What can be found of a row, the worst first.
KINDS = tuple(one.kind for one in attention.ATTENTIONS if one.level is not None)


@dataclass(frozen=True)
class Night:
    """What is known of one run."""

    records: tuple[Record, ...]
    #: By node id, why a row of the run has no record: each is an error.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: By node id, since when a row is too slow, where the history tells it.
    since: Mapping[str, str] = field(default_factory=dict)


def quoted_night(
    records: tuple[Record, ...], missing: Mapping[str, str], since: Mapping[str, str], environ: Mapping[str, str]
) -> Night:
    """A night that may be shown: without control characters and without the secrets of an environment.

    What a session records is quoted already; a record of an earlier release may not be.
    """
    shown = {quoted(node_id, environ): why for node_id, why in missing.items()}
    return quoted(Night(records, shown, since), environ)


@dataclass(frozen=True)
class Finding:
    """One thing that somebody should look at; a row may have several."""

    #: One of :data:`KINDS`.
    kind: str
    row: str
    node_id: str
    cluster: str
    #: What happened.
    text: str
    #: The command to type next; empty where the text has it.
    next: str = ""
    since: str = ""
    record: Record | None = None

    @property
    def level(self) -> Level:
        """How much somebody has to do about it."""
        return attention.BY_KIND[self.kind].level or Level.NOTICE

    @property
    def title(self) -> str:
        """What it is, and of which row."""
        return f"{self.kind}: {self.row}"

    @property
    def place(self) -> tuple[str, int]:
        """The table and the line in it; the first line where nobody knows it."""
        path, _, line = ("" if self.record is None else self.record.row.baseline).rpartition(":")
        if path and line.isascii() and line.isdigit():
            return path, int(line) or 1
        return self.node_id.partition("::")[0], 1


def findings(night: Night) -> tuple[Finding, ...]:
    """All that needs attention, the worst first, and among equals the greatest loss."""
    found = [one for record in night.records for one in _of_record(record, night.since.get(record.row.node_id, ""))]
    recorded = {record.row.node_id for record in night.records}
    found += [
        Finding(attention.ERROR.kind, node_id.rpartition("::")[2], node_id, "", why)
        for node_id, why in night.missing.items()
        if node_id not in recorded
    ]
    return tuple(sorted(found, key=_rank))


def _rank(finding: Finding) -> tuple[int, float, str]:
    change = None if finding.record is None else throughput_change(finding.record)
    return KINDS.index(finding.kind), change or 0.0, finding.node_id


def _of_record(record: Record, since: str) -> Iterator[Finding]:
    outcome = outcomes.of(record.outcome)
    if not outcome.known:
        why = f"the record has the outcome '{record.outcome}', which this pytest-gsw does not know"
        yield _finding(outcome.attention, record, why)
    elif outcome.attention.level is not None:
        text = inconclusive_line(record) or record.fact
        yield _finding(outcome.attention, record, text, since if is_slow(record) else "")
    if record.drift:
        yield _finding(attention.DRIFT, record, record.drift)
    accepted = accepted_line(record)
    if accepted and outcome is outcomes.PASSED:
        yield _finding(attention.ACCEPTED, record, accepted)


def is_slow(record: Record) -> bool:
    """Whether a row is slower than its tolerance allows, whatever that is put down to."""
    return (record.by_own_metric) in outcomes.SLOW and record.reason not in DOUBTS


def _finding(needs: Attention, record: Record, text: str, since: str = "") -> Finding:
    following = _next(needs, record)
    return Finding(needs.kind, record.row.id, record.row.node_id, record.run.cluster, text, following, since, record)


def _next(needs: Attention, record: Record) -> str:
    """What to type next: what tells more, or what runs the row again where there is nothing more to tell."""
    if record.run.cluster == NO_CLUSTER:
        where = record.run.log or f"{_RUNS}/{record.run.id}"
        return command("pytest", f"--gsw-replay={where}", record.row.node_id)
    if needs is attention.IMPROVED:
        return command("pytest-gsw", "baseline", "propose", f"{_RUNS}/{record.run.id}", f"--row={record.row.id}")
    if needs is attention.DRIFT:
        return command("pytest-gsw", "trend", record.row.id, f"--cluster={record.run.cluster}")
    if needs in {attention.ERROR, attention.UNEXPECTED_SUCCESS}:
        return command("pytest", f"--gsw-cluster={record.run.cluster}", record.row.node_id)
    if needs is attention.REGRESSED and not record.jobs.repeats:  # one slow job may be one slow node
        return command("pytest", f"--gsw-cluster={record.run.cluster}", "--gsw-confirm=4", record.row.node_id)
    return command("pytest-gsw", "history", record.row.id, f"--cluster={record.run.cluster}")


def slow_since(before: Sequence[tuple[float, str]]) -> str:
    """Since when a row that is too slow tonight has been too slow; empty where nothing is known of the nights before.

    Args:
        before: When each earlier night was, seconds since the epoch, and the row's outcome in it; the oldest first.
    """
    if not before:
        return ""
    slow = 0
    while slow < len(before) and before[-1 - slow][1] == outcomes.REGRESSED.word:
        slow += 1
    if not slow:
        return "tonight"
    first = day(before[-slow][0])
    return f"{first}, {slow + 1} nights" if slow < len(before) else f"{first} or before, {slow + 1} nights"


def _counted(word: str) -> str:
    """What stands behind a number of rows of an outcome, where commas part the numbers."""
    outcome = outcomes.of(word)
    return outcome.attention.counted or outcome.text.replace(",", "")


def counts_text(night: Night) -> str:
    """How many rows there were and what they came to: ``12 rows: 2 regressed, 1 error, 9 passed, 1 drifting``."""
    found = Counter(_counted(record.outcome) for record in night.records)
    recorded = {record.row.node_id for record in night.records}
    found[attention.ERROR.counted] += sum(node_id not in recorded for node_id in night.missing)
    total = sum(found.values())
    bad = [one.counted for one in attention.ATTENTIONS if one.counted]
    ordered = [*(words for words in bad if found[words]), *sorted(set(+found) - set(bad))]
    parts = [f"{found[words]} {words}" for words in ordered]
    drifting = sum(bool(record.drift) for record in night.records)
    if drifting:
        parts.append(f"{drifting} {attention.DRIFT.counted}")
    return counted(total, "row") + (f": {', '.join(parts)}" if parts else "")
