"""Measurement of a checked log's steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_gsw.common.text import at_line, plural
from pytest_gsw.errors import IncompleteLogError, LogError, TableError
from pytest_gsw.logs import reader, scan
from pytest_gsw.logs.model import Step, StepLog
from pytest_gsw.logs.steps import CALIBRATION_EXAMPLE, STATISTICS
from pytest_gsw.stats import measurement as measurements
from pytest_gsw.stats.figures import calibration_factor, figures, figures_of, model_flops
from pytest_gsw.stats.measurement import Measurement, TimedStep, Timing, log_interval
from pytest_gsw.stats.verdict import ranks_of_jobs
from pytest_gsw.tables.metrics import CALIBRATION, FINAL_LOSS, FURTHER, STEP_TIME, Metric, Series
from pytest_gsw.tables.model import Baseline, Figures, parse_statistic
from pytest_gsw.validation import completeness, training
from pytest_gsw.validation.run import Run, log_evidence


def measure(
    baseline: Baseline, run: Run, log: StepLog, *, peak_flops: float | None, steps: int | None, first_index: int | None
) -> Measurement:
    """The row's statistic over the steps of its log.

    Args:
        baseline: The row.
        run: The ended job.
        log: Its steps.
        peak_flops: Peak FLOP/s of one GPU, for the MFU; if unknown, the log's own calibration is used.
        steps: Planned steps of the run; ``None`` if unknown.
        first_index: The number that the log's format gives to the first step.

    Raises:
        LogError: There are too few steps, the last one is missing, a measured one has other settings than the row, or
            the result is impossible.
        TableError: The result is impossible because the row's own figures contradict each other.
    """
    if baseline.judged_by.series is Series.FIGURES:
        return _measure_figure(baseline, run, log, steps, first_index)
    is_calibrated = CALIBRATION in baseline.judged_by.needs
    if is_calibrated and log.calibration_flops is None:
        raise IncompleteLogError(
            "the log holds no calibration, on which the row's verdict rests",
            evidence=log_evidence(run, log),
            advice=f"the recipe prints it when it has trained, as {CALIBRATION_EXAMPLE}; did it end well?",
        )
    calibration_flops = log.calibration_flops if is_calibrated or peak_flops is None else None
    timed = timed_steps(baseline, log)
    if log.steps and not timed and baseline.judged_by.series is Series.STEPS:
        fact = "the log states rates and no step times, and the row has no batch or length that makes seconds of them"
        advice = f"write sequence_length and global_batch_size into the table: {baseline.location}"
        raise LogError(fact, evidence=log_evidence(run, log), advice=advice)
    interval = completeness.check_steps(baseline, run, log, timed, steps, first_index)
    completeness.check_whole(baseline, run, log)
    statistic = parse_statistic(baseline.criterion.statistic)
    try:
        indices = measurements.selected(statistic, timed, first_index=first_index)
        seconds = measurements.apply(statistic, timed, first_index=first_index)
    except ValueError as error:
        raise IncompleteLogError(
            f"the log does not hold the steps that {baseline.criterion.statistic} needs: {error}",
            evidence=log_evidence(run, log),
        ) from error
    training.check_measured(baseline, run, log, indices, timed, interval)
    impossible_s = next((step.seconds for step in timed if not 0 < step.seconds < math.inf), None)
    if impossible_s is not None:  # before a division by it
        raise LogError(
            f"{impossible_s:g} s is no time of a step",
            evidence=log_evidence(run, log),
            advice="the log shows when steps were dispatched, not how long they took; check its statistic",
        )
    trained = tuple([step for step in timed if step.trained])
    judged = trained if statistic.kind == "last" else [timed[at] for at in indices]
    of_steps = baseline.judged_by.series is not Series.SAVES and statistic.kind != "mean"
    measurement = replace(
        summarize(baseline, trained, seconds, calibration_flops or peak_flops),
        ranks_s=_ranks_s(baseline, log, indices, timed),
        third_s=measurements.slowest_third_s([step.seconds for step in judged], interval) if of_steps else None,
        calibration_flops=calibration_flops,
    )
    mfu = measurement.figures.mfu
    if mfu is not None and mfu > 1:
        evidence = log_evidence(run, log)
        if calibration_flops is None:
            raise impossible_measurement(baseline, mfu, seconds, peak_flops, evidence)
        if baseline.judged_by is not STEP_TIME:
            raise LogError(
                f"MFU {mfu * 100:.1f} % of the measured peak is impossible: {calibration_flops:.3g} FLOP/s are no peak",
                evidence=evidence,
                advice="the machine was busier while it calibrated than while it trained: run it again, alone on the "
                "machine",
            )
        # Its verdict rests on the time alone: a disturbed calibration costs it no more than the MFU.
        return replace(measurement, figures=figures_of(baseline, seconds, None), calibration_flops=None)
    return measurement


def _measure_figure(
    baseline: Baseline, run: Run, log: StepLog, steps: int | None, first_index: int | None
) -> Measurement:
    """The row's statistic over the numbers of its figure."""
    metric = baseline.judged_by
    if log.attempts > 1:
        raise LogError(
            f"the log holds {log.attempts} runs, and the figure of a row is that of one",
            evidence=log_evidence(run, log),
            advice="write each run to a log of its own",
        )
    completeness.check_steps(baseline, run, log, timed_steps(baseline, log), steps, first_index)
    completeness.check_whole(baseline, run, log)
    statistic, values = baseline.criterion.statistic, log.figures.get(baseline.criterion.key_at(metric.key), ())
    if not values:
        raise _missing_figure(metric, baseline, log, log_evidence(run, log))
    try:
        value = measurements.apply(parse_statistic(statistic), [TimedStep(None, value) for value in values])
    except ValueError as error:
        raise IncompleteLogError(
            f"the log holds {plural(len(values), 'number')} of {metric.label}, too few for {statistic}",
            evidence=log_evidence(run, log),
        ) from error
    measurement = Measurement(value, Figures(value=value), Timing(baseline.criterion.statistic), jobs=(value,))
    return replace(measurement, doubt=log.doubt, remarks=log.identity.remarks)


