from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest

from pytest_gsw.stats.slow_nodes import JobEnd, failures, log_tail

NODES, ROWS, RUNS = 64, 9, 60
SIZES = (4, 8, 16, 32)
BAD = 17


def runs(
    seed: int,
    bad: Mapping[int, float] | None = None,
    of_rows: Mapping[int, float] | None = None,
    of_all: float = 0.0,
    together: Sequence[int] = (),
) -> list[JobEnd]:
    """Jobs on random nodes; by nodes, rows and runs, how often they fail."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    jobs = []
    for run in range(RUNS):
        is_bad_run = rng.random() < of_all
        for row in range(ROWS):
            nodes = set(rng.sample(range(NODES), SIZES[row % len(SIZES)]))
            if nodes.intersection(together):
                nodes.update(together)
            well = 0.3 if is_bad_run else 0.99
            well *= 1 - (of_rows or {}).get(row, 0.0)
            for node in nodes:
                well *= 1 - (bad or {}).get(node, 0.0)
            jobs.append(JobEnd(str(run), str(row), sum(1 << node for node in nodes), rng.random() > well))
    return jobs


def named(jobs: list[JobEnd]) -> list[tuple[int, ...]]:
    return [one.nodes for one in failures(jobs) if one.named]


def test_without_failures_there_are_none() -> None:
    assert failures([]) == failures([JobEnd("1", "a", 1, failed=False)]) == ()


def test_failures_are_counted_by_node() -> None:
    jobs = [JobEnd(str(run), "a", 1 << run % 3, failed=run == 4) for run in range(12)]
    (one,) = failures(jobs)
    assert (one.nodes, one.failed, one.of, one.named) == ((1,), 1, 4, False)
    assert one.usual == pytest.approx(1 / 12)


def test_a_node_that_fails_half_of_its_jobs_is_named_alone() -> None:
    for seed in range(10):
        found = failures(runs(seed, {BAD: 0.5}))
        assert [one.nodes for one in found if one.named] == [(BAD,)]


@pytest.mark.parametrize("noise", [{}, {"of_rows": {1: 0.5, 3: 0.3}}, {"of_all": 0.05}])
def test_sound_nodes_are_not_named(noise: dict[str, object]) -> None:
    """Whether jobs fail by chance, rows by themselves, or all of a run."""
    assert [one for seed in range(10) for one in named(runs(seed, **noise))] == []  # type: ignore[arg-type]


def test_nodes_that_always_run_together_are_named_together() -> None:
    (found,) = named(runs(1, {BAD: 0.5}, together=(BAD, 40)))
    assert found == (BAD, 40)


def test_two_nodes_are_both_named() -> None:
    assert sorted(named(runs(2, {BAD: 0.6, 40: 0.6}))) == [(BAD,), (40,)]


def test_a_row_that_always_runs_on_the_same_nodes_blames_none_of_them() -> None:
    jobs = [JobEnd(one.run, one.row, 15 << 4 * int(one.row), one.failed) for one in runs(3, of_rows={2: 0.6})]
    assert named(jobs) == []


def test_the_tail_at_the_ends() -> None:
    assert log_tail(0, 9, 0.0) == log_tail(3, 9, 1.0) == 0.0
    assert log_tail(1, 9, 0.0) == -math.inf
