"""The file of ``--gsw-acceptance``: the bill of nodes, ordered stages, and criteria."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_gsw.common.node_lists import MOST_NODES, expand, named_nodes
from pytest_gsw.common.text import enumerated
from pytest_gsw.errors import Fault, FileError
from pytest_gsw.jobs.slurm.nodes import TILE_KIND
from pytest_gsw.tables import value_types as f
from pytest_gsw.tables.yaml_values import NOWHERE, Value, Values, mapping_with_faults, read_text


@dataclass(frozen=True)
class Stage:
    """One stage of a plan: rows that are submitted once the stage before is decided."""

    name: str
    #: The line of the stage in the file.
    line: int
    #: The selection of its rows, in the language of ``-k`` and of ``-m``; empty for all.
    rows: str = ""
    marks: str = ""
    #: ``node``, ``switch``, ``block`` or a number of nodes; empty for jobs on any nodes of the bill.
    tile: str = ""
    #: True if a search among its tiles names what is slow.
    find: bool = False
    #: Duration of each row, seconds; ``None`` for a run of the recipe.
    for_s: float | None = None
    #: True if a criterion that cannot be met any more does not end the plan.
    goes_on: bool = False


@dataclass(frozen=True)
class Criteria:
    """What a cluster has to reach, as fractions; ``None`` if the plan does not ask for it."""

    #: Least share of the bill's nodes that have passed.
    covered: float | None = None
    #: Largest loss of throughput of a row on any nodes against its document.
    within: float | None = None
    #: Least share of productive time of each row with a duration.
    goodput: float | None = None


@dataclass(frozen=True)
class Plan:
    """A plan of acceptance."""

    path: Path
    name: str
    #: The bill: each of these nodes is covered, or an exception.
    nodes: tuple[str, ...]
    stages: tuple[Stage, ...]
    criteria: Criteria
    #: The line of the value of each key of the file's first level, and of each criterion.
    lines: Mapping[str, int] = field(default_factory=dict)
    #: The file's text.
    text: str = ""

    @property
    def sha256(self) -> str:
        """The fingerprint of the file's text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


#: The form of a node list: no name has two brackets.
_NODES = f.pattern(
    r"[A-Za-z0-9_.-]+(\[[0-9,-]+\][A-Za-z0-9_.-]*)?(,[A-Za-z0-9_.-]+(\[[0-9,-]+\][A-Za-z0-9_.-]*)?)*",
    f"a node list of less than {MOST_NODES:,} nodes, such as pool0-[0001-0256]",
    "Nodes that are to be accepted, a node list or several.",
    longest=MOST_NODES,
)
_LINE = r"\S(?:.*\S)?"
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: The fields of a stage whose keys have other names.
_FIELD_OF = {"for": "for_s", "on_failure": "goes_on"}


def _read_nodes(raw: str, bill: dict[str, None]) -> str:
    """A node list, whose nodes are added to the bill."""
    names = expand(_NODES.read(raw))
    backwards = any(
        int(first) > int(last) for first, last in re.findall(r"[\[,]([0-9]{1,200})-([0-9]{1,200})(?=[\],])", raw)
    )
    if backwards or len(bill) + len(names) >= MOST_NODES or any("[" in name for name in names):
        raise ValueError(f"got '{raw}', wanted {_NODES.wanted}")
    twice = {name: 1 for name, times in Counter(names).items() if times > 1 or name in bill}
    bill.update(dict.fromkeys(names))
    if twice:
        raise ValueError(f"{named_nodes(twice)} is there twice")
    return raw


def _read_seconds(raw: str) -> float:
    match = re.fullmatch(r"([0-9]{1,4})([smhd])", raw)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"got '{raw}', wanted a duration such as 24h or 90m")
    return int(match[1]) * _SECONDS[match[2]]


