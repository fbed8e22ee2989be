"""The two sources of an ended row: a job of this session or a log that it was pointed at, and an earlier record.

Both answer the same questions, so that measuring and judging need not ask which of the two a row is of.
"""

from __future__ import annotations

import dataclasses
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import counted
from pytest_gsw.errors import JobError, LogError, RunError
from pytest_gsw.history.model import Point
from pytest_gsw.history.past import Past
from pytest_gsw.history.texts import drift_text
from pytest_gsw.history.together import Beside
from pytest_gsw.jobs.environment import job_image, job_variable
from pytest_gsw.jobs.journal import Submission
from pytest_gsw.jobs.layout import errors_beside, in_traced_results, is_nccl_traced
from pytest_gsw.jobs.model import BOOST_NOT_SET, JobSpec, JobState, Launcher
from pytest_gsw.jobs.spec import profiling_in
from pytest_gsw.performance.noise import Noise
from pytest_gsw.performance.repeats import Repeats
from pytest_gsw.performance.together import Night
from pytest_gsw.performance.verdict import Reason
from pytest_gsw.results.nodes import number_of
from pytest_gsw.results.record import Record
from pytest_gsw.runs.provenance import Provenance, provenance_in
from pytest_gsw.runs.run import Run, unset_boost
from pytest_gsw.session.nights import Nights
from pytest_gsw.session.settings import Settings
from pytest_gsw.tables.definition import accepted_for, definition_hash, experiment_hash
from pytest_gsw.tables.images import image_name
from pytest_gsw.tables.model import Accepted, Baseline

_Error = TypeVar("_Error", bound=RunError)


class RowSource(ABC):
    """What is known of an ended row besides its steps.

    Args:
        baseline: The row.
        settings: The session's.
        spec: How the session starts the row, or would; ``None`` where that is not known.
    """

    #: How many jobs the row may have, and those that a replay judges by.
    repeats: Repeats
    #: The launcher of its last job.
    launcher: str
    #: A canary row has excused it already.
    was_excused = False
    #: What it was said already that slow nodes have to do with its outcome.
    slow_nodes: str | None = None
    #: What the other rows of its night said, where that was recorded.
    night: Night | None = None

    def __init__(self, baseline: Baseline, settings: Settings, spec: JobSpec | None) -> None:
        self.baseline = baseline
        self.spec = spec
        self.settings = settings
        self.cluster = settings.cluster.name if settings.cluster else None
        self._image: tuple[str | None, str] | None = None
        self._definition_now: str | None = None
        self._experiment: str | None = None
        self._provenance: tuple[Path | None, Provenance] = (None, Provenance())

    # -- the same for both --------------------------------------------------------------------

    def shown(self, error: _Error) -> _Error:
        """An error without the secrets of the session's environment and of the job's."""
        return quoted(error, os.environ, self.spec.environment if self.spec else {})

    def is_traced(self, run: Run) -> bool:
        """Whether a run was one of the few steps for which NCCL is traced."""
        return in_traced_results(run.log) or (self.spec is not None and is_nccl_traced(self.spec.environment))

    def provenance(self, run: Run | None) -> Provenance:
        """What a run's log says of its image and versions; read once."""
        path = None if run is None else run.log
        if path is not self._provenance[0]:
            try:
                self._provenance = path, Provenance() if path is None else provenance_in(path)
            except OSError:
                return Provenance()  # that a log cannot be read is for others to say
        return self._provenance[1]

    def image(self, run: Run | None) -> tuple[str | None, str]:
        """The container image and what tells it: the log, the environment, the table. The first answer stays."""
        if self._image is None:
            named = self.provenance(run).image
            self._image = self._image_beside_log(run) if named is None else (named, "log")
        return self._image

    def definition_now(self, run: Run | None) -> str:
        """The row's definition by its table as it is now."""
        if self._definition_now is None:
            self._definition_now = definition_hash(self.baseline, self.image(run)[0])
        return self._definition_now

    def experiment(self, run: Run | None) -> str:
        """The definition without image and release; empty where the row has changed since the run was started."""
        if self.definition(run) != self.definition_now(run):
            return ""
        if self._experiment is None:
            self._experiment = experiment_hash(self.baseline)
        return self._experiment

    def accepted(self, run: Run) -> tuple[Accepted | None, Accepted | None]:
        """What the session's cluster has accepted for the row, as one that counts and one that does not."""
        now = self.definition_now(run)
        accepted, unused = accepted_for(self.baseline, self.cluster, now)
        return (accepted, unused) if self.definition(run) == now else (None, accepted or unused)

    def is_simulated(self, run: Run | None) -> bool:
        """Whether the figures are made up."""
        cluster = self.settings.cluster
        return (cluster is not None and cluster.simulated) or self._says_simulated(run)

    def past(self, run: Run, accepted: Accepted | None) -> Past:
        """What is known of the row's nights before, without this one."""
        return Past()

    def noise(self, run: Run, accepted: Accepted | None, tolerance: float) -> Noise | None:
        """By how much jobs of the row differ on its cluster."""
        return self.past(run, accepted).noise(tolerance)

    # -- each in its own way ------------------------------------------------------------------

    def with_earlier_jobs(self, run: Run) -> Run:
        """The run with the row's jobs before it, whose median its figure is."""
        return run

    @abstractmethod
    def check_logs(self, run: Run) -> None:
        """Make sure that logs are what they were when they were recorded, and of a job on the row's nodes.

        Raises:
            RunError: One has changed, or is of other nodes.
        """

    @abstractmethod
    def not_comparable(self, run: Run) -> str | None:
        """What makes the row's figures not comparable, or ``None``."""

    @abstractmethod
    def image_was_chosen(self, run: Run) -> bool:
        """Whether another image than the table's may be in the log, since the environment chose one."""

    @abstractmethod
    def definition(self, run: Run | None) -> str:
        """The row's definition when the run was started; empty where it was not written down."""

    @abstractmethod
    def environment(self, run: Run | None) -> dict[str, str]:
        """What the job ran with, as far as its log and its scheduler tell."""

    @abstractmethod
    def variables(self, run: Run | None) -> Mapping[str, str] | None:
        """The variables that the job was given, as a record keeps them; ``None`` where nobody knows them."""

    @abstractmethod
    def drift(self, run: Run, judged_s: float | None, accepted: Accepted | None, beside: Beside) -> str | None:
        """That the newest nights of the row, with this one, differ from its first ones beside the others; one line."""

    @abstractmethod
    def _image_beside_log(self, run: Run | None) -> tuple[str | None, str]: ...

    @abstractmethod
    def _says_simulated(self, run: Run | None) -> bool: ...