def _missing_figure(
    metric: Metric, baseline: Baseline, log: StepLog, evidence: tuple[tuple[str, str], ...]
) -> LogError:
    """The error of a figure that the log has not at the row's point; it names the points that are there."""
    points = [key.removeprefix(f"{metric.key} at ") for key in log.figures if key.startswith(f"{metric.key} at ")]
    others = dict.fromkeys(key.partition(" at ")[0] for key in log.figures)
    there = [("points", ", ".join(points))] if points else [("figures", ", ".join(others) or "none")]
    at = f" at {baseline.criterion.at}" if baseline.criterion.at else " without a point" if points else ""
    return IncompleteLogError(
        f"the log holds no {metric.label} ({metric.key}){at}, which the row documents",
        evidence=(*evidence, *there, ("baseline", str(baseline.location))),
        advice="write one that is there into the table, or let the run measure it",
    )


def summarize(
    baseline: Baseline, timed: tuple[TimedStep, ...], seconds: float, peak_flops: float | None
) -> Measurement:
    """A measurement from its steps, and the seconds that its statistic is."""
    return Measurement(
        seconds,
        figures_of(baseline, seconds, peak_flops),
        measurements.timing_of([step.seconds for step in timed], baseline.criterion.statistic),
        jobs=(seconds,),
    )


def of_all_jobs(baseline: Baseline, jobs: Sequence[Measurement], peak_flops: float | None) -> Measurement:
    """The measurement of a row's several jobs: the median of their figures, and the series of the last one.

    Its ranks are those of the job in which they differ the most.

    Args:
        baseline: The row.
        jobs: One measurement for each job, in the order in which they ran.
        peak_flops: Peak FLOP/s of one GPU, for the MFU.
    """
    values = tuple(measurement.judged for measurement in jobs)
    judged = statistics.median(values)
    peak_flops = jobs[-1].calibration_flops or peak_flops
    all_figures = figures_of(baseline, judged, peak_flops)
    ranks = ranks_of_jobs(measurement.ranks_s for measurement in jobs)
    metrics = {key: tuple(measurement.metrics[key][0] for measurement in jobs) for key in jobs[-1].metrics}
    steadies_s = tuple(measurement.steady_s for measurement in jobs if measurement.steady_s is not None)
    third_s = statistics.median([max(job.judged, job.third_s or 0.0) for job in jobs]) if steadies_s else None
    last = replace(jobs[-1], steadies_s=steadies_s, third_s=third_s, metrics=metrics)
    doubt = next((measurement.doubt for measurement in jobs if measurement.doubt), None)
    return replace(last, judged=judged, figures=all_figures, jobs=values, ranks_s=ranks, doubt=doubt)


def timed_steps(baseline: Baseline, log: StepLog) -> tuple[TimedStep, ...]:
    """The log's steps in seconds; rates are converted with the row's batch and sequence length.

    For a calibrated row, in seconds of a machine of the documented one's speed.
    """
    if baseline.judged_by.series is Series.SAVES:
        return tuple(TimedStep(None, seconds) for seconds in log.checkpoint_saves_s)
    factor = 1.0
    if CALIBRATION in baseline.judged_by.needs and log.calibration_flops is not None:
        factor = calibration_factor(baseline, log.calibration_flops)
    each_line = (
        training.steps_each_line(log, log_interval([step.index for step in log.steps]))
        if max([step.skipped for step in log.steps], default=0)
        else 1
    )
    return tuple(
        [
            TimedStep(step.index, seconds * factor, not step.skipped or training.is_trained(step, each_line))
            for step in log.steps
            if (seconds := step_seconds(step, baseline)) is not None
        ]
    )


