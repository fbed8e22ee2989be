"""A row of a session that runs rows: its job, its log, its verdict and its record.

A row's set-up waits for its job, reads its log and judges it; its call reports the verdict.
Any obstacle before a verdict, such as a hook that raises, is therefore an ERROR (JUnit
``<error>``), and a regression is a FAILURE.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import pytest

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.node_lists import compressed, expand, number_of
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import plural
from pytest_gsw.errors import INTERRUPTED, HookError, IncompleteLogError, JobError, LogError, RunError, TakenOverError
from pytest_gsw.history.comparison import drift_text
from pytest_gsw.history.model import Point, points_of
from pytest_gsw.history.row_history import RowHistory
from pytest_gsw.hook_checks import hook_error
from pytest_gsw.jobs.journal import Submission
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.layout import error_files_of, in_traced_results, is_nccl_traced
from pytest_gsw.jobs.model import BOOST_NOT_SET, JobSpec
from pytest_gsw.jobs.spec import job_image, job_variable, profiling_in, steps_of
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.logs.reader import read_log
from pytest_gsw.results import junit, outcomes, row_text
from pytest_gsw.results.make_record import RowResult, job_facts, record_of, row_facts, saved_gpu_hours
from pytest_gsw.results.record import NO_CLUSTER, AmongTiles, JobFacts, Jobs, Record, RunFacts, write_record
from pytest_gsw.results.row_text import (
    accepted_text,
    has_failed,
    ignored_text,
    informative_line,
    outdated_text,
    reported_status,
    unused_text,
)
from pytest_gsw.results.suggested_commands import repeat_commands
from pytest_gsw.session.collect import fail
from pytest_gsw.session.judging import Judge, excused, not_comparable
from pytest_gsw.session.session_history import SessionHistory
from pytest_gsw.session.settings import (
    CANARIES,
    CLUSTER_PEERS,
    EXECUTOR,
    NODE_PROBES,
    SESSION_HISTORY,
    SETTINGS,
    SWEEP,
    Settings,
)
from pytest_gsw.session.terminal import OUTCOME_COUNTS
from pytest_gsw.stats.cluster_effect import ClusterEffect
from pytest_gsw.stats.decision import Done, Outcome, Repeat, Undecided, is_known
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.stats.verdict import UNUSUAL, Reason, Verdict, after_search, compare
from pytest_gsw.tables.metrics import STEP_TIME, Metric
from pytest_gsw.tables.model import Accepted, Baseline, accepted_for, definition_hash, experiment_hash, image_name
from pytest_gsw.validation.agreement import Evidence, Provenance, provenance_in
from pytest_gsw.validation.completeness import check_steps
from pytest_gsw.validation.job_end import check_job, check_tile
from pytest_gsw.validation.log_identity import check_identity, read_identity
from pytest_gsw.validation.measure import of_all_jobs, timed_steps
from pytest_gsw.validation.run import Run, ran_out_of_memory, unset_boost

# -- The two sources of an ended row: a job of this session or a given log, and an earlier record ---
#
# Both have the same interface: measuring and judging do not depend on the source.


_Error = TypeVar("_Error", bound=RunError)


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


@dataclass(eq=False)
class LiveRow:
    """The facts of an ended row besides its steps: of a row that this session runs or resumes, or of a given log."""

    baseline: Baseline
    settings: Settings
    launcher: Launcher
    #: Results of earlier runs.
    session_history: SessionHistory
    #: The session's environment.
    environ: Mapping[str, str] = field(repr=False)
    #: The row's job in this session; ``None`` if unknown.
    spec: JobSpec | None = None
    #: The submission of an earlier session, if this one resumes it.
    submitted: Submission | None = None
    #: Software of jobs whose logs were read, by their ids.
    provenance: dict[str, Provenance] = field(default_factory=dict, init=False)
    #: The image and its source, once found.
    _image: tuple[str | None, str] | None = field(default=None, init=False)
    #: Circumstances of the last job and log.
    _circumstances: tuple[tuple[str, Path | None] | None, Circumstances] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.cluster = self.settings.cluster.name if self.settings.cluster else None
        #: Limits on the row's jobs, recorded ones for a replay; and the launcher of its last job.
        self.repeats, self.launcher_name = self.settings.repeats, self.launcher.name
        #: True if a recorded run was excused by a canary row.
        self.was_excused = False
        #: The recorded effects on its outcome: of slow nodes, in words, and of the cluster on the rows of its run.
        self.slow_nodes: str | None = None
        self.cluster_effect: ClusterEffect | None = None
        #: Of a tile, its jobs of the search.
        self.search: list[JobFacts] = []

    def shown(self, error: _Error) -> _Error:
        """An error without the secrets of the session's environment and of the job's."""
        return redact(error, os.environ, self.spec.environment if self.spec else {})

    def is_traced(self, run: Run) -> bool:
        """True if a run did only the few steps of an NCCL trace."""
        return in_traced_results(run.log) or (self.spec is not None and is_nccl_traced(self.spec.environment))

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

    def accepted(self, run: Run) -> tuple[Accepted | None, Accepted | None]:
        """The cluster's accepted figure for the row: first if it applies, second if it does not."""
        ran = self.circumstances(run)
        accepted, unused = accepted_for(self.baseline, self.cluster, ran.definition_now)
        return (accepted, unused) if ran.definition == ran.definition_now else (None, accepted or unused)

    def past(self, run: Run, accepted: Accepted | None) -> RowHistory:
        """The row's history without this run; cached."""
        ran, row_id, run_id = self.circumstances(run), self.baseline.row_id, self.settings.run_id
        return self.session_history.past(row_id, ran.definition, ran.experiment, accepted, run_id)

    def noise(self, run: Run, accepted: Accepted | None, tolerance: float) -> Noise | None:
        """The noise between jobs of the row on its cluster."""
        return self.past(run, accepted).noise(tolerance)

    def with_earlier_jobs(self, run: Run) -> Run:
        """The run with the row's earlier jobs, over which its figure is the median."""
        return run

    def check_logs(self, run: Run) -> None:
        """Check that logs are unchanged since they were recorded, and belong to a job on the row's nodes.

        A live row has no record yet, but a script that submits its job itself may have requested other nodes.

        Raises:
            RunError: A log has changed, or its job ran on other nodes.
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
        """True if the log may have another image than the table's, chosen by the submitter's environment."""
        if self.baseline.recipe.image is None:
            return True
        return self._image_at_start(self._submission_of(run))[1] == "environment"

    def drift(self, past: RowHistory, points: Sequence[Point]) -> str | None:
        """The drift of the row's newest runs, with the jobs of this one, in one line; else ``None``."""
        is_usual = past.points and points[0].reason not in UNUSUAL
        found = past.including_run(points).drifting if is_usual else None
        return None if found is None else redact(drift_text(found), os.environ)

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
        found = {**written.versions, **{name: value for one in run.evidence for name, value in one.environment.items()}}
        if unset_boost(run) is not None:
            found["vboost"] = BOOST_NOT_SET
        elif started is not None and job_variable(self.environ, started, "ENABLE_VBOOST").lower() == "true":
            found["vboost"] = "true"
        version = self.launcher.version
        return {**found, self.launcher_name: version} if version else found

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
class ReplayedRow(LiveRow):
    """A row of an earlier session: its facts come from the record, and its logs are measured again."""

    record: Record = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        record = self.record
        assert record.jobs.last is not None  # others are not replayed
        self.launcher_name = record.jobs.last.launcher
        self.repeats = Repeats(record.jobs.first_jobs, record.jobs.confirm_jobs)
        # The canary may not be replayed with it.
        self.was_excused = record.reason == Reason.CANARY.value
        self.slow_nodes = record.slow_nodes
        self.cluster_effect = None if record.verdict is None else record.verdict.cluster_effect
        self.search += record.jobs.search

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
        """Check the sizes of the logs against the record."""
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

    def _circumstances_of(self, run: Run | None) -> Circumstances:
        row, ran, cluster = self.record.row, self.record.run, self.settings.cluster
        return Circumstances(
            image=ran.image,
            image_from=ran.image_from,
            definition=row.definition,
            definition_now=definition_hash(self.baseline, ran.image),
            experiment=row.experiment,
            environment=ran.environment,
            variables=ran.variables,
            is_simulated=ran.simulated or (cluster is not None and cluster.simulated),
        )

    def noise(self, run: Run, accepted: Accepted | None, tolerance: float) -> Noise | None:
        """The noise recorded with the verdict."""
        return None if self.record.verdict is None else self.record.verdict.noise

    def drift(self, past: RowHistory, points: Sequence[Point]) -> str | None:
        """The recorded drift."""
        return self.record.drift


