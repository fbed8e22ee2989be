"""``pytest-gsw rows``: list the documented rows, or print them as JSON."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gsw.cli.output import Answer, json_answer
from pytest_gsw.clusters import Cluster, cluster_files, find_cluster, release_of, why_it_does_not_fit
from pytest_gsw.common import typed_json
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.text import at_line, plain_table, plural
from pytest_gsw.errors import ConfigurationError, FileError, NotJudgedError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.stats.figures import documented_peak_flops, figures, mfu_note
from pytest_gsw.tables import load, metrics
from pytest_gsw.tables.bundled import FACTS_FILE
from pytest_gsw.tables.model import (
    Accepted,
    Baseline,
    BlankRow,
    Figures,
    Source,
    counts_with_its_image,
    has_ended,
    image_name,
)
from pytest_gsw.tables.value_types import nearest

# -- Tables, clusters and log formats of a site and its plugins ------------------------------------


def tables_on(cluster: str | None, given: Path | None = None) -> tuple[Path, ...]:
    """The tables of a cluster of this name, as a session there takes them: of its release, or of its accelerator.

    There are none without one of the two. ``given`` is a file of clusters that comes before the usual ones.
    """
    if cluster is None:
        return ()
    files = cluster_files(given, (Path.cwd(),), os.environ)
    try:
        found = find_cluster(cluster, files, os.environ)
    except ConfigurationError:  # by another key, which nothing here rests on
        found = None
    staged = release_of(cluster, files, os.environ)
    from pytest_gsw.session.release_choice import RequestedRelease, tables_for  # pytest takes a while to import

    return tables_for(found, staged and RequestedRelease(*staged))


def cluster_of(name: str | None, given: Path | None, others: Iterable[str] = ()) -> Cluster | None:
    """The cluster of this name, from the file in which a session that is started here would find it."""
    if given is not None and not given.is_file():
        raise ConfigurationError(f"--clusters: there is no file {given}")
    if name is None:
        return None
    return find_cluster(name, cluster_files(given, (Path.cwd(),), os.environ), os.environ, "--clusters", others)


def format_called(name: str, plugins: Sequence[str]) -> LogFormat:
    """The log format of this name; a ConfigurationError if there is none."""
    if name in FORMATS:
        return FORMATS[name]
    # pytest and a site's plugins take a while to import, and are seldom needed.
    from pytest_gsw.session.hook_results import log_format, site_config

    # The hook takes a row; here plugins look at its format alone.
    row = load.load_tables()[0]
    row = replace(row, workload=replace(row.workload, framework=name, log_format=name))
    try:
        found = log_format(row, site_config(plugins))
    except NotJudgedError:  # which standard error has
        found = None
    if found is None:
        raise ConfigurationError(
            f"unknown log format '{name}'{nearest(name, FORMATS)}\n"
            f"known: {', '.join(sorted(FORMATS))}, and what the plugins of {Path.cwd()} add\n"
            "next: name the plugin that brings it with -p MODULE"
        )
    return found


#: The workload of a row, by the names of its fields.
_RUN = (
    *("id", "workload", "framework", "dtype", "accelerator", "gpus", "nodes", "sequence_length"),
    *("global_batch_size", "micro_batch_size", "gradient_accumulation_steps", "layers"),
)


def run(args: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    if args.run is not None:
        from pytest_gsw.cli.report import run_rows  # records take longer to import than tables

        return run_rows(args)
    args.cluster = args.cluster or args.ini.cluster
    args.clusters = args.clusters or args.ini.clusters
    rows, blanks = load.read_tables(args.ini.tables(args.paths) or tables_on(args.cluster, args.clusters))
    cluster, left_out = _known_cluster(rows, args), 0
    if cluster is not None:
        fitting = tuple(row for row in rows if not why_it_does_not_fit(row.accelerator, row.gpus, cluster))
        rows, left_out = fitting, len(rows) - len(fitting)
    status = 1 if blanks else 0
    if args.json:
        return json_answer([*map(row_facts, rows), *map(_blank_facts, blanks)], status)
    has_figures = any(row.documented.value is not None for row in rows)
    table = [
        (
            row.id,
            row.nodes,
            row.batch.global_batch_size or "",
            "OOM" if row.criterion.expected_failure else "" if row.documented.value is not None else f"{row.judged:g}",
            f"{row.documented.tokens_per_s:,.0f}" if row.documented.tokens_per_s else "",
            _mfu(row),
            f"{row.documented.tflops_per_gpu:g}" if row.documented.tflops_per_gpu else "",
            f"{row.criterion.tolerance * 100:g} %",
            at_line(row.source.document, row.source.line),
            *([_figure_text(row)] if has_figures else []),
            *([] if args.cluster is None else [_accepted_text(row, args.cluster)]),
        )
        for row in rows
    ]
    columns = ["row", *(">nodes", ">GBS", ">seconds", ">tokens/s", ">MFU", ">TFLOP/s/GPU", ">tolerance"), "document"]
    columns += [">figure"] if has_figures else []
    columns += [] if args.cluster is None else [f"accepted on {args.cluster}"]
    listing = plain_table(table, *columns, style="simple")
    listed = [listing, plural(len(rows), "row")] if rows or not blanks else []
    if cluster is not None and left_out:
        listed.append(f"{plural(left_out, 'row')} left out, which {cluster.name} cannot run")
    if cluster is not None and cluster.accelerator is not None and not rows:
        from pytest_gsw.session.release_choice import bundled_rows  # as in tables_on()

        listed = ["{}\nnext: {}".format(*bundled_rows(cluster, None))]
    return Answer("\n".join([*listed, *([""] if listed and blanks else []), *_blank_lines(blanks)]), status)


def _figure_text(row: Baseline) -> str:
    """The documented figure of a benchmark, its unit and its point."""
    value, metric = row.documented.value, row.judged_by
    return "" if value is None else f"{metric.label} {metric.number(value)} {metric.per_unit}"


def _mfu(row: Baseline) -> str:
    """The documented MFU, the one that follows from the documented step time, or in two words why there is none."""
    mfu = row.documented.mfu or figures(row, row.documented.step_time_s, documented_peak_flops(row)).mfu
    derived = "" if row.documented.mfu else "derived "
    return f"{derived}{mfu:.2%}" if mfu else mfu_note(row).partition(":")[0]


def _known_cluster(rows: Sequence[Baseline], args: argparse.Namespace) -> Cluster | None:
    """The cluster that is named; ``None`` without one, or if its file is wrong by a key on which nothing here rests.

    Raises:
        ConfigurationError: No file of clusters and no accepted figure names it.
    """
    accepting = {name for row in rows for name in row.accepted}
    try:
        return cluster_of(args.cluster, args.clusters, accepting)
    except ConfigurationError as error:
        if args.cluster in accepting or isinstance(error, FileError):
            return None
        raise


def _blank_lines(rows: Sequence[BlankRow]) -> list[str]:
    """Lines on the rows that cannot run, and the facts that fill in their blanks."""
    if not rows:
        return []
    table = [
        (
            row.id,
            ", ".join(blank.key for blank in row.blanks),
            f"{relative_path(row.location.path)}:{row.location.line}",
        )
        for row in rows
    ]
    lines = [plain_table(table, "row", "blank", "table", style="simple")]
    lines.append(f"{plural(len(rows), 'row')} cannot run, until what is blank is typed into the table")
    facts = load.facts_of(rows)
    if facts:
        lines += [f"next: or write into {FACTS_FILE} beside the tables, and import the documents again:", "", *facts]
    return lines


def _blank_facts(row: BlankRow) -> dict[str, Any]:
    """The known facts of a row that cannot run: ``blanks`` are its keys without a value."""
    return {
        **{name: row.known.get(name) for name in _RUN},
        "id": row.id,
        "blanks": [blank.key for blank in row.blanks],
        "baseline": {"file": str(row.location.path), "line": row.location.line},
    }


def _accepted_text(row: Baseline, cluster: str) -> str:
    """A cluster's accepted figure for a row: seconds and date, and why it is not used."""
    accepted = row.accepted.get(cluster)
    if accepted is None:
        return ""
    metric = row.judged_by
    figure = f"{accepted.judged:g} {metric.unit}, {accepted.date}"
    if has_ended(row, accepted) and accepted.documented is not None:
        return f"{figure}, accepted against {accepted.documented:g} {metric.unit}: not used"
    if not counts_with_its_image(row, accepted):
        return f"{figure}, of another definition: not used"
    if not _is_of_its_image(row, accepted):
        named = image_name(row.recipe.image or "")
        return f"{figure}, of the image {accepted.image}: not used where the table's {named} is run"
    return figure


