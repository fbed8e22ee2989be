"""``--gsw-tolerance`` over the cluster's over the row's."""

from __future__ import annotations

from pathlib import Path

import pytest

SLOW = ("--gsw-cluster=demo", "--gsw-demo=*=slow:12%")


def test_the_rows_own(pytester: pytest.Pytester) -> None:
    pytester.runpytest(*SLOW, "-k", "hf-mbs6 or (llama2_70b_fp8 and H100x64)").assert_outcomes(
        passed=1, failed=1, deselected=139
    )


def test_a_loss_that_only_a_wide_tolerance_passes_is_told(pytester: pytest.Pytester) -> None:
    """By its document a row of GPT-2 may lose 40 %: it must not look like one that has lost nothing."""
    result = pytester.runpytest(
        "--gsw-cluster=demo", "--gsw-demo=*mbs6*=slow:30%", "-k", "hf-mbs6 or x16-pp8-gas64 or gpt3_175b"
    )
    assert result.ret == 0
    result.stdout.re_match_lines(
        [
            r"gpt2_\S+hf-mbs6\S+ +PASSED +throughput -2\d\.\d % \(allowed 40 %\)  ",
            r"\d+ passed, 1 of them beyond 5 %$",
        ]
    )
    of_h100 = [line for line in result.outlines if line.startswith("gpt3_175b") and "PASSED" in line]
    assert of_h100
    assert not any("allowed" in line for line in of_h100)


def test_the_clusters(pytester: pytest.Pytester, recipes: Path) -> None:
    (pytester.path / "clusters.yaml").write_text(
        f"""\
clusters:
  here:
    scheduler: local
    gpus: 4096
    stage: {pytester.path}/stage
    recipes: {recipes}
    tolerance: 0.1%
"""
    )
    result = pytester.runpytest("--gsw-cluster=here", "-k", "llama2_70b_fp8 and H100x64")
    assert "(allowed 0.1 %)" in result.stdout.str() or result.ret == 0
    (record,) = (pytester.path / ".gsw").rglob("records/*.json")
    assert '"tolerance": 0.001,' in record.read_text()


@pytest.mark.parametrize("given", ["5", "0%", "101%", "-3%", "nan%", "x"])
def test_what_is_no_percentage_is_a_usage_error(pytester: pytest.Pytester, given: str) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-tolerance={given}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --gsw-tolerance: got '{given}', wanted a percentage such as 5%"])