# -- One row: its measurements, its verdict, and the decision on one more job -----------------------


#: A job's id and its times, because a scheduler that lost its state assigns ids again.
_JobKey = tuple[str, float | None, float | None, float | None]


def _job_key(job_id: str, status: JobStatus) -> _JobKey:
    return job_id, status.submit_s, status.start_s, status.end_s


def _is_same_loss(verdict: Verdict, previous_failed: Sequence[float]) -> bool:
    """True if the row failed with the same loss in the previous run, and no other metric needs confirmation."""
    if verdict.own is not Outcome.REGRESSED or verdict.noise is None or any(one.more for one in verdict.metrics):
        return False
    facts = verdict.jobs or (verdict.measured,), verdict.reference, verdict.tolerance, verdict.noise
    return is_known(*facts, previous_failed, verdict.metric.direction)


@dataclass(frozen=True)
class RowPlan:
    """A row as the session runs it: the results of hooks, called once, before anything is submitted."""

    baseline: Baseline
    node_id: str
    #: The spec of its job, or the error that prevents it.
    spec: JobSpec | RunError
    #: The format of its logs, and the peak of its accelerator; ``None`` if no plugin provides it.
    log_format: LogFormat | None = None
    peak_flops: float | None = None
    #: The site's metrics, by key.
    metrics: Mapping[str, Metric] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """Facts besides a row's own jobs that decide on one more job."""

    repeats: Repeats
    #: True with ``gsw_strict``: a row that is too fast fails as well.
    strict: bool = False
    #: The figures of its jobs in the previous run, if it failed there.
    previous_failed: Sequence[float] = ()
    #: The nodes that are known to make jobs slow.
    slow_nodes: Sequence[str] = ()


