"""What a session knows of the run before it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.clusters import Cluster
from pytest_gsw.jobs.journal import RunState
from pytest_gsw.results.manifest import RunManifest, write_noted
from pytest_gsw.results.record import write_record
from pytest_gsw.session.state import Session
from tests.unit.results.records import SLOW
from tests.unit.session.sessions import EOS, SETTINGS, replay_of, state_of


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one record."""
    write_record(tmp_path, SLOW)
    return tmp_path


def test_a_session_that_runs_rows_has_no_records_of_another(run: Path) -> None:
    assert state_of(cluster=EOS).recorded is None
    assert state_of(replay=replay_of(run / "records")).recorded is None


def test_the_records_of_a_replayed_run_are_read_once(run: Path) -> None:
    state = state_of(replay=replay_of(run))
    assert state.recorded == {SLOW.row.id: SLOW}
    for record in (run / "records").iterdir():
        record.unlink()
    assert state.recorded == {SLOW.row.id: SLOW}


def test_a_run_is_not_judged_by_the_figures_of_another_cluster(run: Path) -> None:
    with pytest.raises(pytest.UsageError, match=r"was of the cluster 'eos', not 'site'"):
        _ = state_of(replay=replay_of(run), cluster=Cluster("site", "slurm")).recorded
    assert state_of(replay=replay_of(run), cluster=EOS).recorded


def test_a_record_that_cannot_be_read(run: Path) -> None:
    (record,) = (run / "records").iterdir()
    record.write_text("{")
    with pytest.raises(pytest.UsageError, match=r"^--gsw-replay: "):
        _ = state_of(replay=replay_of(run)).recorded


def test_the_rows_of_a_replayed_run_are_those_it_noted_and_those_with_a_record(run: Path) -> None:
    write_noted(run, RunManifest("eos", "", {}, {}, "", {"t.yaml::lost": {}}))
    before = state_of(replay=replay_of(run)).run_before
    assert before is not None
    assert before.rows == ("t.yaml::lost", SLOW.row.node_id)


def test_the_run_that_is_resumed() -> None:
    past = RunState("eos", ("t.yaml::a",))
    assert state_of(past=past).run_before is past
    assert state_of().run_before is None


def test_the_records_of_the_own_run(tmp_path: Path) -> None:
    output = replace(SETTINGS.output, results=tmp_path)
    state = state_of(output=output)
    state.settings.run_directory.mkdir(parents=True)
    path = write_record(state.settings.run_directory, SLOW)
    assert state.run_records() == (SLOW,)
    assert state.counts.records == {path.name: SLOW}


def test_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Session(SETTINGS)
    monkeypatch.setenv("NCCL_IB_DISABLE", "1")
    assert state.environ["NCCL_IB_DISABLE"] == "1"
    monkeypatch.setenv("NCCL_IB_DISABLE", "0")
    assert state.environ["NCCL_IB_DISABLE"] == "1"


def test_two_sessions_share_nothing() -> None:
    first, second = Session(SETTINGS), Session(SETTINGS)
    first.notes.append("gsw: a line")
    first.rows["a"] = None  # type: ignore[assignment]
    assert (second.notes, second.rows) == ([], {})
    assert json.dumps(sorted(first.selected)) == "[]"
