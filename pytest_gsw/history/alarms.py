"""Alarms: what is wrong for several nights is one thing, with an identity by which people can say that they know it.

An alarm is raised on one night and stands until it is mended. Its identity is that night's, which no later night moves:
the same drift is the same alarm on the next night, and what was mended and comes back is another one. Whoever
acknowledges an alarm says why, who looks after it and until when. It does not page then, unless it becomes worse, and
nothing turns green by that: outcomes and exit statuses know nothing of alarms.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_gsw.common.words import by_number
from pytest_gsw.history.events import ACKNOWLEDGE, Event
from pytest_gsw.performance.noise import median_sd
from pytest_gsw.results.run_id import begin_of

#: Standard deviations by which a night is worse than an alarm was when it was last told: one night in a thousand is,
#: by chance alone. And the least that it is worse by, as a logarithm.
_WORSE = 3.1
_LEAST_WORSE = math.log1p(0.02)
#: How many nights say how bad an alarm was when it was told.
_TOLD_BY = 10
#: Hexadecimal digits of an identity.
_ID_DIGITS = 8


class Kind(enum.Enum):
    """What is wrong; incidents come first, because they have the others as their consequence."""

    INCIDENT = "incident"
    NODE = "node"
    REGRESSION = "regression"
    DRIFT = "drift"


#: Kinds whose subject is a row: a night that did not run it has nothing to say of them.
OF_ROWS = frozenset({Kind.REGRESSION, Kind.DRIFT})


class State(enum.Enum):
    """What became of an alarm on the newest night."""

    NEW = "new"
    WORSE = "worse"
    STILL = "still"
    MENDED = "mended"
    #: Nothing was measured of it for so long that nobody knows.
    GONE = "gone"


#: What reports list alarms as, by what became of them.
_LISTED = {State.NEW: "new", State.WORSE: "new", State.STILL: "ongoing", State.MENDED: "fixed"}


@dataclass(frozen=True)
class Seen:
    """One night on which something was wrong."""

    run_id: str
    time_s: float
    #: The logarithm of the seconds on that night: a night is worse than another by the difference.
    level: float

    @property
    def begin_s(self) -> float:
        """When its run began."""
        return begin_of(self.run_id, self.time_s)


@dataclass(frozen=True)
class Spell:
    """The nights on which one thing was wrong: what every kind of alarm is made of, whoever finds it."""

    kind: Kind
    cluster: str
    #: What people call it: a row, a node, the cluster.
    subject: str
    #: What it is of: a row's experiment and definitions, nodes. Spells of one kind that share one are of one thing.
    things: frozenset[str]
    #: What tells it from other spells of the same subject, and never changes: the run that raised it.
    token: str
    #: Its nights, from that which raised it on; there is one at least.
    nights: tuple[Seen, ...] = ()
    #: The earliest time at which it may have begun, after the last one of the same things was mended.
    begin_s: float = 0.0
    #: By how much a night's level differs while nothing changes: standard deviation.
    sd: float = 0.0
    #: Whether its newest night is the newest on which it could be seen.
    is_newest: bool = False
    #: When it could be seen last.
    last_s: float = 0.0
    #: When it was found mended, ``None`` while it stands.
    mended_s: float | None = None
    #: The run that found it mended.
    mended_by: str = ""
    #: The good nights in a row that it has by now, and how many end it.
    good_nights: int = 0
    ends_after: int = 1
    #: When it ended because nothing is measured of it any more, ``None`` where that is not so.
    gone_s: float | None = None
    #: Whether nothing was measured of it for days, while others of its cluster were.
    is_away: bool = False
    #: The level before, ``None`` where nothing is known of it.
    usual: float | None = None
    #: When the first run began that is not like those before, where that is not the one that raised it.
    since_s: float | None = None
    #: Whether the newest night found it, where its nights do not tell: those of a node are the jobs that accuse it.
    is_new: bool = False
    #: Whether nothing better is known of it: it was so on all nights.
    is_always: bool = False
    #: The identity of the spell that explains it, which pages for it; empty where none does.
    part_of: str = ""
    #: What changed then, by name; what was before and is since.
    changes: Mapping[str, tuple[str, str]] | None = None


@dataclass(frozen=True)
class Acknowledgement:
    """That somebody looks after an alarm."""

    #: What the alarm was called, and of what it was.
    alarm: str
    kind: Kind
    cluster: str
    things: frozenset[str]
    #: When its newest night was that they knew.
    seen_s: float
    why: str
    owner: str
    until_s: float
    #: The number of the event that says so.
    event: int = 0


@dataclass(frozen=True)
class Alarm:
    """A spell with what people have said of it."""

    id: str
    spell: Spell
    state: State
    #: Whether somebody is to be called: it stands, and is not acknowledged as what it is now.
    pages: bool
    acknowledged: Acknowledgement | None = None
    #: The id of the alarm that explains it, and pages for both.
    part_of: str = ""

    @property
    def since_s(self) -> float:
        """When the first run with it began, seconds since the epoch."""
        return self.spell.nights[0].begin_s if self.spell.since_s is None else self.spell.since_s

    @property
    def mended_s(self) -> float | None:
        """When the run that found it mended began, ``None`` while it stands."""
        spell = self.spell
        return None if spell.mended_s is None else begin_of(spell.mended_by, spell.mended_s)

    @property
    def change(self) -> float | None:
        """Throughput of its newest night over that before it, less one; ``None`` where nothing before is known."""
        usual = self.spell.usual
        return None if usual is None else math.exp(usual - self.spell.nights[-1].level) - 1

    @property
    def stands(self) -> bool:
        """Whether it is wrong yet."""
        return self.state not in {State.MENDED, State.GONE}


def alarms(spells: Iterable[Spell], said: Sequence[Acknowledgement], now_s: float) -> tuple[Alarm, ...]:
    """Spells as alarms: those that page first, then by kind, and the greatest loss first.

    Args:
        spells: What was wrong and when.
        said: What people have acknowledged, the newest last.
        now_s: Seconds since the epoch, by which an acknowledgement has ended.
    """
    found: list[Alarm] = []
    taken: set[str] = set()
    for spell in spells:
        one = _alarm(spell, said, now_s)
        if one.acknowledged is not None and one.acknowledged.alarm not in taken:
            # What is known of a beginning may change; what people have noted stays what it is called.
            one = replace(one, id=one.acknowledged.alarm)
        taken.add(one.id)
        found.append(one)
    by_identity = {identity(one.spell): one for one in found}
    found = [_explained(one, by_identity.get(one.spell.part_of)) for one in found]
    kinds, states = list(Kind), list(State)

    def rank(one: Alarm) -> tuple[Any, ...]:
        place = (kinds.index(one.spell.kind), states.index(one.state))
        what = (one.spell.cluster, by_number(one.spell.subject), one.id)
        return (not one.stands, not one.pages, *place, one.change or 0.0, *what)

    return tuple(sorted(found, key=rank))


def _explained(one: Alarm, by: Alarm | None) -> Alarm:
    """An alarm that another one pages for, and who looks after that looks after both.

    One that is mended explains the rest as long as it is told: medians of the newest nights lag behind.
    """
    if by is None or not one.stands or by.state is State.GONE:
        return one
    others = None if by.pages else by.acknowledged
    return replace(one, pages=False, part_of=by.id, acknowledged=others if one.pages else one.acknowledged)


def by_state(alarms: Iterable[Alarm], runs: Collection[str]) -> dict[str, list[Alarm]]:
    """The alarms that no other one explains, as reports of some runs list them: an old one is fixed in none of them."""
    found: dict[str, list[Alarm]] = {"new": [], "ongoing": [], "fixed": []}
    for one in alarms:
        is_told = not one.part_of and (one.stands or one.spell.mended_by in runs)
        if is_told and (state := _LISTED.get(one.state)):
            found[state].append(one)
    return found


def least_worse(sd: float) -> float:
    """By how much a night is worse at least, as a logarithm, for it to be told from noise of so much."""
    return max(_LEAST_WORSE, _WORSE * sd)


def _alarm(spell: Spell, said: Sequence[Acknowledgement], now_s: float) -> Alarm:
    told = last_told(spell)
    known = next((one for one in reversed(said) if _is_of(one, spell)), None)
    if spell.mended_s is not None or spell.gone_s is not None:
        ended = State.GONE if spell.mended_s is None else State.MENDED
        return Alarm(identity(spell), spell, ended, pages=False, acknowledged=known)
    state = State.NEW if spell.is_new else State.STILL
    if spell.is_newest and told == len(spell.nights) - 1:
        state = State.WORSE if told else State.NEW
    is_known = known is not None and spell.nights[told].time_s <= known.seen_s and now_s < known.until_s
    return Alarm(identity(spell), spell, state, pages=not is_known, acknowledged=known)


def identity(spell: Spell) -> str:
    """What a spell is called for as long as it lasts."""
    facts = [spell.kind.value, spell.cluster, spell.subject, spell.token]
    return hashlib.sha256(json.dumps(facts).encode("ascii")).hexdigest()[:_ID_DIGITS]


def last_told(spell: Spell) -> int:
    """The night of a spell, by its number, on which it began or became worse than it was when it was last told."""
    told = 0
    for number, night in enumerate(spell.nights[1:], 1):
        known = [one.level for one in spell.nights[told : min(number, told + _TOLD_BY)]]
        noise = spell.sd * math.hypot(1, median_sd(len(known)))
        if night.level - statistics.median(known) > least_worse(noise):
            told = number
    return told


def acknowledge(alarm: Alarm, *, why: str, owner: str, until_s: float, time_s: float) -> Event:
    """That somebody looks after an alarm, as the history keeps it."""
    spell = alarm.spell
    body = {
        "why": why,
        "owner": owner,
        "until_s": until_s,
        # By these it is found again, even where its beginning turns out to be another night.
        "alarm": spell.kind.value,
        "things": sorted(spell.things),
        "seen_s": spell.nights[-1].time_s,
    }
    return Event(ACKNOWLEDGE, alarm.id, spell.cluster, time_s, body)


def acknowledgements(events: Iterable[Event]) -> tuple[Acknowledgement, ...]:
    """What of events is acknowledged; what cannot be read is not."""
    found = (_acknowledgement(event) for event in events if event.kind == ACKNOWLEDGE)
    return tuple(one for one in found if one is not None)


def _acknowledgement(event: Event) -> Acknowledgement | None:
    body = event.body
    try:
        return Acknowledgement(
            event.subject,
            Kind(body["alarm"]),
            event.cluster,
            frozenset(map(str, body["things"])),
            float(body["seen_s"]),
            str(body["why"]),
            str(body["owner"]),
            float(body["until_s"]),
            event.id,
        )
    except (KeyError, TypeError, ValueError):  # of a later release
        return None


def _is_of(said: Acknowledgement, spell: Spell) -> bool:
    """Whether it was this spell that somebody has acknowledged: of the same things, and lasting at that time."""
    is_of_things = (said.kind, said.cluster) == (spell.kind, spell.cluster) and not spell.things.isdisjoint(said.things)
    return is_of_things and spell.begin_s <= said.seen_s and (spell.mended_s is None or said.seen_s < spell.mended_s)
