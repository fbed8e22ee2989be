from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.common.node_lists import NodeSets, compressed, expand, named_nodes, number_of


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


@pytest.mark.parametrize(
    "nodes", ["n[" + "1-19999," * 2400 + "1]", "n[1-19999]," * 9 + "m", "n," * 30_000, "n[1-999999999]"]
)
def test_a_long_list_is_not_taken_apart(nodes: str) -> None:
    assert len(expand(nodes)) == 20_000
    assert number_of(nodes) is None


@pytest.mark.parametrize(
    ("names", "nodes"),
    [
        ((), ""),
        (("n17",), "n17"),
        (("n10", "m3", "n9", "n11"), "m3,n[9-11]"),
        (("n099", "n100", "n102"), "n[099-100,102]"),
        (("n09", "n10", "n9"), "n[09,9-10]"),
        (("n1.rack", "n2.rack", "localhost"), "localhost,n1.rack,n2.rack"),
        (("rack[1-2]n[1-2]", "n1", "n2"), "n[1-2],rack[1-2]n[1-2]"),
        (("0", "1"), "[0-1]"),
        (("login", "login1", "login2"), "login,login[1-2]"),
    ],
)
def test_names_as_a_node_list(names: tuple[str, ...], nodes: str) -> None:
    assert compressed(names) == nodes


@given(st.lists(st.from_regex(r"[a-c]?[0-2]{0,4}[0-9]?x?", fullmatch=True).filter(bool), min_size=1))
def test_a_node_list_has_the_nodes_that_it_is_made_of(names: list[str]) -> None:
    assert sorted(expand(compressed(names))) == sorted(set(names))


def test_nodes_in_a_message() -> None:
    assert named_nodes({"n3": 1, "n2": 4, "n1": 1}) == "n2 (4), n[1,3]"
    assert named_nodes({"n1": 2, "n2": 2}) == "n[1-2] (2 each)"
    scattered = {f"pool0-{number:04}": 1 for number in range(0, 40, 2)}
    assert named_nodes(scattered) == "pool0-[0000,0002,0004,0006,0008,0010] and 14 more"
    assert named_nodes({**scattered, "pool0-0038": 3}).startswith("pool0-0038 (3), pool0-[0000,")


def test_a_list_of_more_nodes_than_there_are_is_cut() -> None:
    assert len(expand("n[0-999999999]")) == 20_000
    sets = NodeSets()
    assert sets.of("n[0-99999999]").bit_count() == len(expand("n[0-99999999]"))


@given(st.text(max_size=80))
def test_no_text_is_too_hostile(text: str) -> None:
    assert len(expand(text)) <= 20_000


@pytest.mark.parametrize(
    ("nodes", "number"),
    [("n[001-002]", 2), ("n1", 1), ("a[1-3,7],m2", 5), ("", None), ("r[1-2]n[1-4]", None), ("n[1-x]", None)],
)
def test_how_many_nodes_a_list_names(nodes: str, number: int | None) -> None:
    assert number_of(nodes) == number


@pytest.mark.parametrize(
    "nodes",
    [
        "pool0-[0017-0019],m3",
        "n[8-12],n10,n[08-09]",
        "n[1,3-4]-ib,n3-ib",
        "rack1[01-04],rack103",
        "a[1-2][3-4],b]",
        "n[5-3],n[x]",
        "n[" + "9" * 5000 + "]",
        "",
    ],
)
def test_sets_hold_what_lists_name(nodes: str) -> None:
    sets = NodeSets()
    before = sets.of("n[9-10],m3,rack102")
    assert sets.of(nodes) == sum(sets.bits[name] for name in set(expand(nodes)))
    assert sets.of("rack102,m3,n9,n10") == before
    assert list(sets.bits.values()) == [1 << number for number in range(len(sets.bits))]
