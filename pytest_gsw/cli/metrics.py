"""``pytest-gsw metrics``: the figures of a log, by itself or as a run of a documented row; the rows of many logs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_gsw.cli.output import Answer, quoted_answer
from pytest_gsw.cli.rows import cluster_of, format_called, tables_on
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.text import percent, plain_table, plural
from pytest_gsw.errors import ConfigurationError, LogError, RunError
from pytest_gsw.jobs import layout
from pytest_gsw.logs.model import LogFormat, Step, StepLog
from pytest_gsw.logs.reader import detect_format, read_log
from pytest_gsw.results import outcomes
from pytest_gsw.stats.measurement import TimedStep, apply, timing_of
from pytest_gsw.tables import load, metrics
from pytest_gsw.tables.model import Baseline, parse_statistic
from pytest_gsw.validation.matching import match_logs

#: Between the name of a figure and its point, ``busbw_gbs at 16 GiB``.
_AT = " at "


def run(args: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    if not args.log.exists():
        from pytest_gsw.cli.run_arguments import run_directory  # needs the history

        args.log = run_directory(args.ini, str(args.log)) or args.log
    is_directory = args.log.is_dir()
    if args.cluster is not None and args.row is None and not is_directory:
        raise ConfigurationError("--cluster judges a row; add --row=ID")
    if args.clusters is not None and args.cluster is None:
        raise ConfigurationError("--clusters is where --cluster is looked up; add --cluster=NAME")
    row, tables = None, None
    if args.row is not None or is_directory:
        args.cluster = args.cluster or args.ini.cluster
        args.clusters = args.clusters or args.ini.clusters
        tables = args.ini.tables(args.baselines) or tables_on(args.cluster, args.clusters)
    if args.row is not None:
        row = load.find_row(args.row, tables)
    log_format = format_called(args.format, args.plugins) if args.format else None
    if is_directory:
        return _directory_metrics(args, log_format, load.load_tables(tables) if row is None else (row,))
    status = outcomes.GREEN
    try:
        if row is not None:
            facts, status = _row_metrics(args, log_format, row, args.log)
        else:
            log = read_log(args.log, log_format or detect_format(args.log))
            facts = _log_metrics(log, "last" if args.statistic is None else args.statistic)
    except OverflowError:
        raise LogError(f"the numbers in {args.log} are too large to be measured") from None
    _check_finite(facts, args.log)
    texts = {name: _format_value(name, value) for name, value in facts.items() if value is not None}
    lines = [f"{name:<24} {text}" for name, text in texts.items() if _AT not in name]
    return quoted_answer(args, facts, "\n".join([*lines, *_by_point(texts)]), status)


def _by_point(texts: Mapping[str, str]) -> list[str]:
    """The figures that a benchmark has at several points, such as sizes of messages, as a table of these."""
    points: dict[str, dict[str, str]] = {}
    for name, text in texts.items():
        figure, at, point = name.partition(_AT)
        if at:
            points.setdefault(point, {})[figure] = text
    figures = list(dict.fromkeys(name for values in points.values() for name in values))
    table = [[point, *map(values.get, figures)] for point, values in points.items()]
    return ["", plain_table(table, ">at", *(f">{name}" for name in figures))] if table else []


def _check_finite(facts: dict[str, Any], log: Path) -> None:
    for name, value in facts.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise LogError(f"{name} is {value:g}: the numbers in {log} cannot be measured")


def _directory_metrics(args: argparse.Namespace, log_format: LogFormat | None, rows: Sequence[Baseline]) -> Answer:
    """All logs of a directory with their rows, figures and changes, or the reasons why there are none."""
    if args.statistic is not None:
        raise ConfigurationError("--statistic: rows have their own; name one log, or leave it out")
    from pytest_gsw.session.hook_results import found_logs, site_config  # as in _row_metrics()

    matches = match_logs(args.log, rows, found_logs(site_config(args.plugins), args.log, rows))
    logs = [_match_metrics(args, log_format, match) for match in matches]
    if not logs:
        raise ConfigurationError(f"there is no log in {args.log}\nwanted: *.out, *.log or *.txt")
    cells, facts, statuses = zip(*logs, strict=True)
    text = plain_table(cells, "log", "row", ">figure", ">change", "verdict", style="simple")
    counts = f"{plural(len(logs), 'log')}, {sum(log['row'] is not None for log in facts)} with a row"
    return quoted_answer(args, facts, f"{text}\n{counts}", outcomes.exit_status(statuses))


def _match_metrics(
    args: argparse.Namespace, log_format: LogFormat | None, match: layout.Match
) -> tuple[tuple[str | None, ...], dict[str, Any], int]:
    """The cells of a log in a directory's table, its facts, and its exit status."""
    place, row, why, status = str(relative_path(match.path)), match.row, match.why, outcomes.OPEN
    row_id = None if row is None else row.id
    facts = {"log": place, "job": match.job_id, "row": row_id, "refused": None}
    if row is not None:
        try:
            judged, status = _row_metrics(args, log_format, row, match.path, match.job_id)
            _check_finite(judged, match.path)
        except RunError as error:
            why, status = error.fact, outcomes.FAILED
        else:
            metric = row.judged_by
            figure, change = metric.text(judged[metric.key]), percent(judged[metric.change_key])
            return (place, row_id, figure, change, judged["verdict"]), facts | judged, status
    return (place, row_id, None, None, f"refused: {why}"), {**facts, "refused": why}, status


