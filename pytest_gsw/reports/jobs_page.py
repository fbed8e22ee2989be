"""The pages of a run's jobs and of nodes: GPU-hours, failures, slow nodes, and the jobs of each node."""

from __future__ import annotations

import statistics
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence

from pytest_gsw.common.node_lists import expand
from pytest_gsw.common.text import command, duration, plural
from pytest_gsw.history import alarms, node_search
from pytest_gsw.history.comparison import failing_text, slow_since_text, sound_text, state_text
from pytest_gsw.reports import html, matrix, texts
from pytest_gsw.reports.html import Content, element
from pytest_gsw.reports.reported_row import home_of
from pytest_gsw.reports.run_report import RunJob, RunReport
from pytest_gsw.results import attention, outcomes
from pytest_gsw.results.node_facts import why_lines

#: The address of a run's jobs in its folder.
JOBS = "jobs.html"
#: The most nodes and jobs that are listed.
_NODES, _JOBS = 40, 1500


def jobs_page(report: RunReport, links: Sequence[tuple[str, str]]) -> ET.Element:
    """The run's jobs with their GPU-hours."""
    caption = f"{plural(min(len(report.jobs), _JOBS), 'job')} in the order of their submission"
    main = [
        element("h1", f"Jobs of the run, {texts.minute(report.begin_s)}"),
        html.simulated_note(report.records),
        html.fact_list(_sums(report)),
        html.section("jobs", "All jobs", _jobs("jobs", caption, report.jobs[:_JOBS], report)),
    ]
    return html.page(f"Jobs of the run, {texts.minute(report.begin_s)}", main, links, here=f"{report.home}{JOBS}")


def gpu_hours_text(report: RunReport) -> str:
    """The GPU-hours that were used, lost, and saved by ending jobs early."""
    saved = sum(record.jobs.saved_gpu_hours or 0.0 for record in report.records)
    lost = sum(job.gpu_hours for job in report.jobs if job.failed)
    used = f"{report.gpu_hours:,.1f} used, {lost:,.1f} of them lost in failed jobs"
    return used + (f", about {saved:,.1f} saved by ending jobs early" if saved else "")


def _sums(report: RunReport) -> list[tuple[str, Content]]:
    jobs = report.jobs
    waits_s = [job.facts.queue_s for job in jobs if job.facts.queue_s is not None]
    runs_s = [job.facts.run_s for job in jobs if job.facts.run_s is not None]
    return [
        ("jobs", f"{plural(len(jobs), 'job')}, {sum(job.failed for job in jobs)} failed"),
        ("GPU-hours", gpu_hours_text(report)),
        ("queue", _spread(waits_s)),
        ("run", _spread(runs_s)),
    ]


def _spread(times_s: Sequence[float]) -> str:
    if not times_s:
        return ""
    return f"median {duration(statistics.median(times_s))}, longest {duration(max(times_s))}"


def _jobs(name: str, caption: str, jobs: Iterable[RunJob], report: RunReport) -> ET.Element | None:
    heads = ["row", "job", "state", "nodes", "submitted", ">queue", ">ran", ">GPU-hours"]
    return html.table(name, caption, heads, (_job(job, report) for job in jobs))


def _job(job: RunJob, report: RunReport) -> list[Content]:
    facts = job.facts
    # A failed job may be COMPLETED.
    state = f"{'failed: ' if job.failed else ''}{facts.state}"
    return [
        html.row_link(job.row),
        facts.id,
        element("td", state, class_=attention.ERROR.kind if job.failed else None),
        html.node_links(facts.nodes, report),
        html.time_element(facts.known_begin_s) if facts.known_begin_s else None,
        "" if facts.queue_s is None else duration(facts.queue_s),
        "" if facts.run_s is None else duration(facts.run_s),
        "" if facts.run_s is None else f"{job.gpu_hours:,.1f}",
    ]


# -- nodes -----------------------------------------------------------------------------------------


def nodes_page(report: RunReport, links: Sequence[tuple[str, str]]) -> ET.Element:
    """All nodes: those that make jobs slow or fail them, and a link to the page of each."""
    title = f"Nodes of {', '.join(report.clusters) or 'no cluster'}, {texts.minute(report.begin_s)}"
    linked = (element("li", element("a", node, href=address)) for node, address in report.nodes.items())
    of_clusters = [node for of_cluster in report.slow_nodes.values() for node in of_cluster]
    slow = [_node_line(node.nodes, slow_since_text(node), report) for node in of_clusters[:_NODES]]
    main = [
        element("h1", title),
        html.section("slow", "Slow nodes", *slow, *_known_good_nodes(report)),
        html.section("failing", "Failures by node", *_failing(report)),
        html.section("nodes", "All nodes", html.listing(linked, "nodes")),
    ]
    return html.page(title, main, links, here=html.NODES)


