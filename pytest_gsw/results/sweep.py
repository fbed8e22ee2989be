"""A sweep: one row on every tile of a cluster, what the search after it found, and both in words."""

from __future__ import annotations

import json
import math
import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_gsw.common import files, typed_json
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.text import command, plain_table, plural
from pytest_gsw.results import manifest, node_facts, outcomes, row_text, summary
from pytest_gsw.results.record import AmongTiles, Record, figure_of_cost, read_records
from pytest_gsw.results.suggested_commands import drain_command
from pytest_gsw.stats.decision import is_below
from pytest_gsw.stats.sweep_finding import SweepFinding
from pytest_gsw.tables.metrics import STEP_TIME, TOLERANCE

#: The file in a run's directory.
NAME = "sweep.json"


@dataclass(frozen=True)
class SearchJob:
    """A job of the search."""

    round: int
    nodes: str
    job_id: str
    #: Its figure, in the metric's unit; ``None`` if it was not measured, with the reason.
    judged: float | None = None
    problem: str = ""
    gpu_hours: float = 0.0


@dataclass(frozen=True)
class OddLoss:
    """A tile whose loss differs from those of its peers."""

    tile: str
    loss: float
    usual: float
    tiles: int


@dataclass(frozen=True)
class RowSweep:
    """The tiles of one row together."""

    #: The row's id without a tile.
    row: str
    #: By tile, the change of throughput against the median of its peers, as a fraction.
    peers: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[SweepFinding, ...] = ()
    #: Nodes that are cleared of a loss of 5 % or more, as a node list.
    cleared: str = ""
    #: Nodes that were not slow in the sweep, of which a loss of up to ``once_loss`` is not excluded, as a node list.
    once: str = ""
    once_loss: float = 0.0
    odd_losses: tuple[OddLoss, ...] = ()
    jobs: tuple[SearchJob, ...] = ()
    #: Noise of a job, as a fraction.
    sigma: float = 0.0
    #: What differs between the nodes of all tiles; ``None`` if it was not read.
    facts: node_facts.NodeFacts | None = None
    #: The median of the tiles' figures, in the metric's unit; ``None`` if they were not compared.
    level: float | None = None
    #: The loss that the row may have, as a fraction.
    tolerance: float = TOLERANCE

    @property
    def named(self) -> tuple[SweepFinding, ...]:
        """The findings that name nodes."""
        return tuple(finding for finding in self.findings if finding.is_named)


@dataclass(frozen=True)
class Sweep:
    """The sweep of a run."""

    kind: str
    partition: str
    #: Nodes of the partition.
    nodes: int
    #: By node, why no tile has it.
    not_covered: Mapping[str, str] = field(default_factory=dict)
    #: Leaf switches or blocks, each with its nodes as a list.
    switches: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[RowSweep, ...] = ()
    #: True with a search, whose findings are test cases.
    has_search: bool = False
    #: True if the cluster's file has findings within the tolerance of their row warn.
    warns: bool = False

    @property
    def gpu_hours(self) -> float:
        """The GPU-hours of its searches; those of the tiles are their rows'."""
        return sum(job.gpu_hours for row in self.rows for job in row.jobs)

    @property
    def switch_of(self) -> dict[str, str]:
        """The switch of each node."""
        return {node: name for name, nodes in self.switches.items() for node in expand(nodes)}

    def result_of(self, row_id: str) -> RowSweep | None:
        """The tiles of a row together; ``None`` if they have not ended."""
        return next((row_sweep for row_sweep in self.rows if row_sweep.row == row_id), None)

    def on_tile(self, of_row: RowSweep, tile: str) -> AmongTiles | None:
        """A tile of a row among the others; ``None`` if it was not compared."""
        change, nodes = of_row.peers.get(tile), set(expand(tile))
        on_it = (one for one in of_row.findings if self.has_search and not nodes.isdisjoint(expand(one.nodes)))
        odd = next((other_loss_text(odd_loss) for odd_loss in of_row.odd_losses if odd_loss.tile == tile), "")
        return None if change is None else AmongTiles(change, tuple(on_it), odd)

    def fails(self, finding: SweepFinding, tolerance: float) -> bool:
        """True if a finding that names nodes is a failure."""
        return not self.warns or is_below(1 + finding.change, tolerance)


def write_sweep(directory: Path, sweep: Sweep) -> None:
    """Write a run's sweep; an OSError if it cannot be written."""
    files.write_whole(directory / NAME, json.dumps(vars(sweep), default=typed_json.plain, indent=1))


