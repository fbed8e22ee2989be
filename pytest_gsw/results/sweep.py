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

from pytest_gsw.common.files import read_bounded, write_whole
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.common.text import command, percent, plural
from pytest_gsw.common.typed_json import plain, read
from pytest_gsw.results import outcomes
from pytest_gsw.results.node_facts import NodeFacts, why_lines
from pytest_gsw.results.record import Record, RowFacts, figure_of_cost, read_records
from pytest_gsw.results.suggested_commands import drain_command
from pytest_gsw.results.summary import cause_of
from pytest_gsw.tables.metrics import STEP_TIME

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
class SweepFinding:
    """Nodes that are slow, or not decided; see :class:`~pytest_gsw.stats.tile_search.TileFinding`."""

    kind: str
    nodes: str
    switch: str
    change: float
    low: float
    high: float
    jobs: int
    more_jobs: int | None = None
    #: The slow job of an intermittent node.
    job_id: str = ""


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
    facts: NodeFacts | None = None

    @property
    def slow(self) -> tuple[SweepFinding, ...]:
        """The findings of what is slow."""
        return tuple(finding for finding in self.findings if finding.kind == "slow")


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

    @property
    def gpu_hours(self) -> float:
        """The GPU-hours of its searches; those of the tiles are their rows'."""
        return sum(job.gpu_hours for row in self.rows for job in row.jobs)

    @property
    def odd_losses(self) -> tuple[OddLoss, ...]:
        """The tiles of all rows whose loss is unlike the others': a passed row does not show that they are sound."""
        return tuple(odd for row in self.rows for odd in row.odd_losses)

    @property
    def switch_of(self) -> dict[str, str]:
        """The switch of each node."""
        return {node: name for name, nodes in self.switches.items() for node in expand(nodes)}

    def peers_change(self, row: RowFacts) -> float | None:
        """The change of a tile against its peers; ``None`` for another row, and for a tile that was not compared."""
        return next((one.peers.get(row.tile) for one in self.rows if one.row == row.row_id), None)


def write_sweep(directory: Path, sweep: Sweep) -> None:
    """Write a run's sweep; an OSError if it cannot be written."""
    write_whole(directory / NAME, json.dumps(vars(sweep), default=plain, indent=1))


def read_sweep(directory: Path) -> Sweep | None:
    """A run's sweep; ``None`` if the run has none, or one of a later release."""
    try:
        return read(Sweep, _of_any_release(json.loads(read_bounded(directory / NAME)), directory))
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
    return {record.row.tile: cause_of(record).removeprefix("not covered: ") for record in lost}


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
    facts = [(finding.kind, f"{finding.nodes}  {finding_text(finding)}") for finding in one.findings]
    facts += [
        ("other loss", f"{odd.tile}  {odd.loss:.6g}, {plural(odd.tiles, 'other')} {odd.usual:.6g}: same seed and shape")
        for odd in one.odd_losses
    ]
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
        facts += why_lines(one.facts.of_nodes(slow)) if slow else []
    return facts


def sweep_lines(sweep: Sweep, one: RowSweep, records: Sequence[Record], run_id: str) -> list[str]:
    """The tiles of one row in lines: the histogram, then what is slow, not decided, odd and not covered.

    Args:
        sweep: The run's.
        one: The row's.
        records: The records of its tiles.
        run_id: The run, for the reason of a drain.
    """
    facts = sweep_facts(one, not_covered(sweep, lost_tiles(records)))
    lines = [*histogram(one.peers), *(f"{head:<14} {text}" for head, text in facts)]
    return [*lines, *(f"next: {text}" for text in (*next_lines(one, run_id), *continue_command(one, run_id)))]


def finding_text(one: SweepFinding) -> str:
    """A finding without its nodes: ``-9.8 % (-11.2 % to -8.4 %), 3 jobs``."""
    if one.kind == "intermittent":
        return f"{percent(one.change)} in job {one.job_id}, fast in {plural(one.jobs, 'job')} since"
    text = f"{percent(one.change)} ({percent(one.low)} to {percent(one.high)}), {plural(one.jobs, 'job')}"
    return text + (", " if one.switch else ": ") + note if (note := finding_note(one)) else text


