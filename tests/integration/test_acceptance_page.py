"""The commands of docs/acceptance.md on the demo, in their order, and what they print."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import check_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "acceptance.md"


def test_an_acceptance_on_the_demo(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSW_DEMO_SECONDS", "0.5")
    check_page(PAGE, pytester.path, monkeypatch)
