"""A record holds its verdict whole."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.history.store import decode, encode
from pytest_gsw.performance.noise import Noise
from pytest_gsw.performance.verdict import MetricVerdict, Outcome, RanksApart, Reason, Verdict
from pytest_gsw.results.record import Record, read_record, write_record
from pytest_gsw.tables.metrics import Direction, Metric
from tests.unit.results.records import SLOW, varied

MEMORY = MetricVerdict(
    Metric("peak_memory_gib", "GiB", Direction.LOWER_IS_BETTER, "peak memory"), Outcome.REGRESSED, 70.1, 61.2, 0.05
)

#: By a rule of the site's own, with another tolerance than the session's, and with all that a verdict can say.
DECIDED = Verdict(
    Outcome.INCONCLUSIVE,
    measured_s=5.11,
    documented_s=4.556,
    tolerance=0.025,
    accepted_s=4.9,
    limit=0.03,
    noise=Noise(0.01, 24),
    jobs_s=(5.1, 5.12),
    steady_s=5.1,
    given_reason=Reason.RANKS_DIFFER,
    more=1,
    max_gain=0.25,
    ranks=RanksApart((("3", 6.0), ("node 7", 5.9)), 5.1),
    metrics=(replace(MEMORY, outcome=Outcome.PASSED),),
    own_outcome=Outcome.PASSED,
)


@pytest.mark.parametrize(
    "changes",
    [{}, {"outcome": "profiled", "not_comparable": "a profile"}, {"outcome": "error", "fact": "a hook raised"}],
)
def test_a_verdict_reads_back_as_it_was_decided(tmp_path: Path, changes: dict[str, Any]) -> None:
    record: Record = replace(replace(SLOW, outcome="inconclusive", verdict=DECIDED), **changes)
    read = read_record(write_record(tmp_path, record))
    assert read == record
    assert read.verdict == DECIDED
    assert decode(encode(record)) == record


def test_the_limit_of_a_rule_of_the_site_s_own_is_its_verdict_s() -> None:
    record = varied(SLOW, reason="slower than allowed")
    strict = replace(record, verdict=record.verdict and replace(record.verdict, tolerance=0.025))
    assert (record.limit, strict.limit, strict.row.tolerance) == (0.05, 0.025, 0.05)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"outcome": "passed"}, '\'outcome\' is "passed", and that of its verdict "regressed"'),
        ({"verdict": []}, "'verdict' is []"),
        ({"verdict": {"outcome": "regressed"}}, "it has no 'verdict.measured_s'"),
        ({"verdict": None}, "'outcome' is \"regressed\", and it has no verdict"),
    ],
)
def test_a_verdict_that_is_none(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = write_record(tmp_path, SLOW)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match="is no record") as caught:
        read_record(path)
    assert str(caught.value) == f"{path} is no record: {problem}"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("outcome", "splendid", "'verdict.outcome' is \"splendid\""),
        ("measured_s", float("nan"), "'verdict.measured_s' is NaN"),
        ("ranks", {"ranks": [["3"]], "median_s": 5.0}, "'verdict.ranks.ranks' is [[\"3\"]]"),
        ("mood", 1, "it has an unknown key 'verdict.mood'"),
        ("documented_s", -1.5, "'verdict.documented_s' is -1.5, wanted a number above 0"),
        ("jobs_s", [5.1, 0], "'verdict.jobs_s' is 0, wanted a number above 0"),
    ],
)
def test_a_verdict_with_what_is_none_of_its_keys(tmp_path: Path, key: str, value: object, problem: str) -> None:
    path = write_record(tmp_path, SLOW)
    content = json.loads(path.read_text())
    content["verdict"][key] = value
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="is no record") as caught:
        read_record(path)
    assert str(caught.value) == f"{path} is no record: {problem}"


def test_what_a_rule_of_the_site_s_own_keeps_beside_its_verdict_is_not_recorded(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Own(Verdict):
        model: object = None

    record = replace(SLOW, verdict=Own(**vars(DECIDED), model=object()), outcome="inconclusive")
    assert read_record(write_record(tmp_path, record)).verdict == DECIDED
