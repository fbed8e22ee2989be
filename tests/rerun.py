"""A test that fails is run once more by itself, and told as flaky if it then passes.

``GSW_FLAKY_LIST=FILE`` turns this on, as ``.ci/run`` does, and FILE gets what is flaky. The second run has a process of
its own, with fixtures of its own: what the first run or another test left behind has no part in it, and nothing
that lives longer than the test, such as a Slurm cluster, ends for it. A worker of pytest-xdist that dies is a failure.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Generator
from pathlib import Path

import pytest

VARIABLE = "GSW_FLAKY_LIST"

_FAILURES = pytest.StashKey[list[pytest.TestReport]]()


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get(VARIABLE):
        config.pluginmanager.register(Rerun(Path(os.environ[VARIABLE])), "gsw-rerun")


class Rerun:
    """Decide each failure by a second run.

    Args:
        flaky: The file to which the flaky tests are added.
    """

    def __init__(self, flaky: Path) -> None:
        self._flaky = flaky

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep a failure back: neither pytest's count of them nor ``--exitfirst`` sees it yet."""
        report = yield
        if report.failed:
            item.stash.setdefault(_FAILURES, []).append(copy.copy(report))
            report.outcome = "undecided"  # type: ignore[assignment] # pytest lets plugins have outcomes of their own
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run the test once more after it has been torn down, and tell what that decides."""
        done = yield
        failures = item.stash.get(_FAILURES, [])
        if failures:
            passed, output = run_alone(item)
            for report in failures:
                if passed:
                    report.outcome = "flaky"  # type: ignore[assignment]
                else:
                    report.sections.append(("second run, by itself", output))
                item.ihook.pytest_runtest_logreport(report=report)
        return done

    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
        """An ``R`` in the row of dots, once it is known that the test is flaky."""
        if report.outcome == "undecided":
            return "", "", ""
        if report.outcome == "flaky":
            return "flaky", "R", ("FLAKY", {"yellow": True})
        return None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the flaky tests, each with its first failure, here and in the file; not in pytest-xdist's workers, too."""
        told = [_told(report) for report in terminalreporter.stats.get("flaky", [])]
        if told and not hasattr(terminalreporter.config, "workerinput"):
            terminalreporter.section("flaky tests")
            terminalreporter.write("\n".join(told))
            with self._flaky.open("a") as file:
                file.write("".join(f"{text}\n" for text in told))


def run_alone(item: pytest.Item) -> tuple[bool, str]:
    """Whether a test passes in a session of its own, which has the same ini-file, and what that session prints."""
    config = item.config
    own = {VARIABLE, "PYTEST_CURRENT_TEST", "PYTEST_VERSION"}
    environ = {
        name: value for name, value in os.environ.items() if name not in own and not name.startswith("PYTEST_XDIST")
    }
    with tempfile.TemporaryDirectory(prefix="gsw-rerun-") as directory:
        junit = Path(directory) / "junit.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={config.rootpath}"]
        command += [f"--config-file={config.inipath}"] if config.inipath else []
        done = subprocess.run(
            [*command, f"--junitxml={junit}", item.nodeid],
            cwd=config.rootpath,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        return done.returncode == 0 and _has_passed(junit), done.stdout


def _has_passed(junit: Path) -> bool:
    """Whether one test was run, and neither skipped nor expected to fail."""
    suites = ET.parse(junit).getroot().iter("testsuite")  # noqa: S314 - our own file
    return [(suite.attrib["tests"], suite.attrib["skipped"]) for suite in suites] == [("1", "0")]


def _told(report: pytest.TestReport) -> str:
    """A flaky test and its first failure."""
    where = f" of {os.environ['TOX_ENV_NAME']}" if "TOX_ENV_NAME" in os.environ else ""
    head = f"flaky: {report.nodeid}{where} failed ({report.when}), and passed when it was run once more by itself:"
    sections = [f"--- {name}\n{content}" for name, content in report.sections]
    return "\n".join([head, report.longreprtext, *sections, ""])
