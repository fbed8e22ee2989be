"""That the whole cluster was slower in a run, by its records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.results.cluster_result import incident_of
from pytest_gsw.results.record import Record, read_record, write_record
from pytest_gsw.stats.cluster_effect import ClusterEffect
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.verdict import Reason
from tests.messages import wording
from tests.unit.results.records import SLOW

LIMIT = 0.02


def row(number: int, slower: float, reason: Reason = Reason.WITHIN_TOLERANCE) -> Record:
    """A row that usually takes five seconds."""
    cluster_effect = ClusterEffect(slower, slower, slower > LIMIT, LIMIT, 10, 5.0, Noise(0.01, 30, 0.005))
    seconds = 5.0 * math.exp(slower)
    assert SLOW.verdict is not None
    assert SLOW.jobs.last is not None
    outcome = Outcome.INCONCLUSIVE if reason is Reason.INCIDENT else Outcome.PASSED
    return replace(
        SLOW,
        row=replace(SLOW.row, node_id=f"t.yaml::row{number}"),
        outcome=outcome.value,
        jobs=replace(SLOW.jobs, last=replace(SLOW.jobs.last, judged=seconds), repeats=(), attempts=()),
        figures=replace(SLOW.figures, measured={**SLOW.figures.measured, "step_time_s": seconds}),
        verdict=replace(SLOW.verdict, outcome=outcome, given_reason=reason, cluster_effect=cluster_effect),
    )


def with_a_slow_node(record: Record) -> Record:
    """The same, where a slow node was in the row's first job."""
    assert record.verdict is not None
    assert record.verdict.cluster_effect is not None
    apart = replace(record.verdict.cluster_effect, is_counted=False)
    return replace(record, verdict=replace(record.verdict, cluster_effect=apart))


def run_records(slower: Sequence[float], reason: Reason = Reason.WITHIN_TOLERANCE) -> list[Record]:
    return [row(number, one, reason) for number, one in enumerate(slower)]


def test_a_usual_run_has_none() -> None:
    assert incident_of(run_records([0.01, -0.01] * 5)) is None
    assert incident_of([SLOW] * 10) is None


def test_a_slow_run_is_one_even_where_every_row_passes() -> None:
    found = incident_of(run_records([0.03] * 9 + [-0.01]))

    assert found is not None
    assert found.fact == "cluster eos: 9 of 10 rows slower, -3.0 % (an incident beyond -2.0 %, a failure beyond -5.0 %)"
    assert (found.is_incident, found.fails) == (True, False)


def test_an_incident_beyond_the_tolerance_fails() -> None:
    found = incident_of(run_records([0.06] * 10))

    assert found is not None
    assert found.fails
    assert found.fact == wording(
        "incident", cluster="eos", slower=10, rows=10, change=wording("an incident", change="-5.8 %", limit="-2.0 %")
    )
    assert found.parts == ()
    assert found.text(", since 2026-11-20") == f"{found.fact}, since 2026-11-20"


def test_rows_that_are_part_of_it_are_named() -> None:
    found = incident_of([*run_records([0.03] * 8), row(8, 0.1, Reason.INCIDENT)])

    assert found is not None
    assert found.text().splitlines()[2:] == [
        "rows that are part of it, and inconclusive for that:",
        "  t.yaml::row8",
    ]


@pytest.mark.parametrize("rows", [1, 7])
def test_few_rows_have_none_but_never_where_a_row_was_left_to_it(rows: int) -> None:
    assert incident_of(run_records([0.1] * rows)) is None
    assert incident_of(run_records([0.1] * rows, Reason.INCIDENT)) is not None
    assert incident_of(run_records([0.0] * 10 + [0.0] * rows, Reason.INCIDENT)) is not None


def test_a_row_whose_job_had_a_slow_node_is_not_one_of_those_that_tell_it() -> None:
    rows = [row(number, 0.0 if number < 4 else 0.1) for number in range(12)]
    apart = [with_a_slow_node(one) for one in rows[4:]]

    assert incident_of(rows) is not None
    assert incident_of([*rows[:4], *apart]) is None
    found = incident_of([*(row(number, 0.03) for number in range(8)), *apart[:3]])
    assert found is not None
    assert found.fact.startswith(wording("incident", cluster="eos", slower=8, rows=8, change="-3.0 %"))


def test_a_row_that_was_left_to_it_is_never_left_without_one_whatever_its_nodes() -> None:
    found = incident_of([with_a_slow_node(row(0, 0.1, Reason.INCIDENT))])

    assert found is not None
    assert found.parts == ("t.yaml::row0",)


def test_a_canary_that_was_too_slow_as_well_is_named() -> None:
    slow = row(10, 0.1, Reason.CANARY)
    canary = replace(slow, row=replace(slow.row, node_id="t.yaml::canary", canary=True))
    excused = replace(slow, row=replace(slow.row, node_id="t.yaml::excused"))

    found = incident_of([*run_records([0.03] * 9), canary, excused])

    assert found is not None
    assert found.text().splitlines() == [found.fact, wording("slow canary", canary="t.yaml::canary")]
    two = replace(found, canaries=("a", "b"))
    assert two.text().endswith(wording("slow canaries", canaries="a, b"))


def test_a_record_keeps_what_the_others_said(tmp_path: Path) -> None:
    record = row(0, 0.03)

    assert read_record(write_record(tmp_path, record)) == record
