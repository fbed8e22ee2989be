"""A baseline file and its rows as pytest sees them.

A row's set-up waits for its job, reads its log and asks the rule; its call tells what came of it.
So whatever keeps a row from being judged, a hook that raises included, is an ERROR (JUnit
``<error>``), and a regression is a FAILURE.
"""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pytest_gsw.common.files import from_here
from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import command, counted
from pytest_gsw.demo.writers.events import FIRST_LINE
from pytest_gsw.errors import HookError, JobError, LogError, RunError
from pytest_gsw.fleet.entry import Again
from pytest_gsw.fleet.watch import Watch
from pytest_gsw.history.model import Point
from pytest_gsw.history.texts import drift_text
from pytest_gsw.hooks.checks import peak_problem, verdict_problems
from pytest_gsw.hooks.faults import hook_error, wrong_answer
from pytest_gsw.hooks.guard import guarded_format
from pytest_gsw.jobs.environment import job_environment
from pytest_gsw.jobs.journal import Submission
from pytest_gsw.jobs.layout import is_nccl_traced
from pytest_gsw.jobs.model import JobSpec, JobStatus
from pytest_gsw.jobs.spec import NCCL_TRACE_STEPS, profiling_in
from pytest_gsw.logs.model import LogFormat, StepLog
from pytest_gsw.performance.measurement import Measurement
from pytest_gsw.performance.noise import Noise
from pytest_gsw.performance.verdict import (
    UNUSUAL,
    MetricVerdict,
    Outcome,
    Reason,
    Repeats,
    Verdict,
    judge_metric,
    with_metrics,
)
from pytest_gsw.results import junit, outcomes, row_text
from pytest_gsw.results.accepted_text import accepted_text, ignored_text, outdated_text, unused_text
from pytest_gsw.results.attachments import attachment_lines
from pytest_gsw.results.record import JobFacts, Record, write_record
from pytest_gsw.results.recording import Asked, Found, Ran, job_facts, record_of
from pytest_gsw.results.told import has_failed, told
from pytest_gsw.runs.checks import agreed_with_row, check_identity, check_job, read_identity, read_steps
from pytest_gsw.runs.measure import measure, of_all_jobs
from pytest_gsw.runs.metrics import read_metrics
from pytest_gsw.runs.provenance import Provenance, provenance_in
from pytest_gsw.runs.run import Run, ran_out_of_memory, replayed
from pytest_gsw.session.markers import MarkedItem
from pytest_gsw.session.metrics import site_metrics
from pytest_gsw.session.selection import OfTheSession
from pytest_gsw.session.stash import CANARIES, FLEET, NIGHTS, RECORD, SETTINGS, environment_of
from pytest_gsw.tables.definition import accepted_for, accepted_to_expect, definition_hash
from pytest_gsw.tables.images import image_name, image_of
from pytest_gsw.tables.metrics import STEP_TIME
from pytest_gsw.tables.model import Accepted, Baseline


@dataclass(frozen=True)
class _Measured:
    """What a row's set-up leaves for its call."""

    run: Run
    log: StepLog | None = None
    measurement: Measurement | None = None


