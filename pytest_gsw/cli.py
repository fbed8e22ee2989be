"""``pytest-gsw``: what there is to know of tables and logs without running anything."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from tabulate import tabulate

from pytest_gsw.errors import ConfigurationError, LogError, RunError
from pytest_gsw.examine import Run, measure, read_steps
from pytest_gsw.jobs.journal import read_journal
from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.logs.formats import FORMATS
from pytest_gsw.logs.model import LogFormat, Step, StepLog
from pytest_gsw.logs.reader import detect_format, last_step, read_log
from pytest_gsw.performance.figures import figures
from pytest_gsw.performance.measurement import TimedStep, apply
from pytest_gsw.performance.peaks import peak_flops
from pytest_gsw.performance.verdict import judge
from pytest_gsw.quoting import quoted
from pytest_gsw.results.rebuild import counts, junit_text, read_run, rebuild_junit
from pytest_gsw.results.terminal import percent
from pytest_gsw.selftest import Report, selftest
from pytest_gsw.tables.fields import nearest
from pytest_gsw.tables.load import bundled_baselines, load_tables
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.statistic import parse_statistic

#: Wrong cases of a self-test that are shown in full.
_SHOWN_WRONG = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Returns:
        0 when it did what was asked, 1 when a log could not be measured or the self-test has
        found a fault, 2 when what was asked is wrong.
    """
    parser = _parser()
    asked = parser.parse_args(arguments)
    try:
        answer: str | _Answer = asked.run(asked)
    except (ConfigurationError, RunError) as error:
        print(f"pytest-gsw {asked.command}: {quoted(str(error), os.environ)}", file=sys.stderr)
        return 2 if isinstance(error, ConfigurationError) else 1
    text, status = answer if isinstance(answer, _Answer) else _Answer(answer, 0)
    try:
        print(text, flush=True)
    except BrokenPipeError:  # "pytest-gsw rows | head" is no error
        _drop_output()
    except OSError as error:
        print(f"pytest-gsw {asked.command}: the output cannot be written: {error.strerror}", file=sys.stderr)
        _drop_output()
        return 1
    return status


