"""The tiles of a session with ``--gsw-tile``: each selected row on every node, switch, block, or N nodes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from pytest_gsw.clusters import Cluster, why_it_does_not_fit
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.node_lists import compressed, number_of
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import by_number, enumerated, named, plural
from pytest_gsw.errors import ConfigurationError, SubmissionError
from pytest_gsw.session.settings import Settings
from pytest_gsw.tables.model import TILE, Baseline, on_tile, tile_of, without_tile

if TYPE_CHECKING:
    from pytest_gsw.jobs.slurm.nodes import ClusterNodes, Tiles
    from pytest_gsw.results.sweep import Sweep
    from pytest_gsw.session.stages import Stages

_SHOWN = 6


@dataclass
class Tiling:
    """The nodes of the cluster, and the tiles that the session's rows have on them."""

    cluster: Cluster
    kind: str
    only: str
    there: ClusterNodes
    #: The tiles of rows by their numbers of nodes; none for a number that does not fit.
    by_size: dict[int, Tiles | None] = field(default_factory=dict)
    #: The ids of rows that fit, and of others with their numbers of nodes.
    fitting: dict[str, int] = field(default_factory=dict)
    unfit: dict[str, int] = field(default_factory=dict)

    def of_row(self, row: Baseline) -> Sequence[str]:
        """The node lists of a row's tiles; none if the row does not fit."""
        from pytest_gsw.jobs.slurm.nodes import fits, tiles  # few sessions have tiles
        from pytest_gsw.jobs.spec import nodes_for

        if why_it_does_not_fit(row.accelerator, row.gpus, self.cluster):
            return ()
        try:
            size = nodes_for(row, self.cluster)
        except SubmissionError:
            return ()  # an error of the row
        if size not in self.by_size:
            is_fit = fits(self.kind, size, self.there)
            self.by_size[size] = tiles(self.kind, size, self.there, self.only) if is_fit else None
        tiles_of_size = self.by_size[size]
        (self.unfit if tiles_of_size is None else self.fitting)[row.id] = size
        return () if tiles_of_size is None else tiles_of_size.names

    def sweep(self, sizes: Collection[int]) -> Sweep:
        """The facts of the sweep for its run, by the numbers of nodes of its rows."""
        from pytest_gsw.results.sweep import Sweep

        of_sizes = [tiles for size in sorted(sizes) if (tiles := self.by_size.get(size)) is not None]
        there = self.there
        return Sweep(
            kind=self.kind,
            partition=there.partition,
            nodes=len(there.usable) + len(there.unusable),
            not_covered={node: why for tiles in of_sizes for node, why in tiles.not_covered.items()},
            switches={name: compressed(nodes) for name, nodes in there.switches.items()},
        )


def ask_tiling(cluster: Cluster | None, kind: str, only: str, environ: Mapping[str, str]) -> Tiling:
    """The tiles of this kind on the nodes of a cluster.

    Raises:
        pytest.UsageError: Its nodes are not known, or have no such tiles.
    """
    from pytest_gsw.jobs.slurm.nodes import tiles  # few sessions have tiles

    if cluster is None:
        raise pytest.UsageError("--gsw-tile needs a cluster; add --gsw-cluster=NAME")
    try:
        tiling = Tiling(cluster, kind, only, ask_there(cluster, environ))
        if not kind.isdigit():
            tiles(kind, 1, tiling.there, only)  # refuses what this cluster does not have
    except ConfigurationError as error:
        raise pytest.UsageError(redact(str(error), os.environ)) from None
    return tiling


def ask_there(cluster: Cluster, environ: Mapping[str, str]) -> ClusterNodes:
    """The nodes of a cluster, by Slurm or as they are simulated; a ConfigurationError if they are not known."""
    from pytest_gsw.jobs.slurm.nodes import ClusterNodes, ask_nodes  # few sessions have tiles

    if cluster.nodes:
        usable = tuple(node for node in cluster.nodes if node not in cluster.down)
        leaves = grouped((leaf, node) for node, leaf in cluster.nodes.items())
        return ClusterNodes(cluster.name, usable, cluster.down, {leaf: tuple(nodes) for leaf, nodes in leaves.items()})
    if cluster.scheduler != "slurm":
        raise ConfigurationError(
            f"{cluster.name} has the scheduler {cluster.scheduler}, and tiles are nodes of Slurm's\n"
            "next: name a cluster with 'scheduler: slurm'"
        )
    if cluster.mirror is not None:
        from pytest_gsw.jobs.ssh.launcher import LoginClient
        from pytest_gsw.jobs.ssh.login import login_to

        return ask_nodes(LoginClient(login_to(cluster)).ask, cluster, environ)
    from pytest_gsw.jobs.slurm import client

    return ask_nodes(client.Client(environ).ask, cluster, environ)


def tiles_by_row(ids: Iterable[str]) -> dict[str, dict[str, None]]:
    """The tiles in ids of rows, by the row's id without a tile, in their order."""
    by_row: dict[str, dict[str, None]] = {}
    for row_id in ids:
        if TILE in row_id:
            by_row.setdefault(without_tile(row_id), {})[tile_of(row_id)] = None
    return by_row


