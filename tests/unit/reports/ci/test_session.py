"""What a session leaves for the CI server that it runs on."""

from __future__ import annotations

from pathlib import Path

from pytest_gsw.reports.ci import SessionOutputs, session_outputs
from pytest_gsw.reports.ci.annotations import github
from pytest_gsw.reports.ci.markdown import markdown
from tests.unit.reports.ci.nights import NIGHT

SUMMARY = {"GITHUB_STEP_SUMMARY": "/tmp/summary.md"}


def test_in_github_actions() -> None:
    assert session_outputs(NIGHT, {"GITHUB_ACTIONS": "true", **SUMMARY}) == SessionOutputs(
        Path("/tmp/summary.md"), f"{markdown(NIGHT)}\n", github(NIGHT)
    )


def test_without_a_place_for_the_summary() -> None:
    assert session_outputs(NIGHT, {"GITHUB_ACTIONS": "true"}) == SessionOutputs(annotations=github(NIGHT))


def test_elsewhere_nothing() -> None:
    assert session_outputs(NIGHT, SUMMARY) == SessionOutputs()
    assert session_outputs(NIGHT, {"GITHUB_ACTIONS": "false", **SUMMARY}) == SessionOutputs()
