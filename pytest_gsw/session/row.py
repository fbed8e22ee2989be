"""A row of a session that runs rows: its job, its log, its verdict and its record.

A row's set-up waits for its job, reads its log and judges it; its call reports the verdict.
Any obstacle before a verdict, such as a hook that raises, is therefore an ERROR (JUnit
``<error>``), and a regression is a FAILURE.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.node_lists import compressed
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import duration, plural
from pytest_gsw.errors import INTERRUPTED, HookError, JobError, RunError, TakenOverError
from pytest_gsw.executor.executor import Executor
from pytest_gsw.history.comparison import explaining, suspect_text
from pytest_gsw.history.model import points_of
from pytest_gsw.history.row_history import RowHistory
from pytest_gsw.hook_checks import hook_error
from pytest_gsw.jobs.model import Attempt, EarlyStop, Job, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.results import junit, outcomes, row_text
from pytest_gsw.results.make_record import RowResult, job_facts, record_of, row_facts, saved_gpu_hours
from pytest_gsw.results.record import NO_CLUSTER, AmongTiles, JobFacts, Jobs, Record, RunFacts, write_record
from pytest_gsw.results.reported_status import reported_status
from pytest_gsw.results.row_line import informative_line
from pytest_gsw.results.suggested_commands import repeat_commands
from pytest_gsw.session.failure_text import fail
from pytest_gsw.session.judging import Judge, accepted_note, excused, verdict_text
from pytest_gsw.session.measured_jobs import MeasuredJobs
from pytest_gsw.session.row_plan import Context, RowPlan, decide
from pytest_gsw.session.row_source import Circumstances, LiveRow, RowSource
from pytest_gsw.session.session_history import ClusterPeers, SessionHistory
from pytest_gsw.session.settings import Settings
from pytest_gsw.stats import goodput
from pytest_gsw.stats.cluster_effect import ClusterEffect
from pytest_gsw.stats.decision import Done, Outcome, Repeat, Undecided
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.verdict import Reason, Verdict, after_search
from pytest_gsw.tables.model import Accepted, Baseline, accepted_for
from pytest_gsw.validation.attempts import read_attempt
from pytest_gsw.validation.log_identity import check_identity, read_identity
from pytest_gsw.validation.retryable import PROGRAM_FAILED, infrastructure_failure
from pytest_gsw.validation.run import CAUSE_OF_STATE, Run, ran_out_of_memory

if TYPE_CHECKING:
    from pytest_gsw.results.sweep import Sweep
    from pytest_gsw.session.node_probes import NodeProbes

_Error = TypeVar("_Error", bound=RunError)


@dataclass(frozen=True)
class Shared:
    """Values of the session that its rows share."""

    settings: Settings
    executor: Executor
    #: Results of earlier runs, and the effect of the cluster on all rows.
    history: SessionHistory
    peers: ClusterPeers
    #: The records that this process has made or read, by the names of their files.
    records: dict[str, Record]
    probes: NodeProbes | None
    #: The sweep, which is known once all tiles have ended.
    sweep: Callable[[], Sweep | None]


class SessionRow:
    """One row of a session, from its ended jobs to its record.

    Args:
        config: pytest's.
        plan: The row.
        source: Its facts; the session adds its job's spec, or replaces it by the record of an earlier run.
        properties: JUnit properties of pytest's reports of the row; those of its record are added.
        shared: The session's values.
    """

    #: True if an effect on all rows of the cluster applies to this one.
    has_cluster_effect = True

    def __init__(
        self,
        config: pytest.Config,
        plan: RowPlan,
        source: RowSource,
        properties: list[tuple[str, object]],
        shared: Shared,
    ) -> None:
        self.baseline, self.plan, self.source = plan.baseline, plan, source
        self._config, self._properties = config, properties
        self._shared, self._settings, self._peers = shared, shared.settings, shared.peers
        self._judge_hooks = Judge(config, self.baseline, plan.log_format, plan.peak_flops, plan.metrics)
        self.jobs = MeasuredJobs(self._judge_hooks, source)
        #: The row's record, once it is written.
        self.record: Record | None = None
        #: pytest's outcome of the row, and the report's text; passed until it is judged.
        self.judged = ("passed", "")
        #: The error of a hook that observes the row's job.
        self.hook_failure: HookError | None = None
        #: The most likely error line of a failed job whose cause is unknown.
        self.error_line = ""
        #: Start of a regression, and the changes at that time.
        self._since: tuple[tuple[str, str], ...] = ()
        #: The newer jobs that a replay skipped, and the age of the one that it judges.
        self.passed_over: str | None = None
        #: The report of a result that could not be written.
        self.not_written = ""

    @cached_property
    def tolerance(self) -> float:
        """The accepted loss of throughput: the cluster's or the command line's, else the row's own."""
        return self._settings.judging.tolerance or self.baseline.criterion.tolerance

    @property
    def _cluster(self) -> str | None:
        return None if self._settings.cluster is None else self._settings.cluster.name

    def shown(self, error: _Error) -> _Error:
        """An error without the secrets of the session's environment and of the job's."""
        return redact(error, os.environ, self.source.spec.environment if self.source.spec else {})

    def set_up(self) -> None:
        """Wait for the job, measure its log, and judge; the row of a run that was taken over is left open."""
        try:
            self._set_up()
        except TakenOverError as error:
            pytest.skip(str(error))

    def _set_up(self) -> None:
        run: Run | None = None
        try:
            run = self._shared.executor.result_of(self.baseline.id)
            run = self.jobs.with_evidence(self.source.with_earlier_jobs(run))
            self.judged = self._conclude(run, interrupted=self._shared.executor.rows.is_interrupted)
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
            run = self.jobs.with_evidence(run)
            self.source.check_logs(run)
            measurement = self.jobs.measure(run)
        except RunError:
            raise
        except Exception as error:  # in a site's own format
            raise hook_error(error, self._config.pluginmanager) from None
        if measurement is None or self.source.not_comparable(run) is not None:
            raise JobError(f"job {run.job_id} is no measure: it should fail, or was profiled")
        return measurement

    def noise(self, run: Run) -> Noise | None:
        """The noise between jobs of the row on its cluster."""
        return self.source.noise(self._past(run, self._accepted(run)[0]), self.tolerance)

    def _accepted(self, run: Run) -> tuple[Accepted | None, Accepted | None]:
        """The cluster's accepted figure for the row: first if it applies, second if it does not."""
        ran = self.source.circumstances(run)
        accepted, unused = accepted_for(self.baseline, self._cluster, ran.definition_now)
        return (accepted, unused) if ran.definition == ran.definition_now else (None, accepted or unused)

    def _past(self, run: Run, accepted: Accepted | None) -> RowHistory:
        """The row's history without this run; cached."""
        ran, row_id, run_id = self.source.circumstances(run), self.baseline.row_id, self._settings.run_id
        return self._shared.history.past(row_id, ran.definition, ran.experiment, accepted, run_id)

    def time_over(self, job: Job, status: JobStatus) -> EarlyStop | None:
        """Why a running job is ended because of the time; ``None`` if it is to go on."""
        return None

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
            check_identity(self.baseline, run, read_identity(run.log, self.baseline.workload.log_format))
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
        if self.baseline.criterion.expected_failure and ran_out_of_memory(run):
            self._expected_failure(run)
        measurement = self.jobs.measure(run)
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
        facts, strict = partial(self._facts, record, self._since), self._settings.judging.strict
        row = reported_status(record, facts, strict=strict, verdict=found.verdict, canaries=self._peers.canaries)
        return row.outcome.pytest, row.text

    # -- its record: for the run's directory, observers, the history and JUnit ---------------

    def _record(self, found: RowResult, run: Run | None) -> Record:
        """Record a result, and pass the record to JUnit and to observers."""
        source, row = self.source, self.baseline
        ran = source.circumstances(run)
        facts = row_facts(row, self.plan.node_id, self.tolerance, ran.definition, ran.experiment)
        facts = facts if self.plan.stage is None else replace(facts, stage=self.plan.stage.name)
        agreed = {} if run is None else self.jobs.agreed(run)
        jobs = _jobs_facts(row, source, self.jobs, self._shared.executor, run)
        made = record_of(row, facts, _run_facts(self._settings, ran, run, agreed), jobs, found, self.plan.peak_flops)
        probes = self._shared.probes
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

    def _save(self, record: Record) -> tuple[Record, HookError | None]:
        """Write a record, pass it to observers, and queue it for the history.

        Returns:
            The record, which is an error if an observer has raised one, and that error.

        Raises:
            OSError: It cannot be written.
            TakenOverError: Another session writes it.
        """
        self._shared.executor.journal.check()
        config, directory = self._config, self._settings.run_directory
        failure: HookError | None = None
        written = write_record(directory, record)
        try:
            config.hook.pytest_gsw_run_recorded(config=config, record=record)
        except Exception as error:
            failure = self.shown(hook_error(error, self._config.pluginmanager))
            record = replace(record, outcome=outcomes.ERROR.word, fact=failure.fact)
            written = write_record(directory, record)
        if self._settings.replay is None:  # a replayed run is in the history already
            self._shared.history.keep(record, written)
        self._shared.records[written.name] = record
        return record, failure

    def _facts(self, record: Record, since: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
        """Facts below a report, each with its name: since when, paths, and the commands to repeat it."""
        directory = relative_path(self._settings.run_directory)
        return [*since, *row_text.run_facts(record), *repeat_commands(record, directory)]

    def _with_history(self, record: Record, run: Run | None) -> Record:
        """The record with the drift of its row, and the alarms; none for a replay, which adds no run."""
        points = points_of(record)
        if run is None or not points:
            return record
        adjustment = self._peers.adjustment_for(None if record.verdict is None else record.verdict.cluster_effect)
        past = replace(self._past(run, self._accepted(run)[0]), adjustment=adjustment)
        record = replace(record, drift=self.source.drift(past, points))
        is_wrong = record.by_own_metric == outcomes.REGRESSED.word or record.drift
        if not is_wrong or self._settings.replay is not None:
            return record
        # Imported late: few rows have alarms.
        from pytest_gsw.session.session_alarms import row_alarms

        text, self._since = row_alarms(record, past, self._shared.history.acknowledged)
        return replace(record, alarms=text)

    def _error_text(self, error: RunError, run: Run | None) -> str:
        """Record an error, and return the text of the row's report."""
        error = self.shown(error)
        self.error_line = informative_line(error.tail)
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
        accepted, unused = self._accepted(run)
        verdict = self._with_canaries(self._apply_rule(run, measurement, accepted, self._cluster_effect()))
        not_comparable = source.not_comparable(run)
        verdict, among_tiles = self._among_tiles(verdict)
        slow_nodes = self._slow_nodes(run, verdict)
        of_tile = () if among_tiles is None else row_text.tile_texts(among_tiles)
        figures = verdict_text(baseline, measurement, verdict, self._cluster or "")
        parts = (*of_tile, figures, measurement.doubt, slow_nodes)
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
        """The verdict among other tiles of the row, which has none."""
        return verdict, None

    def decide(self, run: Run) -> Repeat | Undecided | Done:
        """Measure a job, with those before it, and decide if the row needs one more; none after one that failed.

        Raises:
            RunError: The job cannot be measured.
        """
        settings, jobs = self._settings, len(run.jobs)
        repeats = self.source.repeats
        may_change = self.has_cluster_effect and self._peers.effect_may_change
        is_last = self.baseline.criterion.expected_failure or (jobs >= repeats.most and not may_change)
        if is_last or not run.is_whole:
            return Done()
        run = self.jobs.with_evidence(run)
        if self.source.not_comparable(run) is not None:
            return Done()
        measurement = self.jobs.measure(run)
        assert measurement is not None  # rows that should fail are not measured, and have returned above
        self._note_first_job(run)
        if jobs < repeats.first:
            reached = self.baseline.judged_by.text(measurement.judged)
            return Repeat(f"{reached}, to be repeated ({jobs} of {repeats.first})")
        if self._peers.canaries:
            return Done()  # further jobs would not change it: the run is inconclusive
        accepted = self._accepted(run)[0]
        verdicts = [
            self._apply_rule(run, measurement, accepted, cluster_effect) for cluster_effect in self._possible_effects()
        ]
        before, slow = self._past(run, accepted).previous_failed, self._shared.history.slow_nodes
        return decide(run, verdicts, Context(repeats, settings.judging.strict, before, slow))

    def _note_first_job(self, run: Run) -> None:
        """Add the figure of the first job to the cluster's effect; a row that has changed since is not comparable."""
        first = run.jobs[0]
        measurement = self.jobs.measurement_of(first.job_id, first.status)
        figure = measurement.judged if measurement and self.source.circumstances(run).experiment else None
        had_slow_node = self._shared.history.had_slow_node(first.status.nodes, first.status.end_s or time.time())
        self._peers.add_first_job(self.baseline.id, figure, had_slow_node=had_slow_node)

    def _possible_effects(self) -> tuple[ClusterEffect | None, ...]:
        """Possible effects of the cluster on the row; none for a canary, which measures the cluster itself."""
        if self.baseline.canary or not self.has_cluster_effect:
            return (None,)
        return self._peers.possible_effects(self.baseline.id, self.tolerance)

    def _cluster_effect(self) -> ClusterEffect | None:
        if self.baseline.canary or not self.has_cluster_effect:
            return None
        return self.source.cluster_effect or self._peers.effect_so_far(self.baseline.id, self.tolerance)

    def _with_canaries(self, verdict: Verdict) -> Verdict:
        """The verdict; a loss is inconclusive if a canary row shows that the cluster is not in its usual state."""
        if self.baseline.canary and verdict.own is Outcome.REGRESSED:
            self._peers.canaries.append(self.baseline.id)
        if verdict.outcome is not Outcome.REGRESSED or not (self._peers.canaries or self.source.was_excused):
            return verdict
        return excused(verdict)

    def _slow_nodes(self, run: Run, verdict: Verdict) -> str | None:
        """A slow node as the explanation of a regression, and the nodes avoided by its confirming jobs, in words."""
        if verdict.own is not Outcome.REGRESSED or verdict.reason is Reason.SLOW_NODE:  # which says it
            return None
        slow = self._shared.history.slow
        if not slow:
            return self.source.slow_nodes
        jobs = [(job.status.nodes, job.status.end_s or time.time()) for job in run.jobs]
        slow_node = explaining(slow, verdict, jobs)
        texts = [] if slow_node is None else [f"explained by {suspect_text(slow_node)}"]
        avoided = self._shared.history.slow_nodes
        if avoided and len(jobs) > self._settings.judging.repeats.first:
            texts.append(f"confirming jobs were to avoid {compressed(avoided)}")
        return "; ".join(texts) or None

    def _accepted_note(
        self, accepted: Accepted | None, unused: Accepted | None, verdict: Verdict, run: Run
    ) -> str | None:
        """A note on the cluster's own figure, if it has one."""
        row, ran = self.baseline, self.source.circumstances(run)
        if unused is not None and ran.definition != ran.definition_now:
            return row_text.outdated_text(unused, ran.definition, ran.definition_now, row.judged_by)
        return accepted_note(row, accepted, unused, verdict, ran.definition_now, ran.image)

    def _apply_rule(
        self, run: Run, measurement: Measurement, accepted: Accepted | None, cluster_effect: ClusterEffect | None
    ) -> Verdict:
        """The verdict of the session's rule, and of the site's metrics that the row documents."""
        return self._judge_hooks.verdict(
            measurement,
            self._settings.judging.tolerance,
            accepted,
            self.source.noise(self._past(run, accepted), self.tolerance),
            self.source.repeats,
            self._settings.judging.max_gain or self.baseline.criterion.max_gain,
            cluster_effect,
        )


class TileRow(SessionRow):
    """A row on a tile: judged among the other tiles, and no evidence of an effect on all rows of the cluster."""

    has_cluster_effect = False

    def __init__(self, config: pytest.Config, plan: RowPlan, source: RowSource, *values: Any) -> None:
        super().__init__(config, plan, source, *values)
        if plan.stage is not None and plan.stage.find:  # the search confirms what is slow
            source.repeats = replace(source.repeats, confirm=0)

    def _note_first_job(self, run: Run) -> None:
        """Do nothing: tiles of one row are no evidence of all rows."""

    def _with_history(self, record: Record, run: Run | None) -> Record:
        """The record: drift and alarms are those of rows on any nodes."""
        return record

    def _among_tiles(self, verdict: Verdict) -> tuple[Verdict, AmongTiles | None]:
        """The verdict of the tile after the others have ended, and what they show of it.

        Raises:
            JobError: The session was interrupted before.
        """
        sweep, row = self._shared.sweep(), self.baseline
        if sweep is None:
            return verdict, None
        of_row = sweep.result_of(row.row_id)
        if of_row is None:
            raise JobError(f"{INTERRUPTED}: the other tiles of the row had not ended", advice="run it again")
        among = sweep.on_tile(of_row, row.tile)
        if among is None:
            return verdict, None
        verdict = after_search(
            verdict,
            of_row.level if sweep.has_search else None,
            is_slow=any(sweep.fails(finding, self.tolerance) for finding in among.named),
            is_open=len(among.findings) > len(among.named),
            has_other_loss=bool(among.other_loss),
        )
        return verdict, among


#: Why the session ends a job whose row has run for its time.
_TIME_OVER = EarlyStop("the row's time is over")
#: So many jobs one after another that cannot be measured end their row: its program fails again and again.
_MOST_UNMEASURED = 3


class EnduranceRow(SessionRow):
    """A row that runs for a time, by one job after another: no evidence of an effect on all rows of the cluster."""

    has_cluster_effect = False
    #: The number of the newest jobs that cannot be measured.
    _unmeasured = 0
    _endurance: goodput.Endurance | None = None

    @cached_property
    def _starts_s(self) -> dict[str, float]:
        """When each job has begun, seconds since the epoch; one that Slurm requeues begins again."""
        return {}

    def _ends_s(self, job_id: str, status: JobStatus) -> float:
        """The end of the row's time, by a job and those before it."""
        row = self._shared.executor.rows.row(self.baseline.id)
        attempts = () if row is None else row.attempts
        for job, known in ((job_id, status), *((attempt.job_id, attempt.status) for attempt in attempts)):
            if known.start_s is not None:
                self._starts_s.setdefault(job, known.start_s)
        return min(self._starts_s.values(), default=math.inf) + (self.plan.for_s or 0.0)

    def _left_s(self, run: Run) -> float:
        """The rest of the row's time after a job; zero or less if it is over."""
        ends_s = self._ends_s(run.job_id, run.status)
        return 0.0 if run.stopped == _TIME_OVER else ends_s - (run.status.end_s or time.time())

    def time_over(self, job: Job, status: JobStatus) -> EarlyStop | None:
        """Why a running job is ended now; a job of the recipe's own steps is not."""
        is_over = time.time() >= self._ends_s(job.id, status)
        return _TIME_OVER if is_over and job.spec.left_s is not None else None

    def decide(self, run: Run) -> Repeat | Done:
        """Decide if another job follows: until the time is over, or jobs fail at once again and again."""
        left_s, failure = self._left_s(run), infrastructure_failure(run)
        self._unmeasured = self._unmeasured + 1 if self._measured(run) is None else 0
        if left_s <= 0 or self._unmeasured == _MOST_UNMEASURED:
            return Done()
        if failure is not None:
            return Repeat(failure.why, failure.nodes)
        why = run.stopped.fact if run.stopped is not None else CAUSE_OF_STATE.get(run.status.state, PROGRAM_FAILED)
        return Repeat(f"{duration(left_s)} of its time are left" if run.is_whole else why)

    def _measured(self, run: Run) -> Measurement | None:
        """The measurement of one job by itself, however it ended; ``None`` if it cannot be measured."""
        try:
            return self.jobs.measure(replace(self.jobs.with_evidence(run), earlier=(), is_part=True))
        except RunError:
            return None

    def _conclude(self, run: Run, *, interrupted: bool) -> tuple[str, str]:
        """Judge the row by all its whole jobs; without one by its longest; without any by the newest that failed."""
        log_format, ended = self.plan.log_format, self._shared.executor.runs_of(self.baseline.id)
        assert log_format is not None  # else it was not submitted
        is_over = self._left_s(run) <= 0
        attempts = [
            read_attempt(self.baseline, log_format, job.log, start_s, end_s, self._cause(job))
            for job in ended
            if (start_s := self._starts_s.get(job.job_id)) is not None and (end_s := job.status.end_s) is not None
        ]
        self._endurance = goodput.endurance(attempts) if attempts else None
        if is_over:
            jobs = [self.jobs.with_evidence(replace(job, is_part=True)) for job in ended]
            known = [(found.steps, job) for job in jobs if (found := self._measured(job)) is not None]
            whole = [job for _, job in known if job.is_whole]
            if whole:
                run = replace(whole[-1], earlier=tuple(whole[:-1]))
            elif known:
                run = max(known, key=lambda pair: pair[0])[1]
            else:
                run = next((job for job in reversed(ended) if job.stopped != _TIME_OVER), jobs[-1])
        return super()._conclude(run, interrupted=interrupted)

    def _cause(self, job: Run) -> str:
        """Why a job ended before its planned end; empty if it did not."""
        if infrastructure_failure(job) is not None:
            return goodput.INFRASTRUCTURE
        if self._left_s(job) <= 0 or (job.is_whole and self._measured(job) is not None):
            return ""
        return goodput.SESSION if job.status.state in {JobState.CANCELLED, JobState.TIMEOUT} else goodput.PROGRAM

    def _with_history(self, record: Record, run: Run | None) -> Record:
        """The record with the use of the time; drift and alarms are those of rows without one."""
        return replace(record, endurance=self._endurance)


def row_on_tile(
    config: pytest.Config,
    own: SessionRow,
    baseline: Baseline,
    name: str,
    shared: Shared,
    properties: list[tuple[str, object]],
) -> TileRow:
    """A row on another tile than the one it was planned for; its job has this name."""
    spec = own.source.spec or own.plan.spec
    assert isinstance(spec, JobSpec)  # only then can it run anywhere
    spec = replace(spec, row_id=baseline.id, name=name, node_list=baseline.tile, attempt=1, excluded_nodes=())
    node_id = f"{own.plan.node_id.partition('::')[0]}::{baseline.id}"
    plan = replace(own.plan, baseline=baseline, node_id=node_id, spec=spec)
    assert isinstance(own.source, LiveRow)  # a replay runs nothing
    source = LiveRow(baseline, shared.settings, shared.executor.launcher, own.source.environ, spec)
    return TileRow(config, plan, source, properties, shared)


# -- The facts of a row's run and of its jobs, for its record ---------------------------------------


def _jobs_facts(
    baseline: Baseline, source: RowSource, measured: MeasuredJobs, executor: Executor, run: Run | None
) -> Jobs:
    """Facts of the row's jobs; without a run its last one has not ended."""

    def facts(job_id: str, status: JobStatus, run: Run | None) -> JobFacts:
        return job_facts(job_id, source.launcher_name, status, run, measured.measurement_of(job_id, status))

    row, submitted, last = executor.rows.row(baseline.id), executor.rows.submitted(baseline.id), None
    if run is not None:
        last = facts(run.job_id, run.status, run)
    elif submitted is not None:
        last = facts(submitted.job.id, submitted.status, None)
    earlier = run.earlier if run is not None else () if row is None else row.earlier
    shown = {last.id if last else "", *(job.job_id for job in earlier)}
    others = [] if row is None else [attempt for attempt in row.attempts if attempt.job_id not in shown]
    if submitted is not None and submitted.job.id not in shown:  # the row's figure is that of an earlier job
        why = "" if submitted.stopped is None else submitted.stopped.fact
        others.append(Attempt(submitted.job.id, submitted.status, why))
    return Jobs(
        last=last,
        attempts=tuple(
            JobFacts.of(job.job_id, executor.launcher.name, job.status, why_repeated=job.why) for job in others
        ),
        repeats=tuple(facts(job.job_id, job.status, job) for job in earlier),
        first_jobs=source.repeats.first,
        confirm_jobs=source.repeats.confirm,
        search=tuple(source.search),
        saved_gpu_hours=saved_gpu_hours(run, baseline),
    )


def _run_facts(settings: Settings, ran: Circumstances, run: Run | None, agreed: dict[str, str]) -> RunFacts:
    """Facts of the run, except its log; ``agreed`` are the settings in it that match the row."""
    written = (dict(ran.environment), ran.variables, ran.image, agreed)
    environment, variables, image, compared = redact(written, os.environ)
    return RunFacts(
        id=settings.run_id,
        cluster=NO_CLUSTER if settings.cluster is None else settings.cluster.name,
        clusters_file=None if settings.cluster is None else settings.cluster.given_file,
        options=settings.row_options,
        tile_options=settings.tile_options,
        simulated_faults=settings.faults,
        replay=None if settings.replay is None else settings.replay.option,
        simulated=ran.is_simulated,
        recorded_s=time.time(),
        outputs=() if run is None else tuple([str(path) for name, path in run.outputs if name != "log"]),
        image=image,
        image_from=ran.image_from,
        environment=environment,
        variables=variables,
        compared=compared,
    )
