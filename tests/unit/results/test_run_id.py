"""The newest run of a directory of runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_gsw.results.run_id import newest_run


def test_a_run_that_may_not_be_read_is_the_newest_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("20261114-1", "20261115-1"):
        (tmp_path / name / "records").mkdir(parents=True)
    (tmp_path / "20261114-1" / "records" / "row.json").write_text("{}")
    assert newest_run(tmp_path, "records/*.json") == tmp_path / "20261114-1"
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "20261115-1")
    assert newest_run(tmp_path, "records/*.json") == tmp_path / "20261115-1"
