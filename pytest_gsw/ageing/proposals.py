"""From the records of runs to figures that a cluster may accept, each with what it is made of.

One job is one point: the steps of one run say nothing of the next one. Only runs that were measured,
that may be compared, and whose row still is what it was then are points; whatever is left out is left
out with a reason.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from pytest_gsw.common.redact import MASK
from pytest_gsw.common.words import counted, enumerated
from pytest_gsw.errors import FileError
from pytest_gsw.jobs.model import JobState
from pytest_gsw.performance.noise import ACCEPTED_JOBS
from pytest_gsw.performance.verdict import Reason
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import NO_CLUSTER, Record, ran_with
from pytest_gsw.tables.definition import definition_hash
from pytest_gsw.tables.fields import LARGEST, SMALLEST
from pytest_gsw.tables.images import image_name
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Accepted, Baseline

#: A row whose jobs spread by 3 % fails a tolerance of 5 % one night in twenty though nothing has changed.
MAX_SPREAD = 0.03

_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_JOB_ID = re.compile(r"[A-Za-z0-9._:/-]{1,100}")


@dataclass(frozen=True)
class Rules:
    """What is asked of the jobs behind a figure."""

    min_jobs: int = ACCEPTED_JOBS
    #: Largest standard deviation of the jobs over their median, as a fraction.
    max_spread: float = MAX_SPREAD
    #: Runs whose gain was too good to be true count up to this gain, as a fraction; ``None``: none of them does.
    max_gain: float | None = None
    #: It is the documented figure that is to change, not the accepted one.
    documented: bool = False


@dataclass(frozen=True)
class Proposal:
    """A figure that a cluster may accept for a row."""

    #: The row as its table has it now.
    row: Baseline
    accepted: Accepted
    fastest_s: float
    slowest_s: float

    @property
    def documented_s(self) -> float:
        """The documented seconds, which stay."""
        assert self.row.judged_s is not None  # a row without them is no point
        return self.row.judged_s


@dataclass(frozen=True, order=True)
class LeftOut:
    """Runs that are no points, or points that give no figure, and why."""

    #: A row's id, or what else it is about.
    what: str
    #: The cluster, "" where it is about none.
    cluster: str
    why: str
    #: How many runs it is about; 0 where it is about the row as a whole.
    runs: int = 0

    def __str__(self) -> str:
        where = f" on {self.cluster}" if self.cluster else ""
        runs = f" ({counted(self.runs, 'run')})" if self.runs else ""
        return f"{self.what}{where}: {self.why}{runs}"


@dataclass(frozen=True)
class Proposals:
    """What can be proposed, and what cannot and why."""

    proposed: tuple[Proposal, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class Tables:
    """The tables that records are of, read once each; records name a table as pytest's node ids do."""

    def __init__(self, find: Callable[[str], Path | None]) -> None:
        self._find = find
        self._known: dict[str, Mapping[str, Baseline] | str] = {}

    def row(self, record: Record) -> Baseline | str:
        """The row of a record as its table has it now, or why there is none."""
        name, _, _ = record.row.baseline.rpartition(":")
        if name not in self._known:
            self._known[name] = self._read(name)
        rows = self._known[name]
        if isinstance(rows, str):
            return rows
        return rows.get(record.row.id) or f"{name} has no such row any more"

    def _read(self, name: str) -> Mapping[str, Baseline] | str:
        path = self._find(name)
        if path is None:
            return f"there is no table {name} here; go to where it is, or name it with --baselines=PATH"
        try:
            return {row.id: row for row in load_table(path)}
        except FileError as error:
            return f"{error.path} is wrong: {error.faults[0]}"


#: A job as its records tell it from others: ids alone may come back, after years or in another database.
_Job = tuple[str, float | None]
#: A row of one table: two tables may have rows of the same id.
_Row = tuple[Path, str]


@dataclass(frozen=True)
class _Point:
    """One job of one row."""

    row: Baseline
    record: Record


