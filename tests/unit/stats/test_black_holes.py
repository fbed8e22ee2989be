"""Which nodes fail each job at once, by the jobs of a session."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.stats.black_holes import NodeUse, black_holes


def use(text: str, number: int = 0) -> NodeUse:
    """``a n1,n2 3-4 failed``: row, nodes, start and end; ``3-`` still runs."""
    row, nodes, times, *failed = text.split(" ")
    start, _, end = times.partition("-")
    return NodeUse(row, f"{number}", frozenset(nodes.split(",")), float(start), float(end or math.inf), bool(failed))


def found(*texts: str) -> dict[str, tuple[str, bool, bool]]:
    """Each node with its rows, and if it is left out and proven."""
    holes = black_holes([use(text, number) for number, text in enumerate(texts)])
    return {one.node: (" ".join(one.rows), one.elsewhere > 0, one.is_proven) for one in holes}


A, B = "a n1 1-2 failed", "b n1 2-3 failed"
WORKS = "x n3 0-90"


@pytest.mark.parametrize(
    ("texts", "nodes"),
    [
        ((A, WORKS), {}),  # one row
        ((A, "a n1 2-3 failed", WORKS), {}),
        ((A, B), {"n1": ("a b", False, False)}),  # nothing works elsewhere
        ((A, B, "x n3 0-1"), {"n1": ("a b", True, False)}),  # it worked when the first one failed
        ((A, B, "x n3 0-0"), {"n1": ("a b", False, False)}),  # it ended before
        ((A, B, "x n3 0-"), {"n1": ("a b", True, False)}),
        ((A, B, WORKS, "a n2 5-70", "b n3 95-160"), {"n1": ("a b", True, True)}),
        ((A, B, WORKS, "a n2 5-70"), {"n1": ("a b", True, False)}),
        # The node works: the rows are broken.
        ((A, B, WORKS, "y n1 5-70"), {}),
        ((A, B, WORKS, "y n1 0-70"), {}),
        # It worked before that.
        ((A, B, WORKS, "y n1 0-1"), {"n1": ("a b", True, False)}),
        # A row that failed where others work is no witness, unless it works somewhere.
        ((A, B, "b n3 4-5 failed", WORKS), {}),
        ((A, B, "b n3 4-5 failed", WORKS, "b n2 9-99"), {"n1": ("a b", True, False)}),
        # Two of them.
        ((A, B, "a n2 4-5 failed", "b n2 5-6 failed", WORKS), {"n1": ("a b", True, False), "n2": ("a b", True, False)}),
        # A recipe that fails wherever it runs.
        ((A, B, "a n2 4-5 failed", "b n2 5-6 failed", "a n4 6-7 failed", "b n4 6-7 failed", WORKS), {}),
        # Of several nodes the one that all jobs have in common.
        (("a n1,n2 1-2 failed", "b n1,n4 2-3 failed", WORKS), {"n1": ("a b", True, False)}),
        (("a n1,n2 1-2 failed", "b n1,n2 2-3 failed", WORKS), {}),
        (("a n1,n2 1-2 failed", "b n1,n2 2-3 failed", "y n2,n3 5-70"), {"n1": ("a b", True, False)}),
        (("a n1,n2 1-2 failed", WORKS), {}),
        (("a n1,n2 1-2 failed", "b n3,n4 2-3 failed", "x n5 0-90"), {}),
        ((), {}),
    ],
)
def test_nodes_are_judged_by_their_jobs(texts: tuple[str, ...], nodes: dict[str, tuple[str, bool, bool]]) -> None:
    assert found(*texts) == nodes


_NODES = st.frozensets(st.sampled_from(["n1", "n2", "n3", "n4"]), min_size=1, max_size=3)
_TIMES = st.integers(0, 50)


@st.composite
def uses(draw: st.DrawFn) -> NodeUse:
    start_s = draw(_TIMES)
    return NodeUse(
        draw(st.sampled_from("abcde")), "7", draw(_NODES), start_s, start_s + draw(_TIMES), draw(st.booleans())
    )


@given(st.lists(uses(), max_size=25))
def test_no_node_is_found_by_one_row_or_by_a_job_that_works(jobs: list[NodeUse]) -> None:
    for hole in black_holes(jobs):
        assert len(set(hole.rows)) >= 2
        assert set(hole.moved) <= set(hole.rows)
        last_s = max((job.end_s for job in jobs if not job.failed and hole.node in job.nodes), default=0.0)
        blamed = [job for job in jobs if job.failed and hole.node in job.nodes and job.start_s >= last_s]
        assert set(hole.rows) <= {job.row for job in blamed}
