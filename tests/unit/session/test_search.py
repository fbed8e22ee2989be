"""The search among tiles where there is nothing to search; with jobs, it runs on a real Slurm."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gsw.results.sweep import Sweep
from pytest_gsw.session.row_plan import RowPlan
from pytest_gsw.session.search import _RowSearch
from pytest_gsw.session.settings import SESSION_HISTORY, SETTINGS
from pytest_gsw.tables.model import on_tile
from tests.unit.jobs.test_spec import spec
from tests.unit.rows import LLAMA2_FP8_X128


def test_no_search_among_tiles_that_were_all_skipped() -> None:
    stash = pytest.Stash()
    stash[SETTINGS] = SimpleNamespace(replay=None, find_gpu_hours=0.0)  # type: ignore[assignment]
    tiles: Any = [SimpleNamespace(row=None, baseline=SimpleNamespace(tile=f"n{node}")) for node in (1, 2, 3)]
    start: Any = None
    config: Any = SimpleNamespace(stash=stash)
    search = _RowSearch("tiny[H100x8]", tiles, start, Sweep("node", "batch", 3))
    search.run(config, nullcontext)
    found = search.result(config)
    assert (found.row, found.peers, found.findings, found.jobs) == ("tiny[H100x8]", {}, (), ())


def test_a_job_of_the_search_is_not_taken_for_the_first_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gsw.session.search.SessionRow", lambda _, plan, *__: plan)
    monkeypatch.setattr("pytest_gsw.session.search.LiveRow", lambda *_: None)
    stash = pytest.Stash()
    stash[SETTINGS] = SimpleNamespace(run_id="r")  # type: ignore[assignment]
    stash[SESSION_HISTORY] = None  # type: ignore[assignment]
    start: Any = SimpleNamespace(executor=SimpleNamespace(launcher=None))
    search = _RowSearch("tiny[H100x8]", [], start, Sweep("node", "batch", 3))
    tile = on_tile(replace(LLAMA2_FP8_X128, id="tiny[H100x8]"), "n1")
    plan = RowPlan(tile, f"t.yaml::{tile.id}", spec(tile))
    first: Any = SimpleNamespace(baseline=tile, plan=plan, source=SimpleNamespace(spec=None))
    search._tiles = {"n1": (first, None, None)}  # type: ignore[dict-item]
    config: Any = SimpleNamespace(stash=stash)
    job: Any = search._row(config, ["n3"], 2)
    assert job.node_id == "t.yaml::tiny[H100x8]@n3@2"