def _log_metrics(log: StepLog, statistic: str) -> dict[str, Any]:
    """A log by itself. Rates become step times only if the log says its global batch size."""
    try:
        chosen = parse_statistic(statistic)
    except ValueError as error:
        raise ConfigurationError(f"--statistic: {error}") from None
    timed = tuple(
        TimedStep(step.index, seconds)
        for step in log.steps
        if (seconds := _own_seconds(step, log.identity.global_batch_size)) is not None
    )
    try:
        step_time_s = apply(chosen, timed) if timed else None
    except ValueError as error:
        raise LogError(f"the log does not hold the steps that {statistic} needs: {error}") from None
    last = log.steps[-1] if log.steps else None
    return {
        "format": log.format,
        "steps": len(log.steps),
        "statistic": str(chosen),
        metrics.STEP_TIME.key: step_time_s,
        "first_step_time_s": timed[0].seconds if timed else None,
        "last_step_time_s": timed[-1].seconds if timed else None,
        "median_step_time_s": timing_of([step.seconds for step in timed]).median_s if timed else None,
        metrics.SAMPLES_PER_S.key: last.samples_per_s if last else None,
        metrics.TOKENS_PER_S_PER_GPU: last.tokens_per_s_per_gpu if last else None,
        "global_batch_size": log.identity.global_batch_size,
        metrics.SAVE_TIME.key: log.checkpoint_saves_s[-1] if log.checkpoint_saves_s else None,
        "calibration_flops": log.calibration_flops,
        "runs_in_file": log.attempts,
        "not_finite": log.not_finite[1] if log.not_finite else None,
        **{key: values[-1] for key, values in log.figures.items() if values},
    }


def _own_seconds(step: Step, global_batch_size: int | None) -> float | None:
    if step.samples_per_s and global_batch_size:
        return global_batch_size / step.samples_per_s
    return step.seconds


def _row_metrics(
    args: argparse.Namespace, log_format: LogFormat | None, row: Baseline, path: Path, job_id: str = ""
) -> tuple[dict[str, Any], int]:
    """A log as a run of a documented row: a session's own checks, measurement and verdict, and its exit status."""
    if args.statistic is not None:
        raise ConfigurationError(
            f"--statistic: the row has its own, {row.criterion.statistic}; leave out one of the two"
        )
    # pytest and a site's plugins take a while to import.
    from pytest_gsw.session.hook_results import site_config
    from pytest_gsw.session.judging import judge_log

    cluster = cluster_of(args.cluster, args.clusters)
    judged_log = judge_log(site_config(args.plugins), row, path, job_id, cluster=cluster, log_format=log_format)
    log, measurement, verdict = judged_log.log, judged_log.measurement, judged_log.verdict
    found, timing, judged = measurement.figures, measurement.timing, row.judged_by
    # The series of a calibrated row is that of the documented machine; the figures here are this run's.
    scale = (found.step_time_s or 1.0) / found.calibrated_step_time_s if found.calibrated_step_time_s else 1.0
    of_series = {
        f"{name}_step_time_s": seconds * scale
        for name, seconds in (("first", timing.first_s), ("last", timing.last_s), ("median", timing.median_s))
        if seconds is not None
    }
    facts = {
        "format": log.format,
        "steps": measurement.steps,
        "statistic": timing.statistic,
        metrics.STEP_TIME.key: found.step_time_s,
        judged.key: measurement.judged,
        "unit": judged.unit,
        "at": row.criterion.at,
        **of_series,
        "calibration_flops": measurement.calibration_flops,
        "runs_in_file": log.attempts,
        "row": row.id,
        "definition": judged_log.record.row.definition,
        "image": judged_log.record.run.image,
        "documented": verdict.documented,
        "accepted": verdict.accepted,
        "accepted_not_used": judged_log.accepted_not_used or None,
        metrics.TOKENS_PER_S.key: found.tokens_per_s,
        metrics.MFU.key: found.mfu,
        metrics.TFLOPS_PER_GPU.key: found.tflops_per_gpu,
        metrics.DAYS_TO_TRAIN.key: found.days_to_train_1t_tokens,
        judged.change_key: verdict.change,
        "tolerance": verdict.tolerance,
        **{one.metric.key: one.measured for one in verdict.metrics},
        "verdict": judged_log.outcome.word,
        "reason": judged_log.reason,
    }
    return facts, judged_log.status


def _format_value(name: str, value: Any) -> str:
    if name in {"change", "throughput_change"}:
        return percent(value)
    if name in metrics.PERCENTAGES | {"tolerance"}:
        return f"{value:.2%}"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.5g}"