def _fields(check: Callable[[str], str], bill: dict[str, None]) -> f.Fields:
    """The keys of a plan; ``check`` refuses wrong expressions by a ValueError, and ``bill`` collects the nodes."""
    rows = f.pattern("[^=]+", "an expression of -k; facts, as in gpus=8, are for 'marks'", "Its rows.", longest=1000)
    marks = f.pattern(".+", "an expression of -m", "Its rows.", longest=1000)
    goes_on = f.choice(("stop", "go on"), "What follows a criterion that cannot be met any more.")
    nodes = replace(_NODES, read=lambda raw: _read_nodes(raw, bill))
    stage: f.Fields = {
        "name": f.pattern(_LINE, "a text of one line", "Name of the stage.", required=True),
        "rows": replace(rows, read=lambda raw: check(rows.read(raw))),
        "marks": replace(marks, read=lambda raw: check(marks.read(raw))),
        "tile": f.pattern(TILE_KIND, "node, switch, block, or a number of nodes such as 4", "As --gsw-tile."),
        "find": f.flag("A search among the tiles names what is slow."),
        "for": f.Field(_read_seconds, "a duration such as 24h or 90m", "Duration of each row.", {}),
        "on_failure": replace(goes_on, read=lambda raw: goes_on.read(raw) == "go on"),
    }
    criteria: f.Fields = {
        "covered": f.percentage("Least share of the nodes that pass."),
        "within": f.tolerance("Accepted loss of throughput."),
        "goodput": f.percentage("Least share of productive time."),
    }
    return {
        "acceptance": f.pattern(_LINE, "a text of one line", "Name of the acceptance.", required=True, longest=200),
        "nodes": f.Sequence_(nodes, nodes.help, required=True, short=nodes),
        "stages": f.Sequence_(stage, "The stages in order.", required=True),
        "criteria": f.Nested(criteria, "What the cluster has to reach.", required=True),
    }


def read_plan(path: Path, check: Callable[[str], str] = str) -> Plan:
    """The plan in a file.

    Args:
        path: The file.
        check: Returns an expression of ``-k`` or ``-m``; raises a ValueError with its fault.

    Raises:
        FileError: With every fault of the file.
    """
    text, bill = read_text(path), dict[str, None]()
    values, faults = mapping_with_faults(path, text, _fields(check, bill))
    stages, criteria = (values.get(key, Value(None, NOWHERE)) for key in ("stages", "criteria"))
    faults += _stage_faults(stages.value or (), 0 if faults else len(bill))
    faults += _criteria_faults(criteria, [stage.value for stage in stages.value or () if stage.value is not None])
    if faults:
        raise FileError(path, tuple(faults))
    return Plan(
        path,
        values["acceptance"].value,
        tuple(bill),
        tuple(
            Stage(line=stage.line, **{_FIELD_OF.get(key, key): value.value for key, value in stage.value.items()})
            for stage in stages.value
        ),
        Criteria(**{name: share.value for name, share in criteria.value.items()}),
        {name: value.line for name, value in (*values.items(), *criteria.value.items())},
        text,
    )


def _stage_faults(stages: Iterable[Value], nodes: int) -> Iterator[Fault]:
    """Names that are there twice, tiles that are larger than the bill, and keys that exclude each other."""
    lines: dict[str, int] = {}
    for number, stage in enumerate(stages):
        keys: Values = stage.value or {}
        name, tile = ((keys[key].value if key in keys else None) or "" for key in ("name", "tile"))
        is_larger = tile.isdigit() and 0 < nodes < int(tile)
        problems = {
            "name": f"'{name}' is there twice, first in line {lines[name]}" if name in lines else "",
            "tile": f"wants {tile} nodes, and the bill has {nodes}" if is_larger else "",
            "find": "" if "tile" in keys else "is only for a stage with 'tile'",
            "for": "is only for a stage without 'tile'" if "tile" in keys else "",
        }
        for key, problem in problems.items():
            if problem and key in keys:
                yield Fault(keys[key].line, keys[key].column, f"stages[{number}].{key}", problem)
        lines |= {name: lines.get(name, stage.line)} if name else {}


def _criteria_faults(criteria: Value, stages: Sequence[Values]) -> Iterator[Fault]:
    """Criteria that no stage measures."""
    measured = {
        "covered": ("with 'tile'", any("tile" in keys for keys in stages)),
        "within": ("without 'tile' and 'for'", any("tile" not in keys and "for" not in keys for keys in stages)),
        "goodput": ("with 'for'", any("for" in keys for keys in stages)),
    }
    if criteria.value == {}:
        yield Fault(criteria.line, criteria.column, "criteria", f"wanted {enumerated(measured, 'or')}")
    for name, share in (criteria.value or {}).items() if stages else ():
        stage, is_measured = measured[name]
        if not is_measured:
            yield Fault(share.line, share.column, f"criteria.{name}", f"no stage {stage} measures it")
