"""The nights of a cluster's rows together."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_gsw.history.past import Past
from pytest_gsw.history.together import Together
from tests.unit.history.test_drifting import night

ROWS = [f"row{number}" for number in range(10)]


def cluster(nights: int, slower: Callable[[int], float] = lambda _: 1.0, rows: int = 10, slow: int = 10) -> Together:
    """Rows of one to ten seconds, with 1 % of noise; so many of them are slower in some nights."""
    rng = random.Random(3)  # noqa: S311 - noise, not cryptography
    pasts = {}
    for number, row in enumerate(ROWS[:rows]):
        points = []
        for n in range(nights):
            factor = slower(n) if number < slow else 1.0
            driver = {"driver": "560.28" if factor > 1 else "550.54"}
            seconds = (number + 1) * math.exp(rng.gauss(0, 0.01)) * factor
            points.append(replace(night(n, seconds), environment=driver, added_s=float(n)))
        pasts[row] = Past(tuple(points))
    return Together(pasts)


def test_a_quiet_cluster_has_no_incident_and_no_drift() -> None:
    quiet = cluster(60)

    assert quiet.before.noise is not None
    assert quiet.before.noise.jobs == 30
    assert quiet.since() is None
    assert quiet.drifting is None


def test_an_incident_is_told_with_its_first_night_and_what_changed_under_most_rows() -> None:
    slow = cluster(40, lambda n: 1.06 if n >= 37 else 1.0)

    first = slow.since()

    assert first is slow.nights[37]
    assert slow.changed(first) == {"driver": ("550.54", "560.28")}
    effect = slow.before.effect(39)
    assert effect is not None
    assert effect.value == pytest.approx(math.log(1.06), abs=0.01)


def test_what_changed_under_few_rows_is_not_what_changed() -> None:
    slow = cluster(40, lambda n: 1.06 if n >= 37 else 1.0, slow=4)

    assert slow.since() is None
    assert slow.changed(slow.nights[37]) == {}


def test_a_creep_that_rows_share_is_found_of_the_cluster() -> None:
    found = cluster(80, lambda n: 1.01 ** (max(0, n - 40) / 7)).drifting

    assert found is not None
    assert found.drift.shift > 0.02
    assert found.since.time_s >= night(36, 1.0).time_s


@pytest.mark.parametrize(("nights", "rows"), [(7, 10), (40, 7)])
def test_few_nights_or_rows_say_nothing(nights: int, rows: int) -> None:
    few = cluster(nights, rows=rows)

    assert few.before.noise is None
    assert few.before.effect(nights - 1) is None
    assert few.since() is None
    assert few.drifting is None


def test_rows_that_are_missing_tonight_are_waited_for() -> None:
    known = cluster(30)

    assert known.tonight({"row0": 1.0}, missing=9).says_something
    assert not known.tonight({"row0": 1.0}, missing=6).says_something
    assert "new" not in known.tonight({"row0": 1.0, "new": 1.0}).over
