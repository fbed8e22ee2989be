"""The two sources of an ended row: a job of this session or a given log, and an earlier record."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from pytest_gsw.clusters import Cluster
from pytest_gsw.common.node_lists import number_of
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import plural
from pytest_gsw.errors import JobError, LogError
from pytest_gsw.history.comparison import drift_text
from pytest_gsw.history.model import Point
from pytest_gsw.history.row_history import RowHistory
from pytest_gsw.jobs.journal import Submission
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.layout import error_files_of, in_traced_results, is_nccl_traced
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.spec import job_image, job_variable, profiling_in
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.record import JobFacts, Record
from pytest_gsw.session.judging import environment_of, not_comparable
from pytest_gsw.session.settings import Settings
from pytest_gsw.stats.cluster_effect import ClusterEffect
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.stats.verdict import UNUSUAL, Reason
from pytest_gsw.tables.model import Baseline, definition_hash, experiment_hash, image_name
from pytest_gsw.validation.agreement import Provenance, provenance_in
from pytest_gsw.validation.run import Run, unset_boost


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """The settings of a row's job, and facts derived from them; for a replayed run, as recorded."""

    #: The container image, and its source: the log, the environment, the table.
    image: str | None
    image_from: str
    #: The row's definition when its job was started, and by its current table.
    definition: str
    definition_now: str
    #: The definition without image and release; empty if the row has changed since its job was started.
    experiment: str
    #: Versions and settings from its log and its launcher, and the job's variables; ``None`` if unknown.
    environment: Mapping[str, str]
    variables: Mapping[str, str] | None
    #: True if the figures are simulated.
    is_simulated: bool


def is_traced(run: Run, spec: JobSpec | None) -> bool:
    """True if a run did only the few steps of an NCCL trace."""
    return in_traced_results(run.log) or (spec is not None and is_nccl_traced(spec.environment))


