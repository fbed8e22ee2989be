"""Jobs that are ended early, limits, and what a waiting session says, on the demo cluster."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

import pytest

from tests.defaults import set_defaults
from tests.integration.conftest import junit, properties
from tests.messages import wording

ONE_ROW = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and x64")


def test_stall(pytester: pytest.Pytester) -> None:
    set_defaults(pytester.path, stall=0.05)
    result = pytester.runpytest(*ONE_ROW, "--gsw-demo=*=stall", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(errors=1, deselected=140)
    result.stdout.re_match_lines(
        [
            wording("stalled", step=25, steps=50, time="\\ds"),
            r"job        \d+ CANCELLED \d+:\d+ after .* on demo-\[01-08\], ended by this session",
            r"last       completed step: 2\d, .*",
            (
                r"next       look for the rank that printed last, and rerun with NCCL_DEBUG=INFO; "
                r"stall: MINUTES in clusters\.yaml if the run does pause for so long"
            ),
            r"gsw: 0\.\d GPU-hours used, about 47 saved by ending 1 job early",
        ]
    )
    (case,) = junit(pytester.path / "junit.xml").values()
    assert [element.tag for element in case if element.tag != "properties"] == ["error"]
    seen = properties(case)
    assert (seen["gsw_outcome"], seen["gsw_job_state"]) == ("error", "CANCELLED")
    # 64 GPUs until the limit is up: three times two starts of 5 minutes, and 15 and 50 steps of 4.324 s.
    assert float(seen["gsw_saved_gpu_hours"]) == pytest.approx(64 * 3 * (600 + 65 * 4.324) / 3600, rel=0.01)


def test_every_row_skipped_is_no_success(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.skip(reason="rack 7 is down"))
        """
    )
    result = pytester.runpytest("--gsw-cluster=demo", "-k", "llama2_70b_fp8", "-q")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["gsw: " + wording("none judged", rows="6 rows") + " (-rs tells why)"])


def on_a_terminal(directory: Path, *arguments: str) -> str:
    """What pytest writes to a terminal 100 columns wide."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(directory)
        os.environ.update(TERM="xterm", COLUMNS="100", GSW_DEMO_SECONDS="3")
        for name in ("NO_COLOR", "CI", "PYTEST_ADDOPTS"):
            os.environ.pop(name, None)
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *arguments])  # noqa: S606 - no shell is the point
    written = b""
    try:
        while data := os.read(terminal, 65536):
            written += data
    except OSError:
        pass  # the terminal's other end is closed
    os.close(terminal)
    os.waitpid(child, 0)
    return written.decode()


def test_a_terminal_has_one_line_that_is_written_over(tmp_path: Path) -> None:
    seen = on_a_terminal(tmp_path, "--gsw-cluster=demo", "-k", "llama2_70b_fp8 and x64", "-p", "no:cacheprovider")
    live = re.findall(r"\r(gsw: (?:about|at least) [^\r\n]*)(?=\r)", seen)
    assert len(live) >= 2
    assert all(len(line) <= 100 for line in live)
    assert re.match(r"gsw: (about|at least) \ds left, 1 (pending|running)", live[0])
    assert any(re.search(r"1 running \(step \d+ of 50\), 0 of 1 done", line) for line in live)
    # The row's own line begins where the live one stood, which is wiped.
    assert re.search(r"\r {90,}\r\x1b\[32mllama2_70b_fp8\[H100x64\] ", seen)


def test_a_record_that_cannot_be_written_is_no_pass(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        def pytest_gsw_job_state_changed(config, baseline):
            from pytest_gsw.session.state import SESSION

            records = config.stash[SESSION].settings.run_directory / "records"
            if not records.exists():
                records.touch()
        """
    )
    result = pytester.runpytest(*ONE_ROW)
    result.assert_outcomes(errors=1, deselected=140)
    result.stdout.re_match_lines(
        [
            wording("cannot be written", what="the record", why="File exists: .*/records"),
            r"the result would have been: passed: throughput .*",
            r"next       make room there, or give another directory with --gsw-results=DIR",
        ]
    )
