"""A run as its report has it: its rows with their runs before, its jobs, why rows could not be measured. Pure data."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pytest_gsw.common.words import ByNumber, by_number, minute
from pytest_gsw.history.alarms import Alarm, by_state
from pytest_gsw.history.comparison import ClusterTold, changes_text
from pytest_gsw.history.model import Told, cluster_of, points_of, record_time_s
from pytest_gsw.history.row_history import ABOUT, Drifting, Failing, Past, Sound, Suspect, changes_within
from pytest_gsw.logs.signatures import DIVERGED, NOT_FINITE, SIGNATURES
from pytest_gsw.performance.verdict import DOUBTS, Verdict
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.attention import Attention
from pytest_gsw.results.facts import JobFacts
from pytest_gsw.results.incident import WholeNight, cluster_night
from pytest_gsw.results.junit_names import Noted
from pytest_gsw.results.next_steps import needs_of
from pytest_gsw.results.nodes import expand
from pytest_gsw.results.record import Record, used_gpu_hours
from pytest_gsw.results.run_id import begin_of
from pytest_gsw.results.summary import cause_of, error_nodes
from pytest_gsw.results.unjudged import WAITS, left_text

# -- one row ---------------------------------------------------------------------------------------

#: What a row can need attention for, the worst first; the last two need none.
KINDS = tuple(one.kind for one in attention.ATTENTIONS if one.sign)


#: File names may have 255 bytes, and a picture's has a few more than its page's.
_LONGEST_NAME = 120


@dataclass(frozen=True)
class Since:
    """Since when a row is what it is tonight."""

    #: When the first run of which that is known began, seconds since the epoch, and its id and its job.
    time_s: float
    run_id: str
    job_id: str
    #: How many nights that are, tonight among them.
    nights: int
    #: The run of the last night before in which it was not; empty where none is known.
    good_run_id: str = ""
    good_time_s: float | None = None
    good_s: float | None = None
    #: By name, what of the environment was another before that night, or one of a few before it.
    changes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: Of a row that is too slow, how many of these nights regressed, where the others were inconclusive; else 0.
    regressed: int = 0


@dataclass(frozen=True)
class Row:
    """One row of a night."""

    record: Record
    #: The name of its page, without an extension.
    name: str
    #: Its runs by the history, this one included where it was measured.
    past: Past = field(default_factory=Past)
    since: Since | None = None
    #: What the runs before came to for it, measured or not, the oldest first.
    earlier: tuple[Told, ...] = ()

    @cached_property
    def drifting(self) -> Drifting | None:
        """Whether it drifts; ``None`` of one that was not measured."""
        return self.past.drifting if points_of(self.record) else None

    @cached_property
    def needs(self) -> Attention:
        """What it needs attention for."""
        needs = needs_of(self.record)
        passed = needs in {attention.PASSED, attention.ACCEPTED}
        return attention.DRIFT if passed and self.drifting is not None else needs

    @property
    def kind(self) -> str:
        """The same, one of :data:`KINDS`."""
        return self.needs.kind

    @cached_property
    def verdict(self) -> Verdict | None:
        """Its verdict, ``None`` where it has none."""
        return self.record.judged

    @cached_property
    def change(self) -> float | None:
        """Measured throughput over what the outcome rests on, less one; ``None`` where nothing was judged."""
        return self.record.throughput_change

    @cached_property
    def failures(self) -> tuple[Told, ...]:
        """The runs in which it could not be measured, the oldest first, this one among them."""
        this = Told(self.record.run.id, record_time_s(self.record), self.record.outcome)
        known = (*self.earlier, this)
        return tuple(one for one in known if outcomes.of(one.outcome).attention.in_report is attention.ERROR)

    @cached_property
    def jobs(self) -> tuple[JobFacts, ...]:
        """Its jobs in the order of their submission."""
        return tuple(sorted(self.record.jobs.all, key=as_submitted))


def begin_of_job(job: JobFacts) -> float:
    """When a job was submitted, or the nearest time to that which is known; 0 where none is."""
    return job.submit_s or job.start_s or job.end_s or 0.0


def as_submitted(job: JobFacts) -> tuple[float, ByNumber]:
    """What jobs are sorted by, so that they are in the order of their submission.

    Slurm's times are whole seconds; of the jobs of one second their ids tell.
    """
    return begin_of_job(job), by_number(job.id)


def worst_first(row: Row) -> tuple[int, float, ByNumber]:
    """What rows are sorted by, so that the worst comes first and among equals the greatest loss."""
    return KINDS.index(row.kind), row.change or 0.0, by_number(row.record.row.id)


def is_slow(record: Record) -> bool:
    """Whether a row is slower than its tolerance allows, whatever that is put down to."""
    return record.by_own_metric in outcomes.SLOW and not is_doubted(record)


def is_doubted(record: Record) -> bool:
    """Whether what was measured is not believed to be the row's."""
    return record.reason in DOUBTS


