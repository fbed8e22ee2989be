"""What an audit found, as text, JSON, GitHub's workflow commands and JUnit."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import escaped
from pytest_gsw.documents.audit.findings import Audit, Finding, Severity
from pytest_gsw.documents.audit.report import github_report, json_report, junit_report, summary, text_report
from pytest_gsw.documents.audit.run import Source, audit
from pytest_gsw.tables.yamlfile import Stated
from tests.unit.documents.audit.rows import row

DOCUMENT = Source("docs/README.md", (), ("8 * 8 = 63",))
EMPTY = Source("docs/EMPTY.md", (), ("Nothing.",))


def example(**acknowledged: str) -> Audit:
    wrong = row(mfu="25.59%", tokens_per_s="74908.98")
    values = {**wrong.values, "document": Stated("README.md", 1, 1), "line": Stated("25", 1, 1)}
    one = replace(wrong, file="site/t.yaml", values=values, acknowledged=acknowledged)
    return audit([Source("site/t.yaml", (one,)), DOCUMENT, EMPTY])


def test_text() -> None:
    assert (
        text_report(example())
        == """\
site/t.yaml
  23:3     contradiction  llama2_70b_bf16[H100x64]  mfu  (README.md:25)
    documented 25.59%, computed 52.59%: 128 * 1.82e15 FLOPs / 64 GPUs / 9.89e14 FLOP/s / 6.999 s
    digits swapped: 52.59% would fit: two digits of 25.59% are swapped
    the verdict uses the computed one: it rests on the step time, 6.999 s
  22:3     rounding  llama2_70b_bf16[H100x64]  tokens_per_s  (README.md:25)
    documented 74908.98, computed 74908.99: 4096 * 128 / 6.999 s
    cut, not rounded: 74908.987 was cut, not rounded
    the verdict uses the computed one: it rests on the step time, 6.999 s

docs/README.md
  1:9      contradiction  line_1
    documented 63, computed 64: 8 * 8
    unknown: no single change of what it is computed from gives it

1 row, the text of 2 documents, 4 figures checked: 2 contradictions, 1 rounding
next: put it right, or say in the table why it stays: acknowledged: {mfu: reason}"""
    )


def test_text_of_what_is_acknowledged() -> None:
    lines = text_report(example(mfu="known since\nMay", line_1="known", days_to_train_1t_tokens="gone")).splitlines()
    assert "    acknowledged: known since May" in lines
    assert lines[9:12] == [
        "  15:3     notice  llama2_70b_bf16[H100x64]  days_to_train_1t_tokens",
        "    acknowledged, but not found any more: gone",
        "",
    ]
    assert lines[-1] == (
        "1 row, the text of 2 documents, 4 figures checked: 2 contradictions (2 acknowledged), 1 rounding, "
        "1 acknowledged, but not found any more"
    )


def test_nothing_found() -> None:
    assert text_report(audit([Source("t.yaml", (row(),))])) == "1 row, 3 figures checked: nothing found"
    assert summary(audit([])) == "0 rows, 0 figures checked: nothing found"


def test_several_of_a_kind() -> None:
    lines = ("8 * 8 = 63", "9 * 9 = 80", "1000 * 1000 = 1000100", "1000 * 2000 = 2000100")
    assert summary(audit([Source("docs/README.md", (), lines)])) == (
        "0 rows, the text of 1 document, 4 figures checked: 2 contradictions, 2 discrepancies"
    )


def test_json() -> None:
    facts: dict[str, Any] = json.loads(json_report(example(mfu="known", gpus="gone")))
    assert (facts["rows"], facts["checked"], facts["documents"]) == (1, 4, ["docs/README.md", "docs/EMPTY.md"])
    assert facts["counts"] == {
        "contradiction": {"new": 1, "acknowledged": 1},
        "discrepancy": {"new": 0, "acknowledged": 0},
        "rounding": {"new": 1, "acknowledged": 0},
        "notice": {"new": 0, "acknowledged": 0},
    }
    assert facts["findings"][0] == {
        "identity": "mfu",
        "severity": "contradiction",
        "row": "llama2_70b_bf16[H100x64]",
        "file": "site/t.yaml",
        "line": 23,
        "column": 3,
        "source": "README.md:25",
        "documented": "25.59%",
        "computed": "52.59%",
        "formula": "128 * 1.82e15 FLOPs / 64 GPUs / 9.89e14 FLOP/s / 6.999 s",
        "explanations": [
            {"kind": "digits swapped", "text": "52.59% would fit: two digits of 25.59% are swapped"},
        ],
        "verdict_uses": "computed",
        "verdict": "the step time, 6.999 s",
        "acknowledged": "known",
    }
    assert [one["identity"] for one in facts["stale"]] == ["gpus"]


def test_github() -> None:
    lines = github_report(example(mfu="known: 5%", gpus="gone")).splitlines()
    assert lines == [
        (
            "::notice file=site/t.yaml,line=23,col=3,title=audit%3A mfu::llama2_70b_bf16[H100x64]: contradiction, documented "
            "25.59%25, computed 52.59%25 (128 * 1.82e15 FLOPs / 64 GPUs / 9.89e14 FLOP/s / 6.999 s)%0Adigits swapped: "
            "52.59%25 would fit: two digits of 25.59%25 are swapped%0Aacknowledged: known: 5%25"
        ),
        (
            "::notice file=site/t.yaml,line=22,col=3,title=audit%3A tokens_per_s::llama2_70b_bf16[H100x64]: rounding, "
            "documented 74908.98, computed 74908.99 (4096 * 128 / 6.999 s)%0Acut, not rounded: 74908.987 was cut, not rounded"
        ),
        (
            "::error file=docs/README.md,line=1,col=9,title=audit%3A line_1::docs/README.md: contradiction, documented 63, "
            "computed 64 (8 * 8)%0Aunknown: no single change of what it is computed from gives it"
        ),
        "::notice file=site/t.yaml,line=15,col=3,title=audit%3A gpus::acknowledged, but not found any more: gone",
        (
            "1 row, the text of 2 documents, 4 figures checked: 2 contradictions (1 acknowledged), 1 rounding, "
            "1 acknowledged, but not found any more"
        ),
    ]
    strict = github_report(example(mfu="known", gpus="gone"), strict=True).splitlines()
    assert [line.split()[0] for line in strict[:-1]] == ["::notice", "::error", "::error", "::error"]


def unescaped(text: str) -> str:
    """What GitHub's runner makes of it: the escapes in this order, the percent sign last."""
    for escape, letter in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(escape, letter)
    return text