def read_sweep(directory: Path) -> Sweep | None:
    """A run's sweep; ``None`` if the run has none, or one of a later release."""
    try:
        return typed_json.read(Sweep, _of_any_release(json.loads(files.read_bounded(directory / NAME)), directory))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _of_any_release(content: Any, directory: Path) -> Any:
    """The same with figures in place of the first release's ``seconds``."""
    first = [(row["row"], job) for row in content["rows"] for job in row["jobs"] if "seconds" in job]
    metrics = {record.row.row_id: record.judged_metric for record in read_records(directory)} if first else {}
    for row_id, job in first:
        job["judged"] = figure_of_cost(job.pop("seconds"), metrics.get(row_id, STEP_TIME).direction)
    return content


# -- Losses of tiles: one row, one seed -------------------------------------------------------------

#: A loss is odd if it differs from the median by more than so many median absolute deviations; of normal values one in
#: fifteen million does. With a loss that most tiles have to the last digit, any other is odd.
_ODD_DEVIATIONS = 8.0
#: Fewest tiles whose losses are compared.
_FEWEST_LOSSES = 4


def odd_losses(losses: Mapping[str, float]) -> tuple[OddLoss, ...]:
    """The tiles whose loss at the last step is unlike the others', by tile: a sign of silent corruption.

    All tiles of a row have one shape, and their recipes fix the seed.
    """
    if len(losses) < _FEWEST_LOSSES:
        return ()
    usual = statistics.median(losses.values())
    apart = statistics.median(abs(loss - usual) for loss in losses.values())
    odd = {tile: loss for tile, loss in losses.items() if abs(loss - usual) > _ODD_DEVIATIONS * apart}
    if 3 * len(odd) > len(losses):
        return ()  # no loss is usual
    return tuple(OddLoss(tile, loss, usual, len(losses) - len(odd)) for tile, loss in odd.items())


# -- A sweep in words -------------------------------------------------------------------------------


def lost_tiles(records: Iterable[Record]) -> dict[str, str]:
    """Tiles without a measurement, with the cause of each."""
    lost = [record for record in records if record.outcome == outcomes.ERROR.word]
    return {record.row.tile: summary.cause_of(record).removeprefix("not covered: ") for record in lost}


def not_covered(sweep: Sweep, lost: Mapping[str, str]) -> dict[str, str]:
    """The nodes that were not covered, as node lists, each by its reason.

    Args:
        sweep: The run's.
        lost: Tiles without a measurement, with the reason of each.
    """
    return by_reason({**sweep.not_covered, **lost})


def by_reason(why_of: Mapping[str, str]) -> dict[str, str]:
    """Nodes or node lists with a reason each, as a node list for each reason."""
    by_why = grouped([(why, node) for nodes, why in why_of.items() for node in expand(nodes)])
    return {why: compressed(nodes) for why, nodes in by_why.items()}


def sweep_facts(one: RowSweep, left: Mapping[str, str]) -> list[tuple[str, str]]:
    """The findings of a row's tiles, the nodes that were not covered, the search and why nodes are slow, with names.

    Args:
        one: The row's tiles.
        left: The nodes that were not covered, by reason, see :func:`not_covered`.
    """
    facts = [(finding.kind, f"{finding.nodes}  {row_text.finding_text(finding)}") for finding in one.findings]
    facts += [("other loss", f"{odd.tile}  {other_loss_text(odd)}: same seed and shape") for odd in one.odd_losses]
    if one.cleared:
        facts.append(("cleared", f"{plural(len(expand(one.cleared)), 'node')} of a loss of 5 % or more"))
    if one.once:
        nodes, loss = expand(one.once), f"a loss of up to {100 * one.once_loss:.1f} % is not excluded"
        again = any(not set(nodes).isdisjoint(expand(job.nodes)) for job in one.jobs)
        facts.append(("once", f"{plural(len(nodes), 'node')}, {'few jobs' if again else 'one job'} each: {loss}"))
    facts += [("not covered", f"{nodes}  {why}") for why, nodes in left.items()]
    if one.jobs:
        rounds = plural(max(job.round for job in one.jobs), "round")
        facts.append(("search", f"{plural(len(one.jobs), 'job')} in {rounds}, noise of a job {100 * one.sigma:.1f} %"))
    facts += [("not measured", f"{job.nodes}  round {job.round}: {job.problem}") for job in one.jobs if job.problem]
    if one.facts is not None:
        slow = {node for finding in one.findings for node in expand(finding.nodes)}
        facts += node_facts.why_lines(one.facts.of_nodes(slow)) if slow else []
    return facts


def sweep_lines(sweep: Sweep, row_sweep: RowSweep, records: Sequence[Record], run_id: str) -> list[str]:
    """The tiles of one row in lines: the histogram, then what is slow, not decided, odd and not covered.

    Args:
        sweep: The run's.
        row_sweep: The row's.
        records: The records of its tiles.
        run_id: The run, for the reason of a drain.
    """
    facts = sweep_facts(row_sweep, not_covered(sweep, lost_tiles(records)))
    lines = [*histogram(row_sweep.peers), *(f"{head:<14} {text}" for head, text in facts)]
    return [*lines, *(f"next: {text}" for _, text in next_lines(row_sweep, run_id))]


