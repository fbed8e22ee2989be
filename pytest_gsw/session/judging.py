"""Measurement and judgement of a row's logs by the hooks of all plugins: the same in a session and in each command."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, ParamSpec

import pytest

from pytest_gsw.clusters import Cluster, cluster_files, find_cluster
from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError, GswError, LogError, NotJudgedError, RunError
from pytest_gsw.hook_checks import hook_error, wrong_answer
from pytest_gsw.jobs import layout, replay, spec
from pytest_gsw.jobs.model import BOOST_NOT_SET
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.model import LogFormat, StepLog
from pytest_gsw.results import outcomes, row_text
from pytest_gsw.results.make_record import RowResult, job_facts, record_of, row_facts
from pytest_gsw.results.record import NO_CLUSTER, Jobs, Record, RunFacts
from pytest_gsw.results.reported_status import has_failed, reported_status
from pytest_gsw.session import hook_results, release_choice, settings
from pytest_gsw.session.state import settings_of
from pytest_gsw.stats.cluster_effect import ClusterEffect
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.stats.verdict import MetricVerdict, Reason, Verdict, judge_metric, with_metrics
from pytest_gsw.tables.load import find_row, table_name
from pytest_gsw.tables.metrics import FURTHER, STEP_TIME, Metric
from pytest_gsw.tables.model import Accepted, Baseline, accepted_for, definition_hash, experiment_hash, image_name
from pytest_gsw.validation.agreement import Evidence, Provenance
from pytest_gsw.validation.checks import read_steps
from pytest_gsw.validation.measure import measure, read_metrics
from pytest_gsw.validation.run import Run, unset_boost


@dataclass(frozen=True)
class Judge:
    """The hooks that measure and judge a row's jobs, with the results of those that are called once."""

    config: pytest.Config
    baseline: Baseline
    log_format: LogFormat | None
    peak_flops: float | None
    #: The site's metrics, by key.
    metrics: Mapping[str, Metric]

    def evidence_of(self, run: Run) -> tuple[Evidence, ...]:
        """The evidence of all plugins in files next to a job's log.

        Raises:
            HookError: A hook raised, or returned an invalid result.
        """
        if run.log is None:
            return ()
        hook = self.config.hook.pytest_gsw_evidence
        found: list[Any] = []
        try:
            for answer in hook(config=self.config, log=run.log, job_id=run.job_id):
                found += answer if isinstance(answer, Iterable) and not isinstance(answer, str) else [answer]
        except RunError:
            raise
        except Exception as error:
            raise hook_error(error, self.config.pluginmanager) from None
        wrong = [type(one).__name__ for one in found if not isinstance(one, Evidence)]
        if wrong:
            raise wrong_answer(hook, f"{wrong[0]}, wanted Evidence")
        return tuple(found)

    def read(self, run: Run, *, traced: bool) -> tuple[StepLog, Measurement | None, dict[str, str], Provenance]:
        """A job's log, its measurement, its settings that match the row, and its software.

        There is no measurement if it should fail.

        Raises:
            RunError: The log is not the row's, or cannot be measured.
        """
        baseline, log_format = self.baseline, self.log_format
        assert log_format is not None  # a row without a log format is not read
        assert run.log is not None  # read_steps() refuses a job without one
        log, agreed, provenance = read_steps(baseline, run, log_format)
        if baseline.criterion.expected_failure:
            return log, None, agreed, provenance
        steps, first_index = spec.steps_of(baseline, traced=traced), log_format.first_index
        found = measure(baseline, run, log, peak_flops=self.peak_flops, steps=steps, first_index=first_index)
        try:
            metrics = read_metrics(baseline, run.log, log, self.metrics)
        except RunError:
            raise
        except Exception as error:  # in a site's own metric
            raise hook_error(error, self.config.pluginmanager) from None
        loss = log.losses[-1] if log.losses else None
        measurement = replace(found, metrics={key: (value,) for key, value in metrics.items()}, loss=loss)
        return log, measurement, agreed, provenance

    def verdict(
        self,
        measurement: Measurement,
        tolerance: float | None,
        accepted: Accepted | None,
        noise: Noise | None,
        repeats: Repeats,
        max_gain: float,
        cluster_effect: ClusterEffect | None,
    ) -> Verdict:
        """The verdict of the hook's rule, and of the further metrics that the row documents.

        The tolerance is the cluster's or the command line's; ``None`` for that of the row and of each metric.

        Raises:
            HookError: The rule returned an invalid verdict.
        """
        hook = self.config.hook.pytest_gsw_judge
        verdict = hook(
            config=self.config,
            baseline=self.baseline,
            measurement=measurement,
            tolerance=tolerance or self.baseline.criterion.tolerance,
            accepted=accepted,
            noise=noise,
            repeats=repeats,
            max_gain=max_gain,
            cluster_effect=cluster_effect,
        )
        if not isinstance(verdict, Verdict):
            raise wrong_answer(hook, f"{verdict!r}, which is no Verdict")
        problem = _accepted_problem(verdict, accepted)
        if problem is not None:
            advice = "give verdict_of() the figure that the hook was handed, or leave accepted out"
            raise wrong_answer(hook, problem, advice)
        if verdict.metric is not self.baseline.judged_by:  # of a rule that has made it by itself
            verdict = replace(verdict, metric=self.baseline.judged_by)
        return with_metrics(verdict, self._by_metrics(measurement, tolerance, repeats, max_gain))

    def _by_metrics(
        self, measurement: Measurement, tolerance: float | None, repeats: Repeats, max_gain: float
    ) -> list[MetricVerdict]:
        known, common = {**FURTHER, **self.metrics}, tolerance or self.baseline.criterion.stated_tolerance
        return [
            judge_metric(
                replace(known[key], direction=stated.direction or known[key].direction),
                measurement.metrics[key],
                stated.value,
                common or known[key].tolerance if stated.tolerance is None else stated.tolerance,
                repeats,
                max_gain,
            )
            for key, stated in self.baseline.metrics.items()
        ]