class LiveRow(RowSource):
    """A row that this session runs, or goes on with, or whose log it was pointed at.

    Args:
        baseline: The row.
        settings: The session's.
        launcher: How its jobs are started.
        nights: What earlier nights measured.
        environ: The session's environment.
        spec: How the session starts the row, or would; ``None`` where that is not known.
        submitted: What an earlier session submitted for the row, in one that goes on with it.
    """

    def __init__(
        self,
        baseline: Baseline,
        settings: Settings,
        launcher: Launcher,
        nights: Nights,
        environ: Mapping[str, str],
        spec: JobSpec | None = None,
        submitted: Submission | None = None,
    ) -> None:
        super().__init__(baseline, settings, spec)
        self.repeats, self.launcher = settings.repeats, launcher.name
        self._launcher, self._nights, self._environ = launcher, nights, environ
        self._submitted = submitted

    def check_logs(self, run: Run) -> None:
        """Nothing was recorded yet, but a script that submits its job itself may have asked for other nodes."""
        started = self._started()
        if started is None or not started.submits_itself:
            return
        for job in run.jobs:
            had = number_of(job.status.nodes) if job.status.state is JobState.COMPLETED else None
            if had is not None and had != started.nodes:
                raise JobError(
                    f"job {job.job_id} ran on {counted(had, 'node')}, and the row has {started.nodes}",
                    (("nodes", job.status.nodes), ("script", str(started.script)), ("log", str(job.log))),
                    advice="let the script ask for the row's nodes: the figures of others are not the row's",
                )

    def not_comparable(self, run: Run) -> str | None:
        """A profile or a trace of NCCL was asked for, here or by the environment."""
        if self.settings.profile is not None:
            return f"--gsw-profile={self.settings.profile.kind}"
        if in_traced_results(run.log):
            return "NCCL tracing"
        why = next((one.not_comparable for one in run.evidence if one.not_comparable is not None), None)
        if why is not None:
            return why
        started, variables = self._started(), self.variables(run)
        if variables is None and started is not None:
            variables = started.environment
        variable = profiling_in(variables or {})
        return None if variable is None else f"{variable} in the environment"

    def image_was_chosen(self, run: Run) -> bool:
        """The environment of the session that submitted it tells."""
        if self.baseline.recipe.image is None:
            return True
        submitted = self._submission_of(run)
        return (self._image_of_environment() if submitted is None else submitted.image) is not None

    def definition(self, run: Run | None) -> str:
        """It may have changed since an earlier session submitted the row."""
        now, submitted = self.definition_now(run), self._submission_of(run)
        if submitted is None or submitted.definition == definition_hash(self.baseline, submitted.image):
            return now
        return submitted.definition

    def environment(self, run: Run | None) -> dict[str, str]:
        """By the log, and the launcher's version."""
        if run is None:
            return {}
        version = getattr(self._launcher, "version", "")
        own = {self.launcher: version} if version else {}
        return {**self.provenance(run).versions, **self._told_beside(run), **own}

    def variables(self, run: Run | None) -> Mapping[str, str] | None:
        """Those that whoever submitted the job gave it."""
        known = self._submission_of(run) or self._started()
        return None if known is None else known.variables

    def _told_beside(self, run: Run) -> dict[str, str]:
        """What a file beside the log says, and that the GPUs' boost was turned up, which changes what is measured."""
        told = {name: value for one in run.evidence for name, value in one.environment.items()}
        if unset_boost(run) is not None:
            return {**told, "vboost": BOOST_NOT_SET}
        started = self._started()
        is_asked = started is not None and job_variable(self._environ, started, "ENABLE_VBOOST").lower() == "true"
        return {**told, "vboost": "true"} if is_asked else told

    def past(self, run: Run, accepted: Accepted | None) -> Past:
        """By the history."""
        definition, experiment = self.definition(run), self.experiment(run)
        return self._nights.past(self.baseline.id, definition, experiment, accepted, self.settings.run_id)

    def drift(self, run: Run, judged_s: float | None, accepted: Accepted | None, beside: Beside) -> str | None:
        """By the history."""
        if judged_s is None:
            return None
        first = run.jobs[0]
        tonight = Point(
            self.settings.run_id,
            first.job_id,
            first.status.end_s or time.time(),
            judged_s,
            outcome="",
            nodes=first.status.nodes,
            image=self.image(run)[0],
            environment=self.environment(run),
            variables=self.variables(run),
            definition=self.definition(run),
        )
        found = dataclasses.replace(self.past(run, accepted), beside=beside).with_tonight([tonight]).drifting
        return None if found is None else quoted(drift_text(found), os.environ)

    def _image_beside_log(self, run: Run | None) -> tuple[str | None, str]:
        submitted, of_table = self._submission_of(run), self.baseline.recipe.image
        if submitted is not None:
            return submitted.image, "environment" if submitted.image else ""
        named = self._image_of_environment()
        if named is not None:
            return named, "environment"
        return (None, "") if of_table is None else (image_name(of_table), "table")

    def _says_simulated(self, run: Run | None) -> bool:
        return self.provenance(run).is_simulated

    def _started(self) -> JobSpec | None:
        """How this session starts the row; how it would be started says nothing of a log that exists already."""
        return self.spec if self.settings.replay is None else None

    def _image_of_environment(self) -> str | None:
        started = self._started()
        return None if started is None else job_image(self._environ, started)

    def _submission_of(self, run: Run | None) -> Submission | None:
        """What an earlier session submitted, where that is what ran."""
        submitted = self._submitted
        return submitted if submitted is not None and run is not None and submitted.is_of(run.job_id) else None


