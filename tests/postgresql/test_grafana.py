"""Grafana's dashboard of the history: each of its queries runs on a real PostgreSQL, and finds what sessions left."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from pytest_gsw.cli import main
from pytest_gsw.history.location import open_history
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.record import JobFacts, read_records
from tests import grafana

ROW = "llama2_70b_fp8[H100x128]"
ROWS = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and (H100x64 or H100x128)")


@pytest.fixture
def filled(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, place: str) -> str:
    """A history of a few sessions, a job that a node has failed, and a decision."""
    monkeypatch.chdir(pytester.path)
    for name, value in {"GSW_DEMO_SECONDS": "0", "GSW_DEMO_SEED": "20", "GSW_PYTHON": sys.executable}.items():
        monkeypatch.setenv(name, value)
    for fault in ("slow:0%", "slow:12%", "oom"):
        pytester.runpytest(*ROWS, f"--gsw-history={place}", f"--gsw-demo=*x128]={fault}")
    first = min(pytester.path.glob(".gsw/runs/*"))
    record = read_records(first)[0]
    assert record.jobs.last is not None
    failed = replace(record.jobs.last, id="7", state=JobState.NODE_FAIL, nodes="pool0-0007", why_repeated="node failed")
    with open_history(place) as history:
        history.add([with_attempt(record, failed)])
    assert main(["history", "exclude", first.name, "--why=a trial", f"--history={place}"]) == 0
    return place


def with_attempt(record: Any, failed: JobFacts) -> Any:
    """The same row in another run, which needed a second job."""
    return replace(record, run=replace(record.run, id="another"), jobs=replace(record.jobs, attempts=(failed,)))


def answered(place: str, sql: str) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """The columns and the rows of a query, once its macros and variables are what Grafana makes of them."""
    sql = re.sub(r"\$__unixEpochFilter\(([\w.]+)\)", r"\1 >= 1 AND \1 <= 99999999999", sql)
    for name, value in {"cluster": "demo", "row": ROW}.items():
        sql = sql.replace(f"${{{name}:sqlstring}}", f"'{value}'")
    assert "$" not in sql
    with psycopg.connect(place) as connection:
        cursor = connection.execute(sql.encode())
        assert cursor.description is not None
        return [column.name for column in cursor.description], cursor.fetchall()


def test_every_panel_finds_what_sessions_left(filled: str) -> None:
    asked = list(grafana.targets("postgresql", "rawSql"))
    assert len(asked) >= 8
    for title, sql, target in asked:
        columns, rows = answered(filled, sql)
        assert rows, title
        assert len(set(columns)) == len(columns), title
        if target["format"] == "time_series":
            # Grafana wants the time first, in its order, then what tells lines apart, then one number.
            assert columns[:2] == ["time", "metric"], title
            assert len(columns) == 3, title
            times = [row[0] for row in rows]
            assert times == sorted(times), title
            assert all(isinstance(row[1], str) and float(row[2]) is not None for row in rows), title


def test_every_variable_has_values(filled: str) -> None:
    found = {
        name: [value for (value,) in answered(filled, sql)[1]] for name, sql in grafana.variables("postgresql").items()
    }
    assert found["cluster"] == ["demo"]
    assert ROW in found["row"]
