from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.clusters import Cluster, Submission
from pytest_gsw.common.node_lists import expand
from pytest_gsw.common.text import by_number
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.slurm.client import Output
from pytest_gsw.jobs.slurm.nodes import ClusterNodes, ask_nodes, check_tile, fits, tiles
from tests.messages import wording

#: Two leaf switches below two levels, as Slurm 22.05 and 24.11 print them.
TREE = """\
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n1,n2,n3,n4
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[5-8]
SwitchName=other Level=0 LinkSpeed=1 Nodes=m[1-8]
SwitchName=row Level=1 LinkSpeed=1 Nodes=n[1-8] Switches=s[1-2]
SwitchName=root Level=2 LinkSpeed=1 Nodes=n[1-8],m[1-8] Switches=row,other
"""
#: Of 24.11, with the larger ones of BlockSizes=4,8.
BLOCKS = """\
BlockName=b1 BlockIndex=0 Nodes=n1,n2,n3,n4 BlockSize=4
BlockName=b2 BlockIndex=1 Nodes=n[5-8] BlockSize=4
AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-8] BlockSize=8
"""
RESERVATION = (
    "ReservationName={name} StartTime=2026-11-27T01:58:49 EndTime=2026-11-27T02:58:49 Duration=01:00:00 Nodes={nodes} "
    "NodeCnt=2 Flags=SPEC_NODES TRES=cpu=32 Users=root State={state} MaxStartDelay=(null)\n"
)


def node(
    name: str, state: str = "idle", reason: str = "none", partition: str = "batch*", features: str = "h100"
) -> str:
    return f"{name}|{state}|{partition}|{features}|{reason}\n"


def slurm(
    sinfo: str, topology: str = "", reservations: str = "", asked: list[tuple[str, ...]] | None = None
) -> Callable[..., Output]:
    """A Slurm that answers with these texts."""

    def ask(command: tuple[str, ...]) -> Output:
        if asked is not None:
            asked.append(command)
        text = {"sinfo": sinfo, "topology": topology}.get(command[0] if command[0] == "sinfo" else command[-1])
        return Output(0, reservations if text is None else text, "")

    return ask


def found(
    sinfo: str,
    topology: str = "",
    reservations: str = "",
    *,
    sbatch: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
    partition: str | None = None,
    constraint: str | None = None,
) -> ClusterNodes:
    cluster = Cluster("eos", "slurm", submission=Submission(partition=partition, constraint=constraint, sbatch=sbatch))
    return ask_nodes(slurm(sinfo, topology, reservations), cluster, environ or {})


@pytest.mark.parametrize(
    "state",
    [
        *("idle", "mixed", "allocated", "allocated+", "completing", "planned", "mixed+planned", "mixed-"),
        *("idle~", "idle#", "idle!", "idle%", "idle@", "idle^", "reboot", "reboot^", "IDLE+CLOUD+POWERED_DOWN"),
    ],
)
def test_nodes_that_take_jobs(state: str) -> None:
    assert found(node("n1", state, "none")).usable == ("n1",)


@pytest.mark.parametrize(
    ("state", "reason", "why"),
    [
        ("drained", "NHC: ib0 down", "drained: NHC: ib0 down"),
        ("drained*", "fan | psu 2", "drained*: fan | psu 2"),
        ("draining@", "reboot ASAP", "draining@: reboot ASAP"),
        ("idle+drain", "x", "idle+drain: x"),
        ("down*", "none", "down*: not responding"),
        ("down*", "Not responding", "down*: Not responding"),
        ("idle*", "none", "idle*: not responding"),
        ("reboot*", "reboot requested : reboot issued", "reboot*: reboot requested : reboot issued"),
        ("idle$", "none", "idle$: maintenance"),
        ("reserved", "none", "reserved"),
        ("fail", "", "fail"),
        ("inval", "gres/gpu count low", "inval: gres/gpu count low"),
        ("dreaming", "none", "dreaming"),  # of a Slurm to come
        ("idle+dreaming", "none", "idle+dreaming"),
        ("", "none", "in no state"),
        ("\x1b[31midle", "none", "idle"),
        ("drained", "\x1b]0;x\x07a\tb\x9b \u202e " + "c" * 1000, f"drained: a b {'c' * 86}…"),
    ],
)
def test_nodes_that_take_no_jobs(state: str, reason: str, why: str) -> None:
    there = found(node("n1", state, reason) + node("n2"))
    assert (there.usable, there.unusable["n1"]) == (("n2",), why)


