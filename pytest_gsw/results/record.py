"""Everything known of one run of one row: what reports, replays and history are made of."""

from __future__ import annotations

import json
import re
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from pytest_gsw.common.files import PRIVATE, make_directory, write_whole
from pytest_gsw.jobs.layout import cut_name
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.jobs.steps import kept, of_kept
from pytest_gsw.performance.verdict import MetricVerdict
from pytest_gsw.tables import metrics
from pytest_gsw.tables.metrics import Direction, Metric

#: File names may have 255 bytes, and the draft of a record has a few more than the record.
_LONGEST_NAME = 200

#: A line for each fact. To indent, json leaves its C code, and takes as long as it takes to judge the row.
_ENCODER = json.JSONEncoder(default=vars, allow_nan=False, separators=(",\n  ", ": "))

#: Version of the record's JSON; it grows when a reader of older records would misread it.
SCHEMA = 1


@dataclass(frozen=True)
class JobFacts:
    """The job behind a record. Times are seconds since the epoch."""

    id: str
    launcher: str
    #: Name of a :class:`~pytest_gsw.jobs.model.JobState`.
    state: str
    exit_code: int | None = None
    signal: int = 0
    reason: str = ""
    nodes: str = ""
    submit_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    queue_s: float | None = None
    run_s: float | None = None
    #: Why the row was run again after this job, in a few words; empty for its last.
    why_repeated: str = ""
    #: What was measured of this job by itself, seconds; ``None`` where it was not measured.
    judged_s: float | None = None
    log: str | None = None
    #: Size of the log when it was measured, by which a replay notices that it has changed.
    log_bytes: int | None = None
    #: The job's steps in short, see :func:`~pytest_gsw.jobs.steps.kept`; ``None`` where nobody told them.
    steps: tuple[str, ...] | None = None
    derived_exit_code: str = ""
    #: What could not be asked of the job's end, and why; one line.
    unchecked: str = ""
    #: Ids of further jobs behind the same submission; there must be none.
    siblings: tuple[str, ...] = ()
    #: The scheduler's own name of the cluster that had the job, where one was asked by its name.
    cluster: str = ""
    #: What was measured of the site's metrics in this job, by key.
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        job_id: str,
        launcher: str,
        status: JobStatus,
        why_repeated: str = "",
        judged_s: float | None = None,
        log: Path | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> JobFacts:
        """What a record keeps of a job's last status."""
        shared = {name: getattr(status, name) for name in _SHARED_WITH_STATUS}
        facts = {**shared, "queue_s": status.queue_s, "run_s": status.run_s, "why_repeated": why_repeated}
        place = None if log is None else str(log)
        size = log.stat().st_size if log is not None and log.is_file() else None
        steps = kept(status.steps)
        return cls(
            job_id,
            launcher,
            status.state.value,
            **facts,
            judged_s=judged_s,
            log=place,
            log_bytes=size,
            steps=None if steps is None else tuple(steps),
            metrics=metrics or {},
        )

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> JobFacts:
        """A job from JSON with the keys of this class, which has lists where this class has tuples."""
        facts: dict[str, Any] = dict(content)
        return cls(**facts | {name: tuple(value) for name, value in facts.items() if isinstance(value, list)})

    @property
    def status(self) -> JobStatus:
        """The status again, for a replay."""
        shared = {name: getattr(self, name) for name in _SHARED_WITH_STATUS}
        return JobStatus(JobState(self.state), raw_state=self.state, **shared, steps=of_kept(self.steps))


_STATES = frozenset(state.value for state in JobState)

_SHARED_WITH_STATUS = (
    *("exit_code", "signal", "reason", "nodes", "submit_s", "start_s", "end_s"),
    *("derived_exit_code", "unchecked", "siblings", "cluster"),
)


@dataclass(frozen=True)
class MetricFacts:
    """What a record keeps of one of a site's metrics: all that is shown of it where the site's plugin is not there."""

    key: str
    label: str
    unit: str
    #: Value of a :class:`~pytest_gsw.tables.metrics.Direction`.
    direction: str
    #: In the unit.
    measured: float
    documented: float
    #: How much worse (and better) it may be, as a fraction of the documented value.
    tolerance: float
    #: The outcome by this metric alone.
    outcome: str

    @classmethod
    def of(cls, verdict: MetricVerdict) -> MetricFacts:
        """What is kept of an outcome by a metric."""
        metric = verdict.metric
        numbers = (verdict.measured, verdict.documented, verdict.tolerance)
        return cls(metric.key, metric.label, metric.unit, metric.direction.value, *numbers, verdict.outcome.value)

    @property
    def change(self) -> float:
        """Measured over documented value, less one."""
        return self.measured / self.documented - 1

    @property
    def allowed_change(self) -> float:
        """The change beyond which it has regressed."""
        return self.tolerance if self.direction == Direction.LOWER_IS_BETTER.value else -self.tolerance