def finding_note(one: SweepFinding) -> str:
    """The switch of nodes that are slow together, and how many more jobs would decide; empty if there is neither."""
    switch = [f"switch {one.switch}"] if one.switch else []
    together = "its nodes together" if one.switch else "each of its nodes is sound beside others"
    more = [f"about {plural(one.more_jobs, 'more job')} would tell"] if one.more_jobs else []
    return ": ".join([*switch, *([together] if one.kind == "between" else []), *more])


def next_lines(one: RowSweep, run_id: str) -> list[str]:
    """One command that drains what is slow or has another loss, and one that excludes it; neither is ever run."""
    if not one.slow:
        return [
            drain_command(expand(odd.tile), run_id, f"loss {odd.loss:.6g}, {odd.tiles} peers {odd.usual:.6g}")
            for odd in one.odd_losses
        ]
    nodes = [node for finding in one.slow for node in expand(finding.nodes)]
    worst = min(finding.change for finding in one.slow)
    why = f"{abs(100 * worst):.1f} % slower than {len(one.peers) - 1} peers"
    return [drain_command(nodes, run_id, why), f"sbatch --exclude={shlex.quote(compressed(nodes))} ..."]


def continue_command(one: RowSweep, run_id: str) -> list[str]:
    """The command that goes on with a search, for what is not decided; none if no number of jobs decides it."""
    more = sum(finding.more_jobs or 0 for finding in one.findings)
    if not more:
        return []
    # Each of them has a control at most.
    each = sum(job.gpu_hours for job in one.jobs) / max(1, len(one.jobs))
    hours = math.ceil(each * (len(one.jobs) + 2 * more))
    return [command("pytest", f"--gsw-resume={run_id}", f"--gsw-find={hours}" if hours else "--gsw-find")]


#: Bins of one per cent beyond these are one.
LEAST_BIN, LARGEST_BIN = -15, 9


def bin_of(change: float) -> int:
    """The bin of a change of throughput, in per cent."""
    return min(max(round(100 * change), LEAST_BIN), LARGEST_BIN)


def histogram(peers: Mapping[str, float]) -> list[str]:
    """Two lines: changes of throughput against peers in per cent, and the number of tiles of each."""
    counts = Counter(map(bin_of, peers.values()))
    cells: list[tuple[str, str]] = []
    last = None
    for bin_ in sorted(counts):
        if last is not None and bin_ > last + 1:
            cells.append(("…", ""))
        cells.append((f"{bin_:+d}" if bin_ else "0", str(counts[bin_])))
        last = bin_
    widths = [max(map(len, cell)) for cell in cells]
    heads = "  ".join(cell[0].rjust(width) for cell, width in zip(cells, widths, strict=True))
    numbers = "  ".join(cell[1].rjust(width) for cell, width in zip(cells, widths, strict=True))
    return [f"{'of peers, %':<14} {heads}", f"{'tiles':<14} {numbers}"] if cells else []


def peers_properties(sweep: Sweep, records: Iterable[Record]) -> dict[str, list[tuple[str, float]]]:
    """The properties of each tile's test case, by node id, that are known once all tiles are."""
    changes = ((record.row.node_id, sweep.peers_change(record.row)) for record in records)
    return {name: [("gsw_peers_change", round(change, 6))] for name, change in changes if change is not None}


def sweep_properties(sweep: Sweep, lost: Mapping[str, str]) -> list[tuple[str, str]]:
    """The properties of a run's suite by its sweep; for ``lost`` see :func:`not_covered`."""
    by_kind: dict[str, list[str]] = {}
    for finding in (finding for one in sweep.rows for finding in one.findings):
        by_kind.setdefault(finding.kind, []).append(f"{finding.nodes} {percent(finding.change)}")
    of_kinds = {f"gsw_{kind.replace(' ', '_')}_tiles": "; ".join(found) for kind, found in by_kind.items()}
    once = (f"{one.once} {percent(-one.once_loss)}" for one in sweep.rows if one.once)
    left = (f"{nodes} ({why})" for why, nodes in not_covered(sweep, lost).items())
    odd = (f"{one.tile} {one.loss:.6g}" for one in sweep.odd_losses)
    others = {"gsw_tiles_once": once, "gsw_odd_losses": odd, "gsw_not_covered": left}
    found = of_kinds | {name: "; ".join(values) for name, values in others.items()}
    return [(name, value) for name, value in found.items() if value]


def with_row(sweep: Sweep, one: RowSweep) -> Sweep:
    """The sweep with the result of a row."""
    return replace(sweep, rows=(*(other for other in sweep.rows if other.row != one.row), one))