def device(accelerator: str) -> str:
    """What rows of an accelerator are counted in: GPUs, or on a machine without any its CPUs."""
    return "CPU" if accelerator == "CPU" else "GPU"


def page_names(node_ids: Iterable[str]) -> dict[str, str]:
    """The name of each row's page: letters, digits, ``_`` and ``-``, and different ones for different rows.

    A row's page has the same name every night, so that a link to it stays right. Names that differ only in case are
    one file on some file systems.
    """
    wanted = {node_id: re.sub(r"[^A-Za-z0-9-]+", "_", node_id.rpartition("::")[2]).strip("_-") for node_id in node_ids}
    counts = Counter(name.lower() for name in wanted.values())
    return {
        node_id: name
        if name and len(name) <= _LONGEST_NAME and counts[name.lower()] == 1
        else _with_hash(name, node_id)
        for node_id, name in wanted.items()
    }


def _with_hash(name: str, node_id: str) -> str:
    digest = hashlib.sha256(node_id.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{name[:_LONGEST_NAME]}-{digest}" if name else f"row-{digest}"


# -- since when -------------------------------------------------------------------------------------


def since_line(since: Since | None) -> str:
    """Since when a row is what it is: ``2026-11-18 22:04, 3 runs``; empty where no run before is known."""
    if since is None or (since.nights == 1 and not since.good_run_id):
        return ""
    first = f"{minute(since.time_s)}{'' if since.good_run_id else ' or before'}"
    mixed = f", {since.regressed} of them regressed" if since.regressed else ""
    return f"{'this run' if since.nights == 1 else f'{first}, {since.nights} runs{mixed}'}"


def since_facts(since: Since | None) -> tuple[tuple[str, str], ...]:
    """Since when a row is what it is, and what changed then, each with its name; nothing where that is not known."""
    line = since_line(since)
    if since is None or not line:
        return ()
    return (("since", line), *((("changed", changes_text(since.changes)),) if since.changes else ()))


#: By what rows need, the outcomes of runs that are alike in that.
_ALIKE = {
    **dict.fromkeys(attention.SLOW, outcomes.SLOW),
    attention.IMPROVED: frozenset({outcomes.IMPROVED.word}),
}


def since_of(row: Row) -> Since | None:
    """Since when a row is what it is, ``None`` where nobody knows, or where it is well."""
    if row.needs is attention.ERROR:
        return _error_since(row)
    nights, alike = row.past.nights, _ALIKE.get(row.needs, frozenset())
    drifting = row.drifting if row.needs is attention.DRIFT else None
    if drifting is not None:
        first = [night.run_id for night in nights].index(drifting.since.run_id)
    elif nights and nights[-1].run_id == row.record.run.id and nights[-1].outcome in alike:
        first = len(nights) - 1
        while first and nights[first - 1].outcome in alike:
            first -= 1
    else:
        return None  # a canary's night, or nothing that counts
    found = Since(nights[first].begin_s, nights[first].run_id, nights[first].job_id, len(nights) - first)
    if first:
        before, good_s = nights[first - 1], row.past.judged[first - 1].judged_s
        changes = changes_within(nights, first - ABOUT, first) if drifting is None else drifting.changes
        found = replace(found, good_run_id=before.run_id, good_time_s=before.begin_s, good_s=good_s, changes=changes)
    regressed = sum(night.outcome == outcomes.REGRESSED.word for night in nights[first:])
    # Alarms count from the first of those that regressed.
    is_mixed = row.needs in attention.SLOW and regressed < found.nights
    return replace(found, regressed=regressed) if is_mixed else found


def _error_since(row: Row) -> Since:
    """Since when a row could not be measured."""
    record, last = row.record, row.record.jobs.last
    found = Since(begin_of(record.run.id, record_time_s(record)), record.run.id, "" if last is None else last.id, 1)
    for night in reversed(row.earlier):
        if night.outcome != outcomes.ERROR.word:
            return replace(found, good_run_id=night.run_id, good_time_s=night.begin_s)
        found = replace(found, time_s=night.begin_s, run_id=night.run_id, job_id="", nights=found.nights + 1)
    return found


# -- one run ----------------------------------------------------------------------------------------

_ADVICE = {signature.name: signature.advice for signature in SIGNATURES}


@dataclass(frozen=True)
class Run:
    """What the records of a run do not say of it."""

    #: The run's directory.
    directory: Path
    #: By node id or file, why a row has no record that can be read.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: How its session ended, ``None`` where nobody wrote it down.
    exit_status: int | None = None
    #: Its alarms, ``None`` where the history is to be asked.
    alarms: tuple[Alarm, ...] | None = None
    #: What its session noted of its rows before it began, and when that was, seconds since the epoch.
    noted: Noted = field(default_factory=Noted)
    begun_s: float | None = None


#: What is known of a row that has no record, as metrics name it.
FACTS = ("workload", "framework", "dtype", "accelerator", "gpus")


@dataclass(frozen=True)
class Unrecorded:
    """A row without a record, or with one that cannot be read: an error."""

    node_id: str
    why: str
    #: By name, what its session noted that it is: all of :data:`FACTS`, or nothing.
    facts: Mapping[str, str]

    @property
    def id(self) -> str:
        """The row's id, or the path of its record."""
        return self.node_id.rpartition("::")[2]


@dataclass(frozen=True)
class Cause:
    """Rows that could not be measured for the same cause."""

    #: What happened, without the job that it happened to.
    fact: str
    rows: tuple[Row, ...]
    #: On which nodes, those of most rows first, as :func:`~pytest_gsw.results.summary.error_nodes` names them.
    nodes: str
    #: What to do about it, where that is known.
    advice: str


@dataclass(frozen=True)
class RunJob:
    """One job of a night, and its row."""

    row: Row
    facts: JobFacts

    @property
    def failed(self) -> bool:
        """Whether it came to nothing."""
        is_last = self.facts is self.row.record.jobs.last
        return (
            self.row.needs is attention.ERROR
            if is_last
            else bool(self.facts.why_repeated) and self.facts.judged_s is None
        )

    @property
    def begin_s(self) -> float:
        """When it was submitted, or the nearest time to that which is known; 0 where none is."""
        return begin_of_job(self.facts)


@dataclass(frozen=True)
class Listed:
    """One run of a history, in short."""

    run_id: str
    #: When it began, seconds since the epoch.
    time_s: float
    #: How many of its rows had which outcome.
    outcomes: Mapping[str, int]
    #: Whether the whole cluster was slower.
    had_incident: bool = False


@dataclass(frozen=True)
class RunReport:
    """One run."""

    run_id: str
    run: Run
    #: In the order of their files.
    rows: tuple[Row, ...]
    #: By cluster, the nodes that make jobs slow.
    slow_nodes: Mapping[str, tuple[Suspect, ...]] = field(default_factory=dict)
    #: By cluster, the nodes of which more jobs fail than by chance.
    blamed_nodes: Mapping[str, tuple[Failing, ...]] = field(default_factory=dict)
    #: By cluster, what is known of its other nodes; nothing without a history.
    sound_nodes: Mapping[str, Sound] = field(default_factory=dict)
    #: What the history knows to be wrong with its rows and its clusters' nodes: those that page first.
    alarms: tuple[Alarm, ...] = ()
    #: By cluster, what its nights say of its rows together.
    told: Mapping[str, ClusterTold] = field(default_factory=dict)
    #: The runs that the history has of its clusters, the oldest first; nothing without a history.
    listed: tuple[Listed, ...] = ()

    @property
    def replay_of(self) -> str:
        """The run that it judged again, or the place of logs that it did; empty of a run of its own jobs."""
        return self.run.noted.replay_of

    @cached_property
    def worst_first(self) -> tuple[Row, ...]:
        """Its rows, the worst first."""
        return tuple(sorted(self.rows, key=worst_first))

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The records of its rows."""
        return tuple(row.record for row in self.rows)

    @cached_property
    def whole(self) -> WholeNight | None:
        """What it was for the whole cluster, an incident or not; ``None`` where its rows are too few to tell."""
        return cluster_night(self.records)

    @property
    def incident(self) -> WholeNight | None:
        """That the whole cluster was slower."""
        return self.whole if self.whole is not None and self.whole.is_incident else None

    @property
    def incident_since(self) -> str:
        """Since when that is so, and what changed then; empty where nobody knows."""
        known = self.told.get(cluster_of(self.records[0])) if self.records else None
        return "" if known is None else known.since

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """Where it ran."""
        noted = {self.run.noted.cluster} - {""}
        return tuple(sorted({record.run.cluster for record in self.records} or noted))

    @cached_property
    def unrecorded(self) -> tuple[Unrecorded, ...]:
        """Its rows without a record: each is an error."""
        recorded = {record.row.node_id for record in self.records}
        missing = ((name, why) for name, why in self.run.missing.items() if name not in recorded)
        return tuple(Unrecorded(name, why, _facts_of(self.run.noted.rows.get(name, {}))) for name, why in missing)

    @property
    def left(self) -> int:
        """How many of its rows its session, which has ended, did not come to."""
        return [one.why for one in self.unrecorded].count(left_text(self.run.directory))

    @property
    def goes_on(self) -> bool:
        """Whether its session has yet to come to some of its rows."""
        return any(one.why == WAITS for one in self.unrecorded)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many rows there are of each of :data:`KINDS`; rows without a record are errors."""
        counts = Counter(row.kind for row in self.rows)
        counts[attention.ERROR.kind] += len(self.unrecorded)
        return {kind: counts[kind] for kind in KINDS if counts[kind]}

    @cached_property
    def outcomes(self) -> Mapping[str, int]:
        """How many rows there are of each outcome, by its word; rows without a record are errors."""
        counts = outcomes.counts((record.outcome for record in self.records), len(self.unrecorded))
        return {one.word: count for one, count in counts.items()}

    @property
    def as_listed(self) -> Listed:
        """The same in short, with its rows that have no record."""
        return Listed(self.run_id, self.begin_s or 0.0, self.outcomes, self.incident is not None)

    @cached_property
    def turned(self) -> Mapping[str, list[Alarm]]:
        """Its alarms that are new, ongoing, and fixed in it."""
        return by_state(self.alarms, {self.run_id, *(record.run.id for record in self.records)})

    @cached_property
    def begin_s(self) -> float | None:
        """When it began, or when its first job was submitted where that is all that is known."""
        known = [job.begin_s for job in self.jobs if job.begin_s]
        first_s = self.run.begun_s or min(known, default=min(self._recorded_s, default=0.0))
        name = self.records[0].run.id if self.records else self.run_id
        return begin_of(self.replay_of or name, first_s) or None

    @cached_property
    def end_s(self) -> float | None:
        """When its last job had ended."""
        known = [job.facts.end_s for job in self.jobs if job.facts.end_s]
        return max(known, default=max(self._recorded_s, default=None))

    @property
    def _recorded_s(self) -> list[float]:
        return [record.run.recorded_s for record in self.records if record.run.recorded_s]

    @property
    def gpu_hours(self) -> float:
        """GPU-hours that its jobs ran for, as far as that is known."""
        return sum(map(used_gpu_hours, self.records))

    @property
    def exit_status(self) -> int:
        """How its session ended, or would have by its records."""
        if self.run.exit_status is not None:
            return self.run.exit_status
        failed = [outcomes.FAILED] if self.unrecorded or self.incident is not None else []
        return outcomes.exit_status([*failed, *(record.status for record in self.records)])

    def of(self, kind: str) -> tuple[Row, ...]:
        """Its rows of one of :data:`KINDS`, the worst first."""
        return tuple(row for row in self.worst_first if row.kind == kind)

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """Why rows could not be measured, the most frequent cause first."""
        found: dict[str, list[Row]] = {}
        for row in self.of(attention.ERROR.kind):
            found.setdefault(cause_of(row.record), []).append(row)
        ordered = sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))
        return tuple(
            Cause(fact, tuple(rows), error_nodes(row.record for row in rows), advice_of(fact)) for fact, rows in ordered
        )

    @cached_property
    def jobs(self) -> tuple[RunJob, ...]:
        """All its jobs in the order of their submission."""
        jobs = (RunJob(row, job) for row in self.rows for job in row.jobs)
        return tuple(sorted(jobs, key=lambda one: as_submitted(one.facts)))

    @cached_property
    def failing_nodes(self) -> tuple[tuple[str, int, int], ...]:
        """Nodes on which jobs failed, how many of how many; the one that stands out most comes first."""
        ran: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for job in self.jobs:
            nodes = expand(job.facts.nodes)
            ran.update(nodes)
            failed.update(nodes if job.failed else ())
        listed = ((node, count, ran[node]) for node, count in failed.items())
        return tuple(sorted(listed, key=lambda one: (-one[1] / one[2], -one[1], one[0])))

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of its jobs."""
        return tuple(sorted({node for job in self.jobs for node in expand(job.facts.nodes)}))


def advice_of(fact: str) -> str:
    """What to do about a cause, where that is known."""
    if fact.startswith(NOT_FINITE):
        return DIVERGED
    return _ADVICE.get(fact.rpartition(": ")[2], "")


def _facts_of(noted: Mapping[str, str]) -> Mapping[str, str]:
    is_whole = set(FACTS) <= set(noted) and noted["gpus"].isascii() and noted["gpus"].isdigit()
    return {name: noted[name] for name in FACTS} if is_whole else {}
