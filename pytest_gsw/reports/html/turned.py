"""What is new, ongoing and fixed in a night, by its alarms: the first thing on its page."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from pytest_gsw.history.alarm_texts import good_text
from pytest_gsw.history.alarms import Alarm, Kind
from pytest_gsw.reports.html.elements import element
from pytest_gsw.reports.html.layout import section, sign
from pytest_gsw.reports.html.texts import minute, percent
from pytest_gsw.reports.run_report import Night
from pytest_gsw.results import attention, outcomes

#: Entries of one list; the table of alarms has the others.
_NAMED = 8

#: Where more is said of an alarm, and as what it is said here.
_OF_ALARMS = {
    Kind.INCIDENT: ("#alarms", "the whole cluster was slower", attention.REGRESSED.kind),
    Kind.NODE: ("jobs.html#slow", "slow node", attention.REGRESSED.kind),
    Kind.DRIFT: ("#alarms", "drifts", attention.DRIFT.kind),
    Kind.REGRESSION: ("#alarms", outcomes.REGRESSED.word, attention.REGRESSED.kind),
}


def turned_section(night: Night) -> ET.Element | None:
    """Short lists with their counts; nothing where no alarm is known."""
    if not any(night.turned.values()):
        return None
    cards = [_card(state, alarms, night) for state, alarms in night.turned.items()]
    return section("lately", "New, ongoing and fixed", element("div", *cards, class_="turned"))


def _card(state: str, alarms: Sequence[Alarm], night: Night) -> ET.Element:
    left = len(alarms) - _NAMED
    more = element("li", f"and {left} more, ", element("a", "in the list of alarms", href="#alarms"))
    shown = [*(_alarm(one, night) for one in alarms[:_NAMED]), *([more] if left > 0 else [])]
    return element(
        "div",
        element("h3", f"{state.capitalize()} ({len(alarms)})"),
        element("ul", *shown, class_="rows") if shown else element("p", "nothing"),
        class_=f"card {state}",
    )


def _alarm(alarm: Alarm, night: Night) -> ET.Element:
    address, what, kind = _OF_ALARMS[alarm.spell.kind]
    spell = alarm.spell
    name = "" if spell.kind is Kind.INCIDENT else f"{spell.subject}: "
    figure = alarm.change
    if spell.kind is Kind.INCIDENT and night.incident is not None and alarm.stands:
        # Of an incident of this night there is one figure, the night's own.
        address, what, figure = "#cluster", "the whole cluster is slower", night.incident.change
    change = "" if figure is None else f" {percent(figure)}"
    change += " against its first runs" if change and spell.kind is Kind.DRIFT else ""
    good = good_text(spell) if alarm.stands else ""
    told = f"{change}, since {minute(alarm.since_s)}{f' ({good})' if good else ''}"
    return element("li", sign(kind), " ", element("a", f"{name}{what}", href=address), told)
