"""Nodes of a Slurm partition, their switches or blocks, and the tiles that cover them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_gsw.clusters import Cluster
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.redact import printable
from pytest_gsw.common.text import by_number, command, named, one_line, plural, shortened
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.scripts import CLUSTER_VARIABLES, value_of
from pytest_gsw.jobs.slurm import client
from pytest_gsw.jobs.slurm.client import Ask
from pytest_gsw.tables.value_types import nearest

# -- The nodes as Slurm reports them -----------------------------------------------------------------


#: Words of a state (``mixed``, ``mixed+planned``) in which a node takes jobs, now or once others have ended or the
#: node is up again. A node with any other word, known or not, is unusable.
_USABLE = frozenset(
    {
        *("idle", "mixed", "allocated", "completing", "planned", "blocked", "cloud", "dynamic_norm"),
        *("powered_down", "powering_down", "powering_up", "power_down", "power_up"),
        *("reboot", "reboot_requested", "reboot_issued"),
    }
)
#: A state with its marks: ``~#!%@^-`` are power saving, reboot and planning; ``*`` is no answer, ``$`` maintenance.
_STATE = re.compile(r"([a-z_]+(?:\+[a-z_]+)*)\+?([*~#!%$@^-]*)", re.ASCII)
#: States of a node that is reserved, by ``sinfo``.
_RESERVED = frozenset({"reserved", "maint", "maintenance"})
#: A constraint that can be checked here: features with "and" and "or".
_FEATURES = re.compile(r"[\w.:=-]+(?:[&|][\w.:=-]+)*")
_PAIR = re.compile(r"(\w+)=(\S*)")
_LONGEST_REASON = 100
_NAMED = 6


@dataclass(frozen=True)
class ClusterNodes:
    """The nodes of a cluster's partitions."""

    #: ``batch``, or ``batch,long``.
    partition: str
    #: Nodes that take jobs, in natural order.
    usable: tuple[str, ...]
    #: The reason of each other node: ``drained: NHC: ib0 down``.
    unusable: Mapping[str, str] = field(default_factory=dict)
    #: Nodes of each leaf switch or block, in natural order; empty if Slurm knows none.
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: True if these are blocks.
    is_block: bool = False


