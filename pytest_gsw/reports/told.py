"""What runs came to: by the history, and by the directories of runs that never judged some of their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from pytest_gsw.history.events import EXCLUDE
from pytest_gsw.history.model import Told
from pytest_gsw.history.past import Lines, lines_of
from pytest_gsw.history.store import History
from pytest_gsw.reports.night import Listed, Run
from pytest_gsw.results.facts import NO_CLUSTER
from pytest_gsw.results.outcomes import ERROR
from pytest_gsw.results.record import Record
from pytest_gsw.results.run_id import begin_of
from pytest_gsw.results.unjudged import Begun, newest_begun

#: How many runs before are asked what they came to: as many as a row's plot has.
EARLIER_RUNS = 200


class Once:
    """A history and directories of runs, of which each thing is read once: all that is told is of one moment.

    Args:
        history: All runs.
        lines: By cluster, the nights that somebody has read already.
    """

    def __init__(self, history: History, lines: Mapping[str, Lines] | None = None) -> None:
        self.history = history
        self.read = dict(lines or {})
        self._begun: dict[Path, tuple[Begun, ...]] = {}

    def lines(self, cluster: str) -> Lines:
        """The nights of a cluster."""
        if cluster not in self.read:
            self.read[cluster] = lines_of(self.history, cluster)
        return self.read[cluster]

    def begun(self, runs: Path) -> tuple[Begun, ...]:
        """What the last runs in a directory of runs were to be."""
        if runs not in self._begun:
            self._begun[runs] = newest_begun(runs, EARLIER_RUNS)
        return self._begun[runs]


def told_of(
    known: Once, by_run: Mapping[str, Collection[Record]], asked: Collection[Run]
) -> Mapping[tuple[str, str], tuple[Told, ...]]:
    """By cluster and row, what the runs of the history came to, those that somebody has excluded left out.

    Rows that were never judged are errors, in those of the runs that still have a directory beside those asked for.
    """
    clusters = {record.run.cluster for records in by_run.values() for record in records}
    clusters = (clusters | {run.noted.cluster for run in asked}) - {NO_CLUSTER, ""}
    there = [one for runs in sorted({run.directory.parent for run in asked}) for one in known.begun(runs)]
    found: dict[tuple[str, str], tuple[Told, ...]] = {}
    for cluster in clusters:
        excluded = {event.subject for event in known.history.events(cluster, EXCLUDE)}
        told = known.history.outcomes(cluster, EARLIER_RUNS + len(by_run))
        for row, of_row in _with_never_judged(told, [one for one in there if one.cluster == cluster]).items():
            found[cluster, row] = tuple(one for one in of_row if one.run_id not in excluded)
    return found


def _with_never_judged(told: Mapping[str, tuple[Told, ...]], there: Iterable[Begun]) -> Mapping[str, tuple[Told, ...]]:
    """By row, what the runs of a cluster came to, with an error for each row that one of them never judged."""
    found = {row: {one.run_id: one for one in of_row} for row, of_row in told.items()}
    times_s: dict[str, float] = {}
    for one in (one for of_row in told.values() for one in of_row):
        times_s[one.run_id] = max(one.time_s, times_s.get(one.run_id, one.time_s))
    for run in there:
        name = run.directory.name
        missing = [row for row in run.rows if name not in found.get(row, {})]
        # Of a run with records that the history does not know, it was to know nothing.
        if not missing or (name not in times_s and run.has_records) or run.is_owned:
            continue
        for row in missing:
            found.setdefault(row, {})[name] = Told(name, times_s.get(name, run.begun_s), ERROR.word)
    return {row: tuple(sorted(of_row.values(), key=lambda one: one.time_s)) for row, of_row in found.items()}


def listed_of(clusters: Collection[str], told: Mapping[tuple[str, str], tuple[Told, ...]]) -> tuple[Listed, ...]:
    """The runs of clusters, the oldest first."""
    found: dict[str, list[Told]] = {}
    for (cluster, _), of_row in told.items():
        for one in of_row if cluster in clusters else ():
            found.setdefault(one.run_id, []).append(one)
    runs = (
        Listed(run_id, begin_of(run_id, min(one.time_s for one in of_run)), Counter(one.outcome for one in of_run))
        for run_id, of_run in found.items()
    )
    return tuple(sorted(runs, key=lambda run: (run.time_s, run.run_id)))
