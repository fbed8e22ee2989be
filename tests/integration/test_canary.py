"""Canary rows: a run in which they are too slow is inconclusive, not red."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.defaults import set_defaults
from tests.integration.conftest import records, tiny_table

ROW, OTHER = "tiny_1b_bf16[H100x16]", "tiny_1b_bf16[H100x32]"
CANARY = "tiny_1b_bf16[H100x8-canary]"


@pytest.fixture
def table(pytester: pytest.Pytester) -> Path:
    path = pytester.path / "canary.yaml"
    path.write_text(
        tiny_table(
            "gpus: 16, step_time_s: 0.500, line: 11",
            "gpus: 32, step_time_s: 0.250, line: 12",
            "gpus: 8, step_time_s: 1.000, case: canary, canary: true, line: 10",
        )
    )
    return path


def run(pytester: pytest.Pytester, table: Path, *options: str) -> tuple[pytest.RunResult, dict[str, tuple[str, str]]]:
    """The session, and outcome and reason of each row."""
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-baselines={table}", "-rs", *options)
    found = records(pytester.path)
    return result, {one["row"]: (one["outcome"], (one["verdict"] or {}).get("given_reason")) for one in found}


@pytest.mark.parametrize(("fault", "canary"), [("slow:0%", "passed"), ("fail", "error")])
def test_a_canary_that_was_healthy_or_could_not_be_measured_excuses_nobody(
    pytester: pytest.Pytester, table: Path, fault: str, canary: str
) -> None:
    faults = ("--gsw-demo=*x16]=slow:20%", f"--gsw-demo=*canary*={fault}")
    result, found = run(pytester, table, *faults, "-k", "not x32")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert (found[CANARY][0], found[ROW][0]) == (canary, "regressed")


def test_a_slow_canary_makes_slow_rows_inconclusive_and_takes_no_pass_away(
    pytester: pytest.Pytester, table: Path
) -> None:
    # One job at a time, so that the canary has been judged before the rows' jobs end.
    faults = ("--gsw-demo=*x16]=slow:20%", "--gsw-demo=*canary*=slow:20%")
    set_defaults(pytester.path, max_jobs=1)
    result, found = run(pytester, table, *faults, "--gsw-confirm=2")
    result.assert_outcomes(passed=1, skipped=2)
    assert result.ret == 6
    assert (found[CANARY], found[ROW]) == (("inconclusive", "canary"), ("inconclusive", "canary"))
    assert found[OTHER][0] == "passed"
    jobs = {one["row"]: 1 + len(one["repeats"]) for one in records(pytester.path)}
    assert jobs == {CANARY: 2, ROW: 1, OTHER: 1}  # the canary itself was confirmed
    result.stdout.re_match_lines(
        [
            r"SKIPPED .*: inconclusive: .*; it is a canary: the cluster is not in its usual state",
            r"SKIPPED .*: inconclusive: .*; the canary tiny_1b_bf16\[.*\] was too slow as well",
        ]
    )
    (directory,) = pytester.path.glob(".gsw/runs/*")
    replay = pytester.runpytest(f"--gsw-replay={directory}", f"--gsw-baselines={table}", "-k", "x16")
    replay.assert_outcomes(skipped=1, deselected=2)  # alone, without its canary
    assert replay.ret == 6


PERF = """\
#!/bin/bash
echo "NCCL version 2.21.5+cuda12.4"
echo "#       size         count      type   redop    root     time   algbw   busbw #wrong"
for ((cycle = 0; cycle < 20; cycle++)); do
    echo "  1073741824     268435456     float     sum      -1  $MICROSECONDS  189.0  372.1      0"
done
"""


def test_the_example_of_a_canary(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    example = Path(__file__).parents[2] / "docs" / "examples" / "canary"
    (pytester.path / "canary").mkdir()
    shutil.copy(example / "launch.sh", pytester.path / "canary")
    (pytester.path / "bin").mkdir()
    (pytester.path / "bin" / "all_reduce_perf").write_text(PERF)
    (pytester.path / "bin" / "all_reduce_perf").chmod(0o755)
    (pytester.path / "clusters.yaml").write_text(
        f"clusters: {{here: {{scheduler: local, gpus: 64, stage: {pytester.path}/stage, recipes: {pytester.path}}}}}\n"
    )
    monkeypatch.setenv("PATH", str(pytester.path / "bin"), prepend=os.pathsep)
    options = ("--gsw-cluster=here", f"--gsw-baselines={example}/canary.yaml", "-rs")
    monkeypatch.setenv("MICROSECONDS", "5702.4")
    pytester.runpytest(*options).assert_outcomes(passed=1)
    (found,) = records(pytester.path)
    assert (found["measured"]["step_time_s"], found["measured"]["tokens_per_s"]) == (0.005702, None)
    assert found["environment"] == {"nccl": "2.21.5+cuda12.4"}
    monkeypatch.setenv("MICROSECONDS", "9100.0")
    result = pytester.runpytest(*options)
    result.assert_outcomes(skipped=1)
    assert result.ret == 6
