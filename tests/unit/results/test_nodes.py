from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.results.nodes import changes_by_node, expand, slowest


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("", ()),
        ("n17", ("n17",)),
        ("n17,m3", ("n17", "m3")),
        ("pool0-[0017-0019]", ("pool0-0017", "pool0-0018", "pool0-0019")),
        ("n[1-3,7],m2", ("n1", "n2", "n3", "n7", "m2")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("n[1-2].rack", ("n1.rack", "n2.rack")),
        ("rack[1-2]n[1-2]", ("rack[1-2]n[1-2]",)),  # two brackets are left as they are
        ("n[a-b]", ("n[a-b]",)),
        ("n[3-1]", ()),
        ("localhost", ("localhost",)),
    ],
)
def test_a_node_list(nodes: str, names: tuple[str, ...]) -> None:
    assert expand(nodes) == names


def test_a_list_of_more_nodes_than_there_are_is_cut() -> None:
    assert len(expand("n[0-999999999]")) == 20_000


@given(st.text(max_size=80))
def test_no_text_is_too_hostile(text: str) -> None:
    assert len(expand(text)) <= 20_000


def test_jobs_by_node() -> None:
    assert changes_by_node([("n[1-2]", -0.1), ("n2", 0.0)]) == {"n1": [-0.1], "n2": [-0.1, 0.0]}


def test_the_slowest_nodes() -> None:
    healthy = [(f"n{number}", 0.0) for number in range(3, 9)]
    changes = [("n1", -0.09), ("n[1,3]", -0.07), ("n2", -0.04), ("n2", -0.03), *healthy, *healthy]
    assert slowest(changes, most=3, by=0.02) == [("n1", pytest.approx(-0.08), 2), ("n2", pytest.approx(-0.035), 2)]
    assert slowest(changes, most=1, by=0.02) == [("n1", pytest.approx(-0.08), 2)]


def test_one_slow_row_says_nothing_of_its_nodes() -> None:
    assert slowest([("n[1-8]", -0.2), ("n[9-16]", 0.0), ("n[17-24]", 0.0)], most=3, by=0.02) == []


def test_a_slow_night_says_nothing_of_a_node() -> None:
    assert slowest([("n1", -0.1), ("n1", -0.1), ("n2", -0.1), ("n2", -0.1)], most=3, by=0.02) == []
