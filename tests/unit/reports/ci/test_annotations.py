"""Workflow commands as GitHub's runner reads them."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.common.text import escaped
from pytest_gsw.reports.ci.findings import github
from tests.unit.reports.ci.nights import RUN, SINCE, hostile_run, run_of, texts

#: In the order in which the runner puts them back, https://github.com/actions/runner, ActionCommand.cs.
DATA = {"%0D": "\r", "%0A": "\n", "%25": "%"}
PROPERTY = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}


class Command(NamedTuple):
    name: str
    properties: dict[str, str]
    data: str


def back(text: str, mapping: dict[str, str]) -> str:
    for replacement, token in mapping.items():
        text = text.replace(replacement, token)
    return text


def parsed(line: str) -> Command | None:
    """A line as the runner's TryParseV2 reads it."""
    line = line.lstrip()
    if not line.startswith("::") or (end := line.find("::", 2)) < 0:
        return None
    name, _, rest = line[2:end].partition(" ")
    pairs = (pair.split("=", 1) for pair in rest.strip().split(",") if pair)
    properties = {pair[0]: back(pair[1], PROPERTY) for pair in pairs if len(pair) == 2}
    return Command(name, properties, back(line[end + 2 :], DATA))


def test_a_command_for_each_finding() -> None:
    lines = github(RUN).splitlines()
    assert lines[0] == (
        "::error file=baselines/maxtext/llama2_70b.yaml,line=128,title=regressed%3A llama2_70b_fp8[H100x128]::"
        "throughput 205,201 tokens/s is 10.8 %25 below the documented 230,153 (allowed 5 %25)%0A"
        f"since {SINCE}, 3 runs%0A"
        "next: pytest --gsw-cluster=eos --gsw-confirm=4 'baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]'"
    )
    assert lines[-1] == "6 rows: 2 passed, 1 improved, 1 regressed, 1 inconclusive, 1 error, 1 of them drifts"
    commands = [parsed(line) for line in lines[:-1]]
    assert [command and (command.name, command.properties["line"]) for command in commands] == [
        ("error", "128"),
        ("error", "256"),
        ("warning", "512"),
        ("warning", "1024"),
        ("notice", "2048"),
    ]


def test_a_quiet_run_has_no_command() -> None:
    assert github(run_of(())) == "0 rows"


@given(st.text())
def test_the_runner_reads_what_was_written(text: str) -> None:
    assert back(escaped(text), DATA) == text
    assert back(escaped(text, in_property=True), PROPERTY) == text
    assert "\n" not in escaped(text)


@given(texts)
def test_nobody_gives_commands_but_us(text: str) -> None:
    run = hostile_run(text)
    lines = github(run).split("\n")
    commands = [command for line in lines if (command := parsed(line)) is not None]
    assert len(commands) == len(lines) - 1
    assert {command.name for command in commands} <= {"error", "warning", "notice"}
    assert all(set(command.properties) <= {"file", "line", "title"} for command in commands)
    assert all(text in command.data for command in commands if command.properties["title"].startswith("drift"))
