"""All facts of one run of one row, in parts and as JSON: the input of reports, replays and history."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from pytest_gsw.clusters import clusters_option
from pytest_gsw.common.files import PRIVATE, make_directory, read_bounded, write_whole
from pytest_gsw.common.text import by_number
from pytest_gsw.common.typed_json import check_known, facts, is_number, plain, read, shapes, shown
from pytest_gsw.jobs.layout import cut_name
from pytest_gsw.jobs.model import is_failure
from pytest_gsw.jobs.states import JobStatus
from pytest_gsw.jobs.step_ends import limited_steps
from pytest_gsw.results import node_facts, outcomes
from pytest_gsw.stats.goodput import Endurance
from pytest_gsw.stats.measurement import Timing
from pytest_gsw.stats.sweep_finding import SweepFinding
from pytest_gsw.stats.verdict import MetricVerdict, Verdict
from pytest_gsw.tables import metrics
from pytest_gsw.tables.metrics import Metric, MetricLabel
from pytest_gsw.tables.model import without_tile

#: The cluster of logs that were replayed without one.
NO_CLUSTER = "replay"
#: The name of a cluster that tables and histories take.
CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


@dataclass(frozen=True, kw_only=True)
class JobFacts(JobStatus):
    """A job of a record: its last status and its measurement."""

    id: str
    launcher: str
    #: Why the row was run again after this job, in a few words; empty for its last.
    why_repeated: str = ""
    #: The figure of this job by itself, in its metric's unit; ``None`` if it was not measured.
    judged: float | None = None
    log: str | None = None
    #: Size of the log when it was measured, by which a replay notices that it has changed.
    log_bytes: int | None = None
    #: The loss of its last step that prints one.
    loss: float | None = None
    #: The site's metrics in this job, by key.
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, job_id: str, launcher: str, status: JobStatus, log: Path | None = None, **measured: Any) -> JobFacts:
        """A job by its last status; ``measured`` are further fields."""
        known = {**facts(JobStatus, status), "steps": limited_steps(status.steps), **measured}
        size = log.stat().st_size if log is not None and log.is_file() else None
        return cls(**known, id=job_id, launcher=launcher, log=None if log is None else str(log), log_bytes=size)

    @property
    def status(self) -> JobStatus:
        """The status alone, for a replay."""
        return JobStatus(**facts(JobStatus, self))

    @property
    def known_begin_s(self) -> float:
        """When it was submitted, or the nearest known time; 0 if there is none."""
        return self.submit_s or self.start_s or self.end_s or 0.0

    @property
    def known_end_s(self) -> float | None:
        """Its end, or the known time nearest to it."""
        return self.end_s or self.start_s or self.submit_s


@dataclass(frozen=True)
class ResultText:
    """The result of a row, by a word of :mod:`~pytest_gsw.results.outcomes` and in texts of one line each."""

    outcome: str
    #: The fact in one line.
    fact: str
    #: Why the figures cannot be compared; ``None`` if they can.
    not_comparable: str | None = None
    #: The accepted figure's cluster and jobs, or why it does not count.
    accepted_note: str | None = None
    #: The drift of the newest runs, of which none has failed.
    drift: str | None = None
    #: Unusual settings of the run that the row does not state, and what its log leaves open.
    remarks: str | None = None
    #: The role of slow nodes in the outcome: one explains it, or later jobs avoided it.
    slow_nodes: str | None = None
    #: The newer jobs that a replay passed over, each with the reason, and the age of the judged one.
    passed_over: str | None = None
    #: The row's active alarms in that run, each with its id and owner.
    alarms: str | None = None
    #: The step after an error that another job of the row would meet again.
    advice: str | None = None


@dataclass(frozen=True)
class RowFacts:
    """The row of the table at the time of the run."""

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
    #: Hash of the settings that must be equal for results to be compared.
    definition: str = ""
    #: The judged metric: the value of the row's ``metric``.
    metric: str = metrics.STEP_TIME.name
    #: The metric's unit, direction and label if it is a benchmark's or the table's own; and the judged point.
    label: MetricLabel | None = None
    at: str | None = None
    #: True if the row checks the cluster's state instead of a workload's speed.
    canary: bool = False
    #: The document's table, release and section in words.
    source: str = ""
    #: Hash of the definition without image and release; empty if the row's table has changed since its job was
    #: submitted.
    experiment: str = ""
    #: Samples of a step, and transformer layers; ``None`` if the table gives none.
    batch: int | None = None
    layers: int | None = None
    #: True if the row represents a larger model with more layers.
    proxy: bool = False
    #: Further settings of the training, by name: ``micro-batch``, degrees of parallelism, further columns.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The nodes on which it was to run, as a node list; empty for any.
    tile: str = ""
    #: The stage of the acceptance that it belongs to; empty without one.
    stage: str = ""

    @property
    def row_id(self) -> str:
        """The id without the tile, as the history has it."""
        return without_tile(self.id)

    @property
    def judged_metric(self) -> Metric:
        """The metric of the row's outcome."""
        label = self.label
        if label is None:
            return metrics.JUDGED[self.metric]
        return Metric(label.key, label.unit, label.direction, label.label, series=metrics.Series.FIGURES).at(self.at)


