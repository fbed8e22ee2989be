"""The page of a night's jobs."""

from __future__ import annotations

import statistics
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence

from pytest_gsw.common.words import counted, duration, share, shortened
from pytest_gsw.history.suspects import FAILURES_DAYS, Suspect
from pytest_gsw.history.texts import sound_text
from pytest_gsw.reports.html.drawing import Plot, Scale, figure, ground, key, named_ticks, polygon, round_numbers
from pytest_gsw.reports.html.layout import (
    Content,
    element,
    fact_list,
    page,
    row_link,
    section,
    simulated_note,
    table,
    time_element,
)
from pytest_gsw.reports.html.plots import MOST
from pytest_gsw.reports.html.texts import minute, percent, shown_nodes
from pytest_gsw.reports.run_report import Cause, RunJob, RunReport
from pytest_gsw.results import attention

#: Its address.
JOBS = "jobs.html"

#: Nodes, causes and jobs that are listed.
_NODES, _CAUSES, _JOBS = 40, 100, 1500


def jobs_page(night: RunReport, shown: Plot | None, links: Sequence[tuple[str, str]]) -> ET.Element:
    """The night's jobs: GPU-hours, the time line, failures by cause and by node, and nodes that make jobs slow."""
    title = f"Jobs of the run, {minute(night.begin_s)}"
    main = [
        element("h1", title),
        simulated_note(night.records),
        fact_list(_sums(night)),
        section("line", "Time line", figure(shown)),
        section("causes", "Failures by cause", _causes(night)),
        section("failing", "Failures by node", _failing(night), _blamed(night)),
        section("slow", "Slow nodes", _slow(night), *_sound(night)),
        section("jobs", "All jobs", _jobs(night)),
    ]
    return page(title, main, links, here=JOBS)


def _sums(night: RunReport) -> list[tuple[str, str]]:
    jobs = night.jobs
    failed = sum(job.failed for job in jobs)
    waits_s = [job.facts.queue_s for job in jobs if job.facts.queue_s is not None]
    runs_s = [job.facts.run_s for job in jobs if job.facts.run_s is not None]
    saved = sum(record.jobs.saved_gpu_hours or 0.0 for record in night.records)
    return [
        ("jobs", f"{counted(len(jobs), 'job')}, {failed} failed"),
        (
            "GPU-hours",
            f"{night.gpu_hours:,.1f}" + (f", about {saved:,.1f} saved by ending jobs early" if saved else ""),
        ),
        ("queue", _spread(waits_s)),
        ("run", _spread(runs_s)),
    ]


def _spread(times_s: Sequence[float]) -> str:
    if not times_s:
        return ""
    return f"median {duration(statistics.median(times_s))}, longest {duration(max(times_s))}"


def _causes(night: RunReport) -> ET.Element | None:
    if not night.causes:
        return None
    lines = [_cause(cause) for cause in night.causes[:_CAUSES]]
    return table("causes", "Why rows could not be measured", ["cause", "rows", "nodes", "advice"], lines)


def _cause(cause: Cause) -> Sequence[Content]:
    nodes, advice = (element("td", text or None, class_="long") for text in (cause.nodes, cause.advice))
    return cause.fact, f"{len(cause.rows)}", nodes, advice


def _failing(night: RunReport) -> ET.Element | None:
    nodes = night.failing_nodes
    if not nodes:
        return None
    lines = [[node, f"{failed}", f"{ran}"] for node, failed, ran in nodes[:_NODES]]
    caption = f"{counted(len(nodes), 'node')} with failed jobs, the most failures among its jobs first"
    return table("failing", caption, ["node", "failed jobs", "of jobs"], lines)


def _blamed(night: RunReport) -> ET.Element | None:
    """The nodes that fail jobs, by all jobs of the history."""
    lines = [
        [one.name, cluster, f"{one.failed}", f"{one.of}", share(one.usual)]
        for cluster, failing in night.blamed_nodes.items()
        for one in failing
    ]
    if not lines:
        return None
    heads = ["node", "cluster", "failed jobs", "of jobs", "usual"]
    caption = f"Nodes of which more jobs fail than by chance, by the history's last {FAILURES_DAYS} days"
    return table("blamed", caption, heads, lines[:_NODES])


def _slow(night: RunReport) -> ET.Element | None:
    """The nodes that make jobs slow, by all jobs of the history."""
    lines = [_slow_line(cluster, one) for cluster, slow in night.slow_nodes.items() for one in slow]
    if not lines:
        return None
    heads = ["node", "cluster", "throughput", "since", "jobs that accuse", "that clear"]
    return table("slow", "Nodes that make jobs slow, by all jobs of the history", heads, lines[:_NODES])


def _sound(night: RunReport) -> Iterator[ET.Element]:
    """How many nodes are known to be sound: that nobody is slow is not known before."""
    for cluster, sound in night.sound_nodes.items():
        slow = "" if cluster in night.slow_nodes else "no node is known to make jobs slow; "
        yield element("p", f"{cluster}: {slow}{sound_text(sound)}")


def _slow_line(cluster: str, one: Suspect) -> Sequence[Content]:
    since = time_element(one.accusing[0].begin_s)
    return one.name, cluster, percent(one.change), since, f"{len(one.accusing)}", f"{len(one.clearing)}"


def _jobs(night: RunReport) -> ET.Element | None:
    jobs = night.jobs[:_JOBS]
    if not jobs:
        return None
    heads = ["row", "job", "state", "nodes", "submitted", "queue", "ran", "GPU-hours"]
    caption = f"{counted(len(jobs), 'job')} in the order of their submission"
    return table("jobs", caption, heads, map(_job, jobs))


