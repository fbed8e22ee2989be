from __future__ import annotations

import pytest

from pytest_gsw.demo.simulation import FAULTS, DemoFault, fault_of, parse_faults
from pytest_gsw.errors import ConfigurationError

ROW = "llama2_70b_fp8[H100x128]"


def test_patterns_and_arguments() -> None:
    # Nothing is no fault.
    assert parse_faults("") == ()
    assert parse_faults(" ; ") == ()
    assert parse_faults(" grok1*=slow:12% ;*x128]=exit:3; ") == (
        DemoFault("grok1*", "slow", 12.0),
        DemoFault("*x128]", "exit", 3),
    )


def test_every_fault_of_the_table_can_be_written() -> None:
    for usage in FAULTS:
        text = usage.replace("P%", "12.5%").replace("N", "7")
        assert parse_faults(f"node:*={text}")[0].word == usage.partition(":")[0]


def test_the_last_match_wins() -> None:
    faults = parse_faults("*=fail;llama2*[H100x128]=slow:12%;grok1*=stall")
    assert fault_of(ROW, faults) == DemoFault("llama2*[H100x128]", "slow", 12.0)
    assert fault_of("gpt3_175b_fp8[H100x128]", faults) == DemoFault("*", "fail")
    assert fault_of(ROW, parse_faults("grok1*=stall")) is None


def test_a_fault_of_a_node_is_one_of_the_jobs_that_have_it() -> None:
    faults = parse_faults("node:demo-0?=slow:12%;node:demo-14=lost:400;node:demo-11=down")
    slow, lost, down = faults
    assert fault_of(ROW, faults) is None
    assert fault_of(ROW, faults, ["demo-15", "demo-16"]) is None
    assert fault_of(ROW, faults, ["demo-10", "demo-06"]) == slow
    assert fault_of(ROW, faults, ["demo-06", "demo-14"]) == lost
    assert (lost.argument, lost.of_nodes(["demo-06", "demo-14"])) == (400, ["demo-14"])
    assert down.of_nodes(["demo-10", "demo-11"]) == ["demo-11"]
    assert DemoFault("*", "lost", 7).of_nodes(["demo-06"]) == ["demo-06"]


def test_only_a_node_is_down() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_faults("llama2*=down")
    assert str(caught.value) == "--gsw-demo: got 'llama2*=down', wanted a node such as node:demo-06=down"


def test_time_factor() -> None:
    assert DemoFault("*", "slow", 12.0).time_factor == pytest.approx(1.12)
    assert DemoFault("*", "fast", 10.0).time_factor == pytest.approx(0.90)
    assert DemoFault("*", "exit", 3).time_factor == 1


def test_a_misspelt_fault_is_told_the_nearest_and_all_others() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_faults("*=fail;grok1*=slwo:12%")
    first, *rest = str(caught.value).splitlines()
    assert first == "--gsw-demo: unknown fault 'slwo' in 'grok1*=slwo:12%'; did you mean 'slow'?"
    assert rest[0] == "faults:"
    assert rest[1] == "  slow:P%         every step takes P % longer"
    assert len(rest) == 1 + len(FAULTS)


@pytest.mark.parametrize("part", ["fail", "=fail"])
def test_a_fault_needs_a_pattern(part: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_faults(part)
    assert str(caught.value) == f"--gsw-demo: got '{part}', wanted PATTERN=FAULT such as 'llama2*=slow:12%'"


@pytest.mark.parametrize(
    ("fault", "wanted"),
    [
        ("slow", "slow:P%"),
        ("slow:", "slow:P%"),
        ("slow:12", "slow:P%"),
        ("slow:-3%", "slow:P%"),
        ("fast:100%", "fast:P%"),
        ("exit:0", "exit:N"),
        ("exit:256", "exit:N"),
        ("lost:0", "lost:N"),
        ("lost:100000", "lost:N"),
        ("fail:3", "fail"),
        ("fail:", "fail"),
    ],
)
def test_a_wrong_argument(fault: str, wanted: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_faults(f"*={fault}")
    assert str(caught.value).startswith(f"--gsw-demo: got '{fault}' in '*={fault}', wanted '{wanted}'\nfaults:\n")