@dataclass(frozen=True)
class Record:
    """One run of one row.

    ``outcome`` is one of passed, improved, regressed (judged), ``inconclusive`` (judged, and what was
    measured does not tell which), ``profiled`` (measured and not judged), ``expected_failure`` (documented to
    run out of memory, and did), ``unexpected_success`` (documented to, and did not), ``error`` (not measured).
    """

    run_id: str
    row: str
    node_id: str
    #: The file and line of the row.
    baseline: str
    document: str
    document_line: int
    cluster: str
    simulated: bool
    outcome: str
    #: What happened, one line.
    fact: str
    tolerance: float
    workload: str
    framework: str
    dtype: str
    accelerator: str
    gpus: int
    #: What the document states, what follows from its step time, and what was measured, by the names of Figures.
    documented: Mapping[str, float | None]
    implied: Mapping[str, float | None] = field(default_factory=dict)
    measured: Mapping[str, float | None] = field(default_factory=dict)
    statistic: str = ""
    #: Steps read, and the series' first and last, in seconds.
    steps: int = 0
    first_s: float | None = None
    last_s: float | None = None
    #: Of the steady steps, after warm-up: median, mean and 90th percentile in seconds, the share of them that took
    #: over 1.2 times the median, how many they are, and how many steps were before them.
    median_s: float | None = None
    mean_s: float | None = None
    p90_s: float | None = None
    spike_fraction: float | None = None
    steady_steps: int = 0
    warm_up_steps: int = 0
    series_s: tuple[float, ...] = ()
    #: The row's last job.
    job: JobFacts | None = None
    #: The row's jobs before this one, which the infrastructure failed.
    attempts: tuple[JobFacts, ...] = ()
    #: The row's jobs before this one that were measured as well: the outcome rests on the median of all.
    repeats: tuple[JobFacts, ...] = ()
    #: GPU-hours that ending the job early has saved, where it was ended early and that is known.
    saved_gpu_hours: float | None = None
    log: str | None = None
    #: Size of the log when it was judged, by which a replay notices that it has changed.
    log_bytes: int | None = None
    #: Why the figures cannot be compared, where they cannot.
    not_comparable: str | None = None
    #: FLOP/s that a matrix product reached on one GPU or core in the (last) job, where the MFU is of that and not of
    #: the accelerator's peak.
    calibration_flops: float | None = None
    #: What the outcome rests on: ``documented``, or ``accepted``, the cluster's own figure beside it.
    reference: str = "documented"
    #: The accepted figure and what follows from it, by the names of Figures; empty where nothing rests on it.
    accepted: Mapping[str, float | None] = field(default_factory=dict)
    #: Whose the accepted figure is and what it is made of, or why it does not count; one line.
    accepted_note: str | None = None
    #: Hash of what must be the same for results to be compared; empty in records of releases that had none.
    definition: str = ""
    #: The container image that was run, as far as log, environment or table tell it, and which of the three did.
    image: str | None = None
    image_from: str = ""
    #: What the outcome rests on, see :data:`~pytest_gsw.tables.model.JudgedMetric`; empty in records of releases
    #: that did not say it.
    metric: str = ""
    #: Why the outcome is what it is, see :class:`~pytest_gsw.performance.verdict.Reason`.
    reason: str = ""
    #: Loss of throughput beyond which it was a regression, a fraction: the tolerance, or more where noise alone goes
    #: beyond that; of an improvement the gain.
    limit: float | None = None
    #: Gain of throughput beyond which nothing was believed, a fraction.
    max_gain: float | None = None
    #: Standard deviation of the step time between jobs, a fraction, and how many jobs of the history tell it;
    #: 0 where it is the one that is assumed without a history.
    sigma: float | None = None
    sigma_jobs: int = 0
    #: How many jobs the row was to have in any case, and at most after these; see ``--gsw-repeat``, ``--gsw-confirm``.
    first_jobs: int = 1
    confirm_jobs: int = 0
    #: The row says whether the cluster is in its usual state, and not how fast a workload is.
    canary: bool = False
    #: That newest runs differ from the accepted ones although none has failed; one line.
    drift: str | None = None
    #: What the job ran with, as far as its log and its scheduler tell: ``driver``, ``nccl``, ``slurm`` and the like.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: What the log stated as the row does, by name: ``{"sequence length": "8192"}``; empty where it stated nothing, or
    #: was not measured.
    compared: Mapping[str, str] = field(default_factory=dict)
    #: When the record was written, seconds since the epoch.
    recorded_s: float | None = None
    #: The site's metrics that the row documents; the outcome is the worst of theirs and its own.
    metrics: tuple[MetricFacts, ...] = ()
    #: The outcome by the row's own metric, where one of those is worse.
    own_outcome: str = ""
    schema: int = SCHEMA