def _drop_output() -> None:
    """Let go of what could not be written, or Python would try it again when it exits, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class _Answer(NamedTuple):
    """What to print, and the exit status."""

    text: str
    status: int


def row_facts(row: Baseline) -> dict[str, Any]:
    """One row as ``pytest-gsw rows --json`` lists it; ``None`` where there is no such figure."""
    computed = figures(row, row.documented.step_time_s, peak_flops(row.accelerator, row.dtype))
    return {
        "id": row.id,
        "workload": row.workload,
        "framework": row.framework,
        "dtype": row.dtype,
        "accelerator": row.accelerator,
        "gpus": row.gpus,
        "nodes": row.nodes,
        "sequence_length": row.sequence_length,
        "global_batch_size": row.global_batch_size,
        "micro_batch_size": row.micro_batch_size,
        "gradient_accumulation_steps": row.gradient_accumulation_steps,
        "layers": row.layers,
        "parallelism": asdict(row.parallelism),
        "metric": row.metric,
        "statistic": row.statistic,
        "tolerance": row.tolerance,
        "step_time_s": row.documented.step_time_s,
        "documented": _derived(row.documented),
        "computed": _derived(computed),
        "model_flops_per_sample": row.model_flops_per_sample,
        "proxy": row.proxy,
        "expected_failure": row.expected_failure,
        "notes": row.notes,
        "attributes": dict(row.attributes),
        "source": {"document": row.source.document, "line": row.source.line},
        "baseline": {"file": str(row.location.path), "line": row.location.line},
    }


def _derived(of: Any) -> dict[str, float | None]:
    found = asdict(of)
    del found["step_time_s"]
    return {name: value if value is None or math.isfinite(value) else None for name, value in found.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytest-gsw", description="Tables and logs of LLM training performance; nothing is ever run."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    rows = commands.add_parser("rows", help="list the documented rows")
    rows.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="tables (default: the bundled ones)")
    rows.add_argument("--json", action="store_true", help="print JSON: a list of objects")
    rows.set_defaults(run=_rows)
    metrics = commands.add_parser("metrics", help="measure one log")
    metrics.add_argument("log", type=Path, metavar="LOG")
    metrics.add_argument("--format", choices=sorted(FORMATS), help="log format (default: found by content)")
    metrics.add_argument("--row", metavar="ID", help="the documented row that the log is a run of")
    metrics.add_argument("--baselines", action="append", type=Path, metavar="PATH", help="tables that hold the row")
    metrics.add_argument("--statistic", metavar="S", help="such as last, mean[35:44], median[-10:]")
    metrics.add_argument("--last", action="store_true", help="read only the last step, from the end of the log")
    metrics.add_argument("--json", action="store_true", help="print JSON: one object")
    metrics.set_defaults(run=_metrics)
    test = commands.add_parser("selftest", help="check the comparator on logs whose truth is known")
    test.add_argument("--seed", type=int, default=1, metavar="N", help="another set of cases (default: 1)")
    test.add_argument("--keep", type=Path, metavar="DIR", help="keep the logs of cases that come out wrong there")
    test.add_argument("--json", action="store_true", help="print JSON: one object")
    test.set_defaults(run=_selftest)
    junit = commands.add_parser("junit", help="rebuild a run's JUnit file from its records")
    junit.add_argument("run_directory", type=Path, metavar="RUN", help="the run's directory, such as .gsw/runs/ID")
    junit.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there (default: print it)")
    junit.add_argument("--strict", action="store_true", help="rows faster than the tolerance allows are failures")
    junit.set_defaults(run=_junit)
    return parser


def _rows(asked: argparse.Namespace) -> str:
    rows = load_tables(asked.paths or [bundled_baselines()])
    if asked.json:
        return json.dumps([row_facts(row) for row in rows], indent=2, allow_nan=False)
    table = [
        (
            row.id,
            row.nodes,
            row.global_batch_size or "",
            "OOM" if row.expected_failure else f"{row.judged_s:g}",
            f"{row.documented.tokens_per_s:,.0f}" if row.documented.tokens_per_s else "",
            f"{row.documented.mfu:.2%}" if row.documented.mfu else "",
            f"{row.documented.tflops_per_gpu:g}" if row.documented.tflops_per_gpu else "",
            f"{row.tolerance * 100:g} %",
            f"{row.source.document}:{row.source.line}",
        )
        for row in rows
    ]
    headers = ("row", "nodes", "GBS", "seconds", "tokens/s", "MFU", "TFLOP/s/GPU", "tolerance", "document")
    align = ("left", *["right"] * 7, "left")
    listing = tabulate(table, headers=headers, colalign=align, tablefmt="simple", disable_numparse=True)
    return f"{listing}\n{len(rows)} {'row' if len(rows) == 1 else 'rows'}"


def _metrics(asked: argparse.Namespace) -> str:
    if asked.last and (asked.row is not None or asked.statistic is not None):
        raise ConfigurationError("--last reads one step only; leave out --row and --statistic")
    row = None if asked.row is None else _find_row(asked.row, asked.baselines)
    log_format = FORMATS[asked.format] if asked.format else _format_of(row, asked.log)
    try:
        facts = _facts(asked, log_format, row)
    except OverflowError:
        raise LogError(f"the numbers in {asked.log} are too large to be measured") from None
    for name, value in facts.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise LogError(f"{name} is {value:g}: the numbers in {asked.log} cannot be measured")
    if asked.json:
        return json.dumps(facts, indent=2, allow_nan=False)
    return "\n".join(f"{name:<24} {_shown(name, value)}" for name, value in facts.items() if value is not None)


def _facts(asked: argparse.Namespace, log_format: LogFormat, row: Baseline | None) -> dict[str, Any]:
    if asked.last:
        return _last_facts(asked.log, log_format)
    if row is not None:
        return _row_metrics(asked.log, log_format, row, asked.statistic)
    return _log_metrics(read_log(asked.log, log_format), "last" if asked.statistic is None else asked.statistic)


def _format_of(row: Baseline | None, log: Path) -> LogFormat:
    """The row's log format, else the one that the log's content shows."""
    known = FORMATS.get(row.log_format) if row else None
    return known or detect_format(log)


def _find_row(given: str, tables: Sequence[Path] | None) -> Baseline:
    """The row of this id; a node id of pytest will do as well."""
    wanted = given.rpartition("::")[2]
    rows = load_tables(tables or [bundled_baselines()])
    found = [row for row in rows if row.id == wanted]
    if not found:
        raise ConfigurationError(
            f"there is no row '{wanted}'{nearest(wanted, [row.id for row in rows])}\nnext: pytest-gsw rows"
        )
    if len(found) > 1:
        places = "\n".join(f"  {row.location}" for row in found)
        raise ConfigurationError(f"there are {len(found)} rows '{wanted}':\n{places}\nnext: name one with --baselines")
    return found[0]


def _last_facts(path: Path, log_format: LogFormat) -> dict[str, Any]:
    step = last_step(path, log_format)
    if step is None:
        raise LogError(f"no step of the format {log_format.name} in {path}")
    return {"format": log_format.name, "statistic": "last", "step": step.index, **_rates(step)}


def _rates(step: Step) -> dict[str, Any]:
    return {
        "step_time_s": step.seconds,
        "samples_per_s": step.samples_per_s,
        "tokens_per_s_per_gpu": step.tokens_per_s_per_gpu,
    }


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
        judged_s = apply(chosen, timed) if timed else None
    except ValueError as error:
        raise LogError(f"the log does not hold the steps that {statistic} needs: {error}") from None
    last = log.steps[-1] if log.steps else None
    return {
        "format": log.format,
        "steps": len(log.steps),
        "statistic": str(chosen),
        "step_time_s": judged_s,
        "first_step_time_s": timed[0].seconds if timed else None,
        "last_step_time_s": timed[-1].seconds if timed else None,
        "median_step_time_s": apply(parse_statistic("median"), timed) if timed else None,
        "samples_per_s": last.samples_per_s if last else None,
        "tokens_per_s_per_gpu": last.tokens_per_s_per_gpu if last else None,
        "global_batch_size": log.identity.global_batch_size,
        "checkpoint_save_time_s": log.checkpoint_saves_s[-1] if log.checkpoint_saves_s else None,
        "runs_in_file": log.attempts,
        "not_finite": quoted(log.not_finite[1], os.environ) if log.not_finite else None,
    }


def _own_seconds(step: Step, global_batch_size: int | None) -> float | None:
    if step.samples_per_s and global_batch_size:
        return global_batch_size / step.samples_per_s
    return step.seconds


def _row_metrics(path: Path, log_format: LogFormat, row: Baseline, statistic: str | None) -> dict[str, Any]:
    """A log as a run of a documented row: the plugin's own checks, measurement and verdict."""
    if statistic is not None:
        raise ConfigurationError(f"--statistic: the row has its own, {row.statistic}; leave out one of the two")
    run = Run(job_id="", status=JobStatus(JobState.REPLAYED), log=path)
    try:
        log = read_steps(row, run, log_format)
        measurement = measure(
            row,
            run,
            log,
            peak_flops=peak_flops(row.accelerator, row.dtype),
            steps=row.recipe.steps,
            first_index=log_format.first_index,
        )
    except LogError as error:  # a log by itself is of no job that there is anything to say of
        evidence = tuple((name, text) for name, text in error.evidence if name != "job")
        raise LogError(error.fact, evidence, error.tail, error.advice) from None
    try:
        verdict = judge(row, measurement, row.tolerance)
    except ValueError as error:
        raise LogError(str(error)) from None
    found = measurement.figures
    return {
        "format": log.format,
        "steps": measurement.steps,
        "statistic": measurement.statistic,
        "step_time_s": found.step_time_s,
        "first_step_time_s": measurement.first_s,
        "last_step_time_s": measurement.last_s,
        "median_step_time_s": measurement.median_s,
        "checkpoint_save_time_s": found.checkpoint_save_time_s,
        "runs_in_file": log.attempts,
        "row": row.id,
        "documented_time_s": verdict.documented_s,
        "tokens_per_s": found.tokens_per_s,
        "mfu": found.mfu,
        "tflops_per_gpu": found.tflops_per_gpu,
        "days_to_train_1t_tokens": found.days_to_train_1t_tokens,
        "change": verdict.time_change,
        "throughput_change": verdict.throughput_change,
        "tolerance": verdict.tolerance,
        "verdict": verdict.outcome.value,
    }


