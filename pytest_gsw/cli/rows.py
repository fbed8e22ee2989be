"""``pytest-gsw rows``: the documented rows, as a list or as JSON."""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pytest_gsw.cli.answer import Answer, json_answer
from pytest_gsw.cli.diff import compare_tables
from pytest_gsw.cli.site import cluster_of, tables_on
from pytest_gsw.common.files import from_here
from pytest_gsw.common.words import at_line, counted
from pytest_gsw.errors import FileError
from pytest_gsw.performance.figures import documented_peak_flops, figures, mfu_note
from pytest_gsw.results.plain_table import plain_table
from pytest_gsw.tables.blanks import facts_of
from pytest_gsw.tables.bundled import FACTS_FILE
from pytest_gsw.tables.definition import counts_with_its_image
from pytest_gsw.tables.images import image_name
from pytest_gsw.tables.load import read_tables
from pytest_gsw.tables.metrics import STEP_TIME
from pytest_gsw.tables.model import Accepted, Baseline, BlankRow

#: What a row runs, by the names of its fields.
_RUN = (
    *("id", "workload", "framework", "dtype", "accelerator", "gpus", "nodes", "sequence_length"),
    *("global_batch_size", "micro_batch_size", "gradient_accumulation_steps", "layers"),
)


def run(asked: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    if asked.diff is not None:
        return compare_tables(*asked.diff, as_json=asked.json)
    asked.ini.fill(asked, "cluster", "clusters")
    rows, blanks = read_tables(asked.ini.tables(asked.paths) or tables_on(asked.cluster, asked.clusters))
    _check_cluster(rows, asked)
    status = 1 if blanks else 0
    if asked.json:
        return json_answer([*map(row_facts, rows), *map(_blank_facts, blanks)], status)
    table = [
        (
            row.id,
            row.nodes,
            row.global_batch_size or "",
            "OOM" if row.expected_failure else f"{row.judged_s:g}",
            f"{row.documented.tokens_per_s:,.0f}" if row.documented.tokens_per_s else "",
            _mfu(row),
            f"{row.documented.tflops_per_gpu:g}" if row.documented.tflops_per_gpu else "",
            f"{row.tolerance * 100:g} %",
            at_line(row.source.document, row.source.line),
            *([] if asked.cluster is None else [_accepted(row, asked.cluster)]),
        )
        for row in rows
    ]
    columns = ["row", *(">nodes", ">GBS", ">seconds", ">tokens/s", ">MFU", ">TFLOP/s/GPU", ">tolerance"), "document"]
    columns += [] if asked.cluster is None else [f"accepted on {asked.cluster}"]
    listing = plain_table(table, *columns, style="simple")
    listed = [listing, counted(len(rows), "row")] if rows or not blanks else []
    return Answer("\n".join([*listed, *([""] if listed and blanks else []), *_blank_lines(blanks)]), status)


def _mfu(row: Baseline) -> str:
    """The documented MFU, the one that follows from the documented step time, or in two words why there is none."""
    mfu = row.documented.mfu or figures(row, row.documented.step_time_s, documented_peak_flops(row)).mfu
    derived = "" if row.documented.mfu else "derived "
    return f"{derived}{mfu:.2%}" if mfu else mfu_note(row).partition(":")[0]


def _check_cluster(rows: Sequence[Baseline], asked: argparse.Namespace) -> None:
    """Make sure that somebody knows the cluster: a file of clusters, or a table that has what it accepted."""
    accepting = {name for row in rows for name in row.accepted}
    if asked.cluster is None or asked.cluster in accepting:
        return
    with contextlib.suppress(FileError):  # by another key, which nothing here rests on
        cluster_of(asked.cluster, asked.clusters, accepting)


def _blank_lines(rows: Sequence[BlankRow]) -> list[str]:
    """The rows that cannot run, and what fills in their blanks."""
    if not rows:
        return []
    table = [
        (row.id, ", ".join(blank.key for blank in row.blanks), f"{from_here(row.location.path)}:{row.location.line}")
        for row in rows
    ]
    lines = [plain_table(table, "row", "blank", "table", style="simple")]
    lines.append(f"{counted(len(rows), 'row')} cannot run, until what is blank is typed into the table")
    facts = facts_of(rows)
    if facts:
        lines += [f"next: or write into {FACTS_FILE} beside the tables, and import the documents again:", "", *facts]
    return lines


def _blank_facts(row: BlankRow) -> dict[str, Any]:
    """A row that cannot run, as far as it is known: ``blanks`` are its keys without a value."""
    return {
        **{name: row.known.get(name) for name in _RUN},
        "id": row.id,
        "blanks": [blank.key for blank in row.blanks],
        "baseline": {"file": str(row.location.path), "line": row.location.line},
    }


def _accepted(row: Baseline, cluster: str) -> str:
    """What a cluster has accepted for a row: seconds and date, and whether the row is another one by now."""
    accepted = row.accepted.get(cluster)
    if accepted is None:
        return ""
    figure = f"{accepted.judged_s:g} s, {accepted.date}"
    if not counts_with_its_image(row, accepted):
        return f"{figure}, of another definition: not used"
    if not _is_of_its_image(row, accepted):
        named = image_name(row.recipe.image or "")
        return f"{figure}, of the image {accepted.image}: not used where the table's {named} is run"
    return figure


def _is_of_its_image(row: Baseline, accepted: Accepted) -> bool:
    """Whether a figure is of the image that the table names, if it names one."""
    named = row.recipe.image
    return named is None or image_name(accepted.image or named) == image_name(named)


def row_facts(row: Baseline) -> dict[str, Any]:
    """One row as ``pytest-gsw rows --json`` lists it; ``None`` where there is no such figure."""
    return {
        **{name: getattr(row, name) for name in _RUN},
        "parallelism": asdict(row.parallelism),
        **{name: getattr(row, name) for name in ("metric", "statistic", "tolerance", "max_gain")},
        "metrics": {key: asdict(stated) for key, stated in row.metrics.items()},
        STEP_TIME.key: row.documented.step_time_s,
        "documented": _derived(row.documented),
        "computed": _derived(figures(row, row.documented.step_time_s, documented_peak_flops(row))),
        "mfu_note": mfu_note(row),
        **{name: getattr(row, name) for name in ("model_flops_per_sample", "proxy", "canary", "expected_failure")},
        "notes": row.notes,
        "attributes": dict(row.attributes),
        "accepted": {
            name: {
                **asdict(accepted),
                "counts": counts_with_its_image(row, accepted) and _is_of_its_image(row, accepted),
            }
            for name, accepted in row.accepted.items()
        },
        "source": asdict(row.source),
        "baseline": {"file": str(row.location.path), "line": row.location.line},
    }


def _derived(of: Any) -> dict[str, float | None]:
    found = asdict(of)
    del found[STEP_TIME.key]
    return {name: value if value is None or math.isfinite(value) else None for name, value in found.items()}