def _accepted_problem(verdict: Verdict, accepted: Accepted | None) -> str | None:
    """The error of a verdict whose reference is neither the document's figure nor the cluster's accepted one."""
    wanted = None if accepted is None else accepted.judged
    if verdict.accepted is None or verdict.accepted == wanted:
        return None
    return f"a Verdict with accepted={verdict.accepted!r}, wanted None{'' if wanted is None else f' or {wanted:g}'}"


def not_comparable(run: Run) -> str | None:
    """The reason by a job's files why its figures are not the row's; ``None`` if there is none."""
    if layout.in_traced_results(run.log):
        return "NCCL tracing"
    return next((one.not_comparable for one in run.evidence if one.not_comparable is not None), None)


def excused(verdict: Verdict) -> Verdict:
    """The verdict of a row that is too slow while a canary shows that the cluster is not in its usual state."""
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, own_outcome=None, given_reason=Reason.CANARY)


def environment_of(run: Run, written: Provenance) -> dict[str, str]:
    """Versions in a job's log and in files next to it, and the GPUs' boost if it could not be raised."""
    beside = {name: value for evidence in run.evidence for name, value in evidence.environment.items()}
    boost = {} if unset_boost(run) is None else {"vboost": BOOST_NOT_SET}
    return {**written.versions, **beside, **boost}


def verdict_text(row: Baseline, measurement: Measurement, verdict: Verdict, cluster: str) -> str:
    """The figures behind a verdict in one line, those of the worst metric first."""
    tokens_per_s = measurement.figures.tokens_per_s if row.judged_by is STEP_TIME else None
    own = row_text.verdict_fact(dict(vars(row.documented)), verdict, tokens_per_s, cluster)
    return row_text.row_fact(own, verdict)


# -- A log by itself: for programs, other tests and the command line ----------------------------------


