from __future__ import annotations

import math
import random
import time
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from pytest_gsw.history.comparison import drift_text
from pytest_gsw.history.environment_changes import changes_at
from pytest_gsw.history.model import Point
from pytest_gsw.history.row_history import Drifting, drifting, runs_of
from pytest_gsw.history.row_history import since as counted_since
from pytest_gsw.history.since import Since
from pytest_gsw.stats.drift import Drift
from pytest_gsw.tables.model import Accepted

DAY_S = 86400.0
FIRST_S = datetime(2026, 9, 1, 22, tzinfo=timezone.utc).timestamp()


def run(number: int, seconds: float = 1.0, **changes: object) -> Point:
    facts: dict[str, object] = {
        "run_id": f"night-{number:03}",
        "job_id": str(481200 + number),
        "time_s": FIRST_S + DAY_S * number,
        "judged": seconds,
        "outcome": "passed",
        "nodes": "n1",
        "image": "jax-24.12",
        "environment": {"nccl": "2.21.5"},
    }
    return Point(**{**facts, **changes})  # type: ignore[arg-type]


def accepted(job_ids: str, date: str) -> Accepted:
    return Accepted("eos", 1.0, jobs=5, spread=0.01, job_ids=job_ids, date=date, definition="3f2a9c1d0e4b")


def test_a_run_is_its_first_job() -> None:
    points = [run(0), run(1, 1.2), run(1, 1.0, job_id="77"), run(2)]
    assert [(one.run_id, one.judged) for one in runs_of(points)] == [
        ("night-000", 1.0),
        ("night-001", 1.2),
        ("night-002", 1.0),
    ]


def test_a_run_with_a_slow_canary_is_none() -> None:
    assert runs_of([run(0), run(1, reason="canary"), run(2, reason="too noisy")]) == (
        run(0),
        run(2, reason="too noisy"),
    )


RUNS = [run(number) for number in range(20)]


@pytest.mark.parametrize(
    ("figure", "start"),
    [
        (accepted("481205, 481204, 481206", "2026-09-07"), 4),  # of the jobs that it is made of, the first
        (accepted("999", "2026-09-08"), 7),  # else since that day
        (accepted("999", "2027-01-01"), 20),  # what was before does not count
    ],
)
def test_what_a_cluster_accepts_begins_the_reference_anew(figure: Accepted, start: int) -> None:
    assert counted_since(RUNS, figure) == tuple(RUNS[start:])


def test_a_run_that_was_accepted_by_its_last_job_counts_from_that_on() -> None:
    points = [run(0), run(1, 1.2, job_id="77"), run(1, 1.0, job_id="78"), run(2)]
    assert [one.job_id for one in runs_of(counted_since(points, accepted("78", "2026-12-01")))] == ["78", "481202"]


def test_what_changed_in_a_run() -> None:
    before = [run(number, nodes=f"n{number}") for number in range(5)]
    now = run(5, image="jax-25.02", environment={"nccl": "2.23.4", "driver": "560.28"}, nodes="n9")
    assert changes_at([*before, now], 5) == {
        "nccl": ("2.21.5", "2.23.4"),
        "image": ("jax-24.12", "jax-25.02"),
    }
    known, unknown = {"nccl": "2.21.5", "driver": "560.28"}, {"nccl": "2.21.5"}
    assert changes_at([run(number, environment=known) for number in range(5)] + [run(5, environment=unknown)], 5) == {}
    assert changes_at([run(number, environment=unknown) for number in range(5)] + [run(5, environment=known)], 5) == {}


@pytest.mark.parametrize("number", [0, 1, 19])
def test_nothing_changed(number: int) -> None:
    assert changes_at(RUNS, number) == {}


