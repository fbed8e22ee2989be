"""One row of a run as pages and texts have it: its history, its need of attention, the onset of its state."""

from __future__ import annotations

import hashlib
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from pytest_gsw.common.text import ByNumber, by_number, minute
from pytest_gsw.history.comparison import changes_text
from pytest_gsw.history.model import Point, RowOutcome, points_of, record_time_s
from pytest_gsw.history.row_history import Drifting, RowHistory
from pytest_gsw.history.since import Since, periods
from pytest_gsw.results import attention, outcomes, suggested_commands
from pytest_gsw.results.record import JobFacts, Record
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.noise import PRIOR
from pytest_gsw.stats.verdict import DOUBTS, compare
from pytest_gsw.tables.metrics import BY_KEY, FURTHER

#: The kinds of rows, the worst first; the last two need no attention.
KINDS = tuple(need.kind for need in attention.ATTENTIONS if need.sign)


#: The least share of the documented throughput of a good row, whatever the row's tolerance.
AT_DOCUMENT = 0.95


#: The longest name of a page: names of files may have 255 bytes.
LONGEST_NAME = 120


#: Names of a document's columns that are figures, with and without their units.
_FIGURES = frozenset(name for key in (*BY_KEY, *FURTHER) for name in (key, key.rpartition("_")[0]))


@lru_cache(maxsize=512)
def home_of(run_id: str) -> str:
    """The folder of a run's pages, relative to the report's directory."""
    return f"runs/{re.sub('[^A-Za-z0-9-]+', '_', run_id)[:100] or 'run'}/"


@dataclass(frozen=True)
class ReportedRow:
    """One row of a run."""

    record: Record
    #: The name of its page, without an extension.
    name: str
    #: Its runs in the history, with this one if it was measured; none of a tile, whose row has them.
    past: RowHistory = field(default_factory=RowHistory)
    since: Since | None = None
    #: Its outcomes in the runs before, measured or not, the oldest first.
    earlier: tuple[RowOutcome, ...] = ()
    #: The name of the page that all rows of its workload share, without an extension.
    shared_page: str = ""

    @property
    def id(self) -> str:
        """Its id."""
        return self.record.row.id

    @property
    def tile(self) -> str:
        """Its tile; empty for any nodes."""
        return self.record.row.tile

    @cached_property
    def is_as_before(self) -> bool:
        """True if it passed with its first job, as in the run before: it has no page of its own."""
        states = [self.needs, *(outcomes.of(outcome.outcome).attention.in_report for outcome in self.earlier[-1:])]
        return {*states} == {attention.PASSED} and len(self.jobs) < 2

    @cached_property
    def address(self) -> str:
        """Its page, or its section of its workload's, relative to the report's directory."""
        shared = f"workloads/{self.shared_page}.html#row-{self.name}"
        return shared if self.is_as_before else f"{home_of(self.record.run.id)}rows/{self.name}.html"

    @cached_property
    def usual(self) -> tuple[float, float] | None:
        """Its usual figure, and the noise of a job; ``None`` without runs."""
        runs, verdict = [run.judged for run in self.past.reference], self.record.judged
        noise = PRIOR if verdict is None or verdict.noise is None else verdict.noise
        return (statistics.median(runs), noise.sigma) if runs else None

    @property
    def peers_change(self) -> float | None:
        """The change of a tile against its peers; ``None`` for other rows, and if it was not compared."""
        return None if self.record.among_tiles is None else self.record.among_tiles.peers_change

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of its training or benchmark; further figures of its document are none."""
        return {name: value for name, value in self.record.row.settings.items() if name not in _FIGURES}

    @cached_property
    def drifting(self) -> Drifting | None:
        """Its drift; ``None`` if it does not drift or was not measured."""
        return self.past.drifting if points_of(self.record) else None

    @cached_property
    def needs(self) -> attention.Attention:
        """The reason for which it needs attention."""
        needs = suggested_commands.needs_of(self.record)
        passed = needs in {attention.PASSED, attention.ACCEPTED}
        return attention.DRIFT if passed and self.drifting is not None else needs

    @property
    def kind(self) -> str:
        """The same, one of :data:`KINDS`."""
        return self.needs.kind

    @cached_property
    def failures(self) -> tuple[RowOutcome, ...]:
        """The runs in which it could not be measured, the oldest first, this one among them."""
        this = RowOutcome(self.record.run.id, record_time_s(self.record), self.record.outcome)
        known = (*self.earlier, this)
        return tuple(one for one in known if outcomes.of(one.outcome).attention.in_report is attention.ERROR)

    @cached_property
    def jobs(self) -> tuple[JobFacts, ...]:
        """Its jobs in the order of their submission, those of a search among them."""
        jobs = self.record.jobs
        return tuple(sorted((*jobs.all, *jobs.search), key=submission_order))

    @property
    def is_at_document(self) -> bool | None:
        """True if it was as fast as :data:`AT_DOCUMENT` demands; ``None`` without a document."""
        documented, judged = self.record.judged_of(self.record.figures.documented), self.record.measured
        if not documented:
            return None
        is_fast = bool(judged) and self.record.judged_metric.direction.speed(judged or 0.0, documented) >= AT_DOCUMENT
        return is_fast and self.record.reason not in DOUBTS


def submission_order(job: JobFacts) -> tuple[float, ByNumber]:
    """The sort key of jobs in the order of their submission.

    Slurm's times are whole seconds; jobs of one second are in the order of their ids.
    """
    return job.known_begin_s, by_number(job.id)


def is_slow(record: Record) -> bool:
    """True if a row is slower than its tolerance allows, whatever the reason."""
    return record.by_own_metric in outcomes.SLOW and not is_implausible(record)


def is_implausible(record: Record) -> bool:
    """True if the measured figure is not plausible."""
    return record.reason in DOUBTS


def device(accelerator: str) -> str:
    """The unit of an accelerator's rows: GPU, or CPU on a machine without GPUs."""
    return "CPU" if accelerator == "CPU" else "GPU"


