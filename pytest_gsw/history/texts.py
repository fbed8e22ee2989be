"""What a row's history says, in one line each."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_gsw.common.words import command, counted, day, minute, percent, share
from pytest_gsw.history.alarms import Alarm, Kind, Spell, State
from pytest_gsw.history.model import SIMULATED
from pytest_gsw.history.past import GONE_DAYS, Change, Drifting
from pytest_gsw.history.suspects import Failing, Sound, Suspect
from pytest_gsw.history.together import ClusterDrifting, ClusterNight, Together
from pytest_gsw.performance.decision import is_below
from pytest_gsw.performance.noise import ACCEPTED_JOBS
from pytest_gsw.performance.slow_nodes import LOSS, NEWEST_NIGHTS
from pytest_gsw.performance.verdict import Verdict


def drift_text(found: Drifting) -> str:
    """That a row drifts, since when, and what changed in that night, in one line."""
    job = f" (job {found.since.job_id} of run {found.since.run_id})"
    return _drift_text(", beside the other rows," if found.is_beside else "", found, job)


def cluster_drift_text(found: ClusterDrifting) -> str:
    """That a cluster drifts, for all of its rows together, since when, and what changed then, in one line."""
    return _drift_text(f", of {counted(found.rows, 'row')} together,", found)


def _drift_text(of_whom: str, found: Drifting | ClusterDrifting, job: str = "") -> str:
    change = percent(1 / (1 + found.drift.shift) - 1)
    nights = f"throughput of the newest runs{of_whom} is {change} against the first ones"
    fact = f"{nights}, since about {minute(found.since.begin_s)}{job}"
    return fact + (f"; what changed then: {changes_text(found.changes)}" if found.changes else "")


@dataclass(frozen=True)
class ClusterTold:
    """What the nights of a cluster say of its rows together, in words."""

    #: Since when it has been slower than usual every night, and what changed then; empty where it is not.
    since: str = ""
    #: That it drifts, empty where it does not; ``None`` where its nights are too few to tell.
    drift: str | None = None


def cluster_told(together: Together) -> ClusterTold:
    """What the nights of a cluster say, of which the newest is the one that is told."""
    if together.before.noise is None:
        return ClusterTold()  # too few nights to say anything
    first, drifting = together.since(), together.drifting
    since = _since_text(first, {} if first is None else together.changed(first))
    if not together.knows_drift:
        return ClusterTold(since)
    return ClusterTold(since, "" if drifting is None else cluster_drift_text(drifting))


def _since_text(since: ClusterNight | None, changes: Mapping[str, tuple[str, str]]) -> str:
    """Since when an incident lasts, what changed: ``, since 2026-11-20 22:04; changed: driver 550.54 -> 560.28``."""
    if since is None:
        return ""
    return f", since {minute(since.begin_s)}" + (f"; changed: {changes_text(changes)}" if changes else "")


def changes_text(changes: Mapping[str, tuple[str, str]]) -> str:
    """What of the environment changed: ``nccl 2.21.5 -> 2.23.4, driver 550.54 -> 560.28``."""
    return ", ".join(f"{name} {before} -> {now}" for name, (before, now) in changes.items())


def change_text(change: Change) -> str:
    """What changed, when, and how the nights since compare with those before, in one line."""
    nights = f"{counted(change.nights_since, 'run')} since, {change.nights_before} before"
    interval = f"{percent(change.low - 1)} to {percent(change.high - 1)}"
    named = changes_text(change.named)
    return f"{minute(change.since.begin_s)} {named}: throughput {percent(change.ratio - 1)} ({interval}; {nights})"


#: Of a list of alarms; what is a number has ">" before it.
COLUMNS = ("id", "alarm", "state", "of", "cluster", ">against usual", "since", ">runs with it", "acknowledged")

#: Nights after which a row that was never fast enough is one of a figure that is not this cluster's.
_NEVER_NIGHTS = 3


def cells(alarm: Alarm) -> tuple[str, ...]:
    """One line of a list."""
    spell = alarm.spell
    change = "" if alarm.change is None else percent(alarm.change)
    nights = str(len(spell.nights))
    said = (alarm.id, spell.kind.value, state_text(alarm), spell.subject, spell.cluster)
    return (*said, change, minute(alarm.since_s), nights, acknowledged_text(alarm))


def state_text(alarm: Alarm) -> str:
    """What became of an alarm: ``new``, ``still (1 of 2 passes)``, ``over since 2026-11-23 16:11``.

    One that is mended is *over*: "mended" is said of what was broken in the run before.
    """
    if alarm.state is State.MENDED:
        return f"over since {minute(alarm.mended_s or 0.0)}"
    good = good_text(alarm.spell) if alarm.state is State.STILL else ""
    return f"{alarm.state.value} ({good})" if good else f"{alarm.state.value}"


def good_text(spell: Spell) -> str:
    """How many of the good runs that end it a spell has by now, ``1 of 2 passes``; empty where it has none."""
    what = "passes" if spell.kind is Kind.REGRESSION else "runs without it"
    return f"{spell.good_nights} of {spell.ends_after} {what}" if spell.good_nights else ""


def acknowledged_text(alarm: Alarm) -> str:
    """Which other alarm explains an alarm; who looks after it, until when, and why; empty where nobody does."""
    known, part = alarm.acknowledged, f"part of {alarm.part_of}" if alarm.part_of else ""
    if known is None:
        return part
    # The night that an acknowledgement ends with belongs to the day before.
    by = f"{known.owner} until {day(known.until_s - 1)}: {known.why}"
    return f"{by} (pages again)" if alarm.pages else "; ".join(filter(None, (part, by)))


def is_never_fast_enough(alarm: Alarm) -> bool:
    """Whether a row has been too slow on all nights that are known of it."""
    spell = alarm.spell
    return spell.kind is Kind.REGRESSION and spell.is_always and len(spell.nights) >= _NEVER_NIGHTS and alarm.stands


def away_text(alarm: Alarm) -> str:
    """Since when nothing was measured of what an alarm is of, where that is so; empty elsewhere."""
    spell = alarm.spell
    if not spell.is_away:
        return ""
    return f"{'ran no job' if spell.kind is Kind.NODE else 'was not measured'} since {minute(spell.last_s)}"


def next_line(alarm: Alarm) -> str:
    """What to do about an alarm, or what becomes of it, where more is known than that it stands; empty elsewhere."""
    if away := away_text(alarm):
        end = "has ended" if alarm.state is State.GONE else f"ends {GONE_DAYS} days after that"
        return f"{alarm.spell.subject} {away} on {alarm.spell.cluster}; its alarm {end}"
    row, cluster = alarm.spell.subject, alarm.spell.cluster
    if not is_never_fast_enough(alarm) or cluster == SIMULATED:  # no figure that is made up is ever proposed
        return ""
    never = f"{row} was never within its tolerance on {cluster}; if that is how it is"
    runs = [night.run_id for night in alarm.spell.nights[-ACCEPTED_JOBS:]]
    if len(runs) < ACCEPTED_JOBS:
        return f"{never}, {ACCEPTED_JOBS} runs tell the figure that it may have there"
    return f"{never}: {command('pytest-gsw', 'baseline', 'propose', f'--row={row}', f'--cluster={cluster}', *runs)}"


def line_of(alarm: Alarm) -> str:
    """An alarm as a session's summary says it."""
    spell = alarm.spell
    change = "" if alarm.change is None else f" {percent(alarm.change)}"
    since = f"since {minute(alarm.since_s)}, {counted(len(spell.nights), 'run')}"
    what = f"{spell.kind.value} of {spell.subject}"
    if alarm.state is State.MENDED:
        return f"{alarm.id}  {what}: {state_text(alarm)}"
    head = f"{alarm.id}  {state_text(alarm)} {what}"
    if alarm.state is State.GONE:
        return f"{head}: {away_text(alarm)}"
    known = acknowledged_text(alarm)
    return f"{head}:{change} {since}" + (f"; {known}" if known else "")


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
