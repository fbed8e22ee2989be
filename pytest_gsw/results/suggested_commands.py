"""The commands to type next for a row and for a run; each can be pasted into a shell.

The screen, the summaries for CI and the report's pages have them from here, so that they are the same everywhere.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed
from pytest_gsw.common.text import by_number, command, plural
from pytest_gsw.errors import AS_OF, INTERRUPTED
from pytest_gsw.jobs.model import AT_ONCE
from pytest_gsw.results import attention, outcomes, row_text, summary
from pytest_gsw.results.cluster_result import ClusterResult
from pytest_gsw.results.record import NO_CLUSTER, Record
from pytest_gsw.stats.noise import jobs_to_resolve
from pytest_gsw.stats.verdict import Reason
from pytest_gsw.tables.model import row_matches, without_tile

#: The most rows that are named one by one; more are named by their tables and -k, once for all scales of a case.
_NAMED = 2
#: More rows than these are selected by ``--lf``; the most lines of advice.
_MOST_NAMED, _ADVICE_SHOWN = 6, 3
#: The id of a row that -k can take apart.
_NODE_ID = re.compile(r"(?P<table>[^:]+)::(?P<case>[\w:+.-]+)(?P<scale>\[[\w:+.-]+\])")

#: The most jobs of one row that are suggested.
_MOST_REPEATS = 9


def needs_of(record: Record) -> attention.Attention:
    """The reason for which a row needs attention, by its record."""
    needs = outcomes.of(record.outcome).attention.in_report
    if needs is not attention.PASSED:
        return needs
    if record.drift:
        return attention.DRIFT
    return attention.ACCEPTED if row_text.hides_loss(record) else needs


def is_interrupted(record: Record) -> bool:
    """True if a row was not judged because its session was interrupted: ``--gsw-resume`` goes on with it."""
    return record.outcome == outcomes.ERROR.word and record.fact.startswith(INTERRUPTED)


def again(records: Iterable[Record], directory: Path, *options: str) -> str:
    """Rows again, each with a new job; rows that were replayed without a cluster are replayed again."""
    listed = list(records)
    run = listed[0].run
    if all(is_interrupted(record) for record in listed):  # of a row that runs on, a new job would be one beside it
        return command("pytest", f"--gsw-resume={run.id}", *_faults(listed))
    where = (f"--gsw-replay={run.replay or directory}",) if run.cluster == NO_CLUSTER else _faults(listed)
    return command("pytest", *run.row_options, *where, *options, *_rows([record.row.node_id for record in listed]))


def repeat_commands(record: Record, directory: Path) -> list[tuple[str, str]]:
    """The commands for a row ``again``, with a new job, and ``offline``, from its log; of a replay they are one."""
    run = record.run
    replay = command("pytest", *run.row_options, f"--gsw-replay={run.replay or directory}", record.row.node_id)
    if run.replay or run.cluster == NO_CLUSTER:
        return [("again", replay)]
    return [("again", again([record], directory)), *([("offline", replay)] if run.log else [])]


def history_command(cluster: str, *rows: str, drift: bool = False) -> str:
    """The runs, or the drifts, of rows on a cluster, or of all of its rows."""
    return command("pytest-gsw", "history", *(["--drift"] if drift else []), *rows, f"--cluster={cluster}")


def next_command(record: Record, needs: attention.Attention, directory: Path) -> str:
    """The one thing to type next for a row.

    Args:
        record: The row's.
        needs: The reason for which it needs attention; its history may have another than its record.
        directory: The run's.
    """
    verdict, cluster, row = record.judged, record.run.cluster, record.row.row_id
    match needs:
        case _ if record.run.cluster == NO_CLUSTER:
            return again([record], directory)
        case attention.ACCEPTED:
            return history_command(cluster, row)
        case attention.IMPROVED if not record.run.simulated and not record.row.tile:
            return command("pytest-gsw", "baseline", "propose", f"{directory}", f"--row={row}")
        case attention.DRIFT:
            return history_command(cluster, row, drift=True)
        case attention.INCONCLUSIVE if record.reason == Reason.TOO_GOOD.value and record.run.log:
            return command("pytest-gsw", "metrics", record.run.log, f"--row={row}")
        case attention.INCONCLUSIVE if verdict and verdict.noise and record.reason == Reason.WITHIN_NOISE.value:
            jobs = jobs_to_resolve(record.row.tolerance, verdict.noise)
            if jobs > _MOST_REPEATS:  # look at the history before the cluster is busy for days
                return history_command(cluster, row)
            return again([record], directory, f"--gsw-repeat={jobs}")
        case attention.REGRESSED if record.outcome == outcomes.REGRESSED.word:
            if _can_be_confirmed(record):
                return again([record], directory, "--gsw-confirm=4")
            return history_command(cluster, row)
        case _:
            return again([record], directory)


def drain_command(nodes: Iterable[str], run_id: str, why: str) -> str:
    """The command that drains nodes; it is never run."""
    names = shlex.quote(compressed(nodes))  # brackets match files
    return f"scontrol update nodename={names} state=drain reason='gsw {run_id}: {why}'"


def own_advice(records: Iterable[Record]) -> list[tuple[str, str]]:
    """The steps after errors that another job would meet again, each after its rows; shared by rows, once."""
    advised = {record.row.id: record.advice for record in records if record.advice}
    rows = grouped([(advised.get(text.removeprefix(AS_OF)) or text, row_id) for row_id, text in advised.items()])
    listed = [(f"for {ids[0] if len(ids) == 1 else plural(len(ids), 'row')}", advice) for advice, ids in rows.items()]
    more = plural(sum(map(len, [*rows.values()][_ADVICE_SHOWN:])), "more row")
    rest = [(f"for {more}", "see the text of each above")] if len(rows) > _ADVICE_SHOWN else []
    return [*listed[:_ADVICE_SHOWN], *rest]


def next_commands(
    records: Sequence[Record], directory: Path, incident: ClusterResult | None = None, *, failed_last: bool = False
) -> list[tuple[str, str]]:
    """The commands to type next for a run, each after its purpose; the most urgent first, none if all is well.

    Logs that were replayed without a cluster have none: they would be judged as before.

    Args:
        records: The run's.
        directory: The run's directory, as users type it.
        incident: The run's incident.
        failed_last: True if ``--lf`` selects the rows that have failed, which is shorter for many of them.
    """
    by_need: dict[str, list[Record]] = {}
    records = sorted(records, key=lambda record: by_number(record.row.id))
    for record in (record for record in records if record.run.cluster != NO_CLUSTER):
        need = needs_of(record)
        # No figure of these is ever proposed.
        is_made_up = need is attention.IMPROVED and (record.run.simulated or bool(record.row.tile))
        is_other = record.reason == Reason.INCIDENT.value or record.named or record.advice or is_interrupted(record)
        if not is_made_up and not is_other:
            by_need.setdefault(need.kind, []).append(record)
    holes = [hole.node for hole in summary.black_holes_of(records)]
    listed = [(f"drain {', '.join(holes)}", drain_command(holes, records[0].run.id, AT_ONCE))] if holes else []
    if incident is not None:
        listed.append(("see the runs of the cluster", history_command(incident.cluster)))
    regressed = by_need.get(attention.REGRESSED.kind, [])
    slow_tiles = [record for record in regressed if record.row.tile and record.outcome == outcomes.REGRESSED.word]
    if slow_tiles:
        by_need[attention.REGRESSED.kind] = [row for row in regressed if row not in slow_tiles]
        listed += _searches(slow_tiles)
    failed = [record for need in _FAILED for record in by_need.get(need, [])]
    if failed_last and len(failed) > _MOST_NAMED:
        confirm = ("--gsw-confirm=4",) if any(map(_can_be_confirmed, failed)) else ()
        run = failed[0].run
        text = command("pytest", *run.row_options, *run.tile_options, *_faults(failed), *confirm, "--lf")
        listed.append((f"run again {plural(len(failed), 'row')}", text))
        by_need = {need: rows for need, rows in by_need.items() if need not in _FAILED}
    for needs, what in _OF_A_RUN:
        found = by_need.get(needs.kind, [])
        if len(found) == 1:
            listed.append((f"{what} {found[0].row.id}", next_command(found[0], needs, directory)))
        elif found:
            text = _together(found, needs, directory)
            listed += [(f"{what} {plural(len(found), 'row')}", text)] if text else []
    left = [record for record in records if is_interrupted(record)]
    return [*listed, (f"go on with {plural(len(left), 'row')}", again(left, directory))] if left else listed


def _searches(slow: Sequence[Record]) -> list[tuple[str, str]]:
    """The command that searches among tiles for what is slow; none if its session has done so."""
    run, tiles = slow[0].run, [word for word in slow[0].run.tile_options if word.startswith("--gsw-tile")]
    if not tiles or len(run.tile_options) > len(tiles):
        return []
    rows = list(dict.fromkeys(without_tile(record.row.node_id) for record in slow))
    text = command("pytest", *run.row_options, *tiles, "--gsw-find", *_rows(rows))
    return [(f"search among the tiles, {len(slow)} of which {'is' if len(slow) == 1 else 'are'} slow", text)]


#: The needs of rows that pytest counts as failed.
_FAILED = (attention.REGRESSED.kind, attention.ERROR.kind)
#: The needs of a run's rows, the most urgent first, each with the purpose of its command.
_OF_A_RUN = (
    (attention.REGRESSED, "look again at"),
    (attention.ERROR, "run again"),
    (attention.INCONCLUSIVE, "look into"),
    (attention.DRIFT, "see the drift of"),
    (attention.IMPROVED, "propose tighter figures for"),
)


def _together(records: Sequence[Record], needs: attention.Attention, directory: Path) -> str:
    """One command for several rows of one need; empty if there is none."""
    match needs:
        case attention.IMPROVED:
            return command("pytest-gsw", "baseline", "propose", f"{directory}")
        case attention.DRIFT:
            return history_command(records[0].run.cluster, drift=True)
        case attention.INCONCLUSIVE:
            return ""  # each of them has a command of its own
        case attention.REGRESSED if all(_can_be_confirmed(record) for record in records):
            return again(records, directory, "--gsw-confirm=4")
        case attention.REGRESSED if all(record.jobs.repeats for record in records):  # they are confirmed already
            return history_command(records[0].run.cluster, *(record.row.id for record in records))
        case _:
            return again(records, directory)


def _can_be_confirmed(record: Record) -> bool:
    """True if a row is too slow by one job alone: further jobs show whether it was a slow node."""
    return record.outcome == outcomes.REGRESSED.word and not record.jobs.repeats


def _rows(node_ids: Sequence[str]) -> list[str]:
    """The arguments of pytest that select these rows and no others."""
    parts = [_NODE_ID.fullmatch(node_id) for node_id in node_ids]
    if len(node_ids) <= _NAMED or not all(parts):
        return list(node_ids)
    by_case = grouped([(part["case"], part["scale"]) for part in filter(None, parts)])
    cases = [f"{case}[ and ({' or '.join(sorted(scales, key=by_number))})" for case, scales in by_case.items()]
    tables = dict.fromkeys(part["table"] for part in filter(None, parts))
    return [*tables, "-k", cases[0] if len(cases) == 1 else " or ".join(f"({case})" for case in cases)]


def _faults(records: Sequence[Record]) -> tuple[str, ...]:
    """The faults of simulated rows: without its fault a row would pass."""
    of_rows = [
        fault
        for fault in records[0].run.simulated_faults
        if fault.startswith("node:") or any(row_matches(fault.rpartition("=")[0], one.row.id) for one in records)
    ]
    return tuple(f"--gsw-demo={fault}" for fault in of_rows)