def _selftest(asked: argparse.Namespace) -> _Answer:
    try:
        report = selftest(asked.seed, keep=asked.keep)
    except OSError as error:
        raise ConfigurationError(f"{error.filename} cannot be written: {error.strerror}") from None
    text = json.dumps(_selftest_facts(report), indent=2) if asked.json else _selftest_text(report)
    return _Answer(text, 1 if report.wrong else 0)


def _selftest_facts(report: Report) -> dict[str, Any]:
    return {
        "seed": report.seed,
        "cases": report.cases,
        "right": report.right,
        "formats": [asdict(tally) for tally in report.tallies],
        "not_checked": [asdict(unchecked) for unchecked in report.unchecked],
        "wrong": [
            {
                "case": wrong.case.name,
                "row": wrong.case.baseline.id,
                "seed": wrong.case.seed,
                "done": wrong.case.done,
                "expected": str(wrong.case.expected),
                "got": wrong.got,
                "again": wrong.again,
            }
            for wrong in report.wrong
        ],
    }


def _selftest_text(report: Report) -> str:
    table = [(t.log_format, t.framework, t.rows, f"{t.cases:,}", f"{t.right:,}") for t in report.tallies]
    headers = ("format", "framework", "rows", "cases", "right")
    align = ("left", "left", "right", "right", "right")
    lines = [tabulate(table, headers=headers, colalign=align, tablefmt="simple", disable_numparse=True), ""]
    kinds: dict[str, list[str]] = {}
    for unchecked in report.unchecked:
        kind = unchecked.log_format
        if kind != unchecked.framework:
            kind += f" ({unchecked.framework})"
        kinds.setdefault(unchecked.what, []).append(kind)
    lines += ["not checked, because such a log does not show it, or nothing looks for it:"]
    lines += [f"  {what}: {', '.join(where)}" for what, where in kinds.items()]
    for wrong in report.wrong[:_SHOWN_WRONG]:
        facts = {
            "wrong": wrong.case.name,
            "row": wrong.case.row,
            "seed": wrong.case.seed,
            "done": wrong.case.done,
            "expected": wrong.case.expected,
            "got": wrong.got,
            "again": wrong.again,
        }
        lines += ["", *(f"{name:<10} {value}" for name, value in facts.items())]
    if len(report.wrong) > _SHOWN_WRONG:
        lines += ["", f"and {len(report.wrong) - _SHOWN_WRONG:,} more; --json lists all"]
    return "\n".join([*lines, "", f"{report.cases:,} cases, {report.right:,} right"])


