"""Rows on the tiles of a session, and rows that its tiles do not fit."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.clusters import Cluster
from pytest_gsw.jobs.slurm.nodes import ClusterNodes
from pytest_gsw.results.sweep import NAME, Sweep, read_sweep, write_sweep
from pytest_gsw.session.tiles import Tiling, ask_tiling, begin_sweep, rows_on_tiles, tiles_text, unfit_lines
from pytest_gsw.tables.model import Baseline, on_tile
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.session.sessions import EOS, SETTINGS, replay_of

CLUSTER = Cluster("eos", "slurm", accelerator="H100", gpus_per_node=8)
NODES = tuple(f"n{number:03}" for number in range(16))
SMALL = replace(LLAMA2_FP8_X128, id="small[H100x8]", gpus=8)
LARGE = replace(LLAMA2_FP8_X128, id="large[H100x16]", gpus=16)


def tiling(nodes: tuple[str, ...] = NODES, unusable: dict[str, str] | None = None) -> Tiling:
    return Tiling(CLUSTER, "node", "", ClusterNodes("batch", nodes, unusable or {}))


def ids(rows: Collection[Baseline]) -> list[str]:
    return [row.id for row in rows]


def test_the_next_step_has_the_sizes_of_the_selected_rows_that_the_cluster_has() -> None:
    found = tiling()
    rows = {
        nodes: replace(LLAMA2_FP8_X128, id=f"llama2_70b_fp8[H100x{8 * nodes}]", gpus=8 * nodes)
        for nodes in (1, 2, 8, 32)
    }
    for row in rows.values():
        found.of_row(row)
    name = rows[8].id
    assert unfit_lines(found, [rows[8], rows[32]]) == [
        f"gsw: 2 rows left out, not for tiles of one node: {name} (8 nodes), {rows[32].id} (32 nodes)",
        f"gsw: rows that fit: {rows[1].id}",
        "next: --gsw-tile=8 covers the nodes with them",
    ]
    assert unfit_lines(found, [rows[32]])[-1] == f"gsw: rows that fit: {rows[1].id}"


def test_a_row_that_fits_runs_on_each_tile_and_one_that_does_not_stays() -> None:
    found = tiling(("n1", "n2"))
    assert ids(rows_on_tiles(found, [SMALL, LARGE], (), None)) == ["small[H100x8]@n1", "small[H100x8]@n2", LARGE.id]
    assert (found.fitting, found.unfit) == ({SMALL.id: 1}, {LARGE.id: 2})


def test_without_tiles_rows_stay_as_they_are() -> None:
    assert rows_on_tiles(None, [SMALL, LARGE], (), None) == [SMALL, LARGE]


def test_a_tile_that_is_named_runs_without_the_option() -> None:
    assert ids(rows_on_tiles(None, [SMALL, LARGE], {"small[H100x8]@n7"}, None)) == ["small[H100x8]@n7", LARGE.id]


def test_a_row_that_is_named_beside_its_tile_runs_on_any_nodes_too() -> None:
    named = {"small[H100x8]@n7", "small[H100x8]"}
    assert ids(rows_on_tiles(None, [SMALL], named, None)) == ["small[H100x8]", "small[H100x8]@n7"]


def test_the_tiles_of_an_earlier_run_in_its_order() -> None:
    past = ["small[H100x8]@n2", "small[H100x8]@n1"]
    assert ids(rows_on_tiles(None, [SMALL], (), past)) == past


def test_a_row_of_another_accelerator_has_no_tile() -> None:
    assert tiling().of_row(replace(SMALL, accelerator="A100")) == ()


def test_tiles_are_nodes_of_slurm() -> None:
    for cluster in (None, Cluster("here", "local")):
        with pytest.raises(pytest.UsageError, match=r"(needs a cluster|tiles are nodes of Slurm's)"):
            ask_tiling(cluster, "node", "", {})


def test_what_a_session_covers() -> None:
    found = tiling(("n1", "n2"), {"n3": "drained: x"})
    rows = rows_on_tiles(found, [SMALL], (), None)
    lines = tiles_text(replace(SETTINGS, find_gpu_hours=12.0), found, rows[:1])
    assert [line.startswith("gsw: 1 tile of 1 node: 1 of 3 nodes ") for line in lines] == [True, False, False]
    assert "n3 (drained: x)" in lines[1]
    assert "12 GPU-hours" in lines[2]
    assert tiles_text(SETTINGS, None, rows) == tiles_text(SETTINGS, found, []) == []


def test_a_new_sweep_is_noted_for_its_run(tmp_path: Path) -> None:
    settings = replace(SETTINGS, output=replace(SETTINGS.output, results=tmp_path), find_gpu_hours=0.0)
    settings.run_directory.mkdir(parents=True)
    found = tiling(("n1", "n2"), {"n3": "drained: x"})
    sweep = begin_sweep(settings, found, rows_on_tiles(found, [SMALL], (), None))
    assert sweep is not None
    assert (sweep.kind, sweep.nodes, sweep.not_covered, sweep.has_search) == ("node", 3, {"n3": "drained: x"}, True)
    assert read_sweep(settings.run_directory) == sweep


def test_a_cluster_may_only_warn_of_nodes(tmp_path: Path) -> None:
    cluster = replace(EOS, node_findings="warn")
    settings = replace(SETTINGS, cluster=cluster, output=replace(SETTINGS.output, results=tmp_path))
    settings.run_directory.mkdir(parents=True)
    sweep = begin_sweep(settings, tiling(("n1",)), [on_tile(SMALL, "n1")])
    assert sweep is not None
    assert sweep.warns


def test_a_replay_has_the_sweep_of_its_run(tmp_path: Path) -> None:
    run, settings = tmp_path / "run", replace(SETTINGS, output=replace(SETTINGS.output, results=tmp_path))
    run.mkdir()
    settings.run_directory.mkdir(parents=True)
    write_sweep(run, Sweep("node", "batch", 2))
    replay = replace(settings, replay=replay_of(run))
    assert begin_sweep(replay, None, [on_tile(SMALL, "n1")]) == Sweep("node", "batch", 2)
    (run / NAME).write_text("damaged")
    with pytest.raises(pytest.UsageError, match="is damaged"):
        begin_sweep(replay, None, [on_tile(SMALL, "n1")])


def test_no_sweep_without_tiles(tmp_path: Path) -> None:
    assert begin_sweep(SETTINGS, tiling(), []) is None
    settings = replace(SETTINGS, output=replace(SETTINGS.output, results=tmp_path))
    assert begin_sweep(settings, None, [on_tile(SMALL, "n1")]) is None
