"""``--gsw-baselines``: a site's own tables work as the bundled ones do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import Gsw, junit, properties, tiny_table
from tests.messages import wording


def test_the_ini_twin_is_relative_to_the_ini_file(
    pytester: pytest.Pytester, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\ngsw_baselines = site\n")
    monkeypatch.chdir(pytester.mkdir("elsewhere"))
    pytester.runpytest("--gsw-cluster=demo", "-c", str(pytester.path / "tox.ini")).assert_outcomes(passed=3)


def test_tables_outside_the_rootdir_keep_short_ids_that_select(
    pytester: pytest.Pytester, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = pytester.mkdir("project")
    (project / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(project)
    tables = f"--gsw-baselines={table.parent}"
    node_id = "site/tiny.yaml::tiny_1b_bf16[H100x16]"
    result = pytester.runpytest("--gsw-cluster=demo", tables, "--rootdir", str(project), node_id)
    result.assert_outcomes(passed=1)
    assert any(line.startswith("tiny_1b_bf16[H100x16]  PASSED ") for line in result.outlines)


def test_a_table_of_ones_own_needs_no_more_than_what_is_judged(pytester: pytest.Pytester, gsw: Gsw) -> None:
    """Neither a line of its document, nor how many steps there are, nor a length: step times need none of them."""
    text = tiny_table("gpus: 8, step_time_s: 1.000", "gpus: 16, step_time_s: 0.500, line: 11")
    own = text.replace("sequence_length: 1024\n", "").replace(", steps: 20", "")
    pytester.path.joinpath("tiny.yaml").write_text(own)
    result = pytester.runpytest(
        "--gsw-cluster=demo", "--gsw-baselines=tiny.yaml", "--junitxml=junit.xml", "--gsw-demo=*x16*=slow:12%"
    )
    result.assert_outcomes(passed=1, failed=1)
    cases = junit(pytester.path / "junit.xml")
    passed, failed = (properties(cases[f"tiny_1b_bf16[H100x{gpus}]"]) for gpus in (8, 16))
    assert (passed["gsw_document"], failed["gsw_document"]) == ("site.md", "site.md:11")
    assert not [name for name in passed if "tokens" in name or "days" in name]
    assert passed["gsw_documented_step_time_s"] == "1.0"
    assert [line.split()[-1] for line in gsw("rows", "tiny.yaml").out.splitlines() if "H100" in line] == [
        "site.md",
        "site.md:11",
    ]


def test_a_log_format_that_nobody_reads(pytester: pytest.Pytester, table: Path) -> None:
    table.write_text(table.read_text().replace("framework: maxtext", "framework: maxtext\nlog_format: unheard"))
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "-k", "x16")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*site/tiny.yaml:4:13    log_format: unknown log format 'unheard'; known: *"])


def test_a_row_whose_own_figures_are_impossible_has_no_job(pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("site.yaml").write_text(
        tiny_table("gpus: 8, step_time_s: 0.5, line: 10", "gpus: 16, step_time_s: 0.005, mfu: 24.3%, line: 11")
    )
    result = pytester.runpytest("--gsw-cluster=demo", "site.yaml")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "the table contradicts itself: MFU 485.3 % is impossible, and its own 0.005 s gives it",
            "baseline   */site.yaml:15",
            "document   site.md:11",
            "documented 0.005 s a step, an MFU of 24.3 %",
            "computed   64 * 6e+12 FLOPs / 0.005 s / 16 GPUs / 9.89e+14 FLOP/s = 485.3 %",
            "next       correct model_flops there, or leave it out: the verdict does not rest on it",
        ]
    )
    assert len(list(pytester.path.glob(".gsw/runs/*/stage/*"))) == 1


def test_two_rows_of_one_name_are_a_usage_error(pytester: pytest.Pytester, table: Path) -> None:
    twin = table.with_name("twin.yaml")
    twin.write_text(table.read_text())
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: " + wording("two rows of a name", row="tiny_1b_bf16[[]H100x8]"),
            f"  {table}:14",
            f"  {twin}:14",
            wording("next case"),
        ]
    )
    pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "site/twin.yaml").assert_outcomes(passed=3)
