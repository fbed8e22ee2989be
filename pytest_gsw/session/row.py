"""A row of a session that runs rows: its job, its log, its verdict and its record.

A row's set-up waits for its job, reads its log and asks the rule; its call tells what came of it.
So whatever keeps a row from being judged, a hook that raises included, is an ERROR (JUnit
``<error>``), and a regression is a FAILURE.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import plural
from pytest_gsw.errors import INTERRUPTED, HookError, JobError, LogError, RunError
from pytest_gsw.history.comparison import drift_text
from pytest_gsw.history.model import Point
from pytest_gsw.history.row_history import ClusterAdjustment, RowHistory
from pytest_gsw.hooks.checks import hook_error, wrong_answer
from pytest_gsw.jobs.environment import job_image, job_variable
from pytest_gsw.jobs.journal import Submission
from pytest_gsw.jobs.layout import errors_beside, in_traced_results, is_nccl_traced
from pytest_gsw.jobs.model import BOOST_NOT_SET, JobSpec, JobState, JobStatus, Launcher
from pytest_gsw.jobs.spec import profiling_in, steps_of
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.results import junit, outcomes, row_text, suggested_commands
from pytest_gsw.results.make_record import RowResult, job_facts, record_of, row_facts, saved_gpu_hours
from pytest_gsw.results.node_lists import compressed, expand, number_of
from pytest_gsw.results.record import NO_CLUSTER, JobFacts, Jobs, Record, RunFacts, write_record
from pytest_gsw.results.row_text import (
    accepted_text,
    has_failed,
    ignored_text,
    outdated_text,
    telling_line,
    told,
    unused_text,
)
from pytest_gsw.session.collect import fail
from pytest_gsw.session.session_history import SessionHistory
from pytest_gsw.session.settings import CANARIES, CLUSTER_PEERS, EXECUTOR, SESSION_HISTORY, SETTINGS, Settings
from pytest_gsw.session.terminal import OUTCOME_COUNTS
from pytest_gsw.stats.cluster_effect import ClusterEffect
from pytest_gsw.stats.decision import Done, Repeat, Repeats, Undecided, is_known
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.verdict import UNUSUAL, MetricVerdict, Outcome, Reason, Verdict, judge_metric, with_metrics
from pytest_gsw.tables.metrics import STEP_TIME, Metric
from pytest_gsw.tables.model import Accepted, Baseline, accepted_for, definition_hash, experiment_hash, image_name
from pytest_gsw.validation.agreement import Evidence, Provenance, provenance_in
from pytest_gsw.validation.checks import agreed_with_row, check_identity, check_job, read_identity, read_steps
from pytest_gsw.validation.measure import measure, of_all_jobs, read_metrics
from pytest_gsw.validation.run import Run, ran_out_of_memory, unset_boost

# -- The two sources of an ended row: a job of this session or a log that it was pointed at, and an earlier record
#
# Both answer the same questions: who measures and judges need not ask which of the two a row is of.


_Error = TypeVar("_Error", bound=RunError)


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What a row's job ran with, and what follows from that; of a replayed run, as it was recorded."""

    #: The container image, and what names it: the log, the environment, the table.
    image: str | None
    image_from: str
    #: The row's definition when its job was started, and by its table as it is now.
    definition: str
    definition_now: str
    #: The definition without image and release; empty if the row has changed since its job was started.
    experiment: str
    #: What its log and its launcher say that it ran with, and the variables that it was given; ``None`` if not known.
    environment: Mapping[str, str]
    variables: Mapping[str, str] | None
    #: Whether the figures are made up.
    is_simulated: bool