def propose(records: Iterable[Record], tables: Tables, rules: Rules | None = None) -> Proposals:
    """What these runs, of any rows and clusters, let their clusters accept; records of one job count once."""
    points: dict[_Row, dict[_Job, _Point]] = {}
    refused: Counter[tuple[str, str, str]] = Counter()
    # A job is its first record's: a replay, on whatever cluster, records it again.
    for record in sorted(records, key=lambda record: record.run.id):
        row = _row_of_point(record, tables, rules or Rules())
        if isinstance(row, str):
            refused[record.row.id, record.run.cluster, row] += 1
            continue
        jobs = points.setdefault((row.location.path, row.id), {})
        for one in _of_each_job(record):
            first = jobs.setdefault(_job(one), _Point(row, one))
            if first.record.run.cluster != one.run.cluster:
                why = f"is of a job that was recorded on {first.record.run.cluster} before"
                refused[one.row.id, one.run.cluster, why] += 1
    proposed: list[Proposal] = []
    left_out = [LeftOut(*key, runs) for key, runs in refused.items()]
    for of_cluster in _by_cluster(points.values()):
        row, of_row, others = _newest_definition(of_cluster)
        cluster = of_row[-1].run.cluster
        if others:
            image = of_row[-1].run.image or "an image that is not known"
            left_out.append(LeftOut(row.id, cluster, f"ran another image than the newest run, {image}", len(others)))
        found = _figure(row, of_row, rules or Rules())
        if isinstance(found, str):
            left_out.append(LeftOut(row.id, cluster, found))
        else:
            proposed.append(found)
    proposed.sort(key=lambda one: (one.row.location.path, one.row.location.line, one.accepted.cluster))
    return Proposals(tuple(proposed), tuple(left_out))


def _of_each_job(record: Record) -> Iterator[Record]:
    """A record for each of the jobs whose median a record's figure is, as if each had been the only one."""
    judged = record.judged_metric.key
    for job in record.measured_jobs:
        measured = {**record.figures.measured, judged: job.judged_s}
        alone = replace(record.jobs, last=job, repeats=())
        yield replace(record, jobs=alone, figures=replace(record.figures, measured=measured))


def _job(record: Record) -> _Job:
    assert record.jobs.last is not None  # else it is no point
    return record.jobs.last.id, _ended_s(record)


def _by_cluster(rows: Iterable[Mapping[_Job, _Point]]) -> Iterable[list[_Point]]:
    for of_row in rows:
        of_clusters: dict[str, list[_Point]] = {}
        for point in of_row.values():
            of_clusters.setdefault(point.record.run.cluster, []).append(point)
        yield from of_clusters.values()


def _row_of_point(record: Record, tables: Tables, rules: Rules) -> Baseline | str:
    """The row of a record that is a point, or why it is none."""
    why = _not_a_point(record, rules)
    if why is not None:
        return why
    row = tables.row(record)
    if isinstance(row, str):
        return row
    documented_s = record.figures.documented.get(record.judged_metric.key)
    if row.judged_s is None or documented_s is None or not math.isclose(row.judged_s, documented_s, rel_tol=1e-9):
        was, now = (f"{value:g} s" if value else "none" for value in (documented_s, row.judged_s))
        return f"the documented figure has changed since, from {was} to {now}"
    definition = definition_hash(row, record.run.image)
    if definition != record.row.definition and MASK in (record.run.image or ""):
        return "has an image that is hidden as a secret, so that nothing can be compared with it"
    if definition != record.row.definition:
        return f"the row's definition has changed since, from {record.row.definition} to {definition}"
    named = row.recipe.image
    if named is not None and record.run.image_from in {"", "table"} and image_name(named) != record.run.image:
        return f"ran the image {record.run.image}, and the table names {image_name(named)} now"
    return row