def ask_nodes(ask: Ask, cluster: Cluster, environ: Mapping[str, str]) -> ClusterNodes:
    """The nodes on which the jobs of a cluster run, with Slurm's reasons for those that take none.

    Raises:
        ConfigurationError: Slurm does not answer, or has no such partition or reservation.
    """
    environment = {**environ, **cluster.environment}

    def option(name: str, key: str | None = None) -> str:
        return value_of(cluster.submission.sbatch, name) or key or environment.get(f"SBATCH_{name.upper()}") or ""

    routed = slurm_cluster_of(cluster)
    query = client.sinfo_command(routed)
    lines = list(_parse_sinfo(_answer(ask, query)))
    wanted = [name for name in option("partition", cluster.submission.partition).split(",") if name]
    names = wanted or sorted({line.partition for line in lines if line.is_default})
    known = {line.partition for line in lines}
    missing = next((name for name in names if name not in known), None)
    if missing is not None or not names:
        fact = f"Slurm has no partition '{missing}' with nodes" if names else "Slurm has no default partition"
        raise ConfigurationError(
            f"{fact}{nearest(missing or '', known)}\nknown: {named(sorted(known), _NAMED) or 'none'}\n"
            f"asked: {command(*query)}\nnext: set `partition` in the cluster file; sinfo -a -s lists them"
        )
    reservations = dict(_parse_reservations(_answer(ask, client.scontrol_show_command("reservation", routed))))
    own = [name for name in option("reservation", cluster.submission.reservation).split(",") if name]
    unknown = next((name for name in own if name not in reservations), None)
    if unknown is not None:
        raise ConfigurationError(
            f"Slurm has no active reservation '{unknown}'{nearest(unknown, reservations)}\n"
            f"known: {named(sorted(reservations), _NAMED) or 'none'}\n"
            "next: correct `reservation` in the cluster file; scontrol show reservation lists them"
        )
    reserved = {node: name for name, nodes in reservations.items() for node in nodes}
    inside = {node for name in own for node in reservations[name]}
    states: dict[str, str] = {}
    features: dict[str, str] = {}
    for line in lines:
        if line.partition in names:
            # A line feed in a reason may begin a line that looks like another node's: the worst one counts.
            states[line.node] = states.get(line.node) or _reason(line, is_reserved=line.node in reserved)
            features[line.node] = line.features
    chosen, excluded = _node_list(cluster, "nodelist"), _node_list(cluster, "exclude")
    constraint = option("constraint", cluster.submission.constraint)

    def obstacle(node: str) -> str:
        if own:
            if node not in inside:
                return f"not in the reservation {','.join(own)}"
        elif node in reserved:
            return f"reserved: {reserved[node]}"
        if excluded and node in excluded:
            return "excluded by the cluster's sbatch options"
        if chosen and node not in chosen:
            return "not in the node list of the cluster's sbatch options"
        return "" if _has_features(features[node], constraint) else f"without a feature of the constraint {constraint}"

    states = {node: why or obstacle(node) for node, why in states.items()}
    order = sorted(states, key=by_number)
    leaves, is_block = parse_topology(_answer(ask, client.scontrol_show_command("topology", routed)), states)
    return ClusterNodes(
        ",".join(names),
        tuple([node for node in order if not states[node]]),
        {node: states[node] for node in order if states[node]},
        leaves,
        is_block,
    )


def slurm_cluster_of(cluster: Cluster) -> str:
    """The name of the Slurm cluster that a cluster's own options select; empty if they select none."""
    # The session's own variables of these names reach no job.
    variables = (cluster.environment.get(name) for name in CLUSTER_VARIABLES)
    return next(filter(None, (value_of(cluster.submission.sbatch, "clusters"), *variables)), "")


def lost_nodes(ask: Ask, cluster: str) -> dict[str, str]:
    """The reasons of nodes that are down or drained; empty without an answer.

    Reserved nodes come back, and so does one that does not respond: else it is down after Slurm's timeout.
    """
    output = ask(client.sinfo_command(cluster))
    lines = _parse_sinfo(str(output.stdout)) if output.returncode == 0 else ()
    states = (line._replace(state=line.state.replace("*", "")) for line in lines)
    return {line.node: why for line in states if (why := _reason(line, is_reserved=True))}


def _answer(ask: Ask, query: tuple[str, ...]) -> str:
    output = ask(query)
    if output.returncode != 0:
        raise ConfigurationError(
            f"Slurm did not answer which nodes there are: {printable(client.why(output))}\nasked: {command(*query)}\n"
            "next: scontrol ping shows if Slurm is up; run pytest on a login node of the cluster"
        )
    return str(output.stdout)


def _node_list(cluster: Cluster, name: str) -> tuple[str, ...] | None:
    """The nodes of an option of the cluster; ``None`` without the option."""
    value = value_of(cluster.submission.sbatch, name)
    if value and "/" in value:
        raise ConfigurationError(
            f"--{name}={value} of the cluster {cluster.name} is a file: tiles need the nodes\n"
            f"next: write the nodes themselves in the cluster file: --{name}=n[001-004]"
        )
    return expand(value) if value else None


class _Line(NamedTuple):
    """One node in one partition."""

    node: str
    state: str
    partition: str
    is_default: bool
    features: str
    reason: str


def _parse_sinfo(text: str) -> Iterator[_Line]:
    for line in text.split("\n"):
        node, *facts = line.split("|", 4)
        if len(facts) == 4 and re.fullmatch(r"[\w.-]+", node, re.ASCII):
            state, partition, features, reason = facts
            partition = printable(partition)
            yield _Line(node, state, partition.rstrip("*"), partition.endswith("*"), features, reason)


