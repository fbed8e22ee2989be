"""Which node differs from its peers, and in what; and that no output of a probe breaks or fills a record."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_gsw.common.typed_json import plain, read
from pytest_gsw.results.node_facts import NodeFacts, compare, drift_table, finding_lines, smoke_findings, why_lines
from tests.messages import wording

from .probe_texts import DRIVER_470, DRIVER_535, DRIVER_580, FAULTS, Facts, cluster, put, text

#: The whole 200 of each, and more nodes: benchmarks/node_facts.py.
CASES = 44


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - noise, not cryptography


def names(nodes: int) -> list[str]:
    return [f"pool0-{number:04}" for number in range(1, nodes + 1)]


def facts_of(readings: list[Facts], nodes: int) -> NodeFacts:
    return compare(text(readings[0]), text(readings[1]), names(nodes))


@pytest.mark.sampled(11)
@pytest.mark.parametrize("case", range(CASES))
def test_one_fault_is_named_and_quiet_nodes_are_not(case: int) -> None:
    rng = seeded(case)
    nodes, fault = rng.choice([8, 8, 12, 16]), FAULTS[case % len(FAULTS)]
    readings = cluster(nodes, rng, driver=fault.driver)
    assert facts_of(readings, nodes).findings == ()
    node = rng.choice(names(nodes))
    unit = put(fault, readings, node, f"gpu{rng.randrange(8)}", rng)
    first, *others = facts_of(readings, nodes).findings
    assert (first.kind, first.node, first.unit) == (fault.kind, node, unit)
    assert fault.name in {one.name for one in (first, *others)}
    assert {one.node for one in others} <= {node}


def test_all_faults_of_a_node_in_lines() -> None:
    rng = seeded(1)
    readings = cluster(32, rng, spread=0)
    first, last = readings
    node = "pool0-0017"
    begin = int(first[node, "gpu5", "us.SW Thermal Slowdown"].removesuffix(" us"))
    last[node, "gpu5", "us.SW Thermal Slowdown"] = f"{begin + 1_164_000_000} us"
    last[node, "gpu5", "temperature.gpu"] = "91"
    for reading in readings:
        reading[node, "gpu5", "clocks.current.sm"] = "480"
        reading[node, "gpu5", "clocks_event_reasons.active"] = "0x0000000000000020"
        reading["pool0-0031", "host", "governor"] = "schedutil"
        for gpu in range(8):
            reading["pool0-0031", f"gpu{gpu}", "driver_version"] = "580.95.05"
            reading["pool0-0003", f"gpu{gpu}", "enforced.power.limit"] = "500.00"
    last["pool0-0012", "mlx5_3/1", "symbol_error"] = str(int(first["pool0-0012", "mlx5_3/1", "symbol_error"]) + 1204)
    last["pool0-0013", "host", "log.xid"] = "1"
    last["pool0-0013", "host", "last.xid"] = "NVRM: Xid (PCI:0000:14:00): 79, GPU has fallen off the bus."
    thermal = "SW thermal slowdown 97 % of the run (median of 255 others 10 %)"
    assert why_lines(facts_of(readings, 32)) == [
        ("why", f"pool0-0017 GPU 5: {thermal}, SM clock 480 of 1,980 MHz (1,755), temperature 91 °C (61)"),
        ("why", "pool0-0003 GPUs 0-7: power limit 500 W (median of 255 others 700)"),
        ("differs", "pool0-0031: driver 580.95.05 (31 others 580.126.20), governor schedutil (performance)"),
        (
            "errors",
            "pool0-0013 GPU 4: 1 Xid (others 0), the last: NVRM: Xid (PCI:0000:14:00): 79, GPU has fallen off the bus.",
        ),
        ("errors", "pool0-0012 mlx5_3: 1,204 symbol errors during the job (others 0 to 2)"),
    ]


def test_nothing_differs() -> None:
    readings = cluster(32, seeded(2))
    (line,) = why_lines(facts_of(readings, 32))
    assert line == ("why", "nothing differs: 19 counters of 256 GPUs and 15 versions of 32 nodes (read twice)")
    hosts = {key: value for key, value in readings[1].items() if "gpu" not in key[1]}
    (line,) = why_lines(compare("", text(hosts), names(32)))
    assert line[1].startswith("nothing differs: 4 counters and 10 versions of 32 nodes (read once: growth")


# -- normal states --


@pytest.mark.parametrize(
    ("mask", "is_named"),
    [(0x0, True), (0x1, False), (0x4, False), (0x5, False), (0x8, True), (0x24, True), (0x2, True)],
)
@pytest.mark.parametrize("driver", [DRIVER_470, DRIVER_535, DRIVER_580])
def test_a_low_clock_of_an_idle_gpu_or_one_at_its_power_cap_is_normal(
    driver: str, mask: int, *, is_named: bool
) -> None:
    readings = cluster(8, seeded(3), driver=driver)
    for reading in readings:
        reading["pool0-0002", "gpu1", "clocks.current.sm"] = "480"
        for name in ("clocks_event_reasons.active", "clocks_throttle_reasons.active"):
            if ("pool0-0002", "gpu1", name) in reading:
                reading["pool0-0002", "gpu1", name] = f"0x{mask:016x}"
    findings = facts_of(readings, 8).findings
    assert ("SM clock" in {one.name for one in findings}) is is_named
    assert {(one.node, one.unit) for one in findings} <= {("pool0-0002", "gpu1")}


def test_a_power_cap_all_the_time_is_normal_and_so_is_throttling_of_all() -> None:
    readings = cluster(8, seeded(4))
    first, last = readings
    for key in first:
        if key[2] == "us.SW Thermal Slowdown":
            last[key] = f"{int(first[key].removesuffix(' us')) + 1_100_000_000} us"
    place = ("pool0-0003", "gpu0", "us.SW Power Capping")
    last[place] = f"{int(first[place].removesuffix(' us')) + 1_200_000_000} us"
    assert facts_of(readings, 8).findings == ()


def test_a_reason_in_one_reading_alone_is_a_moment() -> None:
    readings = cluster(8, seeded(5), driver=DRIVER_535)
    name = ("pool0-0003", "gpu0", "clocks_event_reasons.active")
    readings[1][name] = "0x0000000000000020"
    assert facts_of(readings, 8).findings == ()
    readings[0][name] = "0x0000000000000020"
    assert [one.name for one in facts_of(readings, 8).findings] == ["SW thermal slowdown"]


# -- unknown is never 0 --


@pytest.mark.parametrize(
    "value", ["[N/A]", "[Not Supported]", "N/A", "ERR!", "[Unknown Error]", "[GPU requires reset]", "", "nan"]
)
def test_unknown_values_are_not_compared(value: str) -> None:
    readings = cluster(8, seeded(6))
    for reading in readings:
        for name in ("clocks.current.sm", "enforced.power.limit", "driver_version", "clocks_event_reasons.active"):
            reading["pool0-0004", "gpu3", name] = value
        reading["pool0-0004", "mlx5_1/1", "rate"] = value
    findings = facts_of(readings, 8).findings
    assert {(one.kind, one.name) for one in findings} <= {("differs", "driver")}
    assert bool(findings) is (value == "nan")  # it is a text as good as any for a version


def test_counters_are_not_compared_after_a_restart_or_a_reset() -> None:
    readings = cluster(8, seeded(7))
    first, last = readings
    last["pool0-0002", "host", "begin"] = "100.00"
    last["pool0-0002", "mlx5_0/1", "symbol_error"] = "90000"
    last["pool0-0003", "mlx5_0/1", "symbol_error"] = "0"
    first["pool0-0003", "mlx5_0/1", "symbol_error"] = "90000"
    assert facts_of(readings, 8).findings == ()


def test_one_reading_compares_gauges_and_versions_alone() -> None:
    readings = cluster(8, seeded(8))
    last = readings[1]
    last["pool0-0002", "mlx5_0/1", "symbol_error"] = "90000"
    last["pool0-0003", "gpu2", "enforced.power.limit"] = "300.00"
    facts = compare("", text(last), names(8))
    assert [one.name for one in facts.findings] == ["power limit"]
    assert why_lines(facts)[-1] == ("facts", wording("read once"))


def test_a_last_reading_of_few_nodes_is_not_used() -> None:
    readings = cluster(8, seeded(9))
    few = {key: value for key, value in readings[1].items() if key[0] == "pool0-0001"}
    facts = compare(text(readings[0]), text(few), names(8))
    assert (facts.readings, facts.nodes, facts.silent) == (1, 8, "")


# -- versions --


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ("aaaaaaab", {"pool0-0008": "b"}),
        ("aaaaaabb", {"pool0-[0007-0008]": "b"}),
        ("aaaabbbb", {"": ""}),
        ("aabbccdd", {"": ""}),
        ("ab", {"": ""}),
        ("aab", {"pool0-0003": "b"}),
        ("aaaaaabc", {"pool0-0007": "b", "pool0-0008": "c"}),
        ("a", {}),
    ],
)
def test_outliers_of_a_majority_of_two_thirds(values: str, named: dict[str, str]) -> None:
    nodes = names(len(values))
    output = "".join(
        f"{node}\thost\t{name}\t{value}\n"
        for node, value in zip(nodes, values, strict=True)
        for name, value in (("governor", value), ("begin", "1"), ("end", "1"))
    )
    facts = compare("", output, nodes)
    assert {one.node: one.text for one in facts.findings} == named
    if "" in named:
        assert why_lines(facts)[0] == ("differs", f"governor has {len(set(values))} values, and no majority")


def test_a_gpu_that_is_missing_and_one_of_another_vbios() -> None:
    readings = cluster(8, seeded(10), spread=0)
    for reading in readings:
        for key in [key for key in reading if key[:2] == ("pool0-0005", "gpu7")]:
            del reading[key]
        reading["pool0-0002", "gpu3", "vbios_version"] = "96.00.74.00.02"
    assert [line for _, line in why_lines(facts_of(readings, 8))] == [
        "pool0-0002 GPU 3: VBIOS 96.00.74.00.02 (62 others 96.00.74.00.01)",
        "pool0-0005: GPUs 7 (7 others 8)",
    ]


def test_the_table_of_drift_has_the_newest_of_each_node() -> None:
    def run(**governors: str) -> NodeFacts:
        output = "".join(
            f"{node}\thost\tgovernor\t{value}\n{node}\thost\tbegin\t1\n" for node, value in governors.items()
        )
        return compare("", output, sorted(governors))

    old = run(n1="performance", n2="schedutil", n3="schedutil")
    new = run(n2="performance", n4="powersave")
    (row,) = drift_table([old, new])
    assert (row.name, row.value, row.count, row.nodes) == ("governor", "performance", 2, 4)
    assert row.outliers == {"powersave": "n4", "schedutil": "n3"}
    assert drift_table([]) == ()


# -- what was not read --


def test_nodes_that_answer_twice_or_not_at_all_or_in_part_are_named() -> None:
    readings = cluster(8, seeded(11))
    for reading in readings:
        for key in [key for key in reading if key[0] == "pool0-0002"]:
            del reading[key]
        reading["pool0-0003", "gpu1", "enforced.power.limit"] = "300.00"
        del reading["pool0-0004", "host", "end"]
    again = {key: value for key, value in readings[1].items() if key[0] == "pool0-0003"}
    facts = compare(text(readings[0]), text(readings[1]) + text(again), names(8), ["read in part: no end within 30 s"])
    assert facts.findings == ()
    assert why_lines(facts)[-1][1] == (
        "no answer from pool0-0002; answered twice, not compared: pool0-0003; incomplete: pool0-0004; "
        "read in part: no end within 30 s"
    )
    assert facts.nodes == 6


def test_fields_that_are_not_known_and_problems_of_nodes() -> None:
    readings = cluster(8, seeded(12))
    lines = "".join(
        f"{node}\thost\tunknown\t{name}\n{node}\thost\tproblem\tthe kernel log is not readable\n"
        for node in names(8)
        for name in ("clocks_throttle_reasons.active", "remapped_rows.failure")
    )
    facts = compare(text(readings[0]), text(readings[1]) + lines, names(8))
    assert why_lines(facts)[-1][1] == (
        "not known to the driver: remapped_rows.failure; pool0-[0001-0008]: the kernel log is not readable"
    )


def test_nothing_read() -> None:
    facts = compare("", "garbage\n", ["n1", "n2"], ["not read: this Slurm has no --overlap (before 20.11)"])
    assert why_lines(facts) == [("facts", wording("no probe possible"))]
    assert why_lines(compare("", "", ["n1", "n2"])) == [("facts", wording("none of either", nodes="n[1-2]"))]


# -- hostile output --

_NAMES = [
    "begin",
    "end",
    "clocks.current.sm",
    "driver_version",
    "symbol_error",
    "log.xid",
    "last.xid",
    "problem",
    "unknown",
    "rate",
    "GPUs",
    "x",
]
_VALUES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["nan", "inf", "-1", "1e999", "9" * 400, "0x" + "f" * 80, "[N/A]", "\x1b[31m7\x07", "\u202e7", "1"]
    ),
    st.integers(0, 10**20).map(str),
)
_LINES = st.lists(
    st.one_of(
        st.text(max_size=60),
        st.tuples(st.sampled_from(["n1", "n2", "n3", "n4", "n5", "m9"]), st.sampled_from(["host", "gpu0", "gpu1", "mlx5_0/1", "../x", "gpu9999"]), st.sampled_from(_NAMES), _VALUES).map("\t".join),
    ),
    max_size=60,
)  # fmt: skip


@given(_LINES, _LINES)
@example(["n1\thost\tbegin\t1\n" * 3], [])
def test_any_output_is_a_record_and_lines(first: list[str], last: list[str]) -> None:
    facts = compare("\n".join(first), "\n".join(last), ["n1", "n2", "n3", "n4", "n5"])
    encoded = json.dumps(vars(facts), default=plain, allow_nan=False)
    assert read(NodeFacts, json.loads(encoded)) == facts
    lines = why_lines(facts)
    assert lines
    assert all(line.isprintable() and len(line) < 3000 for _, line in lines)


def test_thousands_of_units_values_and_lines_are_bounded() -> None:
    nodes = names(64)
    rng = seeded(13)
    lines = [f"{node}\thost\tbegin\t1" for node in nodes]
    lines += [f"{node}\teth{unit}\tfirmware\t{rng.random()}" for node in nodes for unit in range(3000)]
    lines += [f"{rng.choice(nodes)}\thost\tproblem\t{number}" for number in range(50_000)]
    lines += [f"{rng.choice(nodes)}\thost\tunknown\tfield{number}" for number in range(50_000)]
    lines += [f"x{number}\thost\tbegin\t1" for number in range(200_000)]
    facts = compare("", "\n".join(lines), nodes)
    assert len(facts.findings) <= 40
    assert len(facts.problems) <= 8
    assert facts.unknown == ()
    assert len(json.dumps(vars(facts), default=plain)) < 100_000


def test_a_quiet_record_is_small() -> None:
    facts = facts_of(cluster(256, seeded(14)), 256)
    assert len(json.dumps(vars(facts), default=plain)) < 2_000


# -- a site's smoke test --


def test_nodes_below_their_peers_in_a_smoke_test() -> None:
    rng = seeded(15)
    lines = [f"{node}\tgemm_tflops {rng.uniform(735, 748):.0f} TFLOP/s" for node in names(32)]
    lines += [
        f"{node}\tall_reduce {rng.uniform(468, 474):.0f} GB/s\nnoise\n{node}\t\x1b[31mERROR 7" for node in names(32)
    ]
    assert smoke_findings("\n".join(lines), names(32)) == ()
    lines += [
        "pool0-0017\tgemm_tflops 612 TFLOP/s",
        "pool0-0017\tall_reduce 355 GB/s",
        "elsewhere\tgemm_tflops 1 TFLOP/s",
    ]
    ((kind, line),) = finding_lines(smoke_findings("\n".join(lines), names(32)))
    assert kind == "smoke"
    assert line.startswith("pool0-0017: all reduce 355 GB/s (median of 31 others 471, 46")
    assert ", gemm tflops 612 TFLOP/s (742, 735 to 748)" in line


def test_a_faster_node_and_few_nodes_are_not_named() -> None:
    lines = [f"{node}\tgemm 700" for node in names(8)]
    assert smoke_findings("\n".join([*lines[:7], "pool0-0008\tgemm 900"]), names(8)) == ()
    assert smoke_findings("n1\tgemm 700\nn2\tgemm 100\nn3\tgemm 700", ["n1", "n2", "n3"]) == ()


def test_findings_of_a_smoke_test_are_lines_of_the_facts() -> None:
    lines = "\n".join(f"{node}\tgemm {100 if node == 'pool0-0008' else 700}" for node in names(8))
    facts: Any = replace(facts_of(cluster(8, seeded(16)), 8), findings=smoke_findings(lines, names(8)))
    assert why_lines(facts) == [("smoke", "pool0-0008: gemm 100 (median of 7 others 700, 700 to 700)")]
