"""What a session says and leaves at its end: the summary on the screen, the report, the JSON lines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.common.files import make_directory
from pytest_gsw.common.redact import quoted
from pytest_gsw.results import jsonlines, outcomes, progress_text, summary
from pytest_gsw.results.rebuild import read_run
from pytest_gsw.results.record import Record
from pytest_gsw.session import xdist
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.screen import TALLY, Tally, write
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.stash import SETTINGS

#: What the summary says of rows beside their outcome, and which of a report's attributes has it: rows that passed by
#: what their cluster has accepted; rows of which nobody can say; and rows that creep, none of which fails for it, and
#: at which somebody should look before one does.
_SECTIONS = {
    "accepted figures": "gsw_accepted",
    outcomes.INCONCLUSIVE.text: "gsw_inconclusive",
    "drift": "gsw_drift",
}


#: The record of a row that has its line in the file of ``--gsw-json``.
_IN_JSON = pytest.StashKey[Record]()


def tell_summary(reporter: pytest.TerminalReporter, config: pytest.Config, proposed: Sequence[str]) -> None:
    """Say what the night came to: counts, a table, errors by cause, and what stands out among the rows that passed.

    Args:
        reporter: Who writes to the screen.
        config: The pytest config.
        proposed: What ``--gsw-update-baseline`` has to say.
    """
    settings = config.stash[SETTINGS]
    improved = [r for r in reporter.getreports("passed") if getattr(r, "gsw_outcome", "") == outcomes.IMPROVED.word]
    if improved:
        by_document = all(report.gsw_reference == "documented" for report in improved)
        reporter.section("faster than documented" if by_document else "faster than documented or accepted")
        for report in improved:
            reporter.write_line(f"{report.nodeid}  {report.gsw_headline}")
        reporter.write_line(
            "These rows passed. If the gain stays, a tighter baseline keeps it (pytest-gsw baseline propose); "
            "--gsw-strict makes such rows fail."
        )
    for section, name in _SECTIONS.items():
        _tell_section(reporter, section, name)
    _tell_night(reporter, config)
    if proposed:
        reporter.section("figures to accept")
    for line in proposed:
        reporter.write_line(line)
    tally = config.stash.get(TALLY, None)
    if tally is not None and tally.judged_none:
        one = tally.rows == 1
        what = "the only row was not judged: it was" if one else f"none of {tally.rows} rows was judged: all were"
        reporter.ensure_newline()
        reporter.write_line(f"gsw: {what} skipped (-rs tells why)")
    if config.getoption("verbose") < 0 or settings.cluster is None:
        return
    if tally is not None:
        _tell_cost(reporter, tally, settings, settings.cluster)
    if settings.cluster.simulated:
        reporter.section("simulation")
        reporter.write_line("The cluster 'demo' is simulated: no GPU was used, and its figures say nothing.")


def _tell_section(reporter: pytest.TerminalReporter, section: str, name: str) -> None:
    """Say what stands out among the rows in one respect, a line each."""
    reports = [report for kind in ("passed", "failed", "skipped") for report in reporter.getreports(kind)]
    lines = [f"{report.nodeid}  {text}" for report in reports if (text := getattr(report, name, ""))]
    if lines:
        reporter.section(section)
    for line in lines:
        reporter.write_line(line)


def _tell_cost(reporter: pytest.TerminalReporter, tally: Tally, settings: Settings, cluster: Cluster) -> None:
    """Say which rows were run again, and what the session has cost the cluster."""
    repeated = {node_id: texts for node_id, texts in tally.attempts.items() if texts}
    if repeated:
        reporter.section("run again because the infrastructure failed")
    for node_id, texts in repeated.items():
        reporter.write_line(f"{node_id}  " + "; ".join(f"job {text}" for text in texts))
    stopped = [hours for hours in tally.saved.values() if hours is not None]
    if settings.replay is None and (stopped or not cluster.simulated):
        reporter.write_line(progress_text.gpu_hours(sum(tally.used.values()), sum(stopped), len(stopped)))


def _tell_night(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A night of several rows on one screen; with -q, and of a single row, its own line says it all."""
    settings, tally = config.stash[SETTINGS], config.stash.get(TALLY, None)
    if config.getoption("verbose") < 0 or tally is None or tally.rows < 2:
        return
    records, _ = read_run(settings.run_directory, tally.records)
    if len(records) < 2:
        return
    records = quoted(records, os.environ)
    reporter.section("night")
    width = shutil.get_terminal_size().columns
    for line in (*summary.night_table(records, width), "", summary.counts_line(records)):
        reporter.write_line(line)
    for line in (*summary.error_lines(records), summary.slow_node_line(records)):
        if line:
            reporter.write_line(line)


def begin_json(config: pytest.Config, rows: Iterable[BaselineItem]) -> None:
    """With ``--gsw-json``: begin the file anew.

    Raises:
        pytest.UsageError: It cannot be written.
    """
    settings = config.stash[SETTINGS]
    if settings.json is None:
        return
    cluster = settings.cluster.name if settings.cluster else "replay"
    line = jsonlines.session_line(settings.run_id, cluster, [item.nodeid for item in rows])
    try:
        make_directory(settings.json.parent)
        jsonlines.begin(settings.json, line)
    except OSError as error:
        raise pytest.UsageError(f"--gsw-json: {settings.json} cannot be written: {error.strerror}") from None


def add_json(item: BaselineItem, record: Record) -> None:
    """With ``--gsw-json``: the line of a row that has been judged, once."""
    path = item.config.stash[SETTINGS].json
    if path is not None and item.stash.get(_IN_JSON, None) is not record:
        item.stash[_IN_JSON] = record
        _append(item.config, path, jsonlines.row_line(record))


def leave_files(config: pytest.Config, exit_status: int) -> bool:
    """The report, what a CI server takes, and the last JSON line; once for all workers of pytest-xdist.

    Returns:
        Whether all that was asked for is there.
    """
    settings, tally = config.stash[SETTINGS], config.stash.get(TALLY, None)
    if tally is None or not tally.rows or xdist.is_worker(config):
        return True
    done = True
    if settings.report is not None or os.environ.get("GITHUB_ACTIONS") == "true":
        done = _leave_report(config, settings, exit_status)
    if settings.json is not None and settings.json.is_file():
        _append(config, settings.json, jsonlines.end_line(settings.run_id, tally.outcomes, exit_status))
    return done


def _leave_report(config: pytest.Config, settings: Settings, exit_status: int) -> bool:
    # Few sessions write one.
    from pytest_gsw.session.leaving import leave_report

    try:
        lines = leave_report(settings, exit_status, os.environ)
    except OSError as error:
        write(config, f"gsw: the report cannot be written: {error.strerror}: {error.filename}")
        return False
    for line in lines:
        write(config, line)
    return True


def _append(config: pytest.Config, path: Path, line: str) -> None:
    try:
        jsonlines.append(path, line)
    except OSError as error:
        write(config, f"gsw: a line of {path} could not be written: {error.strerror}")
