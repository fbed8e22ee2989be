"""What needs attention, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.common.text import escaped, minute
from pytest_gsw.history.alarms import Acknowledgement, Kind, Occurrence, alarms
from pytest_gsw.history.comparison import ClusterText
from pytest_gsw.history.model import Point
from pytest_gsw.history.row_history import RowHistory
from pytest_gsw.history.since import Since
from pytest_gsw.reports.ci import KINDS, counts_text, findings, github, openmetrics
from pytest_gsw.reports.reported_row import ReportedRow, since_line, since_of
from pytest_gsw.results.attention import Level
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.verdict import MetricVerdict, Reason
from pytest_gsw.tables.metrics import Direction, Metric
from tests.messages import wording
from tests.unit.history.runs import period
from tests.unit.reports.ci.nights import (
    DRIFT,
    ERROR,
    IMPROVED,
    NOON_S,
    PASSED,
    REGRESSED,
    RUN,
    SINCE,
    hostile_run,
    record,
    run_of,
    texts,
)
from tests.unit.reports.records_of_runs import failed, report_of
from tests.unit.results.records import varied
from tests.unit.results.test_incident import run_records

DAY_S = 86400.0


def test_the_worst_is_first() -> None:
    assert [(one.kind, one.level.value, one.row) for one in findings(RUN)] == [
        ("regressed", "error", "llama2_70b_fp8[H100x128]"),
        ("error", "error", "llama2_70b_fp8[H100x256]"),
        ("inconclusive", "warning", "llama2_70b_fp8[H100x512]"),
        ("drift", "warning", "llama2_70b_fp8[H100x1024]"),
        ("improved", "notice", "llama2_70b_fp8[H100x2048]"),
    ]


def test_among_equals_the_greatest_loss_is_first() -> None:
    slow = [record(gpus, seconds, outcome="regressed") for gpus, seconds in ((8, 5.0), (16, 9.0), (32, 6.0))]
    assert [one.row for one in findings(run_of(tuple(slow)))] == [slow[1].row.id, slow[2].row.id, slow[0].row.id]


def test_a_row_without_a_record_is_an_error() -> None:
    run = run_of(
        (PASSED,), {"t.yaml::one[H100x8]": "the session ended", PASSED.row.node_id: "has a record all the same"}
    )
    (found,) = findings(run)
    assert (found.kind, found.row, found.place, found.text) == (
        "error",
        "one[H100x8]",
        ("t.yaml", 1),
        "the session ended",
    )
    assert counts_text(run) == "2 rows: 1 passed, 1 error"


def test_a_row_that_failed_and_creeps_is_found_twice() -> None:
    assert [one.kind for one in findings(run_of((varied(REGRESSED, drift=DRIFT),)))] == ["regressed", "drift"]


def test_what_passed_with_a_but_is_a_notice() -> None:
    accepted = record(64, 5.1, accepted={"step_time_s": 5.1}, accepted_note="accepted 5.1 s, 2026-11-01")
    (other,) = findings(run_of((accepted,)))
    assert (other.kind, other.level) == ("accepted", Level.NOTICE)
    assert other.text == (
        wording(
            "passed by accepted",
            cluster="eos",
            change="10.7",
            side="% below",
            metric="throughput" + wording("would have failed"),
        )
    )


@pytest.mark.parametrize(
    ("reason", "since"), [("within noise", "this run"), ("too good to be true", ""), ("ranks differ", "")]
)
def test_what_is_inconclusive_says_why(reason: str, since: str) -> None:
    one = record(64, 4.95, outcome="inconclusive", reason=reason)
    (found,) = findings(run_of((one,), since={one.row.node_id: Since(NOON_S, 1, "before")}))
    assert (found.kind, found.level, found.text) == ("inconclusive", Level.WARNING, f"{reason}: {one.fact}")
    assert found.since == since


def test_an_error_that_another_job_would_meet_again_has_its_advice_next() -> None:
    (found,) = findings(
        report_of(failed("llama2_70b_fp8[H100x64]", "the log ends at step 48", advice="look at the last lines"))
    )
    assert found.next == "look at the last lines"


def test_an_error_says_since_when() -> None:
    since = Since(NOON_S, 2, "before")
    (found,) = findings(run_of((ERROR,), since={ERROR.row.node_id: since}))
    assert (found.kind, found.since) == ("error", f"{minute(NOON_S)}, 2 runs")


@pytest.mark.parametrize("outcome", ["passed", "profiled", "expected_failure"])
def test_what_needs_nobody(outcome: str) -> None:
    assert findings(run_of((varied(PASSED, outcome=outcome),))) == ()


def test_an_incident_is_one_finding_that_has_its_rows() -> None:
    told = {"eos": ClusterText(", since 2026-11-20", "it creeps")}
    found = findings(replace(run_of(run_records([0.06] * 10, Reason.INCIDENT)), cluster_texts=told))

    assert [(one.kind, one.row, one.level, one.next) for one in found] == [
        ("incident", "cluster eos", Level.ERROR, "pytest-gsw history --cluster=eos"),
        ("drift", "cluster eos", Level.WARNING, "pytest-gsw history --drift --cluster=eos"),
    ]
    assert found[0].text.startswith(
        wording(
            "incident",
            cluster="eos",
            slower=10,
            rows=10,
            change=wording("an incident", change="-5.8 %", limit="-2.0 %") + ", since 2026",
        )
    )
    assert found[0].place == ("t.yaml", 1)
    assert counts_text(run_of(run_records([0.06] * 10, Reason.INCIDENT))) == "10 rows: 1 incident, 10 inconclusive"


def test_an_incident_within_the_tolerance_is_a_warning() -> None:
    report = run_of(run_records([0.03] * 10))

    assert [(one.kind, one.level) for one in findings(report)] == [("incident within tolerance", Level.WARNING)]
    assert counts_text(report).startswith("10 rows: 1 incident within tolerance, 10 passed")
    assert report.exit_status == 0
    assert run_of(run_records([0.06] * 10)).exit_status == 1


def test_a_row_that_is_too_slow_in_an_incident_is_a_finding_of_its_own() -> None:
    own = varied(REGRESSED, node_id="t.yaml::own")
    found = findings(run_of((*run_records([0.06] * 10, Reason.INCIDENT), own)))
    assert [(one.kind, one.node_id) for one in found] == [("incident", "cluster::eos"), ("regressed", "t.yaml::own")]


def test_every_kind_has_its_place() -> None:
    assert KINDS[:5] == ("incident", "slow node", "regressed", "error", "unexpected success")
    (found,) = findings(run_of((varied(PASSED, outcome="unexpected_success", fact="ran"),)))
    assert (found.kind, found.level) == ("unexpected success", Level.ERROR)


@pytest.mark.parametrize(
    ("baseline", "place"),
    [
        ("a/b.yaml:41", ("a/b.yaml", 41)),
        ("a:b.yaml:7", ("a:b.yaml", 7)),
        ("a/b.yaml:0", ("a/b.yaml", 1)),
        ("a/b.yaml:\u0663", ("baselines/maxtext/llama2_70b.yaml", 1)),
        ("a/b.yaml", ("baselines/maxtext/llama2_70b.yaml", 1)),
        ("", ("baselines/maxtext/llama2_70b.yaml", 1)),
    ],
)
def test_the_place_of_a_row(baseline: str, place: tuple[str, int]) -> None:
    (found,) = findings(run_of((varied(IMPROVED, baseline=baseline),)))
    assert found.place == place


@pytest.mark.parametrize(
    ("outcomes", "since"),
    [
        ("", ""),
        ("p", "this run"),
        ("rp", f"{minute(NOON_S)} or before, 2 runs"),
        ("pr", f"{minute(NOON_S + DAY_S)}, 2 runs"),
        ("prr", f"{minute(NOON_S + DAY_S)}, 3 runs"),
        ("rr", f"{minute(NOON_S)} or before, 3 runs"),
        ("rpr", f"{minute(NOON_S)} or before, 3 runs"),
        ("pir", f"{minute(NOON_S + 2 * DAY_S)}, 2 runs"),
        ("pi", "this run"),
    ],
)
def test_since_when_a_row_is_slow(outcomes: str, since: str) -> None:
    words = [{"p": "passed", "r": "regressed", "i": "inconclusive"}[letter] for letter in f"{outcomes}r"]
    first = len(words) - 1
    runs = [
        Point(f"{REGRESSED.run.id}{'-' * (first - number)}", "1", NOON_S + number * DAY_S, 5.0, word)
        for number, word in enumerate(words)
    ]
    assert since_line(since_of(ReportedRow(REGRESSED, "", RowHistory(tuple(runs))))) == since


def test_an_acknowledged_alarm_says_nothing_of_a_site_s_metric() -> None:
    seen = Occurrence("night-1", NOON_S, 0.0)
    cluster, row = REGRESSED.run.cluster, REGRESSED.row.id
    things = frozenset({row})
    slow = period(seen, cluster=cluster, subject=row, things=things, last_s=NOON_S)
    known = Acknowledgement("id", Kind.REGRESSION, cluster, things, NOON_S, "a switch", "ops", 2e10)
    (alarm,) = alarms([slow], [known], NOON_S)
    metric = Metric("peak_memory_gib", "GiB", Direction.LOWER_IS_BETTER, "peak memory")
    by_metric = MetricVerdict(metric, Outcome.REGRESSED, 70.1, 61.2, 0.05)
    assert REGRESSED.verdict is not None
    both = replace(REGRESSED, verdict=replace(REGRESSED.verdict, metrics=(by_metric,)))
    for one, text in ((REGRESSED, "ops until "), (both, "")):
        run = replace(run_of((one,)), alarms=(alarm,))
        (found,) = findings(run)
        assert found.acknowledged.startswith(text)
        assert bool(found.acknowledged) == bool(text)
        samples = [line for line in openmetrics(run).splitlines() if line.startswith("gsw_alarm_pages{")]
        assert [line.endswith(" 1.0") and 'metric="peak_memory_gib"' in line for line in samples] == (
            [False] if text else [False, True]
        )


# -- workflow commands as GitHub's runner reads them -----------------------------------------------

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
