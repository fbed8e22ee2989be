"""A session that asks for no rows is left alone, and one that comes to have rows has all of the plugin.

What it imports is in tests/budget.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.messages import wording

ALONE = ("-p", "pytest_gsw.plugin")


@pytest.fixture(autouse=True)
def _alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project of somebody who does not use the plugin; sessions have no other one."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_one="def test_one(): pass\n")
    pytester.mkdir("data").joinpath("values.yml").write_text("a: 1\n")


def test_a_variable_that_is_wrong_is_said_once_there_is_a_table(
    pytester: pytest.Pytester, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSW_HISTORY", "oracle://night")
    pytester.runpytest(*ALONE, "test_one.py", "data").assert_outcomes(passed=1)
    ended = pytester.runpytest(*ALONE, str(table))
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    assert "GSW_HISTORY: got a URL of 'oracle', wanted a SQLite file, a postgresql:// URL, or 'none'" in ended.outlines


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n1")], ids=["here", "xdist"])
def test_a_table_that_is_named_is_collected_without_any_option(
    pytester: pytest.Pytester, table: Path, workers: tuple[str, ...]
) -> None:
    ended = pytester.runpytest_subprocess(*ALONE, "-rs", *workers, str(table), "test_one.py")
    assert ended.ret == pytest.ExitCode.OK
    ended.assert_outcomes(passed=1, skipped=3)
    ended.stdout.fnmatch_lines(["*" + wording("no cluster given") + " to run it*"])


def test_a_conftest_may_ask_for_a_cluster(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("def pytest_configure(config):\n    config.option.gsw_cluster = 'demo'\n")
    pytester.runpytest(*ALONE, "-k", "llama2_70b_fp8 and H100x128").assert_outcomes(passed=1, deselected=140)


@pytest.mark.parametrize(
    ("name", "what"), [("pytest_gsw.session.hooks", "judging"), ("pytest_gsw.nvidia.plugin", "launching")]
)
def test_rows_without_their_hooks_are_a_usage_error(pytester: pytest.Pytester, name: str, what: str) -> None:
    ended = pytester.runpytest(*ALONE, "-p", f"no:{name}", "--gsw-cluster=demo")
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    assert ended.errlines == [
        f"ERROR: -p no:{name} disables the {what} of rows",
        wording("alone"),
        "",
    ]


def test_the_built_in_answers_are_there_without_any_option(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_one="from pytest_gsw.tables.bundled import bundled_baselines\n"
        "from pytest_gsw.clusters import DEMO\n"
        "from pytest_gsw.tables.load import load_tables\n"
        "def test_answers(request, tmp_path):\n"
        "    config, hook = request.config, request.config.hook\n"
        "    row = load_tables([bundled_baselines()])[0]\n"
        "    assert hook.pytest_gsw_peak_flops(config=config, accelerator='H100', dtype='fp8') > 1e15\n"
        "    assert hook.pytest_gsw_log_format(config=config, baseline=row).name == row.workload.log_format\n"
        "    assert hook.pytest_gsw_make_launcher(config=config, cluster=DEMO, run_directory=tmp_path).name == 'local'\n"
        "    assert hook.pytest_gsw_make_job_spec(config=config, baseline=row, cluster=DEMO).row_id == row.id\n"
    )
    pytester.runpytest(*ALONE).assert_outcomes(passed=1)


def test_sessions_within_a_process_judge_alike(pytester: pytest.Pytester) -> None:
    """pytester forgets what a session within its process has imported, but the packages keep it."""
    pytester.makepyfile(
        test_one="import pytest\n"
        "@pytest.mark.parametrize('night', [1, 2])\n"
        "def test_night(pytester, night):\n"
        "    fault = '--gsw-demo=*x128]=slow:20%'\n"
        "    result = pytester.runpytest_inprocess(\n"
        "        '-p', 'pytest_gsw.plugin', '--gsw-cluster=demo', fault, '-k', 'llama2_70b_fp8 and (H100x64 or H100x128)'\n"
        "    )\n"
        "    result.assert_outcomes(passed=1, failed=1, deselected=139)\n"
    )
    pytester.runpytest_subprocess(*ALONE, "-p", "pytester").assert_outcomes(passed=2)
