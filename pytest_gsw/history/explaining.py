"""What is said of nodes: what slow ones have to do with a regression, and how many are known to be sound."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from pytest_gsw.common.words import counted, minute, percent, share
from pytest_gsw.history.suspects import Failing, Sound, Suspect
from pytest_gsw.performance.decision import is_below
from pytest_gsw.performance.slow_nodes import LOSS, NEWEST_NIGHTS
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
    return f"{_called(one)} ({percent(one.change)}, {counted(len(one.accusing), 'job')})"


def _called(one: Suspect | Failing) -> str:
    return f"node {one.name}" if len(one.nodes) == 1 else one.name


def slow_since_text(one: Suspect) -> str:
    """The same, and since when: ``node pool0-0017 (-9.8 %, 41 jobs) since 2026-11-18 22:04``."""
    return f"{suspect_text(one)} since {minute(one.accusing[0].begin_s)}"


def failing_text(one: Failing) -> str:
    """A node that fails jobs: ``node pool0-0017 (5 of 16 jobs failed, usual are 2.1 %)``."""
    return f"{_called(one)} ({one.failed} of {counted(one.of, 'job')} failed, usual are {share(one.usual)})"


def sound_text(sound: Sound) -> str:
    """How many nodes are known to be sound, and of how many that is not known."""
    if not sound.cleared and not sound.untold:
        return "no job tells of any other node"
    cleared, untold = len(sound.cleared), len(sound.untold)
    loss = percent(math.exp(-LOSS) - 1).removeprefix("-")
    known = f"{counted(cleared, 'node')} cleared of a loss of {loss} or more by the last {NEWEST_NIGHTS} runs"
    return f"{known}, {untold} could not be told" if untold else known
