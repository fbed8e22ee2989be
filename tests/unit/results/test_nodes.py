from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.results.nodes import expand, number_of


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


@pytest.mark.parametrize(
    ("nodes", "number"),
    [("n[001-002]", 2), ("n1", 1), ("a[1-3,7],m2", 5), ("", None), ("r[1-2]n[1-4]", None), ("n[1-x]", None)],
)
def test_how_many_nodes_a_list_names(nodes: str, number: int | None) -> None:
    assert number_of(nodes) == number
