"""``--gsw-cluster``: without it nothing runs; with it the tables are what is collected."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.tables.bundled import bundled_baselines, is_table
from pytest_gsw.tables.load import load_table
from tests.integration.conftest import records
from tests.messages import wording


def test_an_ordinary_session_is_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(): pass")
    (pytester.path / "compose.yaml").write_text("services: {}\n")
    result = pytester.runpytest()
    result.assert_outcomes(passed=1)
    assert "gsw" not in result.stdout.str().replace("plugins: ", "").split("rootdir")[0]
    assert not (pytester.path / ".gsw").exists()


def test_a_row_of_each_table_runs_on_the_demo(pytester: pytest.Pytester) -> None:
    """What every row's simulated log comes to is in tests/unit/demo/test_recipe.py."""
    tables = [load_table(path) for path in sorted(bundled_baselines().glob("*/*.yaml")) if is_table(path)]
    ids = [next(row.id for row in rows if not row.criterion.expected_failure) for rows in tables]
    result = pytester.runpytest("--gsw-cluster=demo", "-q", "-k", " or ".join(ids))
    result.assert_outcomes(passed=len(ids), deselected=141 + 26 - len(ids))  # with those of benchmarks, which are named


@pytest.mark.parametrize(
    ("options", "last"),
    [
        ((), "=* 3 skipped in *"),
        (("-q",), "3 skipped in *"),
        (("-p", "no:terminal"), None),
        (("-n1",), "=* 3 skipped in *"),
        (("--setup-plan",), "=* 3 skipped in *"),
    ],
    ids=["alone", "quiet", "without a terminal", "xdist", "setup-plan"],
)
def test_rows_that_nothing_runs_are_told_and_no_success(
    pytester: pytest.Pytester, table: Path, options: tuple[str, ...], last: str | None
) -> None:
    """An option of CI that got lost; a run without a job would be green."""
    run = pytester.runpytest_subprocess if "-n1" in options else pytester.runpytest
    result = run("--gsw-baselines=site", "site", *options)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert not (pytester.path / ".gsw").exists()
    if last is not None:
        result.stdout.fnmatch_lines(
            [
                wording("rows skipped", rows="3 rows") + wording("or replay"),
                last,
            ]
        )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("pass", pytest.ExitCode.OK),
        ("assert not 1", pytest.ExitCode.TESTS_FAILED),
        ("__import__('pytest').skip()", pytest.ExitCode.OK),
    ],
    ids=["passed", "failed", "skipped itself"],
)
def test_beside_rows_that_nothing_runs_the_status_of_other_tests_counts(
    pytester: pytest.Pytester, table: Path, body: str, status: pytest.ExitCode
) -> None:
    pytester.makepyfile(f"def test_one(): {body}")
    result = pytester.runpytest("--gsw-baselines=site")
    assert result.ret == status
    result.stdout.fnmatch_lines([wording("rows skipped", rows="3 rows") + " *"])


def test_a_cluster_without_a_name_is_a_usage_error(pytester: pytest.Pytester, table: Path) -> None:
    """A variable of CI that is not set; a run without a job would be green."""
    result = pytester.runpytest("--gsw-cluster=", "--gsw-baselines=site")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            wording("empty value", name="ERROR: --gsw-cluster"),
            wording("give or leave out"),
        ]
    )


def test_rows_that_do_not_fit_are_skipped_or_left_out_with_the_reason(pytester: pytest.Pytester, table: Path) -> None:
    (pytester.path / "clusters.yaml").write_text(
        "clusters:\n  small: {scheduler: local, accelerator: H100, gpus: 8, stage: stage}\n"
    )
    result = pytester.runpytest(
        "--gsw-cluster=small", "--gsw-baselines=site", "-rs", "-m", "gsw(gpus=16) or gsw(accelerator='B200')"
    )
    result.assert_outcomes(skipped=1, deselected=2)
    result.stdout.fnmatch_lines(
        [
            wording("rows left out", rows="1 row for B200", why="small has H100"),
            "SKIPPED * " + wording("no bigger than", gpus=16, cluster="small", there=8),
        ]
    )


def test_collect_only_submits_nothing(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--collect-only", "-q", "-k", "llama2_70b_fp8")
    assert result.ret == pytest.ExitCode.OK
    assert [line for line in result.outlines if "::" in line] == [
        f"baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x{gpus}]" for gpus in (64, 128, 256, 512, 1024, 2048)
    ]
    assert not (pytester.path / ".gsw").exists()


def test_a_collection_error_submits_nothing(pytester: pytest.Pytester, table: Path) -> None:
    (table.parent / "wrong.yaml").write_text("modle: x\n")
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)
    assert not list(pytester.path.glob(".gsw/runs/*/stage"))


def test_workers_of_xdist_are_left_out(pytester: pytest.Pytester, table: Path) -> None:
    pytester.makepyfile("def test_other(): pass")
    result = pytester.runpytest_subprocess(
        "--gsw-cluster=demo", "-n2", str(table), "test_workers_of_xdist_are_left_out.py"
    )
    result.assert_outcomes(passed=4)
    left_out = "gsw: -n is left out: one process submits all rows, whose jobs run side by side"
    assert result.outlines.count(left_out) == 1
    assert len(records(pytester.path)) == 3


def test_workers_of_xdist_run_other_tests_where_no_row_is_judged(pytester: pytest.Pytester, table: Path) -> None:
    pytester.makepyfile("import os\n\ndef test_other(): assert os.environ['PYTEST_XDIST_WORKER']")
    pytester.runpytest_subprocess("-n2").assert_outcomes(passed=1)
