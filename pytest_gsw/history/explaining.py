"""What slow nodes have to do with a regression."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from pytest_gsw.common.words import counted, day, percent
from pytest_gsw.history.suspects import Suspect
from pytest_gsw.performance.decision import is_below
from pytest_gsw.performance.verdict import Verdict


def explaining(slow: Iterable[Suspect], verdict: Verdict, ran: Sequence[tuple[str, float]]) -> Suspect | None:
    """The slow node that a row regresses by: without what it costs, the row's median would be as fast as allowed.

    Args:
        slow: Nodes that are slow.
        verdict: The row's.
        ran: The nodes of each of its jobs, and when it ended, seconds since the epoch.
    """
    times_s = verdict.jobs_s or (verdict.measured_s,)
    if len(times_s) != len(ran):
        return None  # a site's own rule has judged by something else
    for suspect in slow:
        without_s = [
            time_s * (1 + suspect.change) if suspect.ran_in(*job) else time_s
            for time_s, job in zip(times_s, ran, strict=True)
        ]
        if not is_below(verdict.reference_s / statistics.median(without_s), verdict.allowed):
            return suspect
    return None


def suspect_text(one: Suspect) -> str:
    """A slow node, what it costs, and by how many jobs that is known: ``node pool0-0017 (-9.8 %, 41 jobs)``."""
    nodes = one.nodes[0] if len(one.nodes) == 1 else f"{', '.join(one.nodes[:-1])} or {one.nodes[-1]}"
    return f"node {nodes} ({percent(one.change)}, {counted(len(one.accusing), 'job')})"


def slow_since_text(one: Suspect) -> str:
    """The same, and since when: ``node pool0-0017 (-9.8 %, 41 jobs) since 2026-11-18``."""
    return f"{suspect_text(one)} since {day(one.accusing[0].time_s)}"