@dataclass(frozen=True)
class RunFacts:
    """The run: place, time, environment and log."""

    id: str
    cluster: str
    simulated: bool
    #: When the record was written, seconds since the epoch.
    recorded_s: float | None = None
    log: str | None = None
    #: Size of the log when it was judged, by which a replay notices that it has changed.
    log_bytes: int | None = None
    #: The job's other outputs: its stderr, if the recipe keeps it apart, and the batch shell's output.
    outputs: tuple[str, ...] = ()
    #: The container image by log, environment or table, and which of the three names it.
    image: str | None = None
    image_from: str = ""
    #: Versions and settings by log and scheduler: ``driver``, ``nccl``, ``slurm`` and the like.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The variables that table, cluster and session gave the job, by name; a secret's value is hidden. ``None`` if
    #: unknown, as for logs without a session.
    variables: Mapping[str, str] | None = None
    #: Settings that the log states in agreement with the row, by name, ``{"sequence length": "8192"}``; empty without
    #: a measurement.
    compared: Mapping[str, str] = field(default_factory=dict)
    #: The file that defines the cluster, if the command line names it.
    clusters_file: str | None = None
    #: Options of the session without which its rows are others: ``--gsw-release=25.01``, ``--gsw-suite=FILE``.
    options: tuple[str, ...] = ()
    #: Options of the session without which its rows have no tiles: ``--gsw-tile=node``, ``--gsw-find``.
    tile_options: tuple[str, ...] = ()
    #: The faults of the session's simulated rows, in its order: ``*x128]=slow:12%``.
    simulated_faults: tuple[str, ...] = ()
    #: The place of the logs in a replay, as ``--gsw-replay`` takes it; ``None`` if the session ran the jobs.
    replay: str | None = None

    @property
    def cluster_options(self) -> tuple[str, ...]:
        """Options that name the cluster in a command; none for logs that were replayed without one."""
        if self.cluster == NO_CLUSTER:
            return ()
        return (f"--gsw-cluster={self.cluster}", *clusters_option(self.clusters_file))

    @property
    def row_options(self) -> tuple[str, ...]:
        """Options with which a command finds the row, and judges it as in this run."""
        return (*self.cluster_options, *self.options)


class RanWith(Protocol):
    """A source of a job's environment: the facts of a run, or a point of the history."""

    @property
    def image(self) -> str | None:
        """The container image, ``None`` if unknown."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Versions and settings by log and scheduler."""

    @property
    def variables(self) -> Mapping[str, str] | None:
        """The variables that the job was given, ``None`` if unknown."""


