"""Issues as Jenkins' warnings-ng plugin reads them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

from pytest_gsw.reports.ci.warnings_ng import warnings_ng
from pytest_gsw.reports.night import Night
from tests.unit.reports.ci.nights import NIGHT, PASSED, hostile_night, night_of, texts
from tests.unit.results.records import varied

#: What the plugin's parser looks for and how it reads it: JsonBaseParser.java of jenkinsci/analysis-model.
KEYS = {
    "fileName": str,
    "lineStart": int,
    "severity": str,
    "category": str,
    "type": str,
    "message": str,
    "description": str,
    "fingerprint": str,
}


def issues(night: Night) -> list[dict[str, Any]]:
    report = json.loads(warnings_ng(night))
    assert set(report) == {"issues"}
    for issue in report["issues"]:
        assert {name: type(value) for name, value in issue.items()} == KEYS
        assert issue["severity"] in {"ERROR", "HIGH", "NORMAL", "LOW"}
    return list(report["issues"])


def test_rows_that_do_not_fail_and_are_not_well() -> None:
    inconclusive, drift = issues(NIGHT)
    assert drift == {
        "fileName": "baselines/maxtext/llama2_70b.yaml",
        "lineStart": 1024,
        "severity": "NORMAL",
        "category": "drift",
        "type": "llama2_70b",
        "message": "llama2_70b_fp8[H100x1024]: throughput of the newest runs is -4.1 % against the first ones, "
        "-0.9 % a week, since about 2026-11-12 (job 470011 of run 20261112-221000-aaaa)",
        "description": "next: <code>pytest-gsw trend 'llama2_70b_fp8[H100x1024]' --cluster=eos</code>",
        "fingerprint": drift["fingerprint"],
    }
    assert (inconclusive["category"], inconclusive["severity"]) == ("inconclusive", "LOW")


def test_a_quiet_night_has_an_empty_list() -> None:
    assert json.loads(warnings_ng(night_of((PASSED,)))) == {"issues": []}


@given(texts)
def test_what_others_write_is_no_html(text: str) -> None:
    for issue in issues(hostile_night(text)):
        assert "<" not in issue["message"]
        assert issue["description"].count("<") == 2


def test_markup_is_shown_as_it_is_written() -> None:
    (issue,) = issues(night_of((varied(PASSED, drift="<b> & 'x'"),)))
    assert issue["message"] == "llama2_70b_fp8[H100x64]: &lt;b&gt; &amp; 'x'"
