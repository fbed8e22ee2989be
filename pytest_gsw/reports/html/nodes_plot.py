"""A map of a night's nodes, on which those that make jobs slow stand out."""

from __future__ import annotations

from pytest_gsw.common.words import counted
from pytest_gsw.reports.html.drawing import BLUE, BOTTOM, GREY, RED, RIGHT, TOP, WIDTH, Plot, dots, ground, shape, text
from pytest_gsw.reports.html.texts import listed
from pytest_gsw.reports.night import Night

#: Where the first node stands, and the distance of the next: the second one where the nodes are many.
_LEFT, _APART, _CLOSE = 16, 12.0, 5.0
_MANY = 400
#: Nodes that are drawn, and slow ones that are named.
_MOST, _NAMED = 12_000, 6


def nodes_plot(night: Night) -> Plot | None:
    """The nodes of the night's jobs in the order of their names, and those that are slow; nothing where none is."""
    slow = {node for of_cluster in night.slow_nodes.values() for one in of_cluster for node in one.nodes}
    nodes = night.nodes[:_MOST]
    there = [node for node in nodes if node in slow]
    if not there:
        return None
    apart = _APART if len(nodes) <= _MANY else _CLOSE
    across = int((WIDTH - RIGHT - _LEFT) / apart)
    places = {
        node: (_LEFT + apart * (number % across), TOP + 8 + apart * (number // across))
        for number, node in enumerate(nodes)
    }
    bottom = TOP + 8 + apart * ((len(nodes) - 1) // across)
    cleared = {node for sound in night.sound_nodes.values() for node in sound.cleared}
    untold = [node for node in nodes if node not in cleared | slow] if night.sound_nodes else []
    title = f"{counted(len(nodes), 'node')} of the night's jobs, {len(there)} slow"
    if untold:
        title += f", {len(untold)} could not be told (small dots)"
    svg = ground(title, bottom + BOTTOM)
    svg.append(dots((place for node, place in places.items() if node not in slow.union(untold)), GREY, apart / 4))
    if untold:
        svg.append(dots(map(places.__getitem__, untold), BLUE, apart / 8))
    half = apart / 2.4
    diamond = ((0, -half), (half, 0), (0, half), (-half, 0))
    svg.extend(shape(*places[node], RED, diamond) for node in there)
    named = listed(there, _NAMED)
    svg.append(text(f"slow: {named}", _LEFT - 4, bottom + 24, colour=RED))
    return Plot(svg, f"{title}: {named}; in the order of their names, slow ones are diamonds")
