"""Everything known of one run of one row: what reports, replays and history are made of."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_gsw.common.files import PRIVATE, make_directory, write_whole
from pytest_gsw.common.words import by_number
from pytest_gsw.jobs.layout import cut_name
from pytest_gsw.performance.verdict import MetricVerdict, Outcome, Verdict
from pytest_gsw.results import outcomes
from pytest_gsw.results.facts import Conclusion, FigureFacts, JobFacts, Jobs, RowFacts, RunFacts, Timing
from pytest_gsw.results.json_shape import check_known, read, shapes, shown
from pytest_gsw.tables import metrics
from pytest_gsw.tables.metrics import Direction, Metric


@dataclass(frozen=True)
class MetricFacts:
    """What JSON keeps of one of a site's metrics: all that is shown of it where the site's plugin is not there."""

    key: str
    label: str
    unit: str
    direction: Direction
    #: In the unit.
    measured: float
    documented: float
    #: How much worse (and better) it may be, as a fraction of the documented value.
    tolerance: float
    #: The outcome by this metric alone.
    outcome: Outcome

    @classmethod
    def of(cls, verdict: MetricVerdict) -> MetricFacts:
        """What is kept of an outcome by a metric."""
        metric = verdict.metric
        numbers = (verdict.measured, verdict.documented, verdict.tolerance)
        return cls(metric.key, metric.label, metric.unit, metric.direction, *numbers, verdict.outcome)

    @property
    def verdict(self) -> MetricVerdict:
        """The outcome by the metric, but for what its plugin does."""
        metric = Metric(self.key, self.unit, self.direction, self.label)
        return MetricVerdict(metric, self.outcome, self.measured, self.documented, self.tolerance)

    def check(self, prefix: str) -> None:
        """Raise a ValueError where it is of no metric."""
        if re.fullmatch(metrics.METRIC_KEY, self.key) is None:
            raise ValueError(f"'{prefix}key' is {shown(self.key)}, which is no key of a metric")
        for name, value in (
            ("measured", self.measured),
            ("documented", self.documented),
            ("tolerance", self.tolerance),
        ):
            if value <= 0:
                raise ValueError(f"'{prefix}{name}' is {shown(value)}, wanted a number above 0")


@dataclass(frozen=True)
class _Decided:
    """The keys of a record that its verdict has."""

    verdict: Verdict | None
    #: The site's metrics that the row documents; the outcome is the worst of theirs and its own.
    metrics: tuple[MetricFacts, ...] = ()


#: The keys.
_OF_VERDICT = frozenset(shapes(_Decided))


def _verdict_json(verdict: Verdict | None) -> dict[str, Any]:
    """A verdict as JSON has it: the site's metrics, which it has beside it, by what is shown of them."""
    if verdict is None:
        return {"verdict": None, "metrics": []}
    whole = {name: getattr(verdict, name) for name in shapes(Verdict) if name != "metrics"}
    return {"verdict": whole, "metrics": [MetricFacts.of(one) for one in verdict.metrics]}


def _verdict_of(content: Mapping[str, Any]) -> Verdict | None:
    """The verdict of a record; a ValueError where it is none, or has a number that none has."""
    decided = read(_Decided, content)
    if decided.verdict is None:
        return None
    return replace(decided.verdict, metrics=tuple(one.verdict for one in decided.metrics))


#: File names may have 255 bytes, and the draft of a record has a few more than the record.
_LONGEST_NAME = 200
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")

