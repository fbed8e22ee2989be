"""The screen of a session of rows: a line for each row, and a summary at the end."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from pytest_gsw.clusters import Cluster
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import plural, rounded
from pytest_gsw.results import cluster_result, outcomes, suggested_commands, summary
from pytest_gsw.results.manifest import OF_CLUSTER
from pytest_gsw.results.record import Record, used_gpu_hours
from pytest_gsw.results.row_line import WIDEST, RowLine, line_of
from pytest_gsw.results.row_text import accepted_line, attempt_text, inconclusive_line
from pytest_gsw.session import node_ids, pytest_private
from pytest_gsw.session.outcome_counts import OutcomeCounts
from pytest_gsw.session.screen import NO_CLUSTER, end_line, write
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.state import SESSION
from pytest_gsw.tables.metrics import common_change_label
from pytest_gsw.tables.model import rows_text

# -- Each row's line on the screen, in place of a dot -----------------------------------------------


def line_of_report(report: Any, word: str) -> RowLine:
    """A row's line by its report, which may have no record; ``word`` is pytest's."""
    row, case = node_ids.row_of(report.nodeid), getattr(report, "gsw_case", None)
    if case is not None:
        fact = (case.text or case.fact).partition("\n")[0]
        fact = fact.removeprefix(f"{case.subject}: ").removeprefix(f"{case.word.lower()} ")
        return RowLine(case.subject, case.word, (fact,))
    record = getattr(report, "gsw_record", None)
    line = RowLine(row, "") if record is None else line_of(record, report.gsw_error_line)
    text = ""
    if report.failed and (line.word not in _FAILING or report.when == "teardown"):
        text = str(report.longrepr)
    elif report.skipped and not line.word:
        text = report.wasxfail if hasattr(report, "wasxfail") else report.longrepr[2].removeprefix("Skipped: ")
    return RowLine(row, word, (text.partition("\n")[0],)) if text or not line.word else line


#: Words of outcomes that a failed report may have: with ``strict`` also those of rows that are too fast.
_FAILING = {
    one.shown for one in outcomes.OUTCOMES if one.pytest in {"failed", "error"} or one.word in outcomes.JUDGED
} - {outcomes.PASSED.shown}


def line_width(reporter: pytest.TerminalReporter) -> int:
    """The longest line: no wider than the terminal, nor than the windows in which logs are read."""
    return min(WIDEST, shutil.get_terminal_size().columns - 1) if reporter.isatty else WIDEST


# -- The summary at the session's end ---------------------------------------------------------------


#: The most rows in one list.
_MOST = 20
#: The words by which a line with a command is recognized.
_COMMANDS = ("pytest", "pytest-gsw", "scontrol", "sbatch")


def report_summary(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the summary of the run: notable rows, a table, counts, errors by cause, alarms, cost."""
    state = config.stash[SESSION]
    settings, cluster_text = state.settings, state.cluster_text
    end_line(config)
    for report in (*reporter.getreports("failed"), *reporter.getreports("error")):
        pytest_private.show_whole_id(report)
    reports = [report for kind in ("passed", "failed", "skipped") for report in reporter.getreports(kind)]
    records = [report.gsw_record for report in reports if hasattr(report, "gsw_record")]
    cluster = "cluster" if settings.cluster is None else f"cluster {settings.cluster.name}"
    cluster_drift = [f"{cluster}  {cluster_text.drift}"] if cluster_text is not None and cluster_text.drift else []
    _write_section(reporter, "accepted figures", records, accepted_line)
    _write_section(reporter, outcomes.INCONCLUSIVE.text, records, inconclusive_line)
    _write_section(reporter, "not judged by the newest job", records, lambda record: record.passed_over)
    _write_section(reporter, "drift", records, lambda record: record.drift, cluster_drift)
    warnings = (str(one.longrepr) for one in reporter.getreports("passed") if one.nodeid.startswith(OF_CLUSTER))
    _write_lines(reporter, "incident within tolerance", tuple(warnings))
    _write_slow_nodes(reporter, config)
    _write_run(reporter, config)
    _write_sweep(reporter, config)
    slow = [] if state.history is None else [one.name for one in state.history.known_slow]
    alarms = () if state.alarms is None else state.alarms.lines(slow)
    _write_lines(reporter, "alarms", alarms)
    plan = settings.acceptance
    _write_lines(reporter, "suite" if plan is None else f"acceptance: {plan.name}", state.criterion)
    tally = state.counts
    if tally.without_cluster:
        write(config, f"gsw: {plural(tally.without_cluster, 'row')} skipped: {NO_CLUSTER}")
    if tally.judged_none:
        one = tally.rows == 1
        what = "the only row was not judged: it was" if one else f"none of {tally.rows} rows was judged: all were"
        write(config, f"gsw: {what} skipped (-rs tells why)")
    if config.getoption("verbose") < 0 or settings.cluster is None or not tally.rows:
        return
    _write_cost(reporter, tally, settings, settings.cluster)
    if settings.cluster.simulated:
        reporter.section("simulation")
        reporter.write_line("The cluster 'demo' is simulated: no GPU was used, and its figures are made up.")


