"""Since when a row is slow, and what changed then: the guilty change is named, and no innocent one."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import pytest

from pytest_gsw.history.alarms import alarms, drifts, regressions
from pytest_gsw.history.model import ExperimentKey, Point
from pytest_gsw.history.row_history import RowHistory
from pytest_gsw.history.since import Since, changed
from tests.unit.history.test_drift import run

KEY = ExperimentKey("row", "eos", "0123")


@dataclass(frozen=True)
class Lived:
    """A history with one guilty change, and innocent ones."""

    past: RowHistory
    guilty: str
    innocent: frozenset[str]


def on_off(rng: random.Random, nights: int, first: int, last: int) -> list[bool]:
    """In which nights a change is in effect: from the first one on, and sometimes without some between."""
    gone = range(0)
    if last - first > 4 and rng.random() < 0.4:
        begin = rng.randrange(first + 1, last - 2)
        gone = range(begin, begin + rng.randint(1, 3))
    return [night >= first and night not in gone for night in range(nights)]


def lived(seed: int, loss: tuple[float, float], nights: int, slow: tuple[int, int], apart: int) -> Lived:
    """Nights of a row, some of which it missed; its changes come in any order, alone or with others."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    lost, sigma = rng.uniform(*loss), rng.uniform(0.004, 0.009)
    begin = nights - rng.randint(*slow)
    names = rng.sample(["nccl", "driver", "image", "NCCL_ALGO", "firmware"], 4)
    guilty, *others = names
    missed = {night for night in range(nights) if rng.random() < 0.15} - {nights - 1}
    ran = [night for night in range(nights) if night not in missed]
    # A row that has not run between two changes cannot tell them apart.
    before = [night for night in ran if night < begin][: -apart or None]
    together = rng.choice(before[4:])
    slow_at = min(night for night in ran if night >= begin)
    on = {guilty: [night >= begin for night in range(nights)]}
    for name in others:
        later = rng.random() < 0.3
        first = rng.randint(slow_at + apart, nights + 2) if later else rng.choice([together, rng.choice(before[4:])])
        on[name] = on_off(rng, nights, first, before[-1])
    if loss[0] > 0.05 and rng.random() < 0.3:  # it was there before, was slow at once, and was taken back
        early = rng.randint(8, begin - 12)
        on[guilty][early : early + 2] = [True, True]
    points = []
    for night in ran:
        seconds = math.exp(rng.gauss(0, sigma)) / (1 - lost * on[guilty][night])
        speed = 1 / seconds - 1
        outcome = "regressed" if speed < -0.055 else "inconclusive" if speed < -0.05 else "passed"
        values = {name: ("new" if is_on[night] else "old") for name, is_on in on.items()}
        image = values.pop("image", "jax")
        variables = {"SEED": str(rng.random()), "NCCL_ALGO": values.pop("NCCL_ALGO", "ring")}
        facts = {"image": image, "environment": values, "variables": variables, "nodes": f"n{rng.randrange(9)}"}
        points.append(run(night, seconds, outcome=outcome, **facts))
    return Lived(RowHistory(tuple(points)), guilty, frozenset(others))


def judged(found: list[tuple[Lived, Since | None]]) -> tuple[int, int, int]:
    """In how many histories there is an onset, and the guilty change, and an innocent one, is named."""
    named = [(one, set(since.changes)) for one, since in found if since is not None]
    return (
        len(named),
        sum(one.guilty in names for one, names in named),
        sum(bool(names - {one.guilty}) for one, names in named),
    )


def test_the_guilty_change_is_named_and_no_innocent_one() -> None:
    histories = [lived(seed, (0.07, 0.15), 60, (1, 12), 1) for seed in range(200)]
    known, guilty, innocent = judged([(one, one.past.since) for one in histories])
    assert (known, innocent) == (200, 0)
    assert guilty >= 190
    for past in (one.past for one in histories):
        assert [one.since for one in alarms(regressions(KEY, past), (), 0.0)][:1] == [past.since]