def test_a_line_feed_in_a_reason_makes_no_node_usable() -> None:
    there = found(node("n1", "down", "log:\nn1|idle|batch*|h100|\nn2|idle") + node("n2", "drained", "x"))
    assert there.usable == ()
    assert there.unusable == {"n1": "down: log:", "n2": "drained: x"}


def test_escape_sequences_are_in_no_name() -> None:
    red = "\x1b[31m"
    reservation = RESERVATION.format(name=f"{red}acceptance", nodes="n2", state="ACTIVE")
    topology = f"SwitchName=s{red}1 Level=0 Nodes=n1"
    there = found(node("n1") + node("n2") + node("n3", partition=f"{red}secret"), topology, reservation)
    assert (there.unusable, there.switches) == ({"n2": "reserved: acceptance"}, {"s1": ("n1",)})
    with pytest.raises(ConfigurationError, match="known: batch, secret\n"):
        found(node("n1") + node("n3", partition=f"{red}secret"), partition="x")


@given(st.text(alphabet="n1|idle*batch\n\x1b[]^,-() \u202e", max_size=200))
def test_any_text_is_taken(text: str) -> None:
    there = found(node("n9") + text, text, text)
    assert not set(there.usable) & set(there.unusable)
    assert all(why.isprintable() for why in there.unusable.values())


def test_nodes_of_several_partitions_in_natural_order() -> None:
    text = "".join(node(name, partition=one) for one in ("batch*", "long", "secret") for name in ("n10", "n9", one))
    assert found(text).usable == ("batch*", "n9", "n10")[1:]
    assert found(text, partition="long,secret").usable == ("long", "n9", "n10", "secret")
    assert found(text, partition="long,secret").partition == "long,secret"


def test_the_partition_is_that_of_the_jobs() -> None:
    text = "".join(node(f"n{number}", partition=one) for number, one in enumerate(("batch*", "a", "b", "c")))
    assert found(text).partition == "batch"
    assert found(text, environ={"SBATCH_PARTITION": "a"}).partition == "a"
    assert found(text, environ={"SBATCH_PARTITION": "a"}, partition="b").partition == "b"
    assert found(text, partition="b", sbatch=("-p", "c")).partition == "c"
    cluster = Cluster("eos", "slurm", environment={"SBATCH_PARTITION": "a"})
    assert ask_nodes(slurm(text), cluster, {"SBATCH_PARTITION": "b"}).partition == "a"


def test_the_cluster_is_that_of_the_jobs() -> None:
    asked: list[tuple[str, ...]] = []
    cluster = Cluster("eos", "slurm", submission=Submission(sbatch=("-M", "west")))
    ask_nodes(slurm("CLUSTER: west\n" + node("n1"), asked=asked), cluster, {"SLURM_CLUSTERS": "east"})
    assert [command[1] for command in asked] == ["--clusters=west"] * 3
    assert asked[0] == ("sinfo", "--clusters=west", "-a", "-N", "-h", "-o", "%N|%T|%P|%f|%E")