@dataclass(eq=False)
class LiveRow:
    """A row that this session runs or resumes, or whose log is given."""

    baseline: Baseline
    settings: Settings
    launcher: Launcher
    #: The session's environment.
    environ: Mapping[str, str] = field(repr=False)
    #: The row's job in this session; ``None`` if unknown.
    spec: JobSpec | None = None
    #: The submission of an earlier session, if this one resumes it.
    submitted: Submission | None = None
    #: Software of jobs whose logs were read, by their ids.
    provenance: dict[str, Provenance] = field(default_factory=dict, init=False)
    #: True if a recorded run was excused by a canary row.
    was_excused: bool = field(default=False, init=False)
    #: The recorded effects on its outcome: of slow nodes, in words, and of the cluster on the rows of its run.
    slow_nodes: str | None = field(default=None, init=False)
    cluster_effect: ClusterEffect | None = field(default=None, init=False)
    #: Of a tile, its jobs of the search.
    search: list[JobFacts] = field(default_factory=list, init=False)
    #: The image and its source, once found.
    _image: tuple[str | None, str] | None = field(default=None, init=False)
    #: Circumstances of the last job and log.
    _circumstances: tuple[tuple[str, Path | None] | None, Circumstances] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.repeats, self.launcher_name = self.settings.judging.repeats, self.launcher.name

    def circumstances(self, run: Run | None) -> Circumstances:
        """The circumstances of the row's job, cached; without a run, those known before its end."""
        key = None if run is None else (run.job_id, run.log)
        if self._circumstances is None or self._circumstances[0] != key:
            self._circumstances = key, self._circumstances_of(run)
        return self._circumstances[1]

    def _circumstances_of(self, run: Run | None) -> Circumstances:
        written, submitted, started = self._provenance(run), self._submission_of(run), self._started()
        if self._image is None:
            self._image = (written.image, "log") if written.image is not None else self._image_at_start(submitted)
        image, image_from = self._image
        planned = self.spec is not None and self.spec.image == image and self.spec.definition
        definition = now = planned or definition_hash(self.baseline, image)
        if submitted is not None and submitted.definition != definition_hash(self.baseline, submitted.image):
            definition = submitted.definition
        known, cluster = submitted or started, self.settings.cluster
        return Circumstances(
            image=image,
            image_from=image_from,
            definition=definition,
            definition_now=now,
            experiment=experiment_hash(self.baseline) if definition == now else "",
            environment={} if run is None else self._environment(run, written, started),
            variables=None if known is None else known.variables,
            is_simulated=(cluster is not None and cluster.simulated) or written.is_simulated,
        )

    def noise(self, past: RowHistory, tolerance: float) -> Noise | None:
        """The noise between jobs of the row on its cluster, by the history."""
        return past.noise(tolerance)

    def with_earlier_jobs(self, run: Run) -> Run:
        """The run with the row's earlier jobs, over which its figure is the median: the executor has added them."""
        return run

    def check_logs(self, run: Run) -> None:
        """Check the nodes: a script that submits its job itself may have requested other ones.

        Raises:
            JobError: The job ran on other nodes than the row's.
        """
        started = self._started()
        if started is None or not started.launch.submits_itself:
            return
        for job in run.jobs:
            had = number_of(job.status.nodes) if job.status.state is JobState.COMPLETED else None
            if had is not None and had != started.nodes:
                raise JobError(
                    f"job {job.job_id} ran on {plural(had, 'node')}, and the row has {started.nodes}",
                    (("nodes", job.status.nodes), ("script", str(started.script)), ("log", str(job.log))),
                    advice="let the script ask for the row's nodes: the figures of others are not the row's",
                )

    def not_comparable(self, run: Run) -> str | None:
        """The reason why the row's figures are not comparable: a profile or an NCCL trace, by option or environment."""
        if self.settings.profile is not None:
            return f"--gsw-profile={self.settings.profile.kind}"
        why = not_comparable(run)
        if why is not None:
            return why
        started, variables = self._started(), self.circumstances(run).variables
        if variables is None and started is not None:
            variables = started.environment
        variable = profiling_in(variables or {})
        return None if variable is None else f"{variable} in the environment"

    def image_was_chosen(self, run: Run) -> bool:
        """True if the table names no image, or the job's environment has named one."""
        if self.baseline.recipe.image is None:
            return True
        return self._image_at_start(self._submission_of(run))[1] == "environment"

    def drift(self, past: RowHistory, points: Sequence[Point]) -> str | None:
        """The drift of the row's newest runs, with the jobs of this one, in one line; else ``None``."""
        is_usual = past.points and points[0].reason not in UNUSUAL
        drift = past.including_run(points).drifting if is_usual else None
        return None if drift is None else redact(drift_text(drift), os.environ)

    def _provenance(self, run: Run | None) -> Provenance:
        """Image and versions in a run's log."""
        if run is None or run.log is None:
            return Provenance()
        try:
            return self.provenance.get(run.job_id) or provenance_in(run.log)
        except OSError:
            return Provenance()  # reading the steps will report an unreadable log

    def _environment(self, run: Run, written: Provenance, started: JobSpec | None) -> dict[str, str]:
        """Versions from the log and files next to it, and the GPUs' boost, which changes the figures."""
        versions = environment_of(run, written)
        boost = "" if started is None else job_variable(self.environ, started, "ENABLE_VBOOST").lower()
        if boost == "true" and unset_boost(run) is None:
            versions["vboost"] = "true"
        version = self.launcher.version
        return {**versions, self.launcher_name: version} if version else versions

    def _image_at_start(self, submitted: Submission | None) -> tuple[str | None, str]:
        """The image of the job's start, and its source."""
        if submitted is not None:
            return submitted.image, "environment" if submitted.image else ""
        started, of_table = self._started(), self.baseline.recipe.image
        named = None if started is None else job_image(self.environ, started)
        if named is not None:
            return named, "environment"
        return (None, "") if of_table is None else (image_name(of_table), "table")

    def _started(self) -> JobSpec | None:
        """The spec of this session's job; ``None`` in a replay, whose log exists already."""
        return self.spec if self.settings.replay is None else None

    def _submission_of(self, run: Run | None) -> Submission | None:
        """The submission of an earlier session, if this run is its job."""
        submitted = self.submitted
        return submitted if submitted is not None and run is not None and submitted.is_of(run.job_id) else None


