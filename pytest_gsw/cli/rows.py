"""``pytest-gsw rows``: list the documented rows, or print them as JSON; with ``--diff A B``, compare tables."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pytest_gsw.cli.output import Answer, json_answer
from pytest_gsw.clusters import Cluster, cluster_files, find_cluster, release_of
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.redact import MASK, is_secret, redact
from pytest_gsw.common.text import at_line, listed, percent, plain_table, plural
from pytest_gsw.errors import ConfigurationError, FileError, NotJudgedError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.stats.figures import documented_peak_flops, figures, mfu_note
from pytest_gsw.tables import metrics
from pytest_gsw.tables.bundled import FACTS_FILE
from pytest_gsw.tables.load import blank_error, facts_of, load_tables, read_tables
from pytest_gsw.tables.metrics import PERCENTAGES, STEP_TIME, Series
from pytest_gsw.tables.model import (
    Accepted,
    Baseline,
    BlankRow,
    Documented,
    counts_with_its_image,
    definition_facts,
    image_name,
)
from pytest_gsw.tables.value_types import nearest

# -- Tables, clusters and log formats of a site and its plugins ------------------------------------


def tables_on(cluster: str | None, given: Path | None = None) -> tuple[Path, ...]:
    """The tables of the release that is staged on a cluster of this name, as a session there takes them; else none.

    ``given`` is a file of clusters that comes before the usual ones.
    """
    if cluster is None:
        return ()
    files = cluster_files(given, (Path.cwd(),), os.environ)
    staged = release_of(cluster, files, os.environ)
    if staged is None:
        return ()
    from pytest_gsw.session.settings import (  # it imports pytest, and few clusters say a release
        RequestedRelease,
        resolved_release,
        tables_of,
    )

    try:
        found = find_cluster(cluster, files, os.environ)
    except ConfigurationError:  # by another key, which nothing here rests on
        found = None
    return tables_of(resolved_release(RequestedRelease(*staged), found))


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
    row = replace(load_tables()[0], framework=name, log_format=name)
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
    if args.diff is not None:
        return _compare_tables(*args.diff, as_json=args.json)
    args.ini.fill(args, "cluster", "clusters")
    rows, blanks = read_tables(args.ini.tables(args.paths) or tables_on(args.cluster, args.clusters))
    _check_cluster(rows, args)
    status = 1 if blanks else 0
    if args.json:
        return json_answer([*map(row_facts, rows), *map(_blank_facts, blanks)], status)
    has_figures = any(row.judged_by.is_figure for row in rows)
    table = [
        (
            row.id,
            row.nodes,
            row.global_batch_size or "",
            "OOM" if row.expected_failure else "" if row.judged_by.is_figure else f"{row.judged_s:g}",
            f"{row.documented.tokens_per_s:,.0f}" if row.documented.tokens_per_s else "",
            _mfu(row),
            f"{row.documented.tflops_per_gpu:g}" if row.documented.tflops_per_gpu else "",
            f"{row.tolerance * 100:g} %",
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


def _check_cluster(rows: Sequence[Baseline], args: argparse.Namespace) -> None:
    """Raise a ConfigurationError for a cluster that no file of clusters and no accepted figure names."""
    accepting = {name for row in rows for name in row.accepted}
    if args.cluster is None or args.cluster in accepting:
        return
    with contextlib.suppress(FileError):  # by another key, which nothing here rests on
        cluster_of(args.cluster, args.clusters, accepting)


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
    facts = facts_of(rows)
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
    figure = f"{metric.cost(accepted.judged_s):g} {metric.unit}, {accepted.date}"
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
    return {
        **{name: getattr(row, name) for name in _RUN},
        "parallelism": asdict(row.parallelism),
        **{name: getattr(row, name) for name in ("metric", "statistic", "tolerance", "max_gain")},
        **{name: value for name in ("at", "read", "unit", "better") if (value := getattr(row, name)) is not None},
        "metrics": {key: _documented_facts(stated) for key, stated in row.metrics.items()},
        STEP_TIME.key: row.documented.step_time_s,
        "documented": _derived_figures(row.documented),
        "computed": _derived_figures(figures(row, row.documented.step_time_s, documented_peak_flops(row))),
        "mfu_note": mfu_note(row),
        **{name: getattr(row, name) for name in ("model_flops_per_sample", "proxy", "canary", "expected_failure")},
        "notes": row.notes,
        "attributes": dict(row.attributes),
        "accepted": {
            name: {
                **asdict(accepted),
                **({metrics.VALUE: row.judged_by.cost(accepted.judged_s)} if row.judged_by.is_figure else {}),
                "counts": counts_with_its_image(row, accepted) and _is_of_its_image(row, accepted),
            }
            for name, accepted in row.accepted.items()
        },
        "source": asdict(row.source),
        "baseline": {"file": str(row.location.path), "line": row.location.line},
    }


def _documented_facts(stated: Documented) -> dict[str, Any]:
    direction = {} if stated.direction is None else {"direction": stated.direction.value}
    return {"value": stated.value, "tolerance": stated.tolerance, **direction}


def _derived_figures(of: Any) -> dict[str, float | None]:
    found = asdict(of)
    del found[STEP_TIME.key]
    if found[metrics.VALUE] is None:
        del found[metrics.VALUE]
    return {name: value if value is None or math.isfinite(value) else None for name, value in found.items()}


# -- differences between two sets of tables --------------------------------------------------------

#: Fractions that people read as percentages.
_PERCENTAGES = PERCENTAGES | {"tolerance", "max_gain", "spread"}
#: Prefixes of a job's variables, which may be secrets by their names.
_VARIABLES = ("recipe.environment.", "attributes.")
_KINDS = ("changed", "removed", "added")


@dataclass(frozen=True)
class ValueChange:
    """One value before and after; ``None`` if there is none."""

    before: Any
    after: Any


@dataclass(frozen=True)
class RowChange:
    """One row that differs, or that one of the sets alone has."""

    id: str
    kind: Literal["changed", "removed", "added"]
    #: The judged figure, seconds.
    judged_s: ValueChange
    #: Documented figures that differ, by name.
    figures: Mapping[str, ValueChange] = field(default_factory=dict)
    #: Configuration keys that differ, by name.
    configuration: Mapping[str, ValueChange] = field(default_factory=dict)
    #: Documented throughput after over before, less one: -0.05 is 5 % less; ``None`` if they cannot be compared.
    throughput_change: float | None = None


def _compare(before: Iterable[Baseline], after: Iterable[Baseline]) -> tuple[RowChange, ...]:
    """The differences, the greatest loss of documented throughput first, then removed rows, then added ones.

    Raises:
        ConfigurationError: Two rows of one set have the same id.
    """
    old, new = _by_id(before), _by_id(after)
    changes = (
        RowChange(
            row.id,
            "changed",
            ValueChange(_judged_s(row), _judged_s(other)),
            _changes(vars(row.documented), vars(other.documented)),
            {**_changes(_configuration(row), _configuration(other)), **_accepted_changes(row, other)},
            _throughput_change(row, other),
        )
        for row in old.values()
        if (other := new.get(row.id)) is not None
    )
    found = [change for change in changes if change.figures or change.configuration]
    found += [
        RowChange(row.id, "removed", ValueChange(_judged_s(row), None)) for row in old.values() if row.id not in new
    ]
    found += [
        RowChange(row.id, "added", ValueChange(None, _judged_s(row))) for row in new.values() if row.id not in old
    ]
    return tuple(sorted(found, key=_rank))


def _judged_s(row: Baseline) -> float | None:
    """The documented time; a figure is among the figures."""
    return None if row.judged_by.is_figure else row.judged_s


def _rank(change: RowChange) -> tuple[int, float, str]:
    throughput = change.throughput_change
    if throughput is None:
        # A row that has no figure any more has lost all of it; one with another metric cannot be compared.
        before, after = change.judged_s.before, change.judged_s.after
        throughput = 0.0 if before and after else -math.inf if before else math.inf
    return _KINDS.index(change.kind), throughput, change.id


def _by_id(rows: Iterable[Baseline]) -> dict[str, Baseline]:
    found: dict[str, Baseline] = {}
    for row in rows:
        other = found.setdefault(row.id, row)
        if other is not row:
            raise ConfigurationError(
                f"two rows are called {row.id}:\n  {other.location}\n  {row.location}\nnext: compare files one by one"
            )
    return found


def _throughput_change(before: Baseline, after: Baseline) -> float | None:
    """Change of throughput, by tokens per second if a step is not the same work any more."""
    if before.metric != after.metric or not before.judged_s or not after.judged_s:
        return None
    work = [(row.sequence_length, row.global_batch_size) for row in (before, after)]
    if work[0] == work[1] or before.judged_by.series is not Series.STEPS:
        return before.judged_s / after.judged_s - 1
    old, new = _tokens_per_s(before), _tokens_per_s(after)
    if not old or not new:
        return None
    return 0.0 if math.isclose(old, new, rel_tol=1e-9) else new / old - 1


def _tokens_per_s(row: Baseline) -> float | None:
    documented = row.documented
    if documented.step_time_s and row.global_batch_size and row.sequence_length:
        return row.sequence_length * row.global_batch_size / documented.step_time_s
    if documented.tokens_per_s is None and documented.samples_per_s is not None and row.sequence_length:
        return documented.samples_per_s * row.sequence_length
    return documented.tokens_per_s


def _accepted_changes(before: Baseline, after: Baseline) -> dict[str, ValueChange]:
    """Differences of figures that a cluster has accepted in both; the time shows a new or removed one."""
    return {
        f"accepted.{cluster}.{name}": change
        for cluster in sorted({*before.accepted} & {*after.accepted})
        for name, change in _changes(vars(before.accepted[cluster]), vars(after.accepted[cluster])).items()
        if name != "judged_s"
    }


def _configuration(row: Baseline) -> dict[str, Any]:
    """All keys except for the figures, and for the place and wording of the row."""
    facts = definition_facts(row)
    facts.pop("release", None)  # each of two documents has its own
    return {
        **facts,
        **{key: getattr(row, key) for key in ("log_format", "min_steps", "tolerance", "max_gain")},
        **{f"metrics.{key}": stated.value for key, stated in row.metrics.items()},
        **{f"metrics.{key}.tolerance": stated.tolerance for key, stated in row.metrics.items()},
        **{key: getattr(row, key) for key in ("proxy", "canary", "expected_failure")},
        **{f"recipe.{key}": getattr(row.recipe, key) for key in ("logged_steps", "one_job_per_row")},
        **({"recipe.may_fail": ", ".join(row.recipe.may_fail)} if row.recipe.may_fail else {}),
        **{f"accepted.{cluster}": row.judged_by.cost(accepted.judged_s) for cluster, accepted in row.accepted.items()},
    }


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, ValueChange]:
    names = {**before, **after}
    pairs = {name: ValueChange(before.get(name), after.get(name)) for name in names}
    return {name: change for name, change in pairs.items() if change.before != change.after}


def _compare_tables(first: Path, second: Path, *, as_json: bool) -> Answer:
    """Compare the rows of two tables, or of two directories of tables; the exit status is 1 if any differ.

    Raises:
        ConfigurationError: A row has a blank: one that is left out would look as if it were gone.
    """
    before, after = _rows(first), _rows(second)
    changes = [_without_secrets(change) for change in _compare(before, after)]
    status = 1 if changes else 0
    if as_json:
        facts = {"before": len(before), "after": len(after), "changes": [asdict(change) for change in changes]}
        return json_answer(facts, status)
    return Answer(_text(changes, len(before), len(after)), status)


def _rows(path: Path) -> tuple[Baseline, ...]:
    table = read_tables([path])
    if table.blanks:
        row = table.blanks[0]
        raise ConfigurationError(f"{row.id}: {blank_error(row)}")
    return table.rows


def _without_secrets(change: RowChange) -> RowChange:
    """A change with its secrets masked."""
    configuration = {
        name: ValueChange(*(MASK if value else value for value in (one.before, one.after)))
        if name.startswith(_VARIABLES) and is_secret(name.rpartition(".")[2])
        else one
        for name, one in change.configuration.items()
    }
    return redact(replace(change, configuration=configuration), os.environ)


def _text(changes: Sequence[RowChange], before: int, after: int) -> str:
    if not changes:
        return f"{plural(before, 'row')}, no difference"
    table = []
    for change in (one for one in changes if one.kind == "changed"):
        named = {**change.figures, **change.configuration}
        details = (f"{name} {_value(name, one.before)} -> {_value(name, one.after)}" for name, one in named.items())
        table.append((change.id, _seconds(change.judged_s), _throughput(change), "; ".join(details)))
    lines = []
    if table:
        lines += [plain_table(table, "row", ">seconds", ">throughput", "changed", style="simple"), ""]
    lines += [f"{change.kind}: {change.id}" for change in changes if change.kind != "changed"]
    return "\n".join([*lines, _sum(changes, before, after)])


def _seconds(change: ValueChange) -> str:
    if change.before == change.after:
        return "" if change.before is None else f"{change.before:.10g}"
    return f"{_value('', change.before)} -> {_value('', change.after)}"


def _throughput(change: RowChange) -> str:
    throughput = change.throughput_change
    if throughput is None or throughput == 0:
        return ""
    return f"{percent(throughput)} ({'slower' if throughput < 0 else 'faster'})"


def _value(name: str, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value * 100:.10g}%" if name.rpartition(".")[2] in _PERCENTAGES else f"{value:.10g}"
    return str(value)


def _sum(changes: Sequence[RowChange], before: int, after: int) -> str:
    throughputs = [change.throughput_change or 0.0 for change in changes]
    counts = {
        "slower": sum(one < 0 for one in throughputs),
        "faster": sum(one > 0 for one in throughputs),
        "otherwise changed": sum(
            change.kind == "changed" and not one for change, one in zip(changes, throughputs, strict=True)
        ),
        "removed": sum(change.kind == "removed" for change in changes),
        "added": sum(change.kind == "added" for change in changes),
    }
    return f"{plural(before, 'row')} before, {after} after: {listed(counts)}"
