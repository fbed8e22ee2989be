"""The parts of a record: the row, its run, its jobs, its figures, and the times of its steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from pytest_gsw.clusters.model import clusters_option
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.jobs.steps import kept, of_kept
from pytest_gsw.results.json_shape import shown
from pytest_gsw.tables import metrics

#: The cluster of logs that were replayed without one.
NO_CLUSTER = "replay"


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
    #: The job's steps in short, see :func:`~pytest_gsw.jobs.steps.kept`; ``None`` where they were not told.
    steps: tuple[str, ...] | None = None
    derived_exit_code: str = ""
    #: What could not be asked of the job's end, and why; one line.
    unchecked: str = ""
    #: Ids of further jobs behind the same submission; there must be none.
    siblings: tuple[str, ...] = ()
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
        steps = kept(status.steps)
        return cls(
            job_id,
            launcher,
            status.state.value,
            **{name: getattr(status, name) for name in (*_SHARED_WITH_STATUS, "queue_s", "run_s")},
            why_repeated=why_repeated,
            judged_s=judged_s,
            log=None if log is None else str(log),
            log_bytes=log.stat().st_size if log is not None and log.is_file() else None,
            steps=None if steps is None else tuple(steps),
            metrics=metrics or {},
        )

    @property
    def known_end_s(self) -> float | None:
        """When it ended, or the nearest time to that which is known."""
        return self.end_s or self.start_s or self.submit_s

    def check(self, prefix: str) -> None:
        """Raise a ValueError where its state is none."""
        if self.state not in _STATES:
            raise ValueError(f"'{prefix}state' is {shown(self.state)}, which is no state of a job")

    @property
    def status(self) -> JobStatus:
        """The status again, for a replay."""
        shared = {name: getattr(self, name) for name in _SHARED_WITH_STATUS}
        return JobStatus(JobState(self.state), raw_state=self.state, **shared, steps=of_kept(self.steps))


_STATES = frozenset(state.value for state in JobState)

_SHARED_WITH_STATUS = (
    *("exit_code", "signal", "reason", "nodes", "submit_s", "start_s", "end_s"),
    *("derived_exit_code", "unchecked", "siblings"),
)


@dataclass(frozen=True)
class Conclusion:
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
    #: The alarms that stood for the row on that night, each with its id, and who looked after it.
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
        return tuple(job for job in self.attempts if job.state != JobState.CANCELLED.value)

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