#: Version of the record's JSON.
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Record(Conclusion):
    """One run of one row.

    ``outcome`` is one of passed, improved, regressed (judged), ``inconclusive`` (judged, and what was
    measured does not tell which), ``profiled`` (measured and not judged), ``expected_failure`` (documented to
    run out of memory, and did), ``unexpected_success`` (documented to, and did not), ``error`` (not measured).
    """

    row: RowFacts
    run: RunFacts
    figures: FigureFacts
    jobs: Jobs = field(default_factory=Jobs)
    timing: Timing = field(default_factory=Timing)
    #: What the rule decided, also where the outcome is another: the run was profiled, or its record could not be told.
    verdict: Verdict | None = None

    @cached_property
    def text(self) -> str:
        """The record as JSON on one line, in ASCII; the live file, the spool and the history take the same."""
        return _COMPACT.encode(content(self))

    @property
    def judged(self) -> Verdict | None:
        """The verdict that the outcome is of, ``None`` where it is of none."""
        return self.verdict if self.outcome in outcomes.JUDGED else None

    @property
    def throughput_change(self) -> float | None:
        """Measured throughput over what the outcome rests on, less one; ``None`` where nothing was judged."""
        return None if self.judged is None else self.judged.throughput_change

    @property
    def metrics(self) -> tuple[MetricVerdict, ...]:
        """The outcomes by the site's metrics that the row documents."""
        return () if self.verdict is None else self.verdict.metrics

    @property
    def comparable(self) -> Verdict | None:
        """The verdict of figures that can be compared."""
        return self.verdict if self.not_comparable is None else None

    @property
    def reason(self) -> str:
        """A :class:`~pytest_gsw.performance.verdict.Reason` of the outcome; empty where none was given."""
        verdict = self.comparable
        return verdict.given_reason.value if verdict is not None and verdict.given_reason is not None else ""

    @property
    def limit(self) -> float | None:
        """The loss (or gain) of throughput beyond which it was a regression (an improvement), where that is known."""
        verdict = self.comparable
        if verdict is None or verdict.limit is not None or verdict.given_reason is not None:
            return None if verdict is None else verdict.allowed
        return None

    @property
    def own_outcome(self) -> str:
        """The outcome by the row's own metric, where one of the site's is worse; else empty."""
        verdict = self.comparable
        return verdict.own_outcome.value if verdict is not None and verdict.own_outcome is not None else ""

    @property
    def by_own_metric(self) -> str:
        """The outcome by the row's own metric."""
        return self.own_outcome or self.outcome

    @property
    def status(self) -> int:
        """The exit status of a session with this row: a job that newer ones stand behind shows nothing of these."""
        return outcomes.exit_status((outcomes.of(self.outcome).status, outcomes.OPEN if self.passed_over else 0))

    @property
    def reference(self) -> str:
        """What the outcome rests on: ``documented``, or ``accepted``, the cluster's own figure beside it."""
        return "accepted" if self.figures.accepted else "documented"

    @property
    def judged_metric(self) -> Metric:
        """What the outcome rests on."""
        return metrics.JUDGED[self.row.metric]

    @property
    def judged_s(self) -> float | None:
        """The seconds that were measured of it."""
        return self.figures.measured.get(self.judged_metric.key)

    @property
    def measured_jobs(self) -> tuple[JobFacts, ...]:
        """The jobs whose median is the record's figure, see :meth:`~pytest_gsw.results.facts.Jobs.measured`."""
        return self.jobs.measured(self.judged_s)

    @property
    def told_jobs(self) -> tuple[JobFacts, ...]:
        """The jobs that the outcome is of: those whose median the figure is, or the one that came to nothing."""
        return self.measured_jobs or (() if self.jobs.last is None else (self.jobs.last,))

    @property
    def nodes(self) -> str:
        """Where these ran: the lists of their nodes, each once."""
        return ", ".join(dict.fromkeys(job.nodes for job in self.told_jobs if job.nodes))


def used_gpu_hours(record: Record) -> float:
    """GPU-hours that the row's jobs ran for, as far as that is known."""
    return record.row.gpus * sum(job.run_s or 0.0 for job in record.jobs.all) / 3600


# -- JSON ------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """What JSON has of an object that it does not know."""
    return value.value if isinstance(value, enum.Enum) else vars(value)


#: A line for each fact. To indent, json leaves its C code, and takes as long as it takes to judge the row.
_LINES = json.JSONEncoder(default=plain, allow_nan=False, separators=(",\n  ", ": "))
_COMPACT = json.JSONEncoder(default=plain, allow_nan=False, separators=(",", ":"))

#: Keys of JSON that are not the name of their field.
_ROW, _RUN, _JOBS = {"id": "row"}, {"id": "run_id"}, {"last": "job"}


def _names(kind: type, names: Mapping[str, str]) -> frozenset[str]:
    return frozenset(names.get(name, name) for name in shapes(kind))