class LiveRow:
    """What is known of an ended row besides its steps: one that this session runs or goes on with, or a log.

    Args:
        baseline: The row.
        settings: The session's.
        launcher: How its jobs are started.
        runs: What earlier runs measured.
        environ: The session's environment.
        spec: How the session starts the row, or would; ``None`` where that is not known.
        submitted: What an earlier session submitted for the row, in one that goes on with it.
    """

    #: A canary row has excused it already.
    was_excused = False
    #: What it was said already that slow nodes have to do with its outcome.
    slow_nodes: str | None = None
    #: What the other rows of its run said, where that was recorded.
    cluster_effect: ClusterEffect | None = None

    def __init__(
        self,
        baseline: Baseline,
        settings: Settings,
        launcher: Launcher,
        session_history: SessionHistory,
        environ: Mapping[str, str],
        spec: JobSpec | None = None,
        submitted: Submission | None = None,
    ) -> None:
        self.baseline = baseline
        self.spec = spec
        self.settings = settings
        self.cluster = settings.cluster.name if settings.cluster else None
        #: How many jobs the row may have, and those that a replay judges by; and the launcher of its last job.
        self.repeats, self.launcher = settings.repeats, launcher.name
        self._launcher, self._session_history, self._environ = launcher, session_history, environ
        self.submitted = submitted
        #: The image and what names it: the first answer stays.
        self._image: tuple[str | None, str] | None = None
        #: Of the job and log asked for last, what it ran with; and the runs before, by what they depend on.
        self._circumstances: tuple[tuple[str, Path | None] | None, Circumstances] | None = None
        self._past: tuple[tuple[str, str, Accepted | None], RowHistory] | None = None

    def shown(self, error: _Error) -> _Error:
        """An error without the secrets of the session's environment and of the job's."""
        return redact(error, os.environ, self.spec.environment if self.spec else {})

    def is_traced(self, run: Run) -> bool:
        """Whether a run was one of the few steps for which NCCL is traced."""
        return in_traced_results(run.log) or (self.spec is not None and is_nccl_traced(self.spec.environment))

    def circumstances(self, run: Run | None) -> Circumstances:
        """What the row's job ran with, found out once; without a run, what is known before its job has ended."""
        key = None if run is None else (run.job_id, run.log)
        if self._circumstances is None or self._circumstances[0] != key:
            self._circumstances = key, self._circumstances_of(run)
        return self._circumstances[1]

    def _circumstances_of(self, run: Run | None) -> Circumstances:
        written, submitted, started = _provenance(run), self._submission_of(run), self._started()
        if self._image is None:
            self._image = (written.image, "log") if written.image is not None else self._image_beside_log(submitted)
        image, image_from = self._image
        definition = now = definition_hash(self.baseline, image)
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
        """What the session's cluster has accepted for the row, as one that counts and one that does not."""
        ran = self.circumstances(run)
        accepted, unused = accepted_for(self.baseline, self.cluster, ran.definition_now)
        return (accepted, unused) if ran.definition == ran.definition_now else (None, accepted or unused)

    def past(self, run: Run, accepted: Accepted | None) -> RowHistory:
        """What is known of the row's runs before, without this one; looked up once."""
        ran = self.circumstances(run)
        key = ran.definition, ran.experiment, accepted
        if self._past is None or self._past[0] != key:
            self._past = key, self._session_history.past(self.baseline.id, *key, self.settings.run_id)
        return self._past[1]

    def noise(self, run: Run, accepted: Accepted | None, tolerance: float) -> Noise | None:
        """By how much jobs of the row differ on its cluster."""
        return self.past(run, accepted).noise(tolerance)

    def with_earlier_jobs(self, run: Run) -> Run:
        """The run with the row's jobs before it, whose median its figure is."""
        return run

    def check_logs(self, run: Run) -> None:
        """Make sure that logs are what they were when they were recorded, and of a job on the row's nodes.

        Nothing was recorded yet, but a script that submits its job itself may have asked for other nodes.

        Raises:
            RunError: One has changed, or is of other nodes.
        """
        started = self._started()
        if started is None or not started.submits_itself:
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
        """What makes the row's figures not comparable: a profile or a trace of NCCL, here or by the environment."""
        if self.settings.profile is not None:
            return f"--gsw-profile={self.settings.profile.kind}"
        if in_traced_results(run.log):
            return "NCCL tracing"
        why = next((one.not_comparable for one in run.evidence if one.not_comparable is not None), None)
        if why is not None:
            return why
        started, variables = self._started(), self.circumstances(run).variables
        if variables is None and started is not None:
            variables = started.environment
        variable = profiling_in(variables or {})
        return None if variable is None else f"{variable} in the environment"

    def image_was_chosen(self, run: Run) -> bool:
        """Whether another image than the table's may be in the log, since the submitter's environment chose one."""
        if self.baseline.recipe.image is None:
            return True
        return self._image_beside_log(self._submission_of(run))[1] == "environment"

    def drift(
        self, run: Run, judged_s: float | None, accepted: Accepted | None, beside: ClusterAdjustment
    ) -> str | None:
        """That the newest runs of the row, with this one, differ from its first ones beside the others; one line."""
        if judged_s is None or not (past := self.past(run, accepted)).points:
            return None
        first, ran = run.jobs[0], self.circumstances(run)
        current_run = Point(
            self.settings.run_id,
            first.job_id,
            first.status.end_s or time.time(),
            judged_s,
            outcome="",
            nodes=first.status.nodes,
            image=ran.image,
            environment=ran.environment,
            variables=ran.variables,
            definition=ran.definition,
        )
        found = replace(past, beside=beside).including_run([current_run]).drifting
        return None if found is None else redact(drift_text(found), os.environ)

    def _environment(self, run: Run, written: Provenance, started: JobSpec | None) -> dict[str, str]:
        """What the log and files beside it say; also that the GPUs' boost was turned up, which changes the figures."""
        found = {**written.versions, **{name: value for one in run.evidence for name, value in one.environment.items()}}
        if unset_boost(run) is not None:
            found["vboost"] = BOOST_NOT_SET
        elif started is not None and job_variable(self._environ, started, "ENABLE_VBOOST").lower() == "true":
            found["vboost"] = "true"
        version = getattr(self._launcher, "version", "")
        return {**found, self.launcher: version} if version else found

    def _image_beside_log(self, submitted: Submission | None) -> tuple[str | None, str]:
        """The image by what started the job, and what names it."""
        if submitted is not None:
            return submitted.image, "environment" if submitted.image else ""
        started, of_table = self._started(), self.baseline.recipe.image
        named = None if started is None else job_image(self._environ, started)
        if named is not None:
            return named, "environment"
        return (None, "") if of_table is None else (image_name(of_table), "table")

    def _started(self) -> JobSpec | None:
        """How this session starts the row; how it would be started says nothing of a log that exists already."""
        return self.spec if self.settings.replay is None else None

    def _submission_of(self, run: Run | None) -> Submission | None:
        """What an earlier session submitted, where that is what ran."""
        submitted = self.submitted
        return submitted if submitted is not None and run is not None and submitted.is_of(run.job_id) else None


