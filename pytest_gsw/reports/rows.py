"""One row of a night with its nights before: what is wrong with it, and since when."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pytest_gsw.common.words import ByNumber, by_number
from pytest_gsw.history.drifting import Drifting
from pytest_gsw.history.model import Point, Told, record_time_s
from pytest_gsw.performance.verdict import DOUBTS, Verdict
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.attention import Attention
from pytest_gsw.results.facts import JobFacts
from pytest_gsw.results.next_steps import needs_of
from pytest_gsw.results.record import Record
from pytest_gsw.results.run_id import begin_of

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
class Failed:
    """A night in which a row could not be measured."""

    run_id: str
    time_s: float
    #: What happened, and to which job; known of tonight alone.
    fact: str = ""
    job_id: str = ""

    @property
    def begin_s(self) -> float:
        """When its run began."""
        return begin_of(self.run_id, self.time_s)


@dataclass(frozen=True)
class Row:
    """One row of a night."""

    record: Record
    #: The name of its page, without an extension.
    name: str
    #: The first job of each of its nights by the history, the oldest first, this one included where it was measured.
    nights: tuple[Point, ...] = ()
    #: The same nights, each as its run was judged: the figures that are shown.
    judged: tuple[Point, ...] = ()
    #: The same, and those that say nothing of the row: what was measured is not believed, or a canary was slow.
    measured: tuple[Point, ...] = ()
    #: Those that count: since its cluster has accepted a figure, or all.
    counted: tuple[Point, ...] = ()
    drifting: Drifting | None = None
    since: Since | None = None
    #: What the runs before came to for it, measured or not, the oldest first.
    earlier: tuple[Told, ...] = ()
    #: By run, the seconds that its newest runs were judged by, where one was judged by others than today's.
    held: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def needs(self) -> Attention:
        """What it needs attention for."""
        return needs_of(self.record, drifts=self.drifting is not None)

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
        verdict = self.verdict
        return None if verdict is None else verdict.throughput_change

    @cached_property
    def jobs(self) -> tuple[JobFacts, ...]:
        """Its jobs in the order of their submission."""
        return tuple(sorted(self.record.jobs.all, key=as_submitted))


def failures_of(row: Row) -> tuple[Failed, ...]:
    """The nights in which a row could not be measured, the oldest first, tonight among them."""
    before = [Failed(one.run_id, one.time_s) for one in row.earlier if _is_error(one.outcome)]
    if row.needs is not attention.ERROR:
        return tuple(before)
    last = row.record.jobs.last
    job_id = "" if last is None else last.id
    return (*before, Failed(row.record.run.id, record_time_s(row.record), row.record.fact, job_id))


def _is_error(outcome: str) -> bool:
    return outcomes.of(outcome).attention.in_report is attention.ERROR


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
