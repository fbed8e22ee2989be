"""Workflow commands as GitHub's runner reads them, and GitLab's report."""

from __future__ import annotations

import json
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.common.words import escaped
from pytest_gsw.reports.ci.annotations import github, gitlab
from pytest_gsw.reports.night import Night
from tests.unit.reports.ci.nights import ERROR, NIGHT, REGRESSED, SINCE, hostile_night, night_of, texts
from tests.unit.results.records import varied

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
    lines = github(NIGHT).splitlines()
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


def test_a_quiet_night_has_no_command() -> None:
    assert github(night_of(())) == "0 rows"


@given(st.text())
def test_the_runner_reads_what_was_written(text: str) -> None:
    assert back(escaped(text), DATA) == text
    assert back(escaped(text, in_property=True), PROPERTY) == text
    assert "\n" not in escaped(text)


@given(texts)
def test_nobody_gives_commands_but_us(text: str) -> None:
    night = hostile_night(text)
    lines = github(night).split("\n")
    commands = [command for line in lines if (command := parsed(line)) is not None]
    assert len(commands) == len(lines) - 1
    assert {command.name for command in commands} <= {"error", "warning", "notice"}
    assert all(set(command.properties) <= {"file", "line", "title"} for command in commands)
    assert all(text in command.data for command in commands if command.properties["title"].startswith("drift"))


# ---- GitLab, https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format


def assert_code_quality(text: str) -> list[dict[str, object]]:
    """What GitLab asks of a report: these five of each entry, one of five severities, one entry for a fingerprint."""
    report = json.loads(text)
    assert isinstance(report, list)
    for entry in report:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert entry["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert set(entry["location"]) == {"path", "lines"}
        assert isinstance(entry["location"]["lines"]["begin"], int)
        assert not entry["location"]["path"].startswith("./")
        assert all(isinstance(entry[name], str) for name in ("description", "check_name", "fingerprint"))
    assert len({entry["fingerprint"] for entry in report}) == len(report)
    return report


def test_an_entry_of_code_quality() -> None:
    report = assert_code_quality(gitlab(NIGHT))
    assert report[0] == {
        "description": "llama2_70b_fp8[H100x128]: throughput 205,201 tokens/s is 10.8 % below the documented 230,153 "
        "(allowed 5 %)",
        "check_name": "gsw-regressed",
        "fingerprint": "9a3bf4b00da3437c8de7642670138e29eb48668e590fdeea9329caaa6a8690c0",
        "severity": "critical",
        "location": {"path": "baselines/maxtext/llama2_70b.yaml", "lines": {"begin": 128}},
    }
    assert [(entry["check_name"], entry["severity"]) for entry in report[1:]] == [
        ("gsw-error", "critical"),
        ("gsw-inconclusive", "minor"),
        ("gsw-drift", "minor"),
        ("gsw-improved", "info"),
    ]


def test_a_finding_is_known_again_the_next_night() -> None:
    def prints(night: Night) -> list[object]:
        return [entry["fingerprint"] for entry in assert_code_quality(gitlab(night))]

    moved = varied(REGRESSED, run_id="later", fact="other figures", baseline="baselines/maxtext/llama2_70b.yaml:7")
    assert prints(night_of((moved,))) == prints(night_of((REGRESSED,)))
    assert prints(night_of((varied(REGRESSED, cluster="ptyche"),))) != prints(night_of((REGRESSED,)))
    assert prints(night_of((varied(ERROR, node_id=REGRESSED.row.node_id),))) != prints(night_of((REGRESSED,)))


def test_a_quiet_night_is_an_empty_report() -> None:
    assert gitlab(night_of(())) == "[]"


@given(texts)
def test_whatever_others_write_the_report_is_valid(text: str) -> None:
    assert_code_quality(gitlab(hostile_night(text)))
