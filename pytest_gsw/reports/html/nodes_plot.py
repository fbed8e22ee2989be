"""A map of a night's nodes, on which those that make jobs slow stand out."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from pytest_gsw.common.words import counted
from pytest_gsw.reports.html.drawing import Plot, key, polygon
from pytest_gsw.reports.html.elements import element
from pytest_gsw.reports.night import Night
from pytest_gsw.results.nodes import named_nodes

#: How wide the map is and how far apart nodes are on it, in units of its own; the second one where nodes are many.
_WIDTH, _APART, _CLOSE = 480.0, 12.0, 5.0
_MANY = 400
#: Nodes that are drawn, and slow ones that are named above the map.
_MOST = 12_000


def nodes_plot(night: Night) -> Plot | None:
    """The nodes of the run's jobs in the order of their names, and those that are slow; nothing where none is."""
    slow = {node for of_cluster in night.slow_nodes.values() for one in of_cluster for node in one.nodes}
    nodes = night.nodes[:_MOST]
    there = [node for node in nodes if node in slow]
    if not there:
        return None
    named = named_nodes(dict.fromkeys(there, 1))
    cleared = {node for sound in night.sound_nodes.values() for node in sound.cleared}
    untold = {node for node in nodes if node not in cleared | slow} if night.sound_nodes else set()
    few = len(nodes) <= _MANY
    apart = _APART if few else _CLOSE
    each_line = int(_WIDTH / apart)
    svg = element("svg", viewBox=f"0 0 {_WIDTH:g} {apart * ((len(nodes) - 1) // each_line + 1):g}", class_="map")
    for number, node in enumerate(nodes):
        place = apart * (number % each_line + 0.5), apart * (number // each_line + 0.5)
        what = "slow" if node in slow else "untold" if node in untold else "sound"
        # Ten thousand names would be half a page's bytes: where nodes are many, those that matter are named.
        svg.append(_node(node, place, what, apart, named=few or node in slow))
    title = f"{counted(len(nodes), 'node')} of the run's jobs, {len(there)} slow"
    if untold:
        title += f", {len(untold)} could not be told"
    legend = [key(f"slow: {named}", "slow", "diamond"), key("not slow", "sound")]
    if untold:
        legend.append(key("could not be told", "untold"))
    return Plot(title, svg, f"{title}: {named}; in the order of their names", tuple(legend))


def _node(name: str, place: tuple[float, float], what: str, apart: float, *, named: bool) -> ET.Element:
    x, y = place
    told = element("title", name if what == "sound" else f"{name}, {_TOLD[what]}") if named else None
    if what == "slow":
        drawn = polygon("diamond", x, y, apart / 12, kind=what)
        drawn.extend([told] if told is not None else [])
        return drawn
    return element("circle", told, cx=x, cy=y, r=apart / 4 if what == "sound" else apart / 8, class_=what)


_TOLD = {"slow": "slow", "untold": "could not be told"}