def new_run_id() -> str:
    """An id for a run that begins now: day, time, and six hexadecimal digits that no other run has.

    The first three count within the second, so that runs of one machine are by name in the order in which they began.
    """
    now_s = time.time()
    begun = time.strftime("%Y%m%d-%H%M%S", time.localtime(now_s))
    return f"{begun}-{int(now_s % 1 * 0x1000):03x}{uuid.uuid4().hex[:3]}"


def attempt_text(attempt: JobFacts) -> str:
    """An attempt that was not the row's last, in one line: ``481220 NODE_FAIL on pool0-0017: node failure``."""
    where = f" on {attempt.nodes}" if attempt.nodes else ""
    return f"{attempt.id} {attempt.state}{where}: {attempt.why_repeated}"


def repeat_text(job: JobFacts) -> str:
    """A measured job of several in one line: ``481220 5.12 s on pool0-0017``."""
    where = f" on {job.nodes}" if job.nodes else ""
    took = "not measured" if job.judged_s is None else f"{job.judged_s:.4g} s"
    return f"{job.id} {took}{where}"


def compared_text(record: Record) -> str:
    """What the log stated as the row does, in one line: ``GPUs 64, sequence length 8192``."""
    return ", ".join(f"{name} {value}" for name, value in record.compared.items())


def measured_jobs(record: Record) -> tuple[JobFacts, ...]:
    """The jobs whose median is the record's figure, in the order in which they ran, each with its ``judged_s``.

    Empty where nothing was measured, or where nobody knows which job it was.
    """
    judged_s = record.measured.get(judged_key(record))
    if record.job is None or judged_s is None:
        return ()
    last = record.job if record.job.judged_s is not None else replace(record.job, judged_s=judged_s)
    return (*record.repeats, last)


def used_gpu_hours(record: Record) -> float:
    """GPU-hours that the row's jobs ran for, as far as that is known."""
    jobs = (*record.attempts, *record.repeats, *((record.job,) if record.job else ()))
    return record.gpus * sum(job.run_s or 0.0 for job in jobs) / 3600


def write_record(directory: Path, record: Record) -> Path:
    """Write one record as JSON, whole or not at all.

    Args:
        directory: The run's directory; the record goes to ``records/`` in it.
        record: What to write.
    """
    folder = directory / "records"
    make_directory(folder, private=True)
    path = folder / record_name(record.node_id)
    write_whole(path, f"{{\n  {_ENCODER.encode(vars(record))[1:-1]}\n}}\n", PRIVATE)
    return path