@dataclass(frozen=True)
class JudgedLog:
    """A log as a run of a row, judged as a replay of it."""

    log: StepLog
    measurement: Measurement
    verdict: Verdict
    #: All facts of the run, as a session records them.
    record: Record
    #: The exit status of a session of this row alone: 0 if it is green, 6 if the outcome is open, else 1.
    status: int
    #: Why the cluster's accepted figure is not used; empty if it is, or if there is none.
    accepted_not_used: str = ""

    @property
    def outcome(self) -> outcomes.OutcomeKind:
        """Its outcome; ``outcome.word`` is ``passed``, ``regressed`` and the like."""
        return outcomes.of(self.record.outcome)

    @property
    def reason(self) -> str:
        """The reason of the outcome; if a further metric decides, that figure."""
        verdict = self.verdict
        of_verdict = verdict.reason.value if verdict.own_outcome is None else row_text.change_first(verdict)
        return self.record.not_comparable or of_verdict

    @property
    def text(self) -> str:
        """The report of the row as a session has it; empty if the row is green."""
        facts = partial(row_text.run_facts, self.record)
        strict = self.status == outcomes.FAILED
        return reported_status(self.record, facts, strict=strict, verdict=self.verdict).text


def judge_log(
    config: pytest.Config,
    row: Baseline,
    path: Path,
    job_id: str = "",
    *,
    cluster: Cluster | None = None,
    log_format: LogFormat | None = None,
) -> JudgedLog:
    """Judge a log as a replay judges it: by the hooks of all plugins, without a history and other rows.

    Args:
        config: That of a session with all plugins.
        row: The row.
        path: The log.
        job_id: Its job; empty if unknown.
        cluster: Where it ran, with limits and accepted figures of its own.
        log_format: The log's format, if it is not the row's.

    Raises:
        RunError: It cannot be measured, or a hook failed.
        ConfigurationError: A plugin's metrics or format are invalid.
    """
    if row.judged is None or row.criterion.expected_failure:
        raise NotJudgedError(f"{row.id} has no documented figure", advice=f"pytest --gsw-replay={path} judges its end")
    try:
        return _judge_log(config, row, path, job_id, cluster, log_format)
    except LogError as error:
        if job_id:
            raise
        evidence = tuple((name, text) for name, text in error.evidence if name != "job")  # the log by itself has none
        raise type(error)(error.fact, evidence, error.tail, error.advice) from None
    except OverflowError:
        raise LogError(f"the numbers in {path} are too large to be measured", (("log", str(path)),)) from None
    except GswError:
        raise
    except pytest.UsageError as error:
        raise ConfigurationError(str(error)) from None
    except hook_results.RAISED as error:
        raise hook_error(error, config.pluginmanager) from None


def _judge_log(
    config: pytest.Config,
    row: Baseline,
    path: Path,
    job_id: str,
    cluster: Cluster | None,
    log_format: LogFormat | None,
) -> JudgedLog:
    tolerance, max_gain, strict = settings.verdict_rules(config, cluster)
    job_id = job_id or replay.job_id_of_file(path, hook_results.replayed_spec(config, row))
    run = Run(job_id, JobStatus(JobState.REPLAYED), path, other_files=layout.error_files_of(path))
    log_format = log_format or hook_results.log_format(row, config)
    if log_format is None:
        raise LogError(f"unknown log format '{row.workload.log_format}'")
    found, peak_flops = hook_results.site_metrics(config), hook_results.ask_for_peak(config, row)
    unknown = hook_results.unknown_metric(row, found)
    if unknown is not None:
        raise unknown
    by = Judge(config, row, log_format, peak_flops, found)
    run = replace(run, evidence=by.evidence_of(run))
    log, measurement, agreed, written = by.read(run, traced=layout.in_traced_results(path))
    assert measurement is not None  # a row that should fail is not judged here
    image = written.image or (image_name(row.recipe.image) if row.recipe.image else None)
    definition, place = definition_hash(row, image), NO_CLUSTER if cluster is None else cluster.name
    accepted, unused = accepted_for(row, None if cluster is None else cluster.name, definition)
    max_gain = max_gain or row.criterion.max_gain
    verdict = by.verdict(measurement, tolerance, accepted, None, Repeats(), max_gain, None)
    if row.canary and verdict.outcome is Outcome.REGRESSED:
        verdict = excused(verdict)
    why = not_comparable(run)
    result = RowResult(
        verdict.outcome.value if why is None else outcomes.PROFILED.word,
        "; ".join(filter(None, (verdict_text(row, measurement, verdict, place), measurement.doubt))),
        why,
        accepted_note(row, accepted, unused, verdict, definition, image),
        remarks=", ".join(measurement.remarks) or None,
        measurement=measurement,
        verdict=replace(verdict, given_reason=verdict.reason),
    )
    facts = row_facts(
        row, f"{table_name(row.location.path)}::{row.id}", verdict.tolerance, definition, experiment_hash(row)
    )
    ran = RunFacts(
        "",
        place,
        simulated=written.is_simulated or (cluster is not None and cluster.simulated),
        replay=str(path),
        image=image,
        environment=environment_of(run, written),
        compared=agreed,
    )
    jobs = Jobs(job_facts(job_id, replay.ReplayLauncher.name, run.status, run, measurement))
    record = redact(record_of(row, facts, ran, jobs, result, peak_flops), os.environ)
    outcome = outcomes.of(record.outcome)
    fails = has_failed(outcome.word, verdict.reason.value, strict=strict)
    status = outcomes.FAILED if fails else outcome.status
    return JudgedLog(log, measurement, verdict, record, status, (record.accepted_note or "") if unused else "")


