"""A row that was called regressed never widens its own noise or level: runs that are judged by those before."""

from __future__ import annotations

import math
import random
from collections.abc import Collection

import pytest

from pytest_gsw.history.alarms import regressions
from pytest_gsw.history.model import ExperimentKey, Point
from pytest_gsw.history.row_history import ClusterHistory, RowHistory
from pytest_gsw.stats.cluster_effect import decide_adjusted
from pytest_gsw.stats.decision import Outcome, decide
from pytest_gsw.stats.noise import Noise
from tests.unit.history.test_drift import run

#: Good runs, and those that are slower by a tenth or, in capitals, by a fifth.
PATTERNS = [
    "....sssss..s",
    ".s" * 10,
    "sss......s",
    "..ss" * 5,
    "........sssss..s",
    "....ssssssssss..s",
    "s" + "..s" * 6,
    "." * 10 + "sss.." * 3 + "s",
    "." * 10 + "s.." * 8 + "s",
    "." * 30 + "sssss..s",
    ".....SSss..S..s",
]
LOSSES = {".": 1.0, "s": 0.9, "S": 0.8}


def lived(pattern: str, rows: int, slow: Collection[int], sigma: float = 0.008) -> tuple[list[str], list[RowHistory]]:
    """How the first row was judged on each run with --gsw-confirm=4, ``incident`` where the cluster is; the pasts."""
    rng = random.Random(pattern)  # noqa: S311 - noise, not cryptography
    points: list[list[Point]] = [[] for _ in range(rows)]
    said = []
    for number, kind in enumerate(pattern):
        jobs = [
            [math.exp(rng.gauss(0, sigma)) / (LOSSES[kind] if row in slow else 1.0) for _ in range(5)]
            for row in range(rows)
        ]
        histories = [RowHistory(tuple(one)) for one in points]
        together = ClusterHistory({f"{row}": past for row, past in enumerate(histories)})
        current_run = together.current_run({f"{row}": jobs[row][0] for row in range(rows)})
        for row, past in enumerate(histories):
            beside = current_run.effect_on(f"{row}", 0.05)
            count, outcome, reason = 0, Outcome.INCONCLUSIVE, ""
            more = 1
            while more:
                count += more
                if beside is None:
                    noise = past.noise(0.05) or Noise(0.0, 0)
                    decision = decide(jobs[row][:count], 1.0, 0.05, noise, confirm=4)
                    outcome, more = decision.outcome, decision.more
                else:
                    joint = decide_adjusted(jobs[row][:count], 1.0, 0.05, beside, confirm=4)
                    outcome, more, reason = joint.outcome, joint.more, "incident" if joint.is_part else ""
            points[row] += [
                run(number, job_s, job_id=f"{number}-{row}-{job}", outcome=outcome.value, reason=reason)
                for job, job_s in enumerate(jobs[row][:count])
            ]
            if row == 0:
                said.append(reason or outcome.value)
    return said, [RowHistory(tuple(one)) for one in points]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_row_that_was_slow_before_regresses_again(pattern: str) -> None:
    said, (past,) = lived(pattern, 1, {0})
    assert said == ["passed" if kind == "." else "regressed" for kind in pattern]
    noise = past.noise(0.05)
    assert noise is not None
    assert noise.sigma < 0.017


@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_regresses_again_beside_others_that_are_sound(pattern: str) -> None:
    said, _ = lived(pattern, 9, {0})
    assert said == ["passed" if kind == "." else "regressed" for kind in pattern]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_cluster_that_was_slow_before_is_found_again(pattern: str) -> None:
    said, histories = lived(pattern, 9, range(9))
    for kind, one in zip(pattern, said, strict=True):
        assert one in ({"passed"} if kind == "." else {"regressed", "incident"})
    before = ClusterHistory({f"{row}": past for row, past in enumerate(histories)}).before
    assert before.noise is None or before.noise.sigma < 0.01


def test_the_old_alarm_is_back() -> None:
    _, (past,) = lived("....sssss..s", 1, {0})
    (alarm,) = regressions(ExperimentKey("row", "eos", "0123"), past)
    assert [seen.run_id for seen in alarm.runs] == [f"night-{number:03}" for number in (4, 5, 6, 7, 8, 11)]
    assert alarm.mended_s is None
