"""Whether a slow node explains a regression, and in which words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_gsw.history.suspects import Suspect
from pytest_gsw.history.texts import explaining, suspect_text
from pytest_gsw.performance.verdict import Outcome, Verdict
from tests.unit.history.test_drifting import night

ACCUSING = tuple(night(number, nodes="n[1-4]") for number in range(41))
SLOW = Suspect(("n2",), -0.098, ACCUSING, (), mended=False)
NOW_S = ACCUSING[-1].time_s + 86400


def verdict(*throughputs: float, limit: float | None = None) -> Verdict:
    times_s = tuple(1 / one for one in throughputs)
    median_s = sorted(times_s)[len(times_s) // 2]
    return Verdict(Outcome.REGRESSED, median_s, 1.0, 0.05, jobs_s=times_s, limit=limit)


@pytest.mark.parametrize(
    ("throughputs", "nodes", "explained"),
    [
        ((0.9,), ("n[1-8]",), True),
        ((0.9,), ("n[3-8]",), False),  # it ran elsewhere
        ((0.8,), ("n[1-8]",), False),  # it lost more than the node costs
        ((0.9, 0.89, 0.9), ("n[1-8]", "n2", "n[2-3]"), True),
        ((0.9, 0.89, 0.9), ("n[1-8]", "n9", "n[3-4]"), False),  # as slow without it
        ((0.9, 1.0, 0.9), ("n[1-8]", "n9", "n[2-3]"), True),
    ],
)
def test_what_a_slow_node_explains(throughputs: tuple[float, ...], nodes: tuple[str, ...], explained: bool) -> None:
    found = explaining([SLOW], verdict(*throughputs), [(one, NOW_S) for one in nodes])
    assert found == (SLOW if explained else None)


def test_the_limit_counts_where_it_is_wider_than_the_tolerance() -> None:
    assert explaining([SLOW], verdict(0.83, limit=0.1), [("n2", NOW_S)]) is SLOW
    assert explaining([SLOW], verdict(0.83), [("n2", NOW_S)]) is None


def test_the_node_that_explains_is_told_and_not_the_other() -> None:
    other = replace(SLOW, nodes=("n30",))
    assert explaining([other, SLOW], verdict(0.9), [("n[1-8]", NOW_S)]) is SLOW


def test_a_job_before_the_node_was_slow_is_not_explained() -> None:
    assert explaining([SLOW], verdict(0.9), [("n2", ACCUSING[0].time_s - 1)]) is None


def test_a_verdict_of_other_jobs_is_not_explained() -> None:
    assert explaining([SLOW], verdict(0.9, 0.9), [("n2", NOW_S)]) is None
    bare = Verdict(Outcome.REGRESSED, 1 / 0.9, 1.0, 0.05)
    assert explaining([SLOW], bare, [("n2", NOW_S)]) is SLOW


def test_in_words() -> None:
    assert suspect_text(SLOW) == "node n2 (-9.8 %, 41 jobs)"
    assert suspect_text(replace(SLOW, nodes=("n2", "n3", "n4"), accusing=ACCUSING[:1])) == (
        "one of n[2-4] (-9.8 %, 1 job)"
    )
