"""The search among tiles where there is nothing to search; with jobs, it runs on a real Slurm."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gsw.results.sweep import Sweep
from pytest_gsw.session.row_plan import RowPlan
from pytest_gsw.session.row_source import LiveRow
from pytest_gsw.session.search import _RowSearch
from pytest_gsw.tables.model import on_tile
from tests.unit.jobs.test_spec import spec
from tests.unit.rows import LLAMA2_FP8_X128

CONFIG: Any = None


def state(**settings: object) -> Any:
    """The state of a session with these settings."""
    sweep = Sweep("node", "batch", 3)
    return SimpleNamespace(settings=SimpleNamespace(**settings), sweep=sweep, probes=None, environ={})


def test_no_search_among_tiles_that_were_all_skipped() -> None:
    start: Any = None
    search = _RowSearch("tiny[H100x8]", [], start, state(replay=None, find_gpu_hours=0.0))
    search.run(CONFIG, nullcontext)
    found = search.result()
    assert (found.row, found.peers, found.findings, found.jobs) == ("tiny[H100x8]", {}, (), ())


def test_a_job_of_the_search_is_not_taken_for_the_first_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gsw.session.row.TileRow", lambda _, plan, *__: plan)
    settings: Any = SimpleNamespace(judging=SimpleNamespace(repeats=None))
    launcher: Any = SimpleNamespace(name="slurm")
    shared = SimpleNamespace(executor=SimpleNamespace(launcher=launcher), settings=settings)
    start: Any = SimpleNamespace(executor=shared.executor, shared=shared)
    search = _RowSearch("tiny[H100x8]", [], start, state(run_id="r"))
    tile = on_tile(replace(LLAMA2_FP8_X128, id="tiny[H100x8]"), "n1")
    plan = RowPlan(tile, f"t.yaml::{tile.id}", spec(tile))
    source = LiveRow(tile, settings, launcher, {})
    first: Any = SimpleNamespace(baseline=tile, plan=plan, source=source)
    search._tiles = {"n1": (first, None, None)}  # type: ignore[dict-item]
    job: Any = search._row(CONFIG, ["n3"], 2)
    assert job.node_id == "t.yaml::tiny[H100x8]@n3@2"
