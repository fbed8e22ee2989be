"""Rows that the tiles of a session do not fit."""

from __future__ import annotations

from dataclasses import replace

from pytest_gsw.clusters import Cluster
from pytest_gsw.jobs.slurm.nodes import ClusterNodes
from pytest_gsw.session.tiles import Tiling, unfit_lines
from tests.unit.rows import LLAMA2_FP8_X128


def test_the_next_step_has_the_sizes_of_the_selected_rows_that_the_cluster_has() -> None:
    cluster = Cluster("eos", "slurm", accelerator="H100", gpus_per_node=8)
    nodes = tuple(f"n{number:03}" for number in range(16))
    tiling = Tiling(cluster, "node", "", ClusterNodes("batch", nodes))
    rows = {
        nodes: replace(LLAMA2_FP8_X128, id=f"llama2_70b_fp8[H100x{8 * nodes}]", gpus=8 * nodes)
        for nodes in (1, 2, 8, 32)
    }
    for row in rows.values():
        tiling.of_row(row)
    name = rows[8].id
    assert unfit_lines(tiling, [rows[8], rows[32]]) == [
        f"gsw: 2 rows left out, not for tiles of one node: {name} (8 nodes), {rows[32].id} (32 nodes)",
        f"gsw: rows that fit: {rows[1].id}",
        "next: --gsw-tile=8 covers the nodes with them",
    ]
    assert unfit_lines(tiling, [rows[32]])[-1] == f"gsw: rows that fit: {rows[1].id}"
