"""``-m`` and ``-k`` select rows exactly by their facts."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("gsw(gpus=64, dtype='fp8')", 2),
        ("gsw(workload='llama2_70b')", 12),
        ("gsw(framework='nemo') and not proxy", 12),
        ("proxy", 18),
        ("not proxy", 123),
        ("gsw(proxy=True, dtype='bf16')", 9),
        ("gsw(tp=4, pp=8)", 27),
        ("gsw(metric='checkpoint_save_time')", 7),
        ("gsw(gpus=65)", 0),
    ],
)
def test_marker_expression(pytester: pytest.Pytester, expression: str, count: int) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--collect-only", "-q", "-m", expression)
    assert len([line for line in result.outlines if "::" in line]) == count


@pytest.mark.parametrize(
    ("expression", "count"),
    [("llama2_70b_fp8", 6), ("grok1 and H100x8", 2), ("gpt2_52b and hf", 11), ("405b and not fp8", 6)],
)
def test_keyword_expression(pytester: pytest.Pytester, expression: str, count: int) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--collect-only", "-q", "-k", expression)
    assert len([line for line in result.outlines if "::" in line]) == count


def test_markers_are_registered(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.gsw(workload, model, size, *", "@pytest.mark.proxy: *"])
    pytester.runpytest("--gsw-cluster=demo", "--strict-markers", "-k", "gpt3_175b").assert_outcomes(
        passed=5, deselected=136
    )
