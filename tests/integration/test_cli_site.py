"""Formats and launchers that come by a hook exist on the command line, too."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Gsw
from tests.integration.test_docs import TICK_TABLE, example

LOG = "tick 1 took 2.0 s, loss 9.3\ntick 2 took 0.72 s, loss 9.2\ntick 3 took 0.71 s, loss 9.1\n"


@pytest.fixture
def log(pytester: pytest.Pytester) -> Path:
    (pytester.path / "own.yaml").write_text(TICK_TABLE)
    path = pytester.path / "stage" / "results" / "v1" / "bf16" / "1b" / "8" / "log-own_own_1b_8_pod-abc.out"
    path.parent.mkdir(parents=True)
    path.write_text(LOG)
    return path


def test_a_format_of_a_conftest(pytester: pytest.Pytester, log: Path, gsw: Gsw) -> None:
    pytester.makeconftest(f"print('hello')\n{example('pytest_gsw_log_format')}")
    assert (
        json.loads(gsw("metrics", log, "--row=own_1b_bf16[X100x8]", "--baselines=own.yaml", "--json").out)[
            "step_time_s"
        ]
        == 0.71
    )
    added = ["history", "--from-logs=stage", "--cluster=ours", "--baselines=own.yaml", "--history=h.sqlite"]
    assert "1 record of 1 run added" in gsw(*added).out
    assert re.search(r"^own_1b_bf16.*,pod-abc,0\.71,", gsw("history", "--history=h.sqlite", "--csv").out, re.MULTILINE)


def test_a_format_of_a_named_plugin(pytester: pytest.Pytester, log: Path, gsw: Gsw) -> None:
    pytester.makepyfile(tickplugin=example("pytest_gsw_log_format"))
    pytester.syspathinsert()
    gsw("metrics", log, "--format=tick", "-p", "tickplugin")
    unknown, known, following = gsw("metrics", log, "--format=tick", status=2).err.splitlines()
    assert unknown.startswith("pytest-gsw metrics: unknown log format 'tick'")
    assert re.fullmatch(r"known: automodel, composer, deepspeed, .*, and what the plugins of .* add", known)
    assert following == "next: name the plugin that brings it with -p MODULE"


def test_a_plugin_that_cannot_be_loaded_is_told(pytester: pytest.Pytester, log: Path) -> None:
    pytester.makeconftest("import nosuchmodule")
    result = pytester.run(sys.executable, "-m", "pytest_gsw.cli", "metrics", log, "--format=tick")
    assert result.ret == 2
    result.stderr.fnmatch_lines(["*nosuchmodule*", "pytest-gsw: the plugins of * cannot be loaded*"])
    assert "Traceback (most recent call last)" not in result.stderr.str()
