"""The text of ``--gsw-plan``: sums, then each row's job or the error that keeps it from being submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_gsw.common.text import rounded
from pytest_gsw.errors import RunError
from pytest_gsw.tables.model import TILE, rows_text, without_tile


def plan_text(
    rows: Sequence[Mapping[str, Any]],
    skipped: Sequence[tuple[str, str]],
    errors: Mapping[str, RunError] | None = None,
    has_gpus: int | None = None,
    cost: str = "run times not known",
    most: int | None = None,
) -> list[str]:
    """The lines of ``--gsw-plan``: the sums of the rows that can be submitted, then a block a row, first of errors.

    ``has_gpus`` is the number of the cluster's GPUs, if known, ``cost`` the estimate of the rows that can be submitted,
    and ``most`` the most blocks.
    """
    left = dict(errors or {})
    ready = [row for row in rows if row["node_id"] not in left]
    tiles: dict[str, list[str]] = {}
    for row in ready:
        name, _, tile = row["node_id"].partition(TILE)
        tiles.setdefault(name, []).extend([tile] if tile else [])
    blocks = {node_id: _error_lines(error) for node_id, error in left.items()}
    shown: set[str] = set()
    for row in rows:
        name = without_tile(row["node_id"])
        if name in shown and row["node_id"] not in left and tiles.get(name):
            continue  # on another tile, all else is the same
        shown.add(name)
        of_row = tiles.get(name, [])
        took = "run time not known" if row["minutes"] is None else f"about {rounded(row['minutes'], 'minute')}"
        took += f", {row['jobs']} times" if row["jobs"] > 1 else ""
        blocks[row["node_id"]] = [
            f"  {rounded(row['gpus'], 'GPU')} on {rounded(row['nodes'], 'node')}, {took}",
            *([f"  tiles        {len(of_row)}: {' '.join(of_row)}"] if len(of_row) > 1 else []),
            *([f"  source       {row['source']}"] if row.get("source") else []),
            f"  directory    {row['directory']}",
            f"  command      {row['command']}",
            *(f"  environment  {name}={value}" for name, value in row["environment"].items()),
            f"  log          {row['log']}",
            *blocks.get(row["node_id"], ()),
        ]
    blocks |= {node_id: [f"  skipped: {reason}"] for node_id, reason in skipped}
    lines = [_plan_sums(ready, len(left), has_gpus, cost)]
    for node_id in [*blocks][:most]:
        lines += ["", node_id, *blocks[node_id]]
    if most is not None and len(blocks) > most:
        lines += ["", f"and {rounded(len(blocks) - most, 'more row')}; -v shows each"]
    return lines


def _plan_sums(ready: Sequence[Mapping[str, Any]], failing: int, has_gpus: int | None, cost: str) -> str:
    cannot = f"{rounded(failing, 'row')} cannot be submitted" if failing else ""
    if not ready:
        return f"nothing would be submitted{f': {cannot}' if cannot else ''}"
    unknown = sum(row["minutes"] is None for row in ready)
    if 0 < unknown < len(ready):
        cost += f" without the {rounded(unknown, 'row')} whose run time is not known"
    wanted = sum(row["gpus"] for row in ready)
    gpus = rounded(wanted, "GPU")
    of = f" (the cluster has {has_gpus:,})" if has_gpus is not None and wanted > has_gpus else ""
    nodes = rounded(sum(row["nodes"] for row in ready), "node")
    total = f"{gpus} on {nodes} if all run at once{of}, {cost}"
    return f"{rows_text([row['node_id'] for row in ready])}, {total}{f'; {cannot}' if cannot else ''}"


def _error_lines(error: RunError | None) -> list[str]:
    """The error that keeps a row from being submitted, in the columns of its block."""
    if error is None:
        return []
    facts = [("error", error.fact), *error.evidence, ("next", error.advice)]
    return [
        f"  {label if first else '':<12} {line}"
        for label, text in facts
        if text
        for first, line in [(number == 0, line) for number, line in enumerate(text.split("\n"))]
    ]
