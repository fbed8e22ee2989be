"""``pytest-gsw report``: runs as static pages; one run as JUnit, Markdown, OpenMetrics, or the states of its rows."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from pytest_gsw.acceptance import sheet
from pytest_gsw.cli import alarms, run_arguments
from pytest_gsw.cli.arguments import Ini
from pytest_gsw.cli.output import Answer, answer_to, quoted_answer
from pytest_gsw.common.files import read_bounded, relative_path
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import moment, one_line, plain_table, plural
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.history.store import History
from pytest_gsw.reports import ci, from_records, reported_row
from pytest_gsw.reports.run_report import ReportedRun, RunReport
from pytest_gsw.results import cluster_result, junit, outcomes, run_progress, summary
from pytest_gsw.results.manifest import WAITS, is_owned
from pytest_gsw.results.record import Record
from pytest_gsw.tables.load import accepted_figures

#: Where a run's report is in its directory by default.
NAME = "report"


def run(args: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    if args.check:
        return _check(args)
    if args.format != "html":
        return _as_text(args)
    from pytest_gsw.reports.pages import write_report  # not for one run as a text, nor for pytest-gsw alone

    # A run can be shown without others.
    with run_arguments.known_history(args) as history:
        found = [_read_run(args.ini, given, history) for given in dict.fromkeys(args.runs)]
        directory = args.output or _default_output([run for _, run in found])
        records = [record for of_run, _ in found for record in of_run]
        runs = {records[0].run.id if records else run.directory.name: run for records, run in found}
        accepted = from_records.accepted_in(args.ini.tables(args.baselines), records)
        try:
            reader = None if history is None else from_records.HistoryReader(history, accepted)
            index = write_report(from_records.run_reports(records, reader, runs), directory)
        except OSError as error:
            raise ConfigurationError(f"the report cannot be written: {error.strerror}: {error.filename}") from None
    return Answer(f"{index}: {_counts_text(found)}")


def _check(args: argparse.Namespace) -> Answer:
    """Make the sheet of a report again, and compare it to the byte."""
    from pytest_gsw.reports.pages import INDEX, first_page_of

    given = Path(args.runs[0])
    place = given.parent if given.name == sheet.NAME else given
    if len(args.runs) > 1:
        raise ConfigurationError(f"--check takes one report, not {len(args.runs)}")
    signed = sheet.read_sheet(place)
    if signed is None:
        raise ConfigurationError(f"there is no {sheet.NAME} in {place}\nnext: name the report of an acceptance")
    directory = run_arguments.run_directory(args.ini, signed.run)
    if directory is None:
        raise run_arguments.missing_run(args.ini, signed.run)
    made = sheet.sheet_of(directory)
    if made is None:
        raise ConfigurationError(f"{directory} has no acceptance that can be read")
    again = {sheet.NAME: sheet.sheet_text(made), INDEX: first_page_of(made)}
    there = {name: read_bounded(place / name).decode(errors="replace") for name in again}
    found = [*sheet.differences(json.loads(there[sheet.NAME]), json.loads(again[sheet.NAME]))]
    found += [f"{place / name} is not what the run makes" for name, text in again.items() if there[name] != text]
    files = plural(sum(map(len, (made.records, made.logs, made.tables))), "file")
    return Answer("\n".join(found) or f"{place} is what run {made.run} makes, with {files}", bool(found))


def run_rows(args: argparse.Namespace) -> Answer:
    """Answer ``pytest-gsw rows --run``: the state of each row of a run, open ones first."""
    directory = run_arguments.run_directory(args.ini, args.run)
    if directory is None:
        raise run_arguments.missing_run(args.ini, args.run)
    records, run = whole_run(args.ini, directory)
    lines = [] if run.progress is None else run.progress.lines
    for one in records:
        job_id = one.jobs.last.id if one.jobs.last is not None else ""
        lines.append((one.row.id, outcomes.of(one.outcome).text, "", "", "", job_id, one_line(one.fact)))
    lines += [(name.rpartition("::")[2], outcomes.ERROR.text, "", "", "", "", why) for name, why in run.missing.items()]
    when = "" if run.progress is None else f"{moment(run.progress.time_s)}: "
    facts = [dict(zip([head.removeprefix(">") for head in run_progress.COLUMNS], line, strict=True)) for line in lines]
    table = plain_table(lines, *run_progress.COLUMNS, style="simple")
    return quoted_answer(args, facts, f"{table}\n\n{when}{_counts_text([(records, run)])}")


def _as_text(args: argparse.Namespace) -> Answer:
    """One run as a text, printed or written to a file."""
    if len(args.runs) > 1:
        raise ConfigurationError(f"--format={args.format} takes one run, not {len(args.runs)}")
    directory = run_arguments.run_directory(args.ini, args.runs[0])
    if directory is None:
        raise run_arguments.missing_run(args.ini, args.runs[0])
    records, run = whole_run(args.ini, directory)
    report = report_of(args, records, run)
    if args.format in ci.TEXTS:
        return answer_to(args.output, ci.TEXTS[args.format].of(report), args.format)
    open_rows = () if run.progress is None else run.progress.rows
    missing = {**run.missing, **{row.node_id: WAITS for row in open_rows}}  # a skipped test case would be green
    since = {row.record.row.node_id: reported_row.since_facts(row.since) for row in report.rows}
    from pytest_gsw.session.junit_replay import junit_of_run  # the only format that needs pytest

    text = junit_of_run(directory, records, missing, strict=args.strict, since=since)
    (suite,) = ElementTree.fromstring(text)  # noqa: S314 - our own file
    found = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    named = (f"{number} {name.removesuffix('s') if number == 1 else name}" for name, number in found.items())
    return answer_to(args.output, text, ", ".join(named))


def report_of(
    args: argparse.Namespace, records: Sequence[Record], run: ReportedRun, *, every_alarm: bool = False
) -> RunReport:
    """The report of a run, with its history if there is one: onsets, slow nodes, and its alarms or every alarm."""
    tables = args.ini.tables(args.baselines)
    accepted = None if every_alarm else from_records.accepted_in(tables, records)
    try:
        with run_arguments.known_history(args) as history:
            if history is None:
                return from_records.run_report(records, run)
            reader = from_records.HistoryReader(history, accepted_figures(tables) if every_alarm else accepted)
            if every_alarm:
                series = {name: reader.series(name) for name in sorted({key.cluster for key in history.series()})}
                found = from_records.with_own_figures(alarms.read_alarms(history, series, time.time()), records)
                run = replace(run, alarms=redact(found, os.environ))
            return from_records.run_report(records, run, reader)
    except RunError as error:  # the run is shown in any case
        name = " ".join(filter(None, ("pytest-gsw", args.command)))
        sys.stderr.write(f"{name}: without the history: {redact(str(error), os.environ)}\n")
    return from_records.run_report(records, run)


def whole_run(ini: Ini, found: Path) -> tuple[tuple[Record, ...], ReportedRun]:
    """The records of a run, and what these do not have; a ConfigurationError if it has no row at all."""
    directory = relative_path(found)
    records, missing, progress = junit.read_whole_run(directory, goes_on=is_owned(directory))
    if not records and not missing and (progress is None or not progress.rows):
        raise ConfigurationError(f"there are no records in {directory}\nnext: ls {ini.runs}")
    return records, ReportedRun(directory, missing, progress=progress)


def _read_run(ini: Ini, given: str, history: History | None) -> tuple[tuple[Record, ...], ReportedRun]:
    """A run of a directory, or of the history; a ConfigurationError if there is none, or nothing in it."""
    found = run_arguments.run_directory(ini, given)
    if found is None:
        records = run_arguments.records_in(ini, history, given)
        return records, ReportedRun(ini.runs / records[0].run.id)
    return whole_run(ini, found)


def _default_output(runs: Sequence[ReportedRun]) -> Path:
    if len(runs) > 1:
        raise ConfigurationError(f"where is the report of {len(runs)} runs to be written?\nnext: add -o DIR")
    directory = runs[0].directory
    if not directory.is_dir():
        raise ConfigurationError(f"run {directory.name} is in the history and has no directory here\nnext: add -o DIR")
    return directory / NAME


def _counts_text(found: Sequence[tuple[tuple[Record, ...], ReportedRun]]) -> str:
    if len(found) > 1:
        return plural(len(found), "run")
    ((records, run),) = found
    return summary.counts_line(records, len(run.missing), cluster_result.incident_of(records), run.progress)