def content(record: Record) -> dict[str, Any]:
    """A record as JSON has it: its parts' keys beside each other, and the verdict as a whole."""
    row, run, jobs = record.row, record.run, record.jobs
    found = {
        "run_id": run.id,
        "row": row.id,
        **vars(row),
        **vars(run),
        **vars(record.figures),
        **vars(record.timing),
        **vars(jobs),
        "job": jobs.last,
        **{name: getattr(record, name) for name in shapes(Conclusion)},
        **_verdict_json(record.verdict),
        "schema": SCHEMA,
    }
    del found["id"], found["last"]
    return found


def of_content(content: Any) -> Record:
    """A record of JSON; a ValueError where it is none."""
    check_known(content, _KEYS)
    run, row, jobs = read(RunFacts, content, **_RUN), read(RowFacts, content, **_ROW), read(Jobs, content, **_JOBS)
    figures, timing = read(FigureFacts, content), read(Timing, content)
    own, verdict = read(Conclusion, content), _verdict_of(content)
    for name, word, known in (("outcome", own.outcome, outcomes.BY_WORD), ("metric", row.metric, metrics.JUDGED)):
        if word not in known:
            raise ValueError(f"'{name}' is {shown(word)}")
    if own.outcome in outcomes.JUDGED:
        if verdict is None:
            raise ValueError(f"'outcome' is {shown(own.outcome)}, and it has no verdict")
        if own.outcome != verdict.outcome.value:
            raise ValueError(f"'outcome' is {shown(own.outcome)}, and that of its verdict \"{verdict.outcome.value}\"")
    return Record(row=row, run=run, jobs=jobs, figures=figures, timing=timing, verdict=verdict, **vars(own))


#: The keys that a record has.
_KEYS = frozenset({"schema"}).union(
    _OF_VERDICT,
    *(_names(kind, {}) for kind in (FigureFacts, Timing, Conclusion)),
    *(_names(kind, names) for kind, names in ((RowFacts, _ROW), (RunFacts, _RUN), (Jobs, _JOBS))),
)


# -- files -----------------------------------------------------------------------------------------


def write_record(directory: Path, record: Record) -> Path:
    """Write one record as JSON to ``records/`` in the run's directory, whole or not at all."""
    folder = directory / "records"
    make_directory(folder, private=True)
    path = folder / record_name(record.row.node_id)
    write_whole(path, f"{{\n  {_LINES.encode(content(record))[1:-1]}\n}}\n", PRIVATE)
    return path


def record_name(node_id: str) -> str:
    """The name of a row's file among the records of a run."""
    name = _NOT_IN_NAMES.sub("_", node_id).strip("_")
    return f"{cut_name(name, _LONGEST_NAME, node_id)}.json"


def read_record(path: Path) -> Record:
    """Read one record; a ValueError where the file is none that this version can read."""
    try:
        found: Any = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not JSON, or not even text
        raise ValueError(f"{path} is no record: {error}") from error
    version = found.get("schema") if isinstance(found, dict) else None
    if version is None:
        raise ValueError(f"{path} is no record: it has no 'schema'")
    if problem := version_problem(version):
        raise ValueError(f"{path} is a record {problem}")
    try:
        return of_content(found)
    except ValueError as error:
        raise ValueError(f"{path} is no record: {error}") from None


def version_problem(version: object) -> str:
    """Why this release does not read records of a version; empty where it does."""
    return "" if version == SCHEMA else f"of version {version}, this pytest-gsw reads version {SCHEMA}"


def record_files(directory: Path) -> list[Path]:
    """The files of a run's records, in the order of their rows' names."""
    return sorted((directory / "records").glob("*.json"), key=lambda path: by_number(path.stem))


def read_records(directory: Path) -> tuple[Record, ...]:
    """All records of a run's directory, by their names; a ValueError where one is none, or two are of one row."""
    found: dict[str, tuple[Path, Record]] = {}
    for path in record_files(directory):
        record = read_record(path)
        if record.row.id in found:
            raise ValueError(f"{found[record.row.id][0]} and {path} are both records of {record.row.id}")
        found[record.row.id] = (path, record)
    return tuple(record for _, record in found.values())
