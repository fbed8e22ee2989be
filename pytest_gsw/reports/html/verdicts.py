"""All verdicts of a night: by dtype and number of GPUs, and a line for each row where rows differ otherwise."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_gsw.common.words import counted, rounded
from pytest_gsw.reports.html.layout import Content, element, sign, table
from pytest_gsw.reports.html.texts import percent
from pytest_gsw.reports.run_report import Row, Unrecorded, device
from pytest_gsw.results import attention

#: Numbers of GPUs beside each other: a screen of 1,024 pixels has room for as many.
_COLUMNS = 10
#: Workloads that are named above a table.
_NAMED = 4
#: What follows from other settings of a row.
_FOLLOWS = frozenset({"dp", "fsdp"})


#: A row of a night, with or without a record.
_Any = Row | Unrecorded


@dataclass
class _Table:
    """Workloads that share their numbers of GPUs."""

    accelerator: str
    gpus: set[int] = field(default_factory=set)
    lines: dict[tuple[str, str], dict[int, _Any]] = field(default_factory=dict)


def verdict_tables(rows: Iterable[_Any]) -> list[ET.Element]:
    """The tables of rows that come the worst first, and so do tables and lines.

    Rows without a record are in them where it is known what they are.
    """
    groups: dict[tuple[str, str, str], list[_Any]] = {}
    for row in rows:
        if isinstance(row, Row):
            facts = row.record.row
            groups.setdefault((facts.workload, facts.dtype, facts.accelerator), []).append(row)
        elif row.facts:
            noted = row.facts
            groups.setdefault((noted["workload"], noted["dtype"], noted["accelerator"]), []).append(row)
    tables: list[_Table | tuple[str, Sequence[_Any]]] = []
    for (workload, dtype, accelerator), of_group in groups.items():
        by_gpus = {_gpus(row): row for row in of_group}
        if len(by_gpus) < len(of_group):
            tables.append((f"{workload} {dtype} on {accelerator}", of_group))
            continue
        found = _table_for(workload, accelerator, by_gpus, tables)
        found.gpus.update(by_gpus)
        found.lines[workload, dtype] = by_gpus
    return [
        _by_gpus(f"verdicts-{number}", one) if isinstance(one, _Table) else _by_case(f"verdicts-{number}", *one)
        for number, one in enumerate(tables, 1)
    ]


def _table_for(
    workload: str, accelerator: str, gpus: Iterable[int], tables: list[_Table | tuple[str, Sequence[_Any]]]
) -> _Table:
    """The table that has the workload already, else the first one with room for its numbers of GPUs, or a new one."""
    known = [one for one in tables if isinstance(one, _Table) and one.accelerator == accelerator]
    of_workload = [one for one in known if any(name == workload for name, _ in one.lines)]
    for one in of_workload or known:
        if len(one.gpus.union(gpus)) <= _COLUMNS:
            return one
    made = _Table(accelerator)
    tables.append(made)
    return made


def _by_gpus(name: str, one: _Table) -> ET.Element:
    gpus = sorted(one.gpus)
    workloads = list(dict.fromkeys(workload for workload, _ in one.lines))
    what = ", ".join(workloads) if len(workloads) <= _NAMED else counted(len(workloads), "workload")
    noun = device(one.accelerator)
    span = f"{f'{gpus[0]:,} to ' if len(gpus) > 1 else ''}{rounded(gpus[-1], noun)}"
    heads: list[Content] = ["workload", "dtype", *(_head(number, noun) for number in gpus)]
    lines: list[list[Content]] = [
        [workload, dtype, *(_cell(cells.get(number)) for number in gpus)]
        for (workload, dtype), cells in one.lines.items()
    ]
    return table(name, f"{what} on {one.accelerator}, change of throughput on {span}", heads, lines)


def _head(number: int, noun: str) -> ET.Element:
    """A number of GPUs, whose noun is for those alone who do not see what the caption says."""
    shown, _, unit = rounded(number, noun).partition(" ")
    return element("span", shown, element("span", f" {unit}", class_="vh"))


def _by_case(name: str, group: str, rows: Sequence[_Any]) -> ET.Element:
    """A line for each row of a workload that has several on as many GPUs, with what they differ in."""
    settings = [_settings(row) for row in rows]
    varies = {name for one in settings for name in one if len({other.get(name) for other in settings}) > 1}
    lines: list[list[Content]] = [
        [
            element("span", _case(row, one, varies), class_="case"),
            _cell(row),
            f"{_gpus(row):,}",
            _id(row).partition("[")[2].rstrip("]"),
        ]
        for row, one in zip(rows, settings, strict=True)
    ]
    return table(
        name,
        f"{group}: {counted(len(rows), 'row')}, change of throughput",
        ["differs in", "verdict", f"{device(_accelerator(rows[0]))}s", "name"],
        lines,
    )


def _accelerator(row: _Any) -> str:
    return row.record.row.accelerator if isinstance(row, Row) else row.facts["accelerator"]


def _gpus(row: _Any) -> int:
    return row.record.row.gpus if isinstance(row, Row) else int(row.facts["gpus"])


def _id(row: _Any) -> str:
    return row.record.row.id if isinstance(row, Row) else row.id


def _settings(row: _Any) -> Mapping[str, str]:
    if isinstance(row, Unrecorded):
        return {"": row.facts["framework"]}
    facts = row.record.row
    batch = {} if facts.batch is None else {"batch": f"{facts.batch:,}"}
    others = {name: value for name, value in facts.settings.items() if name not in _FOLLOWS}
    noted = {name: others.pop(name) for name in ("noted",) if name in others}
    return {"": facts.framework, **batch, **others, **noted}


def _case(row: _Any, settings: Mapping[str, str], varies: Collection[str]) -> str:
    told = [f"{name} {value}".strip() for name, value in settings.items() if name in varies]
    return ", ".join(told) or _id(row)


def _cell(row: _Any | None) -> ET.Element:
    """A row's sign, word and change of throughput; that it passed is said to those alone who do not see the sign."""
    if row is None:
        return element("td")
    if isinstance(row, Unrecorded):
        kind = attention.ERROR.kind
        mark = element("a", sign(kind), " ", element("span", attention.ERROR.word), href="#missing", class_=kind)
        return element("td", mark, class_=f"verdict {kind}")
    word = element("span", row.needs.word, class_="vh" if row.needs is attention.PASSED else None)
    change = "" if row.change is None else f" {percent(row.change)}"
    mark = element("a", sign(row.kind), " ", word, change, href=f"rows/{row.name}.html", class_=row.kind)
    return element("td", mark, class_=f"verdict {row.kind}")