def ran_with(*jobs: RanWith) -> list[dict[str, str]]:
    """The known environment of each job, by name.

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
class AmongTiles:
    """A tile among the others of its row."""

    #: The change of throughput against the median of its peers, as a fraction.
    peers_change: float
    #: The findings of a search on its nodes.
    findings: tuple[SweepFinding, ...] = ()
    #: Its loss beside that of its peers, if that is unlike theirs.
    other_loss: str = ""

    @property
    def named(self) -> tuple[SweepFinding, ...]:
        """The findings that name nodes."""
        return tuple(finding for finding in self.findings if finding.is_named)


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
    #: Of a tile, the measured jobs of the search on it, on nodes of it among others, or with it as a control.
    search: tuple[JobFacts, ...] = ()
    #: GPU-hours saved because the job was ended early; ``None`` if it was not, or unknown.
    saved_gpu_hours: float | None = None

    @property
    def all(self) -> tuple[JobFacts, ...]:
        """Every job of the run."""
        return (*self.attempts, *self.repeats, *(() if self.last is None else (self.last,)))

    @property
    def failed(self) -> tuple[JobFacts, ...]:
        """Its attempts that failed; cancelled ones did not."""
        return tuple(job for job in self.attempts if is_failure(job.state, job.why_repeated))

    def measured(self, figure: float | None) -> tuple[JobFacts, ...]:
        """The jobs whose median is the run's figure, in the order in which they ran, each with its figure.

        Empty if nothing was measured, or if it is unknown which job was.
        """
        if self.last is None or figure is None:
            return ()
        last = self.last if self.last.judged is not None else replace(self.last, judged=figure)
        return (*self.repeats, last)


@dataclass(frozen=True)
class FigureFacts:
    """Documented figures, those implied by the step time, and measured ones, by the names of Figures."""

    documented: Mapping[str, float | None]
    implied: Mapping[str, float | None] = field(default_factory=dict)
    measured: Mapping[str, float | None] = field(default_factory=dict)
    #: The cluster's accepted figure and those implied by it; empty if the outcome does not rest on it.
    accepted: Mapping[str, float | None] = field(default_factory=dict)
    #: FLOP/s of a matrix product on one GPU or core in the (last) job, if the MFU is of that and not of the
    #: accelerator's peak.
    calibration_flops: float | None = None
    #: A note on the MFU, or why there is none; empty if it is of the row's own FLOPs.
    mfu_note: str = ""

    def stated(self, key: str) -> float | None:
        """A documented figure, or one implied by the documented step time."""
        return self.documented.get(key) or self.implied.get(key)


@dataclass(frozen=True)
class _Judged:
    """The verdict among the keys of a record, and the facts of its nodes."""

    verdict: Verdict | None
    facts: node_facts.NodeFacts | None = None
    among_tiles: AmongTiles | None = None
    endurance: Endurance | None = None


#: File names may have 255 bytes, and the draft of a record has a few more than the record.
_LONGEST_NAME = 200
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")

#: Version of the record's JSON. The first had costs in place of the judged figures.
SCHEMA = 2


@dataclass(frozen=True, kw_only=True)
class Record(ResultText):
    """One run of one row.

    ``outcome`` is one of passed, improved, regressed (judged), ``inconclusive`` (judged, and the
    measurement is within noise or doubtful), ``profiled`` (measured, not judged), ``expected_failure`` (documented to
    run out of memory, and did), ``unexpected_success`` (documented to, and did not), ``error`` (not measured).
    """

    row: RowFacts
    run: RunFacts
    figures: FigureFacts
    jobs: Jobs = field(default_factory=Jobs)
    timing: Timing = field(default_factory=Timing)
    #: The decision of the rule, even if the outcome is another: the run was profiled, or an error followed.
    verdict: Verdict | None = None
    #: What differs between the nodes of its jobs, or their GPUs; ``None`` if it was not read.
    facts: node_facts.NodeFacts | None = None
    #: Of a tile, its place among the others; ``None`` if they were not compared.
    among_tiles: AmongTiles | None = None
    #: Of a row that ran for a given time, its use of that; else ``None``.
    endurance: Endurance | None = None

    @cached_property
    def text(self) -> str:
        """The record as JSON on one line, in ASCII; the live file, the spool and the history take the same."""
        return _COMPACT.encode(content(self))

    @property
    def judged(self) -> Verdict | None:
        """The verdict behind the outcome, ``None`` if there is none."""
        return self.verdict if self.outcome in outcomes.JUDGED else None

    @property
    def named(self) -> tuple[SweepFinding, ...]:
        """The findings of a search that name nodes of a tile."""
        return () if self.among_tiles is None else self.among_tiles.named

    @property
    def gain(self) -> float | None:
        """Measured speed over that of the reference, less one; ``None`` if nothing was judged."""
        return None if self.judged is None else self.judged.gain

    @property
    def change(self) -> float | None:
        """The change against the reference as screens show it; ``None`` if nothing was judged."""
        return None if self.judged is None else self.judged.change

    @property
    def metrics(self) -> tuple[MetricVerdict, ...]:
        """The outcomes by the site's metrics that the row documents."""
        return () if self.verdict is None else self.verdict.metrics

    @cached_property
    def comparable(self) -> Verdict | None:
        """The verdict of figures that can be compared."""
        return self.verdict if self.not_comparable is None else None

    @cached_property
    def reason(self) -> str:
        """A :class:`~pytest_gsw.stats.verdict.Reason` of the outcome; empty if none was given."""
        verdict = self.comparable
        return verdict.given_reason.value if verdict is not None and verdict.given_reason is not None else ""

    @property
    def limit(self) -> float | None:
        """The loss (or gain) of throughput beyond which it was a regression (an improvement), if known."""
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
        """The exit status of a session with this row; a replay of an older job leaves the newer ones open."""
        return outcomes.exit_status((outcomes.of(self.outcome).status, outcomes.OPEN if self.passed_over else 0))

    @property
    def reference(self) -> str:
        """``documented``, or ``accepted`` if the outcome rests on the cluster's own figure."""
        return "accepted" if self.figures.accepted else "documented"

    @cached_property
    def judged_metric(self) -> Metric:
        """The metric of the outcome."""
        return self.row.judged_metric

    @property
    def measured(self) -> float | None:
        """Its measured figure, in the metric's unit."""
        return self.judged_of(self.figures.measured)

    def judged_of(self, figures: Mapping[str, float | None]) -> float | None:
        """The judged metric's figure among others, ``None`` if it is not there."""
        return figures.get(self.judged_metric.field) or None

    @property
    def measured_jobs(self) -> tuple[JobFacts, ...]:
        """The jobs whose median is the record's figure, see :meth:`~pytest_gsw.results.record.Jobs.measured`."""
        return self.jobs.measured(self.measured)

    @property
    def reported_jobs(self) -> tuple[JobFacts, ...]:
        """The jobs behind the outcome: those whose median the figure is, or the one that failed."""
        return self.measured_jobs or (() if self.jobs.last is None else (self.jobs.last,))

    @property
    def nodes(self) -> str:
        """The node lists of these jobs, each once."""
        return ", ".join(dict.fromkeys(job.nodes for job in self.reported_jobs if job.nodes))


