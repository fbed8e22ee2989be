"""What people read of a drift, to the letter."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pytest_gsw.history.model import Point
from pytest_gsw.history.past import Drifting
from pytest_gsw.history.texts import drift_text
from pytest_gsw.performance.drift import Drift


def test_a_drift_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    since = Point("20261019-221000-7f3a", "480120", 1792454400.0, 1.03, "passed")
    found = Drifting(
        Drift(4.2, 0.04, 42),
        since,
        {"nccl": ("2.21.5", "2.23.4"), "driver": ("550.54", "560.28")},
    )
    assert drift_text(found) == (
        "throughput of the newest runs is -3.8 % against the first ones, since about 2026-10-19 22:10 "
        "(job 480120 of run 20261019-221000-7f3a); what changed then: nccl 2.21.5 -> 2.23.4, driver 550.54 -> 560.28"
    )
    assert drift_text(replace(found, changes={})) == (
        "throughput of the newest runs is -3.8 % against the first ones, since about 2026-10-19 22:10 "
        "(job 480120 of run 20261019-221000-7f3a)"
    )