class ReplayedRow(LiveRow):
    """A row that an earlier session ran: what it recorded is known of it, and its logs are measured again."""

    def __init__(
        self,
        baseline: Baseline,
        settings: Settings,
        launcher: Launcher,
        session_history: SessionHistory,
        environ: Mapping[str, str],
        spec: JobSpec | None,
        record: Record,
    ) -> None:
        super().__init__(baseline, settings, launcher, session_history, environ, spec)
        assert record.jobs.last is not None  # others are not replayed
        self.launcher = record.jobs.last.launcher
        self.repeats = Repeats(record.jobs.first_jobs, record.jobs.confirm_jobs)
        # The canary may not be replayed with it.
        self.was_excused = record.reason == Reason.CANARY.value
        self.slow_nodes = record.slow_nodes
        self.cluster_effect = None if record.verdict is None else record.verdict.cluster_effect
        self._record = record

    def with_earlier_jobs(self, run: Run) -> Run:
        """Those that were recorded."""
        jobs = self._record.jobs.repeats
        logs = [Path(job.log) if job.log else None for job in jobs]
        earlier = tuple(
            Run(job.id, job.status, log, beside=() if log is None else errors_beside(log))
            for job, log in zip(jobs, logs, strict=True)
        )
        return replace(run, earlier=earlier) if earlier else run

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
        return redact(self._record.not_comparable, os.environ)

    def image_was_chosen(self, run: Run) -> bool:
        """A record does not say that it was not."""
        return True

    def _circumstances_of(self, run: Run | None) -> Circumstances:
        row, ran, cluster = self._record.row, self._record.run, self.settings.cluster
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
        """What was known when the row was judged."""
        return None if self._record.verdict is None else self._record.verdict.noise

    def drift(
        self, run: Run, judged_s: float | None, accepted: Accepted | None, beside: ClusterAdjustment
    ) -> str | None:
        """As recorded."""
        return self._record.drift


def _provenance(run: Run | None) -> Provenance:
    """What a run's log says of its image and versions."""
    try:
        return Provenance() if run is None or run.log is None else provenance_in(run.log)
    except OSError:
        return Provenance()  # that a log cannot be read is for others to say


# -- One row: what its jobs measured, whether it is as fast as it is to be, and whether one more of them is to tell


#: A job: its cluster and id, and its times, because a scheduler that lost its state gives ids out again.
_JobKey = tuple[str, float | None, float | None, float | None]


def _job_key(job_id: str, status: JobStatus) -> _JobKey:
    return job_id, status.submit_s, status.start_s, status.end_s