def rows_on_tiles(
    tiling: Tiling | None, rows: Sequence[Baseline], named: Collection[str], past: Collection[str] | None
) -> Sequence[Baseline]:
    """The rows, each on its tiles.

    Args:
        tiling: The session's tiles; ``None`` if they are those of an earlier run, or there are none.
        rows: Rows of one table.
        named: The ids of rows, with or without a tile, that the command line names.
        past: The ids of the run that is replayed or resumed, whose tiles are the session's; ``None`` without one.
    """
    by_row = tiles_by_row(sorted(named, key=by_number) if past is None else past)
    if tiling is None and not by_row:
        return rows
    ids = {*named, *(past or ())}
    on_tiles: list[Baseline] = []
    for row in rows:
        own = by_row.get(row.id, {})
        if tiling is not None:
            own = own | dict.fromkeys(tiling.of_row(row))
        on_any = [row] if not own or (tiling is None and row.id in ids) else []
        on_tiles += [*on_any, *(on_tile(row, tile) for tile in own)]
    return on_tiles


def begin_sweep(settings: Settings, tiling: Tiling | Stages | None, rows: Sequence[Baseline]) -> Sweep | None:
    """Note the nodes of the session's tiles for the run; one that is resumed or replayed has its notes already.

    Returns:
        The sweep; ``None`` without tiles.

    Raises:
        OSError: They cannot be written.
        pytest.UsageError: Those of the run that is resumed or replayed cannot be read.
    """
    if not rows:
        return None
    from pytest_gsw.results.sweep import NAME, read_sweep, write_sweep

    cluster = settings.cluster
    of_run = settings.run_directory if settings.replay is None else settings.replay.place
    sweep = read_sweep(of_run) if tiling is None else tiling.sweep({number_of(row.tile) or 0 for row in rows})
    if sweep is None:
        if (of_run / NAME).is_file():
            raise pytest.UsageError(
                f"{relative_path(of_run / NAME)} is damaged, or of a later release: what the run has found is in it\n"
                "next: remove it to judge each tile as its row is"
            )
        return None
    if settings.replay is None:  # the search's jobs of a resumed run are found again, unless tiles of it are left out
        there = {(row.row_id, row.tile) for row in rows}
        kept = tuple(row for row in sweep.rows if not there.issuperset((row.row, tile) for tile in row.peers))
        warns = cluster is not None and cluster.node_findings == "warn"
        sweep = replace(sweep, rows=kept, has_search=settings.find_gpu_hours is not None, warns=warns)
    write_sweep(settings.run_directory, sweep)
    return sweep


def tiles_text(settings: Settings, tiling: Tiling | None, rows: Sequence[Baseline]) -> list[str]:
    """Lines on the tiles of a session before its first job: nodes that are covered and others, and the search."""
    if tiling is None or not rows:
        return []
    selected = {row.tile for row in rows}
    lines = _coverage_lines(tiling, {number_of(tile) or 0 for tile in selected if tile}, selected)
    if settings.find_gpu_hours:
        lines.append(f"gsw: the search among them takes at most {settings.find_gpu_hours:g} GPU-hours")
    elif settings.find_gpu_hours is not None:
        from pytest_gsw.jobs.spec import estimate_text  # few sessions have tiles
        from pytest_gsw.stats.tile_search import most_search_jobs

        of_row = {row.row_id: row for row in rows if row.tile}
        jobs = {
            name: most_search_jobs(tiles) for name, tiles in Counter(row.row_id for row in rows if row.tile).items()
        }
        cost = estimate_text((of_row[name], count) for name, count in jobs.items())
        most = f"{plural(sum(jobs.values()), 'more job')}, {cost}"
        lines.append(f"gsw: the search among them takes at most {most}")
    return lines


def _coverage_lines(tiling: Tiling, sizes: Collection[int], selected: Collection[str] = ()) -> list[str]:
    """For each number of nodes of a tile, the number of selected tiles, and the nodes that no tile has."""
    from pytest_gsw.results.sweep import by_reason  # few sessions have tiles

    lines = []
    for size in sorted(sizes):
        of_size = tiling.by_size.get(size)
        if of_size is None:
            continue
        tiles = [name for name in of_size.names if name in selected]
        covered, there = size * len(tiles), len(tiling.there.usable) + len(tiling.there.unusable)
        lines.append(
            f"gsw: {plural(len(tiles), 'tile')} of {plural(size, 'node')}: {covered} of "
            f"{plural(there, 'node')} of the partition {tiling.there.partition}"
        )
        lines += [f"gsw: not covered: {nodes} ({why})" for why, nodes in by_reason(of_size.not_covered).items()]
    return lines


def unfit_lines(tiling: Tiling, left_out: Sequence[Baseline]) -> list[str]:
    """Lines on selected rows that no tile can hold, with those that fit, and on rows without a usable tile."""
    without = {row.id: tiling.fitting[row.id] for row in left_out if row.id in tiling.fitting}
    lines = []
    if without:
        lines.append(f"gsw: {plural(len(without), 'row')} left out, no tile takes jobs: {named(list(without), _SHOWN)}")
        lines += _coverage_lines(tiling, {*without.values()})
    wanted = {row.id: tiling.unfit[row.id] for row in left_out if row.id in tiling.unfit}
    rows = [f"{row_id} ({plural(size, 'node')})" for row_id, size in wanted.items()]
    if not rows:
        return lines
    of = f"tiles of {tiling.kind} nodes" if tiling.kind.isdigit() else f"tiles of one {tiling.kind}"
    lines.append(f"gsw: {plural(len(rows), 'row')} left out, not for {of}: {named(rows, _SHOWN)}")
    if tiling.fitting:
        lines.append(f"gsw: rows that fit: {named(list(tiling.fitting), _SHOWN)}")
    sizes = sorted({size for size in wanted.values() if size <= len(tiling.there.usable)})
    step = enumerated([f"--gsw-tile={size}" for size in sizes], "or") if sizes else ""
    return [*lines, f"next: {step} covers the nodes with {'them' if len(rows) > 1 else 'it'}"] if step else lines
