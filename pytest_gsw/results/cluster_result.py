"""The effect of a run on all rows of its cluster, which may be an incident."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_gsw.common.text import percent
from pytest_gsw.results import attention, manifest, outcomes
from pytest_gsw.results.record import Record
from pytest_gsw.stats.cluster_effect import FEWEST_ROWS
from pytest_gsw.stats.decision import is_below
from pytest_gsw.stats.verdict import Reason


@dataclass(frozen=True)
class ClusterResult:
    """The effect of a run on all rows of its cluster, which may be an incident."""

    cluster: str
    #: The logarithm of the rows' time over their usual time, and the limit beyond which that is an incident.
    effect: float
    limit: float
    #: The loss of throughput, as a fraction, beyond which an incident fails: the tolerance of most rows.
    tolerance: float
    #: The number of rows that it is computed from, of the slower ones, and the rows that are inconclusive by it alone.
    rows: int
    slower: int
    parts: tuple[str, ...]
    #: The canary rows that were too slow as well.
    canaries: tuple[str, ...] = ()

    @property
    def is_incident(self) -> bool:
        """True if it is an incident, which it always is if a row's loss was attributed to it."""
        return self.effect > self.limit or bool(self.parts)

    @property
    def fails(self) -> bool:
        """True for an incident that is beyond the tolerance; a smaller one is a warning."""
        return self.is_incident and is_below(1 + self.change, self.tolerance)

    @property
    def needs(self) -> attention.Attention:
        """The kind of an incident, with its urgency."""
        return attention.INCIDENT if self.fails else attention.INCIDENT_WITHIN_TOLERANCE

    @property
    def change(self) -> float:
        """The change of throughput, a fraction; below 0 if the run is slower."""
        return math.exp(-self.effect) - 1

    @property
    def allowed(self) -> float:
        """The change of throughput beyond which it is an incident."""
        return math.exp(-self.limit) - 1

    @property
    def fact(self) -> str:
        """One line: ``cluster pool: 28 of 30 rows slower, -6.1 % (an incident beyond -2.0 %)``."""
        slower = f"{self.slower} of {self.rows} rows slower, {percent(self.change)}"
        limits = f"an incident beyond {percent(self.allowed)}"
        if not self.fails:
            limits += f", a failure beyond {percent(-self.tolerance)}"
        return f"cluster {self.cluster}: {slower} ({limits})"

    def case(self, since: str = "") -> manifest.CaseBesideRows:
        """Its test case, with its onset if known."""
        return manifest.CaseBesideRows(
            *(f"{manifest.OF_CLUSTER}{self.cluster}", self.cluster, attention.INCIDENT.kind, f"cluster {self.cluster}"),
            word=attention.INCIDENT.kind.upper(),
            outcome="failed" if self.fails else "passed",
            status=outcomes.FAILED if self.fails else outcomes.GREEN,
            fact=self.fact,
            property_name="gsw_incident",
            text=self.text(since),
        )

    def text(self, since: str = "") -> str:
        """The fact, its onset if known, the slow canaries, and the rows that are part of it."""
        lines = [f"{self.fact}{since}"]
        if self.canaries:
            were = "canary {} was" if len(self.canaries) == 1 else "canaries {} were"
            lines.append(f"the {were.format(', '.join(self.canaries))} too slow as well")
        if self.parts:
            lines += ["", "rows that are part of it, and inconclusive for that:", *(f"  {part}" for part in self.parts)]
        return "\n".join(lines)


def incident_of(records: Iterable[Record]) -> ClusterResult | None:
    """The incident of a run; ``None`` if it is none, or has too few rows."""
    result = cluster_result_of(records)
    return result if result is not None and result.is_incident else None


def cluster_result_of(records: Iterable[Record]) -> ClusterResult | None:
    """The effect of a run on its whole cluster, an incident or not; ``None`` if it has too few rows.

    It is computed from the first job of each row with a cluster effect, whatever its outcome, unless that job had a
    slow node.
    """
    rows = list(records)
    known = [
        (record, cluster_effect, -math.log(record.judged_metric.direction.speed(judged, cluster_effect.usual)))
        for record in rows
        if record.verdict is not None and (cluster_effect := record.verdict.cluster_effect) is not None
        if record.measured_jobs and (judged := record.measured_jobs[0].judged)
    ]
    parts = tuple(record.row.node_id for record, _, _ in known if record.reason == Reason.INCIDENT.value)
    counted = [row_effect for row_effect in known if row_effect[1].is_counted]
    if len(counted) < FEWEST_ROWS and not parts:
        return None
    over = [excess for _, _, excess in counted or known]
    effect, limit = statistics.median(over), statistics.median(cluster_effect.limit for _, cluster_effect, _ in known)
    tolerance = statistics.median(record.row.tolerance for record, _, _ in known)
    slower = sum(excess > 0 for excess in over)
    canaries = [canary.row.node_id for canary in rows if canary.row.canary and canary.reason == Reason.CANARY.value]
    return ClusterResult(known[0][0].run.cluster, effect, limit, tolerance, len(over), slower, parts, tuple(canaries))