def _is_known(verdict: Verdict, previous_failed_seconds: Sequence[float]) -> bool:
    """Whether the row has failed with the same loss on the run before, and nothing else of it is to be confirmed."""
    if verdict.own is not Outcome.REGRESSED or verdict.noise is None or any(one.more for one in verdict.metrics):
        return False
    times_s = verdict.jobs_s or (verdict.measured_s,)
    return is_known(times_s, verdict.reference_s, verdict.tolerance, verdict.noise, previous_failed_seconds)


def _accepted_problem(verdict: Verdict, accepted: Accepted | None) -> str | None:
    """What is wrong with a verdict that rests neither on the document nor on what the cluster has accepted."""
    wanted = None if accepted is None else accepted.judged_s
    if verdict.accepted_s is None or verdict.accepted_s == wanted:
        return None
    return f"a Verdict with accepted_s={verdict.accepted_s!r}, wanted None{'' if wanted is None else f' or {wanted:g}'}"


@dataclass(frozen=True)
class RowPlan:
    """A row as the session runs it: the answers of hooks, asked once, before anything is submitted."""

    baseline: Baseline
    node_id: str
    #: How its job is started, or why it cannot be.
    spec: JobSpec | RunError
    #: How its logs are read, and the peak of its accelerator; ``None`` if no plugin knows.
    log_format: LogFormat | None = None
    peak_flops: float | None = None
    #: The site's metrics, by key.
    metrics: Mapping[str, Metric] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """Facts besides a row's own jobs by which it has one more job, or none."""

    repeats: Repeats
    #: With ``gsw_strict``, a row that is too fast fails as well.
    strict: bool = False
    #: The times of its jobs in the run before, seconds, if it failed there.
    previous_failed_seconds: Sequence[float] = ()
    #: The nodes that are known to make jobs slow.
    slow_nodes: Sequence[str] = ()