class BaselineItem(OfTheSession, MarkedItem):
    """One documented row."""

    _measured: _Measured | None = None
    #: The image that the row's run used and what tells it, once that was looked for.
    _image_found: tuple[str | None, str] | None = None
    #: What the last log that was asked for says, by its path.
    _provenance_found: tuple[Path | None, Provenance] = (None, Provenance())
    #: As what pytest is to report the row, and the report's text, once it was judged.
    _judged: tuple[str, str] | None = None
    #: What a hook that observes the row's job has raised.
    hook_failure: HookError | None = None
    #: The peak of the row's accelerator, or why a hook does not tell it, once it was asked for.
    _peak: float | HookError | None = None
    _peak_asked = False
    #: What is to be reported of a result that could not be written down.
    not_written = ""
    spec: JobSpec | None = None
    #: What an earlier session recorded of the row, in a replay of that session.
    recorded: Record | None = None
    #: What an earlier session submitted for the row, in one that goes on with it.
    submitted: Submission | None = None

    def __init__(self, *, baseline: Baseline, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.baseline = baseline
        self._settings = self.config.stash[SETTINGS]
        self._jobs: dict[_JobKey, _Measured] = {}
        #: The row's definition by the image that it ran.
        self._definitions: dict[str | None, str] = {}

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Where the row is written."""
        # The blank keeps pytest from taking the name for that of a Python function, whose dots it
        # would print as "::", so that llama3.1_405b had a node id on the screen that does not exist.
        return self.path, self.baseline.location.line - 1, f"{self.name} "

    def setup(self) -> None:
        """Wait for the job, measure its log, and judge."""
        fleet = self.config.stash.get(FLEET, None)
        if fleet is None or not fleet.knows(self.baseline.id):
            pytest.skip("not run: this session judges nothing (--setup-only, --setup-plan, --gsw-plan)")
        run: Run | None = None
        try:
            run = fleet.take(self.baseline.id)
            run = self._with_recorded_jobs(run)
            self._check_recorded(run)
            self._check_observers()
            if self.baseline.expected_failure and ran_out_of_memory(run):
                self._expected_failure(run)
            check_job(run, self.baseline.recipe.may_fail)
            self._measured = self._measure(run)
            self._check_had_its_jobs(run)
            self._judged = self._decide(self._measured)
        except RunError as error:
            self._raise_error(error, run)
        except Exception as error:
            self._raise_error(hook_error(error, self.config.pluginmanager.list_name_plugin()), run)

    def runtest(self) -> None:
        """Tell what the set-up has found."""
        assert self._judged is not None, "a row is told only after its set-up has judged it"
        kind, text = self._judged
        if kind == "skipped":
            pytest.skip(text)
        if kind == "failed":
            _fail(text)

    @property
    def judged(self) -> tuple[str, str]:
        """As what pytest is to report the row, and the report's text; passed as long as it was not judged."""
        return self._judged or ("passed", "")

    def leave_error(self, error: RunError) -> str:
        """Leave a record of a row that something else ended than its own set-up, and return the text of its report."""
        error = quoted(error, os.environ, self.spec.environment if self.spec else {})
        try:
            record = self._record(outcomes.ERROR.word, error.fact, run=None)
        except pytest.fail.Exception:
            return self.not_written
        return row_text.error_text(error, self._facts(record))

    def _decide(self, measured: _Measured) -> tuple[str, str]:
        """Judge what was measured, record it, and say as what pytest is to report it, with which text."""
        if self.baseline.expected_failure:
            fact = "is documented to run out of memory, but its job completed"
            return self._told(self._record(outcomes.UNEXPECTED_SUCCESS.word, fact, run=measured.run))
        assert measured.measurement is not None
        accepted, unused = self._accepted_for(measured.run)
        verdict = self._with_canaries(self._judge(measured.run, measured.measurement, accepted))
        not_comparable = self._not_comparable(measured.run)
        metric = self.baseline.metric
        tokens_per_s = measured.measurement.figures.tokens_per_s if self.baseline.judged_by is STEP_TIME else None
        record = self._record(
            outcomes.PROFILED.word if not_comparable else verdict.outcome.value,
            # A log may call its ranks anything.
            quoted(
                row_text.row_fact(
                    row_text.verdict_fact(
                        self._documented(), verdict, tokens_per_s, self._cluster_name() or "", metric
                    ),
                    verdict,
                ),
                os.environ,
            ),
            run=measured.run,
            measurement=measured.measurement,
            not_comparable=not_comparable,
            verdict=verdict,
            accepted_note=self._accepted_note(accepted, unused, verdict, measured.run),
        )
        return self._told(record, verdict)

    def _told(self, record: Record, verdict: Verdict | None = None) -> tuple[str, str]:
        """As what pytest is to report a record, and with which text."""
        canaries, strict = self.config.stash[CANARIES], self._settings.strict
        row = told(record, self._facts(record), strict=strict, verdict=verdict, canaries=canaries)
        return row.outcome.pytest, row.text

    def _fails(self, verdict: Verdict) -> bool:
        """Whether an outcome is a failure in this session."""
        return has_failed(verdict.outcome.value, verdict.reason.value, strict=self._settings.strict)

    def _with_canaries(self, verdict: Verdict) -> Verdict:
        """A loss says nothing of a row where a canary row has shown that the cluster is not in its usual state."""
        canaries = self.config.stash[CANARIES]
        if self.baseline.canary and verdict.own is Outcome.REGRESSED:
            canaries.append(self.baseline.id)
        # The canary of a replayed row may not be replayed with it.
        excused = canaries or (self.recorded is not None and self.recorded.reason == Reason.CANARY.value)
        if verdict.outcome is not Outcome.REGRESSED or not excused:
            return verdict
        return dataclasses.replace(verdict, outcome=Outcome.INCONCLUSIVE, own_outcome=None, given_reason=Reason.CANARY)

    def once_more(self, run: Run) -> Again | None:
        """Why one more job of the row is wanted after this one, which ended well; ``None`` where it is not.

        Raises:
            RunError: The job cannot be measured.
        """
        repeats, jobs = self._settings.repeats, len(run.jobs)
        if jobs >= repeats.most or self.baseline.expected_failure or self._not_comparable(run) is not None:
            return None
        check_job(run, self.baseline.recipe.may_fail)
        measurement = self._measure(run).measurement
        assert measurement is not None  # rows that are to fail are not measured, and have ended above
        if jobs < repeats.first:
            return Again(f"{measurement.judged_s:.4g} s, to be repeated ({jobs} of {repeats.first})")
        if self.config.stash[CANARIES]:
            return None  # whatever further jobs would say, the night is inconclusive
        verdict = self._judge(run, measurement, self._accepted_for(run)[0])
        wanted = self._fails(verdict) if verdict.more is None or self._is_too_fast(verdict) else verdict.more > 0
        if not wanted:
            return None
        confirmed = f"to be confirmed ({jobs - repeats.first + 1} of {repeats.confirm})"
        return Again(f"{row_text.worst_change(verdict)}, {confirmed}", _nodes_of(run))

    def _is_too_fast(self, verdict: Verdict) -> bool:
        return verdict.outcome is Outcome.IMPROVED and self._fails(verdict)

    def log_format(self) -> LogFormat | None:
        """How the row's logs are read; ``None`` where nobody can."""
        log_format: LogFormat | None = self.config.hook.pytest_gsw_log_format(
            config=self.config, baseline=self.baseline
        )
        return log_format

    def _steps(self, *, traced: bool) -> int | None:
        """Steps that a run is to do: fewer where NCCL is traced."""
        return NCCL_TRACE_STEPS if traced else self.baseline.recipe.steps

    def watch(self) -> Watch | None:
        """What watches the row's job by its log; ``None`` where nobody reads such logs."""
        log_format = self.log_format()
        if log_format is None or self.spec is None:
            return None
        profiled = self._settings.profile is not None or profiling_in(self.spec.environment) is not None
        return Watch(
            self.baseline,
            log_format,
            self._settings.policies,
            steps=self._steps(traced=is_nccl_traced(self.spec.environment)),
            time_limit_s=self.spec.time_limit_s,
            judged=not profiled,
            accepted=self._accepted_to_expect(self.spec),
        )

    def _accepted_to_expect(self, spec: JobSpec) -> Accepted | None:
        cluster = self._cluster_name()
        image = image_of(job_environment(environment_of(self.config), spec))
        return None if cluster is None else accepted_to_expect(self.baseline, cluster, image)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A report's text; a traceback shows arguments, and those may be the environment."""
        shown = super().repr_failure(excinfo, style)
        return shown if isinstance(excinfo.value, pytest.fail.Exception) else quoted(str(shown), os.environ)

    @property
    def tolerance(self) -> float:
        """The row's own tolerance, unless the cluster or the command line says otherwise."""
        cluster = self._settings.cluster
        return self._settings.tolerance or (cluster and cluster.tolerance) or self.baseline.tolerance

    @property
    def max_gain(self) -> float:
        """The gain that is believed, likewise."""
        cluster = self._settings.cluster
        return self._settings.max_gain or (cluster and cluster.max_gain) or self.baseline.max_gain

    def _check_had_its_jobs(self, run: Run) -> None:
        """Make sure that a row is not judged by fewer jobs than it was to have, because its session was interrupted.

        Raises:
            JobError: It had fewer.
        """
        if self.config.stash[FLEET].interrupted and self.once_more(run) is not None:
            had = counted(len(run.jobs), "job")
            raise JobError(f"interrupted: the row had {had}, and was to have more", advice="run it again")

    def _check_observers(self) -> None:
        """Make sure that no hook which was told of the row's job has failed.

        Raises:
            HookError: One has.
        """
        if self.hook_failure is not None:
            raise self.hook_failure

    def _check_recorded(self, run: Run) -> None:
        """Of a run that an earlier session recorded: make sure that its logs are still the same.

        Raises:
            LogError: One has changed.
        """
        if self.recorded is None:
            return
        sizes = [*(job.log_bytes for job in self.recorded.repeats), self.recorded.log_bytes]
        for log, then in zip([job.log for job in run.jobs], sizes, strict=True):
            now = log.stat().st_size if log is not None and log.is_file() else None
            if then is not None and now is not None and now != then:
                raise LogError(
                    f"the log has changed since the run was recorded: {then:,} bytes then, {now:,} now",
                    evidence=(("log", str(log)),),
                    advice=f"to judge it as it is now, name it: --gsw-replay={log}",
                )

    def _expected_failure(self, run: Run) -> None:
        """The row ran out of memory, as its document says."""
        if run.log is not None:
            check_identity(self.baseline, run, read_identity(run.log, self.baseline.log_format))
        fact = "ran out of memory, as documented"
        self._record(outcomes.EXPECTED_FAILURE.word, fact, run=run)
        pytest.xfail(fact)
        _fail(fact)  # with --runxfail

    def _not_comparable(self, run: Run) -> str | None:
        """What makes the row's figures not comparable, or ``None``."""
        if self.recorded is not None:
            return quoted(self.recorded.not_comparable, os.environ)
        if self._settings.profile is not None:
            return f"--gsw-profile={self._settings.profile.kind}"
        if _in_traced_results(run):
            return "NCCL tracing"
        variable = profiling_in(self.spec.environment) if self.spec and not replayed(run) else None
        return None if variable is None else f"{variable} in the environment"

    def _with_recorded_jobs(self, run: Run) -> Run:
        """A replayed run with the row's jobs before it, whose median its figure was."""
        recorded = self.recorded
        if recorded is None or not recorded.repeats:
            return run
        earlier = tuple(Run(job.id, job.status, Path(job.log) if job.log else None) for job in recorded.repeats)
        return dataclasses.replace(run, earlier=earlier)

    def _measure(self, run: Run) -> _Measured:
        """What the row's jobs measured: this one and those before it."""
        jobs = [self._measure_job(job) for job in run.jobs]
        measurements = [job.measurement for job in jobs if job.measurement is not None]
        if len(measurements) < 2:
            return jobs[-1]
        return _Measured(run, jobs[-1].log, of_all_jobs(self.baseline, measurements, self.peak_flops()))

    def _measure_job(self, run: Run) -> _Measured:
        """What one job measured; a log is read once."""
        key = _job_key(run.job_id, run.status)
        if key not in self._jobs:
            self._jobs[key] = self._read(run)
        return self._jobs[key]

    def _read(self, run: Run) -> _Measured:
        log_format = self.log_format()
        if log_format is None:
            raise LogError(
                f"nobody reads logs of the format '{self.baseline.log_format}'",
                evidence=(("baseline", str(self.baseline.location)),),
                advice="correct log_format there, or install the plugin that provides it",
            )
        run = dataclasses.replace(run, image_was_chosen=self._image_was_chosen(run))
        log_format = guarded_format(log_format, self.config.pluginmanager.list_name_plugin)
        log = read_steps(self.baseline, run, log_format)
        if self.baseline.expected_failure:
            return _Measured(run, log)
        measurement = measure(
            self.baseline,
            run,
            log,
            peak_flops=self.peak_flops(),
            steps=self._steps(traced=self._is_traced(run)),
            first_index=log_format.first_index,
        )
        return _Measured(run, log, dataclasses.replace(measurement, metrics=self._site_metrics(run, log)))

    def _site_metrics(self, run: Run, log: StepLog) -> dict[str, tuple[float, ...]]:
        """What the site's metrics that the row documents read of a log.

        Raises:
            RunError: One is not there, is no figure, or its plugin raised.
        """
        assert run.log is not None  # it was read
        try:
            found = read_metrics(self.baseline, run.log, log, site_metrics(self.config))
        except RunError:
            raise
        except Exception as error:
            raise hook_error(error, self.config.pluginmanager.list_name_plugin()) from None
        return {key: (value,) for key, value in found.items()}

    def _is_traced(self, run: Run) -> bool:
        """Whether the run was one of the few steps for which NCCL is traced."""
        return _in_traced_results(run) or (self.spec is not None and is_nccl_traced(self.spec.environment))

    def _cluster_name(self) -> str | None:
        return self._settings.cluster.name if self._settings.cluster else None

    def _image(self, run: Run | None) -> str | None:
        """The container image that the run used, as far as anything tells it."""
        return self._image_and_source(run)[0]

    def _image_and_source(self, run: Run | None) -> tuple[str | None, str]:
        if self._image_found is None:
            self._image_found = self._find_image(run)
        return self._image_found

    def _provenance(self, run: Run | None) -> Provenance:
        """What the run's log says of its image and versions; read once."""
        path = None if run is None else run.log
        if path != self._provenance_found[0]:
            try:
                self._provenance_found = path, Provenance() if path is None else provenance_in(path)
            except OSError:
                return Provenance()  # that a log cannot be read is for others to say
        return self._provenance_found[1]

    def _find_image(self, run: Run | None) -> tuple[str | None, str]:
        """The image and what tells it: the log, the environment, the table."""
        named, of_table = self._provenance(run).image, self.baseline.recipe.image
        if named is not None:
            return named, "log"
        if self.recorded is not None:
            return self.recorded.image, self.recorded.image_from
        submitted = self._submission_of(run)
        if submitted is not None:
            return submitted.image, "environment" if submitted.image else ""
        # How the row would be started says nothing of a log that exists already.
        if self.spec is not None and self._settings.replay is None:
            named = image_of(job_environment(environment_of(self.config), self.spec))
        if named is not None:
            return named, "environment"
        return (None, "") if of_table is None else (image_name(of_table), "table")

    def _image_was_chosen(self, run: Run) -> bool:
        """Whether another image than the table's may be in the log, since the environment chose one."""
        if self.baseline.recipe.image is None or self.recorded is not None:
            return True
        submitted = self._submission_of(run)
        if submitted is not None:
            return submitted.image is not None
        spec = None if self._settings.replay is not None else self.spec
        return spec is not None and image_of(job_environment(environment_of(self.config), spec)) is not None

    def _submission_of(self, run: Run | None) -> Submission | None:
        """What an earlier session submitted, where that is what ran."""
        submitted = self.submitted
        return submitted if submitted is not None and run is not None and submitted.is_of(run.job_id) else None

    def _definition(self, run: Run | None) -> str:
        """The row's definition when the run was started; empty where nobody wrote it down."""
        now = self._definition_now(run)
        if self.recorded is not None:
            return self.recorded.definition
        submitted = self._submission_of(run)
        if submitted is None or submitted.definition == definition_hash(self.baseline, submitted.image):
            return now
        return submitted.definition

    def _definition_now(self, run: Run | None) -> str:
        image = self._image(run)
        if image not in self._definitions:
            self._definitions[image] = definition_hash(self.baseline, image)
        return self._definitions[image]

    def _accepted_for(self, run: Run) -> tuple[Accepted | None, Accepted | None]:
        """What the session's cluster has accepted for the row, as one that counts and one that does not."""
        now = self._definition_now(run)
        accepted, unused = accepted_for(self.baseline, self._cluster_name(), now)
        return (accepted, unused) if self._definition(run) == now else (None, accepted or unused)

    def _accepted_note(
        self, accepted: Accepted | None, unused: Accepted | None, verdict: Verdict, run: Run
    ) -> str | None:
        """What is to be said of the cluster's own figure, where it has one."""
        then, now = self._definition(run), self._definition_now(run)
        if unused is not None and then != now:
            return outdated_text(unused, then, now)
        if unused is not None:
            return unused_text(unused, now, quoted(self._image(run), os.environ))
        if accepted is None:
            return None
        return ignored_text(accepted) if verdict.accepted_s is None else accepted_text(accepted)

    def _judge(self, run: Run, measurement: Measurement, accepted: Accepted | None) -> Verdict:
        verdict: Verdict | None = self.config.hook.pytest_gsw_judge(
            config=self.config,
            baseline=self.baseline,
            measurement=measurement,
            tolerance=self.tolerance,
            accepted=accepted,
            noise=self._noise(run),
            repeats=self._planned_jobs,
            max_gain=self.max_gain,
        )
        hook = self.config.hook.pytest_gsw_judge
        if not isinstance(verdict, Verdict):
            raise wrong_answer(hook, f"{verdict!r}, which is no sound Verdict")
        problem = _accepted_problem(verdict, accepted)
        if problem is not None:
            advice = "give judge() the figure that the hook was handed, or leave accepted_s out"
            raise wrong_answer(hook, problem, advice)
        if problems := verdict_problems(verdict):
            raise wrong_answer(hook, f"{verdict!r}, which is no sound Verdict", wrong=problems)
        return with_metrics(verdict, self._judged_metrics(measurement))

    def _judged_metrics(self, measurement: Measurement) -> list[MetricVerdict]:
        """The outcome by each of the site's metrics that the row documents."""
        known, repeats = site_metrics(self.config), self._planned_jobs
        return [
            judge_metric(
                known[key],
                measurement.metrics[key],
                stated.value,
                stated.tolerance or self.tolerance,
                repeats,
                self.max_gain,
            )
            for key, stated in self.baseline.metrics.items()
        ]

    @property
    def _planned_jobs(self) -> Repeats:
        """How many jobs the row may have; a replay judges by what it could have had."""
        if self.recorded is not None:
            return Repeats(self.recorded.first_jobs, self.recorded.confirm_jobs)
        return self._settings.repeats

    def _noise(self, run: Run) -> Noise | None:
        """By how much jobs of the row differ on its cluster; a replay judges by what was known then."""
        if self.recorded is not None:
            sigma = self.recorded.sigma
            return None if sigma is None else Noise(sigma, self.recorded.sigma_jobs)
        accepted, _ = self._accepted_for(run)
        nights, definition = self.config.stash[NIGHTS], self._definition(run)
        return nights.noise(self.baseline.id, definition, accepted, self._settings.run_id)

    def _drift(self, run: Run | None) -> str | None:
        """That the newest nights of the row, with this one, differ from its first ones; one line."""
        if self.recorded is not None:
            return self.recorded.drift
        if run is None:
            return None
        job = self._facts_of_job(run.jobs[0].job_id, run.jobs[0].status, run.jobs[0])
        if job.judged_s is None:
            return None
        tonight = Point(
            self._settings.run_id,
            job.id,
            job.end_s or time.time(),
            job.judged_s,
            outcome="",
            nodes=job.nodes,
            image=self._image(run),
            environment=self._environment(run),
        )
        accepted, _ = self._accepted_for(run)
        found = self.config.stash[NIGHTS].drifting(self.baseline.id, self._definition(run), accepted, tonight)
        return None if found is None else quoted(drift_text(found), os.environ)

    def _environment(self, run: Run | None) -> dict[str, str]:
        """What the job ran with, as far as its log and its scheduler tell."""
        if self.recorded is not None:
            return dict(self.recorded.environment)
        if run is None:
            return {}
        launcher = self.config.stash[FLEET].launcher
        version = getattr(launcher, "version", "")
        return {**self._provenance(run).versions, **({launcher.name: version} if version else {})}

    def peak_flops(self) -> float | None:
        """The peak of the row's accelerator, as the hook has it.

        Raises:
            HookError: The hook raised, or returned no number above 0.
        """
        if not self._peak_asked:
            self._peak, self._peak_asked = self._ask_peak(), True
        if isinstance(self._peak, HookError):
            raise self._peak
        return self._peak

    def _ask_peak(self) -> float | HookError | None:
        accelerator, dtype = self.baseline.accelerator, self.baseline.dtype
        try:
            peak: float | None = self.config.hook.pytest_gsw_peak_flops(
                config=self.config, accelerator=accelerator, dtype=dtype
            )
        except Exception as error:
            return hook_error(error, self.config.pluginmanager.list_name_plugin())
        problem = peak_problem(peak)
        if problem is None:
            return peak
        return wrong_answer(self.config.hook.pytest_gsw_peak_flops, f"{problem}, for {accelerator} and {dtype}")

    def _documented(self) -> dict[str, float | None]:
        return dict(vars(self.baseline.documented))

    def _record(
        self,
        outcome: str,
        fact: str,
        *,
        run: Run | None,
        measurement: Measurement | None = None,
        not_comparable: str | None = None,
        verdict: Verdict | None = None,
        accepted_note: str | None = None,
    ) -> Record:
        """Write down what is known of this run, and give it to JUnit and to observers."""
        settings = self._settings
        is_usual = verdict is not None and not_comparable is None and verdict.reason.value not in UNUSUAL
        drift = self._drift(run) if is_usual else None
        found = Found(outcome, fact, measurement, verdict, not_comparable, accepted_note, drift)
        record = record_of(self._asked(), self._ran(run), found)
        try:
            write_record(settings.run_directory, record)
            failure = self._tell_observers(record)
            if failure is not None:
                record = dataclasses.replace(record, outcome=outcomes.ERROR.word, fact=failure.fact)
                write_record(settings.run_directory, record)
            if settings.replay is None:  # a replayed run is in the history already
                self.config.stash[NIGHTS].keep(record)
        except OSError as error:
            # A result that nobody can read again is not one.
            self.not_written = (
                f"the record cannot be written: {error.strerror}: {error.filename or settings.run_directory}\n"
                f"it would have said: {record.outcome}: {record.fact}\n"
                "next       make room there, or give another directory with --gsw-results=DIR"
            )
            _fail(self.not_written)
        self.stash[RECORD] = record
        has_junit = self.config.pluginmanager.has_plugin("junitxml")
        if has_junit and self.config.getini("junit_logging") in {"system-out", "out-err", "all"}:
            # Where Jenkins' plugin for attachments reads them.
            when = "setup" if self._measured is None else "call"
            self.add_report_section(when, "stdout", "\n".join(attachment_lines(record, settings.run_directory)))
        self.user_properties.extend(junit.properties(record))
        if failure is not None and outcome != outcomes.ERROR.word:
            _fail(row_text.error_text(failure, self._facts(record)))
        return record

    def _asked(self) -> Asked:
        try:
            peak_flops = self.peak_flops()
        except HookError:  # told where the row is judged; its record says what is known without it
            peak_flops = None
        cluster = self._cluster_name() or "replay"
        run_id = self._settings.run_id
        return Asked(run_id, self.nodeid, self.baseline, cluster, self.tolerance, self._planned_jobs, peak_flops)

    def _ran(self, run: Run | None) -> Ran:
        image, image_from = self._image_and_source(run)
        written = (self._environment(run), image, self._agreed(run))
        environment, image, compared = quoted(written, os.environ)
        return Ran(
            run,
            self._job_facts(run),
            self._attempts(),
            self._repeats(run),
            self._is_simulated(run),
            self._definition(run),
            image,
            image_from,
            environment,
            compared,
        )

    def _tell_observers(self, record: Record) -> HookError | None:
        """Hand a record to those who asked for it; what one of them raises is told, once they are done."""
        try:
            self.config.hook.pytest_gsw_run_recorded(config=self.config, record=record)
        except Exception as error:
            failure = hook_error(error, self.config.pluginmanager.list_name_plugin())
            return quoted(failure, os.environ, self.spec.environment if self.spec else {})
        return None

    def _agreed(self, run: Run | None) -> dict[str, str]:
        """What the log of the row's last job states as the row does."""
        measured = self._jobs.get(_job_key(run.job_id, run.status)) if run else None
        if measured is None or measured.log is None:
            return {}
        return agreed_with_row(self.baseline, measured.run, measured.log)

    def _is_simulated(self, run: Run | None) -> bool:
        """Whether the figures are made up: by the cluster, by the record, or by what the log says of itself."""
        if self._settings.cluster is not None and self._settings.cluster.simulated:
            return True
        if self.recorded is not None:
            return self.recorded.simulated
        if run is None or run.log is None:
            return False
        with run.log.open("rb") as log:
            return log.read(len(FIRST_LINE)) == FIRST_LINE.encode()

    def _job_facts(self, run: Run | None) -> JobFacts | None:
        fleet = self.config.stash[FLEET]
        job_id = run.job_id if run else fleet.job_id(self.baseline.id)
        status = run.status if run else fleet.status(self.baseline.id)
        if job_id is None or status is None:
            return None
        return self._facts_of_job(job_id, status, run)

    def _facts_of_job(self, job_id: str, status: JobStatus, run: Run | None) -> JobFacts:
        recorded = self.recorded.job if self.recorded else None
        launcher = recorded.launcher if recorded else self.config.stash[FLEET].launcher.name
        measured = self._jobs.get(_job_key(job_id, status))
        return job_facts(job_id, launcher, status, run, measured.measurement if measured else None)

    def _repeats(self, run: Run | None) -> tuple[JobFacts, ...]:
        """The row's jobs before its last one that were measured as well."""
        earlier = self.config.stash[FLEET].earlier(self.baseline.id) if run is None else run.earlier
        return tuple(self._facts_of_job(job.job_id, job.status, job) for job in earlier)

    def _attempts(self) -> tuple[JobFacts, ...]:
        fleet = self.config.stash[FLEET]
        name = fleet.launcher.name
        attempts = fleet.attempts(self.baseline.id)
        return tuple(JobFacts.of(one.job_id, name, one.status, one.why) for one in attempts)

    def _facts(self, record: Record) -> list[tuple[str, str]]:
        settings = self._settings
        cluster = [f"--gsw-cluster={settings.cluster.name}"] if settings.cluster else []
        again = ["pytest", *cluster, *([f"--gsw-replay={settings.replay}"] if settings.replay else []), self.nodeid]
        offline = ["pytest", *cluster, f"--gsw-replay={from_here(settings.run_directory)}", self.nodeid]
        return row_text.run_facts(record, command(*again), command(*offline))

    def _raise_error(self, error: RunError, run: Run | None) -> NoReturn:
        error = quoted(error, os.environ, self.spec.environment if self.spec else {})
        record = self._record(outcomes.ERROR.word, error.fact, run=run)
        _fail(row_text.error_text(error, self._facts(record)))


#: A job: its cluster and id, and its times, because a scheduler that lost its state gives ids out again.
_JobKey = tuple[str, str, float | None, float | None, float | None]


def _job_key(job_id: str, status: JobStatus) -> _JobKey:
    return status.cluster, job_id, status.submit_s, status.start_s, status.end_s


def _nodes_of(run: Run) -> tuple[str, ...]:
    """The nodes of a row's jobs so far, as Slurm names them."""
    return tuple(dict.fromkeys(job.status.nodes for job in run.jobs if job.status.nodes))


def _accepted_problem(verdict: Verdict, accepted: Accepted | None) -> str | None:
    """What is wrong with a verdict that rests neither on the document nor on what the cluster has accepted."""
    wanted = None if accepted is None else accepted.judged_s
    if verdict.accepted_s is None or verdict.accepted_s == wanted:
        return None
    return f"a Verdict with accepted_s={verdict.accepted_s!r}, wanted None{'' if wanted is None else f' or {wanted:g}'}"


def _in_traced_results(run: Run) -> bool:
    """Whether the log lies where the recipes put those of runs that trace NCCL."""
    return run.log is not None and any(part.endswith("-nccl-trace") for part in run.log.parts)


def _fail(text: str) -> NoReturn:
    # pytest's own exception, without a traceback: the text is the report, in set-up and call alike.
    raise pytest.fail.Exception(text, pytrace=False) from None
