"""What a run was for the whole cluster, and that it was slower: one failure for all of its rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_gsw.common.words import percent
from pytest_gsw.performance.together import FEWEST_ROWS
from pytest_gsw.performance.verdict import Reason
from pytest_gsw.results.record import Record

#: How node ids begin that are of a whole cluster, and of none of its rows.
OF_CLUSTER = "cluster::"


@dataclass(frozen=True)
class WholeNight:
    """A night of a whole cluster, which may be slower than its nights differ by."""

    cluster: str
    #: By how much more time rows took than they usually do, a logarithm, and beyond what that is an incident.
    effect: float
    limit: float
    #: The rows that tell it, those of them that are slower than usual, and those that failed by nothing else.
    rows: int
    slower: int
    parts: tuple[str, ...]
    #: The canary rows that were too slow as well.
    canaries: tuple[str, ...] = ()

    @property
    def is_incident(self) -> bool:
        """Whether it is one; a row that was left to the incident is never left without one."""
        return self.effect > self.limit or bool(self.parts)

    @property
    def change(self) -> float:
        """What the night does to throughput, as a fraction below 0 where it is slower."""
        return math.exp(-self.effect) - 1

    @property
    def allowed(self) -> float:
        """The change of throughput beyond which it is one."""
        return math.exp(-self.limit) - 1

    @property
    def fact(self) -> str:
        """One line: ``cluster pool: 28 of 30 rows slower, -6.1 % (an incident beyond -2.0 %)``."""
        change, limit = percent(self.change), percent(self.allowed)
        return (
            f"cluster {self.cluster}: {self.slower} of {self.rows} rows slower, {change} (an incident beyond {limit})"
        )

    @property
    def node_id(self) -> str:
        """Its test case."""
        return f"{OF_CLUSTER}{self.cluster}"

    def text(self, since: str = "") -> str:
        """The fact, since when it is so and what changed, where that is known, and the rows that are part of it."""
        lines = [f"{self.fact}{since}"]
        if self.canaries:
            were = "canary {} was" if len(self.canaries) == 1 else "canaries {} were"
            lines.append(f"the {were.format(', '.join(self.canaries))} too slow as well")
        if self.parts:
            lines += ["", "rows that are part of it, and inconclusive for that:", *(f"  {one}" for one in self.parts)]
        return "\n".join(lines)


def incident_of(records: Iterable[Record]) -> WholeNight | None:
    """The incident of a run, ``None`` where it was none, or its rows are too few to tell."""
    found = cluster_night(records)
    return found if found is not None and found.is_incident else None


def cluster_night(records: Iterable[Record]) -> WholeNight | None:
    """What a run was for the whole cluster, an incident or not; ``None`` where its rows are too few to tell.

    It is told by the first job of each row of which the others were asked, whatever came of the row, unless that job
    had a slow node.
    """
    rows = list(records)
    known = [
        (record, night, math.log(record.measured_jobs[0].judged_s / night.usual_s))
        for record in rows
        if record.verdict is not None and (night := record.verdict.night) is not None
        if record.measured_jobs and record.measured_jobs[0].judged_s
    ]
    parts = tuple(record.row.node_id for record, _, _ in known if record.reason == Reason.INCIDENT.value)
    counted = [one for one in known if one[1].is_counted]
    if len(counted) < FEWEST_ROWS and not parts:
        return None
    over = [one for _, _, one in counted or known]
    effect, limit = statistics.median(over), statistics.median(night.limit for _, night, _ in known)
    slower = sum(one > 0 for one in over)
    canaries = [one.row.node_id for one in rows if one.row.canary and one.reason == Reason.CANARY.value]
    return WholeNight(known[0][0].run.cluster, effect, limit, len(over), slower, parts, tuple(canaries))