def decide(run: Run, verdicts: Sequence[Verdict], context: Context) -> Repeat | Undecided | Done:
    """Decide whether a row that has had its first jobs has one more.

    Args:
        run: Its jobs so far.
        verdicts: What they come to, by each effect of the whole run that is still possible.
        context: All else that counts.
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
    if all(_is_known(one, context.previous_failed_seconds) for one in verdicts):
        return Done()
    confirmed = f"to be confirmed ({jobs - repeats.first + 1} of {repeats.confirm})"
    own = tuple(dict.fromkeys(job.status.nodes for job in run.jobs if job.status.nodes))  # as Slurm names them
    there = {node for nodes in own for node in expand(nodes)}
    slow = (node for node in context.slow_nodes if node not in there)
    return Repeat(f"{row_text.worst_change(verdict)}, {confirmed}", (*own, *slow))


class SessionRow:
    """One row of a session, from its ended jobs to its record.

    Args:
        config: pytest's.
        plan: The row.
        source: What is known of it; the session adds how its job was started, or gives the record of an earlier run.
        properties: What pytest's reports of the row have for JUnit; those of its record are added.
    """

    def __init__(
        self, config: pytest.Config, plan: RowPlan, source: LiveRow, properties: list[tuple[str, object]]
    ) -> None:
        self.baseline, self.plan, self.source = plan.baseline, plan, source
        self._config, self._properties = config, properties
        self._settings, self._executor = config.stash[SETTINGS], config.stash[EXECUTOR]
        self._session_history, self._peers = config.stash[SESSION_HISTORY], config.stash[CLUSTER_PEERS]
        self._canaries = config.stash[CANARIES]
        #: What else was written of each job beside its log.
        self._evidence: dict[_JobKey, tuple[Evidence, ...]] = {}
        #: The row's record, once it is written.
        self.record: Record | None = None
        #: What each job measured, and what its log states as the row does; of a row that is to fail, no measurement.
        self._jobs: dict[_JobKey, tuple[Measurement | None, dict[str, str]]] = {}
        #: As what pytest is to report the row, and the report's text; passed as long as it was not judged.
        self.judged = ("passed", "")
        #: What a hook that observes the row's job has raised.
        self.hook_failure: HookError | None = None
        #: Of what an errored job has written, the line that looks most like a cause where that is not known.
        self.said = ""
        #: Since when it is too slow, and what changed then.
        self._since: tuple[tuple[str, str], ...] = ()
        #: The newer jobs that a replay passed over, and the age of the one that it judges.
        self.passed_over: str | None = None
        #: What is to be reported of a result that could not be written down.
        self.not_written = ""

    @cached_property
    def tolerance(self) -> float:
        """The row's own, unless the cluster or the command line says otherwise."""
        return self._settings.tolerance or self.baseline.tolerance

    def set_up(self) -> None:
        """Wait for the job, measure its log, and judge."""
        run: Run | None = None
        try:
            run = self._executor.result_of(self.baseline.id)
            run = self._with_evidence(self.source.with_earlier_jobs(run))
            self.judged = self._conclude(run, interrupted=self._executor.interrupted)
        except RunError as error:
            fail(self._error_text(error, run))
        except Exception as error:
            fail(self._error_text(self._raised(error), run))

    def tell(self) -> None:
        """Tell what the set-up has found."""
        kind, text = self.judged
        if kind == "skipped":
            pytest.skip(text)
        if kind == "failed":
            fail(text)

    def leave_error(self, error: RunError) -> str:
        """Leave a record of a row that something else ended than its own set-up, and return the text of its report."""
        try:
            return self._error_text(error, None)
        except pytest.fail.Exception:
            return self.not_written

    def _expected_failure(self, run: Run) -> None:
        """The row ran out of memory, as its document says."""
        if run.log is not None:
            check_identity(self.baseline, run, read_identity(run.log, self.baseline.log_format))
        fact = "ran out of memory, as documented"
        self._record(RowResult(outcomes.EXPECTED_FAILURE.word, fact), run)
        pytest.xfail(fact)
        fail(fact)  # with --runxfail

    def _conclude(self, run: Run, *, interrupted: bool) -> tuple[str, str]:
        """Measure and judge a run, record it, and say as what pytest is to report it, with which text.

        Raises:
            RunError: It cannot be judged.
        """
        self.source.check_logs(run)
        if self.hook_failure is not None:
            raise self.hook_failure
        if self.baseline.expected_failure and ran_out_of_memory(run):
            self._expected_failure(run)
        check_job(run, self.baseline.recipe.may_fail)
        measurement = self._measure(run)
        # A row is not judged by fewer jobs than it was to have, because its session was interrupted.
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
        row = told(record, facts, strict=strict, verdict=found.verdict, canaries=self._canaries)
        return row.outcome.pytest, row.text

    def _raised(self, error: Exception) -> HookError:
        return hook_error(error, self._config.pluginmanager.list_name_plugin())

    # -- what its jobs measured: each log is read once, by what the session's hooks say of the row -----------

    def _with_evidence(self, run: Run) -> Run:
        """A run, and the jobs before it, with what else was written of each beside its log, as hooks have it.

        Raises:
            HookError: One raised, or returned something else.
        """
        key = _job_key(run.job_id, run.status)
        if key not in self._evidence:
            self._evidence[key] = self._evidence_of(run)
        return replace(run, evidence=self._evidence[key], earlier=tuple(map(self._with_evidence, run.earlier)))

    def _evidence_of(self, run: Run) -> tuple[Evidence, ...]:
        found: list[Any] = []
        hook = self._config.hook.pytest_gsw_evidence
        if run.log is not None:
            try:
                found += (one for some in hook(config=self._config, log=run.log, job_id=run.job_id) for one in some)
            except Exception as error:
                raise self._raised(error) from None
        wrong = [type(one).__name__ for one in found if not isinstance(one, Evidence)]
        if wrong:
            raise wrong_answer(hook, f"{wrong[0]}, wanted Evidence")
        return tuple(found)

    def _measure(self, run: Run) -> Measurement | None:
        """What the row's jobs measured, this one and those before it; ``None`` where it is documented to fail.

        Raises:
            RunError: One of them cannot be measured.
        """
        for job in run.jobs:
            key = _job_key(job.job_id, job.status)
            if key not in self._jobs:
                self._jobs[key] = self._read(job)
        measured = [self._measured(job.job_id, job.status) for job in run.jobs]
        found = [one for one in measured if one is not None]
        return measured[-1] if len(found) < 2 else of_all_jobs(self.baseline, found, self.plan.peak_flops)

    def _measured(self, job_id: str, status: JobStatus) -> Measurement | None:
        """What one job measured by itself, if it was measured."""
        return self._jobs.get(_job_key(job_id, status), (None, {}))[0]

    def _read(self, run: Run) -> tuple[Measurement | None, dict[str, str]]:
        baseline, log_format = self.baseline, self.plan.log_format
        assert log_format is not None  # a row whose logs no plugin reads is not submitted
        run = replace(run, image_was_chosen=self.source.image_was_chosen(run))
        log = read_steps(baseline, run, log_format)
        agreed = agreed_with_row(baseline, run, log)
        if baseline.expected_failure:
            return None, agreed
        steps = steps_of(baseline, traced=self.source.is_traced(run))
        peak_flops, first_index = self.plan.peak_flops, log_format.first_index
        found = measure(baseline, run, log, peak_flops=peak_flops, steps=steps, first_index=first_index)
        assert run.log is not None  # it was read
        try:
            metrics = read_metrics(baseline, run.log, log, self.plan.metrics)
        except RunError:
            raise
        except Exception as error:  # of a site's own metric
            raise self._raised(error) from None
        return replace(found, metrics={key: (value,) for key, value in metrics.items()}), agreed

    # -- its record is made, written, and told: to observers, to the history, to JUnit ------------------------

    def _record(self, found: RowResult, run: Run | None) -> Record:
        """Write down what is known of this run, and give it to JUnit and to observers."""
        source, row = self.source, self.baseline
        ran = source.circumstances(run)
        facts = row_facts(row, self.plan.node_id, self.tolerance, ran.definition, ran.experiment)
        made = record_of(row, facts, self._run_facts(run), self._jobs_facts(run), found, self.plan.peak_flops)
        made = replace(made, alarms=self._alarms(made, run), passed_over=self.passed_over)
        try:
            record, failure = self._keep(made)
        except OSError as error:
            # A result that cannot be read again is not one.
            self.not_written = (
                f"the record cannot be written: {error.strerror}: {error.filename or self._settings.run_directory}\n"
                f"it would have said: {made.outcome}: {made.fact}\n"
                "next       make room there, or give another directory with --gsw-results=DIR"
            )
            fail(self.not_written)
        self.record = record
        self._properties.extend(junit.properties(record))
        if failure is not None and found.outcome != outcomes.ERROR.word:
            fail(row_text.error_text(failure, self._facts(record)))
        return record

    def _jobs_facts(self, run: Run | None) -> Jobs:
        """What is known of the row's jobs; without a run its last one has not ended."""
        source, executor, row_id = self.source, self._executor, self.baseline.id

        def facts(job_id: str, status: JobStatus, run: Run | None) -> JobFacts:
            return job_facts(job_id, source.launcher, status, run, self._measured(job_id, status))

        job_id, status = (run.job_id, run.status) if run else (executor.job_id(row_id), executor.status(row_id))
        earlier, attempts = executor.earlier(row_id) if run is None else run.earlier, executor.attempts(row_id)
        return Jobs(
            last=None if job_id is None or status is None else facts(job_id, status, run),
            attempts=tuple(JobFacts.of(one.job_id, executor.launcher.name, one.status, one.why) for one in attempts),
            repeats=tuple(facts(job.job_id, job.status, job) for job in earlier),
            first_jobs=source.repeats.first,
            confirm_jobs=source.repeats.confirm,
            saved_gpu_hours=saved_gpu_hours(run, self.baseline),
        )

    def _run_facts(self, run: Run | None) -> RunFacts:
        """What is recorded of the run, but for its log."""
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
            simulated_faults=settings.faults,
            simulated=ran.is_simulated,
            recorded_s=time.time(),
            outputs=() if run is None else tuple(map(str, run.others)),
            image=image,
            image_from=ran.image_from,
            environment=environment,
            variables=variables,
            compared=compared,
        )

    def _keep(self, record: Record) -> tuple[Record, HookError | None]:
        """Write a record, hand it to observers, and put it where it waits for the history.

        Returns:
            The record, which is an error where an observer has raised one, and that error.

        Raises:
            OSError: There is no room for it, or no leave.
        """
        config, directory = self._config, self._settings.run_directory
        failure: HookError | None = None
        written = write_record(directory, record)
        try:
            config.hook.pytest_gsw_run_recorded(config=config, record=record)
        except Exception as error:
            failure = self.source.shown(self._raised(error))
            record = replace(record, outcome=outcomes.ERROR.word, fact=failure.fact)
            written = write_record(directory, record)
        if self._settings.replay is None:  # a replayed run is in the history already
            self._session_history.keep(record, written)
        config.stash[OUTCOME_COUNTS].records[written.name] = record
        return record, failure

    def _facts(self, record: Record, since: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """Since when a row is so where that is known, where its things are and how it is repeated, each by its name."""
        settings = self._settings
        directory = relative_path(settings.run_directory)
        replayed = [f"--gsw-replay={settings.replay}"] if settings.replay and settings.cluster else []
        again = suggested_commands.again([record], directory, *replayed)
        return [*since, *row_text.run_facts(record, again, suggested_commands.offline(record, directory))]

    def _alarms(self, record: Record, run: Run | None) -> str | None:
        """The alarms of the row with this run, which the history has later; a replay is of no run of its own."""
        is_wrong = record.by_own_metric == outcomes.REGRESSED.word or record.drift
        if run is None or not is_wrong or self._settings.replay is not None:
            return None
        # Few rows have any.
        from pytest_gsw.session.session_alarms import row_alarms

        cluster_effect = None if record.verdict is None else record.verdict.cluster_effect
        beside = self._peers.beside(cluster_effect)
        past = replace(self.source.past(run, self.source.accepted(run)[0]), beside=beside)
        found, self._since = row_alarms(record, past, self._session_history.acknowledged)
        return found

    def _error_text(self, error: RunError, run: Run | None) -> str:
        """Record an error, and return the text of the row's report."""
        error = self.source.shown(error)
        self.said = telling_line(error.tail)
        record = self._record(RowResult(outcomes.ERROR.word, error.fact), run)
        return row_text.error_text(error, self._facts(record))

    # -- how it is judged ---------------------------------------------------------------------

    def _judge(self, run: Run, measurement: Measurement) -> RowResult:
        """Judge what was measured of a row's last job, or of all its jobs together.

        Raises:
            HookError: The rule of a plugin returned no sound verdict.
        """
        baseline, source = self.baseline, self.source
        accepted, unused = source.accepted(run)
        verdict = self._with_canaries(self._ask(run, measurement, accepted, self._cluster_effect()))
        not_comparable = source.not_comparable(run)
        tokens_per_s = measurement.figures.tokens_per_s if baseline.judged_by is STEP_TIME else None
        documented = dict(vars(baseline.documented))
        own = row_text.verdict_fact(documented, verdict, tokens_per_s, source.cluster or "", baseline.metric)
        slow_nodes = self._slow_nodes(run, verdict)
        fact = "; ".join(filter(None, (row_text.row_fact(own, verdict), slow_nodes)))
        is_usual = not_comparable is None and verdict.reason.value not in UNUSUAL
        first, beside = run.jobs[0], self._peers.beside(verdict.cluster_effect)
        return RowResult(
            outcomes.PROFILED.word if not_comparable else verdict.outcome.value,
            redact(fact, os.environ),  # a log may call its ranks anything
            not_comparable,
            self._accepted_note(accepted, unused, verdict, run),
            source.drift(run, self._judged_s(first), accepted, beside) if is_usual else None,
            redact(slow_nodes, os.environ),
            measurement=measurement,
            verdict=replace(verdict, given_reason=verdict.reason),
        )

    def decide(self, run: Run) -> Repeat | Undecided | Done:
        """Measure a job that ended well, with those before it, and decide whether the row has one more.

        Raises:
            RunError: The job cannot be measured.
        """
        settings, jobs = self.source.settings, len(run.jobs)
        repeats = settings.repeats
        if self.baseline.expected_failure or (jobs >= repeats.most and not self._peers.may_speak):
            return Done()
        run = self._with_evidence(run)
        if self.source.not_comparable(run) is not None:
            return Done()
        check_job(run, self.baseline.recipe.may_fail)
        measurement = self._measure(run)
        assert measurement is not None  # rows that are to fail are not measured, and have ended above
        self._tell_others(run)
        if jobs < repeats.first:
            return Repeat(f"{measurement.judged_s:.4g} s, to be repeated ({jobs} of {repeats.first})")
        if self._canaries:
            return Done()  # whatever further jobs measure, the run is inconclusive
        accepted = self.source.accepted(run)[0]
        verdicts = [
            self._ask(run, measurement, accepted, cluster_effect) for cluster_effect in self._possible_effects()
        ]
        before_s = self.source.past(run, accepted).previous_failed_seconds
        return decide(run, verdicts, Context(repeats, settings.strict, before_s, self._session_history.slow_nodes))

    def _tell_others(self, run: Run) -> None:
        """Tell the other rows what the first job took; of a row that has changed since, other runs are known."""
        first = run.jobs[0]
        first_s = self._judged_s(first) if self.source.circumstances(run).experiment else None
        had_slow_node = self._session_history.had_slow_node(first.status.nodes, first.status.end_s or time.time())
        self._peers.note(self.baseline.id, first_s, had_slow_node=had_slow_node)

    def _possible_effects(self) -> tuple[ClusterEffect | None, ...]:
        """What the other rows may come to say of the run; of a canary, which tells it to them, they say nothing."""
        return (None,) if self.baseline.canary else self._peers.bounds(self.baseline.id, self.tolerance)

    def _cluster_effect(self) -> ClusterEffect | None:
        if self.baseline.canary:
            return None
        return self.source.cluster_effect or self._peers.now(self.baseline.id, self.tolerance)

    def _judged_s(self, run: Run) -> float | None:
        measurement = self._measured(run.job_id, run.status)
        return None if measurement is None else measurement.judged_s

    def _with_canaries(self, verdict: Verdict) -> Verdict:
        """A loss says nothing of a row where a canary row has shown that the cluster is not in its usual state."""
        if self.baseline.canary and verdict.own is Outcome.REGRESSED:
            self._canaries.append(self.baseline.id)
        if verdict.outcome is not Outcome.REGRESSED or not (self._canaries or self.source.was_excused):
            return verdict
        return replace(verdict, outcome=Outcome.INCONCLUSIVE, own_outcome=None, given_reason=Reason.CANARY)

    def _slow_nodes(self, run: Run, verdict: Verdict) -> str | None:
        """That a slow node explains a regression, and that its confirming jobs were to do without those that are."""
        slow = self._session_history.slow if verdict.own is Outcome.REGRESSED else ()
        if not slow:
            return self.source.slow_nodes if verdict.own is Outcome.REGRESSED else None
        # Only a session that knows of one needs the words.
        from pytest_gsw.history.comparison import explaining, suspect_text

        jobs = [(job.status.nodes, job.status.end_s or time.time()) for job in run.jobs]
        found = explaining(slow, verdict, jobs)
        said = [] if found is None else [f"explained by {suspect_text(found)}"]
        avoided = self._session_history.slow_nodes
        if avoided and len(jobs) > self.source.settings.repeats.first:
            said.append(f"confirming jobs were to avoid {compressed(avoided)}")
        return "; ".join(said) or None

    def _accepted_note(
        self, accepted: Accepted | None, unused: Accepted | None, verdict: Verdict, run: Run
    ) -> str | None:
        """What is to be said of the cluster's own figure, where it has one."""
        if unused is not None:
            ran = self.source.circumstances(run)
            if ran.definition != ran.definition_now:
                return outdated_text(unused, ran.definition, ran.definition_now)
            return unused_text(unused, ran.definition_now, redact(ran.image, os.environ))
        if accepted is None:
            return None
        return ignored_text(accepted) if verdict.accepted_s is None else accepted_text(accepted)

    def _ask(
        self, run: Run, measurement: Measurement, accepted: Accepted | None, cluster_effect: ClusterEffect | None
    ) -> Verdict:
        """The verdict of the session's rule, and of the site's metrics that the row documents."""
        hook = self._config.hook.pytest_gsw_judge
        verdict = hook(
            config=self._config,
            baseline=self.baseline,
            measurement=measurement,
            tolerance=self.tolerance,
            accepted=accepted,
            noise=self.source.noise(run, accepted, self.tolerance),
            repeats=self.source.repeats,
            max_gain=self._settings.max_gain or self.baseline.max_gain,
            cluster_effect=cluster_effect,
        )
        if not isinstance(verdict, Verdict):
            raise wrong_answer(hook, f"{verdict!r}, which is no Verdict")
        problem = _accepted_problem(verdict, accepted)
        if problem is not None:
            advice = "give judge() the figure that the hook was handed, or leave accepted_s out"
            raise wrong_answer(hook, problem, advice)
        return with_metrics(verdict, self._by_site_metrics(measurement))

    def _by_site_metrics(self, measurement: Measurement) -> list[MetricVerdict]:
        known, repeats = self.plan.metrics, self.source.repeats
        return [
            judge_metric(
                known[key],
                measurement.metrics[key],
                stated.value,
                stated.tolerance or self.tolerance,
                repeats,
                self._settings.max_gain or self.baseline.max_gain,
            )
            for key, stated in self.baseline.metrics.items()
        ]