def _ranks_s(baseline: Baseline, log: StepLog, indices: Sequence[int], timed: Sequence[TimedStep]) -> dict[str, float]:
    """Each rank's median over the measured steps, seconds, by its label or by its place among those without one."""
    # Without a batch size no step has a time, and saves are of no rank.
    if log.printed is None or len(timed) != len(log.steps) or baseline.judged_by.series is Series.SAVES:
        return {}
    printed = []
    for position in indices:
        step = log.steps[position]
        factor = timed[position].seconds / (step_seconds(step, baseline) or 1.0)
        seconds = ((label, _in_seconds(step, value, baseline)) for label, value in log.printed(step))
        printed.append([(label, value * factor) for label, value in seconds if value is not None])
    return measurements.ranks_s(printed)


def _in_seconds(step: Step, value: float, baseline: Baseline) -> float | None:
    """A number in the unit of a step, in seconds."""
    if step.seconds is not None:
        return value
    if step.samples_per_s is not None:
        return step_seconds(replace(step, samples_per_s=value), baseline)
    return step_seconds(replace(step, tokens_per_s_per_gpu=value), baseline)


def step_seconds(step: Step, baseline: Baseline) -> float | None:
    """One step's seconds; ``None`` if the row lacks batch size or length to divide by its rate."""
    if step.seconds is not None:
        return step.seconds
    if baseline.batch.global_batch_size is None:
        return None
    if step.samples_per_s is not None:
        return _seconds(baseline.batch.global_batch_size, step.samples_per_s)
    if step.tokens_per_s_per_gpu is not None and baseline.workload.sequence_length is not None:
        tokens = baseline.batch.global_batch_size * baseline.workload.sequence_length
        return _seconds(tokens / baseline.gpus, step.tokens_per_s_per_gpu)
    return None


def _seconds(amount: float, per_s: float) -> float:
    """Seconds for an amount; infinite for a rate of zero, which :func:`measure` refuses."""
    return amount / per_s if per_s else math.inf


# -- Values of a site's metrics from an ended run


@dataclass(frozen=True)
class MetricLog:
    """The source of a metric: the last attempt in a run's log."""

    baseline: Baseline
    #: Its steps, as read by the row's log format.
    steps: Sequence[Step]
    path: Path
    #: Byte offset at which the last attempt's lines begin.
    begin: int = 0

    def lines(self, *markers: bytes) -> Iterator[bytes]:
        """The whole lines that hold one of these texts, without line ends, in order.

        Args:
            markers: The texts; the log is searched for them only, however large it is.
        """
        return (line for _, line in scan.matching_records(self.path, markers, start=self.begin))


def read_metrics(baseline: Baseline, path: Path, log: StepLog, known: Mapping[str, Metric]) -> dict[str, float]:
    """The number of each metric that a row documents, by key.

    Args:
        baseline: The row.
        path: The log.
        log: Its contents, as read by the row's format.
        known: The site's metrics, by key; those of the row are among them, or are pytest-gsw's own.

    Raises:
        LogError: One is missing, or is no number above zero.
    """
    if not baseline.metrics:
        return {}
    built_in = [key for key in baseline.metrics if key not in known]
    numbers = {key: _further_figure(FURTHER[key], baseline, path, log) for key in built_in}
    if len(numbers) < len(baseline.metrics):
        source = MetricLog(baseline, log.steps, path, _begin(path, log))
        with reader.reading(path):
            numbers |= {key: _number(known[key], source) for key in baseline.metrics if key not in numbers}
    return {key: numbers[key] for key in baseline.metrics}


def _further_figure(metric: Metric, baseline: Baseline, path: Path, log: StepLog) -> float:
    """The last number of a benchmark's figure at the row's point, or of the loss.

    Raises:
        LogError: There is none above zero, which a change in percent needs.
    """
    figures = {FINAL_LOSS.key: log.losses or ()} if metric is FINAL_LOSS else log.figures
    values = figures.get(baseline.criterion.key_at(metric.key)) or figures.get(metric.key)
    if not values:
        raise _missing_figure(metric, baseline, log, (("log", str(path)),))
    if metric is FINAL_LOSS and values[-1] <= 0:
        at = f" at step {log.steps[-1].index}" if len(values) == len(log.steps) and log.steps[-1].index else ""
        raise LogError(
            f"the final loss is {values[-1]:g}{at}, and only one above 0 can be compared",
            evidence=(("log", str(path)), ("baseline", str(baseline.location))),
            advice="if that is right, as in reinforcement learning, remove final_loss from the row's metrics",
        )
    return _finite(metric, values[-1], path)


