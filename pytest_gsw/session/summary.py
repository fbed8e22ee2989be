"""What a session says at its end: the summary on the screen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

import pytest

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.common.redact import quoted
from pytest_gsw.results import outcomes, progress_text
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.stash import ALARMS, CLUSTER_TOLD, CRITERION, NIGHTS, PROPOSED, SETTINGS
from pytest_gsw.session.tally import TALLY, Tally

#: What the summary says of rows beside their outcome, and which of a report's attributes has it: rows that passed by
#: what their cluster has accepted; inconclusive rows; and rows that drift, none of which has failed yet.
_SECTIONS = {
    "accepted figures": "gsw_accepted",
    outcomes.INCONCLUSIVE.text: "gsw_inconclusive",
    "drift": "gsw_drift",
}


def tell_summary(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what the night came to: counts, a table, errors by cause, and what stands out among the rows that passed."""
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
    told = config.stash.get(CLUSTER_TOLD, None)
    where = "cluster" if settings.cluster is None else f"cluster {settings.cluster.name}"
    for section, name in _SECTIONS.items():
        of_cluster = [f"{where}  {told.drift}"] if told is not None and told.drift and name == "gsw_drift" else []
        _tell_section(reporter, section, name, of_cluster)
    _tell_slow_nodes(reporter, config)
    _tell_night(reporter, config)
    alarms = config.stash[ALARMS].lines if ALARMS in config.stash else ()
    if alarms:
        reporter.section("alarms")
    for line in alarms:
        reporter.write_line(line)
    if CRITERION in config.stash:
        reporter.section("suite")
    for line in config.stash.get(CRITERION, ()):
        reporter.write_line(line)
    proposed = config.stash.get(PROPOSED, ())
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


def _tell_section(reporter: pytest.TerminalReporter, section: str, name: str, of_cluster: Sequence[str]) -> None:
    """Say what stands out of the cluster and among the rows in one respect, a line each."""
    reports = [report for kind in ("passed", "failed", "skipped") for report in reporter.getreports(kind)]
    of_rows = (f"{report.nodeid}  {text}" for report in reports if (text := getattr(report, name, "")))
    lines = [*of_cluster, *of_rows]
    if lines:
        reporter.section(section)
    for line in lines:
        reporter.write_line(line)


def _tell_slow_nodes(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which nodes make jobs of the cluster slow or fail them, a line each."""
    nights = config.stash.get(NIGHTS, None)
    if nights is None or not (nights.failing or nights.known_slow):
        return
    from pytest_gsw.history.explaining import failing_text, slow_since_text, sound_text

    if nights.failing:
        reporter.section("nodes that fail jobs")
    for failing in nights.failing:
        reporter.write_line(quoted(failing_text(failing), os.environ))
    if not nights.known_slow:
        return
    reporter.section("slow nodes")
    for one in nights.known_slow:
        reporter.write_line(quoted(slow_since_text(one), os.environ))
    if nights.sound is not None:
        reporter.write_line(f"others: {sound_text(nights.sound)}.")
    reporter.write_line("pytest-gsw nodes tells by which jobs that is known.")


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
    # Only a session that has run rows has a night.
    from pytest_gsw.results import summary
    from pytest_gsw.results.rebuild import read_run

    records, _ = read_run(settings.run_directory, tally.records)
    if len(records) < 2:
        return
    records = quoted(records, os.environ)
    reporter.section("night")
    width = shutil.get_terminal_size().columns
    for line in (*summary.night_table(records, width), "", summary.counts_line(records)):
        reporter.write_line(line)
    for line in summary.error_lines(records):
        reporter.write_line(line)
