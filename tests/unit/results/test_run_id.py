"""When a run began, by its id."""

from __future__ import annotations

import time

import pytest

from pytest_gsw.results.run_id import begin_of


def test_a_run_began_when_its_id_says() -> None:
    known_s = 1_797_454_800.5
    begun = time.strftime("%Y%m%d-%H%M%S", time.localtime(known_s - 3600))
    assert begin_of(f"{begun}-1b8e18", known_s) == begin_of(begun, 0.0) == int(known_s) - 3600
    at_once = time.strftime("%Y%m%d-%H%M%S-1b8e18", time.localtime(known_s))
    assert begin_of(at_once, known_s) == int(known_s)


@pytest.mark.parametrize("run_id", ["import-481220-a", "", "20261301-000000-1b8e18", "20261216-2100001", "nightly"])
def test_what_an_id_does_not_say_is_taken_from_what_is_known(run_id: str) -> None:
    assert begin_of(run_id, 5.0) == 5.0


def test_a_run_did_not_begin_after_what_was_in_it() -> None:
    known_s = 1_797_454_800.0
    elsewhere = time.strftime("%Y%m%d-%H%M%S-1b8e18", time.localtime(known_s + 3600))
    assert begin_of(elsewhere, known_s) == known_s
