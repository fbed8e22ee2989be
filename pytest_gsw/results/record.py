"""Everything known of one run of one row, in parts and as JSON: what reports, replays and history are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from pytest_gsw.clusters.model import clusters_option
from pytest_gsw.common.files import PRIVATE, make_directory, write_whole
from pytest_gsw.common.text import by_number
from pytest_gsw.common.typed_json import check_known, plain, read, shapes, shown
from pytest_gsw.jobs.job_steps import limited_steps
from pytest_gsw.jobs.layout import cut_name
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.results import outcomes
from pytest_gsw.stats.verdict import MetricVerdict, Verdict
from pytest_gsw.tables import metrics
from pytest_gsw.tables.metrics import Metric

#: The cluster of logs that were replayed without one.
NO_CLUSTER = "replay"


@dataclass(frozen=True, kw_only=True)
class JobFacts(JobStatus):
    """A job of a record: its last status, and what was measured of it."""

    id: str
    launcher: str
    #: Why the row was run again after this job, in a few words; empty for its last.
    why_repeated: str = ""
    #: What was measured of this job by itself, seconds; ``None`` if it was not measured.
    judged_s: float | None = None
    log: str | None = None
    #: Size of the log when it was measured, by which a replay notices that it has changed.
    log_bytes: int | None = None
    #: What was measured of the site's metrics in this job, by key.
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, job_id: str, launcher: str, status: JobStatus, log: Path | None = None, **measured: Any) -> JobFacts:
        """A job by its last status; ``measured`` are further fields."""
        facts = {**vars(status), "steps": limited_steps(status.steps), **measured}
        size = log.stat().st_size if log is not None and log.is_file() else None
        return cls(**facts, id=job_id, launcher=launcher, log=None if log is None else str(log), log_bytes=size)

    @property
    def known_end_s(self) -> float | None:
        """When it ended, or the nearest time to that which is known."""
        return self.end_s or self.start_s or self.submit_s


@dataclass(frozen=True)
class ResultText:
    """What came of a row, by a word of :mod:`~pytest_gsw.results.outcomes` and in texts of one line each."""

    outcome: str
    #: What happened.
    fact: str
    #: Why the figures cannot be compared, where they cannot.
    not_comparable: str | None = None
    #: Whose the accepted figure is and what it is made of, or why it does not count.
    accepted_note: str | None = None
    #: That newest runs differ from the accepted ones although none has failed.
    drift: str | None = None
    #: What slow nodes have to do with the outcome: that one explains it, or that later jobs were to do without it.
    slow_nodes: str | None = None
    #: The newer jobs that a replay passed over, each with the reason, and the age of the one that it judged.
    passed_over: str | None = None
    #: The alarms that stood for the row on that run, each with its id, and who looked after it.
    alarms: str | None = None


@dataclass(frozen=True)
class RowFacts:
    """The row as its table had it when it was run."""

    id: str
    node_id: str
    #: The file and line of the row.
    baseline: str
    document: str
    document_line: int | None
    workload: str
    framework: str
    dtype: str
    accelerator: str
    gpus: int
    #: Accepted loss (and gain) of throughput in this run, a fraction.
    tolerance: float
    #: Hash of what must be the same for results to be compared.
    definition: str = ""
    #: What the outcome rests on, see :data:`~pytest_gsw.tables.model.JudgedMetric`.
    metric: str = metrics.STEP_TIME.name
    #: The row says whether the cluster is in its usual state, and not how fast a workload is.
    canary: bool = False
    #: The document's table, release and section in words.
    source: str = ""
    #: Hash of the definition without image and release; empty where the row's table has changed since its job was
    #: submitted.
    experiment: str = ""
    #: Samples of a step, and transformer layers; ``None`` where the table gives none.
    batch: int | None = None
    layers: int | None = None
    #: The row stands for a larger model, of which it has fewer layers.
    proxy: bool = False
    #: How else it is trained, by name: ``micro-batch``, degrees of parallelism, further columns of its document.
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunFacts:
    """The run: where and when it was, what it ran with, and its log."""

    id: str
    cluster: str
    simulated: bool
    #: When the record was written, seconds since the epoch.
    recorded_s: float | None = None
    log: str | None = None
    #: Size of the log when it was judged, by which a replay notices that it has changed.
    log_bytes: int | None = None
    #: What else the job wrote: what went to stderr, where the recipe keeps it apart, and the batch shell's output.
    outputs: tuple[str, ...] = ()
    #: The container image that was run, as far as log, environment or table tell it, and which of the three did.
    image: str | None = None
    image_from: str = ""
    #: What the job ran with, as far as its log and its scheduler tell: ``driver``, ``nccl``, ``slurm`` and the like.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The variables that table, cluster and session gave the job, by name; a secret's value is hidden. ``None`` where
    #: they are not known, as of logs without a session.
    variables: Mapping[str, str] | None = None
    #: What the log stated as the row does, by name: ``{"sequence length": "8192"}``; empty where it stated nothing, or
    #: was not measured.
    compared: Mapping[str, str] = field(default_factory=dict)
    #: The file that defines the cluster, where it was named on the command line.
    clusters_file: str | None = None
    #: Options of the session without which its rows are others: ``--gsw-release=25.01``, ``--gsw-suite=FILE``.
    options: tuple[str, ...] = ()
    #: What the session's simulated rows were broken by, in its order: ``*x128]=slow:12%``.
    simulated_faults: tuple[str, ...] = ()

    @property
    def cluster_options(self) -> tuple[str, ...]:
        """What names the cluster in a command; nothing where logs were replayed without one."""
        if self.cluster == NO_CLUSTER:
            return ()
        return (f"--gsw-cluster={self.cluster}", *clusters_option(self.clusters_file))

    @property
    def row_options(self) -> tuple[str, ...]:
        """What a command is to give so that it finds the row, and judges it as in this run."""
        return (*self.cluster_options, *self.options)


class RanWith(Protocol):
    """What says what a job ran with: the facts of a run, or a point of the history."""

    @property
    def image(self) -> str | None:
        """The container image, ``None`` where it is not known."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What log and scheduler tell, by name."""

    @property
    def variables(self) -> Mapping[str, str] | None:
        """The variables that the job was given, ``None`` where they are not known."""