@given(st.text(alphabet=st.sampled_from("%:,\r\n25ADC03a ")) | st.text())
def test_escapes_are_read_back(text: str) -> None:
    shown = escaped(text, in_property=True)
    assert unescaped(shown) == text
    assert not set(shown) & {":", ",", "\r", "\n"}
    assert not set(escaped(text)) & {"\r", "\n"}


def cases(report: str) -> list[tuple[str | None, str | None, list[str]]]:
    root = ET.fromstring(report)  # noqa: S314 - this test's own
    (suite,) = root
    assert int(suite.attrib["tests"]) == len(suite)
    assert int(suite.attrib["failures"]) == sum(case.find("failure") is not None for case in suite)
    return [(case.get("classname"), case.get("name"), [element.tag for element in case]) for case in suite]


def test_junit() -> None:
    assert cases(junit_report(example())) == [
        ("site/t.yaml", "llama2_70b_bf16[H100x64]", ["failure", "system-out"]),
        ("docs/README.md", "line_1", ["failure"]),
        ("docs/EMPTY.md", "text", []),
    ]
    assert cases(junit_report(example(mfu="known", line_1="known", gpus="gone"))) == [
        ("site/t.yaml", "llama2_70b_bf16[H100x64]", ["system-out"]),
        ("docs/README.md", "line_1", ["system-out"]),
        ("docs/EMPTY.md", "text", []),
        ("site/t.yaml", "acknowledged gpus", ["system-out"]),
    ]
    strict = cases(junit_report(example(mfu="known", gpus="gone"), strict=True))
    assert [tags for _, _, tags in strict] == [["failure", "system-out"], ["failure"], [], ["failure"]]
    failure = ET.fromstring(junit_report(example())).find(".//failure")  # noqa: S314
    assert failure is not None
    assert failure.get("message") == "mfu: documented 25.59%, computed 52.59%"
    assert failure.text is not None
    assert failure.text.startswith("  23:3     contradiction  llama2_70b_bf16[H100x64]  mfu  (README.md:25)\n")


def test_several_failures_of_one_row() -> None:
    wrong = audit([Source("t.yaml", (row(mfu="25.59%", tokens_per_s="47908.99"),))])
    failure = ET.fromstring(junit_report(wrong)).find(".//failure")  # noqa: S314
    assert failure is not None
    assert failure.get("message") == "tokens_per_s: documented 47908.99, computed 74908.99, and 1 more"


@given(st.text(), st.text())
def test_any_text_is_well_formed(file: str, reason: str) -> None:
    (one, *_) = audit([Source("t.yaml", (row(mfu="25.59%"),))]).findings
    found: Finding = replace(one, file=file, acknowledged=reason, documented=reason, severity=Severity.NOTICE)
    shown = quoted(Audit((), (), 1, (found,), ()))
    ET.fromstring(junit_report(shown))  # noqa: S314
    json.loads(json_report(shown))
    assert len(github_report(shown).split("\n")) == 2
    assert "\x1b" not in text_report(shown)