def _is_of_its_image(row: Baseline, accepted: Accepted) -> bool:
    """True if a figure is of the image that the table names, or the table names none."""
    named = row.recipe.image
    return named is None or image_name(accepted.image or named) == image_name(named)


def row_facts(row: Baseline) -> dict[str, Any]:
    """One row as ``pytest-gsw rows --json`` lists it; ``None`` for a missing figure."""
    workload, criterion = row.workload, row.criterion
    facts = {**row.conditions, "id": row.id, "workload": workload.name, "nodes": row.nodes}
    of_benchmark = {
        "at": criterion.at,
        "unit": criterion.unit,
        "better": criterion.better,
        "read": criterion.read and criterion.read.stated(),
    }
    return {
        **{name: facts[name] for name in _RUN},
        "parallelism": row.parallelism.degrees,
        "metric": criterion.metric,
        "statistic": criterion.statistic,
        "tolerance": criterion.tolerance,
        "max_gain": criterion.max_gain,
        **{name: value for name, value in of_benchmark.items() if value is not None},
        "metrics": {
            key: {"value": stated.value, "tolerance": stated.tolerance}
            | ({} if stated.direction is None else {"direction": stated.direction.value})
            for key, stated in row.metrics.items()
        },
        metrics.STEP_TIME.key: row.documented.step_time_s,
        "documented": _derived_figures(row.documented),
        "computed": _derived_figures(figures(row, row.documented.step_time_s, documented_peak_flops(row))),
        "mfu_note": mfu_note(row),
        "model_flops_per_sample": workload.model_flops_per_sample,
        "proxy": workload.proxy,
        "canary": row.canary,
        "expected_failure": criterion.expected_failure,
        "notes": row.notes,
        "attributes": dict(row.attributes),
        "accepted": {
            name: {
                **typed_json.facts(Accepted, accepted),
                "counts": counts_with_its_image(row, accepted) and _is_of_its_image(row, accepted),
            }
            for name, accepted in row.accepted.items()
        },
        "source": typed_json.facts(Source, row.source),
        "baseline": {"file": str(row.location.path), "line": row.location.line},
    }


def _derived_figures(of: Figures) -> dict[str, float | None]:
    found = typed_json.facts(Figures, of)
    del found[metrics.STEP_TIME.key]
    if found[metrics.VALUE] is None:
        del found[metrics.VALUE]
    return {name: value if value is None or math.isfinite(value) else None for name, value in found.items()}