def _failing(report: RunReport) -> list[ET.Element]:
    """The nodes on which more jobs fail than by chance, by this run and by the history; a text if there is none."""
    listed = [("this run", node) for node in report.failing_nodes]
    by_history = f"the last {node_search.FAILURES_DAYS} days"
    listed += [(by_history, node) for failing in report.nodes_failing_jobs.values() for node in failing]
    if not listed:
        failed = sum(job.failed for job in report.jobs)
        told = f"{plural(failed, 'failed job')} of {len(report.jobs)}, on no node more than by chance"
        return [element("p", told)]
    return [_node_line(node.nodes, f"{failing_text(node)} in {when}", report) for when, node in listed[:_NODES]]


def _node_line(nodes: Sequence[str], text: str, report: RunReport) -> ET.Element:
    return element("p", element("a", texts.signed(text), href=report.nodes.get(nodes[0])))


def _known_good_nodes(report: RunReport) -> Iterator[ET.Element]:
    """The number of nodes that are known good: without it, no slow node may mean no data."""
    for cluster, sound in report.known_good_nodes.items():
        slow = "" if cluster in report.slow_nodes else "no node is known to make jobs slow; "
        yield element("p", f"{cluster}: {slow}{sound_text(sound)}")


def node_page(node: str, report: RunReport, pages: matrix.RunPages, links: Sequence[tuple[str, str]]) -> ET.Element:
    """One node: its state, alarms and facts, and its jobs with their rows and failures."""
    jobs = _jobs("of-run", "In this run", report.node_runs.get(node, ()), report)
    commands = (
        html.command_line(command("pytest-gsw", "nodes", f"--cluster={cluster}")) for cluster in report.clusters
    )
    main = [
        element("h1", f"Node {node}"),
        html.fact_list(_node_facts(node, report)),
        *commands,
        html.section("jobs", "Jobs", jobs, _jobs_before(node, report, pages)),
    ]
    return html.page(f"Node {node}, {texts.minute(report.begin_s)}", main, links)


def _node_facts(node: str, report: RunReport) -> Iterator[tuple[str, Content]]:
    for slow in (one for of_cluster in report.slow_nodes.values() for one in of_cluster if node in one.nodes):
        yield "slow", f"{texts.signed(slow_since_text(slow))}; {plural(len(slow.fast_jobs), 'fast job')}"
    failing = (*report.failing_nodes, *(one for found in report.nodes_failing_jobs.values() for one in found))
    yield from (("fails jobs", failing_text(failing_node)) for failing_node in failing if node in failing_node.nodes)
    if any(node in known.cleared for known in report.known_good_nodes.values()):
        yield "not slow", f"by the newest runs of {', '.join(report.known_good_nodes)}"
    for alarm in report.alarms:
        if alarm.period.kind is alarms.Kind.NODE and node in alarm.period.things:
            yield "alarm", f"{alarm.id} {state_text(alarm)}, since {texts.minute(alarm.since.time_s)}"
    for sweep in report.sweeps:
        tile = next((tile for tile in sweep.of_row.peers if node in expand(tile)), "")
        if tile:
            yield (
                "vs peers",
                f"{texts.percent(sweep.of_row.peers[tile])} throughput as tile {tile} of {sweep.of_row.row}",
            )
        if sweep.of_row.facts is not None:
            yield from ((name, texts.signed(text)) for name, text in why_lines(sweep.of_row.facts.of_nodes({node})))


def _jobs_before(node: str, report: RunReport, pages: matrix.RunPages) -> ET.Element | None:
    lines: list[list[Content]] = []
    for job in (earlier_job for earlier_job in report.node_jobs.get(node, ()) if earlier_job.run_id != report.run_id):
        known = outcomes.BY_WORD.get(job.outcome, outcomes.ERROR).attention.in_report
        verdict = element("td", f"{known.sign} {job.outcome}", class_=known.kind)
        row, run = report.by_id.get(job.row), f"{home_of(job.run_id)}index.html" if job.run_id in pages else None
        address = None if row is None else matrix.address_in(row, job.run_id, pages) or row.address
        cells = (verdict, element("a", job.row, href=address), job.job_id, html.node_links(job.nodes, report))
        lines.append([html.time_element(job.time_s), *cells, element("a", job.run_id, href=run)])
    heads = ["ended", "verdict or failure", "row", "job", "nodes", "run"]
    return html.table("before", f"The newest {plural(len(lines), 'job')} on {node} before this run", heads, lines)