def _junit(asked: argparse.Namespace) -> str:
    directory: Path = asked.run_directory
    if not directory.is_dir():
        raise ConfigurationError(f"there is no directory {directory}\nnext: ls {Path('.gsw', 'runs')}")
    records, missing = read_run(directory)
    missing = {**_never_judged(directory, {record.node_id for record in records}), **missing}
    if not records and not missing:
        raise ConfigurationError(f"there are no records in {directory}\nnext: ls {Path('.gsw', 'runs')}")
    root = rebuild_junit(directory, records, missing, strict=asked.strict)
    if asked.output is None:
        return junit_text(root)
    _write_whole(asked.output, junit_text(root))
    found = (f"{number} {name.removesuffix('s') if number == 1 else name}" for name, number in counts(root).items())
    return f"{asked.output}: {', '.join(found)}"


def _never_judged(directory: Path, judged: set[str]) -> dict[str, str]:
    """The rows that the run's journal has and its records have not, and why that is an error."""
    try:
        past = read_journal(directory)
    except ConfigurationError:
        return {}  # a replay keeps no journal: it submits nothing
    fact = f"the session ended before this row was judged; pytest --gsw-resume={directory.name} goes on with it"
    return {node_id: fact for node_id in past.rows if node_id not in judged}


def _write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(f"{text}\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None


def _shown(name: str, value: Any) -> str:
    if name in {"change", "throughput_change"}:
        return percent(value)
    if name in {"mfu", "tolerance"}:
        return f"{value:.2%}"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
