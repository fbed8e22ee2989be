"""``read`` of a table: a text around the number, a program's name, or a block."""

from __future__ import annotations

import json

import pytest

from tests import programs
from tests.integration.conftest import Gsw, records

RANKS = "".join(
    f"[rank {rank}] Dispatch bandwidth: {5.9 if rank == 3 else 40 + rank / 10:.2f} GB/s, avg_t=187.40 us\n"
    for rank in (1, 2, 0, 3, 5, 4, 7, 6)
)
DISPATCH = (
    "metric: dispatch, unit: GB/s, better: higher, read: {line: '[rank*] Dispatch bandwidth: {} GB/s*', each: 8, "
)


@pytest.mark.parametrize(
    ("keys", "value", "log", "word", "line"),
    [
        ("read: hpl", 480, programs.hpl(), "passed", "*PASSED     hpl gflops +0.5 %  482.2 Gflop/s*"),
        ("read: hpl", 480, programs.hpl("1.1e+02"), "failed", "*REGRESSED  hpl gflops -77.1 %  110 Gflop/s*"),
        ("read: aiperf", 10900, programs.aiperf(), "passed", "*PASSED     output throughput +0.4 %  10,944 tokens/s*"),
        ("read: ib_write_bw, at: 65536", 390.8, programs.ib_write_bw(), "passed", "*390.9 Gbit/s at 65536*"),
        ("read: dcgm", 1, programs.dcgm(), "passed", "*PASSED     dcgm passed +0.0 %  1 pass*"),
        ("read: dcgm", 1, programs.dcgm("Fail"), "errors", "*is not valid: 'Fail' is in it: *"),
        (DISPATCH + "statistic: min}", 40.4, RANKS, "failed", "*REGRESSED  dispatch -85.4 %  5.9 GB/s*"),
        (DISPATCH + "statistic: median}", 40.2, RANKS, "passed", "*PASSED     dispatch *"),
        ("metric: a, unit: x, better: lower, read: 'a: {}'", 5, "a: 5 x\n", "passed", "*PASSED     a +0.0 %  5 x*"),
        ("read: hpl", 480, programs.hpl("1e+02") + programs.hpl(), "errors", "*2 runs, or headings, and the table's*"),
        ("read: stream, at: Triad", 1, programs.hpl(), "errors", "*this is the output of hpl: write 'read: hpl' into*"),
    ],
)
def test_read(pytester: pytest.Pytester, keys: str, value: float, log: str, word: str, line: str) -> None:
    (pytester.path / "own.yaml").write_text(programs.table(keys, value))
    (pytester.path / "own.log").write_text(log)
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.assert_outcomes(**{word: 1})
    result.stdout.fnmatch_lines([line.replace("[", "[[]")])


def test_a_programs_name_is_a_framework(pytester: pytest.Pytester, gsw: Gsw) -> None:
    (pytester.path / "own.yaml").write_text(programs.table("dtype: fp64", 480, "hpl"))
    (pytester.path / "own.log").write_text(programs.hpl())
    pytester.runpytest("--gsw-replay=own.log", "own.yaml").assert_outcomes(passed=1)
    assert [(record["metric"], record["measured"]["value"]) for record in records(pytester.path)] == [
        ("hpl_gflops", 482.21)
    ]
    (row,) = json.loads(gsw("rows", "own.yaml", "--json").out)
    assert (row["unit"], row["better"], row["read"]["column"]) == ("Gflop/s", "higher", "Gflops")