def _job(job: RunJob) -> list[Content]:
    facts = job.facts
    return [
        row_link(job.row),
        facts.id,
        element("td", f"{_failed_text(job)}{facts.state}", class_=attention.ERROR.kind if job.failed else None),
        shown_nodes(facts.nodes),
        time_element(job.begin_s) if job.begin_s else None,
        "" if facts.queue_s is None else duration(facts.queue_s),
        "" if facts.run_s is None else duration(facts.run_s),
        "" if facts.run_s is None else f"{job.row.record.row.gpus * facts.run_s / 3600:,.1f}",
    ]


def _failed_text(job: RunJob) -> str:
    """What stands before the state of a job that failed, although a state may say COMPLETED."""
    return "failed: " if job.failed else ""


#: Jobs of a night that are drawn, how high each is, and how many may bear their names.
_MOST_JOBS, _NAMED_JOBS = 200, 60
_BAR, _NAMED_BAR, _NAME = 7, 25, 14
#: Letters of a name there, with its job: a phone has room for as many; and of the job.
_LONGEST_NAME, _LONGEST_JOB = 44, 20
#: Units of time, and their seconds; three hundred of one are better told in the next.
_TIME_UNITS = (("seconds", 1), ("minutes", 60), ("hours", 3600))


def jobs_plot(night: RunReport) -> Plot | None:
    """The night's jobs over time: how long each waited, and how long it ran. The one that ended last comes last."""
    jobs = sorted((job for job in night.jobs if _is_timed(job)), key=lambda one: one.facts.end_s or 0.0)
    if not jobs:
        return None
    begin_s = min(job.begin_s for job in jobs)
    span_s = max((jobs[-1].facts.end_s or 0.0) - begin_s, 1.0)
    unit, unit_s = next(one for one in _TIME_UNITS if span_s < one[1] * 300 or one is _TIME_UNITS[-1])
    shown = jobs[-_MOST_JOBS:]
    each = _NAMED_BAR if len(shown) <= _NAMED_JOBS else _BAR
    bottom = each * len(shown) + 4
    x = Scale(0.0, span_s / unit_s, 0.0, 100.0)
    title = (
        f"{counted(len(shown), 'job')} of the run"
        if len(shown) == len(jobs)
        else f"The {len(shown)} jobs that ended last"
    )
    svg = ground(bottom + 40)
    svg.set("class", "jobs")
    places = [(x(value), f"{value:,.10g}") for value in round_numbers(0.0, span_s / unit_s)]
    svg.extend(element("line", x1=f"{at:g}%", x2=f"{at:g}%", y1=0, y2=bottom, class_="grid") for at, _ in places)
    svg.extend(named_ticks(places, y=bottom + 16))
    svg.append(element("text", f"{unit} since the first job was submitted", x="50%", y=bottom + 34, class_="x"))
    for number, job in enumerate(shown):
        svg.append(_bar(job, lambda time_s: x((time_s - begin_s) / unit_s), 2 + each * number, each))
    legend = (
        key("in the queue", "queue", "band"),
        key("ran", "ran", "band"),
        key("failed", "failed", "cross"),
    )
    return Plot(title, svg, f"{title}; pale bars are time in the queue, others run time, crosses failed", legend)


def _bar(job: RunJob, x: Callable[[float], float], top: float, height: float) -> ET.Element:
    """One job: whose it is, where bars are high enough for that, and below its time in the queue and its run."""
    facts = job.facts
    submitted, started, ended = x(job.begin_s), x(facts.start_s or job.begin_s), x(facts.end_s or 0.0)
    name, queue_s, run_s = job.row.record.row.id, facts.queue_s, facts.run_s
    told = [
        f"{name}: job {facts.id}, {'failed: ' if job.failed else ''}{facts.state}",
        "" if queue_s is None else f"{duration(queue_s)} in the queue",
        "" if run_s is None else f"ran {duration(run_s)}",
    ]
    named = height == _NAMED_BAR
    bar, high = (top + _NAME, height - _NAME - 3) if named else (top, height - 2)
    cross = polygon("cross", size=1 if named else 0.6)
    return element(
        "a",
        element("title", ", ".join(part for part in told if part)),
        element("text", _name(job), x=0, y=top + 10, class_="name") if named else None,
        _part(submitted, started - submitted, bar, high, "queue"),
        _part(started, max(ended - started, 0.2), bar, high, "failed" if job.failed else "ran"),
        element("svg", cross, x=f"{ended:g}%", y=bar + high / 2, class_="failed") if job.failed else None,
        href=f"rows/{job.row.name}.html",
        aria_label=f"{name}, job {facts.id}",
    )


def _name(job: RunJob) -> str:
    """The row and the job: of a row several jobs may be drawn."""
    which = f", job {shortened(job.facts.id, _LONGEST_JOB)}"
    return f"{shortened(job.row.record.row.id, _LONGEST_NAME - len(which))}{which}"


def _part(begin: float, wide: float, top: float, high: float, kind: str) -> ET.Element | None:
    """A stretch of a job from one percentage on."""
    if wide <= 0:
        return None
    return element("rect", x=f"{begin:g}%", y=top, width=f"{wide:.1f}%", height=high, class_=kind)


def _is_timed(job: RunJob) -> bool:
    return bool(job.facts.end_s and 0 < job.begin_s <= job.facts.end_s < MOST)