def _reason(line: _Line, *, is_reserved: bool) -> str:
    """The reason why a node takes no jobs, on one printable line; empty if it does.

    ``is_reserved``: an active reservation has the node, which is not the reason here.
    """
    match = _STATE.fullmatch(line.state.lower())
    words, marks = (set(match[1].split("+")), match[2]) if match else ({line.state}, "")
    usable = _USABLE | _RESERVED if is_reserved else _USABLE
    if words <= usable and "*" not in marks and ("$" not in marks or is_reserved):
        return ""
    reason = one_line(printable(line.reason))
    if reason in {"", "none", "(null)"}:
        reason = "not responding" if "*" in marks else "maintenance" if "$" in marks else ""
    state = one_line(printable(line.state)) or "in no state"
    return shortened(f"{state}: {reason}" if reason else state, _LONGEST_REASON)


def _has_features(features: str, constraint: str) -> bool:
    """False if a node certainly lacks a feature that the cluster's constraint requires."""
    if not _FEATURES.fullmatch(constraint) or {"&", "|"} <= set(constraint):
        return True  # Slurm evaluates it from left to right, or it counts nodes
    has = [name in features.split(",") for name in re.split("[&|]", constraint)]
    return any(has) if "|" in constraint else all(has)


def _parse_reservations(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The active reservations with their nodes."""
    for line in text.split("\n"):
        facts = dict(_PAIR.findall(line))
        if facts.get("State") == "ACTIVE" and "ReservationName" in facts:
            yield printable(facts["ReservationName"]), expand(facts.get("Nodes", ""))


def parse_topology(text: str, nodes: Collection[str] | None = None) -> tuple[dict[str, tuple[str, ...]], bool]:
    """The leaf switches, or blocks, that have some of these nodes or any, and whether they are blocks."""
    found: dict[str, dict[str, tuple[str, ...]]] = {"SwitchName": {}, "BlockName": {}}
    for line in text.split("\n"):
        word, _, rest = line.strip().partition("=")
        facts = dict(_PAIR.findall(line))
        if word in found and facts.get("Level", "0") == "0":
            own = sorted(
                {node for node in expand(facts.get("Nodes", "")) if nodes is None or node in nodes}, key=by_number
            )
            if own:
                found[word][printable(rest.split(" ")[0])] = tuple(own)
    return found["SwitchName"] or found["BlockName"], bool(found["BlockName"] and not found["SwitchName"])


# -- Tiles ------------------------------------------------------------------------------------------


_PLURALS = {"switch": "switches", "block": "blocks"}
_LEAVES = _PLURALS.keys()
_KINDS = ("node", *_LEAVES)
#: Pattern of a kind of tile: one of these words, or a number of nodes.
TILE_KIND = rf"{'|'.join(_KINDS)}|[1-9][0-9]{{0,5}}"


class Tiles(NamedTuple):
    """The tiles of a row: disjoint sets of nodes."""

    #: Node list of each tile: ``n017``, ``n[001-004]``.
    names: tuple[str, ...]
    #: The reason of each node that is in no tile.
    not_covered: Mapping[str, str]


def check_tile(text: str) -> tuple[str, str]:
    """The kind and the node list of ``--gsw-tile``: ``node:pool0-[0001-0256]``; an empty list is all nodes.

    Raises:
        ConfigurationError: It is neither a known word nor a number.
    """
    kind, colon, only = text.partition(":")
    if not re.fullmatch(TILE_KIND, kind):
        raise ConfigurationError(
            f"--gsw-tile: got '{kind}', wanted {', '.join(_KINDS)}, or a number of nodes such as 4"
            f"{nearest(kind, _KINDS)}"
        )
    if colon and not expand(only):
        raise ConfigurationError(f"--gsw-tile: '{text}' has no nodes behind the colon, such as {kind}:n[001-032]")
    return kind, only


def fits(kind: str, size: int, there: ClusterNodes) -> bool:
    """True if a row of ``size`` nodes runs on tiles of this kind.

    Raises:
        ConfigurationError: The kind is a switch or a block, and Slurm knows none.
    """
    if kind in _LEAVES:
        _check_topology(kind, there)
        return any(len(nodes) >= size for nodes in there.switches.values())
    return size == (1 if kind == "node" else int(kind))


def tiles(kind: str, size: int, there: ClusterNodes, only: str = "") -> Tiles:
    """The tiles of ``size`` nodes, on all nodes or on those of a node list.

    A tile lies below one leaf switch; tiles of a number of nodes may also take what the switches have left over.

    Raises:
        ConfigurationError: A node of the list is unknown, or Slurm does not know switches or blocks.
    """
    if kind in _LEAVES:
        _check_topology(kind, there)
    known = {*there.usable, *there.unusable}
    wanted = set(expand(only)) if only else known
    for node in sorted(wanted - known, key=by_number)[:1]:
        raise ConfigurationError(
            f"--gsw-tile: no node '{node}' in the partition {there.partition}{nearest(node, known)}\n"
            f"next: sinfo -N -p {there.partition} lists its nodes"
        )
    # A node of two switches counts as the first one's.
    leaf_of = {node: leaf for leaf, nodes in reversed(list(there.switches.items())) for node in nodes}
    leaves = grouped([(leaf_of.get(node, ""), node) for node in there.usable if node in wanted])
    loose = leaves.pop("", []) if kind in _LEAVES else []
    cut = [nodes[first : first + size] for nodes in leaves.values() for first in range(0, len(nodes), size)]
    rests = [nodes for nodes in cut if len(nodes) < size]
    cut = [nodes for nodes in cut if len(nodes) == size]
    # Slurm runs no job of N nodes on more blocks than N nodes need.
    longest = max(map(len, there.switches.values()), default=1)
    most = 0 if kind in _LEAVES else math.ceil(size / longest) if there.is_block else len(leaves)
    window: list[list[str]] = []
    for rest in rests if most else ():
        window = [*window, rest][-most:]
        near = [node for nodes in window for node in nodes]
        if len(near) >= size:
            cut.append(near[:size])
            window = [near[size:]] if near[size:] else []
    covered = {node for nodes in cut for node in nodes}
    missed = {leaf: [node for node in nodes if node not in covered] for leaf, nodes in leaves.items()}
    total = sum(map(len, missed.values()))
    not_covered = {node: why for node, why in there.unusable.items() if node in wanted}
    not_covered |= dict.fromkeys(loose, f"in no {kind}")
    for leaf, nodes in missed.items():
        is_by_leaf = leaf and most < len(leaves)
        left = f"{leaf} has {plural(len(nodes), 'node')} left" if is_by_leaf else f"{plural(total, 'node')} left"
        not_covered |= dict.fromkeys(nodes, f"{left}, too few for a tile of {size}")
    cut.sort(key=lambda nodes: by_number(nodes[0]))
    return Tiles(
        tuple([compressed(nodes) for nodes in cut]),
        {node: not_covered[node] for node in sorted(not_covered, key=by_number)},
    )


def _check_topology(kind: str, there: ClusterNodes) -> None:
    if there.switches and there.is_block == (kind == "block"):
        return
    other = "block" if there.is_block else "switch"
    has, advice = (f"{_PLURALS[other]}, and ", f"--gsw-tile={other}") if there.switches else ("", "")
    raise ConfigurationError(
        f"--gsw-tile={kind}: this Slurm knows {has}no {_PLURALS[kind]}\n"
        f"asked: scontrol show topology, for the nodes of the partition {there.partition}\n"
        f"next: {advice or '--gsw-tile=4, a number of nodes'}"
    )
