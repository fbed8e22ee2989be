"""``pytest-gsw`` alone: the newest run, its findings, alarms, slow nodes, and the commands to type next."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pytest_gsw.cli.output import Answer
from pytest_gsw.cli.report import report_of, whole_run
from pytest_gsw.cli.run_arguments import run_directory
from pytest_gsw.common.text import command, minute, one_line
from pytest_gsw.history.comparison import line_of, slow_since_text
from pytest_gsw.reports import ci, run_report
from pytest_gsw.results.runs_directory import LAST
from pytest_gsw.results.suggested_commands import own_advice
from pytest_gsw.results.sweep import next_lines, sweep_facts
from pytest_gsw.stats.sweep_finding import NAMED

#: The most findings, and the most alarms, that are listed.
_LISTED = 10


def run(args: argparse.Namespace) -> Answer:
    """Answer the command without a subcommand."""
    directory = run_directory(args.ini, LAST)
    if directory is None:
        return Answer(
            f"there is no run in {args.ini.runs}\nnext: pytest --gsw-cluster=NAME, or of a history: pytest-gsw alarms"
        )
    records, run = whole_run(args.ini, directory)
    report = report_of(args, records, run, every_alarm=True)
    facts = list(_facts(report))
    width = max(len(name) for name, _ in facts) + 2
    return Answer("\n".join(f"{name:<{width}}{text}" for name, text in facts))


def _facts(report: run_report.RunReport) -> Iterator[tuple[str, str]]:
    began = minute(report.begin_s) if report.begin_s else "at a time that is not known"
    where = ", ".join(report.clusters)
    yield "run", f"{report.run_id} on {where}, {began}" if where else f"{report.run_id}, {began}"
    yield "rows", ci.counts_text(report)
    for sweep in report.sweeps:
        for name, text in sweep_facts(sweep.of_row, sweep.not_covered):
            if name not in NAMED:  # which are findings
                yield name, one_line(text)
    found = ci.findings(report)
    for one in found[:_LISTED]:
        since = f"; since {one.since}" if one.since else ""
        known = f"; acknowledged: {one.acknowledged}" if one.acknowledged else ""
        yield one.kind, one_line(f"{one.row}: {one.text}{since}{known}")
    told = {(one.alarm.period.kind, one.alarm.period.subject) for one in found if one.alarm is not None}
    alarms = [one for one in report.alarms if one.is_active and (one.period.kind, one.period.subject) not in told]
    for alarm in alarms[:_LISTED]:
        yield "alarm", line_of(alarm)
    more = max(len(found) - _LISTED, 0) + max(len(alarms) - _LISTED, 0)
    if more:
        yield "", f"and {more} more: {command('pytest-gsw', 'report', LAST)} has all"
    subjects = {subject for _, subject in told}.union(alarm.period.subject for alarm in alarms)
    for suspect in (one for slow in report.slow_nodes.values() for one in slow if one.name not in subjects):
        yield "slow", slow_since_text(suspect)
    for failing in report.failing_texts:
        yield "fails jobs", failing
    advice = [f"{rows}: {step}" for rows, step in own_advice(report.records)]
    of_sweeps = [step for sweep in report.sweeps for _, step in next_lines(sweep.of_row, report.run_id)]
    following = [command("pytest-gsw", "rows", "--run", LAST)] if report.goes_on else []
    following += [*of_sweeps, *advice, *(step for _, step in report.next_commands)]
    following = following or [command("pytest-gsw", "alarms") if alarms else command("pytest-gsw", "report", LAST)]
    for step in following:
        yield "next", step