def test_the_guilty_change_of_a_drift_is_named_and_no_innocent_one() -> None:
    histories = [lived(seed, (0.03, 0.045), 100, (20, 40), 4) for seed in range(200)]
    found = [(one, None if one.past.drifting is None else one.past.drifting.onset) for one in histories]
    known, guilty, innocent = judged(found)
    assert (known, innocent) == (200, 0)
    assert guilty >= 190
    for past in (one.past for one in histories):
        (alarm,) = alarms(drifts(KEY, past), (), 0.0)
        assert past.drifting is not None
        assert alarm.since == past.drifting.onset


def points(values: str, slow: int) -> list[Point]:
    """A run for each letter, which is its driver; ``?`` is a run that does not know it. The last ones are slow."""
    outcomes = ["passed"] * (len(values) - slow) + ["regressed"] * slow
    known = [{} if driver == "?" else {"driver": driver} for driver in values]
    return [
        run(number, outcome=outcome, environment=environment)
        for number, (outcome, environment) in enumerate(zip(outcomes, known, strict=True))
    ]


@pytest.mark.parametrize(
    ("values", "slow", "named"),
    [
        ("AAAB", 1, "AB"),
        ("AAABB", 1, ""),  # a good run had it
        ("AAABBC", 1, "BC"),
        ("AAABBA", 1, ""),  # taken back: good runs had that as well
        ("AAABC", 2, "AB"),  # what came later is no cause
        ("AB", 1, "AB"),
        ("ABC", 1, ""),
        ("ABCDEF", 1, ""),
        ("AAA?B", 1, ""),  # the last good run may have had it
        ("AA?AB", 1, "AB"),
        ("AAA?", 1, ""),
    ],
)
def test_what_the_first_slow_run_has_and_no_good_run_before_it_had(values: str, slow: int, named: str) -> None:
    since = RowHistory(tuple(points(values, slow))).since
    assert since is not None
    assert dict(since.changes) == ({"driver": tuple(named)} if named else {})
    assert since.changed_then == bool(named)


def test_nodes_and_variables_are_named_unless_they_differ_in_every_run() -> None:
    good = [run(number, variables={"TP": "4", "SEED": f"{number}"}) for number in range(6)]
    first = run(6, nodes="n2", variables={"TP": "4", "SEED": "6", "NCCL_IB_DISABLE": "1"})
    assert changed(good, first) == {"nodes": ("n1", "n2"), "NCCL_IB_DISABLE": ("not set", "1")}
    elsewhere = [replace(one, nodes=f"n{number}") for number, one in enumerate(good)]
    assert set(changed(elsewhere, first)) == {"NCCL_IB_DISABLE"}


def test_confirming_jobs_on_other_nodes_are_no_change_of_nodes() -> None:
    slow = [run(6, 1.1, outcome="regressed", job_id=f"{job}", nodes=f"n{job}") for job in (1, 2, 3)]
    since = RowHistory((*(run(number) for number in range(6)), *slow)).since
    assert since is not None
    assert since.changes == {}


def test_then_is_said_of_a_change_that_came_with_the_first_slow_run_alone() -> None:
    runs = points("AAABB", 1)
    runs[3] = replace(runs[3], outcome="inconclusive")
    since = RowHistory(tuple(runs)).since
    assert since is not None
    assert (dict(since.changes), since.changed_then) == ({"driver": ("A", "B")}, False)
    assert (since.runs, since.good) == (1, runs[2])


@pytest.mark.parametrize(
    ("outcomes", "first", "runs"),
    [
        ("pr", 1, 1),
        ("prr", 1, 2),
        ("pir", 2, 1),  # an inconclusive run raises no alarm
        ("pri", 1, 2),  # and ends none
        ("prprp r", 1, 3),  # nor does a single good one
        ("prppr", 1, 2),  # a regression that returns within a week goes on
        ("pii", 1, 2),
        ("pf", 1, 1),
        ("pp", None, 0),
    ],
)
def test_since_when_a_row_is_in_its_state(outcomes: str, first: int | None, runs: int) -> None:
    words = {"p": "passed", "r": "regressed", "i": "inconclusive", "f": "improved"}
    past = RowHistory(tuple(run(n, outcome=words[one]) for n, one in enumerate(outcomes.replace(" ", ""))))
    assert (None if past.since is None else (past.since.time_s, past.since.runs)) == (
        None if first is None else (past.points[first].begin_s, runs)
    )