def decide(run: Run, verdicts: Sequence[Verdict], context: Context) -> Repeat | Undecided | Done:
    """Decide if a row that has had its first jobs needs one more.

    Args:
        run: Its jobs so far.
        verdicts: Its verdicts for each effect of the cluster that is still possible.
        context: All other facts of the decision.
    """
    jobs, repeats = len(run.jobs), context.repeats
    if len({(one.outcome, one.reason, one.more) for one in verdicts}) != 1:
        return Undecided()
    verdict = verdicts[0]
    if jobs >= repeats.most:
        return Done()
    fails = has_failed(verdict.outcome.value, verdict.reason.value, strict=context.strict)
    is_too_fast = fails and verdict.outcome is Outcome.IMPROVED
    if not (fails if verdict.more is None or is_too_fast else verdict.more > 0):
        return Done()
    if all(_is_same_loss(one, context.previous_failed) for one in verdicts):
        return Done()
    confirmed = f"to be confirmed ({jobs - repeats.first + 1} of {repeats.confirm})"
    own = tuple(dict.fromkeys(job.status.nodes for job in _odd_jobs(run, verdict) if job.status.nodes))
    there = {node for nodes in own for node in expand(nodes)}
    slow = (node for node in context.slow_nodes if node not in there)
    return Repeat(f"{row_text.jobs_change(verdict)}, {confirmed}", (*own, *slow))


def _odd_jobs(run: Run, verdict: Verdict) -> Sequence[Run]:
    """The jobs that are beyond the tolerance by themselves, whose nodes may be why; all of them if none is."""
    figures, direction = verdict.jobs if verdict.own_outcome is None else (), verdict.metric.direction
    odd = [
        job
        for job, figure in zip(run.jobs, figures, strict=False)
        if compare(figure, verdict.reference, verdict.tolerance, direction) is not Outcome.PASSED
    ]
    return odd or run.jobs


