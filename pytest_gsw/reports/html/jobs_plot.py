"""A night's jobs on a time line."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable

from pytest_gsw.common.words import counted, duration, shortened
from pytest_gsw.reports.html.drawing import Plot, Scale, ground, key, named_ticks, polygon, round_numbers
from pytest_gsw.reports.html.elements import element
from pytest_gsw.reports.html.plots import MOST
from pytest_gsw.reports.run_report import Night, NightJob

#: Jobs of a night that are drawn, how high each is, and how many may bear their names.
_MOST_JOBS, _NAMED_JOBS = 200, 60
_BAR, _NAMED_BAR, _NAME = 7, 25, 14
#: Letters of a name there, with its job: a phone has room for as many; and of the job.
_LONGEST_NAME, _LONGEST_JOB = 44, 20
#: Units of time, and their seconds; three hundred of one are better told in the next.
_TIME_UNITS = (("seconds", 1), ("minutes", 60), ("hours", 3600))


def jobs_plot(night: Night) -> Plot | None:
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


def _bar(job: NightJob, x: Callable[[float], float], top: float, height: float) -> ET.Element:
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


def _name(job: NightJob) -> str:
    """The row and the job: of a row several jobs may be drawn."""
    which = f", job {shortened(job.facts.id, _LONGEST_JOB)}"
    return f"{shortened(job.row.record.row.id, _LONGEST_NAME - len(which))}{which}"


def _part(begin: float, wide: float, top: float, high: float, kind: str) -> ET.Element | None:
    """A stretch of a job from one percentage on."""
    if wide <= 0:
        return None
    return element("rect", x=f"{begin:g}%", y=top, width=f"{wide:.1f}%", height=high, class_=kind)


def _is_timed(job: NightJob) -> bool:
    return bool(job.facts.end_s and 0 < job.begin_s <= job.facts.end_s < MOST)