def _write_lines(reporter: pytest.TerminalReporter, section: str, lines: list[str] | tuple[str, ...]) -> None:
    """Write a section; none if there is no line."""
    if lines:
        reporter.section(section)
    for line in lines:
        reporter.write_line(line)


def _wrapped_lines(reporter: pytest.TerminalReporter, lines: Iterable[str]) -> list[str]:
    """These lines, wrapped to the width of the terminal."""
    return [part for line in lines for part in wrapped(line, line_width(reporter))]


def wrapped(line: str, width: int = WIDEST) -> list[str]:
    """A line wrapped to a width; commands stay whole, to be copied."""
    if len(line) <= width or any(f"{word} " in line for word in _COMMANDS):
        return [line]
    return textwrap.wrap(line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _write_section(
    reporter: pytest.TerminalReporter,
    section: str,
    records: Iterable[Record],
    text_of: Callable[[Record], str | None],
    of_cluster: Sequence[str] = (),
) -> None:
    """Write the texts of the cluster and of rows that are notable in one respect, a line each."""
    found = [f"{record.row.id}  {text}" for record in records if (text := text_of(record))]
    lines = tuple(part for line in (*of_cluster, *found[:_MOST]) for part in wrapped(line))
    _write_lines(reporter, section, lines)
    if len(found) > _MOST:
        reporter.write_line(f"and {plural(len(found) - _MOST, 'more row')}, in the report (pytest-gsw report)")


def _write_slow_nodes(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the nodes that fail jobs of the session, or make jobs of the cluster slow or fail them, a line each."""
    state = config.stash[SESSION]
    session_history = state.history
    has_repeats = [1 for record in state.counts.reported.values() if record.jobs.attempts]
    if session_history is None or not (has_repeats or session_history.failing or session_history.known_slow):
        return
    from pytest_gsw.history.comparison import failing_texts, slow_since_text, sound_text

    lines = failing_texts(state.run_records(), session_history.failing)
    _write_lines(reporter, "nodes that fail jobs", tuple(redact(line, os.environ) for line in lines))
    if not session_history.known_slow:
        return
    ids = {} if state.alarms is None else state.alarms.of_nodes()
    slow = [
        f"{slow_since_text(one)}{f', alarm {ids[one.name]}' if one.name in ids else ''}"
        for one in session_history.known_slow
    ]
    sound = [] if session_history.sound is None else [f"others: {sound_text(session_history.sound)}."]
    step = "next: the jobs that show it: pytest-gsw nodes"
    _write_lines(reporter, "slow nodes", [*redact(slow, os.environ), *sound, step])


def _write_cost(reporter: pytest.TerminalReporter, tally: OutcomeCounts, settings: Settings, cluster: Cluster) -> None:
    """Write the rows that ran again, and the session's GPU-hours."""
    records = tally.reported.values()
    again = [
        f"{record.row.id}  {'; '.join(f'job {attempt_text(attempt)}' for attempt in record.jobs.attempts)}"
        for record in records
        if record.jobs.attempts
    ]
    _write_lines(reporter, "rows that ran again", again)
    stopped = [hours for record in records if (hours := record.jobs.saved_gpu_hours) is not None]
    if settings.replay is None and (stopped or not cluster.simulated):
        used = sum(map(used_gpu_hours, records))
        if (sweep := reporter.config.stash[SESSION].sweep) is not None:
            used += sweep.gpu_hours
        reporter.write_line(summary.gpu_hours(used, sum(stopped), len(stopped)))


def _write_run(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the table of several rows; not with -q, nor of a single row, whose line has all of it."""
    state = config.stash[SESSION]
    settings, tally = state.settings, state.counts
    if config.getoption("verbose") < 0 or tally.rows < 2:
        return
    records = state.run_records()
    missing = tally.errors_without(record.row.node_id for record in records)
    if not records or len(records) + len(missing) < 2:
        return
    records = redact(records, os.environ)
    where = "" if settings.cluster is None else f" on {settings.cluster.name}"
    reference = "document" if all(one.reference == "documented" for one in records) else "reference"
    what = common_change_label(record.judged_metric for record in records) or "changes"
    ids = [*(record.row.id for record in records), *missing]
    reporter.section(f"{what} of {rows_text(ids)}{where} vs {reference}")
    table = summary.run_table(records, line_width(reporter))
    # pytest's own summary has a line for each row that failed.
    causes = summary.error_lines(records, missing, fewest=2)
    incident = cluster_result.incident_of(records)
    counts = summary.counts_line(records, len(missing), incident)
    for line in _wrapped_lines(reporter, (*table, "", counts, *causes)):
        reporter.write_line(line)
    _write_crowd(reporter, settings.cluster, records)
    failed_last = config.pluginmanager.has_plugin("lfplugin")
    commands = suggested_commands.next_commands(
        records, relative_path(settings.run_directory), incident, failed_last=failed_last
    )
    for what, step in (*suggested_commands.own_advice(records), *commands):
        reporter.write_line(f"next: {what}: {step}")


def _write_sweep(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write what the tiles of each row show together."""
    state = config.stash[SESSION]
    sweep, settings = state.sweep, state.settings
    if sweep is None:
        return
    from pytest_gsw.results.sweep import sweep_lines  # few sessions have tiles

    records = state.run_records()
    where = "" if settings.cluster is None else f" on {settings.cluster.name}"
    for one in sweep.rows:
        tiles = [record for record in records if record.row.tile and record.row.row_id == one.row]
        lines = redact(sweep_lines(sweep, one, tiles, settings.run_id), os.environ)
        section = f"{plural(len(tiles), 'tile')} of {one.row}{where}"
        _write_lines(reporter, section, _wrapped_lines(reporter, lines))


def _write_crowd(reporter: pytest.TerminalReporter, cluster: Cluster | None, records: Sequence[Record]) -> None:
    """Write that rows have shared nodes, which makes healthy rows slow."""
    if cluster is None or cluster.simulated or cluster.gpus_per_node is None:
        return
    found = summary.worst_crowd(records, cluster.gpus_per_node)
    if found is None:
        return
    crowd, nodes = found
    shared = f"{plural(nodes, 'node')} had more than one job at once, such as {crowd.node}:"
    what = f"{crowd.jobs} jobs on {rounded(crowd.gpus, 'GPU')} of {cluster.gpus_per_node}"
    lines = [f"gsw: {shared} {what}. A neighbour makes a row slower."]
    if cluster.scheduler == "slurm":
        keys = f'"gres: gpu:{cluster.gpus_per_node}" or "sbatch: [--exclusive]"'
        lines.append(f"next: give each job its nodes alone: {keys} for {cluster.name} in clusters.yaml")
    for line in _wrapped_lines(reporter, lines):
        reporter.write_line(line)