class SessionRow:
    """One row of a session, from its ended jobs to its record.

    Args:
        config: pytest's.
        plan: The row.
        source: Its facts; the session adds its job's spec, or replaces it by the record of an earlier run.
        properties: JUnit properties of pytest's reports of the row; those of its record are added.
    """

    def __init__(
        self, config: pytest.Config, plan: RowPlan, source: LiveRow, properties: list[tuple[str, object]]
    ) -> None:
        self.baseline, self.plan, self.source = plan.baseline, plan, source
        self._config, self._properties = config, properties
        self._settings, self._executor = config.stash[SETTINGS], config.stash[EXECUTOR]
        self._session_history, self._peers = config.stash[SESSION_HISTORY], config.stash[CLUSTER_PEERS]
        self._canaries = config.stash[CANARIES]
        self._judge_hooks = Judge(config, self.baseline, plan.log_format, plan.peak_flops, plan.metrics)
        #: Evidence from files next to each job's log.
        self._evidence: dict[_JobKey, tuple[Evidence, ...]] = {}
        #: The row's record, once it is written.
        self.record: Record | None = None
        #: Each job's measurement, and the settings in its log that match the row; no measurement if it should fail.
        self._jobs: dict[_JobKey, tuple[Measurement | None, dict[str, str]]] = {}
        #: pytest's outcome of the row, and the report's text; passed until it is judged.
        self.judged = ("passed", "")
        #: The error of a hook that observes the row's job.
        self.hook_failure: HookError | None = None
        #: The most likely error line of a failed job whose cause is unknown.
        self.said = ""
        #: Start of a regression, and the changes at that time.
        self._since: tuple[tuple[str, str], ...] = ()
        #: The newer jobs that a replay skipped, and the age of the one that it judges.
        self.passed_over: str | None = None
        #: The report of a result that could not be written.
        self.not_written = ""

    @cached_property
    def tolerance(self) -> float:
        """The accepted loss of throughput: the cluster's or the command line's, else the row's own."""
        return self._settings.tolerance or self.baseline.tolerance

    def set_up(self) -> None:
        """Wait for the job, measure its log, and judge; the row of a run that was taken over is left open."""
        try:
            self._set_up()
        except TakenOverError as error:
            pytest.skip(str(error))

    def _set_up(self) -> None:
        run: Run | None = None
        try:
            run = self._executor.result_of(self.baseline.id)
            run = self._with_evidence(self.source.with_earlier_jobs(run))
            self.judged = self._conclude(run, interrupted=self._executor.interrupted)
        except TakenOverError:
            raise
        except RunError as error:
            fail(self._error_text(error, run))
        except Exception as error:
            fail(self._error_text(hook_error(error, self._config.pluginmanager), run))

    def measured(self, run: Run) -> Measurement:
        """The measurement of an ended job, which is not judged.

        Raises:
            RunError: It cannot be measured.
        """
        try:
            run = self._with_evidence(run)
            self.source.check_logs(run)
            measurement = self._measure(run)
        except RunError:
            raise
        except Exception as error:  # in a site's own format
            raise hook_error(error, self._config.pluginmanager) from None
        if measurement is None or self.source.not_comparable(run) is not None:
            raise JobError(f"job {run.job_id} is no measure: it should fail, or was profiled")
        return measurement

    def noise(self, run: Run) -> Noise | None:
        """The noise between jobs of the row on its cluster."""
        return self.source.noise(run, self.source.accepted(run)[0], self.tolerance)

    def report(self) -> None:
        """Report the verdict of the set-up to pytest."""
        kind, text = self.judged
        if kind == "skipped":
            pytest.skip(text)
        if kind == "failed":
            fail(text)

    def leave_error(self, error: RunError) -> str:
        """Record an error from outside the row's set-up, and return the text of its report."""
        try:
            return self._error_text(error, None)
        except pytest.fail.Exception:
            return self.not_written

    def _expected_failure(self, run: Run) -> None:
        """Report that the row ran out of memory, as documented."""
        if run.log is not None:
            check_identity(self.baseline, run, read_identity(run.log, self.baseline.log_format))
        fact = "ran out of memory, as documented"
        self._record(RowResult(outcomes.EXPECTED_FAILURE.word, fact), run)
        pytest.xfail(fact)
        fail(fact)  # with --runxfail

    def _conclude(self, run: Run, *, interrupted: bool) -> tuple[str, str]:
        """Measure, judge and record a run; return pytest's outcome and the text of the report.

        Raises:
            RunError: It cannot be judged.
        """
        self.source.check_logs(run)
        if self.hook_failure is not None:
            raise self.hook_failure
        if self.baseline.expected_failure and ran_out_of_memory(run):
            self._expected_failure(run)
        measurement = self._measure(run)
        # An interrupted session does not judge a row by fewer jobs than it needs.
        if interrupted and not isinstance(self.decide(run), Done):
            had = plural(len(run.jobs), "job")
            raise JobError(f"{INTERRUPTED}: the row had {had}, and was to have more", advice="run it again")
        if measurement is None:
            fact = "is documented to run out of memory, but its job completed"
            found = RowResult(outcomes.UNEXPECTED_SUCCESS.word, fact)
        else:
            found = self._judge(run, measurement)
        record = self._record(found, run)
        facts, strict = partial(self._facts, record, self._since), self._settings.strict
        row = reported_status(record, facts, strict=strict, verdict=found.verdict, canaries=self._canaries)
        return row.outcome.pytest, row.text

    # -- its measurements: each log is read once ----------------------------------------------

    def check(self, run: Run) -> RunError | None:
        """Measure a job that ended well by its files as they are now; return its error, ``None`` if it has none."""
        key = _job_key(run.job_id, run.status)
        self._jobs.pop(key, None)
        self._evidence.pop(key, None)
        try:
            run = self._with_evidence(run)
            self._measure(run)
        except IncompleteLogError as error:
            return error
        except LogError as error:
            return self._incompleteness(run) or error
        except RunError as error:
            return error
        except Exception as error:  # in a site's own format
            return hook_error(error, self._config.pluginmanager)
        return None

    def _incompleteness(self, run: Run) -> IncompleteLogError | None:
        """The missing end of a log with another error: later steps may show that a failure was none."""
        baseline, log_format = self.baseline, self.plan.log_format
        if run.log is None or log_format is None:
            return None
        try:
            log = read_log(run.log, log_format)
            steps = steps_of(baseline, traced=self.source.is_traced(run))
            check_steps(baseline, run, log, timed_steps(baseline, log), steps, log_format.first_index)
        except RunError as error:
            return error if isinstance(error, IncompleteLogError) else None
        return None

    def _with_evidence(self, run: Run) -> Run:
        """A run and its earlier jobs, with the evidence of hooks from files next to their logs.

        Raises:
            HookError: A hook raised, or returned an invalid result.
        """
        key = _job_key(run.job_id, run.status)
        if key not in self._evidence:
            self._evidence[key] = self._judge_hooks.evidence_of(run)
        evidence, earlier = self._evidence[key], tuple(map(self._with_evidence, run.earlier))
        return replace(run, evidence=evidence, earlier=earlier) if evidence or earlier else run

    def _measure(self, run: Run) -> Measurement | None:
        """The measurement of the row's jobs so far; ``None`` if it is documented to fail.

        Raises:
            RunError: The last one did not end well, or on other nodes than its tile's, or one cannot be measured.
        """
        keys = [_job_key(job.job_id, job.status) for job in run.jobs]
        if keys[-1] not in self._jobs:
            check_job(run, self.baseline.recipe.may_fail)
            check_tile(run, self.baseline.tile)
        for key, job in zip(keys, run.jobs, strict=True):
            if key not in self._jobs:
                self._jobs[key] = self._read(job)
        measured = [self._jobs[key][0] for key in keys]
        found = [one for one in measured if one is not None]
        return measured[-1] if len(found) < 2 else of_all_jobs(self.baseline, found, self.plan.peak_flops)

    def _measurement_of(self, job_id: str, status: JobStatus) -> Measurement | None:
        """The measurement of one job by itself, if it was measured."""
        return self._jobs.get(_job_key(job_id, status), (None, {}))[0]

    def _read(self, run: Run) -> tuple[Measurement | None, dict[str, str]]:
        run = replace(run, image_was_chosen=self.source.image_was_chosen(run))
        _, measurement, agreed, provenance = self._judge_hooks.read(run, traced=self.source.is_traced(run))
        self.source.provenance[run.job_id] = provenance
        return measurement, agreed

    # -- its record: for the run's directory, observers, the history and JUnit ---------------

    def _record(self, found: RowResult, run: Run | None) -> Record:
        """Record a result, and pass the record to JUnit and to observers."""
        source, row = self.source, self.baseline
        ran = source.circumstances(run)
        facts = row_facts(row, self.plan.node_id, self.tolerance, ran.definition, ran.experiment)
        made = record_of(row, facts, self._run_facts(run), self._jobs_facts(run), found, self.plan.peak_flops)
        probes = self._config.stash.get(NODE_PROBES, None)
        seen = None if probes is None or run is None else redact(probes.facts_of(run.job_id), os.environ)
        made = replace(self._with_history(made, run), passed_over=self.passed_over, facts=seen)
        try:
            record, failure = self._save(made)
        except OSError as error:
            # Without its record, the result does not count.
            self.not_written = (
                f"the record cannot be written: {error.strerror}: {error.filename or self._settings.run_directory}\n"
                f"the result would have been: {made.outcome}: {made.fact}\n"
                "next       make room there, or give another directory with --gsw-results=DIR"
            )
            fail(self.not_written)
        self.record = record
        self._properties.extend(junit.properties(record))
        if failure is not None and found.outcome != outcomes.ERROR.word:
            fail(row_text.error_text(failure, self._facts(record)))
        return record

    def _jobs_facts(self, run: Run | None) -> Jobs:
        """Facts of the row's jobs; without a run its last one has not ended."""
        source, executor, row_id = self.source, self._executor, self.baseline.id

        def facts(job_id: str, status: JobStatus, run: Run | None) -> JobFacts:
            return job_facts(job_id, source.launcher_name, status, run, self._measurement_of(job_id, status))

        job_id, status = (run.job_id, run.status) if run else (executor.job_id(row_id), executor.status(row_id))
        earlier, attempts = executor.earlier(row_id) if run is None else run.earlier, executor.attempts(row_id)
        return Jobs(
            last=None if job_id is None or status is None else facts(job_id, status, run),
            attempts=tuple(
                JobFacts.of(one.job_id, executor.launcher.name, one.status, why_repeated=one.why) for one in attempts
            ),
            repeats=tuple(facts(job.job_id, job.status, job) for job in earlier),
            first_jobs=source.repeats.first,
            confirm_jobs=source.repeats.confirm,
            search=tuple(source.search),
            saved_gpu_hours=saved_gpu_hours(run, self.baseline),
        )

    def _run_facts(self, run: Run | None) -> RunFacts:
        """Facts of the run for its record, except its log."""
        source, settings = self.source, self._settings
        agreed = {} if run is None else self._jobs.get(_job_key(run.job_id, run.status), (None, {}))[1]
        ran = source.circumstances(run)
        written = (dict(ran.environment), ran.variables, ran.image, agreed)
        environment, variables, image, compared = redact(written, os.environ)
        return RunFacts(
            id=settings.run_id,
            cluster=source.cluster or NO_CLUSTER,
            clusters_file=None if settings.cluster is None else settings.cluster.given_file,
            options=settings.row_options,
            tile_options=settings.tile_options,
            simulated_faults=settings.faults,
            replay=settings.replay_option,
            simulated=ran.is_simulated,
            recorded_s=time.time(),
            outputs=() if run is None else tuple([str(path) for name, path in run.outputs if name != "log"]),
            image=image,
            image_from=ran.image_from,
            environment=environment,
            variables=variables,
            compared=compared,
        )

    def _save(self, record: Record) -> tuple[Record, HookError | None]:
        """Write a record, pass it to observers, and queue it for the history.

        Returns:
            The record, which is an error if an observer has raised one, and that error.

        Raises:
            OSError: It cannot be written.
            TakenOverError: Another session writes it.
        """
        self._executor.journal.check()
        config, directory = self._config, self._settings.run_directory
        failure: HookError | None = None
        written = write_record(directory, record)
        try:
            config.hook.pytest_gsw_run_recorded(config=config, record=record)
        except Exception as error:
            failure = self.source.shown(hook_error(error, self._config.pluginmanager))
            record = replace(record, outcome=outcomes.ERROR.word, fact=failure.fact)
            written = write_record(directory, record)
        if self._settings.replay is None:  # a replayed run is in the history already
            self._session_history.keep(record, written)
        config.stash[OUTCOME_COUNTS].records[written.name] = record
        return record, failure

    def _facts(self, record: Record, since: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """Facts below a report, each with its name: since when, paths, and the commands to repeat it."""
        directory = relative_path(self._settings.run_directory)
        return [*since, *row_text.run_facts(record), *repeat_commands(record, directory)]

    def _with_history(self, record: Record, run: Run | None) -> Record:
        """The record with the drift of its row, and the alarms; none for a replay, which adds no run."""
        points = points_of(record)
        if run is None or not points or self.baseline.tile:
            return record
        adjustment = self._peers.adjustment_for(None if record.verdict is None else record.verdict.cluster_effect)
        past = replace(self.source.past(run, self.source.accepted(run)[0]), adjustment=adjustment)
        record = replace(record, drift=self.source.drift(past, points))
        is_wrong = record.by_own_metric == outcomes.REGRESSED.word or record.drift
        if not is_wrong or self._settings.replay is not None:
            return record
        # Imported late: few rows have alarms.
        from pytest_gsw.session.session_report import row_alarms

        text, self._since = row_alarms(record, past, self._session_history.acknowledged)
        return replace(record, alarms=text)

    def _error_text(self, error: RunError, run: Run | None) -> str:
        """Record an error, and return the text of the row's report."""
        error = self.source.shown(error)
        self.said = informative_line(error.tail)
        advice = None if isinstance(error, JobError) else error.advice or None
        record = self._record(RowResult(outcomes.ERROR.word, error.fact, advice=advice), run)
        return row_text.error_text(error, self._facts(record))

    # -- its verdict --------------------------------------------------------------------------

    def _judge(self, run: Run, measurement: Measurement) -> RowResult:
        """Judge the measurement of a row's last job, or of all its jobs together.

        Raises:
            HookError: A plugin's rule returned an invalid verdict.
        """
        baseline, source = self.baseline, self.source
        accepted, unused = source.accepted(run)
        verdict = self._with_canaries(self._apply_rule(run, measurement, accepted, self._cluster_effect()))
        not_comparable = source.not_comparable(run)
        verdict, among_tiles = self._among_tiles(verdict)
        tokens_per_s = measurement.figures.tokens_per_s if baseline.judged_by is STEP_TIME else None
        documented = dict(vars(baseline.documented))
        own = row_text.verdict_fact(documented, verdict, tokens_per_s, source.cluster or "")
        slow_nodes = self._slow_nodes(run, verdict)
        of_tile = () if among_tiles is None else row_text.tile_texts(among_tiles)
        parts = (*of_tile, row_text.row_fact(own, verdict), measurement.doubt, slow_nodes)
        fact = "; ".join(filter(None, parts))
        return RowResult(
            outcomes.PROFILED.word if not_comparable else verdict.outcome.value,
            redact(fact, os.environ),  # names of ranks in a log are arbitrary text
            not_comparable,
            self._accepted_note(accepted, unused, verdict, run),
            slow_nodes=redact(slow_nodes, os.environ),
            remarks=redact(", ".join(measurement.remarks) or None, os.environ),
            measurement=measurement,
            verdict=replace(verdict, given_reason=verdict.reason),
            among_tiles=among_tiles,
        )

    def _among_tiles(self, verdict: Verdict) -> tuple[Verdict, AmongTiles | None]:
        """The verdict of a tile after the others have ended, and what they show of it.

        Raises:
            JobError: The session was interrupted before.
        """
        sweep, row = self._config.stash.get(SWEEP, None), self.baseline
        if not row.tile or sweep is None:
            return verdict, None
        of_row = sweep.result_of(row.row_id)
        if of_row is None:
            raise JobError(f"{INTERRUPTED}: the other tiles of the row had not ended", advice="run it again")
        found = sweep.on_tile(of_row, row.tile)
        if found is None:
            return verdict, None
        verdict = after_search(
            verdict,
            of_row.level if sweep.has_search else None,
            is_slow=any(sweep.fails(one, self.tolerance) for one in found.named),
            is_open=len(found.findings) > len(found.named),
            has_other_loss=bool(found.other_loss),
        )
        return verdict, found

    def decide(self, run: Run) -> Repeat | Undecided | Done:
        """Measure a job that ended well, with those before it, and decide if the row needs one more.

        Raises:
            RunError: The job cannot be measured.
        """
        settings, jobs = self.source.settings, len(run.jobs)
        repeats = settings.repeats
        may_change = self._peers.effect_may_change and not self.baseline.tile
        if self.baseline.expected_failure or (jobs >= repeats.most and not may_change):
            return Done()
        run = self._with_evidence(run)
        if self.source.not_comparable(run) is not None:
            return Done()
        measurement = self._measure(run)
        assert measurement is not None  # rows that should fail are not measured, and have returned above
        self._note_first_job(run)
        if jobs < repeats.first:
            reached = self.baseline.judged_by.text(measurement.judged)
            return Repeat(f"{reached}, to be repeated ({jobs} of {repeats.first})")
        if self._canaries:
            return Done()  # further jobs would not change it: the run is inconclusive
        accepted = self.source.accepted(run)[0]
        verdicts = [
            self._apply_rule(run, measurement, accepted, cluster_effect) for cluster_effect in self._possible_effects()
        ]
        before, slow = self.source.past(run, accepted).previous_failed, self._session_history.slow_nodes
        return decide(run, verdicts, Context(repeats, settings.strict, before, slow))

    def _note_first_job(self, run: Run) -> None:
        """Add the figure of the first job to the cluster's effect; a row that has changed since is not comparable."""
        if self.baseline.tile:
            return  # tiles of one row are no evidence of all rows
        first = run.jobs[0]
        measurement = self._measurement_of(first.job_id, first.status)
        figure = measurement.judged if measurement and self.source.circumstances(run).experiment else None
        had_slow_node = self._session_history.had_slow_node(first.status.nodes, first.status.end_s or time.time())
        self._peers.add_first_job(self.baseline.id, figure, had_slow_node=had_slow_node)

    def _possible_effects(self) -> tuple[ClusterEffect | None, ...]:
        """Possible effects of the cluster on the row; none for a canary, which measures the cluster itself."""
        if self.baseline.canary or self.baseline.tile:
            return (None,)
        return self._peers.possible_effects(self.baseline.id, self.tolerance)

    def _cluster_effect(self) -> ClusterEffect | None:
        if self.baseline.canary or self.baseline.tile:
            return None
        return self.source.cluster_effect or self._peers.effect_so_far(self.baseline.id, self.tolerance)

    def _with_canaries(self, verdict: Verdict) -> Verdict:
        """The verdict; a loss is inconclusive if a canary row shows that the cluster is not in its usual state."""
        if self.baseline.canary and verdict.own is Outcome.REGRESSED:
            self._canaries.append(self.baseline.id)
        if verdict.outcome is not Outcome.REGRESSED or not (self._canaries or self.source.was_excused):
            return verdict
        return excused(verdict)

    def _slow_nodes(self, run: Run, verdict: Verdict) -> str | None:
        """A slow node as the explanation of a regression, and the nodes avoided by its confirming jobs, in words."""
        if verdict.own is not Outcome.REGRESSED or verdict.reason is Reason.SLOW_NODE:  # which says it
            return None
        slow = self._session_history.slow
        if not slow:
            return self.source.slow_nodes
        # Imported late: only a session with slow nodes needs these texts.
        from pytest_gsw.history.comparison import explaining, suspect_text

        jobs = [(job.status.nodes, job.status.end_s or time.time()) for job in run.jobs]
        found = explaining(slow, verdict, jobs)
        texts = [] if found is None else [f"explained by {suspect_text(found)}"]
        avoided = self._session_history.slow_nodes
        if avoided and len(jobs) > self.source.settings.repeats.first:
            texts.append(f"confirming jobs were to avoid {compressed(avoided)}")
        return "; ".join(texts) or None

    def _accepted_note(
        self, accepted: Accepted | None, unused: Accepted | None, verdict: Verdict, run: Run
    ) -> str | None:
        """A note on the cluster's own figure, if it has one."""
        metric = self.baseline.judged_by
        if unused is not None:
            ran = self.source.circumstances(run)
            if ran.definition != ran.definition_now:
                return outdated_text(unused, ran.definition, ran.definition_now, metric)
            return unused_text(self.baseline, unused, ran.definition_now, redact(ran.image, os.environ))
        if accepted is None:
            return None
        return ignored_text(accepted, metric) if verdict.accepted is None else accepted_text(accepted, metric)

    def _apply_rule(
        self, run: Run, measurement: Measurement, accepted: Accepted | None, cluster_effect: ClusterEffect | None
    ) -> Verdict:
        """The verdict of the session's rule, and of the site's metrics that the row documents."""
        return self._judge_hooks.verdict(
            measurement,
            self._settings.tolerance,
            accepted,
            self.source.noise(run, accepted, self.tolerance),
            self.source.repeats,
            self._settings.max_gain or self.baseline.max_gain,
            cluster_effect,
        )