def used_gpu_hours(record: Record) -> float:
    """Known GPU-hours of the row's jobs."""
    return record.row.gpus * sum(job.run_s or 0.0 for job in record.jobs.all) / 3600


# -- JSON ------------------------------------------------------------------------------------------


#: A line for each fact. To indent, json leaves its C code, and takes as long as it takes to judge the row.
_LINES = json.JSONEncoder(default=plain, allow_nan=False, separators=(",\n  ", ": "))
_COMPACT = json.JSONEncoder(default=plain, allow_nan=False, separators=(",", ":"))

_HIGHER = metrics.Direction.HIGHER_IS_BETTER

#: Keys of JSON that are not the name of their field.
_ROW, _RUN, _JOBS = {"id": "row"}, {"id": "run_id"}, {"last": "job"}


def _names(kind: type, names: Mapping[str, str]) -> frozenset[str]:
    return frozenset(names.get(name, name) for name in shapes(kind))


def content(record: Record) -> dict[str, Any]:
    """A record as JSON has it: its parts' keys beside each other, and the verdict as a whole."""
    row, run, jobs = record.row, record.run, record.jobs
    keyed = {
        "run_id": run.id,
        "row": row.id,
        **{name: value for name, value in vars(row).items() if value is not None or name not in {"label", "at"}},
        **facts(RunFacts, run),
        **facts(FigureFacts, record.figures),
        **facts(Timing, record.timing),
        **facts(Jobs, jobs),
        "job": jobs.last,
        **facts(ResultText, record),
        # A site's own rule may keep further attributes in its verdict.
        "verdict": record.verdict and facts(Verdict, record.verdict),
        **({} if record.facts is None else {"facts": record.facts}),
        **({} if record.among_tiles is None else {"among_tiles": record.among_tiles}),
        **({} if record.endurance is None else {"endurance": record.endurance}),
        "schema": SCHEMA,
    }
    del keyed["id"], keyed["last"]
    if not jobs.search:
        del keyed["search"]
    return keyed


