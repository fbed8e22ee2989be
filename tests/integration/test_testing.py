"""The contract suite as a site runs it."""

from __future__ import annotations

import pytest


def test_the_contract_finds_what_is_wrong(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        from pytest_gsw.jobs.local import LocalLauncher
        from pytest_gsw.testing import LauncherContract


        class Old(LocalLauncher):
            def poll(self, jobs):
                return {job.id: status for job, status in zip(jobs, super().poll(jobs).values())}


        class TestOld(LauncherContract):
            @pytest.fixture
            def launcher(self, tmp_path):
                return Old(2, work_directory=tmp_path)
        """
    )
    result = pytester.runpytest("-k", "end_well or never_was or shape", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["E * AssertionError: poll() answers by *, wanted row ids: *"])
    result.assert_outcomes(passed=2, failed=1, deselected=5)


def test_the_contract_shows_the_values_that_differ(pytester: pytest.Pytester) -> None:
    """As of a format in milliseconds, whose test writes seconds."""
    pytester.makepyfile(
        """
        import re

        import pytest

        from pytest_gsw import LineFormat, StepLine
        from pytest_gsw.testing import LogFormatContract


        class Pulse(LineFormat):
            name = "pulse"
            dialects = ((b"pulse ",),)
            first_index = 0
            unit = "milliseconds"

            def step(self, line):
                found = re.search(rb"pulse ([0-9]+) ([^ ]+) ms", line)
                return found and StepLine(int(found[1]), found[2])


        class TestPulse(LogFormatContract):
            prints_loss = False

            @pytest.fixture
            def log_format(self):
                return Pulse()

            def line(self, index, seconds, loss):
                return f"pulse {index} {seconds} ms\\n".encode()
        """
    )
    result = pytester.runpytest_subprocess("-k", "reads_each_step", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["E  *assert [[]0.0005, *"])
    result.assert_outcomes(failed=1, deselected=7)