def test_a_step_is_found_with_its_run_and_what_changed_then() -> None:
    noise = [1.0, 1.004, 0.997, 1.002, 0.995, 1.006, 0.999]
    points = [run(n, noise[n % 7]) for n in range(40)]
    points += [run(n, 1.05 * noise[n % 7], environment={"nccl": "2.23.4"}) for n in range(40, 60)]
    found = drifting(points)
    assert found is not None
    assert (found.first.run_id, dict(found.onset.changes)) == ("night-040", {"nccl": ("2.21.5", "2.23.4")})
    assert found.drift.shift == pytest.approx(0.05, abs=0.01)
    # Accepted, the new level is the reference.
    assert drifting(counted_since(points, accepted("481240", "2026-10-11"))) is None


def test_what_changed_is_looked_for_in_each_run_that_it_may_have_been() -> None:
    shown = 0
    for seed in range(10):
        rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
        points = [
            run(n, math.exp(rng.gauss(0.05 * (n >= 45), 0.02)), environment={"nccl": "2.23.4" if n >= 45 else "2.21.5"})
            for n in range(80)
        ]
        found = drifting(points)
        assert found is not None
        shown += dict(found.onset.changes) == {"nccl": ("2.21.5", "2.23.4")}
    assert shown >= 9


def test_a_variable_that_changed_in_a_run_is_named() -> None:
    unknown, unset = [run(0), run(1)], [run(number, variables={"TP": "4"}) for number in range(2, 6)]
    now = run(6, variables={"TP": "4", "NCCL_IB_DISABLE": "1"})
    assert changes_at([*unknown, *unset, now], 6) == {"NCCL_IB_DISABLE": ("not set", "1")}
    assert changes_at([*unset, now, replace(now, variables={"TP": "8"})], 5) == {
        "NCCL_IB_DISABLE": ("1", "not set"),
        "TP": ("4", "8"),
    }
    assert changes_at([*unset, replace(now, variables=None)], 4) == {}
    assert changes_at([*unset, *unknown, now], 6) == {}


def drivers(values: str) -> list[Point]:
    """A run for each letter, which is its driver; ``?`` is a run that does not know it."""
    return [
        run(number, environment={} if driver == "?" else {"driver": driver}) for number, driver in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("values", "events"),
    [
        ("AAABA", {3: "AB", 4: "BA"}),
        ("AAABBA", {3: "AB", 5: "BA"}),
        ("AAABBBA", {3: "AB", 6: "BA"}),
        ("ABA", {1: "AB", 2: "BA"}),
        ("AAABAAAB", {3: "AB", 4: "BA", 7: "AB"}),
        # What is different each run is no event, nor is what comes and goes: one has been switched and taken back.
        ("ABCDEFGH", {1: "AB"}),
        ("AAABCA", {3: "AB"}),
        ("AAABABABBABA", {3: "AB", 4: "BA"}),
        # What one of the runs does not know may be what it was.
        ("AAAB?A", {3: "AB"}),
        ("AA?BA", {}),
        ("AAAB?", {3: "AB"}),
    ],
)
def test_what_is_taken_back_is_a_change_as_well(values: str, events: dict[int, str]) -> None:
    runs = drivers(values)
    found = {number: changes_at(runs, number) for number in range(len(runs))}
    assert {number: change for number, change in found.items() if change} == {
        number: {"driver": tuple(change)} for number, change in events.items()
    }


def test_a_drift_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    first = Point("20261019-221000-7f3a", "480120", 1792454400.0, 1.03, "passed")
    changes = {"nccl": ("2.21.5", "2.23.4"), "driver": ("550.54", "560.28")}
    found = Drifting(Drift(4.2, 0.04, 42), first, Since(first.begin_s, 12, changes=changes, changed_then=True))
    assert drift_text(found) == (
        "throughput of the newest runs is -3.8 % against the first ones, since about 2026-10-19 22:10 "
        "(job 480120 of run 20261019-221000-7f3a); changed then: nccl 2.21.5 -> 2.23.4, driver 550.54 -> 560.28"
    )
    assert drift_text(replace(found, onset=Since(first.begin_s, 12))) == (
        "throughput of the newest runs is -3.8 % against the first ones, since about 2026-10-19 22:10 "
        "(job 480120 of run 20261019-221000-7f3a)"
    )