def of_content(content: Any) -> Record:
    """A record from JSON, of any release; a ValueError if it is none, or of a later one."""
    version = content.get("schema") if isinstance(content, dict) else None
    if version is None:
        raise ValueError("it has no 'schema'")
    if version not in (1, SCHEMA):
        raise ValueError(f"it is of version {version}, this pytest-gsw reads version {SCHEMA}")
    if version == 1:
        content = _of_first_schema(content)
    check_known(content, _KEYS)
    run, row, jobs = read(RunFacts, content, **_RUN), read(RowFacts, content, **_ROW), read(Jobs, content, **_JOBS)
    figures, timing = read(FigureFacts, content), read(Timing, content)
    own, judged = read(ResultText, content), read(_Judged, content)
    verdict = judged.verdict
    for name, word, known in (("outcome", own.outcome, outcomes.BY_WORD), ("metric", row.metric, metrics.JUDGED)):
        if word not in known and (name != "metric" or row.label is None):
            raise ValueError(f"'{name}' is {shown(word)}")
    if own.outcome in outcomes.JUDGED:
        if verdict is None:
            raise ValueError(f"'outcome' is {shown(own.outcome)}, and it has no verdict")
        if own.outcome != verdict.outcome.value:
            raise ValueError(f"'outcome' is {shown(own.outcome)}, and that of its verdict \"{verdict.outcome.value}\"")
    if verdict is not None and row.judged_metric is not verdict.metric:
        judged = replace(judged, verdict=replace(verdict, metric=row.judged_metric))
    among = facts(_Judged, judged)
    return Record(row=row, run=run, jobs=jobs, figures=figures, timing=timing, **among, **facts(ResultText, own))


#: Keys of the first schema that have another name.
_FIRST_NAMES = {f"{name}_s": name for name in ("judged", "measured", "documented", "accepted", "jobs", "usual")}


def figure_of_cost(cost: Any, direction: metrics.Direction) -> Any:
    """A figure by what the first release kept: itself, or the inverse of one of which more is better.

    To fifteen digits, which a figure of a log or a table has at most: its inverse is rounded.
    """
    if isinstance(cost, list):
        return [figure_of_cost(each_cost, direction) for each_cost in cost]
    return float(f"{direction.cost(cost):.15g}") if direction is _HIGHER and is_number(cost) else cost


def _of_first_schema(content: Mapping[str, Any]) -> dict[str, Any]:
    """A record's JSON from that of the first schema."""
    label = content.get("label")
    is_higher = isinstance(label, dict) and label.get("direction") == _HIGHER.value
    direction = _HIGHER if is_higher else metrics.Direction.LOWER_IS_BETTER

    def renamed(value: Any) -> Any:
        if isinstance(value, list):
            return [renamed(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        pairs = ((key, entry if key == "metrics" else renamed(entry)) for key, entry in value.items())
        known = ((key, _FIRST_NAMES.get(key), entry) for key, entry in pairs if key != "steady_s" or not label)
        return {new or key: figure_of_cost(entry, direction) if new else entry for key, new, entry in known}

    parts = ("job", "attempts", "repeats", "verdict")
    return {**content, **{name: renamed(content[name]) for name in parts if name in content}}


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
    """Read one record; a ValueError if this version cannot read the file."""
    try:
        return of_content(json.loads(read_bounded(path)))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # no record, not JSON, or not even text
        raise ValueError(f"{path} is no record: {error}") from error


def record_files(directory: Path) -> list[str]:
    """The names of the files of a run's records, in the order of their rows' names."""
    # Paths, which would be made more than once for each row, cost more than the look.
    names = glob.glob("*.json", root_dir=directory / "records")  # noqa: PTH207
    return sorted(names, key=lambda name: by_number(name.removesuffix(".json")))


def read_records(directory: Path) -> tuple[Record, ...]:
    """All records of a run's directory, by their names; a ValueError if one is none, or two are of one row."""
    records: dict[str, tuple[Path, Record]] = {}
    for name in record_files(directory):
        path = directory / "records" / name
        record = read_record(path)
        if record.row.id in records:
            raise ValueError(f"{records[record.row.id][0]} and {path} are both records of {record.row.id}")
        records[record.row.id] = (path, record)
    return tuple(record for _, record in records.values())
