"""Formats and launchers that come by a hook exist on the command line, too."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.integration.test_docs import TICK_TABLE, example

LOG = "tick 1 took 2.0 s, loss 9.3\ntick 2 took 0.72 s, loss 9.2\ntick 3 took 0.71 s, loss 9.1\n"


@pytest.fixture
def log(pytester: pytest.Pytester) -> Path:
    (pytester.path / "own.yaml").write_text(TICK_TABLE)
    path = pytester.path / "stage" / "results" / "v1" / "bf16" / "1b" / "8" / "log-own_own_1b_8_pod-abc.out"
    path.parent.mkdir(parents=True)
    path.write_text(LOG)
    return path


def cli(pytester: pytest.Pytester, *arguments: str | Path) -> pytest.RunResult:
    return pytester.run(sys.executable, "-m", "pytest_gsw.cli", *map(str, arguments))


def test_a_format_of_a_conftest(pytester: pytest.Pytester, log: Path) -> None:
    pytester.makeconftest(f"print('hello')\n{example('pytest_gsw_log_format')}")
    result = cli(pytester, "metrics", log, "--row=own_1b_bf16[X100x8]", "--baselines=own.yaml", "--json")
    assert result.ret == 0
    assert json.loads(result.stdout.str())["step_time_s"] == 0.71
    assert cli(pytester, "metrics", log, "--format=tick").ret == 0
    added = cli(
        pytester, "history", "--from-logs=stage", "--cluster=ours", "--baselines=own.yaml", "--history=h.sqlite"
    )
    added.stdout.fnmatch_lines(["*1 record of 1 run added*"])
    listed = cli(pytester, "history", "--history=h.sqlite", "--csv")
    listed.stdout.fnmatch_lines(["own_1b_bf16*,pod-abc,0.71,*"])


def test_a_format_of_a_named_plugin(pytester: pytest.Pytester, log: Path) -> None:
    pytester.makepyfile(tickplugin=example("pytest_gsw_log_format"))
    assert cli(pytester, "metrics", log, "--format=tick", "-p", "tickplugin").ret == 0
    unknown = cli(pytester, "metrics", log, "--format=tick")
    assert unknown.ret == 2
    unknown.stderr.fnmatch_lines(
        [
            "pytest-gsw metrics: unknown log format 'tick'*",
            "known: automodel, composer, deepspeed, *, and what the plugins of * add",
            "next: name the plugin that brings it with -p MODULE",
        ]
    )


def test_a_plugin_that_cannot_be_loaded_is_told(pytester: pytest.Pytester, log: Path) -> None:
    pytester.makeconftest("import nosuchmodule")
    result = cli(pytester, "metrics", log, "--format=tick")
    assert result.ret == 2
    result.stderr.fnmatch_lines(["*nosuchmodule*", "pytest-gsw: the plugins of * cannot be loaded*"])
    assert "Traceback (most recent call last)" not in result.stderr.str()
