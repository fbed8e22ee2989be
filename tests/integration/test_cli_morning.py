"""``pytest-gsw`` alone."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.integration.conftest import Gsw

ROWS = ("--gsw-cluster=demo", "-k", "llama2_70b and x128")


def test_without_a_run_it_names_the_next_command(pytester: pytest.Pytester, gsw: Gsw) -> None:
    out = gsw().out
    assert out == "there is no run in .gsw/runs\nnext: pytest --gsw-cluster=NAME, or pytest-gsw --help\n"


def test_the_newest_run_is_told_with_what_to_type_next(pytester: pytest.Pytester, gsw: Gsw) -> None:
    pytester.runpytest(*ROWS).assert_outcomes(passed=2, deselected=139)
    result = pytester.runpytest(*ROWS, "--gsw-demo=*fp8*=slow:12%", "--gsw-demo=*bf16*=oom")
    result.assert_outcomes(failed=1, errors=1, deselected=139)
    lines = gsw().out.splitlines()
    (newest,) = {path.name for path in pytester.path.glob(".gsw/runs/*")} & {lines[0].split()[1]}
    assert re.fullmatch(rf"run +{newest} on demo, \d{{4}}-\d\d-\d\d \d\d:\d\d", lines[0])
    assert re.sub(r" +", " ", lines[1]) == "rows 2 rows: 1 regressed, 1 error"
    assert re.match(
        r"regressed +llama2_70b_fp8\[H100x128\]: throughput .* below the documented .*; since this run", lines[2]
    )
    assert re.match(r"error +llama2_70b_bf16\[H100x128\]: job \S+ failed .*out of memory", lines[3])
    following = [line.split(maxsplit=1)[1] for line in lines if line.startswith("next ")]
    assert ["--gsw-confirm=4" in line for line in following] == [True, False]
    program, *again = shlex.split(following[0])
    assert program == "pytest"
    pytester.runpytest(*again).assert_outcomes(failed=1)


def test_where_all_is_well_the_report_is_next(pytester: pytest.Pytester, gsw: Gsw) -> None:
    pytester.makeini("[pytest]\ngsw_cluster = demo\ngsw_results = out\ngsw_history = none\n")
    pytester.runpytest("-k", "gpt3_175b and x128").assert_outcomes(passed=1, deselected=140)
    lines = gsw().out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", "rows", "next"]
    assert lines[-1].split(maxsplit=1)[1] == "pytest-gsw report last"