def ran_with(*jobs: RanWith) -> list[dict[str, str]]:
    """What each of some jobs ran with, by name, and nothing of what is not known of it.

    A variable that one of them had was not set in another, if its variables are known.
    """
    names = sorted({name for job in jobs for name in job.variables or ()})
    return [_ran_with(job, names) for job in jobs]


def _ran_with(job: RanWith, names: Iterable[str]) -> dict[str, str]:
    image = {} if job.image is None else {"image": job.image}
    variables = job.variables
    given = {} if variables is None else {name: variables.get(name, "not set") or "empty" for name in names}
    return {**job.environment, **image, **given}


@dataclass(frozen=True)
class Jobs:
    """The jobs of the run."""

    #: The row's last job.
    last: JobFacts | None = None
    #: The row's jobs before this one, which the infrastructure failed or its session cancelled.
    attempts: tuple[JobFacts, ...] = ()
    #: The row's jobs before this one that were measured as well: the outcome rests on the median of all.
    repeats: tuple[JobFacts, ...] = ()
    #: How many jobs the row was to have in any case, and at most after these; see ``--gsw-repeat``, ``--gsw-confirm``.
    first_jobs: int = 1
    confirm_jobs: int = 0
    #: GPU-hours that ending the job early has saved, where it was ended early and that is known.
    saved_gpu_hours: float | None = None

    @property
    def all(self) -> tuple[JobFacts, ...]:
        """Every job of the run."""
        return (*self.attempts, *self.repeats, *(() if self.last is None else (self.last,)))

    @property
    def failed(self) -> tuple[JobFacts, ...]:
        """Its attempts without those that were cancelled, which nothing has failed."""
        return tuple(job for job in self.attempts if job.state is not JobState.CANCELLED)

    def measured(self, judged_s: float | None) -> tuple[JobFacts, ...]:
        """The jobs whose median is the run's figure, in the order in which they ran, each with its ``judged_s``.

        Empty where nothing was measured, or where it is not known which job it was.
        """
        if self.last is None or judged_s is None:
            return ()
        last = self.last if self.last.judged_s is not None else replace(self.last, judged_s=judged_s)
        return (*self.repeats, last)


@dataclass(frozen=True)
class FigureFacts:
    """What the document states, what follows from its step time, and what was measured, by the names of Figures."""

    documented: Mapping[str, float | None]
    implied: Mapping[str, float | None] = field(default_factory=dict)
    measured: Mapping[str, float | None] = field(default_factory=dict)
    #: The cluster's accepted figure and what follows from it; empty where the outcome does not rest on it.
    accepted: Mapping[str, float | None] = field(default_factory=dict)
    #: FLOP/s that a matrix product reached on one GPU or core in the (last) job, where the MFU is of that and not of
    #: the accelerator's peak.
    calibration_flops: float | None = None
    #: What is to be known of the MFU, or why there is none; empty where it is of the row's own FLOPs.
    mfu_note: str = ""

    def stated(self, key: str) -> float | None:
        """A documented figure, or what follows from the documented step time."""
        return self.documented.get(key) or self.implied.get(key)


@dataclass(frozen=True)
class Timing:
    """The times of the (last) job's steps."""

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


@dataclass(frozen=True)
class _Judged:
    """The verdict among the keys of a record."""

    verdict: Verdict | None


#: File names may have 255 bytes, and the draft of a record has a few more than the record.
_LONGEST_NAME = 200
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")

#: Version of the record's JSON.
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Record(ResultText):
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
        """A :class:`~pytest_gsw.stats.verdict.Reason` of the outcome; empty where none was given."""
        verdict = self.comparable
        return verdict.given_reason.value if verdict is not None and verdict.given_reason is not None else ""

    @property
    def limit(self) -> float | None:
        """The loss (or gain) of throughput beyond which it was a regression (an improvement), where that is known."""
        verdict = self.comparable
        is_known = verdict is not None and (verdict.limit is not None or verdict.given_reason is not None)
        return verdict.allowed if verdict is not None and is_known else None

    @property
    def own_outcome(self) -> str:
        """The outcome by the row's own metric if one of the site's is worse; else empty."""
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
        """The jobs whose median is the record's figure, see :meth:`~pytest_gsw.results.record.Jobs.measured`."""
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
        **{name: getattr(record, name) for name in shapes(ResultText)},
        # Without what a rule of the site's own keeps with its verdict.
        "verdict": record.verdict and {name: getattr(record.verdict, name) for name in shapes(Verdict)},
        "schema": SCHEMA,
    }
    del found["id"], found["last"]
    return found


def of_content(content: Any) -> Record:
    """A record of JSON; a ValueError where it is none."""
    check_known(content, _KEYS)
    run, row, jobs = read(RunFacts, content, **_RUN), read(RowFacts, content, **_ROW), read(Jobs, content, **_JOBS)
    figures, timing = read(FigureFacts, content), read(Timing, content)
    own, verdict = read(ResultText, content), read(_Judged, content).verdict
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
    *(_names(kind, {}) for kind in (FigureFacts, Timing, ResultText, _Judged)),
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