def _not_a_point(record: Record, rules: Rules) -> str | None:
    """Why a record says nothing of how fast a row is on a cluster."""
    measured_s = record.judged_s
    reasons = {
        "is simulated, and its figures are made up": record.run.simulated,
        "is of a run in which a canary was too slow": record.reason == Reason.CANARY.value,
        "is of a job whose ranks differ": record.reason == Reason.RANKS_DIFFER.value,
        "is of a job whose steady steps are slower than its figure": record.reason == Reason.STEPS_SLOWER.value,
        "is of a job whose last step is unlike its others": record.reason == Reason.LAST_STEP.value,
        "is too good to be true; --max-gain=PERCENT counts such runs, once it is clear why they are so fast": (
            record.reason == Reason.TOO_GOOD.value and _gain(record) > (rules.max_gain or 0.0)
        ),
        f"is not comparable, because of {record.not_comparable}": record.not_comparable is not None,
        f"was not measured and judged, but ended as '{record.outcome}'": record.outcome not in outcomes.JUDGED,
        "was replayed without its cluster; add --gsw-cluster=NAME to the replay": record.run.cluster == NO_CLUSTER,
        "is of a log alone, and nobody knows how its job ended": record.jobs.last is None
        or record.jobs.last.state != JobState.COMPLETED.value
        or _JOB_ID.fullmatch(record.jobs.last.id) is None,
        "has no figure": measured_s is None or not 0 < measured_s < math.inf,
        f"has no figure that a table takes, from {SMALLEST:g} to {LARGEST:g} s": measured_s is not None
        and not SMALLEST <= measured_s <= LARGEST,
        "has a job that ended on no day": _ended_s(record) is not None and _day(_ended_s(record)) is None,
        "was recorded by a release of pytest-gsw that knew no definitions": not record.row.definition,
        "has a cluster whose name no table takes": _CLUSTER.fullmatch(record.run.cluster) is None,
        "has an image whose name no table takes": not (record.run.image or "-").isprintable(),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _gain(record: Record) -> float:
    verdict = record.judged
    return math.inf if verdict is None else verdict.greatest_gain


def _newest_definition(points: Iterable[_Point]) -> tuple[Baseline, list[Record], list[Record]]:
    """Of one row's points those of the newest run's definition, in the order of time, and the others.

    All fit the row as it is now, so that they differ in nothing but the image.
    """
    ordered = sorted(points, key=lambda point: (_ended_s(point.record) or 0.0, point.record.run.id))
    newest = ordered[-1]
    same = [point.record for point in ordered if point.record.row.definition == newest.record.row.definition]
    others = [point.record for point in ordered if point.record.row.definition != newest.record.row.definition]
    return newest.row, same, others


def _figure(row: Baseline, records: Sequence[Record], rules: Rules) -> Proposal | str:
    """The figure of one row's points, or why they give none."""
    seconds = [record.judged_s for record in records]
    values = [value for value in seconds if value is not None]
    jobs = len(values)
    if jobs < rules.min_jobs:
        return f"{counted(jobs, 'job')}, at least {rules.min_jobs} needed (--min-jobs)"
    median_s, spread = statistics.median(values), relative_spread(values)
    if spread > rules.max_spread:
        limits = f"{min(values):.4g} to {max(values):.4g} s"
        allowed = f"at most {rules.max_spread * 100:g} % allowed (--max-spread)"
        spread_text = f"{_above(spread, rules.max_spread)} % ({limits}), {allowed}"
        return f"the spread of {counted(jobs, 'job')} is {spread_text}{_ran_differently(records)}"
    date = _date(records[-1])
    if date is None:
        return "no record says when its job ended"
    accepted = Accepted(
        cluster=records[-1].run.cluster,
        # What is written is what is judged by, to the last digit.
        judged_s=float(f"{median_s:.6g}"),
        jobs=jobs,
        spread=round(spread, 4),
        job_ids=", ".join(record.jobs.last.id for record in records if record.jobs.last is not None),
        date=date,
        definition=records[-1].row.definition,
        image=records[-1].run.image,
    )
    old = row.accepted.get(accepted.cluster)
    if old == accepted and not rules.documented:
        return f"the figure of {counted(jobs, 'job')} is accepted already"
    if old is not None and date < old.date:
        return f"the newest of {counted(jobs, 'job')} ended on {date}, and the accepted figure is of {old.date}"
    return Proposal(row, accepted, min(values), max(values))


def _ran_differently(records: Sequence[Record]) -> str:
    """In what the jobs of a spread too large differ; two states of a cluster have no figure in common."""
    facts = ran_with(*(record.run for record in records))
    names = sorted({name for of_job in facts for name in of_job})
    differ = [name for name in names if len({of_job[name] for of_job in facts if of_job.get(name)}) > 1]
    return f"; they ran with different {enumerated(differ)}: name the runs since the last change" if differ else ""


def _above(fraction: float, limit: float) -> str:
    """A fraction above a limit, in percent with the digits that tell the two apart."""
    texts = (f"{fraction * 100:.{digits}f}" for digits in range(1, 15))
    return next((text for text in texts if float(text) > limit * 100), f"{fraction * 100}")


def relative_spread(values: Sequence[float]) -> float:
    """Standard deviation over the median; 0 for a single value.

    Not a robust measure on purpose: where two jobs of five are 10 % slower than the other three, the median
    absolute deviation is 0, and that cluster is not quiet. Nor the range, which grows with the number of jobs.
    """
    return statistics.stdev(values) / statistics.median(values) if len(values) > 1 else 0.0


def _ended_s(record: Record) -> float | None:
    return None if record.jobs.last is None else record.jobs.last.known_end_s


def _date(record: Record) -> str | None:
    """The day (UTC) on which a record's job ended; of a job without times, that of its session."""
    ended_s = _ended_s(record)
    if ended_s is not None:
        return _day(ended_s)
    match = re.match(r"(\d{4})(\d\d)(\d\d)-", record.run.id)
    return "-".join(match.groups()) if match else None


def _day(seconds: float | None) -> str | None:
    """The day (UTC) of a time since the epoch, ``None`` where the calendar has none."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc).date().isoformat()
    except (OverflowError, ValueError, OSError):  # by how far off it is
        return None