def test_options_that_keep_jobs_from_nodes() -> None:
    text = "".join(node(f"n{number}", features="h100,ib" if number < 4 else "a100") for number in range(1, 7))
    assert found(text, sbatch=("-x", "n[1-2]")).unusable == dict.fromkeys(("n1", "n2"), wording("excluded node"))
    assert found(text, sbatch=("--nodelist=n[2-3]",)).usable == ("n2", "n3")
    assert found(text, constraint="h100&ib").usable == ("n1", "n2", "n3")
    assert found(text, constraint="h100").unusable["n4"] == wording("no feature", feature="h100")
    assert len(found(text, constraint="ib|a100").usable) == 6
    assert len(found(text, constraint="[rack1*2&rack2*2]").usable) == 6  # left to Slurm
    with pytest.raises(ConfigurationError, match=wording("no nodes file")):
        found(text, sbatch=("--exclude=/home/me/slow.txt",))


def test_reserved_nodes_are_for_jobs_with_the_reservation() -> None:
    # Slurm shows nodes in a reservation as idle for some seconds, and busy ones as busy.
    text = node("n1") + node("n2", "reserved") + node("n3", "mixed$") + node("n4", "drained", "x") + node("n5", "maint")
    reservations = (
        RESERVATION.format(name="acceptance", nodes="n[2-4]", state="ACTIVE")
        + RESERVATION.format(name="tomorrow", nodes="n1", state="INACTIVE")
        + RESERVATION.format(name="licenses", nodes="(null)", state="ACTIVE")
    )
    there = found(text, "", reservations)
    assert there.usable == ("n1",)
    assert there.unusable == {
        "n2": "reserved: acceptance",
        "n3": "reserved: acceptance",
        "n4": "drained: x",
        "n5": "maint",  # of a reservation that is not shown to this user
    }
    there = found(text, "", reservations, sbatch=("--reservation=acceptance",))
    assert there.usable == ("n2", "n3")
    assert there.unusable["n1"] == wording("not reserved", reservation="acceptance")
    assert found(text, "", reservations, environ={"SBATCH_RESERVATION": "acceptance"}) == there
    with pytest.raises(ConfigurationError, match=wording("no reservation", name="aceptance", nearest="acceptance")):
        found(text, "", reservations, sbatch=("--reservation=aceptance",))


def test_leaf_switches_and_blocks() -> None:
    text = "".join(node(f"n{number}") for number in range(1, 10))
    leaves = {"s1": ("n1", "n2", "n3", "n4"), "s2": ("n5", "n6", "n7", "n8")}
    tree, blocks, nothing = (found(text, topology) for topology in (TREE, BLOCKS, ""))
    assert (tree.switches, tree.is_block) == (leaves, False)
    assert (blocks.switches, blocks.is_block) == ({"b1": leaves["s1"], "b2": leaves["s2"]}, True)
    assert (nothing.switches, nothing.is_block) == ({}, False)