def other_loss_text(odd: OddLoss) -> str:
    """``9.41, 31 others 9.021``."""
    return f"{odd.loss:.6g}, {plural(odd.tiles, 'other')} {odd.usual:.6g}"


def next_lines(of_row: RowSweep, run_id: str) -> list[tuple[str, str]]:
    """Commands that drain or exclude what is slower than the tolerance or has another loss, or go on with the search.

    Each has its purpose before it; none is ever run.
    """
    slow = [found for found in of_row.findings if found.kind == "slow" and is_below(1 + found.change, of_row.tolerance)]
    why = {found.nodes: f"{-100 * found.change:.1f} % slower than {len(of_row.peers) - 1} peers" for found in slow}
    exclude = shlex.quote(compressed(node for nodes in why for node in expand(nodes)))
    why |= {odd.tile: f"loss {odd.loss:.6g}, {odd.tiles} peers {odd.usual:.6g}" for odd in of_row.odd_losses}
    drains = [("drain it", drain_command(expand(nodes), run_id, text)) for nodes, text in why.items()]
    exclusion = [("or run elsewhere", f"sbatch --exclude={exclude} ...")] if slow else []
    more = sum(finding.more_jobs or 0 for finding in of_row.findings)
    # Each further job has a control at most.
    each = sum(job.gpu_hours for job in of_row.jobs) / max(1, len(of_row.jobs))
    hours = math.ceil(each * (len(of_row.jobs) + 2 * more))
    find = f"--gsw-find={hours}" if hours else "--gsw-find"
    return [*drains, *exclusion, *([("go on", command("pytest", f"--gsw-resume={run_id}", find))] if more else [])]


#: Bins of one per cent beyond these are one.
LEAST_BIN, LARGEST_BIN = -15, 9


def histogram(peers: Mapping[str, float]) -> list[str]:
    """Two lines: changes of throughput against peers in per cent, and the number of tiles of each."""
    counts = Counter(min(max(round(100 * change), LEAST_BIN), LARGEST_BIN) for change in peers.values())
    heads = (f">{bin_:+d}" if bin_ else ">0" for bin_ in sorted(counts))
    numbers = (str(counts[bin_]) for bin_ in sorted(counts))
    return plain_table([("tiles", *numbers)], "of peers, %", *heads).splitlines() if counts else []


def node_cases(sweep: Sweep | None, lost: Mapping[str, str], cluster: str) -> list[manifest.CaseBesideRows]:
    """The test cases of nodes that a search names, and of each that was not covered, which keeps a search open.

    Args:
        sweep: The run's, if it has one.
        lost: Tiles without a measurement, with the reason of each.
        cluster: The cluster's name.
    """
    if sweep is None:
        return []
    by_name = grouped([(one.switch or one.nodes, (of_row, one)) for of_row in sweep.rows for one in of_row.named])
    cases: list[manifest.CaseBesideRows] = []
    for name, of_name in by_name.items():
        first = of_name[0][1]
        subject = f"{'switch' if first.switch else 'tile' if first.kind == 'between' else 'node'} {name}"
        facts = [f"{finding.kind} {row_text.finding_text(finding)} of {of_row.row}" for of_row, finding in of_name]
        fails = any(sweep.fails(finding, of_row.tolerance) for of_row, finding in of_name)
        cases.append(
            manifest.CaseBesideRows(
                *(f"{manifest.OF_NODES}{name}", cluster, name, subject, first.kind.upper()),
                outcome="failed" if fails else "passed",
                status=outcomes.FAILED if fails else outcomes.GREEN,
                fact=f"{subject}: {'; '.join(facts)}",
                property_name="gsw_node",
            )
        )
    left = ((node, why) for why, nodes in not_covered(sweep, lost).items() for node in expand(nodes))
    status = outcomes.OPEN if sweep.has_search and not sweep.warns else outcomes.GREEN
    return cases + [
        manifest.CaseBesideRows(
            *(f"{manifest.OF_NODES}{node}", cluster, node, f"node {node}", "SKIPPED", "skipped", status),
            *(f"node {node}: not covered: {why}", "gsw_node"),
        )
        for node, why in left
        if node not in by_name
    ]


def with_row(sweep: Sweep, row_sweep: RowSweep) -> Sweep:
    """The sweep with the result of a row."""
    return replace(sweep, rows=(*(other for other in sweep.rows if other.row != row_sweep.row), row_sweep))