def record_name(node_id: str) -> str:
    """The name of a row's file among the records of a run."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", node_id).strip("_")
    return f"{cut_name(name, _LONGEST_NAME, node_id)}.json"


def judged_key(record: Record) -> str:
    """The name of the figure that the outcome rests on."""
    return judged_metric(record).key


def judged_metric(record: Record) -> Metric:
    """What the outcome rests on; of a later release it may be something that this one does not know."""
    if record.metric:
        known = metrics.JUDGED.get(record.metric)
        return known or replace(metrics.STEP_TIME, key=f"{record.metric}_s", label=f"{record.metric}_s", behind="s")
    known_figures = record.measured or record.documented
    return metrics.SAVE_TIME if known_figures.get(metrics.SAVE_TIME.key) else metrics.STEP_TIME


def judged_name(record: Record) -> str:
    """What people call the figure that the outcome rests on."""
    return judged_metric(record).label


def read_record(path: Path) -> Record:
    """Read one record.

    Raises:
        ValueError: The file is no record that this version can read.
    """
    try:
        content: Any = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not JSON, or not even text
        raise ValueError(f"{path} is no record: {error}") from error
    version = content.get("schema") if isinstance(content, dict) else None
    if version is None:
        raise ValueError(f"{path} is no record: it has no 'schema'")
    if version != SCHEMA:
        raise ValueError(f"{path} is a record of version {version}, this pytest-gsw reads version {SCHEMA}")
    try:
        _check_keys(Record, content)
        job = content.pop("job", None)
        job_facts = None if job is None else _job_facts(job, "job.")
        attempts = tuple(_job_facts(one, "attempts.") for one in content.pop("attempts", ()))
        repeats = tuple(_job_facts(one, "repeats.") for one in content.pop("repeats", ()))
        series = tuple(content.pop("series_s", ()))
        site = tuple(_metric_facts(one) for one in content.pop("metrics", ()))
        return Record(**content, series_s=series, job=job_facts, attempts=attempts, repeats=repeats, metrics=site)
    except ValueError as error:
        raise ValueError(f"{path} is no record: {error}") from None


def _check_keys(kind: type, content: Mapping[str, Any], prefix: str = "") -> None:
    """Make sure that JSON has the keys of a dataclass, with values of their types.

    Raises:
        ValueError: It has not; the message names the first key.
    """
    required = _required(kind)
    for key in content:
        if key not in required:
            raise ValueError(f"it has an unknown key '{prefix}{key}'")
    for name, (is_required, is_right) in required.items():
        if name not in content:
            if is_required:
                raise ValueError(f"it has no '{prefix}{name}'")
        elif not is_right(content[name]):
            raise ValueError(f"'{prefix}{name}' is {_shown(content[name])}")


@cache
def _required(kind: type) -> Mapping[str, tuple[bool, Callable[[Any], bool]]]:
    """By the name of each field of a dataclass: whether JSON must have it, and whether a value of JSON is one."""
    hints = get_type_hints(kind)
    return {
        known.name: (known.default is MISSING and known.default_factory is MISSING, _check_of(hints[known.name]))
        for known in fields(kind)
    }


def _metric_facts(content: Mapping[str, Any]) -> MetricFacts:
    _check_keys(MetricFacts, content, "metrics.")
    facts = MetricFacts(**content)
    if re.fullmatch(metrics.METRIC_KEY, facts.key) is None:
        raise ValueError(f"'metrics.key' is {_shown(facts.key)}, which is no key of a metric")
    for name in ("measured", "documented", "tolerance"):
        if content[name] <= 0:
            raise ValueError(f"'metrics.{name}' is {_shown(content[name])}, wanted a number above 0")
    return facts


def _job_facts(content: Mapping[str, Any], prefix: str) -> JobFacts:
    _check_keys(JobFacts, content, prefix)
    state = content["state"]
    if state not in _STATES:
        raise ValueError(f"'{prefix}state' is {_shown(state)}, which is no state of a job")
    return JobFacts.of_json(content)


def _check_of(hint: Any) -> Callable[[Any], bool]:
    """Tells whether a value of JSON is what a field of a record holds; made once for each field, asked for each row."""
    arguments, origin = get_args(hint), get_origin(hint) or hint
    if origin is UnionType:
        checks = tuple(map(_check_of, arguments))
        return lambda value: any(check(value) for check in checks)
    if origin is Mapping:
        is_value = _check_of(arguments[1])
        return lambda value: isinstance(value, dict) and all(map(is_value, value.values()))
    if origin is tuple:
        is_entry = _check_of(arguments[0])
        return lambda value: isinstance(value, list) and all(map(is_entry, value))
    if origin in {JobFacts, MetricFacts}:
        return lambda value: isinstance(value, dict)
    if origin is float:
        return _is_number
    # JSON has no subclasses, and of Python's types bool alone is one of another's.
    return lambda value: type(value) is origin


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def read_records(directory: Path) -> tuple[Record, ...]:
    """All records of one run's directory, in the order of their names.

    Raises:
        ValueError: One of the files is no record, or two are of the same row.
    """
    found: dict[str, tuple[Path, Record]] = {}
    for path in sorted((directory / "records").glob("*.json")):
        record = read_record(path)
        if record.row in found:
            raise ValueError(f"{found[record.row][0]} and {path} are both records of {record.row}")
        found[record.row] = (path, record)
    return tuple(record for _, record in found.values())