@pytest.mark.parametrize(
    ("partition", "text", "message"),
    [
        ("bach", node("n1"), "Slurm has no partition 'bach' with nodes; did you mean 'batch'?\nknown: batch\n"),
        ("batch", "", "Slurm has no partition 'batch' with nodes\nknown: none\n"),
        (None, node("n1", partition="batch"), "Slurm has no default partition\nknown: batch\n"),
    ],
)
def test_a_partition_that_is_not_there(partition: str | None, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        found(text, partition=partition)
    assert str(caught.value) == (
        f"{message}asked: sinfo -a -N -h -o '%N|%T|%P|%f|%E'\n"
        "next: set `partition` in the cluster file; sinfo -a -s lists them"
    )


@pytest.mark.parametrize("which", ["sinfo", "topology", "reservation"])
def test_slurm_does_not_answer(which: str) -> None:
    def ask(command: tuple[str, ...]) -> Output:
        if which in command:
            return Output(1, "", "slurm_load_x error: Unable to contact slurm controller (connect failure)\n")
        return slurm(node("n1"))(command)  # type: ignore[no-any-return]

    with pytest.raises(ConfigurationError, match=wording("no controller")) as caught:
        ask_nodes(ask, Cluster("eos", "slurm"), {})
    assert "next: scontrol ping" in str(caught.value)


# -- tiles


def nodes_of(numbers: range, letter: str = "n") -> tuple[str, ...]:
    return tuple(f"{letter}{number}" for number in numbers)


#: Three switches of four; n2 and n11 take no jobs.
THREE = ClusterNodes(
    "batch",
    tuple(name for name in nodes_of(range(1, 14)) if name not in {"n2", "n11"}),
    {"n2": "drained: x", "n11": "down*: not responding"},
    {"s1": nodes_of(range(1, 5)), "s2": nodes_of(range(5, 9)), "s3": nodes_of(range(9, 13))},
)


def test_tiles_of_one_node() -> None:
    assert tiles("node", 1, THREE) == (THREE.usable, THREE.unusable)


def test_tiles_fill_switches_and_then_take_what_is_left_over() -> None:
    assert tiles("2", 2, THREE).names == ("n[1,3]", "n[4,12]", "n[5-6]", "n[7-8]", "n[9-10]")
    names, not_covered = tiles("4", 4, THREE)
    assert names == ("n[1,3-4,9]", "n[5-8]")
    assert not_covered == {
        "n2": "drained: x",
        "n10": wording("nodes left", nodes="3 nodes", size=4),
        "n11": "down*: not responding",
        "n12": wording("nodes left", nodes="3 nodes", size=4),
        "n13": wording("nodes left", nodes="3 nodes", size=4),
    }


def test_tiles_of_a_switch_lie_below_it() -> None:
    names, not_covered = tiles("switch", 2, THREE)
    assert names == ("n[1,3]", "n[5-6]", "n[7-8]", "n[9-10]")
    assert not_covered == {
        "n2": "drained: x",
        "n4": wording("nodes left", nodes="s1 has 1 node", size=2),
        "n11": "down*: not responding",
        "n12": wording("nodes left", nodes="s3 has 1 node", size=2),
        "n13": "in no switch",
    }


def test_without_a_topology_tiles_are_in_natural_order() -> None:
    there = ClusterNodes("batch", nodes_of(range(8, 13)))
    assert tiles("2", 2, there) == (("n[8-9]", "n[10-11]"), {"n12": wording("nodes left", nodes="1 node", size=2)})


def test_a_tile_lies_on_no_more_blocks_than_slurm_allows() -> None:
    blocks = ClusterNodes("batch", THREE.usable[:-1], THREE.unusable, THREE.switches, is_block=True)
    names, not_covered = tiles("4", 4, blocks)
    assert names == ("n[5-8]",)
    assert not_covered["n12"] == wording("nodes left", nodes="s3 has 3 nodes", size=4)
    assert tiles("6", 6, blocks).names == ("n[1,3-7]",)
    assert tiles("7", 7, blocks).names == ("n[1,3-8]",)
    assert tiles("8", 8, blocks).names == ()


def test_tiles_of_some_nodes() -> None:
    assert tiles("node", 1, THREE, "n[1-3]") == (("n1", "n3"), {"n2": "drained: x"})
    with pytest.raises(ConfigurationError) as caught:
        tiles("node", 1, THREE, "n[1-3],m12")
    assert str(caught.value) == (
        wording("no such node", option="--gsw-tile", name="m12", partition="batch", nearest="n12")
        + "\n"
        + wording("next sinfo", partition="batch")
    )


@pytest.mark.parametrize(
    ("kind", "size", "does"),
    [
        *(("node", 1, True), ("node", 2, False), ("4", 4, True), ("4", 2, False)),
        *(("switch", 1, True), ("switch", 4, True), ("switch", 5, False)),
    ],
)
def test_rows_that_fit(kind: str, size: int, does: bool) -> None:
    assert fits(kind, size, THREE) is does


@pytest.mark.parametrize(
    ("kind", "switches", "is_block", "message"),
    [
        ("switch", {}, False, "this Slurm knows no switches\nasked: scontrol show topology, for the nodes of the part"),
        ("block", {}, False, "this Slurm knows no blocks\n"),
        ("switch", {"b1": ("n1",)}, True, "this Slurm knows blocks, and no switches\n"),
        ("block", {"s1": ("n1",)}, False, "this Slurm knows switches, and no blocks\n"),
    ],
)
def test_a_topology_that_is_not_there(
    kind: str,
    switches: Mapping[str, tuple[str, ...]],
    is_block: bool,
    message: str,
) -> None:
    there = ClusterNodes("batch", ("n1",), {}, switches, is_block)
    advice = f"--gsw-tile={'block' if is_block else 'switch'}" if switches else "--gsw-tile=4, a number of nodes"
    for call in (fits, tiles):
        with pytest.raises(ConfigurationError) as caught:
            call(kind, 1, there)
        assert str(caught.value).startswith(f"--gsw-tile={kind}: {message}")
        assert str(caught.value).endswith(f"\nnext: {advice}")


@pytest.mark.parametrize(
    ("text", "kind", "only"),
    [
        *(("node", "node", ""), ("switch", "switch", ""), ("block", "block", ""), ("16", "16", "")),
        ("node:pool0-[0001-0256]", "node", "pool0-[0001-0256]"),
    ],
)
def test_the_option(text: str, kind: str, only: str) -> None:
    assert check_tile(text) == (kind, only)


@pytest.mark.parametrize("text", ["rack", "", "0", "-1", "04", "4.5", "٤", "4 ", "1234567", ":n1", "n1"])
def test_a_kind_that_there_is_not(text: str) -> None:
    with pytest.raises(ConfigurationError, match=wording("kinds of tiles")):
        check_tile(text)


@pytest.mark.parametrize(("text", "message"), [("Swich", "did you mean 'switch'"), ("node:", "no nodes behind")])
def test_a_word_that_is_misspelt(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_tile(text)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterNodes:
    """Nodes on leaves of any size, some of which overlap, or have nodes of no partition."""
    names = [f"n{number}" for number in range(1, draw(st.integers(1, 30)))]
    states = {name: draw(st.sampled_from(["", "", "", "down"])) for name in names}
    lists = draw(st.lists(st.lists(st.sampled_from([*names, "elsewhere"]), min_size=1, max_size=12), max_size=6))
    leaves = {f"s{number}": tuple(dict.fromkeys(nodes)) for number, nodes in enumerate(lists)}
    return ClusterNodes(
        "batch",
        tuple(name for name in names if not states[name]),
        {name: why for name, why in states.items() if why},
        leaves,
        draw(st.booleans()),
    )


@given(clusters(), st.sampled_from(["node", "number", "leaf"]), st.integers(1, 9), st.data())
def test_each_node_is_in_one_tile_or_named(there: ClusterNodes, way: str, size: int, data: st.DataObject) -> None:
    known = [*there.usable, *there.unusable]
    chosen = data.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    leaf = "block" if there.is_block else "switch"
    kind = {"node": "node", "number": str(size), "leaf": leaf if there.switches else str(size)}[way]
    size = 1 if kind == "node" else size

    names, not_covered = tiles(kind, size, there, ",".join(chosen))

    lists = [expand(name) for name in names]
    covered = [node for nodes in lists for node in nodes]
    assert all(len(nodes) == size for nodes in lists)
    assert len(covered) == len(set(covered))
    assert sorted([*covered, *not_covered]) == sorted(chosen or known)
    assert set(covered) <= set(there.usable)
    assert all(not_covered.values())
    assert [by_number(nodes[0]) for nodes in lists] == sorted(by_number(nodes[0]) for nodes in lists)
    if kind in {"switch", "block"}:
        assert all(any(set(nodes) <= set(leaf) for leaf in there.switches.values()) for nodes in lists)
    elif not there.is_block:
        assert len(not_covered) - len(set(not_covered) & set(there.unusable)) < size
