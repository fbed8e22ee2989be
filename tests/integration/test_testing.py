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
    result.assert_outcomes(passed=2, failed=1, deselected=4)
