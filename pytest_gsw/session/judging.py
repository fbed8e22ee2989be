"""Measurement and judgement of a row's logs by the hooks of all plugins: the same in a session and in each command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.clusters import Cluster
from pytest_gsw.errors import ConfigurationError, GswError, LogError, NotJudgedError, RunError
from pytest_gsw.hook_checks import hook_error, wrong_answer
from pytest_gsw.jobs import layout, replay, spec
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.model import LogFormat, StepLog
from pytest_gsw.results import outcomes, reported_status
from pytest_gsw.session import hook_results, settings
from pytest_gsw.stats.cluster_effect import ClusterEffect
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.stats.verdict import MetricVerdict, Reason, Verdict, judge_metric, with_metrics
from pytest_gsw.tables.metrics import FURTHER, Metric
from pytest_gsw.tables.model import Accepted, Baseline
from pytest_gsw.validation.agreement import Evidence, Provenance
from pytest_gsw.validation.checks import read_steps
from pytest_gsw.validation.measure import measure, read_metrics
from pytest_gsw.validation.run import Run


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
            advice = "give judge() the figure that the hook was handed, or leave accepted out"
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


# -- A log by itself, for the command line -----------------------------------------------------------


@dataclass(frozen=True)
class JudgedLog:
    """A log as a run of a row, judged as a replay of it."""

    log: StepLog
    measurement: Measurement
    verdict: Verdict
    outcome: outcomes.OutcomeKind
    #: The exit status of a session of this row alone.
    status: int
    #: Why the outcome is not that of the verdict; empty if it is.
    why: str
    #: Further metrics of the row that no plugin reads.
    unknown_metrics: tuple[str, ...]


def judge_log(
    config: pytest.Config,
    row: Baseline,
    path: Path,
    job_id: str = "",
    *,
    cluster: Cluster | None = None,
    accepted: Accepted | None = None,
    log_format: LogFormat | None = None,
) -> JudgedLog:
    """Judge a log as a replay judges it: by the hooks of all plugins, without a history and other rows.

    Args:
        config: That of a session with all plugins.
        row: The row.
        path: The log.
        job_id: Its job; empty if unknown.
        cluster: Where it ran, with limits of its own.
        accepted: The cluster's figure, which then is the reference.
        log_format: The log's format, if it is not the row's.

    Raises:
        RunError: It cannot be measured, or a hook failed.
        ConfigurationError: A plugin's metrics or format are invalid.
        OverflowError: Its numbers are too large.
    """
    if row.judged is None or row.criterion.expected_failure:
        raise NotJudgedError(f"{row.id} has no documented figure", advice=f"pytest --gsw-replay={path} judges its end")
    tolerance, max_gain, strict = settings.verdict_rules(config, cluster)
    try:
        job_id = job_id or replay.job_id_of_file(path, hook_results.replayed_spec(config, row))
        run = Run(job_id, JobStatus(JobState.REPLAYED), path, other_files=layout.error_files_of(path))
        log_format = log_format or hook_results.log_format(row, config)
        if log_format is None:
            raise LogError(f"unknown log format '{row.workload.log_format}'")
        found = hook_results.site_metrics(config)
        unknown = hook_results.unknown_metrics(row, found)
        known = replace(row, metrics={key: stated for key, stated in row.metrics.items() if key not in unknown})
        judge = Judge(config, known, log_format, hook_results.ask_for_peak(config, row), found)
        run = replace(run, evidence=judge.evidence_of(run))
        why = not_comparable(run)
        log, measurement, *_ = judge.read(run, traced=layout.in_traced_results(path))
        assert measurement is not None  # a row that should fail is not judged here
        verdict = judge.verdict(
            measurement, tolerance, accepted, None, Repeats(), max_gain or row.criterion.max_gain, None
        )
    except (GswError, OverflowError):
        raise
    except pytest.UsageError as error:
        raise ConfigurationError(str(error)) from None
    except hook_results.RAISED as error:
        raise hook_error(error, config.pluginmanager) from None
    if row.canary and verdict.outcome is Outcome.REGRESSED:
        verdict = excused(verdict)
    outcome = outcomes.of(verdict.outcome.value)
    if why is not None:
        outcome = outcomes.PROFILED
    elif unknown and outcome.status == outcomes.GREEN:
        outcome, why = outcomes.INCONCLUSIVE, f"no plugin here reads {', '.join(unknown)}"
    fails = reported_status.has_failed(outcome.word, verdict.reason.value, strict=strict)
    status = outcomes.FAILED if fails else outcome.status
    return JudgedLog(log, measurement, verdict, outcome, status, why or "", unknown)
