"""The example of a benchmark that does not train: two commands that run in turn, docs/examples/program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.conftest import records

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "program"
COMMANDS = 'base: "seq 1000000 | gzip -6", new: "seq 1000000 | gzip -9"'
BASE = "python3 -c 'sum(range(2000000))'"


def run(pytester: pytest.Pytester, new: str, tolerance: str = "20%") -> pytest.RunResult:
    """The example with other commands, of two pairs."""
    shutil.copytree(EXAMPLE, pytester.path, dirs_exist_ok=True)
    text = (EXAMPLE / "program.yaml").read_text()
    assert COMMANDS in text
    text = text.replace(COMMANDS, f'base: "{BASE}", new: "{new}"')
    (pytester.path / "program.yaml").write_text(
        text.replace("tolerance: 20%", f"tolerance: {tolerance}").replace("max_gain: 1000%", "max_gain: 100000%")
    )
    (pytester.path / "clusters.yaml").write_text(
        "clusters: {here: {scheduler: local, accelerator: CPU, gpus: 1, stage: ./stage, poll_interval: 0.5, "
        "environment: {PAIRS: '2'}}}\n"
    )
    return pytester.runpytest("--gsw-cluster=here", "program.yaml")


def test_a_command_costs_as_much_as_itself(pytester: pytest.Pytester) -> None:
    run(pytester, BASE, tolerance="80%").assert_outcomes(passed=1)
    (found,) = records(pytester.path)
    assert (found["documented"]["value"], found["label"]["unit"]) == (1, "x")
    (log,) = pytester.path.glob("stage/results/1/text/any/1/*.out")
    kinds = [line.partition(": ")[0] for line in log.read_text().splitlines()]
    pair = ["processor time", "peak memory"]
    assert kinds == ["GSW", "base", "new", *pair, "new", "base", *pair, "median of processor time"]


def test_a_command_that_takes_more_time_or_memory_regresses(pytester: pytest.Pytester) -> None:
    slow = run(pytester, "python3 -c 'sum(range(40000000)); bytearray(200000000)'")
    slow.assert_outcomes(failed=1)
    slow.stdout.fnmatch_lines(
        [
            "processor time * x is * % above the documented 1 x (allowed 25 %); peak memory * x is * % above *",
            "processor time (x) *regressed",
            "peak memory (x) *regressed",
        ]
    )


def test_a_command_that_fails_is_an_error_with_its_output(pytester: pytest.Pytester) -> None:
    failed = run(pytester, "echo no such option; exit 3")
    failed.assert_outcomes(errors=1)
    failed.stdout.fnmatch_lines(["*exit code 3: echo no such option; exit 3*"])
