"""What is said of a part that has outgrown its budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.budget import budgets
from tests.budget.budgets import excess, lines, write_budget

BEFORE = {"calls": {"pytest_gsw.plugin:pytest_addoption": 90, "inspect": 10}}


@pytest.fixture(autouse=True)
def _budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "_BESIDE", tmp_path)
    write_budget("idle", BEFORE)


def test_a_tenth_more_is_within_the_budget() -> None:
    assert excess("idle", {"calls": {"pytest_gsw.plugin:pytest_addoption": 90, "inspect": 20}}) == ""


def test_more_is_said_with_the_functions_that_are_called_more_often() -> None:
    figures = {"calls": {"pytest_gsw.plugin:pytest_addoption": 80, "inspect": 15, "pytest_gsw.tables.load:load": 16}}
    assert excess("idle", figures) == (
        "idle: calls: 111, the budget is 100 (+11 %); more than before:\n"
        "        +16  pytest_gsw.tables.load:load\n"
        "         +5  inspect\n"
        "next: spend less, or accept it with python -m tests.budget --write"
    )


def test_with_another_pytest_only_our_own_functions_count(tmp_path: Path) -> None:
    path = tmp_path / "idle.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pytest": "8.3"}))
    assert excess("idle", {"calls": {"pytest_gsw.plugin:pytest_addoption": 99, "inspect": 1000}}) == ""
    assert "calls: 100, the budget is 90" in excess("idle", {"calls": {"pytest_gsw.plugin:pytest_addoption": 100}})


def test_what_has_no_budget_yet_is_an_excess() -> None:
    assert excess("idle", {"modules": {"pytest_gsw": 1}}).startswith("idle: modules: 1, the budget is 0 (new)")


def test_figures_are_printed_beside_their_budgets() -> None:
    figures = {"calls": {"inspect": 1234}}
    assert lines("idle", figures) == ["idle     calls                           1,234   budget          100"]
