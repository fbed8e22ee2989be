"""Sources become findings: what is acknowledged, where it counts, and what is not found any more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gsw.documents.audit.findings import Audit, Severity
from pytest_gsw.documents.audit.report import json_report, text_report
from pytest_gsw.documents.audit.run import Source, audit
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import table_files
from pytest_gsw.tables.stated import StatedRow, stated_rows
from pytest_gsw.tables.yamlfile import Stated
from tests.unit.documents.audit.rows import LLAMA2, row

WRONG = {"mfu": "25.59%"}


def table(*rows: StatedRow, name: str = "site/t.yaml") -> Source:
    return Source(name, tuple(replace(one, file=name) for one in rows))


def named(one: StatedRow, document: str, **acknowledged: str) -> StatedRow:
    """The row as one of this document, with these findings acknowledged."""
    return replace(one, values={**one.values, "document": Stated(document, 1, 1)}, acknowledged=acknowledged)


def test_a_finding_of_a_table_names_its_document() -> None:
    one = replace(row(**WRONG), values={**row(**WRONG).values, "line": Stated("25", 3, 4)})
    (finding,) = audit([table(named(one, "README.md"))]).findings
    assert (finding.file, finding.source) == ("site/t.yaml", "README.md:25")


def test_what_is_acknowledged_at_a_row() -> None:
    found = audit([table(named(row(**WRONG), "README.md", mfu="known since May"))])
    assert [one.acknowledged for one in found.findings] == ["known since May"]
    assert (found.new(Severity.CONTRADICTION), found.known(Severity.CONTRADICTION)) == (0, 1)
    assert not found.fails()
    assert not found.fails(strict=True)
    assert found.stale == ()


def test_what_is_new_fails() -> None:
    found = audit([table(named(row(**WRONG), "README.md", tokens_per_s="another one"))])
    assert found.fails()
    assert [(one.identity, one.rows, one.reason) for one in found.stale] == [
        ("tokens_per_s", ("llama2_70b_bf16[H100x64]",), "another one")
    ]


def test_roundings_fail_if_asked() -> None:
    found = audit([table(row(mfu="52.58%"))])
    assert [one.severity for one in found.findings] == [Severity.ROUNDING]
    assert not found.fails()
    assert found.fails(strict=True)


def test_what_a_file_acknowledges_need_not_be_found_in_each_row() -> None:
    rows = [named(row("a", **WRONG), "README.md", mfu="known"), named(row("b"), "README.md", mfu="known")]
    assert audit([table(*rows)]).stale == ()
    (stale,) = audit([table(named(row("a"), "README.md", mfu="known"), rows[1])]).stale
    assert (stale.identity, stale.rows) == ("mfu", ("a", "b"))


def test_a_table_acknowledges_for_its_document() -> None:
    lines = ("8 * 8 = 63", "9 * 9 = 80")
    document = Source("docs/README.md", (replace(row(**WRONG), file="docs/README.md"),), lines)
    known = table(named(row(**WRONG), "README.md", mfu="known", line_1="known, too", line_3="not there"))
    found = audit([document, known])
    assert [(one.file, one.identity, one.acknowledged) for one in found.findings] == [
        ("docs/README.md", "line_1", "known, too"),
        ("docs/README.md", "line_2", None),
        ("docs/README.md", "mfu", "known"),
        ("site/t.yaml", "mfu", "known"),
    ]
    assert [one.identity for one in found.stale] == ["line_3"]
    assert found.documents == ("docs/README.md",)


def test_lines_of_a_document_that_is_not_read_are_not_stale() -> None:
    assert audit([table(named(row(), "README.md", line_26="known"))]).stale == ()


def test_the_most_severe_first_then_by_place() -> None:
    rows = [row("a", mfu="52.58%", tokens_per_s="1"), row("b", mfu="25.59%")]
    found = audit([table(*rows)]).findings
    assert [(one.row, one.identity, one.severity.value) for one in found] == [
        ("a", "tokens_per_s", "contradiction"),
        ("b", "mfu", "contradiction"),
        ("a", "mfu", "rounding"),
    ]


def bundled() -> Audit:
    return audit(Source(str(path), stated_rows(path)) for path in table_files(bundled_baselines()))


#: What comments of the tables have said before there was an audit, by row: a figure that is more than one unit
#: of its last digit away, or columns whose product is not what is documented.
LLAMA3, GROK = "llama3.1_405b_{}[H100x{}]", "grok1_314b_{}[H100x{}]"
V100 = "gpt2_{}_fp16[V100-32GBx{}]"
CONTRADICTIONS = {
    *((GROK.format(dtype, gpus), "global_batch_size") for dtype in ("bf16", "fp8") for gpus in (8, 16)),
    (GROK.format("fp8", 1024), "tokens_per_s"),
    (GROK.format("fp8", 1024), "mfu"),
    (V100.format("52b", "64-ds3d-gas256-mbs4-gbs1024"), "tflops_per_gpu"),
    (V100.format("52b", "64-zero1-bucket5e8"), "tflops_per_gpu"),
    (V100.format("52b", "64-zero-id13"), "tflops_per_gpu"),
    (V100.format("52b", "64-ds3d-gas256-mbs4-gbs1536"), "global_batch_size"),
    (V100.format("52b", "64-ds3d-gas256-mbs4-gbs2048"), "global_batch_size"),
    ("gpt2_22b_fp16[V100-16GBx256-max]", "global_batch_size"),
    *(
        (V100.format("18b", f"16-pp8-{case}"), "gpus")
        for case in ("gas64-mbs4", "gas128-mbs4", "gas256-mbs4", "gas128-mbs6", "gas32-mbs8")
    ),
    (V100.format("52b", "64-pp32-gas256-mbs4"), "gpus"),
    (V100.format("39b", "64-exp2.3"), "gpus"),
}
#: The same, by less than a quarter of a percent.
DISCREPANCIES = {
    *((LLAMA3.format("bf16", gpus), "mfu") for gpus in (32, 96, 192, 576, 1152, 2304)),
    *((LLAMA3.format("fp8", gpus), "mfu") for gpus in (576, 1152, 2304)),
}
ROUNDINGS = {
    *((LLAMA3.format("fp8", gpus), key) for gpus in (32, 96, 192) for key in ("tokens_per_s", "mfu")),
    *((GROK.format("bf16", gpus), "tokens_per_s") for gpus in (16, 64, 128, 256, 512)),
    *((GROK.format("fp8", gpus), "tokens_per_s") for gpus in (8, 32, 64, 256)),
    (V100.format("25b", "16-hf-max"), "tflops_per_gpu"),
}
#: Less than one unit of the last digit away, and not rounded.
CUT = {
    ("gpt3_175b_fp8[H100x1024]", "tokens_per_s"),
    ("gpt3_175b_fp8[H100x1024]", "mfu"),
    ("gpt3_175b_fp8[H100x2048]", "tokens_per_s"),
    *((GROK.format("bf16", 8), key) for key in ("tokens_per_s", "mfu")),
    *((GROK.format("bf16", gpus), "mfu") for gpus in (256, 512)),
    *((GROK.format("fp8", gpus), "tokens_per_s") for gpus in (128, 2048)),
    (V100.format("52b", "64-exp1.4"), "tflops_per_gpu"),
    (V100.format("39b", "64-exp2.1"), "tflops_per_gpu"),
}
NOTICES = {
    (V100.format("52b", "64-zero-tp4-mbs48-0527"), "duplicate"),
    (V100.format("52b", "64-hf-mbs8-0527"), "duplicate"),
    (V100.format("52b", "64-hf-mbs12-offload-optimizer-run2"), "duplicate"),
    (V100.format("52b", "64-pp16-gas256-mbs4-0526"), "duplicate"),
    (GROK.format("bf16", 8), "architecture"),
    (LLAMA3.format("bf16", 32), "architecture"),
}


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        (Severity.CONTRADICTION, CONTRADICTIONS),
        (Severity.DISCREPANCY, DISCREPANCIES),
        (Severity.ROUNDING, ROUNDINGS | CUT),
        (Severity.NOTICE, NOTICES),
    ],
)
def test_the_bundled_tables(severity: Severity, expected: set[tuple[str, str]]) -> None:
    found = [(one.row, one.identity) for one in bundled().findings if one.severity is severity]
    assert sorted(found) == sorted(expected)  # type: ignore[type-var]


def test_all_that_comments_have_said_is_found() -> None:
    assert len(CONTRADICTIONS | DISCREPANCIES | ROUNDINGS) == 44
    assert len(bundled().rows) == 141


KEYS = (
    *("gpus", "gpus_per_node", "sequence_length", "global_batch_size", "micro_batch_size", "layers", "tp", "pp", "cp"),
    *("gradient_accumulation_steps", "ep", "dp", "fsdp", "model_flops", "step_time_s", "tokens_per_s", "mfu"),
    *("tokens_per_s_per_gpu", "samples_per_s", "days_to_train_1t_tokens", "tflops_per_gpu", "size", "model", "dtype"),
    *("architecture.formula", "architecture.layers", "architecture.hidden_size", "architecture.vocabulary_size"),
)
texts = (
    st.sampled_from(["0", "0.0", "1", "64", "8.7  5", "1e300", "1e-300", "9" * 39, "45.4%", "n/a", "", "gpt3", "52b"])
    | st.from_regex(r"[0-9]{1,6}(\.[0-9]{1,4})?%?", fullmatch=True)
    | st.text(max_size=8)
)


@settings(deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(KEYS), texts, min_size=1), max_size=4),
    st.lists(st.text(max_size=40), max_size=4),
)
def test_any_row_can_be_audited(rows: list[dict[str, str]], lines: list[str]) -> None:
    stated = tuple(
        StatedRow(f"row{n}", "README.md", {key: Stated(text, 1, 1) for key, text in values.items()})
        for n, values in enumerate(rows)
    )
    found = audit([Source("README.md", stated, tuple(lines))])
    text_report(found)
    json_report(found)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS[:-6]), texts, max_size=6))
def test_any_figure_of_a_row_may_be_wrong(changes: dict[str, str]) -> None:
    audit([table(row(base={**LLAMA2, **changes}))])