class ReplayedRow(RowSource):
    """A row that an earlier session ran: what it recorded is known of it, and its logs are measured again."""

    def __init__(self, baseline: Baseline, settings: Settings, spec: JobSpec | None, record: Record) -> None:
        super().__init__(baseline, settings, spec)
        assert record.jobs.last is not None  # others are not replayed
        self.launcher = record.jobs.last.launcher
        self.repeats = Repeats(record.jobs.first_jobs, record.jobs.confirm_jobs)
        # The canary may not be replayed with it.
        self.was_excused = record.reason == Reason.CANARY.value
        self.slow_nodes = record.slow_nodes
        self.night = None if record.verdict is None else record.verdict.night
        self._record = record

    def with_earlier_jobs(self, run: Run) -> Run:
        """Those that were recorded."""
        jobs = self._record.jobs.repeats
        logs = [Path(job.log) if job.log else None for job in jobs]
        earlier = tuple(
            Run(job.id, job.status, log, beside=() if log is None else errors_beside(log))
            for job, log in zip(jobs, logs, strict=True)
        )
        return dataclasses.replace(run, earlier=earlier) if earlier else run

    def check_logs(self, run: Run) -> None:
        """By their sizes."""
        sizes = [*(job.log_bytes for job in self._record.jobs.repeats), self._record.run.log_bytes]
        for log, then in zip([job.log for job in run.jobs], sizes, strict=True):
            now = log.stat().st_size if log is not None and log.is_file() else None
            if then is not None and now is not None and now != then:
                raise LogError(
                    f"the log has changed since the run was recorded: {then:,} bytes then, {now:,} now",
                    evidence=(("log", str(log)),),
                    advice=f"to judge it as it is now, name it: --gsw-replay={log}",
                )

    def not_comparable(self, run: Run) -> str | None:
        """As recorded."""
        return quoted(self._record.not_comparable, os.environ)

    def image_was_chosen(self, run: Run) -> bool:
        """A record does not say that it was not."""
        return True

    def definition(self, run: Run | None) -> str:
        """As recorded."""
        return self._record.row.definition

    def experiment(self, run: Run | None) -> str:
        """As recorded."""
        return self._record.row.experiment

    def environment(self, run: Run | None) -> dict[str, str]:
        """As recorded."""
        return dict(self._record.run.environment)

    def variables(self, run: Run | None) -> Mapping[str, str] | None:
        """As recorded."""
        return self._record.run.variables

    def noise(self, run: Run, accepted: Accepted | None, tolerance: float) -> Noise | None:
        """What was known when the row was judged."""
        return None if self._record.verdict is None else self._record.verdict.noise

    def drift(self, run: Run, judged_s: float | None, accepted: Accepted | None, beside: Beside) -> str | None:
        """As recorded."""
        return self._record.drift

    def _image_beside_log(self, run: Run | None) -> tuple[str | None, str]:
        return self._record.run.image, self._record.run.image_from

    def _says_simulated(self, run: Run | None) -> bool:
        return self._record.run.simulated
