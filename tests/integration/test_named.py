"""Names on the command line that nothing has: files, rows, faults."""

from __future__ import annotations

from pathlib import Path

import pytest

DEMO = "--gsw-cluster=demo"


def test_a_cluster_that_is_taken_for_a_file(pytester: pytest.Pytester) -> None:
    (pytester.path / "clusters.yaml").write_text("clusters: {eos: {scheduler: slurm, stage: s}}\n")
    result = pytester.runpytest("--gsw-clusters=eos")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --gsw-clusters: there is no file */eos, but a cluster eos", "next: --gsw-cluster=eos"]
    )
    result = pytester.runpytest("--gsw-clusters=dgx")
    assert result.stderr.lines[1] == "next: for a cluster of that name, --gsw-cluster=dgx"
    result = pytester.runpytest("--gsw-clusters=nope.yaml")
    assert result.stderr.lines[0] == f"ERROR: --gsw-clusters: there is no file {pytester.path}/nope.yaml"


def test_a_file_of_the_ini_file_is_for_sessions_with_a_cluster(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngsw_clusters = of-the-login-node.yaml\n")
    pytester.makepyfile("def test_one(): pass\n")
    pytester.runpytest("test_a_file_of_the_ini_file_is_for_sessions_with_a_cluster.py").assert_outcomes(passed=1)


def test_every_fault_that_is_of_no_row(pytester: pytest.Pytester) -> None:
    faults = "--gsw-demo=nope*=slow:3%;grok1_314b*=fail;lama2*=slow:2%", "--gsw-demo=llama2_70b_fp8[H100x65]=fail"
    result = pytester.runpytest(DEMO, *faults, "-k", "grok1_314b or llama2_70b")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines[:3] == [
        "ERROR: --gsw-demo: no selected row matches 'nope*'",
        "--gsw-demo: no selected row matches 'lama2*'; did you mean 'llama2_70b'?",
        "--gsw-demo: no selected row matches 'llama2_70b_fp8[H100x65]'; did you mean 'llama2_70b_fp8[H100x64]'?",
    ]


@pytest.mark.parametrize("by_path", [False, True])
def test_a_row_of_a_table_that_is_not_there(pytester: pytest.Pytester, table: Path, by_path: bool) -> None:
    arguments = ["site/tiny.yaml::tiny_1b_bf16[H100x9]"] if by_path else ["baselines/tiny.yaml::tiny_1b_bf16[H100x9]"]
    if not by_path:
        table.parent.rename(pytester.path / "there")
        arguments = ["--gsw-baselines=there", "there/tiny.yaml::tiny_1b_bf16[H100x9]"]
    result = pytester.runpytest(DEMO, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: not found: *tiny.yaml::tiny_1b_bf16[[]H100x9]; did you mean 'tiny_1b_bf16[[]H100x8]'?"]
    )
