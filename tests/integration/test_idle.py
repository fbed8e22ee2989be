"""A session that asks for no rows is left alone, and one that comes to have rows has all of the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: At the end of a session, how many modules of ours it has imported.
COUNT = """
import sys

def pytest_unconfigure():
    sys.stdout.write(f"modules: {sum(name.partition('.')[0] == 'pytest_gsw' for name in sys.modules)}\\n")
"""


def run(directory: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A session in a process of its own, which has imported nothing of ours before, without other plugins."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environ},
        capture_output=True,
        text=True,
    )


def modules(ended: subprocess.CompletedProcess[str]) -> int:
    """How many modules of ours a session with :data:`COUNT` has imported."""
    return int(ended.stdout.rpartition("modules: ")[2])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of somebody who does not use the plugin."""
    (tmp_path / "conftest.py").write_text(COUNT)
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "values.yml").write_text("a: 1\n")
    return tmp_path


def test_a_session_without_rows_does_not_care_about_our_variables(project: Path) -> None:
    ended = run(project, "-p", "pytest_gsw.plugin", GSW_HISTORY="oracle://night")
    assert (ended.returncode, modules(ended) <= 8) == (0, True), ended.stdout + ended.stderr


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n1")], ids=["here", "xdist"])
def test_a_table_that_is_named_is_collected_without_any_option(
    project: Path, table: Path, workers: tuple[str, ...]
) -> None:
    ended = run(project, "-p", "pytest_gsw.plugin", "-rs", *workers, str(table), "test_one.py")
    assert ended.returncode == 0, ended.stdout
    assert "1 passed, 3 skipped" in ended.stdout
    assert "no cluster: give --gsw-cluster=NAME to run it" in ended.stdout


def test_a_variable_that_is_wrong_is_said_once_there_is_a_table(project: Path, table: Path) -> None:
    ended = run(project, "-p", "pytest_gsw.plugin", str(table), GSW_HISTORY="oracle://night")
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert (
        "\nGSW_HISTORY: got a URL of 'oracle', wanted a SQLite file, a postgresql:// URL, or 'none'\n=" in ended.stdout
    )


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Options of a session within this process that has no other plugin."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return "-p", "pytest_gsw.plugin"


def test_a_conftest_may_ask_for_a_cluster(pytester: pytest.Pytester, alone: tuple[str, str]) -> None:
    pytester.makeconftest("def pytest_configure(config):\n    config.option.gsw_cluster = 'demo'\n")
    pytester.runpytest(*alone, "-k", "llama2_70b_fp8 and H100x128").assert_outcomes(passed=1, deselected=140)


@pytest.mark.parametrize(
    ("name", "what"), [("pytest_gsw.session.hooks", "judging"), ("pytest_gsw.nvidia.plugin", "launching")]
)
def test_rows_without_their_hooks_are_a_usage_error(
    pytester: pytest.Pytester, alone: tuple[str, str], name: str, what: str
) -> None:
    ended = pytester.runpytest(*alone, "-p", f"no:{name}", "--gsw-cluster=demo")
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    assert ended.errlines == [
        f"ERROR: -p no:{name} disables the {what} of rows",
        "next: leave it out; -p no:pytest_gsw.plugin leaves out the whole plugin",
        "",
    ]


def test_the_built_in_answers_are_there_without_any_option(pytester: pytest.Pytester, alone: tuple[str, str]) -> None:
    pytester.makepyfile(
        "from pytest_gsw.tables.bundled import bundled_baselines\n"
        "from pytest_gsw.clusters.model import DEMO\n"
        "from pytest_gsw.tables.load import load_tables\n"
        "def test_answers(request, tmp_path):\n"
        "    config, hook = request.config, request.config.hook\n"
        "    row = load_tables([bundled_baselines()])[0]\n"
        "    assert hook.pytest_gsw_peak_flops(config=config, accelerator='H100', dtype='fp8') > 1e15\n"
        "    assert hook.pytest_gsw_log_format(config=config, baseline=row).name == row.log_format\n"
        "    assert hook.pytest_gsw_make_launcher(config=config, cluster=DEMO, run_directory=tmp_path).name == 'local'\n"
        "    assert hook.pytest_gsw_make_job_spec(config=config, baseline=row, cluster=DEMO).row_id == row.id\n"
    )
    pytester.runpytest(*alone).assert_outcomes(passed=1)


def test_sessions_within_a_process_judge_alike(project: Path) -> None:
    """pytester forgets what a session within its process has imported, but the packages keep it."""
    (project / "conftest.py").unlink()
    (project / "test_one.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('night', [1, 2])\n"
        "def test_night(pytester, night):\n"
        "    fault = '--gsw-demo=*x128]=slow:20%'\n"
        "    result = pytester.runpytest_inprocess(\n"
        "        '-p', 'pytest_gsw.plugin', '--gsw-cluster=demo', fault, '-k', 'llama2_70b_fp8 and (H100x64 or H100x128)'\n"
        "    )\n"
        "    result.assert_outcomes(passed=1, failed=1, deselected=139)\n"
    )
    ended = run(project, "-p", "pytest_gsw.plugin", "-p", "pytester")
    assert ended.returncode == 0, ended.stdout