def _begin(path: Path, log: StepLog) -> int:
    """Byte offset of the last attempt; lines before its first step may be an earlier attempt's.

    Raises:
        LogError: There are several attempts, and the beginning of the last one is unknown.
    """
    if log.attempts < 2:
        return 0
    offset = log.steps[0].offset if log.steps else None
    if offset is None:
        raise LogError(
            f"the log holds {log.attempts} attempts, and its format does not show where the last one begins",
            evidence=(("log", str(path)),),
            advice="the row documents further metrics, which are those of the last attempt: "
            "let the format's parser give each Step its offset",
        )
    return offset


def _number(metric: Metric, source: MetricLog) -> float:
    assert metric.read is not None  # a hook's results were checked
    values = [_finite(metric, value, source.path) for value in metric.read(source)]
    if not values:
        raise IncompleteLogError(
            f"the log holds no {metric.label} ({metric.key}), which the row documents",
            evidence=(("log", str(source.path)), ("baseline", str(source.baseline.location))),
            advice="look at whether the run prints it, and at the plugin that reads it",
        )
    return STATISTICS[metric.statistic](values)


def _finite(metric: Metric, value: Any, path: Path) -> float:
    """The finite number above zero in a metric's value, which may be the log's own bytes.

    Raises:
        LogError: There is none.
    """
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if 0 < number < math.inf:
        return number
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else repr(value)
    raise LogError(
        f"{metric.label} ({metric.key}) is {text[:40]} in the log, wanted a number above 0",
        evidence=(("log", str(path)),),
        advice="find out why before measuring: a figure that is not finite shows a faulty run",
    )


# -- An MFU above one: a fault of the log, or of a table whose own figures give it, too


_ADVICE = "correct {} there, or leave it out: the verdict does not rest on it"


def impossible_table(baseline: Baseline, peak_flops: float | None) -> TableError | None:
    """The error for a documented step time and model FLOPs with an MFU above one; ``None`` if it is possible.

    No job needs to run for it.
    """
    step_time_s = baseline.documented.step_time_s
    mfu = figures(baseline, step_time_s, peak_flops).mfu
    if mfu is None or mfu <= 1:
        return None
    fact = (
        f"the table contradicts itself: MFU {mfu * 100:.1f} % is impossible, and its own {step_time_s:.4g} s gives it"
    )
    return TableError(fact, _evidence(baseline, peak_flops), advice=_ADVICE.format(model_flops(baseline)[1]))


def impossible_measurement(
    baseline: Baseline, mfu: float, seconds: float, peak_flops: float | None, evidence: tuple[tuple[str, str], ...]
) -> TableError | LogError:
    """The error for a measured MFU above one; the documented MFU shows if the table's FLOPs are at fault."""
    documented = baseline.documented
    table = impossible_table(baseline, peak_flops)
    if table is not None:
        return table
    if documented.mfu is not None and documented.step_time_s is not None:
        by_document = documented.mfu * documented.step_time_s / seconds
        if by_document <= 1:
            return TableError(
                f"the table contradicts itself: {seconds:.4g} s is an MFU of {by_document * 100:.1f} % by its mfu, "
                f"and of {mfu * 100:.1f} % by its {model_flops(baseline)[1]}",
                (*_evidence(baseline, peak_flops), *evidence),
                advice=_ADVICE.format(model_flops(baseline)[1]),
            )
    return LogError(
        f"MFU {mfu * 100:.1f} % is impossible: no hardware takes {seconds:.4g} s for a step",
        evidence=evidence,
        advice="the log shows when steps were dispatched, not how long they took; check its statistic",
    )


def _evidence(baseline: Baseline, peak_flops: float | None) -> tuple[tuple[str, str], ...]:
    """The place of the figures, and their values."""
    documented, computed = baseline.documented, figures(baseline, baseline.documented.step_time_s, peak_flops)
    mfu = "" if documented.mfu is None else f", an MFU of {documented.mfu * 100:.4g} %"
    batch = baseline.batch.global_batch_size or 1
    formula = (
        f"{batch} * {(model_flops(baseline)[0] or 0) / batch:.4g} FLOPs / {documented.step_time_s:.4g} s"
        f" / {baseline.gpus} GPUs / {peak_flops or 0:.4g} FLOP/s = {(computed.mfu or 0) * 100:.1f} %"
    )
    return (
        ("baseline", str(baseline.location)),
        ("document", at_line(baseline.source.document, baseline.source.line)),
        ("documented", f"{documented.step_time_s:.4g} s a step{mfu}"),
        ("computed", formula),
    )