def accepted_note(
    row: Baseline,
    accepted: Accepted | None,
    unused: Accepted | None,
    verdict: Verdict,
    definition: str,
    image: str | None,
) -> str | None:
    """A note on the cluster's own figure: that it is the reference, or why not; ``None`` if there is none."""
    if unused is not None:
        return row_text.unused_text(row, unused, definition, redact(image, os.environ))
    if accepted is None:
        return None
    text = row_text.ignored_text if verdict.accepted is None else row_text.accepted_text
    return text(accepted, row.judged_by)


_Arguments = ParamSpec("_Arguments")


def _refuse_rules(function: Callable[_Arguments, JudgedLog]) -> Callable[_Arguments, JudgedLog]:
    """The function, which refuses hooks that call it as the built-in rule, whose name it once was."""

    @wraps(function)
    def call(*args: _Arguments.args, **given: _Arguments.kwargs) -> JudgedLog:
        if "baseline" in given or (args and isinstance(args[0], Baseline)):
            raise TypeError("judge() judges a log; in a hook: from pytest_gsw import verdict_of, with these arguments")
        return function(*args, **given)

    return call


@_refuse_rules
def judge(
    log: str | os.PathLike[str],
    row: str | Baseline,
    *,
    baselines: Sequence[str | os.PathLike[str]] = (),
    cluster: str | None = None,
    clusters: str | os.PathLike[str] | None = None,
    plugins: Sequence[str] = (),
    config: pytest.Config | None = None,
) -> JudgedLog:
    """Judge a log as a run of a documented row, as ``pytest-gsw metrics LOG --row ROW`` does.

    Args:
        log: The log.
        row: The row, or its id.
        baselines: Tables that hold it; by default those of sessions here, or the bundled ones of the cluster.
        cluster: The name of the cluster where it ran; by default that of sessions here.
        clusters: A file that defines the cluster, before the usual ones.
        plugins: Modules of further plugins of pytest.
        config: The config of a session of pytest; by default that of one in the working directory.

    Raises:
        RunError: The log may not be judged as a run of the row, or a plugin failed.
        ConfigurationError: There is no such row or cluster, or an option, a file or a plugin's format is invalid.
    """
    try:
        config = hook_results.site_config(plugins) if config is None else config
        of_session = settings_of(config)
        place = of_session.cluster
        if cluster is not None:
            files = cluster_files(None if clusters is None else Path(clusters), (Path.cwd(),), os.environ)
            place = find_cluster(cluster, files, os.environ, "clusters")
        if isinstance(row, str):
            tables: Sequence[Path] = [Path(path) for path in baselines]
            if not tables and of_session.are_tables_named and (cluster is None or of_session.release is None):
                tables = of_session.baselines
            row = find_row(row, tables or release_choice.tables_for(place))
        return judge_log(config, row, Path(log), cluster=place)
    except GswError as error:
        raise redact(error, os.environ) from None
