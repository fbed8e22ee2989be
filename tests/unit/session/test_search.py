"""The search among tiles where there is nothing to search; with jobs, it runs on a real Slurm."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gsw.results.sweep import Sweep
from pytest_gsw.session.search import _RowSearch
from pytest_gsw.session.settings import SETTINGS


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