def page_names(node_ids: Iterable[str]) -> dict[str, str]:
    """The name of each row's page: letters, digits, ``_`` and ``-``, and different ones for different rows.

    A row's page has the same name in every run: links to it stay right. Names that differ only in case are
    one file on some file systems.
    """
    wanted = {node_id: file_name(node_id.rpartition("::")[2]) for node_id in node_ids}
    counts = Counter(name.lower() for name in wanted.values())
    names = {**wanted}
    for node_id, name in wanted.items():
        if not name or len(name) > LONGEST_NAME or counts[name.lower()] > 1:
            digest = hashlib.sha256(node_id.encode("utf-8", "replace")).hexdigest()[:12]
            names[node_id] = f"{name[:LONGEST_NAME] or 'row'}-{digest}"
    return names


def file_name(text: str) -> str:
    """The name of a file for a text: letters, digits, ``_`` and ``-``."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", text).strip("_-")


def since_line(since: Since | None) -> str:
    """The onset of a row's state: ``2026-11-18 22:04, 3 runs``; empty if no run before is known."""
    if since is None or (since.runs == 1 and since.good is None):
        return ""
    first = f"{minute(since.time_s)}{' or before' if since.good is None else ''}"
    return "this run" if since.runs == 1 else f"{first}, {since.runs} runs"


def since_facts(since: Since | None) -> tuple[tuple[str, str], ...]:
    """The onset of a row's state and the changes at that time, each with its name; nothing if unknown."""
    line = since_line(since)
    if since is None or not line:
        return ()
    return (("since", line), *((("changed", changes_text(since.changes)),) if since.changes else ()))


def since_of(row: ReportedRow) -> Since | None:
    """The onset of a row's state, ``None`` if unknown, or if it is well."""
    if row.needs is attention.ERROR:
        return _error_since(row)
    runs = row.past.runs
    if row.needs is attention.DRIFT:
        return None if row.drifting is None else row.drifting.onset
    if row.needs not in {*attention.SLOW, attention.IMPROVED} or not runs or runs[-1].run_id != row.record.run.id:
        return None  # a canary's run, or nothing that counts
    is_slow = runs[-1].outcome in outcomes.SLOW  # else by a site's metric alone
    return row.past.since if is_slow == (row.needs in attention.SLOW) else None


def _error_since(row: ReportedRow) -> Since:
    """The onset of a row's errors."""
    runs = (*row.earlier, RowOutcome(row.record.run.id, record_time_s(row.record), outcomes.ERROR.word))
    first = periods([outcome.outcome == outcomes.ERROR.word for outcome in runs])[-1].wrong[0]
    return Since(runs[first].begin_s, len(runs) - first, runs[first - 1] if first else None)


#: Outcomes that follow from the figure and the limit alone.
_BY_FIGURE = frozenset({Outcome.PASSED.value, Outcome.IMPROVED.value, Outcome.REGRESSED.value})


def current_reference(row: ReportedRow) -> tuple[float | None, str]:
    """The reference of the row's verdict, and its name."""
    figures, judged_of = row.record.figures, row.record.judged_of
    if accepted := judged_of(figures.accepted):
        return accepted, "the accepted"
    return judged_of(figures.documented), "the documented"


def reference_at(row: ReportedRow, point: Point) -> float | None:
    """The reference of a run of the row; ``None`` if its outcome does not follow from the current one."""
    held, facts = current_reference(row)[0], row.record.row
    if held is None or point.run_id == row.record.run.id or point.outcome not in _BY_FIGURE:
        return held
    outcome = compare(point.judged, held, facts.tolerance, row.record.judged_metric.direction)
    return held if outcome.value == point.outcome else None
