"""The file of an acceptance becomes a plan, or one error with all of its faults and their lines."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.acceptance.plan import Criteria, Plan, Stage, read_plan
from pytest_gsw.errors import ConfigurationError, FileError

PLAN = """\
acceptance: eos, phase 1
nodes: pool0-[0001-0256]            # the bill
stages:
  - name: nodes
    rows: gemm_bf16
    tile: node
    find: true
  - name: fabric
    rows: all_reduce or all_to_all
    marks: gsw(gpus=64)
    tile: 4
    on_failure: go on
  - name: documented
    rows: llama3_70b or llama2_70b
  - name: endurance
    rows: llama3.1_405b_fp8 and H100x1152
    for: 24h
criteria: {covered: 98 %, within: 5 %, goodput: 95 %}
"""


def read(tmp_path: Path, content: str) -> Plan:
    """The plan of a file with this content."""
    (tmp_path / "plan.yaml").write_text(content)
    return read_plan(tmp_path / "plan.yaml")


def faults(tmp_path: Path, content: str) -> list[str]:
    """The faults of a file with this content, without its name."""
    with pytest.raises(FileError) as caught:
        read(tmp_path, content)
    return [f"{fault.line}: {fault.key}: {fault.problem}" for fault in caught.value.faults]


def changed(old: str, new: str) -> str:
    """The plan with another text in place of one that it has."""
    assert old in PLAN
    return PLAN.replace(old, new)


def test_a_plan(tmp_path: Path) -> None:
    plan = read(tmp_path, PLAN)
    assert (plan.name, plan.path, len(plan.nodes)) == ("eos, phase 1", tmp_path / "plan.yaml", 256)
    assert (plan.nodes[0], plan.nodes[-1]) == ("pool0-0001", "pool0-0256")
    assert plan.stages == (
        Stage("nodes", 4, "gemm_bf16", tile="node", find=True),
        Stage("fabric", 8, "all_reduce or all_to_all", "gsw(gpus=64)", tile="4", goes_on=True),
        Stage("documented", 13, "llama3_70b or llama2_70b"),
        Stage("endurance", 15, "llama3.1_405b_fp8 and H100x1152", for_s=86400.0),
    )
    assert plan.criteria == Criteria(0.98, 0.05, 0.95)
    assert {key: plan.lines[key] for key in ("acceptance", "nodes", "covered", "goodput")} == {
        "acceptance": 1,
        "nodes": 2,
        "covered": 18,
        "goodput": 18,
    }
    assert (plan.text, plan.sha256) == (PLAN, hashlib.sha256(PLAN.encode()).hexdigest())


def test_a_bill_of_several_node_lists(tmp_path: Path) -> None:
    plan = read(tmp_path, changed("nodes: pool0-[0001-0256]", "nodes:\n  - m[1-2,7]\n  - n3.site,n4-ib0"))
    assert plan.nodes == ("m1", "m2", "m7", "n3.site", "n4-ib0")


@pytest.mark.parametrize(("text", "seconds"), [("24h", 86400), ("90m", 5400), ("20s", 20), ("3d", 259200)])
def test_a_duration(tmp_path: Path, text: str, seconds: float) -> None:
    assert read(tmp_path, changed("24h", text)).stages[-1].for_s == seconds


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("goodput: 95", "goodputt: 95", "18: criteria.goodputt: unknown key; did you mean 'goodput'?"),
        ("find: true", "fynd: true", "7: stages[0].fynd: unknown key; did you mean 'find'?"),
        ("nodes: pool", "bill: x\nnodes: pool", "2: bill: unknown key"),
        ("acceptance: eos, phase 1", "acceptance: ''", "1: acceptance: got '', wanted a text of one line"),
        ("acceptance: eos, phase 1", "acceptance: [a]", "1: acceptance: wanted a text of one line"),
        ("acceptance: eos, phase 1\n", "", "1: : missing 'acceptance'"),
        ("  - name: nodes", "  - name: fabric", "8: stages[1].name: 'fabric' is there twice, first in line 4"),
        ("    find: true", "    find: true\n    find: true", "8: stages[0].find: is there twice"),
        ("tile: node", "tile: nodes", "6: stages[0].tile: got 'nodes', wanted node, switch, block, or a number"),
        ("tile: node", "tile: node:n[1-4]", "6: stages[0].tile: got 'node:n[1-4]', wanted node, switch"),
        ("tile: node", "tile: 0", "6: stages[0].tile: got '0', wanted node"),
        ("tile: 4", "tile: 257", "11: stages[1].tile: wants 257 nodes, and the bill has 256"),
        ("find: true", "find: yes", "7: stages[0].find: got 'yes', wanted true or false"),
        ("    for: 24h", "    find: true\n    for: 24h", "17: stages[3].find: is only for a stage with 'tile'"),
        ("    tile: 4", "    tile: 4\n    for: 3h", "12: stages[1].for: is only for a stage without 'tile'"),
        ("24h", "24", "17: stages[3].for: got '24', wanted a duration such as 24h or 90m"),
        ("24h", "0h", "17: stages[3].for: got '0h', wanted a duration"),
        ("24h", "nan", "17: stages[3].for: got 'nan', wanted a duration"),
        ("24h", "99999d", "17: stages[3].for: got '99999d', wanted a duration"),
        ("go on", "stay", "12: stages[1].on_failure: got 'stay', wanted one of stop, go on"),
        ("98 %", "0 %", "18: criteria.covered: got '0 %', wanted a percentage"),
        ("98 %", "101%", "18: criteria.covered: got '101%', wanted a percentage"),
        ("98 %", ".nan", "18: criteria.covered: got '.nan', wanted a percentage"),
        ("5 %,", "100 %,", "18: criteria.within: got '100 %', wanted a percentage above 0% and below 100%"),
        ("{covered: 98 %, within: 5 %, goodput: 95 %}", "{}", "18: criteria: wanted covered, within or goodput"),
        ("criteria: {covered: 98 %, within: 5 %, goodput: 95 %}\n", "", "1: : missing 'criteria'"),
        ("nodes: pool0-[0001-0256]", "nodes: []", "2: nodes: is empty, wanted at least one entry"),
        ("nodes: pool0-[0001-0256]", "nodes: {a: b}", "2: nodes: wanted a list"),
        ("nodes: pool0-[0001-0256]", "nodes: [a, [b]]", "2: nodes[1]: wanted a node list"),
        ("pool0-[0001-0256]", "n[1-4],n[3-5],n4", "2: nodes: n[3-4] is there twice"),
        ("pool0-[0001-0256]", "\n  - n[1-4]\n  - m1\n  - n[4-5]", "5: nodes[2]: n4 is there twice"),
        ("pool0-[0001-0256]", "n[5-1]", "2: nodes: got 'n[5-1]', wanted a node list of less than 20,000 nodes"),
        ("pool0-[0001-0256]", "n[1-", "2: nodes: got 'n[1-', wanted a node list"),
        ("pool0-[0001-0256]", "n[1-2]m[1-2]", "2: nodes: got 'n[1-2]m[1-2]', wanted a node list"),
        ("pool0-[0001-0256]", "n[1-999999999999]", "2: nodes: got 'n[1-999999999999]', wanted a node list of less"),
        ("gemm_bf16", "''", "5: stages[0].rows: got '', wanted an expression of -k"),
        (
            "gemm_bf16",
            "gsw(gpus=8)",
            "5: stages[0].rows: got 'gsw(gpus=8)', wanted an expression of -k; facts, as in gpus=8, are for 'marks'",
        ),
        ("gemm_bf16", f"{'a' * 1001}", "5: stages[0].rows: has 1001 characters, wanted at most 1000"),
        ("on_failure: go on", "on_failure: [", "13: : is not YAML"),
    ],
)
def test_a_fault_has_its_line(tmp_path: Path, old: str, new: str, expected: str) -> None:
    (fault,) = faults(tmp_path, changed(old, new))
    assert fault.startswith(expected)


def test_all_faults_at_once(tmp_path: Path) -> None:
    content = changed("24h", "long").replace("98 %", "lots").replace("[0001-0256]", "[1,1]").replace("4\n", "four\n")
    assert [fault.split(":")[0] for fault in faults(tmp_path, content)] == ["2", "11", "17", "18"]


@pytest.mark.parametrize(
    ("criterion", "stage", "why"),
    [
        ("covered", "{name: a, for: 3h}", "no stage with 'tile' measures it"),
        ("within", "{name: a, tile: node}", "no stage without 'tile' and 'for' measures it"),
        ("goodput", "{name: a}", "no stage with 'for' measures it"),
    ],
)
def test_a_criterion_that_no_stage_measures(tmp_path: Path, criterion: str, stage: str, why: str) -> None:
    content = f"acceptance: a\nnodes: n[1-4]\nstages: [{stage}]\ncriteria:\n  {criterion}: 9%\n"
    assert faults(tmp_path, content) == [f"5: criteria.{criterion}: {why}"]


@pytest.mark.parametrize("stages", ["[]", "x", "[x]", "{a: b}", ""])
def test_stages_are_mappings(tmp_path: Path, stages: str) -> None:
    content = f"acceptance: a\nnodes: n1\nstages: {stages}\ncriteria: {{within: 5%}}\n"
    assert [fault for fault in faults(tmp_path, content) if fault.startswith("3: stages")]


def test_a_stage_without_a_name(tmp_path: Path) -> None:
    content = "acceptance: a\nnodes: n1\nstages: [{rows: x}]\ncriteria: {within: 5%}\n"
    assert faults(tmp_path, content) == ["3: stages[0]: missing 'name'"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is empty"),
        ("- a\n", "wanted a mapping of keys at the top of the file"),
        ("clusters: {}\n", "is of another kind, by its keys clusters: wanted acceptance, nodes, stages, criteria"),
        ("acceptance: &a [*a]\n", "once its aliases are written out"),
        ("acceptance: " + "[" * 30, "is nested too deeply"),
        ('acceptance: "\\e[31m"\nnodes: n1\n', "holds U+001B"),
    ],
)
def test_what_is_no_plan(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(FileError, match=problem.replace("+", r"\+")):
        read(tmp_path, content)


def test_an_expression_is_checked_where_it_is(tmp_path: Path) -> None:
    def check(text: str) -> str:
        raise ValueError(f"got '{text}', which is no expression")

    (tmp_path / "plan.yaml").write_text(PLAN)
    with pytest.raises(FileError) as caught:
        read_plan(tmp_path / "plan.yaml", check)
    assert [fault.line for fault in caught.value.faults] == [5, 9, 10, 14, 16]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        read_plan(tmp_path / "none.yaml")


@given(st.text(alphabet="acnode:stgr-[]{}, %1h&*'\n ", max_size=80), st.integers(0, len(PLAN)))
def test_any_text_is_a_plan_or_an_error(tmp_path_factory: pytest.TempPathFactory, text: str, at: int) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(PLAN[:at] + text + PLAN[at:])
    try:
        plan = read_plan(path)
    except ConfigurationError:
        return
    assert plan.nodes
    assert len({stage.name for stage in plan.stages}) == len(plan.stages) > 0
    assert len(set(plan.nodes)) == len(plan.nodes)