@dataclass(eq=False)
class ReplayedRow:
    """A row of an earlier session: its facts come from the record, and its logs are measured again."""

    baseline: Baseline
    #: The session's cluster.
    cluster: Cluster | None
    record: Record
    spec: JobSpec | None = None
    submitted: Submission | None = None
    provenance: dict[str, Provenance] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        record = self.record
        assert record.jobs.last is not None  # others are not replayed
        self.launcher_name = record.jobs.last.launcher
        self.repeats = Repeats(record.jobs.first_jobs, record.jobs.confirm_jobs)
        # The canary may not be replayed with it.
        self.was_excused = record.reason == Reason.CANARY.value
        self.slow_nodes = record.slow_nodes
        self.cluster_effect = None if record.verdict is None else record.verdict.cluster_effect
        self.search = list(record.jobs.search)
        ran, cluster = record.run, self.cluster
        self._circumstances = Circumstances(
            image=ran.image,
            image_from=ran.image_from,
            definition=record.row.definition,
            definition_now=definition_hash(self.baseline, ran.image),
            experiment=record.row.experiment,
            environment=ran.environment,
            variables=ran.variables,
            is_simulated=ran.simulated or (cluster is not None and cluster.simulated),
        )

    def with_earlier_jobs(self, run: Run) -> Run:
        """The run with the recorded earlier jobs."""
        jobs = self.record.jobs.repeats
        logs = [Path(job.log) if job.log else None for job in jobs]
        earlier = tuple(
            Run(job.id, job.status, log, other_files=() if log is None else error_files_of(log))
            for job, log in zip(jobs, logs, strict=True)
        )
        return replace(run, earlier=earlier) if earlier else run

    def check_logs(self, run: Run) -> None:
        """Check that the logs are unchanged since they were recorded, and those of one run.

        Raises:
            JobError: The row ran for a time.
            LogError: The size of a log has changed.
        """
        if self.record.endurance is not None:
            raise JobError("the row ran for a time, and a replay judges one run", advice="see its record or its sheet")
        sizes = [*(job.log_bytes for job in self.record.jobs.repeats), self.record.run.log_bytes]
        for log, then in zip([job.log for job in run.jobs], sizes, strict=True):
            now = log.stat().st_size if log is not None and log.is_file() else None
            if then is not None and now is not None and now != then:
                raise LogError(
                    f"the log has changed since the run was recorded: {then:,} bytes then, {now:,} now",
                    evidence=(("log", str(log)),),
                    advice=f"to judge it as it is now, name it: --gsw-replay={log}",
                )

    def not_comparable(self, run: Run) -> str | None:
        """The recorded reason."""
        return redact(self.record.not_comparable, os.environ)

    def image_was_chosen(self, run: Run) -> bool:
        """True: a record does not exclude it."""
        return True

    def circumstances(self, run: Run | None) -> Circumstances:
        """The recorded circumstances."""
        return self._circumstances

    def noise(self, past: RowHistory, tolerance: float) -> Noise | None:
        """The noise recorded with the verdict."""
        return None if self.record.verdict is None else self.record.verdict.noise

    def drift(self, past: RowHistory, points: Sequence[Point]) -> str | None:
        """The recorded drift."""
        return self.record.drift


#: The facts of an ended row besides its steps: measuring and judging do not depend on where they come from.
RowSource: TypeAlias = LiveRow | ReplayedRow
