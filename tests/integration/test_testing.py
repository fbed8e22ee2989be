"""The contract suite as a site runs it."""

from __future__ import annotations

import pytest


def test_the_contract_finds_what_is_wrong(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import re

        import pytest

        from pytest_gsw import Step, StepLog
        from pytest_gsw.jobs.local import LocalLauncher
        from pytest_gsw.testing import LauncherContract, LogFormatContract


        class Old(LocalLauncher):
            def poll(self, jobs):
                return {job.id: status for job, status in zip(jobs, super().poll(jobs).values())}


        class TestOld(LauncherContract):
            @pytest.fixture
            def launcher(self, tmp_path):
                return Old(2, work_directory=tmp_path)


        class Naive:
            name = "tick"
            dialects = ((b"tick ",),)
            first_index = 1
            wraps = False
            shows_progress = True

            def reader(self):
                return NaiveParser()


        class NaiveParser:
            def __init__(self):
                self.steps = ()

            def feed(self, offset, record):
                m = re.search(rb"tick (\\d+) took ([\\d.]+) s", record)
                if m:
                    self.steps += (Step(int(m[1]), seconds=float(m[2]), offset=offset),)

            def log(self):
                return StepLog("tick", self.steps, attempts=1)


        class TestNaive(LogFormatContract):
            @pytest.fixture
            def log_format(self):
                return Naive()

            def line(self, index, seconds, loss):
                return f"tick {index} took {seconds} s, loss {loss}\\n".encode()
        """
    )
    result = pytester.runpytest("-k", "TestNaive or end_well or never_was or shape", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["E * AssertionError: poll() answers by *, wanted row ids: *"])
    assert result.parseoutcomes()["failed"] >= 1
